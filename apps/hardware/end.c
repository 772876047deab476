/* SPDX-License-Identifier: Apache-2.0 */
/* What one end of a hardware check can do: programs, transports, memories. */
#include "end.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "json_put.h"
#include "signals.h"

#define LISTEN_NS (60 * NS_PER_S) /* a server may have a GPU to wake */
#define LOOK_NS (20 * NS_PER_MS)
#define TOOL_NS (10 * NS_PER_S)
#define LINES_MOST 30
#define LINE_BYTES 500
#define PERFTEST_COUNT 1024 /* of a run that is shorter than its -D can say */
#define KILLED_NS (3600 * NS_PER_S)

/* ---- Programs -------------------------------------------------------------------------------- */

static void hardware_end_add_penstock(const struct hardware_plan *plan, struct child_words *words,
                                      const char *command)
{
  words->is_own = true;
  hardware_child_word(words, "penstock");
  hardware_child_split(words, command);
  for (size_t i = 0; i < plan->plugin_path_count; i++) {
    hardware_child_word(words, "--plugin-path");
    hardware_child_word(words, "%s", plan->plugin_paths[i]);
  }
  if (plan->insecure)
    hardware_child_word(words, "--insecure");
  hardware_child_word(words, "-v");
}

/* Of the transport, each behind `option`. */
static void hardware_end_add_options(const struct hardware_end *end, const struct hardware_ask *ask,
                                     const char *option, struct child_words *words)
{
  const struct hardware_device *adapter = hardware_adapter(&end->has, ask);
  const char *at = hardware_checks[ask->check].steps[ask->step].options;

  if (adapter->name[0] != '\0') {
    hardware_child_split(words, option);
    hardware_child_word(words, "device=%s", adapter->name);
  }
  while (at && at[0] != '\0') {
    const int length = (int)strcspn(at, ",");
    hardware_child_split(words, option);
    hardware_child_word(words, "%.*s", length, at);
    at += length + (at[length] == ',');
  }
}

static void hardware_end_add_transport(const struct hardware_end *end,
                                       const struct hardware_ask *ask, struct child_words *words)
{
  hardware_child_split(words, "--transport");
  hardware_child_word(words, "%s", end->plan->transport);
  hardware_end_add_options(end, ask, "--transport-option", words);
}

static void hardware_end_add_contract(const struct hardware_end *end,
                                      const struct hardware_ask *ask, const char *option,
                                      const char *host, uint16_t port, struct child_words *words)
{
  hardware_child_split(words, "penstock-contract");
  hardware_child_word(words, "%s", end->has.plugin);
  hardware_end_add_options(end, ask, "--option", words);
  hardware_child_split(words, hardware_checks[ask->check].steps[ask->step].words);
  hardware_child_split(words, option);
  hardware_child_word(words, "%s:%u", host, port);
}

static void hardware_end_add_memory(const struct hardware_end *end, const struct hardware_ask *ask,
                                    bool on_gpu, struct child_words *words)
{
  hardware_child_split(words, on_gpu ? "--memory cuda" : "--memory host");
  if (!on_gpu || end->has.gpus.count == 0)
    return;
  hardware_child_word(words, "--memory-option");
  hardware_child_word(words, "device=%s", end->has.gpus.all[ask->gpu % end->has.gpus.count].name);
}

static void hardware_end_add_perftest(const struct hardware_end *end,
                                      const struct hardware_ask *ask,
                                      const struct hardware_step *step, uint16_t port,
                                      struct child_words *words)
{
  hardware_child_word(words, "%s", step->tool);
  hardware_child_split(words, step->words);
  hardware_child_word(words, "-d");
  hardware_child_word(words, "%s", hardware_adapter(&end->has, ask)->name);
  hardware_child_word(words, "-p");
  hardware_child_word(words, "%u", port);
  if (ask->duration_ns >= NS_PER_S) {
    hardware_child_word(words, "-D");
    hardware_child_word(words, "%" PRIu64, ask->duration_ns / NS_PER_S);
  } else {
    hardware_child_word(words, "-n");
    hardware_child_word(words, "%d", PERFTEST_COUNT);
  }
  hardware_child_split(words, "-F --report_gbits");
}

