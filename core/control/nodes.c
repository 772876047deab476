/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel of a node: what other threads call, and how it connects to other nodes: each
 * attempt tries its addresses one after the other. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "node_dial.h"
#include "util/clock.h"
#include "util/limit_remedy.h"
#include "util/log.h"

/* Connections beyond the peers: of strangers, and of those about to be told that there are
 * enough. */
#define STRANGERS_MAX 256

/* A server that strangers crowd hangs up on those who have not shown themselves. */
#define AGAIN_PAUSE_NS (20 * PST_NS_PER_MS)
#define AGAIN_NS PST_NS_PER_S

static const struct connect_words node_words = {
    .listen = "listen",
    .connect = "connect",
    .tls = "name the files of `tls`",
    .check = "check the address",
    .in_use = "another server is running there? stop it, or choose another port",
    .not_ours = "choose an address of this host: one of those `ip address` shows"};

/* As whoever runs the program writes it. */
static void node_name_insecure(struct node_control *node, const char *word)
{
  snprintf(node->insecure_text, sizeof(node->insecure_text), "allow it with %s",
           word ? word : "`insecure`");
  node->words = node_words;
  node->words.insecure = node->insecure_text;
  node->words.is_set = word ? word : "insecure";
  if (word)
    node->words.tls = "give --tls-certificate, --tls-key and --tls-ca, or --tls-psk";
}

static int node_prepare(struct control *control, const struct control_node_params *params,
                        struct pst_error *error)
{
  struct node_control *node = control->node = calloc(1, sizeof(*node));
  int rc = node ? terms_copy(params->terms, params->term_count, &node->terms) : -ENOMEM;

  if (rc == 0)
    rc = terms_copy(params->params, params->param_count, &node->params);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "control: out of memory");
  node_name_insecure(node, params->insecure_word);
  control->words = &node->words;
  node->asked = *params;
  node->last_id = UINT64_MAX; /* odd from here */
  return params->listen ? listener_open(control, params->listen, params->insecure, error) : 0;
}

void node_control_free(struct node_control *node)
{
  if (!node)
    return;
  terms_free(&node->terms);
  terms_free(&node->params);
  free(node);
}

int control_node_open(const struct control_node_params *params, struct control **result,
                      struct pst_error *error)
{
  struct control_limits limits = control_default_limits;
  const struct control_params common = {.connect_timeout_ns = params->join_timeout_ns,
                                        .peer_timeout_ns = params->peer_timeout_ns,
                                        .insecure = params->insecure,
                                        .tls = params->tls,
                                        .limits = &limits};
  struct control *control;

  if (params->term_count > CONTROL_TERMS_MAX || params->param_count > CONTROL_PARAMS_MAX)
    return pst_fail(error, PST_EXIT_USAGE, -E2BIG, "%u terms and %u params; at most %d and %d",
                    params->term_count, params->param_count, CONTROL_TERMS_MAX, CONTROL_PARAMS_MAX);
  limits.peers_max = params->peers_max + STRANGERS_MAX;
  int rc = control_new(&common, &node_protocol, &control, error);
  if (rc < 0)
    return rc;
  return control_start(control, node_prepare(control, params, error), result, error);
}

int control_node_connect(struct control *control, uint64_t id, const char *host_port, bool insecure,
                         const struct pst_blob *address, struct pst_error *error)
{
  struct command *command = calloc(1, sizeof(*command));
  struct node_join *join = calloc(1, sizeof(*join));
  int rc = command && join ? 0 : -ENOMEM;

  assert(id % 2 == 0); /* odd ones are those that come */

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
  snprintf(join->host_port, sizeof(join->host_port), "%s", host_port);
  join->is_insecure = insecure;
  command->say.type = WIRE_JOIN;
  command->join = join;
  mailbox_put(&control->commands, &command->mail, NULL);
  return 0;
}

int control_node_say(struct control *control, const struct control_node_message *m)
{
  return commands_say(control, &(struct command){.say = *m});
}

