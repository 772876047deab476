/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of WRITE and READ that are measured. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "measure.h"
#include "region_end.h"

#define BATCH 64
#define LOOK_BYTES (1 << 20)     /* posted between looks at the clock, at most */
#define LOOK_ROUNDS 1024         /* and after this many rounds: reading a clock may be slow */
#define CHECK_NS (60 * NS_PER_S) /* for a target to check its region */
#define REASON_NS (3 * NS_PER_S) /* for why a transfer has failed */
#define PATTERN_MAX (1ull << 39) /* core numbers 2^24 blocks to each pattern */

/* Operations that the initiator has under way. Places are used in turn. Without --verify, a place
 * may be used again before its last transfer has ended, if there are fewer places than transfers,
 * or if transfers of other places overtook it. */
struct flight {
  struct measure *m;
  struct region_end *end;
  const struct bench_case *c;
  const unsigned char *touch; /* own region, of which what was read is touched; NULL: nothing */
  uint64_t stride;
  uint32_t places, next; /* place of the next transfer */
  uint32_t shift;        /* READ: from which place, that many after its own */
  uint32_t under_way;    /* a FLUSH included */
  uint64_t ended;        /* WRITEs and READs */
  bool flush_posted;
  struct pst_operation operations[BATCH + 1]; /* of a post: they differ in their places alone */
};

static uint8_t bench_onesided_code_of(const struct flight *flight)
{
  return flight->c->op == BENCH_WRITE ? PST_OP_WRITE : PST_OP_READ;
}

/* ---- Transfers --------------------------------------------------------------------- */

/* Makes a transfer, whose place is still missing. */
static struct pst_operation bench_onesided_transfer_of(const struct flight *flight)
{
  return (struct pst_operation){.op = bench_onesided_code_of(flight),
                                .id = flight->end->region,
                                .area = flight->end->area,
                                .length = flight->c->size};
}

static inline void bench_onesided_place_next(struct flight *flight, struct pst_operation *operation)
{
  uint32_t place = flight->next, there = place + flight->shift;

  if (there >= flight->places)
    there -= flight->places;
  flight->next = place + 1 < flight->places ? place + 1 : 0;
  operation->cookie = place;
  operation->offset = place * flight->stride;
  operation->remote_offset = there * flight->stride;
}

/* Counts the time for which the transport had no room as blocked by the transport. */
static void bench_onesided_count_blocked(struct region_end *end, bool all)
{
  const uint64_t now = app_now_ns();

  if (!all && end->blocked_since_ns == 0) {
    end->blocked_since_ns = now;
  } else if (all) {
    end->blocked_ns += now - end->blocked_since_ns;
    end->blocked_since_ns = 0;
  }
}

/* Up to n, and behind the last of them, with `flush`, a FLUSH where there is something to
 * place. Returns how many of the n were taken. */
static inline __attribute__((always_inline)) int bench_onesided_post(struct flight *flight,
                                                                     uint32_t n, bool flush)
{
  struct pst_operation *operations = flight->operations;
  uint32_t first = flight->next, k = n < BATCH ? n : BATCH, all = k;

  for (uint32_t i = 0; i < k; i++)
    bench_onesided_place_next(flight, &operations[i]);
  if (flush && k == n && flight->c->op == BENCH_WRITE)
    operations[all++] = (struct pst_operation){.op = PST_OP_FLUSH};
  int taken =
      flight->end->has_left ? -ECONNRESET : pst_peer_post(flight->end->peer, operations, all);
  if (all > k)
    operations[k] = bench_onesided_transfer_of(flight);
  if (taken < 0)
    return taken == -ENOTCONN ? -ECONNRESET : taken;
  flight->end->posted += (uint32_t)taken;
  if ((uint32_t)taken < all || flight->end->blocked_since_ns != 0)
    bench_onesided_count_blocked(flight->end, (uint32_t)taken == all);
  flight->under_way += (uint32_t)taken;
  if ((uint32_t)taken > k) {
    flight->flush_posted = true;
    return (int)k;
  }
  if ((uint32_t)taken < k)
    flight->next = (first + (uint32_t)taken) % flight->places;
  return taken;
}

/* Takes an event that is not the DONE of a transfer in order. */
static int bench_onesided_take_other(struct flight *flight, const struct pst_node_event *event)
{
  if (event->kind != PST_NODE_DONE) {
    bench_region_end_take(flight->end, event);
    return flight->end->has_left ? -ECONNRESET : 0;
  }
  flight->under_way--;
  flight->end->failed += event->status < 0;
  flight->end->done += event->status == 0; /* a FLUSH */
  return event->status;
}