static bool hardware_end_needs(const struct hardware_ask *ask, uint32_t need)
{
  const struct hardware_check *check = &hardware_checks[ask->check];

  return ((check->needs | check->steps[ask->step].needs) & need) != 0;
}

static void hardware_end_make_server(const struct hardware_end *end, const struct hardware_ask *ask,
                                     const char *host, uint16_t port, struct child_words *words)
{
  const struct hardware_step *step = &hardware_checks[ask->check].steps[ask->step];

  if (step->program == RUN_PERFTEST) {
    hardware_end_add_perftest(end, ask, step, port, words);
    return;
  }
  if (step->program == RUN_CONTRACT) {
    hardware_end_add_contract(end, ask, "--listen", host, port, words);
    return;
  }
  hardware_end_add_penstock(end->plan, words,
                            step->program == RUN_BENCH ? "bench --server --once" : "serve");
  hardware_end_add_transport(end, ask, words);
  hardware_end_add_memory(end, ask, hardware_end_needs(ask, NEED_GPU), words);
  hardware_child_split(words, step->serving);
  hardware_child_word(words, "%s:%u", host, port);
}

static void hardware_end_make_client(const struct hardware_end *end, const struct hardware_ask *ask,
                                     const char *host, uint16_t port, bool is_killed,
                                     struct child_words *words)
{
  const struct hardware_step *step = &hardware_checks[ask->check].steps[ask->step];
  const uint64_t duration_ns = ask->duration_ns * (step->times > 0 ? step->times : 1);

  if (step->program == RUN_PERFTEST) {
    const size_t bare = host[0] == '[' ? 1 : 0;
    hardware_end_add_perftest(end, ask, step, port, words);
    hardware_child_word(words, "%.*s", (int)strcspn(host + bare, "]"), host + bare);
    return;
  }
  if (step->program == RUN_CONTRACT) {
    hardware_end_add_contract(end, ask, "--connect", host, port, words);
    return;
  }
  hardware_end_add_penstock(end->plan, words, step->program == RUN_BENCH ? "bench" : "request");
  hardware_end_add_transport(end, ask, words);
  hardware_end_add_memory(end, ask, false, words);
  hardware_child_split(words, step->words);
  if (step->program == RUN_BENCH || step->killed > 0)
    hardware_child_word(words, "--duration=%" PRIu64 "us",
                        (is_killed ? KILLED_NS : duration_ns) / 1000);
  hardware_child_split(words, "--json -");
  if (step->program == RUN_REQUEST)
    hardware_child_word(words, "write");
  hardware_child_word(words, "%s:%u", host, port);
}

static int hardware_end_start(struct hardware_end *end, const struct hardware_ask *ask,
                              struct child_words *words, char why[HARDWARE_WHY])
{
  const char *environment = hardware_checks[ask->check].steps[ask->step].environment;

  hardware_child_line(words, environment, end->line, sizeof(end->line));
  int code =
      hardware_child_start(&end->child, words, environment, hardware_end_needs(ask, NEED_COUNTERS));
  hardware_child_words_free(words);
  if (code < 0)
    snprintf(why, HARDWARE_WHY, "cannot start a process: %s", strerror(-code));
  return code;
}

/* ---- Serving --------------------------------------------------------------------------------- */

/* In this network namespace (proc_pid_net(5)): st 0A is TCP_LISTEN. To connect would use up the one
 * client that some servers take. */
static bool hardware_end_is_listening(const char *table, uint16_t port)
{
  char line[512];
  unsigned local, state;
  bool found = false;
  FILE *file = fopen(table, "re");

  while (file && !found && fgets(line, sizeof(line), file))
    found = sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local, &state) == 2 &&
            local == port && state == 0x0a;
  if (file)
    fclose(file);
  return found;
}

