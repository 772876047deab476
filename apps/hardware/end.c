/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of one end of a hardware check: programs, transports, memories. */
#include "end.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "json_put.h"
#include "signals.h"

#define LOOK_NS (20 * NS_PER_MS)
#define TOOL_NS (10 * NS_PER_S)
#define LINES_MOST 30
#define LINE_BYTES 500
#define PERFTEST_NS (200 * NS_PER_MS) /* from here on a whole second of -D */
#define PERFTEST_COUNT 1024           /* messages of shorter runs */
#define KILLED_NS (3600 * NS_PER_S)
#define ROWS_MOST 16 /* of a bench, each of the step's duration */

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

static const struct hardware_step *hardware_end_step(const struct hardware_ask *ask)
{
  return &hardware_checks[ask->check].steps[ask->step];
}

/* Words of a list, "a=1,b=2", and those of the command line, each behind `option`. */
static void hardware_end_add_options(const char *option, const char *list, const char **more,
                                     size_t count, struct child_words *words)
{
  while (list && list[0] != '\0') {
    const int length = (int)strcspn(list, ",");
    hardware_child_split(words, option);
    hardware_child_word(words, "%.*s", length, list);
    list += length + (list[length] == ',');
  }
  for (size_t i = 0; i < count; i++) {
    hardware_child_split(words, option);
    hardware_child_word(words, "%s", more[i]);
  }
}

static void hardware_end_add_device(const struct hardware_part *part, uint32_t number,
                                    const char *option, struct child_words *words)
{
  const struct hardware_device *device = hardware_part_device(part, number);

  if (!device || device->name[0] == '\0' || !part->takes_device)
    return;
  hardware_child_split(words, option);
  hardware_child_word(words, "device=%s", device->name);
}

static void hardware_end_add_transport_options(const struct hardware_end *end,
                                               const struct hardware_ask *ask, const char *option,
                                               struct child_words *words)
{
  hardware_end_add_device(hardware_part_of(&end->has.transports, ask->transport), ask->adapter,
                          option, words);
  hardware_end_add_options(option, hardware_end_step(ask)->options, end->plan->transport_options,
                           end->plan->transport_option_count, words);
}

static void hardware_end_add_transport(const struct hardware_end *end,
                                       const struct hardware_ask *ask, struct child_words *words)
{
  hardware_child_split(words, "--transport");
  hardware_child_word(words, "%s", ask->transport);
  hardware_end_add_transport_options(end, ask, "--transport-option", words);
}

