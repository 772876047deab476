/* SPDX-License-Identifier: Apache-2.0 */
/* The other end: opens what a client asks for, and tells what it saw. No client can
 * make it end, or allocate or wait without bound. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "environment.h"
#include "finding.h"
#include "log.h"
#include "run.h"
#include "sessions.h"
#include "signals.h"
#include "statistics.h"

#define GREET_NS (10 * NS_PER_S)
#define IDLE_NS (120 * NS_PER_S) /* a client with nothing to ask for */
#define LOOK_NS (50 * NS_PER_MS)
#define WARNINGS_MOST 8 /* in one message: LINK_MESSAGE_MAX has room for them */

struct serving {
  struct control_link *link;
  const struct bench_plan *plan;
  struct bench_case c;
  struct pst_session *in, *back;
  struct region_end target; /* of WRITE and READ, instead of both */
  int cpu;
};

/* With what this end has warned of since the line before: the result is the client's. */
static int bench_serve_answer(struct control_link *link, struct json_object *object)
{
  json_object_object_add(object, "warnings", app_finding_take_warnings(WARNINGS_MOST));
  return bench_link_send(link, object);
}

static int bench_serve_answer_error(struct control_link *link, int exit_status, const char *text)
{
  struct json_object *object = bench_link_object("error", json_object_new_string(text));

  json_object_object_add(object, "exit_status", json_object_new_int(exit_status));
  return bench_serve_answer(link, object);
}

/* Exchanges hellos. A client of another version, transport or parent process gets the reason, and
 * the result is -errno. */
static int bench_serve_greet_client(struct control_link *link, const struct bench_plan *plan,
                                    const char *token)
{
  struct json_object *said = NULL;
  struct environment environment;
  char text[256];
  int rc = bench_link_receive(link, GREET_NS, true, &said);

  if (rc < 0)
    return rc;
  if (bench_link_number(said, "penstock_bench") != 1 ||
      !json_object_object_get_ex(said, "transport", NULL)) {
    bench_serve_answer_error(link, PST_EXIT_FAILED,
                             "this is a penstock bench --server of another version");
    rc = -EPROTO;
  } else if (token && strcmp(bench_link_text(said, "token"), token) != 0) {
    bench_serve_answer_error(link, PST_EXIT_FAILED,
                             "this server is only for the process that started it");
    rc = -EACCES;
  } else if (strcmp(bench_link_text(said, "transport"), plan->side.transport) != 0) {
    snprintf(text, sizeof(text),
             "it was started with --transport %.60s, this client with %.60s; give both the same",
             plan->side.transport, bench_link_text(said, "transport"));
    bench_serve_answer_error(link, PST_EXIT_USAGE, text);
    rc = -EXDEV;
  }
  link->pid = (int64_t)bench_link_number(said, "pid");
  json_object_put(said);
  if (rc < 0)
    return rc;
  app_environment_read(&environment);
  struct json_object *hello = bench_link_object("penstock_bench", json_object_new_int(1));
  json_object_object_add(hello, "version", json_object_new_string(pst_version()));
  json_object_object_add(hello, "memory", json_object_new_string(plan->side.memory));
  json_object_object_add(hello, "hostname", json_object_new_string(environment.hostname));
  json_object_object_add(hello, "cpu", json_object_new_string(environment.cpu));
  json_object_object_add(hello, "pid", json_object_new_int64(getpid()));
  return bench_serve_answer(link, hello);
}

static int bench_serve_open_streams(struct serving *serving, uint16_t port, struct pst_error *error)
{
  const struct control_link *link = serving->link;
  int rc = bench_streams_open(serving->plan, &serving->c, PST_SESSION_RECEIVER, BENCH_OUT,
                              link->local, port, serving->cpu, &serving->in, error);

  return rc < 0 || serving->c.measure == MEASURE_BANDWIDTH
             ? rc
             : bench_streams_open(serving->plan, &serving->c, PST_SESSION_SENDER, BENCH_BACK,
                                  link->remote, serving->c.back_port, serving->cpu, &serving->back,
                                  error);
}

