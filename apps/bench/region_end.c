/* SPDX-License-Identifier: Apache-2.0 */
#include "region_end.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "ends.h"
#include "measure.h"
#include "notice.h"
#include "settings.h"
#include "statistics.h"

#define MESSAGES 8
#define MESSAGE_MAX 512
#define GUESTS 4 /* a target's peers: those that have not shown the token included */
#define TURN_EVENTS 8
#define TURN_NS (10 * NS_PER_MS)
#define NESTING_MAX 4

/* ---- Opening ---------------------------------------------------------------------- */

static int open_node(const struct bench_plan *plan, const struct bench_case *c, const char *listen,
                     struct region_end *end, struct pst_error *error)
{
  const struct bench_side *side = &plan->side;
  const struct pst_origins origins = {.struct_size = sizeof origins,
                                      .stream = "bench",
                                      .transport_option = settings_origins.transport_option,
                                      .memory_option = settings_origins.memory_option,
                                      .insecure = "--insecure"};
  const struct pst_node_params node = {.struct_size = sizeof node,
                                       .insecure = plan->insecure,
                                       .listen = listen,
                                       .transport = side->transport,
                                       .transport_options = side->transport_options,
                                       .transport_option_count = side->transport_option_count,
                                       .peers = end->is_target ? GUESTS : 1,
                                       .messages = MESSAGES,
                                       .message_max = MESSAGE_MAX,
                                       .depth = end->is_target ? 1 : c->ring + 1,
                                       .pieces = 1,
                                       .offers = 1,
                                       .in_process = plan->in_process,
                                       .connect_timeout_ns = MEASURE_CONNECT_NS,
                                       .origins = &origins};
  const struct pst_area_params area = {.struct_size = sizeof area,
                                       .memory = side->memory,
                                       .memory_options = side->memory_options,
                                       .memory_option_count = side->memory_option_count,
                                       .length = bench_places(c) * bench_stride(c),
                                       .label = "bench",
                                       .lower = "`--size`, `--depth` or `--places`",
                                       .access = end->access};
  int result = pst_node_open(&node, &end->node, error);

  return result < 0 ? result : pst_node_alloc(end->node, &area, &end->area, error);
}

int region_end_open(const struct bench_plan *plan, const struct bench_case *c, const char *listen,
                    int cpu, struct region_end *end, struct pst_error *error)
{
  cpu_set_t pinned;

  *end = (struct region_end){.is_target = listen != NULL};
  if (end->is_target)
    end->access =
        c->op == BENCH_WRITE ? (uint32_t)PST_ACCESS_REMOTE_WRITE : (uint32_t)PST_ACCESS_REMOTE_READ;
  memcpy(end->token, c->token, sizeof end->token);
  bench_unpin(cpu, &pinned);
  int result = open_node(plan, c, listen, end, error);
  bench_repin(cpu, &pinned);
  return result;
}

void region_end_close(struct region_end *end)
{
  pst_node_close(end->node);
  json_object_put(end->said);
  end->said = NULL;
  end->node = NULL;
  end->area = NULL;
  end->peer = NULL;
}

int region_end_connect(struct region_end *end, const char *address, struct pst_error *error)
{
  return pst_node_connect(end->node, address, &end->peer, error);
}

/* ---- CPU and verdict -------------------------------------------------------------- */

static uint64_t read_wait_ns(void)
{
  unsigned long long ran, waited;
  char text[96];
  int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

  if (fd >= 0)
    close(fd);
  if (got <= 0)
    return UINT64_MAX;
  text[got] = '\0';
  return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : UINT64_MAX;
}

static uint64_t ns_of(const struct timeval *time)
{
  return (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_usec * 1000;
}

static void take_usage(struct region_usage *usage)
{
  struct rusage used;

  if (getrusage(RUSAGE_THREAD, &used) == 0)
    *usage = (struct region_usage){.at = now_ns(),
                                   .cpu = ns_of(&used.ru_utime) + ns_of(&used.ru_stime),
                                   .wait = read_wait_ns()};
}

void region_end_stop(struct region_end *end)
{
  if (end->first.at == 0 || end->last.at != 0)
    return;
  take_usage(&end->last);
  if (end->blocked_since_ns != 0)
    end->blocked_ns += end->last.at - end->blocked_since_ns;
  end->blocked_since_ns = 0;
}

static struct pst_stats stats_of(const struct region_end *end)
{
  const struct region_usage *first = &end->first, *last = &end->last;
  struct pst_stats stats = {.struct_size = sizeof stats, .cpu_wait_ns = UINT64_MAX};

  if (first->at == 0 || last->at <= first->at)
    return stats;
  stats.started_ns = first->at;
  stats.ended_ns = last->at;
  stats.blocked_ns[PST_STAGE_TRANSPORT] = end->blocked_ns;
  stats.cpu_span_ns = last->at - first->at;
  stats.cpu_ns = last->cpu - first->cpu;
  if (first->wait != UINT64_MAX && last->wait != UINT64_MAX)
    stats.cpu_wait_ns = last->wait - first->wait;
  return stats;
}

double region_end_cpu_share(const struct region_end *end)
{
  const struct pst_stats stats = stats_of(end);

  return statistics_cpu_share(&stats);
}

int region_end_verdict(const struct region_end *end, double *share)
{
  const struct pst_stats stats = stats_of(end);

  return pst_verdict(&stats, NULL, share);
}

/* ---- Events ----------------------------------------------------------------------- */

static void take_path(struct region_end *end)
{
  struct pst_path_info path = {.struct_size = sizeof path}, own = path;

  if (pst_peer_path(end->peer, &path) < 0)
    return;
  pst_area_path(end->area, &own);
  /* Where bytes arrive that are written, its registration says how; where they arrive that are
   * read, the endpoint does, which knows where from. */
  bench_path_make(&path, end->is_target && own.via[0] != '\0' ? own.via : path.via,
                  pst_area_backing(end->area), &end->path);
}

static void meet(struct region_end *end)
{
  end->is_met = true;
  take_path(end);
  take_usage(&end->first);
}

int region_end_say(struct region_end *end, struct json_object *object)
{
  const char *text =
      object != NULL ? json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN) : NULL;
  int result = text == NULL        ? -ENOMEM
               : end->peer == NULL ? -ENOTCONN
                                   : pst_peer_send(end->peer, text, strlen(text));

  json_object_put(object);
  return result;
}

