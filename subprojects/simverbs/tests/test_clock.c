/* SPDX-License-Identifier: Apache-2.0 */
/* Timers on a manual clock: seconds pass in no time, and none that was not asked for. */
#include "rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* 4.096 us x 2^20: 4.3 s. */
enum { LONG_TIMEOUT = 20 };

typedef void *(*thread_run)(void *argument);
typedef int (*thread_create)(pthread_t *, const pthread_attr_t *, thread_run, void *);
static bool threads_are_late;

struct late_thread {
  thread_run run;
  void *argument;
};

static void *run_late(void *argument)
{
  enum { LATE_MS = 300 };
  struct late_thread late = *(struct late_thread *)argument;
  free(argument);
  poll(NULL, 0, LATE_MS);
  return late.run(late.argument);
}

/* Stands before that of the C library also for the simulated libibverbs. */
__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_run run, void *argument)
{
  thread_create create;
  *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
  if (!threads_are_late)
    return create(thread, attr, run, argument);
  struct late_thread *late = malloc(sizeof(*late));
  assert_non_null(late);
  *late = (struct late_thread){run, argument};
  return create(thread, attr, run_late, late);
}

static int clear(void **state)
{
  (void)state;
  rig_ctl("clear");
  return 0;
}

static double real_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Lets time pass in steps until there is a completion; how many it took. */
static unsigned advance_until(struct rig_end *end, const char *step, struct ibv_wc *wc)
{
  enum { MOST = 100 };
  char words[64];
  snprintf(words, sizeof(words), "advance %s", step);
  unsigned steps = 0;
  uint64_t retries = rig_counter("retries");
  while (ibv_poll_cq(end->cq, 1, wc) == 0) {
    assert_true(steps++ < MOST);
    rig_ctl(words);
    /* The next step is only for what has seen this one: a retry, or the end. */
    double patience = real_s() + 30;
    while (rig_counter("retries") == retries && real_s() < patience) {
      if (ibv_poll_cq(end->cq, 1, wc) == 1)
        return steps;
    }
    retries = rig_counter("retries");
  }
  return steps;
}

static void thirty_seconds_time_out(void **state)
{
  (void)state;
  struct rig rig;
  struct rig_how how = {.from = "west0", .to = "west1", .timeout = LONG_TIMEOUT, .retry_cnt = 6};
  rig_open(&rig, &how);
  rig_ctl("drop");
  double began = real_s();
  rig_post_send(&rig.a, 1, 8);
  struct ibv_wc wc;
  /* Seven time-outs of 4.3 s, a little more than one in a step. */
  unsigned steps = advance_until(&rig.a, "4300ms", &wc);
  assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(steps, 7);
  assert_true(real_s() - began < 25);
  rig_close(&rig);
}

static void a_message_is_delayed(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &(struct rig_how){.from = "west0", .to = "west1"});
  rig_ctl("delay --by 5s --count 1");
  rig_post_recv(&rig.b, 1, 8);
  rig_post_send(&rig.a, 2, 8);
  assert_true(rig_is_quiet(&rig.a));
  rig_ctl("advance 4999ms");
  assert_true(rig_is_quiet(&rig.a));
  assert_true(rig_is_quiet(&rig.b));
  rig_ctl("advance 1ms");
  assert_int_equal(rig_wait(&rig.a).status, IBV_WC_SUCCESS);
  assert_int_equal(rig_wait(&rig.b).status, IBV_WC_SUCCESS);
  rig_close(&rig);
}

/* `settle` ends once all is answered, what comes later included. */
static void what_was_posted_is_done(void **state)
{
  (void)state;
  struct rig rig;
  struct ibv_wc wc;
  rig_open(&rig, &(struct rig_how){.from = "west0", .to = "west1"});
  rig_ctl("clock 1000");
  rig_ctl("delay --by 100s --count 1");
  rig_post_recv(&rig.b, 1, 8);
  rig_post_send(&rig.a, 2, 8);
  rig_ctl("settle");
  assert_int_equal(ibv_poll_cq(rig.a.cq, 1, &wc), 1);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  rig_ctl("clock manual");
  rig_close(&rig);
}