static int bench_onesided_collect(struct flight *flight)
{
  struct pst_node_event events[BATCH];
  int got = pst_node_poll(flight->end->node, events, BATCH), result = 0;
  uint32_t ended = 0;

  for (int i = 0; i < got; i++) {
    const struct pst_node_event *event = &events[i];
    if (event->kind != PST_NODE_DONE || event->status < 0 || event->op == PST_OP_FLUSH) {
      int other = bench_onesided_take_other(flight, event);
      result = result < 0 ? result : other;
      continue;
    }
    ended++;
    if (flight->touch)
      (void)*(const volatile unsigned char *)(flight->touch + event->cookie * flight->stride);
  }
  flight->under_way -= ended;
  flight->ended += ended;
  flight->end->done += ended;
  return result < 0 ? result : got;
}

/* Until all that was posted has ended; of WRITEs, until they are placed. */
static int bench_onesided_settle(struct flight *flight)
{
  bool flush = flight->c->op == BENCH_WRITE;
  int rc = 0;

  for (uint32_t idle = 0; rc >= 0; idle++) {
    if (flush && !flight->flush_posted)
      rc = bench_onesided_post(flight, 0, true);
    if (rc >= 0)
      rc = bench_onesided_collect(flight);
    if (rc >= 0 && flight->under_way == 0 && (!flush || flight->flush_posted))
      break;
    if (rc >= 0 && idle % 4096 == 4095)
      rc = bench_measure_look(flight->m, app_now_ns());
  }
  flight->flush_posted = false;
  return rc;
}

/* ---- As fast as it goes ------------------------------------------------------------- */

static int bench_onesided_flow(struct flight *flight, uint64_t until_ns)
{
  const struct bench_case *c = flight->c;
  uint64_t before = flight->ended;
  int rc = 0;

  while (rc >= 0) {
    uint64_t now = app_now_ns(), bytes = 0;
    rc = bench_measure_look(flight->m, now);
    /* One at least, however long the machine was busy with others. */
    if (rc < 0 || (now >= until_ns && flight->ended > before) || flight->m->stopped)
      break;
    for (uint32_t i = 0; i < LOOK_ROUNDS && bytes < LOOK_BYTES && rc >= 0; i++) {
      if (flight->under_way < c->ring)
        rc = bench_onesided_post(flight, c->ring - flight->under_way, false);
      bytes += rc > 0 ? (uint64_t)rc * c->size : 0;
      if (rc >= 0)
        rc = bench_onesided_collect(flight);
    }
  }
  return rc < 0 ? rc : bench_onesided_settle(flight);
}

/* From nothing under way to nothing under way: all that is counted is at its place. By its name
 * tests/bench/verbs knows what to count. */
static __attribute__((noinline)) int bench_onesided_measure_flow(struct flight *flight)
{
  const struct bench_case *c = flight->c;
  int rc = c->warmup_ns > 0 ? bench_onesided_flow(flight, app_now_ns() + c->warmup_ns) : 0;
  uint64_t before = flight->ended, begin_ns = app_now_ns();

  app_log(PST_LOG_DEBUG, "bench: warmed up, the clock runs");
  if (rc >= 0 && !flight->m->stopped)
    rc = bench_onesided_flow(flight, begin_ns + c->duration_ns);
  flight->m->taken.messages = flight->ended - before;
  flight->m->taken.ns = app_now_ns() - begin_ns;
  return rc;
}

/* ---- In rounds, of which each is timed ----------------------------------------------- */

static uint64_t bench_onesided_pattern_of(const struct flight *flight, uint64_t round)
{
  return round * flight->places % PATTERN_MAX;
}

static int bench_onesided_fill(struct flight *flight, uint32_t n, uint64_t pattern)
{
  int rc = 0;

  for (uint32_t i = 0; i < n && rc == 0; i++)
    rc = pst_area_fill(flight->end->area, i * flight->stride, flight->c->size, pattern + i);
  return rc;
}

/* n transfers; *ns: from the first post until all are done, WRITEs flushed. */
static int bench_onesided_go_round(struct flight *flight, uint32_t n, uint64_t *ns)
{
  uint64_t begin_ns = app_now_ns();
  uint32_t left = n;
  int rc = 0;

  if (flight->c->verify) /* whose bytes begin at the first place */
    flight->next = 0;
  while (rc >= 0 && left > 0) {
    rc = bench_onesided_post(flight, left, true);
    if (rc > 0)
      left -= (uint32_t)rc;
    if (rc >= 0 && left > 0)
      rc = bench_onesided_collect(flight);
    if (rc == 0 && left > 0)
      rc = bench_measure_look(flight->m, app_now_ns());
  }
  if (rc >= 0)
    rc = bench_onesided_settle(flight);
  *ns = app_now_ns() - begin_ns;
  return rc;
}

static void bench_onesided_count_checked(struct measure *m, bool right)
{
  m->taken.verified++;
  m->taken.corrupted += !right;
}