int hardware_serve(struct hardware_end *end, const struct hardware_ask *ask, const char *host,
                   uint16_t port, char why[HARDWARE_WHY])
{
  struct child_words words = {.count = 0};
  const uint64_t until_ns = app_now_ns() + LISTEN_NS;

  const enum hardware_program program = hardware_checks[ask->check].steps[ask->step].program;

  end->is_endless = program == RUN_REQUEST;
  end->is_bench = program == RUN_BENCH;
  hardware_end_make_server(end, ask, host, port, &words);
  int code = hardware_end_start(end, ask, &words, why);
  while (code == 0) {
    hardware_child_pump(&end->child, LOOK_NS);
    if (hardware_end_is_listening("/proc/net/tcp", port) ||
        hardware_end_is_listening("/proc/net/tcp6", port))
      return 0;
    if (end->child.has_ended)
      code = -ECHILD; /* its lines say why */
    else if (app_signals_stop())
      code = -EINTR;
    else if (app_now_ns() > until_ns)
      code = -ETIMEDOUT;
    if (code < 0)
      snprintf(why, HARDWARE_WHY, "the serving program %s",
               code == -ECHILD  ? "ended before it listened"
               : code == -EINTR ? "was stopped before it listened"
                                : "does not listen");
  }
  return code;
}

int hardware_request(struct hardware_end *end, const struct hardware_ask *ask, const char *host,
                     uint16_t port, char why[HARDWARE_WHY])
{
  struct child_words words = {.count = 0};

  hardware_end_make_client(end, ask, host, port, false, &words);
  return hardware_end_start(end, ask, &words, why);
}

int hardware_request_beside(const struct hardware_end *end, const struct hardware_ask *ask,
                            const char *host, uint16_t port, bool is_killed, struct child *child,
                            char why[HARDWARE_WHY])
{
  struct child_words words = {.count = 0};

  hardware_end_make_client(end, ask, host, port, is_killed, &words);
  const int code = hardware_child_start(child, &words, NULL, false);
  hardware_child_words_free(&words);
  if (code < 0)
    snprintf(why, HARDWARE_WHY, "cannot start a process: %s", strerror(-code));
  return code;
}

/* Of a client that could not open its end, and so did not come. */
static bool hardware_end_waits_for_client(const struct hardware_end *end)
{
  return end->is_bench && !hardware_child_has_said(&end->child, "bench: client ", "");
}

void hardware_stop(struct hardware_end *end, uint64_t patience_ns)
{
  static const int signals[] = {0, SIGINT, SIGKILL};

  hardware_child_pump(&end->child, 0);
  for (size_t i = end->is_endless || hardware_end_waits_for_client(end) || app_signals_stop() ? 1
                                                                                              : 0;
       i < sizeof(signals) / sizeof(signals[0]) && end->child.pid > 0; i++) {
    const uint64_t until_ns = app_now_ns() + patience_ns;
    if (signals[i] != 0)
      hardware_child_signal(&end->child, signals[i]);
    while (!end->child.has_ended && app_now_ns() < until_ns)
      hardware_child_pump(&end->child, LOOK_NS);
  }
}

/* ---- What it has told -------------------------------------------------------------------------
 */

static struct json_object *hardware_end_lines_of(const char *text, const char *about)
{
  struct json_object *lines = json_object_new_array();
  size_t all = 0, skipped = 0;

  for (const char *at = text; at && at[0] != '\0'; at += strcspn(at, "\n"), at += *at != 0)
    all++;
  for (const char *at = text; at && at[0] != '\0';) {
    char line[LINE_BYTES];
    const size_t length = strcspn(at, "\n");
    snprintf(line, sizeof(line), "%.*s", (int)length, at);
    at += length + (at[length] == '\n');
    if (about ? !strstr(line, about) : skipped++ + LINES_MOST < all)
      continue;
    if (json_object_array_length(lines) < LINES_MOST && length > 0)
      json_object_array_add(lines, json_object_new_string(line));
  }
  return lines;
}

