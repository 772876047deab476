/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "ends.h"
#include "notice.h"
#include "onesided.h"
#include "signals.h"
#include "statistics.h"

#define OPEN_NS (60 * NS_PER_S) /* a server may have a GPU to wake */
#define RESULT_NS (20 * NS_PER_S)
#define GREET_NS (10 * NS_PER_S)

static void fail_as(struct bench_row *row, int exit_status, enum finding finding, const char *text)
{
  if (row->error[0] != '\0')
    return;
  row->exit_status = exit_status;
  row->finding = finding;
  snprintf(row->error, sizeof row->error, "%s", text);
}

static void fail(struct bench_row *row, int exit_status, const char *text)
{
  fail_as(row, exit_status, finding_of(exit_status, 0), text);
}

static void fail_code(struct bench_row *row, int code)
{
  char text[256];

  if (code == -ETIMEDOUT)
    snprintf(text, sizeof text, "the other end did not answer in time");
  else if (code == -ECONNRESET)
    snprintf(text, sizeof text, "the other end has gone");
  else
    snprintf(text, sizeof text, "%s", strerror(-code));
  fail_as(row, PST_EXIT_FAILED, finding_of(PST_EXIT_FAILED, code), text);
}

static void take_cpu(double share, struct bench_row *row)
{
  if (share >= 0 && (row->cpu_share < 0 || share < row->cpu_share))
    row->cpu_share = share;
}

/* Ends that were to meet and did not: no other case will do better. */
static void take_meeting(const struct pst_stats *stats, int result, struct bench_row *row)
{
  row->unreachable |= result < 0 && stats->started_ns == 0 && stats->state == PST_STATE_FAILED;
}

static void take_sender(const struct pst_sender *sender, int result, struct bench_row *row)
{
  struct pst_stats stats = {.struct_size = sizeof stats};

  if (pst_sender_stats(sender, &stats) < 0)
    return;
  take_meeting(&stats, result, row);
  take_cpu(statistics_cpu_share(&stats), row);
  row->sent = stats.messages_sent;
  row->reliable = (stats.capabilities & PST_CAP_RELIABLE) != 0;
  row->limited_by = pst_verdict(&stats, NULL, &row->share);
  if (result < 0 && stats.error_text[0] != '\0')
    fail_as(row, PST_EXIT_FAILED, finding_of(PST_EXIT_FAILED, stats.error), stats.error_text);
}

static void take_receiver(const struct pst_receiver *receiver, int result, struct bench_path *path,
                          struct bench_row *row)
{
  struct pst_stats stats = {.struct_size = sizeof stats};

  if (pst_receiver_stats(receiver, &stats) < 0)
    return;
  bench_path_of(&stats, path);
  take_cpu(statistics_cpu_share(&stats), row);
  if (result < 0 && stats.error_text[0] != '\0')
    fail_as(row, PST_EXIT_FAILED, finding_of(PST_EXIT_FAILED, stats.error), stats.error_text);
}

static void fail_by(const struct region_end *end, struct bench_row *row)
{
  if (end->text[0] != '\0' && end->code < 0)
    fail_as(row, PST_EXIT_FAILED, finding_of(PST_EXIT_FAILED, end->code), end->text);
}

static void take_initiator(const struct region_end *end, int result, struct bench_row *row)
{
  take_cpu(region_end_cpu_share(end), row);
  row->sent = end->posted;
  row->done = end->done;
  row->failed = end->failed;
  row->reliable = true;
  row->limited_by = region_end_verdict(end, &row->share);
  if (row->c.op == BENCH_READ) /* where the bytes arrive */
    row->path = end->path;
  if (result >= 0)
    return;
  fail_by(end, row);
  if (end->has_left && !end->is_met) {
    row->unreachable = true;
    notice(PST_LOG_ERROR, "bench: %s", row->error);
  }
}

/* Of the messages there to those back, or of the target's checks to the initiator's. */
static void add_checked(struct measure_taken *taken, const struct measure_taken *there)
{
  taken->verified += there->verified;
  taken->corrupted += there->corrupted;
}

