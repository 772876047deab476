/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the command lines of `request`, `get` and `put`. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "log.h"
#include "plugin_options.h"
#include "result.h"
#include "result_file.h"
#include "signals.h"

#define TIMEOUT_LEAST_NS (3 * NS_PER_S) /* both ends say each second that they are there */

/* Reads the options of transport and memory. The caller frees both lists of options, also after a
 * failure. */
int serve_cli_side_read(const struct command *command, const struct arguments *arguments,
                        struct pst_node_params *node, struct pst_area_params *area)
{
  const char *const *words = arguments->node;
  uint64_t timeout_ns = 10 * NS_PER_S;
  const struct cli_value value = {"timeout", words[NODE_TIMEOUT], app_arguments_duration,
                                  1,         UINT64_MAX,          &timeout_ns};
  struct pst_setting *transport_options = NULL, *memory_options = NULL;

  *node = (struct pst_node_params){.struct_size = sizeof(*node),
                                   .insecure = words[NODE_INSECURE] != NULL,
                                   .transport =
                                       words[NODE_TRANSPORT] ? words[NODE_TRANSPORT] : "loopback",
                                   .message_max = SERVE_MESSAGE_MAX,
                                   .origins = &app_setting_origins,
                                   .tls = arguments->tls};
  *area = (struct pst_area_params){.struct_size = sizeof(*area),
                                   .memory = words[NODE_MEMORY] ? words[NODE_MEMORY] : "host"};
  int rc = app_plugin_options_read(arguments->transport_options, arguments->transport_option_count,
                                   &transport_options, &node->transport_option_count);
  if (rc == 0)
    rc = app_plugin_options_read(arguments->memory_options, arguments->memory_option_count,
                                 &memory_options, &area->memory_option_count);
  node->transport_options = transport_options;
  area->memory_options = memory_options;
  if (rc < 0) {
    app_arguments_wrong(command, "out of memory");
    return rc;
  }
  if (serve_cli_values(command, &value, 1) < 0)
    return -EINVAL;
  node->connect_timeout_ns = node->peer_timeout_ns = timeout_ns;
  if (timeout_ns >= TIMEOUT_LEAST_NS)
    return 0;
  app_arguments_wrong(command, "--timeout must be at least 3s (heartbeats are sent every second)");
  return -EINVAL;
}

void serve_cli_side_free(const struct pst_node_params *node, const struct pst_area_params *area)
{
  app_plugin_options_free((struct pst_setting *)(uintptr_t)node->transport_options,
                          node->transport_option_count);
  app_plugin_options_free((struct pst_setting *)(uintptr_t)area->memory_options,
                          area->memory_option_count);
}

/* ---- Values -------------------------------------------------------------------------- */

static int serve_cli_refuse_value(const struct command *command, const struct cli_value *value)
{
  char what[256], range[64];

  snprintf(range, sizeof(range), "from %" PRIu64 " to %" PRIu64, value->least, value->most);
  if (value->read == app_arguments_size)
    snprintf(what, sizeof(what), "--%s '%.60s' is not a size %s bytes; write 4096 or 64KiB",
             value->option, value->word, range);
  else if (value->read == app_arguments_count)
    snprintf(what, sizeof(what), "--%s '%.60s' is not a number %s", value->option, value->word,
             range);
  else
    snprintf(what, sizeof(what), "--%s '%.60s' is not a time above 0; write 3, 1.5, 250ms or 2min",
             value->option, value->word);
  app_arguments_wrong(command, "%s", what);
  return -EINVAL;
}

int serve_cli_values(const struct command *command, const struct cli_value *values, size_t count)
{
  for (const struct cli_value *value = values; value < values + count; value++) {
    uint64_t read = 0;
    if (!value->word)
      continue;
    if (value->read(value->word, &read) < 0 || read < value->least || read > value->most)
      return serve_cli_refuse_value(command, value);
    *value->to = read;
  }
  return 0;
}

/* ---- Beginning and end --------------------------------------------------------------- */

int serve_cli_start(const struct command *command, const struct arguments *arguments)
{
  int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int rc = event_fd < 0 ? -errno : app_signals_open(event_fd);

  app_log_begin(arguments, PST_LOG_ERROR);
  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    pst_plugin_path_add(arguments->plugin_paths[i]);
  if (rc < 0)
    app_log(PST_LOG_ERROR, "%s: cannot begin: %s", command->name, strerror(-rc));
  return rc < 0 ? rc : event_fd;
}

struct json_object *serve_cli_result(const struct command *command,
                                     const struct arguments *arguments, const struct pst_node *node)
{
  struct pst_plugin_info info = {.struct_size = sizeof(info)};

  if (!arguments->json)
    return NULL;
  struct json_object *result = app_result_new(command, arguments, NULL);
  if (!result)
    return NULL;
  for (uint32_t i = 0; node && i < pst_node_plugins(node); i++) {
    if (pst_node_plugin(node, i, &info) == 0)
      app_result_add_plugin(result, &info);
  }
  return result;
}

const char *serve_cli_stopped_by(const struct pst_error *error, const char *whole)
{
  if (error->code == 0)
    return whole;
  switch (app_finding_of(error->exit_status, error->code)) {
  case FINDING_STOPPED:
    return "signal";
  case FINDING_PEER:
    return "peer";
  default:
    return "failure";
  }
}

int serve_cli_finish(const struct arguments *arguments, struct json_object *result, int status,
                     const struct pst_error *error)
{
  if (!arguments->json)
    return status;
  app_finding_add_error(app_result_errors(result), error, arguments);
  return app_result_conclude(result, arguments->json, status);
}