static struct json_object *hardware_end_counters_of(const struct child *child)
{
  double values[CHILD_COUNTERS];
  struct json_object *object = NULL;

  hardware_child_counters(child, values);
  for (size_t i = 0; i < CHILD_COUNTERS; i++)
    if (values[i] >= 0)
      object = object ? object : json_object_new_object();
  for (size_t i = 0; i < CHILD_COUNTERS && object; i++)
    app_json_put_share(object, hardware_child_counter_names[i], values[i]);
  return object;
}

struct json_object *hardware_told(struct hardware_end *end, const char *about)
{
  struct json_object *object = json_object_new_object();
  const int status = hardware_child_exit_status(&end->child);
  char how[80];

  hardware_child_how_ended(&end->child, how, sizeof(how));
  app_json_put_text(object, "command", end->line);
  json_object_object_add(object, "exit_status", status >= 0 ? json_object_new_int(status) : NULL);
  app_json_put_text(object, "ended", end->child.pid > 0 ? how : "it was not started");
  json_object_object_add(object, "lines", hardware_end_lines_of(end->child.err.bytes, about));
  json_object_object_add(object, "counters", hardware_end_counters_of(&end->child));
  hardware_child_end(&end->child);
  end->line[0] = '\0';
  return object;
}

/* ---- What there is ----------------------------------------------------------------------------
 */

struct looking {
  const struct hardware_plan *plan;
  struct hardware_has *has;
  struct hardware_devices *into; /* of the plugin that is listed */
  bool is_transport, is_usable;  /* that plugin; the transport */
};

/* All options of a step: "qps=2,operation=write". */
static bool hardware_end_has_options(const struct pst_plugin_info *info, const char *options)
{
  for (const char *at = options; at && at[0] != '\0'; at += strcspn(at, ",")) {
    at += at[0] == ',';
    const size_t length = strcspn(at, "=");
    uint32_t i = 0;
    while (i < info->option_count && (strncmp(info->options[i].name, at, length) != 0 ||
                                      info->options[i].name[length] != '\0'))
      i++;
    if (i == info->option_count)
      return false;
  }
  return true;
}

static void hardware_end_take_options(struct hardware_has *has, const struct pst_plugin_info *info)
{
  for (uint32_t check = 0; check < hardware_check_count; check++)
    for (uint32_t i = 0; hardware_step_of(&hardware_checks[check], i) != NULL; i++)
      if (!hardware_end_has_options(info, hardware_checks[check].steps[i].options))
        has->lacks_options[check] |= 1u << i;
}

static void hardware_end_take_plugin(void *context, const struct pst_plugin_info *info)
{
  struct looking *looking = context;
  const bool is_transport =
      info->kind == PST_KIND_TRANSPORT && strcmp(info->name, looking->plan->transport) == 0;
  const bool is_gpu = info->kind == PST_KIND_MEMORY && strcmp(info->name, "cuda") == 0;

  looking->is_transport = is_transport;
  looking->into = NULL;
  if (info->status == -EEXIST || (!is_transport && !is_gpu))
    return;
  looking->into = is_transport ? &looking->has->adapters : &looking->has->gpus;
  looking->is_usable |= is_transport && info->status == 0;
  if (is_transport && info->status == 0) {
    hardware_end_take_options(looking->has, info);
    snprintf(looking->has->plugin, sizeof(looking->has->plugin), "%s", info->path);
  }
  if (info->status == 0)
    looking->into->why_none[0] = '\0';
  else
    snprintf(looking->into->why_none, sizeof(looking->into->why_none), "%.31s %.31s: %s%s%s",
             is_transport ? "transport" : "memory", info->name,
             info->reason && info->reason[0] != '\0' ? info->reason : strerror(-info->status),
             info->remedy && info->remedy[0] != '\0' ? "; " : "", info->remedy ? info->remedy : "");
}

/* A port of an adapter says "port 1 active"; other devices say nothing of the kind, and are. */
static bool hardware_end_is_active(const char *detail)
{
  unsigned port;
  int end = 0;

  if (sscanf(detail, "port %u %n", &port, &end) < 1 || end == 0)
    return strncmp(detail, "cannot be opened", 16) != 0;
  return strncmp(detail + end, "active", 6) == 0;
}

