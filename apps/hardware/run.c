/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the steps of a hardware check, and judges them. */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/control_link.h"
#include "clients.h"
#include "clock.h"
#include "json_put.h"
#include "signals.h"

#define LOOK_NS (20 * NS_PER_MS)
#define STOP_NS (10 * NS_PER_S)  /* for the last counts */
#define HUNG_NS NS_PER_S         /* for those of a program that has hung */
#define LONELY_NS (3 * NS_PER_S) /* how long an end may go on whose other end has ended */
#define CRASHED_NS NS_PER_S      /* or has crashed here */
#define DISTURB_NS (120 * NS_PER_S)
#define CONNECT_NS (5 * NS_PER_S)
#define CONTRACT_NOT_TRIED 77

static const char *const verdict_names[HARDWARE_VERDICTS] = {
    [VERDICT_OK] = "ok",
    [VERDICT_SKIPPED] = "skipped",
    [VERDICT_UNKNOWN] = "unknown",
    [VERDICT_FAILED] = "failed",
};

/* One step, while it runs. */
struct step {
  struct hardware_run *run;
  const struct hardware_check *check;
  const struct hardware_step *row;
  struct hardware_ask ask;
  enum hardware_verdict verdict;
  char why[HARDWARE_WHY];           /* "": it is ok */
  struct json_object *near, *peer;  /* what the ends have told; NULL */
  struct json_object *result;       /* the program's own; NULL */
  double gbps, messages_per_second; /* perftest's; -1 */
  const char *given_up;             /* why we ended it; NULL: we did not */
  char hung[HARDWARE_WHY];
  struct hardware_clients crowd; /* that asks beside this end's program */
  double disturbed_seconds;      /* the operator's command took; -1: it did not run */
};

static void hardware_run_judge(struct step *step, enum hardware_verdict verdict, const char *why)
{
  if (step->why[0] != '\0')
    return;
  step->verdict = verdict;
  snprintf(step->why, sizeof(step->why), "%s", why);
}

/* ---- Requirements ------------------------------------------------------------------------------
 */

/* NULL: the ends have the check's memory where the step wants it. */
static const char *hardware_run_what_memory_lacks(const struct step *step, char why[HARDWARE_WHY])
{
  const struct hardware_run *run = step->run;
  const struct hardware_has *ends[] = {&run->near.has, &run->far.end.has};
  static const char *const names[] = {"this end", "the receiving end"};
  const enum hardware_end_of where = step->row->memory_at;

  for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
    const bool is_here = where == AT_BOTH || (where == AT_CLIENT) == (i == 0);
    const struct hardware_part *part = hardware_part_of(&ends[i]->memories, step->ask.memory);
    if (!is_here || step->check->scope == SCOPE_MEMORY || (part && part->devices.count > 0))
      continue;
    snprintf(why, HARDWARE_WHY, "no memory %s at %s: %.800s", step->ask.memory, names[i],
             part ? part->devices.why_none : "it has no such plugin");
    return why;
  }
  return NULL;
}

/* NULL: all is here. */
static const char *hardware_run_what_lacks(const struct step *step, char why[HARDWARE_WHY])
{
  const struct hardware_run *run = step->run;
  const uint32_t needs = step->check->needs | step->row->needs;
  const uint32_t far_tools =
      step->row->program == RUN_CONTRACT_ALONE ? UINT32_MAX : run->far.end.has.tools;
  const uint32_t tools = run->near.has.tools & far_tools;
  const struct hardware_part *transport =
      hardware_part_of(&run->near.has.transports, step->ask.transport);

  if (transport && transport->lacks_options[step->ask.check] >> step->ask.step & 1) {
    snprintf(why, HARDWARE_WHY, "transport %s lacks the options %s", transport->name,
             step->row->options);
    return why;
  }
  if (hardware_run_what_memory_lacks(step, why) != NULL)
    return why;
  if ((needs & NEED_ONE_HOST) != 0 && run->far.link)
    return "it runs where both ends are on one host: give no HOST";
  if ((needs & NEED_PERFTEST) != 0 && (tools & NEED_PERFTEST) == 0)
    return "perftest is not at both ends: `apt-get install perftest`, to compare";
  if ((needs & NEED_PERFTEST_RUNS) != 0 && (tools & NEED_PERFTEST_RUNS) == 0)
    return "this perftest has no --write_with_imm";
  if ((needs & NEED_PERFTEST_SENDS) != 0 && (tools & NEED_PERFTEST_RUNS) != 0)
    return "ib_write_bw has --write_with_imm, which compares better";
  if ((needs & NEED_CONTRACT) != 0 && (tools & NEED_CONTRACT) == 0)
    return "penstock-contract is not at both ends: it is beside penstock where cmocka was found "
           "(Debian: `apt-get install libpenstock-dev`)";
  if ((needs & NEED_COUNTERS) != 0 && !run->can_count)
    return "this user or machine has no hardware counters: `sysctl kernel.perf_event_paranoid=2`; "
           "a "
           "virtual machine may have none";
  if ((needs & NEED_OUTAGE) != 0 && !run->outage)
    return "it takes the link away: allow it by --outage COMMAND, as in --outage 'ip link set dev "
           "NETDEV down; sleep 2; ip link set dev NETDEV up'";
  if ((needs & NEED_READDRESS) != 0 && !run->readdress)
    return "it changes an address: allow it by --readdress COMMAND, as in --readdress 'systemctl "
           "restart opensm'";
  return NULL;
}

