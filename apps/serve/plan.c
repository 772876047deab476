/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "environment.h"
#include "notice.h"
#include "result.h"
#include "result_file.h"
#include "settings.h"
#include "signals.h"

#define TIMEOUT_LEAST_NS (3 * NS_PER_S) /* both ends say each second that they are there */

int plan_side_read(const struct command *command, const struct arguments *arguments,
                   struct plan_side *side)
{
  const char *const *words = arguments->node;

  *side = (struct plan_side){.transport =
                                 words[NODE_TRANSPORT] != NULL ? words[NODE_TRANSPORT] : "loopback",
                             .memory = words[NODE_MEMORY] != NULL ? words[NODE_MEMORY] : "host",
                             .timeout_ns = 10 * NS_PER_S,
                             .insecure = words[NODE_INSECURE] != NULL};
  if (settings_read(arguments->transport_options, arguments->transport_option_count,
                    &side->transport_options, &side->transport_option_count) < 0 ||
      settings_read(arguments->memory_options, arguments->memory_option_count,
                    &side->memory_options, &side->memory_option_count) < 0) {
    arguments_wrong(command, "out of memory");
    return -ENOMEM;
  }
  if (plan_time(command, "timeout", words[NODE_TIMEOUT], &side->timeout_ns) < 0)
    return -EINVAL;
  if (side->timeout_ns >= TIMEOUT_LEAST_NS)
    return 0;
  arguments_wrong(command, "--timeout must be at least 3s (heartbeats are sent every second)");
  return -EINVAL;
}

void plan_side_free(struct plan_side *side)
{
  settings_free(side->transport_options, side->transport_option_count);
  settings_free(side->memory_options, side->memory_option_count);
}

void plan_remote(const struct plan_side *side, const char *address, struct remote_params *params)
{
  *params = (struct remote_params){.address = address,
                                   .transport = side->transport,
                                   .memory = side->memory,
                                   .transport_options = side->transport_options,
                                   .memory_options = side->memory_options,
                                   .transport_option_count = side->transport_option_count,
                                   .memory_option_count = side->memory_option_count,
                                   .timeout_ns = side->timeout_ns,
                                   .insecure = side->insecure};
}

/* ---- Values ---------------------------------------------------------------------------------- */

int plan_size(const struct command *command, const char *option, const char *word, uint64_t least,
              uint64_t most, uint64_t *value)
{
  uint64_t read = 0;
  char what[256];

  if (word == NULL)
    return 0;
  if (arguments_size(word, &read) == 0 && read >= least && read <= most) {
    *value = read;
    return 0;
  }
  snprintf(what, sizeof what,
           "--%s '%.60s' is not a size from %" PRIu64 " to %" PRIu64 " bytes; write 4096 or 64KiB",
           option, word, least, most);
  arguments_wrong(command, what);
  return -EINVAL;
}

int plan_number(const struct command *command, const char *option, const char *word, uint32_t most,
                uint32_t *value)
{
  uint64_t read = 0;
  char what[256];

  if (word == NULL)
    return 0;
  if (arguments_count(word, &read) == 0 && read >= 1 && read <= most) {
    *value = (uint32_t)read;
    return 0;
  }
  snprintf(what, sizeof what, "--%s '%.60s' is not a number from 1 to %u", option, word, most);
  arguments_wrong(command, what);
  return -EINVAL;
}

int plan_time(const struct command *command, const char *option, const char *word, uint64_t *ns)
{
  uint64_t read = 0;
  char what[256];

  if (word == NULL)
    return 0;
  if (arguments_duration(word, &read) == 0 && read > 0) {
    *ns = read;
    return 0;
  }
  snprintf(what, sizeof what, "--%s '%.60s' is not a time above 0; write 3, 1.5, 250ms or 2min",
           option, word);
  arguments_wrong(command, what);
  return -EINVAL;
}

/* ---- Beginning and end -------------------------------------------------------------------------
 */

int plan_start(const struct command *command, const struct arguments *arguments)
{
  int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int rc = event_fd < 0 ? -errno : signals_open(event_fd);

  notice_begin(arguments, PST_LOG_ERROR);
  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    pst_plugin_path_add(arguments->plugin_paths[i]);
  if (rc < 0)
    notice(PST_LOG_ERROR, "%s: cannot begin: %s", command->name, strerror(-rc));
  return rc < 0 ? rc : event_fd;
}

struct json_object *plan_result(const struct command *command, const struct arguments *arguments,
                                const struct pst_node *node)
{
  struct environment environment = {0};
  const struct result_head head = {.version = pst_version(),
                                   .command = command->name,
                                   .command_line = arguments->line,
                                   .environment = &environment};
  struct pst_plugin_info info = {.struct_size = sizeof info};

  if (arguments->json == NULL)
    return NULL;
  environment_read(&environment);
  struct json_object *result = result_new(&head);
  if (result == NULL)
    return NULL;
  for (uint32_t i = 0; node != NULL && i < pst_node_plugins(node); i++) {
    if (pst_node_plugin(node, i, &info) == 0)
      result_add_plugin(result, &info);
  }
  return result;
}

const char *plan_stopped_by(const struct pst_error *error, const char *whole)
{
  if (error->code == 0)
    return whole;
  switch (finding_of(error->exit_status, error->code)) {
  case FINDING_STOPPED:
    return "signal";
  case FINDING_PEER:
    return "peer";
  default:
    return "failure";
  }
}

int plan_finish(const struct arguments *arguments, struct json_object *result, int status,
                const struct pst_error *error)
{
  if (arguments->json == NULL)
    return status;
  finding_add_error(result_errors(result), error, arguments);
  return result_conclude(result, arguments->json, status);
}
