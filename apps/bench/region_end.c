/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a one-sided case: its node, peer and regions. */
#include "region_end.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "measure.h"
#include "sessions.h"

#define MESSAGES 8
#define MESSAGE_MAX 512
#define GUESTS 4 /* peers of a target, with those that have not shown the token yet */
#define TURN_EVENTS 8
#define TURN_NS (10 * NS_PER_MS)

/* ---- Opening ---------------------------------------------------------------------- */

/* Opens the node and the memory that WRITE and READ use. On failure the caller closes what is
 * open. */
static int bench_region_end_open_node(const struct bench_plan *plan, const struct bench_case *c,
                                      const char *listen, struct region_end *end,
                                      struct pst_error *error)
{
  const struct bench_side *side = &plan->side;
  const struct pst_node_params node = {.struct_size = sizeof(node),
                                       .insecure = plan->access.insecure,
                                       .tls = plan->access.tls,
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
                                       .origins = &bench_origins};
  const struct pst_area_params area = {.struct_size = sizeof(area),
                                       .memory = side->memory,
                                       .memory_options = side->memory_options,
                                       .memory_option_count = side->memory_option_count,
                                       .length = bench_places(c) * bench_stride(c),
                                       .label = "bench",
                                       .lower = "`--size`, `--depth` or `--places`",
                                       .access = end->access};
  int rc = pst_node_open(&node, &end->node, error);

  return rc < 0 ? rc : pst_node_alloc(end->node, &area, &end->area, error);
}

int bench_region_end_open(const struct bench_plan *plan, const struct bench_case *c,
                          const char *listen, int cpu, struct region_end *end,
                          struct pst_error *error)
{
  cpu_set_t pinned;

  *end = (struct region_end){.is_target = listen != NULL};
  if (end->is_target)
    end->access =
        c->op == BENCH_WRITE ? (uint32_t)PST_ACCESS_REMOTE_WRITE : (uint32_t)PST_ACCESS_REMOTE_READ;
  memcpy(end->token, c->token, sizeof(end->token));
  bench_unpin(cpu, &pinned);
  int rc = bench_region_end_open_node(plan, c, listen, end, error);
  bench_repin(cpu, &pinned);
  return rc;
}

void bench_region_end_close(struct region_end *end)
{
  pst_node_close(end->node);
  json_object_put(end->said);
  end->said = NULL;
  end->node = NULL;
  end->area = NULL;
  end->peer = NULL;
}

int bench_region_end_connect(const struct bench_plan *plan, const struct bench_case *c,
                             const char *host, uint16_t port, struct region_end *end,
                             struct pst_error *error)
{
  char address[96];
  int rc = bench_region_end_open(plan, c, NULL, plan->cpus[0], end, error);

  snprintf(address, sizeof(address), "%s:%u", host, port);
  return rc < 0 ? rc : pst_node_connect(end->node, address, &end->peer, error);
}

/* ---- CPU and verdict -------------------------------------------------------------- */

void bench_region_end_stop(struct region_end *end)
{
  if (end->first.at_ns == 0 || end->last.at_ns != 0)
    return;
  usage_take(&end->last);
  if (end->blocked_since_ns != 0)
    end->blocked_ns += end->last.at_ns - end->blocked_since_ns;
  end->blocked_since_ns = 0;
}

struct pst_stats bench_region_end_stats(const struct region_end *end)
{
  struct usage used;

  usage_between(&end->first, &end->last, &used);
  struct pst_stats stats = {.struct_size = sizeof(stats),
                            .cpu_span_ns = used.at_ns,
                            .cpu_ns = used.cpu_ns,
                            .cpu_wait_ns = used.wait_ns,
                            .error = end->code};
  snprintf(stats.error_text, sizeof(stats.error_text), "%s", end->text);
  if (used.at_ns == 0)
    return stats;
  stats.started_ns = end->first.at_ns;
  stats.ended_ns = end->last.at_ns;
  stats.blocked_ns[PST_STAGE_TRANSPORT] = end->blocked_ns;
  return stats;
}

/* ---- Events ----------------------------------------------------------------------- */