/* ---- While it runs ------------------------------------------------------------------------------
 */

/* The operator's command, once the stream flows or before more requests. */
static void hardware_run_disturb(struct step *step, const char *command)
{
  struct child_words words = {.count = 0};
  struct child child = CHILD_NONE;
  const uint64_t began_ns = app_now_ns();
  char how[80], why[HARDWARE_WHY];

  hardware_child_split(&words, "sh -c");
  hardware_child_word(&words, "%s", command);
  if (hardware_child_start(&child, &words, NULL, false) == 0)
    while (!child.has_ended && app_now_ns() - began_ns < DISTURB_NS && !app_signals_stop()) {
      hardware_child_pump(&child, LOOK_NS);
      hardware_child_pump(&step->run->near.child, 0);
      hardware_remote_look(&step->run->far);
    }
  step->disturbed_seconds = (double)(app_now_ns() - began_ns) / 1e9;
  if (hardware_child_exit_status(&child) != 0) {
    hardware_child_how_ended(&child, how, sizeof(how));
    snprintf(why, sizeof(why), "the command of --outage or --readdress: %s: %.600s", how,
             child.err.length > 0 ? child.err.bytes : "");
    hardware_run_judge(step, VERDICT_UNKNOWN, why);
  }
  hardware_child_end(&child);
  hardware_child_words_free(&words);
}

static const char debug_line[] = "penstock: debug: ", is_connected[] = ": connected: ";

/* Whether the stream flows, or requests do: from transports that say so when they are connected; of
 * others it is taken for granted after a while. */
static bool hardware_run_flows(const struct step *step, uint64_t began_ns)
{
  return hardware_child_has_said(&step->run->near.child, debug_line, is_connected) ||
         app_now_ns() - began_ns > CONNECT_NS;
}

static bool hardware_run_has_crashed(const struct child *child)
{
  return child->has_ended && hardware_child_exit_status(child) < 0;
}

/* Starts the programs of a crowd: those that are to be killed ask before the others begin, which
 * have but the step's time. */
static int hardware_run_start_crowd(struct step *step, char why[HARDWARE_WHY])
{
  struct hardware_run *run = step->run;
  const uint64_t began_ns = app_now_ns();
  int code = hardware_clients_start(&step->crowd, &run->near, &step->ask, run->far.host,
                                    run->far.port, true, why);

  while (code == 0 && !hardware_clients_has_said(&step->crowd, debug_line, is_connected) &&
         app_now_ns() - began_ns < CONNECT_NS && !app_signals_stop())
    hardware_clients_look(&step->crowd, LOOK_NS);
  return code < 0 ? code
                  : hardware_clients_start(&step->crowd, &run->near, &step->ask, run->far.host,
                                           run->far.port, false, why);
}

/* Clients are killed while the others ask. */
static void hardware_run_kill_some(struct step *step, uint64_t began_ns)
{
  if (step->crowd.was_killed || step->crowd.killed == 0)
    return;
  const struct child *near = &step->run->near.child;
  if (hardware_child_exit_status(near) == 0)
    hardware_run_judge(
        step, VERDICT_UNKNOWN,
        "this end's requests had ended before clients were killed: give a longer --duration");
  else if (!near->has_ended && !hardware_run_flows(step, began_ns))
    return;
  hardware_clients_kill(&step->crowd);
}

