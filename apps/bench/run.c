/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the cases of a benchmark, and reports what fails. */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "sessions.h"
#include "signals.h"
#include "statistics.h"

#define OPEN_NS (60 * NS_PER_S) /* a server may have a GPU to wake */
#define RESULT_NS (20 * NS_PER_S)
#define GREET_NS (10 * NS_PER_S)

static void bench_run_fail_as(struct bench_row *row, int exit_status, enum finding finding,
                              const char *text)
{
  if (row->error[0] != '\0')
    return;
  row->exit_status = exit_status;
  row->finding = finding;
  snprintf(row->error, sizeof(row->error), "%s", text);
}

static void bench_run_fail(struct bench_row *row, int exit_status, int code, const char *text)
{
  bench_run_fail_as(row, exit_status, app_finding_of(exit_status, code), text);
}

static void bench_run_fail_code(struct bench_row *row, int code)
{
  bench_run_fail(row, PST_EXIT_FAILED, code,
                 code == -ETIMEDOUT    ? "the other end did not answer in time"
                 : code == -ECONNRESET ? "the other end has gone"
                                       : strerror(-code));
}

/* text "": nobody said why. */
static void bench_run_fail_by(struct bench_row *row, int code, const char *text)
{
  if (text[0] != '\0' && code < 0)
    bench_run_fail(row, PST_EXIT_FAILED, code, text);
}

static void bench_run_take_cpu(double share, struct bench_row *row)
{
  if (share >= 0 && (row->cpu_share < 0 || share < row->cpu_share))
    row->cpu_share = share;
}

static void bench_run_take_sender(const struct measure *m, const struct pst_stats *stats,
                                  struct bench_row *row)
{
  row->sent = stats->messages_sent;
  row->reliable = (stats->capabilities & PST_CAP_RELIABLE) != 0;
  /* Ends that were to meet and did not: no other case will do better. */
  row->unreachable |= m->result < 0 && stats->started_ns == 0 && stats->state == PST_STATE_FAILED;
}

static void bench_run_take_initiator(const struct measure *m, struct bench_row *row)
{
  const struct region_end *end = m->region;

  row->sent = end->posted;
  row->done = end->done;
  row->failed = end->failed;
  row->reliable = true;
  if (row->c.op == BENCH_READ) /* where the bytes arrive */
    row->path = end->path;
  if (m->result < 0 && end->has_left && !end->is_met) {
    row->unreachable = true;
    app_log(PST_LOG_ERROR, "bench: %s", row->error);
  }
}

/* The client's end. */
static void bench_run_take_near(const struct measure *m, struct bench_row *row)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct bench_seen back;

  row->taken = m->taken;
  row->stopped = m->stopped;
  if (m->region)
    stats = bench_region_end_stats(m->region);
  else
    pst_sender_stats(m->sender, &stats);
  bench_run_take_cpu(app_statistics_cpu_share(&stats), row);
  row->limited_by = pst_verdict(&stats, NULL, &row->share);
  if (m->result < 0)
    bench_run_fail_by(row, stats.error, stats.error_text);
  if (m->region)
    bench_run_take_initiator(m, row);
  else
    bench_run_take_sender(m, &stats, row);
  if (!m->receiver)
    return;
  bench_see(m, &back);
  row->back = back.path;
  bench_run_take_cpu(back.taken.cpu_share, row);
  if (m->result < 0)
    bench_run_fail_by(row, back.code, back.text);
}

/* The other end: the server's, or a thread's. */
static void bench_run_take_far(const struct bench_seen *far, struct bench_row *row)
{
  bool one_sided = bench_is_one_sided(row->c.op);

  bench_run_take_cpu(far->taken.cpu_share, row);
  if (row->c.op != BENCH_READ)
    row->path = far->path;
  if (!one_sided && row->c.measure == MEASURE_BANDWIDTH) {
    row->taken = far->taken;
    return;
  }
  if (one_sided)
    row->taken.delivered = far->taken.delivered;
  /* The checks of both directions are added: there and back, or the target's and the
   * initiator's. */
  row->taken.verified += far->taken.verified;
  row->taken.corrupted += far->taken.corrupted;
}