static void bench_region_end_take_path(struct region_end *end)
{
  struct pst_path_info path = {.struct_size = sizeof(path)}, own = path;

  if (pst_peer_path(end->peer, &path) < 0)
    return;
  pst_area_path(end->area, &own);
  /* For WRITEs the registration says how bytes arrive. For READs the endpoint does, which knows
   * where they come from. */
  bench_path_make(&path, end->is_target && own.via[0] != '\0' ? own.via : path.via,
                  pst_area_backing(end->area), &end->path);
}

static void bench_region_end_meet(struct region_end *end)
{
  end->is_met = true;
  bench_region_end_take_path(end);
  usage_take(&end->first);
}

int bench_region_end_say(struct region_end *end, struct json_object *object)
{
  int rc = bench_link_post(end->peer, object);

  json_object_put(object);
  return rc;
}

static void bench_region_end_show_token(struct region_end *end)
{
  int rc =
      bench_region_end_say(end, bench_link_object("token", json_object_new_string(end->token)));

  if (rc < 0)
    pst_peer_close(end->peer, rc, "the token of the request could not be sent");
}

static void bench_region_end_offer(struct region_end *end)
{
  struct pst_range range = {.struct_size = sizeof(range)};
  uint32_t id;

  pst_area_range(end->area, &range);
  int rc = pst_peer_offer(end->peer, end->area, 0, range.length, end->access, &id);
  if (rc < 0)
    pst_peer_close(end->peer, rc, "its region cannot be offered");
  else
    bench_region_end_meet(end);
}

static void bench_region_end_take_token(struct region_end *end, struct pst_peer *peer,
                                        struct json_object *said)
{
  struct json_object *token = NULL;

  if (end->is_met || !json_object_object_get_ex(said, "token", &token) ||
      !json_object_is_type(token, json_type_string) ||
      strcmp(json_object_get_string(token), end->token) != 0) {
    pst_peer_close(peer, -EACCES, "this region is for another client");
    return;
  }
  end->peer = peer;
  bench_region_end_offer(end);
}

static void bench_region_end_take_message(struct region_end *end,
                                          const struct pst_node_event *event)
{
  struct json_object *said = bench_link_parse(event), *done = NULL;

  if (!said) {
    pst_peer_close(event->peer, -EPROTO, "a message that is not a JSON object");
  } else if (end->is_target && event->peer != end->peer) {
    bench_region_end_take_token(end, event->peer, said);
  } else if (end->is_target && json_object_object_get_ex(said, "done", &done)) {
    end->told = json_object_get_uint64(done);
    end->is_told = true;
  } else if (end->said) {
    pst_peer_close(event->peer, -EPROTO,
                   "a message that came before the previous one was answered");
  } else {
    end->said = said;
    return;
  }
  json_object_put(said);
}

static void bench_region_end_leave(struct region_end *end, int code, const char *text)
{
  bench_region_end_stop(end);
  end->has_left = true;
  end->peer = NULL;
  end->region = 0;
  end->code = code;
  snprintf(end->text, sizeof(end->text), "%s", text);
}

void bench_region_end_take(struct region_end *end, const struct pst_node_event *event)
{
  switch (event->kind) {
  case PST_NODE_JOINED:
    if (!end->is_target)
      bench_region_end_show_token(end);
    break;
  case PST_NODE_OFFERED:
    end->region = event->id;
    bench_region_end_meet(end);
    break;
  case PST_NODE_TAKEN:
    if (event->status < 0)
      pst_peer_close(event->peer, event->status, event->text);
    break;
  case PST_NODE_MESSAGE:
    bench_region_end_take_message(end, event);
    break;
  case PST_NODE_LEFT:
    if (event->peer == end->peer)
      bench_region_end_leave(end, event->status, event->text);
    break;
  default:
    break;
  }
}

int bench_region_end_turn(struct region_end *end)
{
  struct pst_node_event events[TURN_EVENTS];
  int got = pst_node_poll(end->node, events, TURN_EVENTS);

  for (int i = 0; i < got; i++)
    bench_region_end_take(end, &events[i]);
  if (got == 0) {
    uint64_t until_ns = app_now_ns() + TURN_NS;
    pst_node_wait(end->node, &until_ns);
  }
  return got < 0 ? got : 0;
}