/* On a terminal: the case that a contract has come to, of some hundred, in some minutes. */
static void hardware_run_show_case(const struct child_text *out, size_t *shown)
{
  static const char lead[] = "[ RUN      ] ";
  const char *at = NULL;

  if (out->length == *shown || !isatty(STDERR_FILENO))
    return;
  for (const char *next = out->bytes; (next = strstr(next, lead)) != NULL; next = at)
    at = next + strlen(lead);
  if (at)
    fprintf(stderr, "\r%.*s\033[K", (int)strcspn(at, "\n"), at);
  *shown = out->length;
}

/* Names the program that is to be killed. */
static const char *hardware_run_say_hung(struct step *step, uint64_t ns)
{
  snprintf(step->hung, sizeof(step->hung),
           "this end's program had not ended after %.3g s (--limit), and was killed: %.700s",
           (double)ns / 1e9, step->run->near.line);
  return step->hung;
}

/* Until the asking program and those beside it have ended, by themselves or because nothing else
 * can come of it. */
static void hardware_run_wait_for_end(struct step *step)
{
  struct hardware_run *run = step->run;
  struct child *child = &run->near.child;
  const uint64_t began_ns = app_now_ns(), until_ns = began_ns + hardware_request_ns(&step->ask);
  const char *why = NULL;
  uint64_t lonely_ns = 0;
  size_t shown = 0;

  while (!(child->has_ended && hardware_clients_is_through(&step->crowd)) && !why) {
    hardware_child_pump(child, LOOK_NS);
    hardware_run_show_case(&child->out, &shown);
    hardware_clients_look(&step->crowd, child->has_ended ? LOOK_NS : 0);
    hardware_run_kill_some(step, began_ns);
    hardware_remote_look(&run->far);
    if ((step->row->needs | step->check->needs) & NEED_OUTAGE && step->disturbed_seconds < 0 &&
        !app_signals_stop() && hardware_run_flows(step, began_ns)) {
      hardware_run_disturb(step, run->outage);
      if (hardware_child_exit_status(child) == 0)
        hardware_run_judge(
            step, VERDICT_UNKNOWN,
            "the stream had ended before --outage's command had: give a longer --duration");
    }
    if ((run->far.has_ended || run->far.has_gone) && lonely_ns == 0)
      lonely_ns = app_now_ns();
    if (app_signals_stop())
      why = "stopped before it had ended";
    else if (app_now_ns() > until_ns)
      why = hardware_run_say_hung(step, app_now_ns() - began_ns);
    else if (lonely_ns != 0 &&
             app_now_ns() - lonely_ns >
                 (hardware_run_has_crashed(&run->far.end.child) ? CRASHED_NS : LONELY_NS))
      why = "the other end has ended before";
  }
  if (shown > 0)
    fputs("\r\033[K", stderr);
  if (child->has_ended)
    return;
  hardware_child_signal(child, SIGINT);
  const uint64_t patience_ns = app_now_ns() + (why == step->hung ? HUNG_NS : STOP_NS);
  while (!child->has_ended && app_now_ns() < patience_ns)
    hardware_child_pump(child, LOOK_NS);
  step->given_up = why;
}

/* ---- Verdicts
 * ----------------------------------------------------------------------------- */

/* The last line that says an error; else the last one. */
static void hardware_run_last_error(struct json_object *told, char *text, size_t size)
{
  struct json_object *lines = NULL;
  bool has_error = false;

  text[0] = '\0';
  json_object_object_get_ex(told, "lines", &lines);
  for (size_t i = 0;
       json_object_is_type(lines, json_type_array) && i < json_object_array_length(lines); i++) {
    const char *line = json_object_get_string(json_object_array_get_idx(lines, i));
    const char *error = hardware_child_error_in(line);
    if (has_error && !error)
      continue;
    snprintf(text, size, "%s", error ? error : line);
    has_error |= error != NULL;
  }
}