static void bench_run_judge(struct bench_row *row)
{
  bool one_sided = bench_is_one_sided(row->c.op);
  char text[256];

  if (row->taken.corrupted > 0) {
    snprintf(text, sizeof(text), "%llu %s arrived with wrong bytes",
             (unsigned long long)row->taken.corrupted, one_sided ? "transfers" : "messages");
    bench_run_fail_as(row, PST_EXIT_FAILED, FINDING_CORRUPTED, text);
  }
  if (one_sided && (row->sent != row->done || row->done != row->taken.delivered)) {
    snprintf(text, sizeof(text), "%llu transfers were posted and %llu done; the target saw %llu",
             (unsigned long long)row->sent, (unsigned long long)row->done,
             (unsigned long long)row->taken.delivered);
    bench_run_fail_as(row, PST_EXIT_FAILED, FINDING_UNBALANCED, text);
  } else if (row->reliable && row->sent != row->taken.delivered) {
    snprintf(text, sizeof(text),
             "%llu messages were sent and %llu delivered, over a transport that promises all",
             (unsigned long long)row->sent, (unsigned long long)row->taken.delivered);
    bench_run_fail_as(row, PST_EXIT_FAILED, FINDING_LOSS, text);
  }
  if (row->taken.messages == 0 && !row->stopped)
    bench_run_fail_as(row, PST_EXIT_FAILED, FINDING_NOTHING_ARRIVED,
                      "no message arrived after the warm-up; give a longer --duration");
}

/* ---- Both ends here --------------------------------------------------------------- */

struct other_end {
  struct measure m;
  int cpu;
};

static void *bench_run_work(void *arg)
{
  struct other_end *end = arg;

  end->m.result = bench_pin(end->cpu);
  if (end->m.result == 0)
    bench_measure_run(&end->m);
  else
    __atomic_store_n(&end->m.has_ended, true, __ATOMIC_RELEASE);
  return NULL;
}

static void bench_run_threads(const struct bench_plan *plan, struct measure *near,
                              struct measure *far, struct bench_row *row)
{
  struct other_end other = {.m = *far, .cpu = plan->cpus[1]};
  struct bench_seen seen;
  pthread_t thread;

  near->c = other.m.c = &row->c;
  near->times = &row->times;
  near->other = &other.m;
  other.m.other = near;
  other.m.serves = true;
  int code = pthread_create(&thread, NULL, bench_run_work, &other);
  if (code != 0) {
    bench_run_fail_code(row, -code);
    return;
  }
  bench_measure_run(near);
  pthread_join(thread, NULL);
  bench_see(&other.m, &seen);
  bench_run_take_near(near, row);
  bench_run_take_far(&seen, row);
  if (near->region)
    row->path = near->region->path; /* both regions are of one memory */
  if (other.m.result < 0)
    bench_run_fail_by(row, seen.code, seen.text);
  if (near->result < 0 || other.m.result < 0)
    bench_run_fail_code(row, near->result < 0 ? near->result : other.m.result);
}

static void bench_run_onesided_here(const struct bench_plan *plan, struct bench_row *row)
{
  struct pst_error error = PST_ERROR_INIT;
  struct region_end initiator = {.node = NULL}, target = {.node = NULL};
  struct measure near = {.region = &initiator}, far = {.region = &target};

  int rc = bench_region_end_open(plan, &row->c, "127.0.0.1:0", plan->cpus[0], &target, &error);
  if (rc == 0)
    rc = bench_onesided_prepare(&target, &row->c, &error);
  if (rc == 0)
    rc = bench_region_end_connect(plan, &row->c, "127.0.0.1", pst_node_port(target.node),
                                  &initiator, &error);
  if (rc == 0)
    bench_run_threads(plan, &near, &far, row);
  else
    bench_run_fail(row, error.exit_status, error.code, error.text);
  bench_region_end_close(&initiator);
  bench_region_end_close(&target);
}

static void bench_run_messages_here(const struct bench_plan *plan, struct bench_row *row)
{
  bool replies = row->c.measure == MEASURE_LATENCY;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *session = NULL;
  struct measure near, far;

  int rc = bench_streams_open(plan, &row->c, PST_SESSION_SENDER | PST_SESSION_RECEIVER,
                              replies ? BENCH_OUT | BENCH_BACK : BENCH_OUT, NULL, 0, plan->cpus[0],
                              &session, &error);
  if (rc == 0) {
    near = (struct measure){.sender = bench_sender(session, &row->c, BENCH_OUT),
                            .receiver = bench_receiver(session, &row->c, BENCH_BACK)};
    far = (struct measure){.sender = bench_sender(session, &row->c, BENCH_BACK),
                           .receiver = bench_receiver(session, &row->c, BENCH_OUT)};
    bench_run_threads(plan, &near, &far, row);
  } else {
    bench_run_fail(row, error.exit_status, error.code, error.text);
  }
  pst_session_close(session);
}

