/* SPDX-License-Identifier: Apache-2.0 */
/* That WRITEs and READs of `penstock bench --verify` are compared where they went: each
 * loop, and at its other end one that does not do what it says. */
#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/measure.h"
#include "bench/region_end.h"
#include "bench/sessions.h"
#include "support.h"

#define SIZE 5000u
#define DEADLINE_S 20

struct pair {
  struct bench_case c;
  struct region_end initiator, target;
  struct measure offer;
  pthread_t thread;
};

static time_t now_s(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

static void open_pair(struct pair *pair, enum bench_op op, enum bench_measure measure,
                      uint32_t depth)
{
  const struct bench_plan plan = {
      .side = {.transport = "loopback", .memory = "host"}, .cpus = {-1, -1}, .in_process = true};
  struct pst_error error = PST_ERROR_INIT;

  *pair = (struct pair){.c = {.op = op,
                              .measure = measure,
                              .size = SIZE,
                              .ring = depth,
                              .duration_ns = 1000000,
                              .verify = true,
                              .token = "a"}};
  if (bench_region_end_open(&plan, &pair->c, "127.0.0.1:0", -1, &pair->target, &error) < 0 ||
      bench_region_end_connect(&plan, &pair->c, "127.0.0.1", pst_node_port(pair->target.node),
                               &pair->initiator, &error) < 0)
    fail_msg("%s", error.text);
}

static void *offer(void *arg)
{
  struct pair *pair = arg;

  pair->offer = (struct measure){.c = &pair->c, .region = &pair->target, .serves = true};
  bench_measure_run(&pair->offer);
  return NULL;
}

static void start_pair(struct pair *pair)
{
  assert_int_equal(pthread_create(&pair->thread, NULL, offer, pair), 0);
}

static void close_pair(struct pair *pair)
{
  bench_region_end_close(&pair->initiator);
  bench_region_end_close(&pair->target);
}

/* ---- As the bench does it ----------------------------------------------------------- */

static void both_ends(enum bench_op op, enum bench_measure measure, uint32_t depth)
{
  static struct histogram times;
  struct pair pair;
  struct measure m = {.c = &pair.c, .region = &pair.initiator, .times = &times};

  memset(&times, 0, sizeof(times));
  open_pair(&pair, op, measure, depth);
  assert_int_equal(bench_onesided_prepare(&pair.target, &pair.c, NULL), 0);
  start_pair(&pair);
  bench_measure_run(&m);
  assert_int_equal(m.result, 0);
  pthread_join(pair.thread, NULL);
  assert_int_equal(pair.offer.result, 0);
  assert_true(m.taken.messages >= depth);
  assert_int_equal(m.taken.verified + pair.offer.taken.verified, m.taken.messages);
  assert_int_equal(m.taken.corrupted + pair.offer.taken.corrupted, 0);
  assert_int_equal(op == BENCH_WRITE ? m.taken.verified : pair.offer.taken.verified, 0);
  if (measure == MEASURE_LATENCY)
    assert_int_equal(times.count, m.taken.messages);
  close_pair(&pair);
}

static void each_transfer_is_compared(void **state)
{
  (void)state;
  for (enum bench_op op = BENCH_WRITE; op <= BENCH_READ; op = (enum bench_op)(op + 1)) {
    both_ends(op, MEASURE_BANDWIDTH, 1);
    both_ends(op, MEASURE_BANDWIDTH, 200); /* more than go into one call */
    both_ends(op, MEASURE_LATENCY, 1);
  }
}

/* ---- Wrong bytes ----------------------------------------------------------------------- */

static void a_read_of_other_bytes_is_corrupted(void **state)
{
  static struct histogram times;
  struct pair pair;
  struct measure m = {.c = &pair.c, .region = &pair.initiator, .times = &times};

  (void)state;
  open_pair(&pair, BENCH_READ, MEASURE_BANDWIDTH, 4);
  assert_int_equal(bench_onesided_prepare(&pair.target, &pair.c, NULL), 0);
  /* One byte of four places. */
  struct pst_range range = {.struct_size = sizeof(range)};
  assert_int_equal(pst_area_range(pair.target.area, &range), 0);
  ((unsigned char *)range.host)[2 * bench_stride(&pair.c) + SIZE - 1] ^= 1;
  start_pair(&pair);
  bench_measure_run(&m);
  assert_int_equal(m.result, 0);
  pthread_join(pair.thread, NULL);
  assert_true(m.taken.corrupted > 0);
  assert_int_equal(m.taken.verified, 4 * m.taken.corrupted);
  close_pair(&pair);
}

static void turn(struct region_end *end)
{
  struct pst_node_event event;

  if (pst_node_poll(end->node, &event, 1) == 1)
    bench_region_end_take(end, &event);
}

/* Until `done` is so; DONEs are counted. */
#define TURN_UNTIL(end, ended, done)                                                               \
  do {                                                                                             \
    struct pst_node_event event;                                                                   \
    time_t until = now_s() + DEADLINE_S;                                                           \
    while (!(done)) {                                                                              \
      int got = pst_node_poll((end)->node, &event, 1);                                             \
      assert_true(got >= 0);                                                                       \
      if (got == 1 && event.kind == PST_NODE_DONE) {                                               \
        assert_int_equal(event.status, 0);                                                         \
        (ended)++;                                                                                 \
      } else if (got == 1) {                                                                       \
        bench_region_end_take(end, &event);                                                        \
      }                                                                                            \
      assert_true(now_s() < until);                                                                \
      sched_yield();                                                                               \
    }                                                                                              \
  } while (0)

/* Write place 0 as pattern 9, by hand. */
static void write_by_hand(struct region_end *initiator)
{
  int ended = 0;

  TURN_UNTIL(initiator, ended, initiator->is_met);
  const struct pst_operation operations[2] = {
      {.op = PST_OP_WRITE, .id = initiator->region, .area = initiator->area, .length = SIZE},
      {.op = PST_OP_FLUSH}};
  assert_int_equal(pst_area_fill(initiator->area, 0, SIZE, 9), 0);
  assert_int_equal(pst_peer_post(initiator->peer, operations, 2), 2);
  TURN_UNTIL(initiator, ended, ended == 2);
}

static void say(struct region_end *end, const char *text)
{
  assert_int_equal(bench_region_end_say(end, json_tokener_parse(text)), 0);
}

static void a_write_of_other_bytes_is_corrupted(void **state)
{
  struct pair pair;
  int ended = 0;

  (void)state;
  open_pair(&pair, BENCH_WRITE, MEASURE_BANDWIDTH, 4);
  start_pair(&pair);
  write_by_hand(&pair.initiator);
  for (int pattern = 9; pattern <= 10; pattern++) {
    say(&pair.initiator,
        pattern == 9 ? "{\"check\": 1, \"pattern\": 9}" : "{\"check\": 1, \"pattern\": 10}");
    TURN_UNTIL(&pair.initiator, ended, pair.initiator.said != NULL);
    assert_true(json_object_object_get_ex(pair.initiator.said, "checked", NULL));
    json_object_put(pair.initiator.said);
    pair.initiator.said = NULL;
  }
  say(&pair.initiator, "{\"done\": 2}"); /* the FLUSH too */
  pst_peer_close(pair.initiator.peer, 0, NULL);
  TURN_UNTIL(&pair.initiator, ended, pair.initiator.has_left);
  pthread_join(pair.thread, NULL);
  assert_int_equal(pair.offer.result, 0);
  assert_int_equal(pair.offer.taken.verified, 2);
  assert_int_equal(pair.offer.taken.corrupted, 1);
  assert_int_equal(pair.offer.taken.delivered, 2);
  close_pair(&pair);
}

static void a_target_checks_no_more_than_it_has(void **state)
{
  static const char *const refused[] = {"{\"check\": 5, \"pattern\": 0}",
                                        "{\"check\": 0, \"pattern\": 0}", "{}",
                                        "{\"check\": 1, \"pattern\": 18446744073709551615}"};

  (void)state;
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
    struct pair pair;
    int ended = 0;
    open_pair(&pair, BENCH_WRITE, MEASURE_BANDWIDTH, 4);
    start_pair(&pair);
    TURN_UNTIL(&pair.initiator, ended, pair.initiator.is_met);
    say(&pair.initiator, refused[i]);
    pthread_join(pair.thread, NULL);
    /* The target's transport says goodbye as its node is polled, and by that ends the wait for it.
     */
    TURN_UNTIL(&pair.initiator, ended, (turn(&pair.target), pair.initiator.has_left));
    assert_int_equal(pair.initiator.code, -EPROTO);
    assert_int_equal(pair.offer.result, -EPROTO);
    assert_int_equal(pair.offer.taken.verified, 0);
    close_pair(&pair);
  }
}