/* An end that has crashed says more than the one that missed it. */
static void hardware_run_judge_crash(struct step *step, struct json_object *told, const char *whose)
{
  char line[512], why[HARDWARE_WHY];
  const char *ended = bench_link_text(told, "ended");

  if (strncmp(ended, "killed", 6) != 0 || app_signals_stop())
    return;
  hardware_run_last_error(told, line, sizeof(line));
  snprintf(why, sizeof(why), "%s was %s%s%s", whose, ended, line[0] != '\0' ? ": " : "", line);
  hardware_run_judge(step, VERDICT_FAILED, why);
}

/* Whether an end says that the transport has nothing of the kind: wrong usage, or unavailable. */
static bool hardware_run_may_lack(const struct step *step, struct json_object *told)
{
  const uint64_t status = bench_link_number(told, "exit_status");

  return (step->row->optional && (status == PST_EXIT_USAGE || status == PST_EXIT_UNAVAILABLE)) ||
         (step->row->program == RUN_CONTRACT && status == CONTRACT_NOT_TRIED);
}

static void hardware_run_judge_penstock(struct step *step)
{
  struct json_object *errors = NULL;
  char line[512], why[HARDWARE_WHY];

  json_object_object_get_ex(step->result, "errors", &errors);
  const char *text =
      json_object_is_type(errors, json_type_array) && json_object_array_length(errors) > 0
          ? bench_link_text(json_object_array_get_idx(errors, 0), "text")
          : "";
  if (step->row->optional && hardware_run_may_lack(step, step->peer)) {
    hardware_run_last_error(step->peer, line, sizeof(line));
    hardware_run_judge(step, VERDICT_SKIPPED, line);
    return;
  }
  hardware_run_last_error(step->near, line, sizeof(line));
  snprintf(why, sizeof(why), "%s",
           text[0] != '\0'   ? text
           : line[0] != '\0' ? line
                             : bench_link_text(step->near, "ended"));
  hardware_run_judge(step,
                     app_signals_stop() || step->run->far.has_gone ? VERDICT_UNKNOWN
                     : hardware_run_may_lack(step, step->near)     ? VERDICT_SKIPPED
                                                                   : VERDICT_FAILED,
                     why);
}

/* The row of perftest's table: bytes, iterations, peak, average, millions of messages a second. */
static void hardware_run_judge_perftest(struct step *step, const char *out)
{
  char line[512], why[HARDWARE_WHY];
  double peak, average, rate;
  uint64_t bytes, count;

  for (const char *at = out; at && at[0] != '\0'; at += strcspn(at, "\n"), at += at[0] == '\n')
    if (sscanf(at, " %" SCNu64 " %" SCNu64 " %lf %lf %lf", &bytes, &count, &peak, &average,
               &rate) == 5) {
      step->gbps = average;
      step->messages_per_second = rate * 1e6;
      return;
    }
  hardware_run_last_error(step->near, line, sizeof(line));
  snprintf(why, sizeof(why), "perftest measured nothing: %s",
           line[0] != '\0' ? line : bench_link_text(step->near, "ended"));
  hardware_run_judge(step, VERDICT_UNKNOWN, why); /* it is no part of Penstock */
}

static const char not_tried[] = "penstock-contract does not try such a transport between programs";

/* Judges a contract program, which may have ended well at one end and not at the other. */
static void hardware_run_judge_contract(struct step *step, int status)
{
  const bool is_near = status != 0;
  char line[512], why[HARDWARE_WHY];

  if (status == CONTRACT_NOT_TRIED) {
    hardware_run_judge(step, VERDICT_SKIPPED, not_tried);
    return;
  }
  if (!is_near && (!step->peer || bench_link_number(step->peer, "exit_status") == 0))
    return;
  hardware_run_last_error(is_near ? step->near : step->peer, line, sizeof(line));
  snprintf(why, sizeof(why), "%s: %s", is_near ? "this end" : "the other end", line);
  hardware_run_judge(
      step, app_signals_stop() || step->run->far.has_gone ? VERDICT_UNKNOWN : VERDICT_FAILED, why);
}

