/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred works: order, side by side, and what a drain waits for. */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "loader/defer.h"
#include "loader/loader.h"
#include "util/log.h"

enum { WORKS = 1000, KEYS = 20 };

static const struct loader_plugin *plugin;
static int order[KEYS][WORKS], done[KEYS];
static pthread_t ran_on;

static int setup(void **state)
{
  (void)state;
  log_capture();
  return loader_load(PST_KIND_TRANSPORT, "good", &plugin, NULL);
}

static void defer_work(const void *key, void (*work)(void *arg), void *arg)
{
  assert_int_equal(plugin->host->defer(plugin->host, key, work, arg), 0);
}

/* Work number arg / KEYS of key number arg % KEYS. Works of a key share what no atomic guards. */
static void note(void *arg)
{
  const int number = (int)(intptr_t)arg, key = number % KEYS;

  order[key][done[key]++] = number / KEYS;
  ran_on = pthread_self();
}

static void test_one_key_in_order(void **state)
{
  (void)state;
  done[0] = 0;
  for (int i = 0; i < WORKS; i++)
    defer_work(NULL, note, (void *)(intptr_t)(i * KEYS));
  loader_defer_drain(plugin);
  assert_int_equal(done[0], WORKS);
  for (int i = 0; i < WORKS; i++)
    assert_int_equal(order[0][i], i);
  assert_false(pthread_equal(ran_on, pthread_self()));
}

static void note_key(void *arg)
{
  const int number = (int)(intptr_t)arg, key = number % KEYS;

  order[key][done[key]++] = number / KEYS;
}

/* More keys than threads. */
static void test_each_key_in_order(void **state)
{
  (void)state;
  for (int k = 0; k < KEYS; k++)
    done[k] = 0;
  for (int i = 0; i < WORKS * KEYS; i++)
    defer_work(&done[i % KEYS], note_key, (void *)(intptr_t)i);
  loader_defer_drain(plugin);
  for (int k = 0; k < KEYS; k++) {
    assert_int_equal(done[k], WORKS);
    for (int i = 0; i < WORKS; i++)
      assert_int_equal(order[k][i], i);
  }
}

static pthread_barrier_t meeting;

static void meet(void *arg)
{
  (void)arg;
  pthread_barrier_wait(&meeting);
}

/* None of them returns before all of them have begun. */
static void test_keys_run_side_by_side(void **state)
{
  static const char keys[LOADER_DEFER_THREADS];

  (void)state;
  for (int turn = 0; turn < 100; turn++)
    for (unsigned n = 2; n <= LOADER_DEFER_THREADS; n += LOADER_DEFER_THREADS - 2) {
      pthread_barrier_init(&meeting, NULL, n);
      for (unsigned i = 0; i < n; i++)
        defer_work(&keys[i], meet, NULL);
      loader_defer_drain(plugin);
      pthread_barrier_destroy(&meeting);
    }
}

/* A work that waits holds up those of its key alone. */
static void test_a_key_that_waits_holds_up_no_other(void **state)
{
  (void)state;
  pthread_barrier_init(&meeting, NULL, 2);
  done[0] = done[1] = 0;
  defer_work(&done[0], meet, NULL);
  defer_work(&done[0], note_key, (void *)(intptr_t)0);
  for (int i = 0; i < WORKS; i++)
    defer_work(&done[1], note_key, (void *)(intptr_t)(i * KEYS + 1));
  defer_work(&done[1], meet, NULL); /* lets the first go on */
  loader_defer_drain(plugin);
  assert_int_equal(done[0], 1);
  assert_int_equal(done[1], WORKS);
  pthread_barrier_destroy(&meeting);
}

static atomic_int at_once, most;

static void count(void *arg)
{
  int now = ++at_once, before = most;

  (void)arg;
  while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
    ;
  sched_yield();
  at_once--;
}

static void test_no_more_threads_than_the_bound(void **state)
{
  (void)state;
  for (intptr_t i = 0; i < WORKS; i++)
    defer_work((const void *)(i + 1), count, NULL);
  loader_defer_drain(plugin);
  assert_in_range(most, 1, LOADER_DEFER_THREADS);
}

/* ---- Drains -------------------------------------------------------------------- */

static void again(void *arg)
{
  int left = (int)(intptr_t)arg;

  done[0]++;
  if (left > 0)
    plugin->host->defer(plugin->host, NULL, again, (void *)(intptr_t)(left - 1));
}

/* A drain waits for what works themselves put off. */
static void test_drain_covers_followers(void **state)
{
  (void)state;
  done[0] = 0;
  defer_work(NULL, again, (void *)(intptr_t)50);
  loader_defer_drain(plugin);
  assert_int_equal(done[0], 51);
}

static void drain_itself(void *arg)
{
  (void)arg;
  loader_defer_drain(plugin);
  done[0]++;
}

static void test_drain_from_a_work(void **state)
{
  (void)state;
  done[0] = 0;
  defer_work(NULL, drain_itself, NULL);
  loader_defer_drain(plugin);
  assert_int_equal(done[0], 1);
}

static void test_drain_of_nothing(void **state)
{
  const struct loader_plugin *other;

  (void)state;
  assert_int_equal(loader_load(PST_KIND_TRANSPORT, "twin", &other, NULL), 0);
  loader_defer_drain(other);
}

static void meet_and_go_on(void *arg)
{
  pthread_barrier_wait(&meeting);
  sched_yield();
  *(int *)arg = 1;
}

/* Works of several keys run when the drain begins; none has finished before. */
static void test_drain_while_works_run(void **state)
{
  int ended[4];

  (void)state;
  for (int turn = 0; turn < 100; turn++) {
    pthread_barrier_init(&meeting, NULL, 5);
    for (int i = 0; i < 4; i++) {
      ended[i] = 0;
      defer_work(&ended[i], meet_and_go_on, &ended[i]);
    }
    pthread_barrier_wait(&meeting);
    loader_defer_drain(plugin);
    for (int i = 0; i < 4; i++)
      assert_int_equal(ended[i], 1);
    pthread_barrier_destroy(&meeting);
  }
}

static void *defer_many(void *arg)
{
  (void)arg;
  for (int i = 0; i < 100; i++)
    plugin->host->defer(plugin->host, NULL, again, NULL);
  return NULL;
}

static void test_from_many_threads(void **state)
{
  pthread_t threads[4];

  (void)state;
  done[0] = 0;
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, defer_many, NULL), 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  loader_defer_drain(plugin);
  assert_int_equal(done[0], 400);
}

static sigset_t mask_there;

static void note_mask(void *arg)
{
  (void)arg;
  pthread_sigmask(SIG_SETMASK, NULL, &mask_there);
}

/* ^C is for the program's threads. */
static void test_takes_no_signals(void **state)
{
  (void)state;
  defer_work(NULL, note_mask, NULL);
  loader_defer_drain(plugin);
  assert_int_equal(sigismember(&mask_there, SIGINT), 1);
  assert_int_equal(sigismember(&mask_there, SIGTERM), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_drain_of_nothing),
      cmocka_unit_test(test_one_key_in_order),
      cmocka_unit_test(test_each_key_in_order),
      cmocka_unit_test(test_keys_run_side_by_side),
      cmocka_unit_test(test_a_key_that_waits_holds_up_no_other),
      cmocka_unit_test(test_no_more_threads_than_the_bound),
      cmocka_unit_test(test_drain_covers_followers),
      cmocka_unit_test(test_drain_from_a_work),
      cmocka_unit_test(test_drain_while_works_run),
      cmocka_unit_test(test_from_many_threads),
      cmocka_unit_test(test_takes_no_signals),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
