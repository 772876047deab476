/* SPDX-License-Identifier: Apache-2.0 */
/* That WRITEs and READs of `penstock bench --verify` are compared where they went: each
 * loop, and at its other end one that does not do what it says. */
#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "bench/ends.h"
#include "bench/onesided.h"
#include "support.h"

#define SIZE 5000u
#define DEADLINE_S 20

struct pair {
  struct bench_case c;
  struct pst_session *session;
  struct pst_initiator *initiator;
  struct pst_target *target;
  struct link turns[2]; /* initiator's, target's */
  struct measure_taken offered;
  int offer_result;
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
  const struct bench_side side = {.transport = "loopback", .memory = "host"};
  struct pst_error error = PST_ERROR_INIT;
  char name[64];
  int ends[2];

  *pair = (struct pair){.c = {.op = op,
                              .measure = measure,
                              .size = SIZE,
                              .ring = depth,
                              .duration_ns = 1000000,
                              .verify = true,
                              .token = "a"}};
  if (bench_session_open(&side, &pair->c, PST_SESSION_SENDER | PST_SESSION_RECEIVER, false, false,
                         NULL, false, &pair->session, &error) < 0)
    fail_msg("%s", error.text);
  bench_stream_name(&pair->c, false, name, sizeof name);
  pair->initiator = pst_session_initiator(pair->session, name);
  pair->target = pst_session_target(pair->session, name);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  assert_int_equal(link_pair(ends[0], 0, &pair->turns[0]), 0);
  assert_int_equal(link_pair(ends[1], 0, &pair->turns[1]), 0);
}

static void *offer(void *arg)
{
  struct pair *pair = arg;
  struct measure_watch watch = {.serves = true};

  pair->offer_result = onesided_offer(pair->session, pair->target, &pair->c, &watch,
                                      &pair->turns[1], &pair->offered);
  return NULL;
}

static void start_pair(struct pair *pair)
{
  struct pst_error error = PST_ERROR_INIT;

  assert_int_equal(pst_session_start(pair->session, &error), 0);
  assert_int_equal(pthread_create(&pair->thread, NULL, offer, pair), 0);
}

static void close_pair(struct pair *pair)
{
  pst_session_close(pair->session);
  link_close(&pair->turns[0]);
  link_close(&pair->turns[1]);
}

/* ---- As the bench does it ----------------------------------------------------------- */

static void both_ends(enum bench_op op, enum bench_measure measure, uint32_t depth)
{
  static struct histogram times;
  struct measure_watch watch = {.link = NULL};
  struct measure_taken taken = {0};
  struct pair pair;

  memset(&times, 0, sizeof times);
  open_pair(&pair, op, measure, depth);
  assert_int_equal(onesided_prepare(pair.target, &pair.c), 0);
  start_pair(&pair);
  assert_int_equal(
      onesided_initiate(pair.initiator, &pair.c, &watch, &pair.turns[0], &times, &taken), 0);
  pthread_join(pair.thread, NULL);
  assert_int_equal(pair.offer_result, 0);
  assert_true(taken.messages >= depth);
  assert_int_equal(taken.verified + pair.offered.verified, taken.messages);
  assert_int_equal(taken.corrupted + pair.offered.corrupted, 0);
  assert_int_equal(op == BENCH_WRITE ? taken.verified : pair.offered.verified, 0);
  if (measure == MEASURE_LATENCY)
    assert_int_equal(times.count, taken.messages);
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
  struct measure_watch watch = {.link = NULL};
  struct measure_taken taken = {0};
  struct pair pair;

  (void)state;
  open_pair(&pair, BENCH_READ, MEASURE_BANDWIDTH, 4);
  assert_int_equal(onesided_prepare(pair.target, &pair.c), 0);
  /* One byte of four places. */
  struct pst_range range = {.struct_size = sizeof range};
  assert_int_equal(pst_target_range(pair.target, &range), 0);
  ((unsigned char *)range.host)[2 * bench_stride(&pair.c) + SIZE - 1] ^= 1;
  start_pair(&pair);
  assert_int_equal(
      onesided_initiate(pair.initiator, &pair.c, &watch, &pair.turns[0], &times, &taken), 0);
  pthread_join(pair.thread, NULL);
  assert_true(taken.corrupted > 0);
  assert_int_equal(taken.verified, 4 * taken.corrupted);
  close_pair(&pair);
}

/* Write place 0 as pattern 9, by hand. */
static void write_by_hand(struct pst_initiator *initiator)
{
  const struct pst_transfer transfers[2] = {{.op = PST_OP_WRITE, .length = SIZE},
                                            {.op = PST_OP_FLUSH}};
  struct pst_transfer_done done[2];
  time_t until = now_s() + DEADLINE_S;
  int posted = 0, ended = 0;

  assert_int_equal(pst_initiator_fill(initiator, 0, SIZE, 9), 0);
  while (ended < 2) {
    int got =
        posted < 2 ? pst_initiator_post(initiator, transfers + posted, 2 - (uint32_t)posted) : 0;
    assert_true(got >= 0);
    posted += got;
    got = pst_initiator_poll(initiator, done, 2);
    assert_true(got >= 0);
    ended += got;
    assert_true(now_s() < until);
    sched_yield();
  }
}

static void ask(struct link *turns, const char *text)
{
  assert_int_equal(link_send(turns, json_tokener_parse(text)), 0);
}

static void a_write_of_other_bytes_is_corrupted(void **state)
{
  struct json_object *said = NULL;
  struct pair pair;

  (void)state;
  open_pair(&pair, BENCH_WRITE, MEASURE_BANDWIDTH, 4);
  start_pair(&pair);
  write_by_hand(pair.initiator);
  for (int pattern = 9; pattern <= 10; pattern++) {
    ask(&pair.turns[0],
        pattern == 9 ? "{\"check\": 1, \"pattern\": 9}" : "{\"check\": 1, \"pattern\": 10}");
    assert_int_equal(link_receive(&pair.turns[0], 20000000000u, false, &said), 0);
    assert_true(json_object_object_get_ex(said, "checked", NULL));
    json_object_put(said);
  }
  assert_int_equal(pst_initiator_finish(pair.initiator), 0);
  while (pst_initiator_state(pair.initiator) < PST_STATE_ENDED)
    assert_true(pst_initiator_poll(pair.initiator, NULL, 0) >= 0);
  pthread_join(pair.thread, NULL);
  assert_int_equal(pair.offer_result, 0);
  assert_int_equal(pair.offered.verified, 2);
  assert_int_equal(pair.offered.corrupted, 1);
  assert_int_equal(pair.offered.delivered, 2); /* the FLUSH too */
  close_pair(&pair);
}

static void a_target_checks_no_more_than_it_has(void **state)
{
  static const char *const refused[] = {"{\"check\": 5, \"pattern\": 0}",
                                        "{\"check\": 0, \"pattern\": 0}", "{}",
                                        "{\"check\": 1, \"pattern\": 18446744073709551615}"};

  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    struct pair pair;
    open_pair(&pair, BENCH_WRITE, MEASURE_BANDWIDTH, 4);
    start_pair(&pair);
    ask(&pair.turns[0], refused[i]);
    pthread_join(pair.thread, NULL);
    assert_int_equal(pair.offer_result, -EPROTO);
    assert_int_equal(pair.offered.verified, 0);
    close_pair(&pair);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_transfer_is_compared),
      cmocka_unit_test(a_read_of_other_bytes_is_corrupted),
      cmocka_unit_test(a_write_of_other_bytes_is_corrupted),
      cmocka_unit_test(a_target_checks_no_more_than_it_has),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