static void judge(struct bench_row *row)
{
  bool one_sided = bench_is_one_sided(row->c.op);
  char text[256];

  if (row->taken.corrupted > 0) {
    snprintf(text, sizeof text, "%llu %s arrived with wrong bytes",
             (unsigned long long)row->taken.corrupted, one_sided ? "transfers" : "messages");
    fail_as(row, PST_EXIT_FAILED, FINDING_CORRUPTED, text);
  }
  if (one_sided && (row->sent != row->done || row->done != row->taken.delivered)) {
    snprintf(text, sizeof text,
             "%llu transfers were posted and %llu done; the target was told of %llu",
             (unsigned long long)row->sent, (unsigned long long)row->done,
             (unsigned long long)row->taken.delivered);
    fail_as(row, PST_EXIT_FAILED, FINDING_UNBALANCED, text);
  } else if (row->reliable && row->sent != row->taken.delivered) {
    snprintf(text, sizeof text,
             "%llu messages were sent and %llu delivered, over a transport that promises all",
             (unsigned long long)row->sent, (unsigned long long)row->taken.delivered);
    fail_as(row, PST_EXIT_FAILED, FINDING_LOSS, text);
  }
  if (row->taken.messages == 0 && !row->stopped)
    fail_as(row, PST_EXIT_FAILED, FINDING_NOTHING_ARRIVED,
            "no message arrived after the warm-up; give a longer --duration");
}

/* ---- Both ends here --------------------------------------------------------------- */

struct other_end {
  const struct bench_case *c;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct region_end *target; /* NULL: messages */
  struct measure_watch watch;
  struct measure_taken taken;
  int cpu, result;
  int *gone; /* set when this end has failed */
};

static void *work(void *arg)
{
  struct other_end *end = arg;

  end->result = bench_pin(end->cpu);
  if (end->result == 0 && end->target != NULL)
    end->result = onesided_offer(end->target, end->c, &end->watch, &end->taken);
  else if (end->result == 0)
    end->result = end->c->measure == MEASURE_BANDWIDTH
                      ? measure_sink(end->receiver, end->c, &end->watch, &end->taken)
                      : measure_pong(end->receiver, end->sender, end->c, &end->watch, &end->taken);
  if (end->result < 0)
    __atomic_store_n(end->gone, 1, __ATOMIC_RELEASE);
  return NULL;
}

static void run_threads(const struct bench_plan *plan, struct pst_session *session,
                        struct bench_row *row)
{
  const struct bench_case *c = &row->c;
  int gone[2] = {0, 0}, enough = 0, result;
  struct measure_watch watch = {.gone = &gone[1], .enough_here = &enough};
  struct other_end other = {.c = c,
                            .watch = {.serves = true, .gone = &gone[0], .enough_here = &enough},
                            .cpu = plan->cpus[1],
                            .gone = &gone[1]};
  char name[64], back[64];
  pthread_t thread;

  bench_stream_name(c, false, name, sizeof name);
  bench_stream_name(c, true, back, sizeof back);
  struct pst_sender *sender = pst_session_sender(session, name);
  struct pst_receiver *receiver = pst_session_receiver(session, back);
  other.receiver = pst_session_receiver(session, name);
  other.sender = pst_session_sender(session, back);
  int code = pthread_create(&thread, NULL, work, &other);
  if (code != 0) {
    fail_code(row, -code);
    return;
  }
  if (c->measure == MEASURE_BANDWIDTH)
    result = measure_source(sender, c, &watch);
  else
    result = measure_ping(sender, receiver, c, &watch, &row->times, &row->taken);
  if (result < 0)
    __atomic_store_n(&gone[0], 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  if (c->measure == MEASURE_BANDWIDTH)
    row->taken = other.taken;
  else
    add_checked(&row->taken, &other.taken);
  row->stopped = watch.stopped;
  take_sender(sender, result, row);
  take_receiver(other.receiver, other.result, &row->path, row);
  if (receiver != NULL)
    take_receiver(receiver, result, &row->back, row);
  if (result < 0 || other.result < 0)
    fail_code(row, result < 0 ? result : other.result);
}

static void run_onesided_threads(const struct bench_plan *plan, struct region_end *initiator,
                                 struct region_end *target, struct bench_row *row)
{
  int gone[2] = {0, 0}, result;
  struct measure_watch watch = {.gone = &gone[1]};
  struct other_end other = {.c = &row->c,
                            .target = target,
                            .watch = {.serves = true, .gone = &gone[0]},
                            .cpu = plan->cpus[1],
                            .gone = &gone[1]};
  pthread_t thread;