/* *port: where the client is to connect; 0: any. */
static int bench_serve_open_case(struct serving *serving, uint16_t *port, struct pst_error *error)
{
  char listen[96];

  if (!bench_is_one_sided(serving->c.op)) {
    if (*port == 0)
      *port = bench_link_free_port(serving->link->local);
    return bench_serve_open_streams(serving, *port, error);
  }
  snprintf(listen, sizeof(listen), "%s:%u", serving->link->local, *port);
  int rc = bench_region_end_open(serving->plan, &serving->c, listen, serving->cpu, &serving->target,
                                 error);
  if (rc < 0)
    return rc;
  *port = pst_node_port(serving->target.node);
  return bench_onesided_prepare(&serving->target, &serving->c, error);
}

static void bench_serve_close_case(struct serving *serving)
{
  pst_session_close(serving->in);
  pst_session_close(serving->back);
  bench_region_end_close(&serving->target);
  serving->in = serving->back = NULL;
}

void bench_see(const struct measure *m, struct bench_seen *seen)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};

  *seen = (struct bench_seen){.taken = m->taken};
  if (m->region) {
    stats = bench_region_end_stats(m->region);
    seen->path = m->region->path;
  } else {
    pst_receiver_stats(m->receiver, &stats);
    bench_path_of(&stats, &seen->path);
  }
  seen->taken.cpu_share = app_statistics_cpu_share(&stats);
  seen->code = stats.error;
  snprintf(seen->text, sizeof(seen->text), "%s", stats.error_text);
}

static bool bench_serve_has_failed(const struct pst_sender *sender)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};

  return sender && pst_sender_stats(sender, &stats) == 0 && stats.error != 0;
}

static int bench_serve_measure(struct serving *serving)
{
  struct measure m = {.c = &serving->c, .link = serving->link, .serves = true};
  struct bench_seen seen;

  if (bench_is_one_sided(serving->c.op))
    m.region = &serving->target;
  else
    m.receiver = bench_receiver(serving->in, &serving->c, BENCH_OUT);
  if (serving->back)
    m.sender = bench_sender(serving->back, &serving->c, BENCH_BACK);
  bench_measure_run(&m);
  bench_see(&m, &seen);
  serving->link->cause_is_said = seen.text[0] != '\0' || bench_serve_has_failed(m.sender);
  if (m.region && m.result < 0 && seen.text[0] != '\0')
    app_log(PST_LOG_WARN, "bench: %s", seen.text);
  struct json_object *object =
      bench_link_object("result", bench_taken_write(&seen.taken, &seen.path));
  if (m.result < 0)
    json_object_object_add(
        object, "error",
        json_object_new_string(seen.text[0] != '\0' ? seen.text : strerror(-m.result)));
  /* Before the client may go on, the case's port is free again. */
  bench_serve_close_case(serving);
  return bench_serve_answer(serving->link, object);
}

static int bench_serve_case(struct serving *serving, struct json_object *said, uint16_t port)
{
  struct pst_error error = PST_ERROR_INIT;
  struct json_object *asked = NULL;
  char why[256];

  json_object_object_get_ex(said, "case", &asked);
  if (bench_case_read(asked, &serving->c, why, sizeof(why)) < 0) {
    app_log(PST_LOG_WARN, "bench: %s asks for an impossible measurement: %s", serving->link->peer,
            why);
    return bench_serve_answer_error(serving->link, PST_EXIT_FAILED, why);
  }
  int rc = bench_serve_open_case(serving, &port, &error);
  if (rc < 0) {
    rc = bench_serve_answer_error(serving->link, error.exit_status, error.text);
  } else {
    rc = bench_serve_answer(serving->link, bench_link_object("port", json_object_new_int(port)));
    if (rc == 0)
      rc = bench_serve_measure(serving);
  }
  bench_serve_close_case(serving);
  return rc;
}

