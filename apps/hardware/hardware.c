/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock hardware-check`: does it work on these adapters? */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/control_link.h"
#include "clock.h"
#include "commands.h"
#include "finding.h"
#include "json_put.h"
#include "log.h"
#include "redact.h"
#include "report.h"
#include "result.h"
#include "result_file.h"
#include "run.h"
#include "signals.h"
#include "util/host_port.h"

#define DURATION_NS NS_PER_S
#define DURATION_MOST_NS (600 * NS_PER_S)

struct hardware {
  const struct command *command;
  const struct arguments *arguments;
  struct hardware_plan plan;
  struct hardware_run run;
  uint32_t chosen; /* bits of checks, by their index */
  FILE *report;
  struct json_object *result, *checks; /* NULL without --json */
  uint32_t counts[HARDWARE_VERDICTS];
  int status;
};

/* Of all that is written in this process, so that each thing has one label. */
static struct redact *hidden;

static void hardware_cmd_hide(const struct arguments *arguments, struct json_object *result)
{
  if (!hidden && (hidden = app_redact_open()) && arguments->operand) {
    struct pst_host_port parts;
    char host[256];
    if (pst_host_port_split(arguments->operand, &parts)) {
      snprintf(host, sizeof(host), "%.*s", (int)parts.host_length, parts.host);
      app_redact_host(hidden, host);
    }
  }
  app_redact_json(hidden, result);
}

/* ---- The command line --------------------------------------------------------------------------
 */

static int hardware_cmd_choose_checks(struct hardware *hardware)
{
  const char *at = hardware->arguments->hardware[HARDWARE_CHECK];
  char word[64], meant[ARGUMENTS_MEANT_BYTES];
  const char *names[32];

  hardware->chosen = at ? 1u : (1u << hardware_check_count) - 1;
  for (uint32_t i = 0; i < hardware_check_count; i++)
    names[i] = hardware_checks[i].name;
  while (at) {
    const size_t length = strcspn(at, ",");
    uint32_t check = 0;
    snprintf(word, sizeof(word), "%.*s", (int)length, at);
    while (check < hardware_check_count && strcmp(names[check], word) != 0)
      check++;
    if (check == hardware_check_count)
      return app_arguments_wrong(
          hardware->command, "--check '%s' is not one of the checks%s", word,
          app_arguments_meant(word, names, hardware_check_count, "; did you mean '", meant));
    hardware->chosen |= 1u << check;
    at = at[length] == ',' ? at + length + 1 : NULL;
  }
  return 0;
}

static int hardware_cmd_check_list(const struct hardware *hardware, enum hardware_word word,
                                   const char *name)
{
  struct hardware_devices ignored;
  const char *list = hardware->arguments->hardware[word];

  return !list || hardware_named(list, NULL, &ignored) == 0
             ? 0
             : app_arguments_wrong(hardware->command,
                                   "--%s '%.100s' is not a list like mlx5_0,mlx5_1", name, list);
}

/* Reads the options into hardware->plan. -EINVAL: reported as wrong usage. */
static int hardware_cmd_read_plan(struct hardware *hardware)
{
  const struct arguments *arguments = hardware->arguments;
  const char *const *bench = arguments->bench, *const *own = arguments->hardware;
  const bool serves = bench[BENCH_SERVER] != NULL;

  hardware->plan = (struct hardware_plan){
      .transport = bench[BENCH_TRANSPORT] ? bench[BENCH_TRANSPORT] : "verbs_rc",
      .plugin_paths = arguments->plugin_paths,
      .plugin_path_count = arguments->plugin_path_count,
      .insecure = bench[BENCH_INSECURE] != NULL,
      .duration_ns = arguments->duration_set ? arguments->duration_ns : DURATION_NS,
  };
  hardware->run.outage = own[HARDWARE_OUTAGE];
  hardware->run.readdress = own[HARDWARE_READDRESS];
  if (hardware_cmd_choose_checks(hardware) < 0 ||
      hardware_cmd_check_list(hardware, HARDWARE_DEVICE, "device") < 0 ||
      hardware_cmd_check_list(hardware, HARDWARE_PEER_DEVICE, "peer-device") < 0)
    return -EINVAL;
  if (hardware->plan.duration_ns > DURATION_MOST_NS)
    return app_arguments_wrong(hardware->command,
                               "--duration is that of one measurement, at most 10 min");
  if (serves && (own[HARDWARE_CHECK] || own[HARDWARE_OUTAGE] || own[HARDWARE_READDRESS] ||
                 own[HARDWARE_PEER_DEVICE] || arguments->duration_set || arguments->json))
    return app_arguments_wrong(hardware->command,
                               "the client says what is checked: the server takes --transport, "
                               "--device, --plugin-path, --once and --insecure");
  if (bench[BENCH_ONCE] && !serves)
    return app_arguments_wrong(hardware->command, "--once is for --server");
  if (own[HARDWARE_PEER_DEVICE] && arguments->operand)
    return app_arguments_wrong(
        hardware->command,
        "--peer-device is for both ends on this host; the server at %s has its "
        "own --device",
        arguments->operand);
  return 0;
}

/* ---- What the result has ------------------------------------------------------------------------
 */

static struct json_object *hardware_cmd_devices_json(const struct hardware_devices *devices)
{
  struct json_object *list = json_object_new_array();

  for (uint32_t i = 0; i < devices->count; i++) {
    struct json_object *item = json_object_new_object();
    app_json_put_text(item, "name", devices->all[i].name);
    app_json_put_text(item, "detail", devices->all[i].detail);
    json_object_array_add(list, item);
  }
  return list;
}

static struct json_object *hardware_json(const struct hardware *hardware, const char *stopped)
{
  const struct hardware_run *run = &hardware->run;
  struct json_object *object = json_object_new_object();

  app_json_put_text(object, "stopped", stopped);
  app_json_put_text(object, "transport", hardware->plan.transport);
  app_json_put_text(object, "form", hardware->arguments->operand ? "hosts" : "processes");
  app_json_put_number(object, "duration_seconds", (double)hardware->plan.duration_ns / 1e9);
  json_object_object_add(object, "adapters", hardware_cmd_devices_json(&run->near.has.adapters));
  json_object_object_add(object, "gpus", hardware_cmd_devices_json(&run->near.has.gpus));
  json_object_object_add(object, "peer_adapters",
                         hardware_cmd_devices_json(&run->far.end.has.adapters));
  json_object_object_add(object, "peer_gpus", hardware_cmd_devices_json(&run->far.end.has.gpus));
  json_object_object_add(object, "peer_environment", json_object_get(run->far.environment));
  return object;
}

static void hardware_cmd_note_error(struct hardware *hardware, const struct pst_error *error)
{
  app_finding_add_error(app_result_errors(hardware->result), error, hardware->arguments);
  hardware->status = app_finding_worse(hardware->status, error->exit_status);
}

static void hardware_cmd_note_failure(struct hardware *hardware, enum finding finding, int code,
                                      const char *where, const char *text)
{
  app_finding_add(app_result_errors(hardware->result), finding, where, text);
  hardware->status = app_finding_worse(hardware->status, code);
}

/* ---- Running ------------------------------------------------------------------------------------
 */

static int hardware_cmd_open_ends(struct hardware *hardware)
{
  struct hardware_run *run = &hardware->run;
  const char *const *own = hardware->arguments->hardware;
  struct pst_error error = PST_ERROR_INIT;
  int rc = hardware_look(&hardware->plan, own[HARDWARE_DEVICE], &run->near.has);

  if (rc < 0)
    app_log_fail(&error, PST_EXIT_UNAVAILABLE, rc, "hardware-check: %s",
                 run->near.has.adapters.why_none);
  else if (hardware->arguments->operand)
    rc = hardware_remote_connect(&run->far, hardware->arguments->operand, &error);
  if (rc < 0) {
    hardware_cmd_note_error(hardware, &error);
    return rc;
  }
  if (!run->far.link) {
    run->far.end.has = run->near.has;
    if (own[HARDWARE_PEER_DEVICE])
      hardware_named(own[HARDWARE_PEER_DEVICE], &run->near.has.adapters,
                     &run->far.end.has.adapters);
  } else if (run->far.environment) {
    app_redact_host(hidden, bench_link_text(run->far.environment, "hostname"));
  }
  run->can_count = hardware_child_can_count();
  return 0;
}

static void hardware_cmd_take_check(struct hardware *hardware, struct json_object *check,
                                    enum hardware_verdict verdict, uint32_t number)
{
  char where[32];

  hardware_cmd_hide(hardware->arguments, check);
  hardware_report_check(hardware->report, check);
  hardware->counts[verdict]++;
  snprintf(where, sizeof(where), "checks[%u]", number);
  if (verdict == VERDICT_FAILED)
    hardware_cmd_note_failure(hardware, FINDING_FAILED, PST_EXIT_FAILED, where,
                              bench_link_text(check, "why"));
  if (hardware->checks)
    json_object_array_add(hardware->checks, check);
  else
    json_object_put(check);
}

static void hardware_cmd_run_checks(struct hardware *hardware)
{
  struct hardware_run *run = &hardware->run;
  uint32_t number = 0;

  for (uint32_t adapter = 0; adapter < run->near.has.adapters.count; adapter++) {
    const char *blocked = NULL;
    for (uint32_t i = 0; i < hardware_check_count; i++) {
      enum hardware_verdict verdict;
      if ((hardware->chosen & 1u << i) == 0)
        continue;
      struct json_object *check = hardware_run_check(run, i, adapter, blocked, &verdict);
      if (i == 0)
        hardware_report_pair(hardware->report, check);
      if (i == 0 && verdict == VERDICT_FAILED)
        blocked = "nothing connects: see `address`";
      hardware_cmd_take_check(hardware, check, verdict, number++);
    }
  }
}

/* What all of it comes to. */
static const char *hardware_cmd_conclude(struct hardware *hardware)
{
  const uint32_t *counts = hardware->counts;
  struct pst_error error = PST_ERROR_INIT;

  fprintf(hardware->report, "\n%u ok, %u failed, %u skipped, %u unknown\n", counts[VERDICT_OK],
          counts[VERDICT_FAILED], counts[VERDICT_SKIPPED], counts[VERDICT_UNKNOWN]);
  if (!hardware->arguments->json)
    fprintf(hardware->report, "With --json FILE all that was measured is in FILE, to be sent.\n");
  if (app_signals_stop()) {
    app_log_fail(&error, PST_EXIT_FAILED, -EINTR,
                 "hardware-check: stopped by %s; what had been found is in the report",
                 app_signals_name());
    hardware_cmd_note_error(hardware, &error);
    return "signal";
  }
  if (hardware->run.far.has_gone) {
    app_log_fail(&error, PST_EXIT_FAILED, -ECONNRESET,
                 "hardware-check: the other end has gone; its own output says why");
    hardware_cmd_note_error(hardware, &error);
    return "peer";
  }
  if (counts[VERDICT_OK] == 0 && counts[VERDICT_FAILED] == 0) {
    app_log_fail(&error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                 "hardware-check: nothing could be checked; the report says why");
    hardware_cmd_note_error(hardware, &error);
  }
  return "source_end";
}

/* Runs all checks against the server, writes the report and the result, and sets the exit
 * status. */
static int hardware_cmd_run_client(struct hardware *hardware)
{
  const char *stopped = "failure";

  hardware_cmd_hide(hardware->arguments, NULL);
  if (hardware->arguments->json)
    hardware->result = app_result_new(hardware->command, hardware->arguments, NULL);
  if (hardware->result) {
    hardware->checks = json_object_new_array();
    json_object_object_add(hardware->result, "checks", hardware->checks);
  }
  fprintf(hardware->report, "penstock %s hardware-check | transport %s\n", pst_version(),
          hardware->plan.transport);
  if (hardware_cmd_open_ends(hardware) == 0) {
    struct json_object *head = hardware_json(hardware, stopped);
    json_object_object_add(head, "environment", app_result_environment());
    hardware_cmd_hide(hardware->arguments, head);
    hardware_report_head(hardware->report, head);
    json_object_put(head);
    hardware_cmd_run_checks(hardware);
    stopped = hardware_cmd_conclude(hardware);
  }
  if (hardware->result)
    json_object_object_add(hardware->result, "hardware", hardware_json(hardware, stopped));
  hardware_remote_close(&hardware->run.far);
  hardware_child_end(&hardware->run.near.child);
  return hardware->arguments->json
             ? app_result_conclude(hardware->result, hardware->arguments->json, hardware->status)
             : hardware->status;
}

static int hardware_cmd_run_server(struct hardware *hardware)
{
  struct hardware_end *end = &hardware->run.near;
  const char *where = hardware->arguments->operand;

  if (hardware_look(&hardware->plan, hardware->arguments->hardware[HARDWARE_DEVICE], &end->has) <
      0) {
    app_log(PST_LOG_ERROR, "hardware-check: %s", end->has.adapters.why_none);
    return PST_EXIT_UNAVAILABLE;
  }
  return hardware_server(end, where ? where : "127.0.0.1",
                         hardware->arguments->bench[BENCH_ONCE] != NULL);
}

static int hardware_cmd_run(const struct command *command, const struct arguments *arguments)
{
  struct hardware *hardware = calloc(1, sizeof(*hardware));
  int status = PST_EXIT_USAGE;

  if (!hardware)
    return PST_EXIT_FAILED;
  hardware->command = command;
  hardware->arguments = arguments;
  hardware->report = arguments->json && strcmp(arguments->json, "-") == 0 ? stderr : stdout;
  hardware->run.near.plan = hardware->run.far.end.plan = &hardware->plan;
  hardware->run.near.child = hardware->run.far.end.child = CHILD_NONE;
  if (hardware_cmd_read_plan(hardware) == 0) {
    app_log_begin(arguments, PST_LOG_ERROR);
    for (size_t i = 0; i < arguments->plugin_path_count; i++)
      pst_plugin_path_add(arguments->plugin_paths[i]);
    if (app_signals_open(-1) < 0)
      status = PST_EXIT_FAILED;
    else
      status = arguments->bench[BENCH_SERVER] ? hardware_cmd_run_server(hardware)
                                              : hardware_cmd_run_client(hardware);
  }
  free(hardware);
  return status;
}

const struct command app_command_hardware_check = {
    .name = "hardware-check",
    .operand = "HOST",
    .need = OPERAND_OPTIONAL,
    .options = OPTION_HARDWARE | OPTION_JSON | OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE,
    .summary = "check the RDMA adapters of this host, and write a report to send back",
    .help =
        "Without HOST both ends are on this host: each active adapter with itself, or --device with\n"
        "--peer-device. With HOST[:PORT] the other end is a `penstock hardware-check --server\n"
        "[ADDRESS][:PORT]` there. The report goes to standard output; with --json all of it to FILE.\n"
        "Names and addresses of hosts, users and devices are replaced by labels in both.\n"
        "Only the commands of --outage and --readdress change anything on the host.\n"
        "\n"
        "Examples:\n"
        "  penstock hardware-check --json report.json\n"
        "      All checks on all adapters of this host.\n"
        "  penstock hardware-check --device mlx5_0 --peer-device mlx5_1 --check rings,messages\n"
        "      Two of the checks, over the cable between two ports.\n"
        "  penstock hardware-check --server --insecure 192.0.2.1\n"
        "  penstock hardware-check --insecure 192.0.2.1 --json report.json\n"
        "      Between two hosts.",
    .redact = hardware_cmd_hide,
    .run = hardware_cmd_run,
};