  result = -pthread_create(&thread, NULL, work, &other);
  if (result < 0) {
    fail_code(row, result);
    return;
  }
  result = onesided_initiate(initiator, &row->c, &watch, &row->times, &row->taken);
  if (result < 0)
    __atomic_store_n(&gone[0], 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  row->taken.delivered = other.taken.delivered;
  add_checked(&row->taken, &other.taken);
  row->stopped = watch.stopped;
  take_initiator(initiator, result, row);
  row->path = initiator->path; /* both regions are of one memory */
  if (other.result < 0)
    fail_by(target, row);
  if (result < 0 || other.result < 0)
    fail_code(row, result < 0 ? result : other.result);
}

int bench_prepare(struct region_end *target, const struct bench_case *c, struct pst_error *error)
{
  int result = onesided_prepare(target, c);

  if (result < 0)
    notice_fail(error, PST_EXIT_UNAVAILABLE, result,
                "bench: the target's region cannot be filled with the pattern: %s; run without "
                "--verify",
                strerror(-result));
  return result;
}

static void run_onesided_here(const struct bench_plan *plan, struct bench_row *row)
{
  struct pst_error error = PST_ERROR_INIT;
  struct region_end initiator = {.node = NULL}, target = {.node = NULL};
  char address[32];

  int result = region_end_open(plan, &row->c, "127.0.0.1:0", plan->cpus[0], &target, &error);
  if (result == 0)
    result = bench_prepare(&target, &row->c, &error);
  if (result == 0)
    result = region_end_open(plan, &row->c, NULL, plan->cpus[0], &initiator, &error);
  if (result == 0) {
    snprintf(address, sizeof address, "127.0.0.1:%u", pst_node_port(target.node));
    result = region_end_connect(&initiator, address, &error);
  }
  if (result == 0)
    run_onesided_threads(plan, &initiator, &target, row);
  else
    fail_as(row, error.exit_status, finding_of(error.exit_status, error.code), error.text);
  region_end_close(&initiator);
  region_end_close(&target);
}

static void run_messages_here(const struct bench_plan *plan, struct bench_row *row)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *session = NULL;

  int result =
      bench_session_open(&plan->side, &row->c, PST_SESSION_SENDER | PST_SESSION_RECEIVER, false,
                         row->c.measure == MEASURE_LATENCY, NULL, false, &session, &error);
  if (result == 0)
    result = bench_session_start(session, plan->cpus[0], &error);
  if (result == 0)
    run_threads(plan, session, row);
  else
    fail_as(row, error.exit_status, finding_of(error.exit_status, error.code), error.text);
  pst_session_close(session);
}

void bench_run_here(const struct bench_plan *plan, struct bench_row *row)
{
  if (bench_is_one_sided(row->c.op))
    run_onesided_here(plan, row);
  else
    run_messages_here(plan, row);
  judge(row);
}

/* ---- With a server ------------------------------------------------------------------ */

static const char *text_of(struct json_object *from, const char *key)
{
  struct json_object *member = NULL;

  return json_object_object_get_ex(from, key, &member) &&
                 json_object_is_type(member, json_type_string)
             ? json_object_get_string(member)
             : "";
}

static uint64_t number_of(struct json_object *from, const char *key)
{
  struct json_object *member = NULL;

  return json_object_object_get_ex(from, key, &member) && json_object_is_type(member, json_type_int)
             ? json_object_get_uint64(member)
             : 0;
}

/* What a server says goes to a terminal. */
static void copy_plain(char *to, size_t size, const char *from)
{
  snprintf(to, size, "%s", from);
  for (; *to != '\0'; to++)
    if ((unsigned char)*to < ' ' || *to == 0x7f)
      *to = ' ';
}

/* What the server has warned of since its line before. */
static void note_warnings(struct json_object *said)
{
  struct json_object *list = NULL;
  char text[2560], line[2600];

  json_object_object_get_ex(said, "warnings", &list);
  if (!json_object_is_type(list, json_type_array))
    return;
  for (size_t i = 0; i < json_object_array_length(list); i++) {
    copy_plain(text, sizeof text, text_of(json_object_array_get_idx(list, i), "text"));
    snprintf(line, sizeof line, "server: %s", text);
    if (text[0] != '\0')
      finding_warn(FINDING_LOG, NULL, line);
  }
}

/* The server's next line, of which an error becomes the row's. False: there is none,
 * and none will follow. */
static bool listen_to(struct link *link, uint64_t timeout_ns, struct bench_row *row,
                      struct json_object **said)
{
  char text[512];
  int result = link_receive(link, timeout_ns, false, said);

