/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that messages to peers are sent from: how much there is, and which peer may have how much
 * of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/peer.h"

#define SLOTS 8u /* messages under way with one peer, at most */
#define STRIDE 512u

/* ---- Stand-ins for other files -------------------------------------------------------- */

static struct pst_node node;
static struct engine_device device;
static uint32_t opened, open_now;
static bool is_full;

int region_open(struct region *region, const struct region_params *params, struct region_why *why)
{
  (void)why;
  assert_ptr_equal(params->device, &device);
  assert_int_equal(params->access, PST_ACCESS_LOCAL_READ); /* no peer has rights there */
  assert_int_equal(params->domain, 0);
  assert_true(params->needs & PST_NEED_CPU_ACCESS);
  if (is_full)
    return -ENOMEM;
  region->mem.host = malloc(params->length);
  region->length = params->length;
  opened++;
  open_now++;
  return region->mem.host ? 0 : -ENOMEM;
}

void region_close(struct region *region)
{
  open_now -= region->mem.host != NULL;
  free(region->mem.host);
}

int region_fail(struct pst_error *error, int code, const char *name, const struct region_why *why,
                const char *remedy)
{
  (void)error, (void)name, (void)why, (void)remedy;
  return code;
}

int pst_fail(struct pst_error *error, int exit_status, int code, const char *format, ...)
{
  (void)error, (void)exit_status, (void)format;
  return code;
}

static void start(void)
{
  device = (struct engine_device){0};
  node = (struct pst_node){.device = &device, .messages = SLOTS, .send_stride = STRIDE};
  opened = open_now = 0;
  is_full = false;
}

/* Take as many as there are for a peer that holds `held`, at most SLOTS. */
static uint32_t take_all(struct send_pool *pool, uint32_t held, uint32_t slots[SLOTS])
{
  while (held < SLOTS && send_pool_has_room(pool, held)) {
    slots[held] = send_pool_take(pool, held);
    held++;
  }
  return held;
}

static void give_all(struct send_pool *pool, uint32_t held, const uint32_t *slots)
{
  while (held > 0) {
    send_pool_give(pool, slots[held - 1], held);
    held--;
  }
}

/* ---- Cases ---------------------------------------------------------------------------- */

static void one_region_whose_size_peers_hardly_change(void **state)
{
  static const struct {
    uint32_t peers, slots;
  } cases[] = {{1, 8}, {2, 16}, {4, 32}, {5, 33}, {64, 92}, {4096, 4124}};

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct send_pool pool = {0};
    start();
    assert_int_equal(send_pool_open(&node, &pool, cases[i].peers, NULL), 0);
    assert_int_equal(opened, 1);
    assert_int_equal(pool.region.length, cases[i].slots * STRIDE);
    assert_int_equal(pool.free_count, cases[i].slots);
    send_pool_close(&pool);
    assert_int_equal(open_now, 0);
  }
}

/* A peer that does not read has at most SLOTS under way, and all such peers leave one to each
 * other. */
static void each_peer_has_one(void **state)
{
  enum { PEERS = 100 };
  static uint32_t slots[PEERS][SLOTS];
  uint32_t held[PEERS], taken[PEERS * SLOTS] = {0}, full = 0;
  struct send_pool pool = {0};

  (void)state;
  start();
  assert_int_equal(send_pool_open(&node, &pool, PEERS, NULL), 0);
  for (uint32_t i = 0; i < PEERS; i++) {
    held[i] = take_all(&pool, 0, slots[i]);
    full += held[i] == SLOTS;
    assert_in_range(held[i], 1, SLOTS);
    for (uint32_t k = 0; k < held[i]; k++) {
      assert_true((slots[i][k] + 1) * STRIDE <= pool.region.length);
      assert_int_equal(taken[slots[i][k]]++, 0);
    }
  }
  assert_int_equal(full, NODE_BUSY_PEERS);
  assert_int_equal(held[PEERS - 1], 1);
  assert_int_equal(pool.free_count, 0);
  /* The last one goes on, one at a time, as often as it likes. */
  for (uint32_t i = 0; i < 1000; i++) {
    give_all(&pool, 1, slots[PEERS - 1]);
    assert_int_equal(take_all(&pool, 0, slots[PEERS - 1]), 1);
  }
  /* A peer may take the slots that others give back, except those that are reserved for them. */
  give_all(&pool, held[0], slots[0]);
  assert_int_equal(take_all(&pool, 1, slots[PEERS - 1]), SLOTS);
  assert_int_equal(take_all(&pool, 0, slots[0]), 1);
  give_all(&pool, 1, slots[0]);
  give_all(&pool, SLOTS, slots[PEERS - 1]);
  for (uint32_t i = 1; i < PEERS - 1; i++)
    give_all(&pool, held[i], slots[i]);
  assert_int_equal(pool.free_count, node_slots(&node, PEERS));
  assert_int_equal(pool.kept, PEERS);
  send_pool_close(&pool);
}

/* Messages end in the order of their peers, and in any between them. */
static void what_was_given_is_taken_again(void **state)
{
  struct send_pool pool = {0};

  (void)state;
  start();
  assert_int_equal(send_pool_open(&node, &pool, 2, NULL), 0);
  const uint32_t first = send_pool_take(&pool, 0), other = send_pool_take(&pool, 0);
  const uint32_t second = send_pool_take(&pool, 1);
  assert_int_equal(first, 0);
  send_pool_give(&pool, first, 2);
  assert_int_equal(send_pool_take(&pool, 1), first);
  send_pool_give(&pool, second, 2);
  send_pool_give(&pool, other, 1);
  send_pool_give(&pool, first, 1);
  assert_int_equal(pool.kept, 2);
  assert_int_equal(pool.free_count, 2 * SLOTS);
  send_pool_close(&pool);
}

static void no_memory(void **state)
{
  struct send_pool pool = {0};

  (void)state;
  start();
  is_full = true;
  assert_int_equal(send_pool_open(&node, &pool, 2, NULL), -ENOMEM);
  send_pool_close(&pool);
  assert_int_equal(open_now, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_region_whose_size_peers_hardly_change),
      cmocka_unit_test(each_peer_has_one),
      cmocka_unit_test(what_was_given_is_taken_again),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