/* That which is beside this program, installed or built; else PATH's. */
static void hardware_end_contract_path(char path[PATH_MAX])
{
  static const char *const places[] = {"penstock-contract", "tests/contract/penstock-contract"};
  char own[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", own, sizeof(own));
  const char *name = length > 0 ? memrchr(own, '/', (size_t)length) : NULL;

  for (size_t i = 0; name && i < sizeof(places) / sizeof(places[0]); i++)
    if (snprintf(path, PATH_MAX, "%.*s/%s", (int)(name - own), own, places[i]) < PATH_MAX &&
        access(path, X_OK) == 0)
      return;
  snprintf(path, PATH_MAX, "penstock-contract");
}

/* Adds the arguments of penstock-contract, for the transport or for the memory. */
static void hardware_end_add_contract(const struct hardware_end *end,
                                      const struct hardware_ask *ask, struct child_words *words)
{
  const struct hardware_part *memory = hardware_part_of(&end->has.memories, ask->memory),
                             *transport = hardware_part_of(&end->has.transports, ask->transport);
  char path[PATH_MAX];

  hardware_end_contract_path(path);
  hardware_child_word(words, "%s", path);
  hardware_child_word(words, "%s", transport ? transport->file : memory ? memory->file : "");
  if (transport) {
    hardware_end_add_transport_options(end, ask, "--option", words);
  } else {
    hardware_end_add_device(memory, ask->gpu, "--option", words);
    hardware_end_add_options("--option", NULL, end->plan->memory_options,
                             end->plan->memory_option_count, words);
  }
  hardware_child_split(words, hardware_end_step(ask)->words);
}

/* A path, or HOST:PORT. */
static void hardware_end_add_meeting(const char *option, const char *host, uint16_t port,
                                     struct child_words *words)
{
  hardware_child_word(words, "%s", option);
  if (host[0] == '/')
    hardware_child_word(words, "%s", host);
  else
    hardware_child_word(words, "%s:%u", host, port);
}

/* The check's memory, at an end that has it; else the host's. */
static void hardware_end_add_memory(const struct hardware_end *end, const struct hardware_ask *ask,
                                    enum hardware_end_of here, struct child_words *words)
{
  const enum hardware_end_of where = hardware_end_step(ask)->memory_at;
  const bool is_here = ask->memory[0] != '\0' && strcmp(ask->memory, "host") != 0 &&
                       (where == here || where == AT_BOTH);

  hardware_child_split(words, "--memory");
  hardware_child_word(words, "%s", is_here ? ask->memory : "host");
  if (is_here) {
    hardware_end_add_device(hardware_part_of(&end->has.memories, ask->memory), ask->gpu,
                            "--memory-option", words);
    hardware_end_add_options("--memory-option", NULL, end->plan->memory_options,
                             end->plan->memory_option_count, words);
  }
  if (hardware_checks[ask->check].takes_path && ask->path[0] != '\0' && where == here) {
    hardware_child_word(words, "--path");
    hardware_child_word(words, "%s", ask->path);
  }
}

static void hardware_end_add_perftest(const struct hardware_end *end,
                                      const struct hardware_ask *ask,
                                      const struct hardware_step *step, uint16_t port,
                                      struct child_words *words)
{
  hardware_child_word(words, "%s", step->tool);
  hardware_child_split(words, step->words);
  hardware_child_word(words, "-d");
  hardware_child_word(
      words, "%s",
      hardware_part_device(hardware_part_of(&end->has.transports, ask->transport), ask->adapter)
          ->name);
  hardware_child_word(words, "-p");
  hardware_child_word(words, "%u", port);
  if (ask->duration_ns >= PERFTEST_NS) {
    hardware_child_word(words, "-D");
    hardware_child_word(words, "%" PRIu64, (ask->duration_ns + NS_PER_S - 1) / NS_PER_S);
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
    hardware_end_add_contract(end, ask, words);
    hardware_end_add_meeting("--listen", host, port, words);
    return;
  }
  hardware_end_add_penstock(end->plan, words,
                            step->program == RUN_BENCH ? "bench --server --once" : "serve");
  hardware_end_add_transport(end, ask, words);
  hardware_end_add_memory(end, ask, AT_SERVER, words);
  hardware_child_split(words, step->serving);
  hardware_child_word(words, "%s:%u", host, port);
}

/* The program that asks, with what the step and the command line say. */
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
  if (step->program == RUN_CONTRACT || step->program == RUN_CONTRACT_ALONE) {
    hardware_end_add_contract(end, ask, words);
    if (step->program == RUN_CONTRACT)
      hardware_end_add_meeting("--connect", host, port, words);
    return;
  }
  hardware_end_add_penstock(end->plan, words, step->program == RUN_BENCH ? "bench" : "request");
  hardware_end_add_transport(end, ask, words);
  hardware_end_add_memory(end, ask, AT_CLIENT, words);
  hardware_child_split(words, step->words);
  if (step->program == RUN_BENCH || step->killed > 0)
    hardware_child_word(words, "--duration=%" PRIu64 "us",
                        (is_killed ? KILLED_NS : duration_ns) / 1000);
  hardware_child_split(words, "--json -");
  if (step->program == RUN_REQUEST)
    hardware_child_word(words, "%s", step->tool ? step->tool : "write");
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
static bool hardware_end_is_in_table(const char *table, uint16_t port)
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

static bool hardware_end_is_listening(const char *host, uint16_t port)
{
  return host[0] == '/' ? access(host, F_OK) == 0
                        : hardware_end_is_in_table("/proc/net/tcp", port) ||
                              hardware_end_is_in_table("/proc/net/tcp6", port);
}

int hardware_serve(struct hardware_end *end, const struct hardware_ask *ask, const char *host,
                   uint16_t port, char why[HARDWARE_WHY])
{
  struct child_words words = {.count = 0};
  const uint64_t until_ns = app_now_ns() + ask->limit_ns;

  const enum hardware_program program = hardware_checks[ask->check].steps[ask->step].program;

  end->is_endless = program == RUN_REQUEST;
  end->is_bench = program == RUN_BENCH;
  hardware_end_make_server(end, ask, host, port, &words);
  int code = hardware_end_start(end, ask, &words, why);
  while (code == 0) {
    hardware_child_pump(&end->child, LOOK_NS);
    if (hardware_end_is_listening(host, port))
      return 0;
    if (end->child.has_ended)
      code = -ECHILD; /* its lines say why */
    else if (app_signals_stop())
      code = -EINTR;
    else if (app_now_ns() > until_ns)
      code = -ETIMEDOUT;
    if (code == -ETIMEDOUT)
      snprintf(why, HARDWARE_WHY,
               "the serving program did not listen within %.3g s (--limit), and was killed: %.600s",
               (double)ask->limit_ns / 1e9, end->line);
    else if (code < 0)
      snprintf(why, HARDWARE_WHY, "the serving program %s before it listened",
               code == -ECHILD ? "ended" : "was stopped");
  }
  return code;
}

uint64_t hardware_request_ns(const struct hardware_ask *ask)
{
  const struct hardware_step *step = hardware_end_step(ask);
  const uint32_t times = step->times > 0 ? step->times : 1;

  return ask->limit_ns + step->seconds * NS_PER_S + ROWS_MOST * times * ask->duration_ns;
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

/* Does the bench server still wait, since its client could not open its end? */
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

/* ---- Output of the program --------------------------------------------------------------------
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

/* ---- Plugins and devices ----------------------------------------------------------------------
 */

struct looking {
  const struct hardware_plan *plan;
  struct hardware_has *has;
  struct hardware_part *part; /* the plugin that is listed; NULL: none that is asked for */
  bool is_verbs;
};

bool hardware_has_word(const char *list, const char *word)
{
  const size_t length = strlen(word);

  for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
    if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
      return true;
  return !list;
}

bool hardware_is_verbs(const char *transport)
{
  return strncmp(transport, "verbs_", 6) == 0;
}

struct hardware_part *hardware_part(struct hardware_parts *parts, const char *name)
{
  for (uint32_t i = 0; i < parts->count; i++)
    if (strcmp(parts->all[i].name, name) == 0)
      return &parts->all[i];
  return NULL;
}

const struct hardware_part *hardware_part_of(const struct hardware_parts *parts, const char *name)
{
  return hardware_part((struct hardware_parts *)(uintptr_t)parts, name);
}

const struct hardware_device *hardware_part_device(const struct hardware_part *part,
                                                   uint32_t number)
{
  return part && part->devices.count > 0 ? &part->devices.all[number % part->devices.count] : NULL;
}

static bool hardware_end_has_option(const struct pst_plugin_info *info, const char *name,
                                    size_t length)
{
  uint32_t i = 0;

  while (i < info->option_count && (strncmp(info->options[i].name, name, length) != 0 ||
                                    info->options[i].name[length] != '\0'))
    i++;
  return i < info->option_count;
}

/* All options of a step: "qps=2,operation=write". */
static bool hardware_end_has_options(const struct pst_plugin_info *info, const char *options)
{
  for (const char *at = options; at && at[0] != '\0'; at += strcspn(at, ",")) {
    at += at[0] == ',';
    if (!hardware_end_has_option(info, at, strcspn(at, "=")))
      return false;
  }
  return true;
}

static void hardware_end_take_options(struct hardware_part *part,
                                      const struct pst_plugin_info *info)
{
  part->takes_device = hardware_end_has_option(info, "device", strlen("device"));
  for (uint32_t i = 0; i < info->option_count; i++)
    if ((info->options[i].flags & PST_OPTION_REQUIRED) != 0)
      snprintf(part->needs_option, sizeof(part->needs_option), "%s", info->options[i].name);
  for (uint32_t check = 0; check < hardware_check_count; check++)
    for (uint32_t i = 0; hardware_step_of(&hardware_checks[check], i) != NULL; i++)
      if (!hardware_end_has_options(info, hardware_checks[check].steps[i].options))
        part->lacks_options[check] |= 1u << i;
}

/* The part of this name, made if there is none. NULL: there are too many. */
static struct hardware_part *hardware_end_make_part(struct hardware_parts *parts, const char *name)
{
  struct hardware_part *part = hardware_part(parts, name);

  if (part || parts->count == HARDWARE_PARTS || strlen(name) >= HARDWARE_NAME)
    return part;
  part = &parts->all[parts->count++];
  snprintf(part->name, sizeof(part->name), "%s", name);
  return part;
}

/* A transport or memory that is asked for becomes a part, with the reason if it is not usable. */
static void hardware_end_take_plugin(void *context, const struct pst_plugin_info *info)
{
  struct looking *looking = context;
  const struct hardware_plan *plan = looking->plan;
  const bool is_transport = info->kind == PST_KIND_TRANSPORT;
  const bool is_asked =
      (is_transport && hardware_has_word(plan->transports, info->name)) ||
      (info->kind == PST_KIND_MEMORY &&
       (hardware_has_word(plan->memories, info->name) || strcmp(info->name, "host") == 0));

  looking->part = NULL;
  if (info->status == -EEXIST || !is_asked)
    return;
  struct hardware_part *part = hardware_end_make_part(
      is_transport ? &looking->has->transports : &looking->has->memories, info->name);
  if (!part || part->file[0] != '\0')
    return;
  looking->is_verbs = is_transport && hardware_is_verbs(info->name);
  hardware_end_take_options(part, info);
  snprintf(part->file, sizeof(part->file), "%s", info->path ? info->path : "");
  snprintf(part->devices.why_none, sizeof(part->devices.why_none), "%s%s%s",
           info->reason && info->reason[0] != '\0' ? info->reason
           : info->status != 0                     ? strerror(-info->status)
                                                   : "it has no device here",
           info->remedy && info->remedy[0] != '\0' ? "; " : "", info->remedy ? info->remedy : "");
  /* Options may make it usable: `allow_discrete` of igpu. */
  const size_t options = is_transport ? plan->transport_option_count : plan->memory_option_count;
  const char *named = is_transport ? plan->transports : plan->memories;
  part->is_usable = info->status == 0 || (options > 0 && named && strcmp(named, info->name) == 0);
  looking->part = part;
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
  struct hardware_devices *into = looking->part ? &looking->part->devices : NULL;

  if (!into || into->count == HARDWARE_DEVICES)
    return;
  if (looking->is_verbs && !hardware_end_is_active(detail)) {
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

/* Returns the needs that a program meets, by the words in its help; `all` where it has the
 * words. */
static uint32_t hardware_end_look_at_tool(const char *program, const char *has, uint32_t all,
                                          const char *more, uint32_t with, uint32_t without)
{
  struct child_words words = {.count = 0};
  struct child child = CHILD_NONE;
  const uint64_t until_ns = app_now_ns() + TOOL_NS;
  uint32_t tools = 0;

  hardware_child_word(&words, "%s", program);
  hardware_child_word(&words, "--help");
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

/* Which devices of a transport are checked: those that are named, as far as it lists one of them or
 * is named itself; else each adapter of verbs, and of others that which they take by themselves. */
static void hardware_end_choose_devices(struct hardware_part *part, const char *list, bool is_named,
                                        bool has_options)
{
  struct hardware_devices *devices = &part->devices;
  const struct hardware_devices known = *devices;
  const bool is_port = strcmp(part->name, "ethernet") == 0;
  bool is_listed = false;

  if (!part->is_usable)
    return;
  for (uint32_t i = 0; i < known.count && list; i++)
    is_listed |= hardware_has_word(list, known.all[i].name);
  if (list && part->takes_device && (is_listed || is_named)) {
    hardware_named(list, &known, devices);
  } else if (list) {
    devices->count = 0;
    snprintf(devices->why_none, sizeof(devices->why_none), "it has no device %.200s", list);
  } else if (is_port && !has_options) {
    devices->count = 0;
    snprintf(devices->why_none, sizeof(devices->why_none),
             "it takes ports away from the kernel, so it is checked only on ports that you name: "
             "--transport ethernet --device PCI-ADDRESS --peer-device PCI-ADDRESS");
  } else if (part->needs_option[0] != '\0' && !has_options) {
    devices->count = 0;
    snprintf(devices->why_none, sizeof(devices->why_none),
             "its option %s has no default: --transport %s --transport-option %s=VALUE",
             part->needs_option, part->name, part->needs_option);
  } else if (!hardware_is_verbs(part->name)) {
    devices->count = 1;
    devices->all[0].name[0] = '\0';
    if (known.count != 1)
      devices->all[0].detail[0] = '\0';
  }
}

/* Words of a list for which there is no plugin become parts that say so. */
static void hardware_end_add_missing(struct hardware_parts *parts, const char *list,
                                     const char *kind)
{
  char name[HARDWARE_NAME];

  for (const char *at = list; at; at = strchr(at, ','), at += at != NULL) {
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
    struct hardware_part *part = hardware_part(parts, name);
    if (!part && (part = hardware_end_make_part(parts, name)) != NULL)
      snprintf(part->devices.why_none, sizeof(part->devices.why_none),
               "there is no %s '%.60s'; `penstock plugins` lists them", kind, name);
  }
}

int hardware_look(const struct hardware_plan *plan, const char *list, struct hardware_has *has,
                  char why[HARDWARE_WHY])
{
  struct looking looking = {.plan = plan, .has = has};
  char contract[PATH_MAX];
  bool is_any = false;

  memset(has, 0, sizeof(*has));
  pst_plugins_list(hardware_end_take_plugin, hardware_end_take_device, &looking);
  hardware_end_add_missing(&has->transports, plan->transports, "transport");
  hardware_end_add_missing(&has->memories, plan->memories, "memory");
  hardware_end_contract_path(contract);
  has->tools =
      hardware_end_look_at_tool("ib_write_bw", "--report_gbits", NEED_PERFTEST, "--write_with_imm",
                                NEED_PERFTEST_RUNS, NEED_PERFTEST_SENDS) |
      hardware_end_look_at_tool(contract, "--listen", NEED_CONTRACT, "", 0, 0);
  for (uint32_t i = 0; i < has->transports.count; i++) {
    struct hardware_part *part = &has->transports.all[i];
    hardware_end_choose_devices(part, list, plan->transports != NULL,
                                plan->transport_option_count > 0);
    is_any |= part->devices.count > 0;
  }
  for (uint32_t i = 0; i < has->memories.count; i++) {
    struct hardware_part *part = &has->memories.all[i];
    if (part->is_usable && (part->devices.count == 0 || !part->takes_device))
      part->devices.count = 1;
  }
  if (list && !is_any && !plan->transports)
    snprintf(why, HARDWARE_WHY,
             "no transport here lists a device %.200s: name its transport with --transport", list);
  else
    snprintf(why, HARDWARE_WHY, "%.60s: %.900s",
             has->transports.count > 0 ? has->transports.all[0].name : "transport",
             has->transports.count > 0 ? has->transports.all[0].devices.why_none
                                       : "no plugin is installed");
  return is_any ? 0 : -ENODEV;
}