static void show_token(struct region_end *end)
{
  struct json_object *token = json_object_new_object();

  json_object_object_add(token, "token", json_object_new_string(end->token));
  int result = region_end_say(end, token);
  if (result < 0)
    pst_peer_close(end->peer, result, "the case's token could not be sent");
}

/* NULL: it is no object. */
static struct json_object *parse(const struct pst_node_event *event)
{
  struct json_tokener *tokener = json_tokener_new_ex(NESTING_MAX);
  struct json_object *said = NULL;

  if (tokener == NULL)
    return NULL;
  said = json_tokener_parse_ex(tokener, event->bytes, (int)event->length);
  json_tokener_free(tokener);
  if (json_object_is_type(said, json_type_object))
    return said;
  json_object_put(said);
  return NULL;
}

static void offer(struct region_end *end)
{
  struct pst_range range = {.struct_size = sizeof range};
  uint32_t id;

  pst_area_range(end->area, &range);
  int result = pst_peer_offer(end->peer, end->area, 0, range.length, end->access, &id);
  if (result < 0)
    pst_peer_close(end->peer, result, "its region cannot be offered");
  else
    meet(end);
}

static void take_token(struct region_end *end, struct pst_peer *peer, struct json_object *said)
{
  struct json_object *token = NULL;

  if (end->is_met || !json_object_object_get_ex(said, "token", &token) ||
      !json_object_is_type(token, json_type_string) ||
      strcmp(json_object_get_string(token), end->token) != 0) {
    pst_peer_close(peer, -EACCES, "this region is for another client");
    return;
  }
  end->peer = peer;
  offer(end);
}

static void take_message(struct region_end *end, const struct pst_node_event *event)
{
  struct json_object *said = parse(event), *done = NULL;

  if (said == NULL) {
    pst_peer_close(event->peer, -EPROTO, "a message that is no object");
  } else if (end->is_target && event->peer != end->peer) {
    take_token(end, event->peer, said);
  } else if (end->is_target && json_object_object_get_ex(said, "done", &done)) {
    end->told = json_object_get_uint64(done);
    end->is_told = true;
  } else if (end->said != NULL) {
    pst_peer_close(event->peer, -EPROTO, "a message before the one before was answered");
  } else {
    end->said = said;
    return;
  }
  json_object_put(said);
}

static void leave(struct region_end *end, int code, const char *text)
{
  region_end_stop(end);
  end->has_left = true;
  end->peer = NULL;
  end->region = 0;
  end->code = code;
  snprintf(end->text, sizeof end->text, "%s", text);
}

void region_end_take(struct region_end *end, const struct pst_node_event *event)
{
  switch (event->kind) {
  case PST_NODE_JOINED:
    if (!end->is_target)
      show_token(end);
    break;
  case PST_NODE_OFFERED:
    end->region = event->id;
    meet(end);
    break;
  case PST_NODE_TAKEN:
    if (event->status < 0)
      pst_peer_close(event->peer, event->status, event->text);
    break;
  case PST_NODE_MESSAGE:
    take_message(end, event);
    break;
  case PST_NODE_LEFT:
    if (event->peer == end->peer)
      leave(end, event->status, event->text);
    break;
  default:
    break;
  }
}

int region_end_turn(struct region_end *end)
{
  struct pst_node_event events[TURN_EVENTS];
  int got = pst_node_poll(end->node, events, TURN_EVENTS);

  for (int i = 0; i < got; i++)
    region_end_take(end, &events[i]);
  if (got == 0) {
    uint64_t until_ns = now_ns() + TURN_NS;
    pst_node_wait(end->node, &until_ns);
  }
  return got < 0 ? got : 0;
}