int bench_serve(struct control_link *link, const struct bench_plan *plan, const char *token,
                uint16_t port, int cpu)
{
  struct serving serving = {.link = link, .plan = plan, .cpu = cpu};
  struct json_object *said = NULL;
  int rc = bench_serve_greet_client(link, plan, token);
  bool ends = false;

  link->has_greeted = rc == 0;
  while (rc == 0 && !ends) {
    rc = bench_link_receive(link, IDLE_NS, true, &said);
    if (rc < 0)
      break;
    /* That the client gave up comes late where this end's measurement was over already. */
    const bool is_late = json_object_object_get_ex(said, "given_up", NULL);
    ends = json_object_object_get_ex(said, "goodbye", NULL);
    link->has_asked |= !ends;
    if (!ends && !is_late)
      rc = bench_serve_case(&serving, said, port);
    json_object_put(said);
  }
  return rc;
}

static const char *bench_serve_why_left(const struct control_link *link, int rc)
{
  /* Any other end of a client that has greeted comes with a goodbye. */
  if (rc == -ECONNRESET && link->has_greeted)
    return link->cause_is_said ? "disconnected unexpectedly"
                               : "disconnected unexpectedly: it was killed or crashed";
  switch (rc) {
  case 0:
    return "has left";
  case -EINTR:
    return "is dropped: this server stops";
  case -ETIMEDOUT:
    return "is dropped: it was silent for too long";
  case -EPROTO:
    return "is dropped: it does not speak the protocol, or another version of it";
  case -EXDEV:
    return "is sent away: it has another --transport than this server; give both the same";
  default:
    return "disconnected before its first message";
  }
}

/* The host of "host:port", "[v6]:port" or a host alone. */
static int bench_serve_host_length(const char *where)
{
  const char *end = strchr(where, ']'), *colon = strchr(where, ':');

  if (end)
    return (int)(end + 1 - where);
  return (int)(colon && !strchr(colon + 1, ':') ? (size_t)(colon - where) : strlen(where));
}

int bench_server(const struct bench_plan *plan)
{
  struct pst_error error = PST_ERROR_INIT;
  struct control_link_server server;
  const char *where = plan->host ? plan->host : "127.0.0.1";
  int rc =
      bench_link_listen("bench", where, BENCH_PORT, &plan->access, plan->cpus[0], &server, &error);
  bool served = false;

  if (rc < 0)
    return error.exit_status;
  uint16_t port = pst_node_port(server.node);
  uint16_t streams_port = (uint16_t)(port < UINT16_MAX ? port + 1 : port - 1);
  app_log(PST_LOG_INFO,
          "bench: serving transport %s, memory %s at %.*s, port %u, and its streams at port %u; ^C "
          "ends",
          plan->side.transport, plan->side.memory, bench_serve_host_length(where), where, port,
          streams_port);
  if (plan->access.insecure)
    app_log(PST_LOG_INFO, "bench: --insecure, so whoever reaches its ports can join or disturb "
                          "the run; nothing on them is authenticated or encrypted");
  while (!app_signals_stop() && !(plan->once && served)) {
    struct control_link *link;
    if (bench_link_take(&server, LOOK_NS, &link) < 0)
      continue;
    app_log(PST_LOG_INFO, "bench: client %s", link->peer);
    rc = bench_serve(link, plan, NULL, streams_port, plan->cpus[0]);
    char pid[32] = "";
    if (link->pid > 0)
      snprintf(pid, sizeof(pid), " (pid %" PRId64 ")", link->pid);
    app_log(PST_LOG_INFO, "bench: client %s%s %s", link->peer, pid, bench_serve_why_left(link, rc));
    served = link->has_asked;
    bench_link_close(link);
  }
  bench_link_unlisten(&server);
  return PST_EXIT_OK;
}