static void hardware_end_take_device(void *context, const char *name, const char *detail)
{
  const struct looking *looking = context;
  struct hardware_devices *into = looking->into;

  if (!into || into->count == HARDWARE_DEVICES)
    return;
  if (looking->is_transport && !hardware_end_is_active(detail)) {
    snprintf(into->why_none, sizeof(into->why_none),
             "no adapter has an active port: %.100s: %.300s; see `rdma link`, or name one with "
             "--device",
             name, detail);
    return;
  }
  for (uint32_t i = 0; i < into->count; i++)
    if (strcmp(into->all[i].name, name) == 0)
      return; /* its other port */
  struct hardware_device *device = &into->all[into->count++];
  snprintf(device->name, sizeof(device->name), "%s", name);
  snprintf(device->detail, sizeof(device->detail), "%s", detail);
}

/* What the help of a program is taken to say; `all` where it has the words. */
static uint32_t hardware_end_look_at_tool(const char *command, const char *has, uint32_t all,
                                          const char *more, uint32_t with, uint32_t without)
{
  struct child_words words = {.count = 0};
  struct child child = CHILD_NONE;
  const uint64_t until_ns = app_now_ns() + TOOL_NS;
  uint32_t tools = 0;

  hardware_child_split(&words, command);
  if (hardware_child_start(&child, &words, NULL, false) == 0) {
    while (!child.has_ended && app_now_ns() < until_ns)
      hardware_child_pump(&child, LOOK_NS);
    const char *help = child.out.length > 0 ? child.out.bytes : child.err.bytes;
    if (help && strstr(help, has))
      tools = all | (strstr(help, more) ? with : without);
  }
  hardware_child_end(&child);
  hardware_child_words_free(&words);
  return tools;
}

int hardware_named(const char *list, const struct hardware_devices *known,
                   struct hardware_devices *named)
{
  const char *at = list;

  *named = (struct hardware_devices){.count = 0};
  do {
    const size_t length = strcspn(at, ",");
    struct hardware_device *device = &named->all[named->count];
    if (length == 0 || length >= sizeof(device->name) || named->count == HARDWARE_DEVICES)
      return -EINVAL;
    snprintf(device->name, sizeof(device->name), "%.*s", (int)length, at);
    for (uint32_t i = 0; known && i < known->count; i++)
      if (strcmp(known->all[i].name, device->name) == 0)
        *device = known->all[i];
    named->count++;
    at += length;
  } while (*at++ == ',');
  return 0;
}

int hardware_look(const struct hardware_plan *plan, const char *list, struct hardware_has *has)
{
  struct looking looking = {.plan = plan, .has = has};

  *has = (struct hardware_has){.tools = 0};
  snprintf(has->adapters.why_none, sizeof(has->adapters.why_none),
           "there is no transport '%.60s'; `penstock plugins` lists them", plan->transport);
  snprintf(has->gpus.why_none, sizeof(has->gpus.why_none), "memory cuda is not installed");
  pst_plugins_list(hardware_end_take_plugin, hardware_end_take_device, &looking);
  has->tools =
      hardware_end_look_at_tool("ib_write_bw --help", "--report_gbits", NEED_PERFTEST,
                                "--write_with_imm", NEED_PERFTEST_RUNS, NEED_PERFTEST_SENDS) |
      hardware_end_look_at_tool("penstock-contract --help", "--listen", NEED_CONTRACT, "", 0, 0);
  if (list && looking.is_usable) {
    const struct hardware_devices known = has->adapters;
    hardware_named(list, &known, &has->adapters);
  }
  return has->adapters.count > 0 ? 0 : -ENODEV;
}

const struct hardware_device *hardware_adapter(const struct hardware_has *has,
                                               const struct hardware_ask *ask)
{
  return &has->adapters.all[ask->adapter % has->adapters.count];
}