/* Collects what both ends of a finished step said, and judges the step. */
static void hardware_run_take_end(struct step *step)
{
  struct hardware_run *run = step->run;
  const char *about = step->check->tells_address ? "connected: " : NULL;
  const int status = hardware_child_exit_status(&run->near.child);
  char *out = run->near.child.out.bytes, why[HARDWARE_WHY];

  if ((step->row->program == RUN_BENCH || step->row->program == RUN_REQUEST) && out) {
    json_object_put(step->result); /* of requests before */
    step->result = hardware_clients_slowest(&step->crowd, json_tokener_parse(out));
  }
  run->near.child.out.bytes = NULL;
  json_object_put(step->near);
  step->near = hardware_told(&run->near, status == 0 ? about : NULL);
  if (step->row->program != RUN_CONTRACT_ALONE)
    step->peer = hardware_remote_finish(&run->far, status == 0 ? about : NULL, status < 0);
  hardware_run_judge_crash(step, step->near, "this end");
  hardware_run_judge_crash(step, step->peer, "the other end");
  if (step->given_up)
    hardware_run_judge(step,
                       app_signals_stop() || run->far.has_gone ? VERDICT_UNKNOWN : VERDICT_FAILED,
                       step->given_up);
  if (step->row->program == RUN_PERFTEST)
    hardware_run_judge_perftest(step, out);
  else if (step->row->program == RUN_CONTRACT || step->row->program == RUN_CONTRACT_ALONE)
    hardware_run_judge_contract(step, status);
  else if (status != 0)
    hardware_run_judge_penstock(step);
  else if (hardware_clients_has_failed(&step->crowd, why))
    hardware_run_judge(step, VERDICT_FAILED, why);
  free(out);
}

/* Requests that are asked before what disturbs the server, and are to be answered as those after.
 */
static int hardware_run_ask_before(struct step *step)
{
  struct hardware_run *run = step->run;
  char why[HARDWARE_WHY];

  if ((step->check->needs & NEED_READDRESS) == 0)
    return 0;
  if (hardware_request(&run->near, &step->ask, run->far.host, run->far.port, why) < 0) {
    hardware_run_judge(step, VERDICT_UNKNOWN, why);
    return -EIO;
  }
  hardware_run_wait_for_end(step);
  if (hardware_child_exit_status(&run->near.child) != 0)
    return -EIO; /* of which hardware_run_take_end() makes what it does of any */
  hardware_child_end(&run->near.child);
  hardware_run_disturb(step, run->readdress);
  return step->why[0] != '\0' ? -EIO : 1;
}

/* Runs one step at both ends and records its verdict. A missing requirement makes the step
 * `skipped`. */
static void hardware_run_step(struct step *step)
{
  struct hardware_run *run = step->run;
  char why[HARDWARE_WHY];
  const char *lacks = hardware_run_what_lacks(step, why);

  if (lacks) {
    hardware_run_judge(step, VERDICT_SKIPPED, lacks);
    return;
  }
  run->far.has_ended = false;
  if (step->row->program != RUN_CONTRACT_ALONE &&
      hardware_remote_start(&run->far, &step->ask, why) < 0) {
    char line[512] = "", whole[HARDWARE_WHY];
    step->peer = hardware_remote_finish(&run->far, NULL, false);
    hardware_run_last_error(step->peer, line, sizeof(line));
    snprintf(whole, sizeof(whole), "%.400s%s%s", why, line[0] != '\0' ? ": " : "", line);
    if (step->row->program == RUN_CONTRACT && hardware_run_may_lack(step, step->peer))
      snprintf(whole, sizeof(whole), "%s", not_tried);
    hardware_run_judge(step,
                       run->far.has_gone || app_signals_stop() || step->row->program == RUN_PERFTEST
                           ? VERDICT_UNKNOWN
                       : hardware_run_may_lack(step, step->peer) ? VERDICT_SKIPPED
                                                                 : VERDICT_FAILED,
                       whole);
    return;
  }
  const int asked = hardware_run_ask_before(step);
  if (asked >= 0) {
    if (hardware_run_start_crowd(step, why) < 0 ||
        hardware_request(&run->near, &step->ask, run->far.host, run->far.port, why) < 0)
      hardware_run_judge(step, VERDICT_UNKNOWN, why);
    else
      hardware_run_wait_for_end(step);
  }
  hardware_run_take_end(step);
  hardware_clients_end(&step->crowd);
}

/* ---- Objects
 * -------------------------------------------------------------------------------------- */