/* A stranger that finds the port of a case does not get the region. */
static void a_region_is_for_the_holder_of_the_token(void **state)
{
  static const char *const tokens[] = {"b", "", "aa"};
  struct pair pair;
  int ended = 0;

  (void)state;
  open_pair(&pair, BENCH_WRITE, MEASURE_BANDWIDTH, 4);
  start_pair(&pair);
  for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
    const struct bench_plan plan = {
        .side = {.transport = "loopback", .memory = "host"}, .cpus = {-1, -1}, .in_process = true};
    struct pst_error error = PST_ERROR_INIT;
    struct region_end stranger;
    struct bench_case c = pair.c;
    snprintf(c.token, sizeof(c.token), "%s", tokens[i]);
    assert_int_equal(bench_region_end_connect(&plan, &c, "127.0.0.1",
                                              pst_node_port(pair.target.node), &stranger, &error),
                     0);
    TURN_UNTIL(&stranger, ended, stranger.has_left);
    assert_int_equal(stranger.code, -EACCES);
    assert_false(stranger.is_met);
    bench_region_end_close(&stranger);
  }
  /* The case goes on. */
  write_by_hand(&pair.initiator);
  say(&pair.initiator, "{\"done\": 2}");
  pst_peer_close(pair.initiator.peer, 0, NULL);
  TURN_UNTIL(&pair.initiator, ended, pair.initiator.has_left);
  pthread_join(pair.thread, NULL);
  assert_int_equal(pair.offer.result, 0);
  close_pair(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_transfer_is_compared),
      cmocka_unit_test(a_read_of_other_bytes_is_corrupted),
      cmocka_unit_test(a_write_of_other_bytes_is_corrupted),
      cmocka_unit_test(a_target_checks_no_more_than_it_has),
      cmocka_unit_test(a_region_is_for_the_holder_of_the_token),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
