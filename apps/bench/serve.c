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
#include "ends.h"
#include "finding.h"
#include "notice.h"
#include "onesided.h"
#include "run.h"
#include "signals.h"
#include "statistics.h"

#define GREET_NS (10 * NS_PER_S)
#define IDLE_NS (120 * NS_PER_S) /* a client with nothing to ask for */
#define LOOK_NS (50 * NS_PER_MS)
#define WARNINGS_MOST 8 /* in one message: LINK_MESSAGE_MAX has room for them */

struct serving {
  struct link *link;
  const struct bench_plan *plan;
  struct bench_case c;
  struct pst_session *in, *back;
  struct region_end target; /* of WRITE and READ, instead of both */
  int cpu;
};

/* With what this end has warned of since the line before: the result is the client's. */
static int answer(struct link *link, struct json_object *object)
{
  json_object_object_add(object, "warnings", finding_take_warnings(WARNINGS_MOST));
  return link_send(link, object);
}

static int answer_error(struct link *link, int exit_status, const char *text)
{
  struct json_object *object = json_object_new_object();

  json_object_object_add(object, "error", json_object_new_string(text));
  json_object_object_add(object, "exit_status", json_object_new_int(exit_status));
  return answer(link, object);
}

static int greet_client(struct link *link, const struct bench_plan *plan, const char *token)
{
  struct json_object *said = NULL, *member = NULL, *shown = NULL;
  struct environment environment;
  char text[256];
  int result = link_receive(link, GREET_NS, true, &said);

  if (result < 0)
    return result;
  if (!json_object_object_get_ex(said, "penstock_bench", &member) ||
      json_object_get_int(member) != 1 || !json_object_object_get_ex(said, "transport", &member)) {
    answer_error(link, PST_EXIT_FAILED, "this is a penstock bench --server of another version");
    result = -EPROTO;
  } else if (token != NULL && (!json_object_object_get_ex(said, "token", &shown) ||
                               strcmp(json_object_get_string(shown), token) != 0)) {
    answer_error(link, PST_EXIT_FAILED, "this is for the process that has started it");
    result = -EACCES;
  } else if (strcmp(json_object_get_string(member), plan->side.transport) != 0) {
    snprintf(text, sizeof text,
             "it was started with --transport %.60s, this client with %.60s; give both the same",
             plan->side.transport, json_object_get_string(member));
    answer_error(link, PST_EXIT_USAGE, text);
    result = -EXDEV;
  }
  link->pid = link_pid_of(said);
  json_object_put(said);
  if (result < 0)
    return result;
  environment_read(&environment);
  struct json_object *hello = json_object_new_object();
  json_object_object_add(hello, "penstock_bench", json_object_new_int(1));
  json_object_object_add(hello, "version", json_object_new_string(pst_version()));
  json_object_object_add(hello, "memory", json_object_new_string(plan->side.memory));
  json_object_object_add(hello, "hostname", json_object_new_string(environment.hostname));
  json_object_object_add(hello, "cpu", json_object_new_string(environment.cpu));
  json_object_object_add(hello, "pid", json_object_new_int64(getpid()));
  return answer(link, hello);
}

static int open_streams(struct serving *serving, uint16_t port, struct pst_error *error)
{
  const struct bench_side *side = &serving->plan->side;
  bool insecure = serving->plan->insecure;
  char control[96];

  snprintf(control, sizeof control, "%s:%u", serving->link->local, port);
  int result = bench_session_open(side, &serving->c, PST_SESSION_RECEIVER, false, false, control,
                                  insecure, &serving->in, error);
  if (result == 0)
    result = bench_session_start(serving->in, serving->cpu, error);
  if (result < 0 || serving->c.measure == MEASURE_BANDWIDTH)
    return result;
  snprintf(control, sizeof control, "%s:%u", serving->link->remote, serving->c.back_port);
  result = bench_session_open(side, &serving->c, PST_SESSION_SENDER, true, false, control, insecure,
                              &serving->back, error);
  return result == 0 ? bench_session_start(serving->back, serving->cpu, error) : result;
}

/* *port: where the client is to connect; 0: any. */
static int open_case(struct serving *serving, uint16_t *port, struct pst_error *error)
{
  char listen[96];

  if (!bench_is_one_sided(serving->c.op)) {
    if (*port == 0)
      *port = link_free_port(serving->link->local);
    return open_streams(serving, *port, error);
  }
  snprintf(listen, sizeof listen, "%s:%u", serving->link->local, *port);
  int result =
      region_end_open(serving->plan, &serving->c, listen, serving->cpu, &serving->target, error);
  if (result < 0)
    return result;
  *port = pst_node_port(serving->target.node);
  return bench_prepare(&serving->target, &serving->c, error);
}

static void close_case(struct serving *serving)
{
  pst_session_close(serving->in);
  pst_session_close(serving->back);
  region_end_close(&serving->target);
  serving->in = serving->back = NULL;
}

/* Returns why it failed in `text`, where somebody said. */
static int measure_messages(struct serving *serving, struct measure_watch *watch,
                            struct measure_taken *taken, struct bench_path *path, char *text,
                            size_t size)
{
  struct pst_stats stats = {.struct_size = sizeof stats};
  char name[64];
  int result;

  bench_stream_name(&serving->c, false, name, sizeof name);
  struct pst_receiver *receiver = pst_session_receiver(serving->in, name);
  bench_stream_name(&serving->c, true, name, sizeof name);
  if (serving->back == NULL)
    result = measure_sink(receiver, &serving->c, watch, taken);
  else
    result =
        measure_pong(receiver, pst_session_sender(serving->back, name), &serving->c, watch, taken);
  pst_receiver_stats(receiver, &stats);
  bench_path_of(&stats, path);
  taken->cpu_share = statistics_cpu_share(&stats);
  snprintf(text, size, "%s", stats.error_text);
  return result;
}