/* Messages or transfers of all rows, whose costs were counted. */
static double hardware_run_messages_of(struct json_object *result)
{
  struct json_object *rows = NULL;
  double sum = 0;

  json_object_object_get_ex(result, "rows", &rows);
  for (size_t i = 0;
       json_object_is_type(rows, json_type_array) && i < json_object_array_length(rows); i++)
    sum += (double)bench_link_number(json_object_array_get_idx(rows, i), "messages_sent") +
           (double)bench_link_number(json_object_array_get_idx(rows, i), "transfers_posted");
  return sum;
}

/* Takes `told` over; counts are a message's. */
static struct json_object *hardware_run_end_json(struct json_object *told, double messages)
{
  struct json_object *counters = NULL, *each = NULL;

  if (!told || !json_object_object_get_ex(told, "counters", &counters))
    return told;
  if (json_object_is_type(counters, json_type_object) && messages > 0) {
    each = json_object_new_object();
    for (size_t i = 0; i < CHILD_COUNTERS; i++) {
      struct json_object *value = NULL;
      json_object_object_get_ex(counters, hardware_child_counter_names[i], &value);
      app_json_put_share(each, hardware_child_counter_names[i],
                         value ? json_object_get_double(value) / messages : -1);
    }
  }
  json_object_object_del(told, "counters");
  json_object_object_add(told, "a_message", each);
  return told;
}

static struct json_object *hardware_run_member_of(struct json_object *object, const char *key)
{
  struct json_object *member = NULL;

  json_object_object_get_ex(object, key, &member);
  return json_object_get(member);
}

static struct json_object *hardware_run_step_json(struct step *step)
{
  struct json_object *object = json_object_new_object();
  const double messages = hardware_run_messages_of(step->result);

  app_json_put_text(object, "step", step->row->name);
  app_json_put_text(object, "verdict", verdict_names[step->verdict]);
  app_json_put_text(object, "why", step->why);
  json_object_object_add(object, "measured", hardware_run_member_of(step->result, "rows"));
  json_object_object_add(object, "requested", hardware_run_member_of(step->result, "request"));
  app_json_put_share(object, "gbps", step->gbps);
  app_json_put_share(object, "messages_per_second", step->messages_per_second);
  app_json_put_share(object, "disturbed_seconds", step->disturbed_seconds);
  app_json_put_uint(object, "clients", step->row->clients > 0 ? step->row->clients : 1);
  app_json_put_uint(object, "clients_killed", step->row->killed);
  json_object_object_add(object, "here", hardware_run_end_json(step->near, messages));
  json_object_object_add(object, "peer", hardware_run_end_json(step->peer, messages));
  return object;
}

/* Whether a step's verdict is the check's: perftest's is not. */
static void hardware_run_add_verdict(const struct step *step, enum hardware_verdict *verdict,
                                     char *why)
{
  static const int weight[HARDWARE_VERDICTS] = {
      [VERDICT_SKIPPED] = 0, [VERDICT_OK] = 1, [VERDICT_UNKNOWN] = 2, [VERDICT_FAILED] = 3};

  if (step->row->program == RUN_PERFTEST)
    return;
  if (weight[step->verdict] > weight[*verdict] || (why[0] == '\0' && *verdict == step->verdict)) {
    *verdict = step->verdict;
    snprintf(why, HARDWARE_WHY, "%s", step->why);
  }
}

/* Whether a step is left out: another is the same, or the transport does not know of it. */
static bool hardware_run_is_left_out(const struct step *step, enum hardware_verdict last)
{
  const struct hardware_part *transport =
      hardware_part_of(&step->run->near.has.transports, step->ask.transport);

  return (step->row->not_host && strcmp(step->ask.memory, "host") == 0) ||
         (step->row->instead && last != VERDICT_SKIPPED) ||
         (step->row->optional && transport &&
          (transport->lacks_options[step->ask.check] >> step->ask.step & 1) != 0);
}

/* Runs all steps of a check. *verdict is the worst of them. */
static void hardware_run_steps(struct hardware_run *run, const struct hardware_check *check,
                               const struct hardware_ask *of, struct json_object *steps,
                               enum hardware_verdict *verdict, char *why)
{
  enum hardware_verdict last = VERDICT_OK;