  /* It had measured enough when this end had stopped by itself. */
  if (result == 0 && json_object_object_get_ex(*said, "enough", NULL)) {
    json_object_put(*said);
    result = link_receive(link, timeout_ns, false, said);
  }
  if (result < 0) {
    snprintf(text, sizeof text, "the server, %s (pid %" PRId64 "), %s", link->peer, link->pid,
             result == -ETIMEDOUT    ? "does not answer any more"
             : result == -ECONNRESET ? "has died or left"
                                     : "breaks the protocol; is it of another version?");
    fail_as(row, PST_EXIT_FAILED, finding_of(PST_EXIT_FAILED, result), text);
    return false;
  }
  note_warnings(*said);
  if (text_of(*said, "error")[0] != '\0') {
    int status = (int)number_of(*said, "exit_status");
    copy_plain(text, sizeof text, text_of(*said, "error"));
    fail(row,
         status >= PST_EXIT_FAILED && status <= PST_EXIT_UNAVAILABLE ? status : PST_EXIT_FAILED,
         text);
  }
  return true;
}

static bool take_result(struct link *link, struct bench_row *row)
{
  struct json_object *said = NULL, *taken = NULL;
  struct measure_taken theirs;
  struct bench_path path = {0};
  bool alive = listen_to(link, RESULT_NS, row, &said);

  if (!alive)
    return false;
  if (json_object_object_get_ex(said, "result", &taken) &&
      bench_taken_read(taken, &theirs, &path) == 0) {
    take_cpu(theirs.cpu_share, row);
    if (row->c.op != BENCH_READ)
      row->path = path;
    if (bench_is_one_sided(row->c.op))
      row->taken.delivered = theirs.delivered;
    if (row->c.measure == MEASURE_BANDWIDTH && !bench_is_one_sided(row->c.op))
      row->taken = theirs;
    else
      add_checked(&row->taken, &theirs);
  }
  json_object_put(said);
  return true;
}

/* The stream of replies, which waits here for the server's. */
static int open_back(const struct link *link, const struct bench_plan *plan, struct bench_row *row,
                     struct pst_session **session, struct pst_error *error)
{
  char control[96];

  row->c.back_port = link_free_port(link->local);
  snprintf(control, sizeof control, "%s:%u", link->local, row->c.back_port);
  int result = bench_session_open(&plan->side, &row->c, PST_SESSION_RECEIVER, true, false, control,
                                  plan->insecure, session, error);
  return result == 0 ? bench_session_start(*session, plan->cpus[0], error) : result;
}

static int open_out(const struct link *link, const struct bench_plan *plan,
                    const struct bench_row *row, uint16_t port, struct pst_session **session,
                    struct pst_error *error)
{
  char control[96];

  snprintf(control, sizeof control, "%s:%u", link->remote, port);
  int result = bench_session_open(&plan->side, &row->c, PST_SESSION_SENDER, false, false, control,
                                  plan->insecure, session, error);
  return result == 0 ? bench_session_start(*session, plan->cpus[0], error) : result;
}

static int measure_onesided(struct link *link, const struct bench_plan *plan, uint16_t port,
                            struct bench_row *row, struct pst_error *error)
{
  struct measure_watch watch = {.link = link};
  struct region_end initiator;
  char address[96];

  snprintf(address, sizeof address, "%s:%u", link->remote, port);
  int result = region_end_open(plan, &row->c, NULL, plan->cpus[0], &initiator, error);
  if (result == 0)
    result = region_end_connect(&initiator, address, error);
  if (result == 0) {
    int measured = onesided_initiate(&initiator, &row->c, &watch, &row->times, &row->taken);
    row->stopped = watch.stopped;
    take_initiator(&initiator, measured, row);
    if (measured < 0 && measured != -ECONNRESET) /* the server knows better why */
      fail_code(row, measured);
  }
  region_end_close(&initiator);
  return result;
}

static void measure_with(struct link *link, struct pst_session *out, struct pst_session *back,
                         struct bench_row *row)
{
  const struct bench_case *c = &row->c;
  struct measure_watch watch = {.link = link};
  struct pst_receiver *receiver = NULL;
  char name[64];
  int result;