void bench_run_here(const struct bench_plan *plan, struct bench_row *row)
{
  if (bench_is_one_sided(row->c.op))
    bench_run_onesided_here(plan, row);
  else
    bench_run_messages_here(plan, row);
  bench_run_judge(row);
}

/* ---- With a server ------------------------------------------------------------------ */

/* Copies a server's text without control characters, since it goes to a terminal. */
static void bench_run_copy_plain(char *to, size_t size, const char *from)
{
  snprintf(to, size, "%s", from);
  for (; *to != '\0'; to++)
    if ((unsigned char)*to < ' ' || *to == 0x7f)
      *to = ' ';
}

/* Notes the server's warnings since its last line, for the result. */
static void bench_run_note_warnings(struct json_object *said)
{
  struct json_object *list = NULL;
  char text[2560], line[2600];

  json_object_object_get_ex(said, "warnings", &list);
  if (!json_object_is_type(list, json_type_array))
    return;
  for (size_t i = 0; i < json_object_array_length(list); i++) {
    bench_run_copy_plain(text, sizeof(text),
                         bench_link_text(json_object_array_get_idx(list, i), "text"));
    snprintf(line, sizeof(line), "server: %s", text);
    if (text[0] != '\0')
      app_finding_warn(FINDING_LOG, NULL, line);
  }
}

/* The server's next line, of which an error becomes the row's. False: there is none,
 * and none will follow. */
static bool bench_run_listen_to(struct control_link *link, uint64_t timeout_ns,
                                struct bench_row *row, struct json_object **said)
{
  char text[512];
  int rc = bench_link_receive(link, timeout_ns, false, said);

  /* The server had measured enough when this end stopped by itself. */
  if (rc == 0 && json_object_object_get_ex(*said, "enough", NULL)) {
    json_object_put(*said);
    rc = bench_link_receive(link, timeout_ns, false, said);
  }
  if (rc < 0) {
    snprintf(text, sizeof(text), "the server, %s (pid %" PRId64 "), %s", link->peer, link->pid,
             rc == -ETIMEDOUT    ? "does not answer any more"
             : rc == -ECONNRESET ? "has stopped or was killed; its own output says which"
                                 : "breaks the protocol; is it of another version?");
    bench_run_fail(row, PST_EXIT_FAILED, rc, text);
    return false;
  }
  bench_run_note_warnings(*said);
  if (bench_link_text(*said, "error")[0] != '\0') {
    int status = (int)bench_link_number(*said, "exit_status");
    bench_run_copy_plain(text, sizeof(text), bench_link_text(*said, "error"));
    bench_run_fail(
        row, status >= PST_EXIT_FAILED && status <= PST_EXIT_UNAVAILABLE ? status : PST_EXIT_FAILED,
        0, text);
  }
  return true;
}

static bool bench_run_take_result(struct control_link *link, struct bench_row *row)
{
  struct json_object *said = NULL, *taken = NULL;
  struct bench_seen far = {.code = 0};

  if (!bench_run_listen_to(link, RESULT_NS, row, &said))
    return false;
  if (json_object_object_get_ex(said, "result", &taken) &&
      bench_taken_read(taken, &far.taken, &far.path) == 0)
    bench_run_take_far(&far, row);
  json_object_put(said);
  return true;
}

/* The part of a case that this end has; `port`: of the server's. 0, or reported in *error. */
static int bench_run_measure_with(struct control_link *link, const struct bench_plan *plan,
                                  uint16_t port, struct pst_session *back, struct bench_row *row,
                                  struct pst_error *error)
{
  struct measure m = {.c = &row->c, .link = link, .times = &row->times};
  struct region_end initiator = {.node = NULL};
  struct pst_session *out = NULL;
  int rc;

