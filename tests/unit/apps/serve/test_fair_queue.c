/* SPDX-License-Identifier: Apache-2.0 */
/* Turns are fair by bytes, counted: no clock. */
#include "serve/fair_queue.h"
#include "support.h"

#define MANY 64u
#define MOST (UINT64_C(4) << 20)

struct one {
  struct fair_queue_entry turn; /* first: its pointer is ours */
  uint64_t least, most, bytes;
  uint64_t random;
};

static uint64_t cost_of(struct one *one)
{
  one->random = one->random * 6364136223846793005u + 1442695040888963407u;
  return one->least + (one->random >> 33) % (one->most - one->least + 1);
}

static void serve_one(struct fair_queue *turns)
{
  struct one *one = (struct one *)serve_queue_next(turns);

  assert_non_null(one);
  assert_ptr_equal(one, serve_queue_next(turns));
  one->bytes += one->turn.cost;
  serve_queue_spend(turns, cost_of(one));
}

/* Sizes from 512 bytes to the largest block, each client's its own: whoever waits gets as much. */
static void test_bytes_are_equal(void **state)
{
  static struct one all[MANY];
  struct fair_queue turns = {0};

  (void)state;
  for (uint32_t i = 0; i < MANY; i++) {
    all[i] = (struct one){.least = 512, .most = UINT64_C(512) << i % 14, .random = i};
    serve_queue_join(&turns, &all[i].turn, cost_of(&all[i]));
    serve_queue_join(&turns, &all[i].turn, 1); /* it waits already */
  }
  for (uint32_t round = 0; round < 2000000; round++) {
    serve_one(&turns);
    if (round % 50000 != 0)
      continue;
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t i = 0; i < MANY; i++) {
      least = all[i].bytes < least ? all[i].bytes : least;
      most = all[i].bytes > most ? all[i].bytes : most;
    }
    assert_true(most - least <= FAIR_QUEUE_QUANTUM + MOST);
  }
  assert_true(all[0].bytes > 4 * MOST);
}

/* A new client waits for at most a quantum, and what a client has credit for, of each other client.
 */
static void test_a_new_client_is_served_soon(void **state)
{
  static struct one all[MANY];
  struct one late = {.least = 4096, .most = 4096};
  struct fair_queue turns = {0};
  uint64_t before = 0;

  (void)state;
  for (uint32_t i = 0; i < MANY; i++) {
    all[i] = (struct one){.least = MOST, .most = MOST};
    serve_queue_join(&turns, &all[i].turn, MOST);
  }
  for (uint32_t round = 0; round < 1000; round++)
    serve_one(&turns);
  for (uint32_t i = 0; i < MANY; i++)
    before += all[i].bytes;
  serve_queue_join(&turns, &late.turn, 4096);
  while (late.bytes == 0)
    serve_one(&turns);
  for (uint32_t i = 0; i < MANY; i++)
    before -= all[i].bytes;
  assert_true(0 - before <= MANY * MOST);
}

static void test_leaving(void **state)
{
  struct one all[4] = {0};
  struct fair_queue turns = {0};

  (void)state;
  for (uint32_t which = 0; which < 4; which++) {
    for (uint32_t i = 0; i < 4; i++)
      serve_queue_join(&turns, &all[i].turn, FAIR_QUEUE_QUANTUM / 4);
    serve_queue_next(&turns);
    serve_queue_leave(&turns, &all[which].turn);
    serve_queue_leave(&turns, &all[which].turn);
    for (uint32_t i = 0; i < 4; i++) {
      if (i == which)
        continue;
      assert_ptr_equal(serve_queue_next(&turns), &all[i].turn);
      assert_int_equal(all[i].turn.credit, FAIR_QUEUE_QUANTUM); /* once a visit */
      serve_queue_spend(&turns, FAIR_QUEUE_QUANTUM);
      assert_int_equal(all[i].turn.credit, FAIR_QUEUE_QUANTUM * 3 / 4);
      serve_queue_next(&turns); /* too little is left: the others are next */
      if (serve_queue_next(&turns) == &all[i].turn)
        assert_true(all[i].turn.credit >= FAIR_QUEUE_QUANTUM);
      serve_queue_leave(&turns, &all[i].turn);
    }
    assert_null(serve_queue_next(&turns));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes_are_equal),
      cmocka_unit_test(test_a_new_client_is_served_soon),
      cmocka_unit_test(test_leaving),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