  bench_stream_name(c, false, name, sizeof name);
  struct pst_sender *sender = pst_session_sender(out, name);
  bench_stream_name(c, true, name, sizeof name);
  if (back != NULL)
    receiver = pst_session_receiver(back, name);
  if (c->measure == MEASURE_BANDWIDTH)
    result = measure_source(sender, c, &watch);
  else
    result = measure_ping(sender, receiver, c, &watch, &row->times, &row->taken);
  row->stopped = watch.stopped;
  take_sender(sender, result, row);
  if (receiver != NULL)
    take_receiver(receiver, result, &row->back, row);
  if (result < 0 && result != -ECONNRESET) /* the server knows better why */
    fail_code(row, result);
}

bool bench_run_with(struct link *link, const struct bench_plan *plan, struct bench_row *row)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *out = NULL, *back = NULL;
  struct json_object *said = NULL, *ask = NULL;
  bool alive = true, asked = false;
  int result = 0;

  if (row->c.measure == MEASURE_LATENCY && !bench_is_one_sided(row->c.op))
    result = open_back(link, plan, row, &back, &error);
  if (result == 0) {
    ask = json_object_new_object();
    json_object_object_add(ask, "case", bench_case_write(&row->c));
    link_send(link, ask); /* if it fails, nobody answers */
    alive = listen_to(link, OPEN_NS, row, &said);
    asked = alive && row->error[0] == '\0';
  }
  if (asked) {
    uint16_t port = (uint16_t)number_of(said, "port");
    if (bench_is_one_sided(row->c.op)) {
      result = measure_onesided(link, plan, port, row, &error);
    } else {
      result = open_out(link, plan, row, port, &out, &error);
      if (result == 0)
        measure_with(link, out, back, row);
    }
  }
  if (result < 0)
    fail_as(row, error.exit_status, finding_of(error.exit_status, error.code), error.text);
  pst_session_close(out);
  pst_session_close(back);
  if (asked)
    alive = take_result(link, row);
  json_object_put(said);
  judge(row);
  return alive;
}

int bench_greet(struct link *link, const struct bench_plan *plan, struct bench_setting *setting,
                struct pst_error *error)
{
  struct json_object *hello = json_object_new_object(), *said = NULL;
  char text[512], host[128];

  json_object_object_add(hello, "penstock_bench", json_object_new_int(1));
  json_object_object_add(hello, "transport", json_object_new_string(plan->side.transport));
  json_object_object_add(hello, "pid", json_object_new_int64(getpid()));
  json_object_object_add(hello, "token", json_object_new_string(setting->token));
  link_send(link, hello);
  int result = link_receive(link, GREET_NS, true, &said);
  if (result == -EINTR)
    return notice_fail(error, PST_EXIT_FAILED, result,
                       "bench: stopped by %s while it waited for %s to answer", signals_name(),
                       link->peer);
  if (result < 0)
    return notice_fail(error, PST_EXIT_FAILED, result, "bench: %s: %s", link->peer,
                       result == -ETIMEDOUT ? "no answer within 10 s; it serves one client at a "
                                              "time, or is no penstock bench --server"
                                            : "it is no penstock bench --server, or has died");
  note_warnings(said);
  link->pid = link_pid_of(said);
  copy_plain(text, sizeof text, text_of(said, "error"));
  copy_plain(host, sizeof host, text_of(said, "hostname"));
  if (text[0] != '\0')
    result = notice_fail(error, PST_EXIT_USAGE, -EPROTO, "bench: the server at %s: %s", link->peer,
                         text);
  else if (number_of(said, "penstock_bench") != 1)
    result = notice_fail(error, PST_EXIT_FAILED, -EPROTO,
                         "bench: %s is no penstock bench --server of this version", link->peer);
  else
    snprintf(setting->server, sizeof setting->server, "%s, pid %" PRId64 ", memory %.40s%s%s", host,
             link->pid, text_of(said, "memory"), plan->host != NULL ? ", at " : "",
             plan->host != NULL ? link->peer : "");
  copy_plain(setting->server_cpu, sizeof setting->server_cpu, text_of(said, "cpu"));
  json_object_put(said);
  return result;
}