/* While nothing is under way: `until_ns` is when it has to be over. */
static int bench_onesided_turn(struct measure *m, uint64_t until_ns)
{
  if (m->region->has_left)
    return -ECONNRESET;
  if (app_now_ns() >= until_ns)
    return -ETIMEDOUT;
  int rc = bench_region_end_turn(m->region);
  return rc < 0 ? rc : bench_measure_look(m, app_now_ns());
}

/* Until the peer has said something, which is the caller's then. */
static int bench_onesided_hear(struct measure *m, struct json_object **said)
{
  uint64_t until_ns = app_now_ns() + CHECK_NS;
  int rc = 0;

  while (rc >= 0 && !m->region->said)
    rc = bench_onesided_turn(m, until_ns);
  *said = m->region->said;
  m->region->said = NULL;
  return rc;
}

/* Have the target compare what was written. */
static int bench_onesided_ask(struct flight *flight, uint32_t n, uint64_t pattern)
{
  struct json_object *asked = json_object_new_object(), *said = NULL;

  json_object_object_add(asked, "check", json_object_new_uint64(n));
  json_object_object_add(asked, "pattern", json_object_new_uint64(pattern));
  int rc = bench_region_end_say(flight->end, asked);
  if (rc == 0)
    rc = bench_onesided_hear(flight->m, &said);
  bool checked = rc == 0 && json_object_object_get_ex(said, "checked", NULL);
  json_object_put(said);
  return rc == 0 && !checked ? -EPROTO : rc;
}

/* Verifies the bytes that were read. */
static int bench_onesided_check(struct flight *flight, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    uint64_t there = (i + flight->shift) % flight->places;
    int rc = pst_area_verify(flight->end->area, i * flight->stride, flight->c->size, there, NULL);
    if (rc < 0 && rc != -EBADMSG)
      return rc;
    bench_onesided_count_checked(flight->m, rc == 0);
  }
  return 0;
}

static int bench_onesided_one_round(struct flight *flight, uint64_t round, uint32_t n, uint64_t *ns)
{
  const struct bench_case *c = flight->c;
  uint64_t pattern = bench_onesided_pattern_of(flight, round);
  int rc = 0;

  if (!c->verify)
    return bench_onesided_go_round(flight, n, ns);
  /* So that what is read differs from what was there. */
  flight->shift = c->op == BENCH_READ ? (uint32_t)(round % flight->places) : 0;
  if (c->op == BENCH_WRITE)
    rc = bench_onesided_fill(flight, n, pattern);
  if (rc >= 0)
    rc = bench_onesided_go_round(flight, n, ns);
  if (rc >= 0)
    rc = c->op == BENCH_WRITE ? bench_onesided_ask(flight, n, pattern)
                              : bench_onesided_check(flight, n);
  return rc;
}

static int bench_onesided_measure_rounds(struct flight *flight)
{
  const struct bench_case *c = flight->c;
  uint32_t n = c->measure == MEASURE_LATENCY ? 1 : c->ring;
  uint64_t start_ns = app_now_ns(), now = start_ns, ns;
  int rc = 0;

  for (uint64_t round = 0; rc >= 0 && !flight->m->stopped; round++) {
    bool counts = now - start_ns >= c->warmup_ns;
    rc = bench_onesided_one_round(flight, round, n, &ns);
    now = app_now_ns();
    if (rc >= 0 && counts) {
      flight->m->taken.messages += n;
      flight->m->taken.ns += ns;
      if (c->measure == MEASURE_LATENCY)
        bench_histogram_add(flight->m->times, ns);
    }
    /* One at least, however long the machine was busy with others. */
    if (now - start_ns >= c->warmup_ns + c->duration_ns && flight->m->taken.messages > 0)
      break;
    if (rc >= 0)
      rc = bench_measure_look(flight->m, now);
  }
  return rc;
}

/* ---- The initiator -------------------------------------------------------------------- */

static int bench_onesided_await_region(struct measure *m)
{
  uint64_t until_ns = app_now_ns() + MEASURE_CONNECT_NS;
  int rc = 0;

  while (rc >= 0 && !m->region->is_met)
    rc = bench_onesided_turn(m, until_ns);
  return rc;
}

static int bench_onesided_await_leave(const struct measure *m, uint64_t timeout_ns)
{
  struct region_end *end = m->region;
  uint64_t until_ns = app_now_ns() + timeout_ns;
  int rc = 0;

  while (rc >= 0 && !end->has_left) {
    rc = bench_region_end_turn(end);
    if (rc >= 0 && !end->has_left && app_now_ns() >= until_ns)
      return -ETIMEDOUT;
    if (m->link && bench_link_look(m->link) < 0)
      return -ECONNRESET;
  }
  return rc < 0 ? rc : end->code;
}