static int measure_onesided(struct serving *serving, struct measure_watch *watch,
                            struct measure_taken *taken, struct bench_path *path, char *text,
                            size_t size)
{
  struct region_end *target = &serving->target;
  int result = onesided_offer(target, &serving->c, watch, taken);

  *path = target->path;
  taken->cpu_share = region_end_cpu_share(target);
  snprintf(text, size, "%s", target->text);
  if (result < 0 && text[0] != '\0')
    notice(PST_LOG_WARN, "bench: %s", text);
  return result;
}

static int measure(struct serving *serving)
{
  struct measure_watch watch = {.link = serving->link, .serves = true};
  struct measure_taken taken = {0};
  struct bench_path path = {0};
  char text[512] = "";

  int result = bench_is_one_sided(serving->c.op)
                   ? measure_onesided(serving, &watch, &taken, &path, text, sizeof text)
                   : measure_messages(serving, &watch, &taken, &path, text, sizeof text);
  struct json_object *object = json_object_new_object();
  json_object_object_add(object, "result", bench_taken_write(&taken, &path));
  if (result < 0)
    json_object_object_add(object, "error",
                           json_object_new_string(text[0] != '\0' ? text : strerror(-result)));
  /* Before the client may go on, the case's port is free again. */
  close_case(serving);
  return answer(serving->link, object);
}

static int serve_case(struct serving *serving, struct json_object *said, uint16_t port)
{
  struct pst_error error = PST_ERROR_INIT;
  struct json_object *asked = NULL;
  char why[256];

  json_object_object_get_ex(said, "case", &asked);
  if (bench_case_read(asked, &serving->c, why, sizeof why) < 0) {
    notice(PST_LOG_WARN, "bench: %s asks for what cannot be: %s", serving->link->peer, why);
    return answer_error(serving->link, PST_EXIT_FAILED, why);
  }
  int result = open_case(serving, &port, &error);
  if (result < 0) {
    result = answer_error(serving->link, error.exit_status, error.text);
  } else {
    struct json_object *ready = json_object_new_object();
    json_object_object_add(ready, "port", json_object_new_int(port));
    result = answer(serving->link, ready);
    if (result == 0)
      result = measure(serving);
  }
  close_case(serving);
  return result;
}

int bench_serve(struct link *link, const struct bench_plan *plan, const char *token, uint16_t port,
                int cpu)
{
  struct serving serving = {.link = link, .plan = plan, .cpu = cpu};
  struct json_object *said = NULL;
  int result = greet_client(link, plan, token);
  bool ends = false;

  link->has_greeted = result == 0;
  while (result == 0 && !ends) {
    result = link_receive(link, IDLE_NS, true, &said);
    if (result < 0)
      break;
    ends = json_object_object_get_ex(said, "goodbye", NULL);
    link->has_asked |= !ends;
    if (!ends)
      result = serve_case(&serving, said, port);
    json_object_put(said);
  }
  return result;
}

static const char *why_left(const struct link *link, int result)
{
  /* Any other end of a client that has greeted is said with a goodbye. */
  if (result == -ECONNRESET && link->has_greeted)
    return "has gone without a goodbye: it was killed or crashed";
  switch (result) {
  case 0:
    return "has left";
  case -EINTR:
    return "is left";
  case -ETIMEDOUT:
    return "is dropped: it was silent for too long";
  case -EPROTO:
    return "is dropped: it does not speak the protocol, or another version of it";
  case -EXDEV:
    return "is sent away: it has another --transport than this server; give both the same";
  default:
    return "has died or left before it greeted";
  }
}

/* Of "host:port", "[v6]:port" or a host alone. */
static int host_length(const char *where)
{
  const char *end = strchr(where, ']'), *colon = strchr(where, ':');

  if (end != NULL)
    return (int)(end + 1 - where);
  return (int)(colon != NULL && strchr(colon + 1, ':') == NULL ? (size_t)(colon - where)
                                                               : strlen(where));
}

int bench_server(const struct bench_plan *plan)
{
  struct pst_error error = PST_ERROR_INIT;
  struct link_server server;
  const char *where = plan->host != NULL ? plan->host : "127.0.0.1";
  int result = link_listen(where, BENCH_PORT, plan->insecure, plan->cpus[0], &server, &error);
  bool served = false;

  if (result < 0)
    return error.exit_status;
  uint16_t port = server.port;
  uint16_t streams_port = (uint16_t)(port < UINT16_MAX ? port + 1 : port - 1);
  notice(PST_LOG_INFO,
         "bench: serving transport %s, memory %s at %.*s, port %u, and its streams at port %u; ^C "
         "ends",
         plan->side.transport, plan->side.memory, host_length(where), where, port, streams_port);
  if (plan->insecure)
    notice(PST_LOG_INFO, "bench: --insecure, so whoever reaches its ports can join or disturb "
                         "the run; nothing on them is authenticated or encrypted");
  while (!signals_stop() && !(plan->once && served)) {
    struct link *link;
    if (link_take(&server, LOOK_NS, &link) < 0)
      continue;
    notice(PST_LOG_INFO, "bench: client %s", link->peer);
    result = bench_serve(link, plan, NULL, streams_port, plan->cpus[0]);
    char pid[32] = "";
    if (link->pid > 0)
      snprintf(pid, sizeof pid, " (pid %" PRId64 ")", link->pid);
    notice(PST_LOG_INFO, "bench: client %s%s %s", link->peer, pid, why_left(link, result));
    served = link->has_asked;
    link_close(link);
  }
  link_unlisten(&server);
  return PST_EXIT_OK;
}
