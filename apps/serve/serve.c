/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock serve`: serves clients RDMA READ and WRITE, and files. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "devices.h"
#include "json_put.h"
#include "log.h"
#include "metrics/server.h"
#include "result_file.h"
#include "sandbox/sandbox.h"
#include "signals.h"
#include "size.h"

#define CLIENTS_MAX 4096u
#define IN_FLIGHT_LEAST (2 * MOVE_SEGMENT) /* half of it may be for files */

/* Reads the options of `penstock serve`. -EINVAL: reported as wrong usage. */
static int serve_cmd_read_params(const struct command *command, const struct arguments *arguments,
                                 struct server_params *params)
{
  const char *const *words = arguments->node;
  uint64_t clients = 64;
  const struct cli_value values[] = {
      {"clients", words[NODE_CLIENTS], app_arguments_count, 1, CLIENTS_MAX, &clients},
      {"in-flight", words[NODE_IN_FLIGHT], app_arguments_size, IN_FLIGHT_LEAST, INT64_MAX,
       &params->in_flight},
      {"request-max", words[NODE_REQUEST_MAX], app_arguments_size, 1, INT64_MAX,
       &params->request_max},
      {"offer-max", words[NODE_OFFER_MAX], app_arguments_size, 1, INT64_MAX,
       &params->node.offer_bytes},
      {"file-max", words[NODE_FILE_MAX], app_arguments_size, 1, INT64_MAX, &params->file_max},
      {"pieces", words[NODE_PIECES], app_arguments_count, 1, SERVER_PIECES_MAX, &params->pieces},
      {"idle", words[NODE_IDLE], app_arguments_duration, 1, UINT64_MAX, &params->idle_ns},
  };

  *params = (struct server_params){.root = words[NODE_ROOT],
                                   .read_only = words[NODE_READ_ONLY] != NULL,
                                   .overwrite = words[NODE_OVERWRITE] != NULL,
                                   .once = words[NODE_ONCE] != NULL,
                                   .in_flight = UINT64_C(256) << 20,
                                   .request_max = UINT64_C(1) << 30,
                                   .pieces = SERVER_PIECES,
                                   .idle_ns = UINT64_C(30000000000)};
  if (serve_cli_side_read(command, arguments, &params->node, &params->area) < 0)
    return -EINVAL;
  if (!params->root && (params->read_only || params->overwrite)) {
    app_arguments_wrong(command, "--read-only and --overwrite are about files, and need --root");
    return -EINVAL;
  }
  if (serve_cli_values(command, values, sizeof(values) / sizeof(values[0])) < 0)
    return -EINVAL;
  params->node.listen = arguments->operand ? arguments->operand : SERVE_ADDRESS;
  params->node.peers = (uint32_t)clients;
  return 0;
}

static void serve_cmd_say_banner(const struct server *server)
{
  const struct server_params *p = server->params;
  char in_flight[SIZE_TEXT_BYTES];

  app_log(PST_LOG_INFO,
          "serve: listening on %s, port %u | %s, %s memory (%s) | %u client%s, %s in flight | "
          "%s%s%s%s",
          p->node.listen, pst_node_port(server->node), p->node.transport, p->area.memory,
          pst_area_backing(server->moves->area), p->node.peers, app_plural(p->node.peers),
          app_size_text(p->in_flight, in_flight), p->root ? "files of " : "no files",
          p->root ? p->root : "",
          !p->root       ? ""
          : p->read_only ? ", read only, by "
          : p->overwrite ? ", which may be replaced, by "
                         : ", by ",
          p->root ? serve_io_name(server->io) : "");
  if (p->node.insecure)
    app_log(PST_LOG_INFO,
            "serve: --insecure, so whoever reaches its port can take part; nothing on "
            "it is authenticated or encrypted");
}

static void serve_cmd_say_totals(const struct server_totals *totals)
{
  char sent[SIZE_TEXT_BYTES], received[SIZE_TEXT_BYTES];

  app_log(PST_LOG_INFO,
          "serve: %" PRIu64 " client%s, %" PRIu64 " request%s (%" PRIu64
          " refused), sent %s, received %s",
          totals->clients, app_plural(totals->clients), totals->requests,
          app_plural(totals->requests), totals->refused,
          app_size_about(totals->bytes_written, sent),
          app_size_about(totals->bytes_read, received));
}

static void serve_cmd_add_totals(struct json_object *result, const struct server_totals *totals,
                                 const char *stopped)
{
  struct json_object *object = json_object_new_object();

  app_json_put_text(object, "stopped", stopped);
  app_json_put_uint(object, "clients", totals->clients);
  app_json_put_uint(object, "requests", totals->requests);
  app_json_put_uint(object, "refused", totals->refused);
  app_json_put_uint(object, "bytes_written", totals->bytes_written);
  app_json_put_uint(object, "bytes_read", totals->bytes_read);
  app_json_put_uint(object, "files_read", totals->files_read);
  app_json_put_uint(object, "files_written", totals->files_written);
  json_object_object_add(result, "serve", object);
}

static void serve_cmd_add_interrupted(void *unused, struct json_object *result)
{
  const struct server_totals none = {0};
  struct json_object *object;

  (void)unused;
  serve_cmd_add_totals(result, &none, "signal");
  if (json_object_object_get_ex(result, "serve", &object))
    app_json_put_uncounted(object);
}

/* Before the first thread, which has HTTP read by --metrics. */
static int serve_cmd_confine(struct sandbox *sandbox, const struct server_params *params,
                             struct pst_error *error)
{
  if (!sandbox)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "serve: out of memory");
  app_sandbox_allow_transport(sandbox, params->node.transport);
  app_sandbox_allow_listen(sandbox, params->node.listen);
  if (params->node.tls)
    app_sandbox_allow_tls(sandbox, params->node.tls);
  if (params->root)
    app_sandbox_allow_folder(sandbox, params->root, params->read_only);
  return app_sandbox_begin(sandbox, error);
}

/* Opens, serves until a signal, and reports what was served. With --metrics it then serves the last
 * counts. Returns the exit status. */
static int serve_cmd_serve(const struct command *command, const struct arguments *arguments,
                           struct server_params *params, int event_fd)
{
  struct pst_error error = PST_ERROR_INIT;
  struct server server = {.root = -1};
  struct sandbox *sandbox = app_sandbox_new(arguments);

  app_result_interrupted(serve_cmd_add_interrupted, NULL);
  int rc = serve_cmd_confine(sandbox, params, &error);
  if (rc == 0)
    rc = metrics_server_open(arguments, &params->metrics, &error);
  const bool has_opened = rc == 0;
  if (rc == 0)
    rc = serve_server_open(params, &server, &error);
  if (rc == 0)
    rc = app_sandbox_seal(sandbox, &error);
  struct json_object *result = serve_cli_result(command, arguments, server.node);

  if (rc == 0) {
    serve_cmd_say_banner(&server);
    rc = serve_server_run(&server, event_fd);
    if (rc < 0)
      app_log_fail(&error, PST_EXIT_FAILED, rc, "serve: the transport's device has failed: %s",
                   strerror(-rc));
  }
  app_devices_report_node(server.node, result);
  struct metrics_page *page = server.node && params->metrics ? serve_metrics_page(&server) : NULL;
  if (has_opened)
    serve_server_close(&server);
  serve_metrics_add_totals(page, &server.totals, 0);
  if (page)
    metrics_server_publish(params->metrics, page);
  if (rc == 0)
    serve_cmd_say_totals(&server.totals);
  if (result)
    serve_cmd_add_totals(result, &server.totals,
                         rc < 0                                ? "failure"
                         : params->once && !app_signals_stop() ? "source_end"
                                                               : "signal");
  int status =
      serve_cli_finish(arguments, result, rc < 0 ? error.exit_status : PST_EXIT_OK, &error);
  metrics_server_close(params->metrics);
  app_sandbox_free(sandbox);
  return status;
}

static int serve_cmd_run(const struct command *command, const struct arguments *arguments)
{
  struct server_params params;
  int status = PST_EXIT_USAGE;

  if (serve_cmd_read_params(command, arguments, &params) == 0) {
    int event_fd = serve_cli_start(command, arguments);
    status =
        event_fd < 0 ? PST_EXIT_FAILED : serve_cmd_serve(command, arguments, &params, event_fd);
  }
  serve_cli_side_free(&params.node, &params.area);
  return status;
}

const struct command app_command_serve = {
    .name = "serve",
    .operand = "HOST:PORT",
    .need = OPERAND_OPTIONAL,
    .options = OPTION_NODE | OPTION_TLS | OPTION_SERVE | OPTION_METRICS | OPTION_SANDBOX |
               OPTION_JSON | OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE,
    .summary = "serve memory and files to `request`, `get` and `put`, by RDMA",
    .help =
        "Listens on HOST:PORT until ^C (default: " SERVE_ADDRESS "; port 0: any that is free).\n"
        "Reads and writes regions that clients offer, and with --root also files.\n"
        "\n"
        "Examples:\n"
        "  penstock serve\n"
        "      Serves `penstock request` on this machine.\n"
        "  penstock serve --root /srv/data --read-only --in-flight 64MiB\n"
        "      Serves the files of a folder to `penstock get`.",
    .run = serve_cmd_run,
};