static void a_delayed_message_keeps_its_place(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &(struct rig_how){.from = "west0", .to = "west1"});
  rig_ctl("delay --by 5s --count 1");
  for (unsigned i = 1; i <= 3; i++) {
    rig_post_recv(&rig.b, i, 8);
    rig_post_send(&rig.a, i, 8);
  }
  assert_true(rig_is_quiet(&rig.b));
  rig_ctl("advance 5s");
  for (unsigned i = 1; i <= 3; i++)
    assert_int_equal(rig_wait(&rig.a).wr_id, i);
  rig_close(&rig);
}

static void port_is_down_for_five_seconds(void **state)
{
  (void)state;
  struct rig patient, hasty;
  /* Time-outs of 1.07 s. */
  struct rig_how how = {.from = "west0", .to = "west1", .timeout = 18, .retry_cnt = 7};
  rig_open(&patient, &how);
  how.retry_cnt = 3;
  rig_open(&hasty, &how);
  rig_ctl("port-down h/west1 --for 5s");
  assert_int_equal(rig_event(patient.b.context), IBV_EVENT_PORT_ERR);
  rig_post_recv(&patient.b, 1, 8);
  rig_post_send(&patient.a, 1, 8);
  struct ibv_wc wc;
  unsigned steps = advance_until(&patient.a, "1080ms", &wc);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  /* At 5.4 s the port is up: four retries came before. */
  assert_int_equal(steps, 5);
  assert_int_equal(rig_event(patient.b.context), IBV_EVENT_PORT_ACTIVE);

  rig_ctl("port-down h/west1 --for 5s");
  rig_post_send(&hasty.a, 2, 8);
  steps = advance_until(&hasty.a, "1080ms", &wc);
  assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(steps, 4);
  rig_ctl("advance 5s");
  rig_close(&patient);
  rig_close(&hasty);
}

/* The program's own steps: what is due is done when the call returns, so one poll sees it. */
static void a_program_advances_the_clock(void **state)
{
  (void)state;
  int (*advance)(uint64_t ns);
  struct rig rig;
  struct ibv_wc wc;
  *(void **)&advance = dlsym(RTLD_DEFAULT, "sim_clock_advance");
  assert_non_null(advance);
  rig_open(&rig, &(struct rig_how){.from = "west0", .to = "west1"});
  rig_ctl("delay --by 10us");
  for (unsigned i = 0; i < 200; i++) {
    rig_post_recv(&rig.b, i, 8);
    rig_post_send(&rig.a, i, 8);
    assert_int_equal(advance(9999), 0);
    assert_int_equal(ibv_poll_cq(rig.a.cq, 1, &wc), 0);
    assert_int_equal(advance(1), 0);
    assert_int_equal(ibv_poll_cq(rig.a.cq, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_poll_cq(rig.b.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, i);
  }
  rig_ctl("clock 1000");
  assert_int_equal(advance(1), EINVAL);
  rig_ctl("clock manual");
  rig_close(&rig);
}

/* Also where the NIC thread first runs long after the post: the clock waits for that. */
static void receiver_becomes_ready_in_time(void **state)
{
  (void)state;
  struct rig rig;
  threads_are_late = true;
  /* RNR timer 0: 655.36 ms. */
  rig_open(&rig, &(struct rig_how){.from = "west0", .to = "west1", .rnr_retry = 1});
  rig_post_send(&rig.a, 1, 8);
  rig_ctl("advance 655ms"); /* behind the first try */
  assert_int_equal(rig_counter("rnr_naks"), 1);
  assert_true(rig_is_quiet(&rig.a));
  rig_post_recv(&rig.b, 1, 8);
  rig_ctl("advance 1ms");
  assert_int_equal(rig_wait(&rig.a).status, IBV_WC_SUCCESS);
  rig_close(&rig);
  threads_are_late = false;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(receiver_becomes_ready_in_time, clear),
      cmocka_unit_test_teardown(thirty_seconds_time_out, clear),
      cmocka_unit_test_teardown(a_message_is_delayed, clear),
      cmocka_unit_test_teardown(what_was_posted_is_done, clear),
      cmocka_unit_test_teardown(a_program_advances_the_clock, clear),
      cmocka_unit_test_teardown(a_delayed_message_keeps_its_place, clear),
      cmocka_unit_test_teardown(port_is_down_for_five_seconds, clear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