  if (bench_is_one_sided(row->c.op)) {
    m.region = &initiator;
    rc = bench_region_end_connect(plan, &row->c, link->remote, port, &initiator, error);
  } else {
    rc = bench_streams_open(plan, &row->c, PST_SESSION_SENDER, BENCH_OUT, link->remote, port,
                            plan->cpus[0], &out, error);
  }
  if (rc == 0) {
    if (out)
      m.sender = bench_sender(out, &row->c, BENCH_OUT);
    if (back)
      m.receiver = bench_receiver(back, &row->c, BENCH_BACK);
    bench_measure_run(&m);
    bench_run_take_near(&m, row);
    if (m.result < 0 && m.result != -ECONNRESET) /* the server knows better why */
      bench_run_fail_code(row, m.result);
  }
  bench_region_end_close(&initiator);
  pst_session_close(out);
  return rc;
}

bool bench_run_with(struct control_link *link, const struct bench_plan *plan, struct bench_row *row)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *back = NULL;
  struct json_object *said = NULL;
  bool alive = true, asked = false;
  int rc = 0;

  /* The stream of replies, which waits here for the server's. */
  if (row->c.measure == MEASURE_LATENCY && !bench_is_one_sided(row->c.op)) {
    row->c.back_port = bench_link_free_port(link->local);
    rc = bench_streams_open(plan, &row->c, PST_SESSION_RECEIVER, BENCH_BACK, link->local,
                            row->c.back_port, plan->cpus[0], &back, &error);
  }
  if (rc == 0) {
    /* If it fails, nobody answers. */
    bench_link_send(link, bench_link_object("case", bench_case_write(&row->c)));
    alive = bench_run_listen_to(link, OPEN_NS, row, &said);
    asked = alive && row->error[0] == '\0';
  }
  if (asked)
    rc = bench_run_measure_with(link, plan, (uint16_t)bench_link_number(said, "port"), back, row,
                                &error);
  if (rc < 0)
    bench_run_fail(row, error.exit_status, error.code, error.text);
  if (asked && rc < 0) /* it waits for this end, which does not come */
    bench_link_send(link, bench_link_object("given_up", json_object_new_boolean(true)));
  pst_session_close(back);
  if (asked)
    alive = bench_run_take_result(link, row);
  json_object_put(said);
  bench_run_judge(row);
  return alive;
}

int bench_greet(struct control_link *link, const struct bench_plan *plan,
                struct bench_setting *setting, struct pst_error *error)
{
  struct json_object *hello = bench_link_object("penstock_bench", json_object_new_int(1)),
                     *said = NULL;
  char text[512], host[128];

  json_object_object_add(hello, "transport", json_object_new_string(plan->side.transport));
  json_object_object_add(hello, "pid", json_object_new_int64(getpid()));
  json_object_object_add(hello, "token", json_object_new_string(setting->token));
  bench_link_send(link, hello);
  int rc = bench_link_receive(link, GREET_NS, true, &said);
  if (rc == -EINTR)
    return app_log_fail(error, PST_EXIT_FAILED, rc,
                        "bench: stopped by %s while it waited for %s to answer", app_signals_name(),
                        link->peer);
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "bench: %s: %s", link->peer,
                        rc == -ETIMEDOUT ? "no answer within 10 s; it serves one client at a time, "
                                           "or is not a penstock bench --server"
                                         : "it is not a penstock bench --server, or it has died");
  bench_run_note_warnings(said);
  link->pid = (int64_t)bench_link_number(said, "pid");
  bench_run_copy_plain(text, sizeof(text), bench_link_text(said, "error"));
  bench_run_copy_plain(host, sizeof(host), bench_link_text(said, "hostname"));
  if (text[0] != '\0')
    rc = app_log_fail(error, PST_EXIT_USAGE, -EPROTO, "bench: the server at %s: %s", link->peer,
                      text);
  else if (bench_link_number(said, "penstock_bench") != 1)
    rc = app_log_fail(error, PST_EXIT_FAILED, -EPROTO,
                      "bench: %s is not a penstock bench --server of this version", link->peer);
  else
    snprintf(setting->server, sizeof(setting->server), "%s, pid %" PRId64 ", memory %.40s%s%s",
             host, link->pid, bench_link_text(said, "memory"), plan->host ? ", at " : "",
             plan->host ? link->peer : "");
  bench_run_copy_plain(setting->server_cpu, sizeof(setting->server_cpu),
                       bench_link_text(said, "cpu"));
  json_object_put(said);
  return rc;
}