/* The initiator says how many are done, and then leaves. */
static int bench_onesided_end_initiator(const struct measure *m)
{
  struct region_end *end = m->region;
  int rc = bench_region_end_say(end, bench_link_object("done", json_object_new_uint64(end->done)));

  if (rc < 0)
    return rc == -ENOTCONN ? -ECONNRESET : rc;
  bench_region_end_stop(end);
  pst_peer_close(end->peer, 0, NULL);
  return bench_onesided_await_leave(m, MEASURE_END_NS);
}

/* Why a peer has gone comes behind the transfers that have failed by that. */
static int bench_onesided_fail(const struct measure *m, int rc)
{
  struct region_end *end = m->region;
  bool has_gone = rc == -ECONNRESET || rc == -ETIMEDOUT || rc == -EACCES;

  bench_region_end_stop(end);
  if (has_gone && end->peer && !end->has_left)
    bench_onesided_await_leave(m, REASON_NS);
  if (end->peer && !end->has_left)
    pst_peer_close(end->peer, rc, "a transfer has failed");
  return rc == -ECONNRESET && end->has_left && end->code < 0 ? end->code : rc;
}

int bench_onesided_initiate(struct measure *m)
{
  const struct bench_case *c = m->c;
  struct pst_range range = {.struct_size = sizeof(range)};
  struct flight flight = {
      .m = m, .end = m->region, .c = c, .stride = bench_stride(c), .places = bench_places(c)};
  int rc = pst_area_range(m->region->area, &range);

  if (c->touch && c->op == BENCH_READ)
    flight.touch = range.host;
  m->taken.touched = flight.touch != NULL;
  if (rc >= 0)
    rc = bench_onesided_await_region(m);
  for (uint32_t i = 0; i <= BATCH; i++)
    flight.operations[i] = bench_onesided_transfer_of(&flight);
  if (rc >= 0 && c->measure == MEASURE_BANDWIDTH && !c->verify)
    rc = bench_onesided_measure_flow(&flight);
  else if (rc >= 0)
    rc = bench_onesided_measure_rounds(&flight);
  m->taken.bytes = m->taken.messages * c->size;
  if (rc >= 0)
    rc = bench_onesided_end_initiator(m);
  return rc < 0 ? bench_onesided_fail(m, rc) : 0;
}

/* ---- The target ------------------------------------------------------------------------- */

int bench_onesided_prepare(struct region_end *target, const struct bench_case *c,
                           struct pst_error *error)
{
  uint32_t places = c->verify && c->op == BENCH_READ ? bench_places(c) : 0;
  int rc = 0;

  for (uint32_t i = 0; i < places && rc == 0; i++)
    rc = pst_area_fill(target->area, i * bench_stride(c), c->size, i);
  if (rc < 0)
    app_log_fail(error, PST_EXIT_UNAVAILABLE, rc,
                 "bench: the target's region cannot be filled with the pattern: %s; run without "
                 "--verify",
                 strerror(-rc));
  return rc;
}

/* Compare what lies in the region, as the initiator has asked. */
static int bench_onesided_answer(struct measure *m)
{
  const struct bench_case *c = m->c;
  struct region_end *end = m->region;
  uint64_t n = bench_link_number(end->said, "check"),
           pattern = bench_link_number(end->said, "pattern");

  json_object_put(end->said);
  end->said = NULL;
  if (!c->verify || c->op != BENCH_WRITE || n == 0 || n > bench_places(c) || pattern >= PATTERN_MAX)
    return -EPROTO;
  for (uint64_t i = 0; i < n; i++) {
    int rc = pst_area_verify(end->area, i * bench_stride(c), c->size, pattern + i, NULL);
    if (rc < 0 && rc != -EBADMSG)
      return rc;
    bench_onesided_count_checked(m, rc == 0);
  }
  return bench_region_end_say(end, bench_link_object("checked", json_object_new_uint64(n)));
}

int bench_onesided_offer(struct measure *m)
{
  struct region_end *target = m->region;
  uint64_t until_ns = app_now_ns() + MEASURE_CONNECT_NS;
  int rc = 0;

  while (rc >= 0 && !target->has_left) {
    rc = bench_region_end_turn(target);
    uint64_t now = app_now_ns();
    if (rc >= 0 && target->said)
      rc = bench_onesided_answer(m);
    if (rc >= 0 && !target->has_left)
      rc = bench_measure_look(m, now);
    if (rc >= 0 && !target->is_met && now >= until_ns)
      rc = -ETIMEDOUT;
  }
  bench_region_end_stop(target);
  if (rc < 0 && target->peer)
    pst_peer_close(target->peer, rc, "the target has failed");
  m->taken.delivered = target->told;
  if (rc >= 0 && target->has_left)
    rc = target->code < 0 || target->is_told ? target->code : -ECONNRESET;
  return rc;
}