/* ---- On the control thread ---------------------------------------------------------- */

void node_join_free(struct node_join *join)
{
  if (!join)
    return;
  blob_free(&join->address);
  free(join);
}

void node_keep_address(struct node_join *join, struct pst_blob *address)
{
  blob_free(&join->address);
  join->address = *address;
  *address = (struct pst_blob){0};
  join->is_stale = true;
}

void node_tell_gone(struct control *control, uint64_t id, int code, const char *text)
{
  const struct control_node_message gone = {.type = WIRE_BYE, .id = id, .code = code, .text = text};

  assert(!control->quiet && control_is_own_thread(control));
  control->node->asked.heard(control->node->asked.context, &gone);
}

/* The next address, of which the last one's outcome is the attempt's. The last address has all the
 * time that is left: a host under load, or a network that loses packets, may answer late. Takes
 * `join` over. */
void node_dial(struct control *control, struct node_join *join, int code, const char *why)
{
  char place[SOCKET_TEXT_MAX] = "";
  char text[REPORT_MAX];

  while (join->next < join->targets.count && control->now_ns < join->by_ns) {
    const struct socket_address *target = &join->targets.at[join->next++];
    struct connection *peer =
        connection_connect(control, target, join->host_port, join->is_insecure, &code);
    if (!peer) {
      why = strerror(-code);
      continue;
    }
    if (join->next == join->targets.count || join->by_ns < peer->answer_by_ns)
      peer->answer_by_ns = join->by_ns;
    peer->node = (struct node_link){
        .state = NODE_JOINING, .id = join->id, .by_ns = join->by_ns, .join = join};
    return;
  }
  if (join->next > 0)
    socket_text(&join->targets.at[join->next - 1], place);
  snprintf(text, sizeof(text), "%s: %s%s", place, why, limit_remedy(code));
  node_tell_gone(control, join->id, code, text);
  node_join_free(join);
}

/* False: it has had its tries. */
static bool node_dial_later(struct control *control, struct node_join *join, int code,
                            const char *why)
{
  if (join->again_until_ns == 0)
    join->again_until_ns = control_sooner(join->by_ns, control->now_ns + AGAIN_NS);
  if (code != -ECONNRESET || control->now_ns + AGAIN_PAUSE_NS >= join->again_until_ns)
    return false;
  join->next--;
  join->again_ns = control->now_ns + AGAIN_PAUSE_NS;
  snprintf(join->why, sizeof(join->why), "%s", why);
  join->later = control->node->later;
  control->node->later = join;
  return true;
}

static struct node_join *node_dial_take(struct node_join **at)
{
  struct node_join *join = *at;

  *at = join->later;
  join->later = NULL;
  return join;
}

void node_dial_tick(struct control *control)
{
  for (struct node_join **at = &control->node->later; *at;) {
    if (!control_is_due(control, (*at)->again_ns)) {
      at = &(*at)->later;
      continue;
    }
    struct node_join *join = node_dial_take(at);
    node_dial(control, join, -ECONNRESET, join->why);
  }
}

/* Handles a command to a dialler that is between two tries. */
void node_dial_command(struct control *control, struct command *command)
{
  struct node_join **at = &control->node->later;

  while (*at && (*at)->id != command->say.id)
    at = &(*at)->later;
  if (!*at)
    return;
  if (command->say.type == WIRE_READDRESS) {
    node_keep_address(*at, &command->mail.blob);
  } else if (command->say.type == WIRE_BYE) {
    node_join_free(node_dial_take(at));
  }
}

void node_dial_retry(struct connection *peer, int code, const char *why)
{
  struct node_join *join = peer->node.join;

  if (peer->node.state != NODE_JOINING || !join)
    return;
  peer->node.state = NODE_OVER;
  peer->node.join = NULL;
  if (!node_dial_later(peer->control, join, code, why))
    node_dial(peer->control, join, code, why);
}

void node_dial_close_all(struct control *control)
{
  while (control->node->later)
    node_join_free(node_dial_take(&control->node->later));
}
