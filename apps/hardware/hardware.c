/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock hardware-check`: does it work on what this machine has? */
#include <assert.h>
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

#define DURATION_NS (250 * NS_PER_MS)
#define LIMIT_NS (60 * NS_PER_S)
#define DURATION_MOST_NS (600 * NS_PER_S)

struct hardware {
  const struct command *command;
  const struct arguments *arguments;
  struct hardware_plan plan;
  struct hardware_run run;
  uint32_t chosen; /* bits of checks, by their index */
  uint32_t named;  /* those that were asked for: not the first one that others need */
  FILE *report;
  char header[512];                    /* the last one of the report */
  uint32_t number;                     /* of the next check */
  struct json_object *result, *checks; /* NULL without --json */
  uint32_t counts[HARDWARE_VERDICTS];
  int status;
};

/* Labels of names and addresses in everything that this process writes: one label each. */
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

/* Reads the list of --check; without one, all checks but those that run only when named. */
static int hardware_cmd_choose_checks(struct hardware *hardware)
{
  const char *at = hardware->arguments->hardware[HARDWARE_CHECK];
  char word[64], known[512], meant[ARGUMENTS_MEANT_BYTES];
  const char *names[32];
  int used = 0;

  for (uint32_t i = 0; i < hardware_check_count; i++) {
    names[i] = hardware_checks[i].name;
    used +=
        snprintf(known + used, sizeof(known) - (size_t)used, "%s%s", i > 0 ? ", " : "", names[i]);
    assert(used < (int)sizeof(known));
    if (!at && !hardware_checks[i].only_named)
      hardware->named |= 1u << i;
  }
  while (at) {
    const size_t length = strcspn(at, ",");
    uint32_t check = 0;
    snprintf(word, sizeof(word), "%.*s", (int)length, at);
    while (check < hardware_check_count && strcmp(names[check], word) != 0)
      check++;
    if (check == hardware_check_count)
      return app_arguments_wrong(
          hardware->command, "--check '%s' is not one of %s%s", word, known,
          app_arguments_meant(word, names, hardware_check_count, "; did you mean '", meant));
    hardware->named |= 1u << check;
    at = at[length] == ',' ? at + length + 1 : NULL;
  }
  hardware->chosen = hardware->named | 1u;
  return 0;
}

static int hardware_cmd_check_list(const struct hardware *hardware, const char *list,
                                   const char *name)
{
  struct hardware_devices ignored;

  return !list || hardware_named(list, NULL, &ignored) == 0
             ? 0
             : app_arguments_wrong(hardware->command, "--%s '%.100s' is not a list like a,b", name,
                                   list);
}

/* Checks that options come with a list of one plugin, since they are one plugin's. */
static int hardware_cmd_check_options(const struct hardware *hardware, size_t count,
                                      const char *list, const char *name)
{
  return count == 0 || (list && !strchr(list, ','))
             ? 0
             : app_arguments_wrong(hardware->command, "--%s-option is for one --%s, by name", name,
                                   name);
}

static int hardware_cmd_read_limit(struct hardware *hardware)
{
  const char *text = hardware->arguments->hardware[HARDWARE_LIMIT];

  if (text && (app_arguments_duration(text, &hardware->plan.limit_ns) < 0 ||
               hardware->plan.limit_ns == 0 || hardware->plan.limit_ns > DURATION_MOST_NS))
    return app_arguments_wrong(hardware->command,
                               "--limit '%.100s' is not a time of at most 10 min, as in 90s", text);
  return 0;
}

static int hardware_cmd_check_path(const struct hardware *hardware)
{
  static const char *const paths[] = {"auto", "direct", "mapped", "staged"};
  char meant[ARGUMENTS_MEANT_BYTES];

  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
    if (!hardware->plan.path || strcmp(hardware->plan.path, paths[i]) == 0)
      return 0;
  return app_arguments_wrong(
      hardware->command,
      "--path '%.100s' is not auto, direct, mapped or "
      "staged%s",
      hardware->plan.path,
      app_arguments_meant(hardware->plan.path, paths, 4, "; did you mean '", meant));
}

/* Reads the options into hardware->plan. -EINVAL: reported as wrong usage. */
static int hardware_cmd_read_plan(struct hardware *hardware)
{
  const struct arguments *arguments = hardware->arguments;
  const char *const *bench = arguments->bench, *const *own = arguments->hardware;
  const bool serves = bench[BENCH_SERVER] != NULL;

  hardware->plan = (struct hardware_plan){
      .transports = bench[BENCH_TRANSPORT],
      .memories = bench[BENCH_MEMORY],
      .path = bench[BENCH_PATH],
      .transport_options = arguments->transport_options,
      .transport_option_count = arguments->transport_option_count,
      .memory_options = arguments->memory_options,
      .memory_option_count = arguments->memory_option_count,
      .limit_ns = LIMIT_NS,
      .plugin_paths = arguments->plugin_paths,
      .plugin_path_count = arguments->plugin_path_count,
      .insecure = bench[BENCH_INSECURE] != NULL,
      .duration_ns = arguments->duration_set ? arguments->duration_ns : DURATION_NS,
  };
  hardware->run.outage = own[HARDWARE_OUTAGE];
  hardware->run.readdress = own[HARDWARE_READDRESS];
  if (hardware_cmd_choose_checks(hardware) < 0 ||
      hardware_cmd_check_list(hardware, own[HARDWARE_DEVICE], "device") < 0 ||
      hardware_cmd_check_list(hardware, own[HARDWARE_PEER_DEVICE], "peer-device") < 0 ||
      hardware_cmd_check_list(hardware, hardware->plan.transports, "transport") < 0 ||
      hardware_cmd_check_list(hardware, hardware->plan.memories, "memory") < 0 ||
      hardware_cmd_check_options(hardware, arguments->transport_option_count,
                                 hardware->plan.transports, "transport") < 0 ||
      hardware_cmd_check_options(hardware, arguments->memory_option_count, hardware->plan.memories,
                                 "memory") < 0 ||
      hardware_cmd_read_limit(hardware) < 0 || hardware_cmd_check_path(hardware) < 0)
    return -EINVAL;
  if (hardware->plan.duration_ns > DURATION_MOST_NS)
    return app_arguments_wrong(hardware->command,
                               "--duration is the time of one measurement, at most 10 min");
  if (serves && (own[HARDWARE_CHECK] || own[HARDWARE_OUTAGE] || own[HARDWARE_READDRESS] ||
                 own[HARDWARE_PEER_DEVICE] || own[HARDWARE_LIMIT] || bench[BENCH_PATH] ||
                 arguments->duration_set || arguments->json))
    return app_arguments_wrong(hardware->command,
                               "the client says what is checked: the server takes --transport, "
                               "--memory, their options, --device, --plugin-path, --once and "
                               "--insecure");
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

/* ---- The result ---------------------------------------------------------------------------------
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

/* Why what cannot be used cannot be. */
static struct json_object *hardware_cmd_parts_json(const struct hardware_parts *parts)
{
  struct json_object *list = json_object_new_array();

  for (uint32_t i = 0; i < parts->count; i++) {
    const struct hardware_part *part = &parts->all[i];
    struct json_object *item = json_object_new_object();
    app_json_put_text(item, "name", part->name);
    app_json_put_text(item, "why", part->devices.count == 0 ? part->devices.why_none : NULL);
    json_object_object_add(item, "found", hardware_cmd_devices_json(&part->devices));
    json_object_array_add(list, item);
  }
  return list;
}

static struct json_object *hardware_json(const struct hardware *hardware, const char *stopped)
{
  const struct hardware_run *run = &hardware->run;
  struct json_object *object = json_object_new_object();

  app_json_put_text(object, "stopped", stopped);
  app_json_put_text(object, "form", hardware->arguments->operand ? "hosts" : "processes");
  app_json_put_number(object, "duration_seconds", (double)hardware->plan.duration_ns / 1e9);
  json_object_object_add(object, "transports", hardware_cmd_parts_json(&run->near.has.transports));
  json_object_object_add(object, "memories", hardware_cmd_parts_json(&run->near.has.memories));
  json_object_object_add(object, "peer_transports",
                         hardware_cmd_parts_json(&run->far.end.has.transports));
  json_object_object_add(object, "peer_memories",
                         hardware_cmd_parts_json(&run->far.end.has.memories));
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

/* Memories are checked by themselves unless transports alone were asked for. */
static bool hardware_cmd_has_memory_check(const struct hardware *hardware)
{
  const char *const *own = hardware->arguments->hardware;
  const bool is_chosen = (!hardware->plan.transports && !own[HARDWARE_DEVICE]) ||
                         hardware->plan.memories || own[HARDWARE_CHECK];

  for (uint32_t i = 0; i < hardware_check_count && is_chosen; i++)
    if (hardware_checks[i].scope == SCOPE_MEMORY && (hardware->chosen & 1u << i) != 0)
      return true;
  return false;
}

/* Opens both ends, the other one on this host or by its server, and reads what each has. 0, or
 * -errno reported. */
static int hardware_cmd_open_ends(struct hardware *hardware)
{
  struct hardware_run *run = &hardware->run;
  const char *const *own = hardware->arguments->hardware;
  struct pst_error error = PST_ERROR_INIT;
  char why[HARDWARE_WHY];
  int rc = hardware_look(&hardware->plan, own[HARDWARE_DEVICE], &run->near.has, why);

  if (rc == -ENODEV && hardware_cmd_has_memory_check(hardware))
    rc = 0;
  if (rc < 0)
    app_log_fail(&error, PST_EXIT_UNAVAILABLE, rc, "hardware-check: %s", why);
  else if (hardware->arguments->operand)
    rc = hardware_remote_connect(&run->far, hardware->arguments->operand, &error);
  if (rc < 0) {
    hardware_cmd_note_error(hardware, &error);
    return rc;
  }
  if (!run->far.link) {
    run->far.end.has = run->near.has;
    for (uint32_t i = 0; own[HARDWARE_PEER_DEVICE] && i < run->near.has.transports.count; i++)
      if (run->near.has.transports.all[i].devices.count > 0)
        hardware_named(own[HARDWARE_PEER_DEVICE], &run->near.has.transports.all[i].devices,
                       &run->far.end.has.transports.all[i].devices);
  } else if (run->far.environment) {
    app_redact_host(hidden, bench_link_text(run->far.environment, "hostname"));
  }
  run->can_count = hardware_child_can_count();
  return 0;
}

/* Whether a check that was asked for needs a transport. */
static bool hardware_cmd_needs_transport(const struct hardware *hardware)
{
  for (uint32_t i = 0; i < hardware_check_count; i++)
    if (hardware_checks[i].scope != SCOPE_MEMORY && (hardware->named & 1u << i) != 0)
      return true;
  return false;
}

static void hardware_cmd_take_check(struct hardware *hardware, struct json_object *check,
                                    enum hardware_verdict verdict)
{
  char where[32];

  hardware_cmd_hide(hardware->arguments, check);
  hardware_report_check(hardware->report, check, hardware->header, sizeof(hardware->header));
  hardware->counts[verdict]++;
  snprintf(where, sizeof(where), "checks[%u]", hardware->number++);
  if (verdict == VERDICT_FAILED)
    hardware_cmd_note_failure(hardware, FINDING_FAILED, PST_EXIT_FAILED, where,
                              bench_link_text(check, "why"));
  if (hardware->checks)
    json_object_array_add(hardware->checks, check);
  else
    json_object_put(check);
}

/* All chosen checks of one scope. *blocked: what the first check says of all others. */
static void hardware_cmd_run_scope(struct hardware *hardware, enum hardware_scope scope,
                                   const struct hardware_ask *of, const char **blocked)
{
  for (uint32_t i = 0; i < hardware_check_count; i++) {
    enum hardware_verdict verdict;
    if ((hardware->chosen & 1u << i) == 0 || hardware_checks[i].scope != scope)
      continue;
    struct json_object *check =
        hardware_run_check(&hardware->run, i, of, blocked ? *blocked : NULL, &verdict);
    if (i == 0 && verdict == VERDICT_FAILED && blocked)
      *blocked = "nothing connects: see `address`";
    hardware_cmd_take_check(hardware, check, verdict);
  }
}

/* Each device of a memory, of the end that has more of them. */
static void hardware_cmd_run_memory(struct hardware *hardware, const char *memory,
                                    struct hardware_ask *of, const char **blocked)
{
  const struct hardware_run *run = &hardware->run;
  const struct hardware_part *near = hardware_part_of(&run->near.has.memories, memory),
                             *far = hardware_part_of(&run->far.end.has.memories, memory);
  const uint32_t near_count = near ? near->devices.count : 0,
                 far_count = far ? far->devices.count : 0;
  const bool is_named = hardware->plan.memories != NULL;
  const uint32_t count = near_count > far_count ? near_count : far_count;
  const bool is_gpu = strcmp(memory, "host") != 0 && hardware_is_verbs(of->transport);

  snprintf(of->memory, sizeof(of->memory), "%s", memory);
  /* A memory that is named and has no device is checked once, and so reported. */
  for (of->gpu = 0; of->gpu < count || (of->gpu == 0 && is_named); of->gpu++) {
    hardware_cmd_run_scope(hardware, SCOPE_PAIR, of, blocked);
    if (is_gpu)
      hardware_cmd_run_scope(hardware, SCOPE_GPU, of, blocked);
  }
}

static void hardware_cmd_run_device(struct hardware *hardware, const char *transport,
                                    uint32_t adapter)
{
  const struct hardware_parts *memories = &hardware->run.near.has.memories;
  const struct hardware_parts *theirs = &hardware->run.far.end.has.memories;
  const char *list = hardware->plan.memories, *blocked = NULL;
  struct hardware_ask of = {.adapter = adapter, .memory = "host"};

  snprintf(of.transport, sizeof(of.transport), "%s", transport);
  hardware_cmd_run_scope(hardware, SCOPE_TRANSPORT, &of, &blocked);
  if (hardware_is_verbs(transport))
    hardware_cmd_run_scope(hardware, SCOPE_VERBS, &of, &blocked);
  for (uint32_t i = 0; i < memories->count; i++)
    if (hardware_has_word(list, memories->all[i].name))
      hardware_cmd_run_memory(hardware, memories->all[i].name, &of, &blocked);
  for (uint32_t i = 0; i < theirs->count; i++)
    if (!hardware_part_of(memories, theirs->all[i].name) &&
        hardware_has_word(list, theirs->all[i].name))
      hardware_cmd_run_memory(hardware, theirs->all[i].name, &of, &blocked);
}

/* Reports the checks of a transport that was named, or that only one end has, as skipped. */
static void hardware_cmd_skip_transport(struct hardware *hardware, const char *name,
                                        const char *where, const struct hardware_part *part)
{
  struct hardware_ask of = {.memory = ""};
  char why[HARDWARE_WHY];

  snprintf(of.transport, sizeof(of.transport), "%s", name);
  snprintf(why, sizeof(why), "%s: %.800s", where,
           part ? part->devices.why_none : "it has no such plugin");
  hardware_cmd_take_check(hardware, hardware_run_skipped(0, &of, why), VERDICT_SKIPPED);
}

static void hardware_cmd_run_checks(struct hardware *hardware)
{
  struct hardware_run *run = &hardware->run;
  const struct hardware_parts *memories = &run->near.has.memories;
  const bool has_transports = hardware_cmd_needs_transport(hardware);

  for (uint32_t i = 0; i < memories->count && hardware_cmd_has_memory_check(hardware); i++) {
    struct hardware_ask of = {.gpu = 0};
    if (!hardware_has_word(hardware->plan.memories, memories->all[i].name))
      continue;
    snprintf(of.memory, sizeof(of.memory), "%s", memories->all[i].name);
    for (; of.gpu < memories->all[i].devices.count; of.gpu++)
      hardware_cmd_run_scope(hardware, SCOPE_MEMORY, &of, NULL);
  }
  for (uint32_t i = 0; i < run->near.has.transports.count && has_transports; i++) {
    const struct hardware_part *near = &run->near.has.transports.all[i],
                               *far = hardware_part_of(&run->far.end.has.transports, near->name);
    if (near->devices.count == 0) {
      if (hardware->plan.transports)
        hardware_cmd_skip_transport(hardware, near->name, "this end", near);
    } else if (!far || far->devices.count == 0) {
      hardware_cmd_skip_transport(hardware, near->name, "the other end", far);
    } else {
      for (uint32_t adapter = 0; adapter < near->devices.count; adapter++)
        hardware_cmd_run_device(hardware, near->name, adapter);
    }
  }
}

/* Prints the totals, and returns why the check ended, for `stopped` of the result. */
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
  fprintf(hardware->report, "penstock %s hardware-check\n", pst_version());
  if (hardware_cmd_open_ends(hardware) == 0) {
    struct json_object *head = hardware_json(hardware, stopped);
    json_object_object_add(head, "environment", app_result_environment());
    hardware_cmd_hide(hardware->arguments, head);
    hardware_report_head(hardware->report, head);
    fflush(hardware->report);
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
  char why[HARDWARE_WHY];

  if (hardware_look(&hardware->plan, hardware->arguments->hardware[HARDWARE_DEVICE], &end->has,
                    why) < 0) {
    app_log(PST_LOG_ERROR, "hardware-check: %s", why);
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
    .summary = "check each transport and memory, and write a report to send",
    .help =
        "Finds the transports and memories that are usable here, and checks each of them, and each\n"
        "transport with each memory: the plugin contract, verified streams, WRITE and READ, rates. RDMA\n"
        "adapters have more checks. Without HOST both ends are on this host: each device sends to\n"
        "itself, or --device to --peer-device. With HOST[:PORT] the other end is there; start it first\n"
        "with `penstock hardware-check --server [ADDRESS][:PORT]`. A report goes to standard output,\n"
        "and with --json all details to FILE. In both, labels replace names and addresses of hosts,\n"
        "users and devices.\n"
        "Only the commands of --outage and --readdress change anything on the host.\n"
        "\n"
        "Examples:\n"
        "  penstock hardware-check --json report.json\n"
        "      Checks everything that this host has.\n"
        "  penstock hardware-check --transport loopback,udp --memory host,cuda --check stream,bench\n"
        "      Makes two checks with each of these transports and memories.\n"
        "  penstock hardware-check --device mlx5_0 --peer-device mlx5_1 --check rings,messages\n"
        "      Makes two checks over the cable between two ports.\n"
        "  penstock hardware-check --server --insecure 192.0.2.1\n"
        "  penstock hardware-check --insecure 192.0.2.1 --json report.json\n"
        "      Checks between two hosts; the first command runs on the other host.",
    .redact = hardware_cmd_hide,
    .run = hardware_cmd_run,
};
