/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock get` and `penstock put`. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "commands.h"
#include "devices.h"
#include "file_identity.h"
#include "finding.h"
#include "json_put.h"
#include "result_file.h"

static int serve_copies_read_params(const struct command *command,
                                    const struct arguments *arguments, struct copy_params *params)
{
  const char *const *words = arguments->node;
  const struct cli_value values[] = {
      {"chunk", words[NODE_CHUNK], app_arguments_size, 4096, SERVE_CHUNK_MAX, &params->chunk},
      {"depth", words[NODE_DEPTH], app_arguments_count, 1, COPY_DEPTH_MAX, &params->depth},
  };

  *params = (struct copy_params){.names = arguments->operands + 1,
                                 .name_count = (uint32_t)arguments->operand_count - 1,
                                 .to = words[NODE_TO],
                                 .recursive = words[NODE_RECURSIVE] != NULL,
                                 .overwrite = words[NODE_OVERWRITE] != NULL,
                                 .resume = words[NODE_RESUME] != NULL,
                                 .sha256 = words[NODE_SHA256] != NULL,
                                 .quiet = arguments->quiet,
                                 .chunk = 1 << 20,
                                 .depth = 8};
  params->remote.address = arguments->operand;
  int rc = serve_cli_side_read(command, arguments, &params->remote.node, &params->remote.area);
  params->remote.area.lower = "`--chunk` or `--depth`";
  return rc < 0 ? rc : serve_cli_values(command, values, sizeof(values) / sizeof(values[0]));
}

static struct json_object *serve_copies_copy_json(const struct copy_totals *totals,
                                                  const char *stopped, uint64_t ns, const char *io)
{
  struct json_object *object = json_object_new_object();

  app_json_put_text(object, "stopped", stopped);
  app_json_put_uint(object, "files", totals->files);
  app_json_put_uint(object, "folders", totals->folders);
  app_json_put_uint(object, "skipped", totals->skipped);
  app_json_put_uint(object, "failed", totals->failed);
  app_json_put_uint(object, "bytes", totals->bytes);
  app_json_put_uint(object, "bytes_moved", totals->moved);
  app_json_put_uint(object, "bytes_resumed", totals->resumed);
  app_json_put_number(object, "seconds", (double)ns / 1e9);
  app_json_put_text(object, "io", io);
  return object;
}

static void serve_copies_add_interrupted(void *unused, struct json_object *result)
{
  const struct copy_totals none = {0};
  struct json_object *object = serve_copies_copy_json(&none, "signal", 0, NULL);

  (void)unused;
  app_json_put_uncounted(object);
  json_object_object_add(result, "copy", object);
}

static void serve_copies_add_totals(struct json_object *result, const struct copy *copy)
{
  const char *whole = copy->totals.failed > 0 ? "failure" : "source_end";

  json_object_object_add(
      result, "copy",
      serve_copies_copy_json(&copy->totals, serve_cli_stopped_by(&copy->error, whole), copy->ns,
                             copy->remote.io ? serve_io_kind(copy->remote.io) : NULL));
}

/* Files' own, before what ended all of them. */
static void serve_copies_add_errors(struct json_object *result, struct copy *copy)
{
  char more[128];

  if (copy->unlisted > 0) {
    snprintf(more, sizeof(more), "%" PRIu64 " more failed; standard error has named them",
             copy->unlisted);
    app_finding_add(copy->errors, FINDING_FAILED, NULL, more);
  }
  json_object_object_add(result, "errors", copy->errors);
  copy->errors = NULL;
}

static int serve_copies_copy_files(const struct command *command, const struct arguments *arguments,
                                   const struct copy_params *params, int event_fd)
{
  const struct copy_ops *ops = command == &app_command_get ? &serve_copy_get : &serve_copy_put;
  struct copy *copy = malloc(sizeof(*copy));

  if (!copy)
    return PST_EXIT_FAILED;
  app_result_interrupted(serve_copies_add_interrupted, NULL);
  int rc = serve_copy_run(params, ops, event_fd, copy);
  int status = rc < 0 || copy->totals.failed > 0 ? PST_EXIT_FAILED : PST_EXIT_OK;
  if (status != PST_EXIT_OK && copy->error.exit_status != 0)
    status = copy->error.exit_status;
  struct json_object *result = serve_cli_result(command, arguments, copy->remote.node);
  if (result) {
    serve_copies_add_totals(result, copy);
    serve_copies_add_errors(result, copy);
  }
  app_devices_report_node(copy->remote.node, result);
  serve_copy_close(copy);
  status = serve_cli_finish(arguments, result, status, &copy->error);
  free(copy);
  return status;
}

static int serve_copies_run(const struct command *command, const struct arguments *arguments)
{
  struct copy_params params;
  int status = PST_EXIT_USAGE;

  if (serve_copies_read_params(command, arguments, &params) == 0) {
    int event_fd = serve_cli_start(command, arguments);
    status = event_fd < 0 ? PST_EXIT_FAILED
                          : serve_copies_copy_files(command, arguments, &params, event_fd);
  }
  serve_cli_side_free(&params.remote.node, &params.remote.area);
  return status;
}

/* A folder is read whole. */
static bool serve_copies_put_names_file(const struct arguments *arguments, const char *path)
{
  for (size_t i = 1; i < arguments->operand_count; i++) {
    const char *source = arguments->operands[i];
    if (app_file_identity_same(path, source) || app_file_identity_below(path, source))
      return true;
  }
  return false;
}

/* Returns whether `name` of the server is got as the file `path`: "a/b/" goes into the folder --to
 * as "b". The contents of a folder of the server are not known yet: a name that is taken when it
 * comes is refused. */
static bool serve_copies_is_got_as(const char *path, const char *name, const char *to)
{
  const char *end = name + serve_copy_unslashed(name),
             *slash = memrchr(name, '/', (size_t)(end - name));
  const char *last = slash ? slash + 1 : name;
  char *local = NULL;

  if (asprintf(&local, "%s/%.*s", to, (int)(end - last), last) < 0)
    return false;
  bool same = app_file_identity_same(path, local);
  free(local);
  return same;
}

static bool serve_copies_get_names_file(const struct arguments *arguments, const char *path)
{
  const char *to = arguments->node[NODE_TO] ? arguments->node[NODE_TO] : ".";

  for (size_t i = 1; i < arguments->operand_count; i++)
    if (serve_copies_is_got_as(path, arguments->operands[i], to))
      return true;
  return app_file_identity_same(path, to);
}

#define OPTIONS                                                                                    \
  OPTION_NODE | OPTION_TLS | OPTION_COPY | OPTION_JSON | OPTION_PLUGIN_PATH | OPTION_QUIET |       \
      OPTION_VERBOSE

const struct command app_command_get = {
    .name = "get",
    .operand = "HOST:PORT NAME...",
    .need = OPERAND_REQUIRED,
    .operands_least = 2,
    .operands_most = UINT32_MAX,
    .options = OPTIONS,
    .summary = "copy files from a `penstock serve --root`, by RDMA",
    .help =
        "Copies files and folders from a `penstock serve --root`. Each NAME is relative to that root.\n"
        "A file gets its name when all of it is on the disk. An interrupted transfer leaves the\n"
        "file .NAME" NAMES_PART_SUFFIX ".\n"
        "\n"
        "Examples:\n"
        "  penstock get 127.0.0.1:18530 run7/events.bin --to /data --sha256\n"
        "      Copies one file into a folder and compares its SHA-256.\n"
        "  penstock get 127.0.0.1:18530 run7 --recursive --resume\n"
        "      Copies a folder; compares what is here already, and does not send it again.",
    .run = serve_copies_run,
    .names_file = serve_copies_get_names_file,
};

const struct command app_command_put = {
    .name = "put",
    .operand = "HOST:PORT FILE...",
    .need = OPERAND_REQUIRED,
    .operands_least = 2,
    .operands_most = UINT32_MAX,
    .options = OPTIONS,
    .summary = "copy files to a `penstock serve --root`, by RDMA",
    .help =
        "The server writes each FILE below its root. A file gets its name there when all of it is on\n"
        "the disk. An interrupted transfer leaves the file .NAME" NAMES_PART_SUFFIX ".\n"
        "\n"
        "Examples:\n"
        "  penstock put 127.0.0.1:18530 events.bin --to run7/events.bin\n"
        "      Copies one file under another name.\n"
        "  penstock put 127.0.0.1:18530 run8 --recursive --to archive/\n"
        "      Copies a folder into another.",
    .run = serve_copies_run,
    .names_file = serve_copies_put_names_file,
};
