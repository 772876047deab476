/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock serve`: RDMA READ and WRITE, and files, for whoever asks. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "commands.h"
#include "devices.h"
#include "json_put.h"
#include "notice.h"
#include "plan.h"
#include "result_file.h"
#include "signals.h"
#include "size.h"

#define CLIENTS_MAX 4096u
#define IN_FLIGHT_LEAST (2 * MOVE_SEGMENT) /* half of it may be for files */

/* Reads the options of `penstock serve`. -EINVAL: reported as wrong usage. */
static int read_params(const struct command *command, const struct arguments *arguments,
                       struct server_params *params)
{
  const char *const *words = arguments->node;
  uint64_t clients = 64;
  const struct plan_value values[] = {
      {"clients", words[NODE_CLIENTS], arguments_count, 1, CLIENTS_MAX, &clients},
      {"in-flight", words[NODE_IN_FLIGHT], arguments_size, IN_FLIGHT_LEAST, INT64_MAX,
       &params->in_flight},
      {"request-max", words[NODE_REQUEST_MAX], arguments_size, 1, INT64_MAX, &params->request_max},
      {"offer-max", words[NODE_OFFER_MAX], arguments_size, 1, INT64_MAX, &params->node.offer_bytes},
      {"file-max", words[NODE_FILE_MAX], arguments_size, 1, INT64_MAX, &params->file_max},
      {"pieces", words[NODE_PIECES], arguments_count, 1, SERVER_PIECES_MAX, &params->pieces},
      {"idle", words[NODE_IDLE], arguments_duration, 1, UINT64_MAX, &params->idle_ns},
  };

  *params = (struct server_params){.root = words[NODE_ROOT],
                                   .read_only = words[NODE_READ_ONLY] != NULL,
                                   .overwrite = words[NODE_OVERWRITE] != NULL,
                                   .once = words[NODE_ONCE] != NULL,
                                   .in_flight = UINT64_C(256) << 20,
                                   .request_max = UINT64_C(1) << 30,
                                   .pieces = SERVER_PIECES,
                                   .idle_ns = UINT64_C(30000000000)};
  if (plan_side_read(command, arguments, &params->node, &params->area) < 0)
    return -EINVAL;
  if (!params->root && (params->read_only || params->overwrite)) {
    arguments_wrong(command, "--read-only and --overwrite are about files, and need --root");
    return -EINVAL;
  }
  if (plan_values(command, values, sizeof(values) / sizeof(values[0])) < 0)
    return -EINVAL;
  params->node.listen = arguments->operand ? arguments->operand : PLAN_ADDRESS;
  params->node.peers = (uint32_t)clients;
  return 0;
}

static void say_banner(const struct server *server)
{
  const struct server_params *p = server->params;
  char in_flight[SIZE_TEXT_BYTES];

  notice(PST_LOG_INFO,
         "serve: listening on %s, port %u | %s, %s memory (%s) | %u client%s, %s in flight | "
         "%s%s%s%s",
         p->node.listen, pst_node_port(server->node), p->node.transport, p->area.memory,
         pst_area_backing(server->moves->area), p->node.peers, plural(p->node.peers),
         size_text(p->in_flight, in_flight), p->root ? "files of " : "no files",
         p->root ? p->root : "",
         !p->root       ? ""
         : p->read_only ? ", read only, by "
         : p->overwrite ? ", which may be replaced, by "
                        : ", by ",
         p->root ? io_name(server->io) : "");
  if (p->node.insecure)
    notice(PST_LOG_INFO, "serve: --insecure, so whoever reaches its port can take part; nothing on "
                         "it is authenticated or encrypted");
}

static void say_totals(const struct server_totals *totals)
{
  char sent[SIZE_TEXT_BYTES], received[SIZE_TEXT_BYTES];

  notice(PST_LOG_INFO,
         "serve: %" PRIu64 " client%s, %" PRIu64 " request%s (%" PRIu64
         " refused), sent %s, received %s",
         totals->clients, plural(totals->clients), totals->requests, plural(totals->requests),
         totals->refused, size_about(totals->bytes_written, sent),
         size_about(totals->bytes_read, received));
}

static void add_totals(struct json_object *result, const struct server_totals *totals,
                       const char *stopped)
{
  struct json_object *object = json_object_new_object();

  json_put_text(object, "stopped", stopped);
  json_put_uint(object, "clients", totals->clients);
  json_put_uint(object, "requests", totals->requests);
  json_put_uint(object, "refused", totals->refused);
  json_put_uint(object, "bytes_written", totals->bytes_written);
  json_put_uint(object, "bytes_read", totals->bytes_read);
  json_put_uint(object, "files_read", totals->files_read);
  json_put_uint(object, "files_written", totals->files_written);
  json_object_object_add(result, "serve", object);
}

static void add_interrupted(void *unused, struct json_object *result)
{
  const struct server_totals none = {0};
  struct json_object *object;

  (void)unused;
  add_totals(result, &none, "signal");
  if (json_object_object_get_ex(result, "serve", &object))
    json_put_uncounted(object);
}

static int serve(const struct command *command, const struct arguments *arguments,
                 const struct server_params *params, int event_fd)
{
  struct pst_error error = PST_ERROR_INIT;
  struct server server;

  result_interrupted(add_interrupted, NULL);
  int rc = server_open(params, &server, &error);
  struct json_object *result = plan_result(command, arguments, server.node);

  if (rc == 0) {
    say_banner(&server);
    rc = server_run(&server, event_fd);
    if (rc < 0)
      notice_fail(&error, PST_EXIT_FAILED, rc, "serve: the transport's device has failed: %s",
                  strerror(-rc));
  }
  devices_report_node(server.node, result);
  server_close(&server);
  if (rc == 0)
    say_totals(&server.totals);
  if (result)
    add_totals(result, &server.totals,
               rc < 0                            ? "failure"
               : params->once && !signals_stop() ? "source_end"
                                                 : "signal");
  return plan_finish(arguments, result, rc < 0 ? error.exit_status : PST_EXIT_OK, &error);
}

static int run(const struct command *command, const struct arguments *arguments)
{
  struct server_params params;
  int status = PST_EXIT_USAGE;

  if (read_params(command, arguments, &params) == 0) {
    int event_fd = plan_start(command, arguments);
    status = event_fd < 0 ? PST_EXIT_FAILED : serve(command, arguments, &params, event_fd);
  }
  plan_side_free(&params.node, &params.area);
  return status;
}

const struct command command_serve = {
    .name = "serve",
    .operand = "HOST:PORT",
    .need = OPERAND_OPTIONAL,
    .options = OPTION_NODE | OPTION_SERVE | OPTION_JSON | OPTION_PLUGIN_PATH | OPTION_QUIET |
               OPTION_VERBOSE,
    .summary = "serve memory and files to `request`, `get` and `put`, by RDMA READ and WRITE",
    .help = "Listens on HOST:PORT until ^C (default: " PLAN_ADDRESS "; port 0: any that is free).\n"
            "Reads and writes regions that clients offer, and with --root also files.\n"
            "\n"
            "Examples:\n"
            "  penstock serve\n"
            "      Serves `penstock request` on this machine.\n"
            "  penstock serve --root /srv/data --read-only --in-flight 64MiB\n"
            "      Serves the files of a folder to `penstock get`.",
    .run = run,
};
