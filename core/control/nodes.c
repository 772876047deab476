/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel of a node: what other threads call. */
#include "nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "listener.h"
#include "node_proto.h"
#include "util/limit_remedy.h"
#include "util/log.h"

/* Connections beyond the peers: of strangers, and of those about to be told that there are
 * enough. */
#define STRANGERS_MAX 256

static const struct connect_words node_words = {
    .listen = "listen",
    .connect = "connect",
    .check = "check the address",
    .in_use = "another server is running there? stop it, or choose another port",
    .not_ours = "choose an address of this host: one of those `ip address` shows"};

static int node_prepare(struct control *control, const struct control_node_params *params,
                        struct pst_error *error)
{
  struct node_control *node = &control->node;
  int rc = terms_copy(params->terms, params->term_count, &node->terms);

  if (rc == 0)
    rc = terms_copy(params->params, params->param_count, &node->params);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "control: out of memory");
  node->heard = params->heard;
  node->context = params->context;
  node->offers_max = params->offers_max;
  node->messages_max = params->messages_max;
  node->needs_fds = params->needs_fds;
  node->last_id = UINT64_MAX; /* odd from here */
  rc = control_ready(control, error);
  return rc < 0 || !params->listen
             ? rc
             : listener_open(control, params->listen, params->insecure, error);
}

/* As whoever runs the program writes it. */
static void node_name_insecure(struct control *control, const char *word)
{
  struct node_control *node = &control->node;

  snprintf(node->insecure_text, sizeof node->insecure_text, "allow it with %s",
           word ? word : "`insecure`");
  node->words = node_words;
  node->words.insecure = node->insecure_text;
  node->words.is_set = word ? word : "insecure";
  control->words = &node->words;
}

int control_node_open(const struct control_node_params *params, struct control **result,
                      struct pst_error *error)
{
  struct control_limits limits = control_default_limits;
  struct control_params common = {.connect_timeout_ns = params->join_timeout_ns,
                                  .peer_timeout_ns = params->peer_timeout_ns};

  if (params->term_count > CONTROL_TERMS_MAX || params->param_count > CONTROL_PARAMS_MAX)
    return pst_fail(error, PST_EXIT_USAGE, -E2BIG, "%u terms and %u params; at most %d and %d",
                    params->term_count, params->param_count, CONTROL_TERMS_MAX, CONTROL_PARAMS_MAX);
  limits.peers_max = params->peers_max + STRANGERS_MAX;
  struct control *control = control_new(&common, &limits, &node_protocol);
  if (!control)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
  node_name_insecure(control, params->insecure_word);
  int rc = node_prepare(control, params, error);
  if (rc == 0)
    rc = control_run(control, result, error);
  if (rc < 0)
    control_free(control);
  return rc;
}

uint16_t control_node_port(const struct control *control)
{
  return control_port(control);
}

int control_node_connect(struct control *control, uint64_t id, const char *host_port, bool insecure,
                         const struct pst_blob *address, struct pst_error *error)
{
  struct command *command = calloc(1, sizeof *command);
  struct node_join *join = calloc(1, sizeof *join);
  int rc = command && join ? 0 : -ENOMEM;

  if (rc == 0)
    rc = blob_copy(address, CONTROL_ADDRESS_MAX, &join->address);
  if (rc < 0)
    pst_fail(error, PST_EXIT_FAILED, rc, "connect: %s: %s%s", host_port, strerror(-rc),
             limit_remedy(rc));
  else
    rc = address_resolve(control, host_port, false, insecure, &join->targets, error);
  if (rc < 0) {
    node_join_free(join);
    free(command);
    return rc;
  }
  join->id = id;
  join->is_insecure = insecure;
  command->type = WIRE_JOIN;
  command->join = join;
  commands_submit(control, command);
  return 0;
}

int control_node_say(struct control *control, const struct control_node_message *m)
{
  const struct command command = {.type = m->type,
                                  .node = m->id,
                                  .region = m->region,
                                  .access = m->access,
                                  .count = m->count,
                                  .length = m->length,
                                  .code = m->code};

  return commands_say(control, &command, m->blob, m->text);
}