  *verdict = VERDICT_SKIPPED;
  for (uint32_t i = 0; hardware_step_of(check, i) != NULL; i++) {
    struct step step = {.run = run,
                        .check = check,
                        .row = hardware_step_of(check, i),
                        .ask = *of,
                        .gbps = -1,
                        .messages_per_second = -1,
                        .disturbed_seconds = -1};
    step.ask.step = i;
    if (hardware_run_is_left_out(&step, last)) {
      last = VERDICT_SKIPPED;
      continue;
    }
    if (run->far.has_gone)
      hardware_run_judge(&step, VERDICT_UNKNOWN, "the other end has gone");
    else if (app_signals_stop())
      hardware_run_judge(&step, VERDICT_UNKNOWN, "stopped before it began");
    else
      hardware_run_step(&step);
    last = step.verdict;
    hardware_run_add_verdict(&step, verdict, why);
    json_object_array_add(steps, hardware_run_step_json(&step));
    json_object_put(step.result);
  }
}

static struct json_object *hardware_run_check_json(uint32_t index, const struct hardware_ask *of,
                                                   enum hardware_verdict verdict, const char *why)
{
  const struct hardware_check *check = &hardware_checks[index];
  struct json_object *object = json_object_new_object();

  app_json_put_text(object, "check", check->name);
  app_json_put_text(object, "title", check->title);
  app_json_put_text(object, "transport", of->transport);
  app_json_put_text(object, "memory", hardware_check_has_memory(check) ? of->memory : NULL);
  app_json_put_text(object, "verdict", verdict_names[verdict]);
  app_json_put_text(object, "why", why);
  app_json_put_text(object, "remedy", verdict == VERDICT_FAILED ? check->remedy : NULL);
  return object;
}

/* Adds the name of a device, for people; NULL if there is no such device. */
static void hardware_run_put_device(struct json_object *object, const char *key,
                                    const struct hardware_parts *parts, const char *part,
                                    uint32_t number)
{
  const struct hardware_device *device =
      hardware_part_device(hardware_part_of(parts, part), number);

  app_json_put_text(object, key, device ? device->name : NULL);
}

static struct json_object *hardware_run_finish(struct json_object *object,
                                               struct json_object *steps, uint64_t ns)
{
  app_json_put_number(object, "seconds", (double)ns / 1e9);
  json_object_object_add(object, "steps", steps);
  return object;
}

struct json_object *hardware_run_check(struct hardware_run *run, uint32_t index,
                                       const struct hardware_ask *of, const char *blocked,
                                       enum hardware_verdict *verdict)
{
  const struct hardware_check *check = &hardware_checks[index];
  struct json_object *steps = json_object_new_array();
  const struct hardware_plan *plan = run->near.plan;
  const uint64_t began_ns = app_now_ns();
  struct hardware_ask ask = *of;
  char why[HARDWARE_WHY] = "";

  ask.check = index;
  ask.duration_ns = plan->duration_ns;
  ask.limit_ns = plan->limit_ns;
  snprintf(ask.path, sizeof(ask.path), "%s", plan->path ? plan->path : "");
  *verdict = VERDICT_UNKNOWN;
  if (blocked)
    snprintf(why, sizeof(why), "%s", blocked);
  else
    hardware_run_steps(run, check, &ask, steps, verdict, why);
  struct json_object *object = hardware_run_check_json(index, &ask, *verdict, why);
  hardware_run_put_device(object, "adapter", &run->near.has.transports, ask.transport, ask.adapter);
  hardware_run_put_device(object, "peer_adapter", &run->far.end.has.transports, ask.transport,
                          ask.adapter);
  hardware_run_put_device(object, "memory_device",
                          check->scope == SCOPE_MEMORY ? &run->near.has.memories
                                                       : &run->far.end.has.memories,
                          hardware_check_has_memory(check) ? ask.memory : "", ask.gpu);
  return hardware_run_finish(object, steps, app_now_ns() - began_ns);
}

struct json_object *hardware_run_skipped(uint32_t check, const struct hardware_ask *of,
                                         const char *why)
{
  struct json_object *object = hardware_run_check_json(check, of, VERDICT_SKIPPED, why);

  for (size_t i = 0; i < 3; i++)
    app_json_put_text(object, ((const char *[]){"adapter", "peer_adapter", "memory_device"})[i],
                      NULL);
  return hardware_run_finish(object, json_object_new_array(), 0);
}
