/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: which slots a driver gets, and why a pool cannot be made. */
#include <errno.h>

#include "dpdk.h"
#include "pool.h"
#include "stubs.h"
#include "support.h"

enum { SLOTS = 96, STRIDE = 2048, SPARES = ETH_BURST, PAYLOAD = 1400 };

static uint8_t memory[SLOTS * STRIDE] __attribute__((aligned(64)));
static struct pst_worker worker;
static struct pst_device owner;
static struct pst_ring ring;

static const struct pst_host host = {.log = take_log};

static int start_dpdk(void **state)
{
  (void)state;
  return dpdk_start();
}

static int open_ring(uint32_t slots)
{
  const struct eth_pool_params params = {
      .lead = RTE_PKTMBUF_HEADROOM + ETH_HEADER_MIN, .spares = SPARES, .socket = SOCKET_ID_ANY};

  owner = (struct pst_device){.dg = {.host = &host}};
  worker.device = &owner;
  ring = (struct pst_ring){.worker = &worker,
                           .cpu = {.base = memory,
                                   .params = {.slots = slots,
                                              .stride = STRIDE,
                                              .payload_max = PAYLOAD,
                                              .headroom = ETH_SLOT_HEADROOM,
                                              .tailroom = ETH_SLOT_MORE}}};
  assert_int_equal(pst_slots_open(&ring.cpu.slots, slots), 0);
  return eth_pool_open(&ring, &params, &ring.pool);
}

static int open_pool(void **state)
{
  (void)state;
  return open_ring(SLOTS);
}

static int close_pool(void **state)
{
  (void)state;
  eth_pool_close(ring.pool);
  pst_slots_close(&ring.cpu.slots);
  return 0;
}

/* As a driver takes them, and as messages in them are given: their slots. */
static void take(uint32_t *slots, uint32_t n)
{
  void *mbufs[SLOTS];

  assert_int_equal(rte_mempool_get_bulk(ring.pool->mempool, mbufs, n), 0);
  for (uint32_t i = 0; i < n; i++) {
    slots[i] = eth_pool_slot(ring.pool, mbufs[i]);
    assert_true(slots[i] < SLOTS);
    assert_int_equal(ring.cpu.slots.out[slots[i]], 0); /* nobody has it */
    ring.cpu.slots.out[slots[i]] = 1;
  }
}

static void release(const uint32_t *slots, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    assert_true(pst_slots_release(&ring.cpu.slots, slots[i]));
  eth_pool_refill(ring.pool);
}

static void slots_that_are_released_soon_are_the_same_ones(void **state)
{
  uint32_t slots[SLOTS];

  (void)state;
  for (uint32_t round = 0; round < 3 * SLOTS; round++) {
    const uint32_t n = 1 + round % 7;
    for (uint32_t part = 0; part < 3; part++)
      take(slots + part * n, n);
    for (uint32_t i = 0; i < 3 * n; i++)
      assert_int_equal(slots[i], i);
    release(slots, 3 * n);
  }
}

/* Behind those that are out: a row for who copies slots on. */
static void slots_come_in_the_order_of_their_release(void **state)
{
  uint32_t first, slots[SLOTS];

  (void)state;
  take(&first, 1);
  take(slots, 2);
  for (uint32_t i = 0; i < 5 * SLOTS; i++) {
    take(slots + 2, 1);
    assert_int_equal(slots[2], 1 + (2 + i) % (SLOTS - 1));
    release(slots, 1);
    memmove(slots, slots + 1, 2 * sizeof(slots[0]));
  }
  release(slots, 2);
  release(&first, 1);
}

/* Any order of takes and releases: none is given twice, and none is lost. */
static void no_slot_is_given_twice_or_lost(void **state)
{
  uint32_t out[SLOTS], count = 0, seed = 1, whole = 0;

  (void)state;
  for (uint32_t round = 0; round < 20000; round++) {
    seed = seed * 1664525 + 1013904223;
    const uint32_t room = SLOTS - count, n = 1 + (seed >> 16) % ETH_BURST;
    if (seed >> 31 && n <= room) {
      take(out + count, n);
      count += n;
    } else if (count) {
      const uint32_t few = (seed >> 8) % 4 ? RTE_MIN(n, count) : count;
      uint32_t kept[SLOTS];
      if (seed & 64) { /* the oldest, else the newest */
        release(out, few);
        memmove(kept, out + few, (count - few) * sizeof(out[0]));
        memcpy(out, kept, (count - few) * sizeof(out[0]));
      } else {
        release(out + count - few, few);
      }
      count -= few;
      whole += count == 0;
    }
    assert_int_equal(rte_mempool_avail_count(ring.pool->mempool), SLOTS - count + SPARES);
  }
  assert_true(whole > 100);
  release(out, count);
  take(out, SLOTS);
}

static void a_bulk_is_there_though_all_slots_are_out(void **state)
{
  uint32_t slots[SLOTS];
  void *mbufs[ETH_BURST];

  (void)state;
  take(slots, SLOTS);
  assert_int_equal(rte_mempool_get_bulk(ring.pool->mempool, mbufs, ETH_BURST), 0);
  for (uint32_t i = 0; i < ETH_BURST; i++)
    assert_int_equal(eth_pool_slot(ring.pool, mbufs[i]), UINT32_MAX);
  assert_int_equal(rte_mempool_get_bulk(ring.pool->mempool, mbufs, 1), -ENOBUFS);
  rte_mempool_put_bulk(ring.pool->mempool, mbufs, ETH_BURST);
  release(slots, SLOTS);
}

/* More mbufs than the test's DPDK has memory for. */
static void no_memory_names_the_ring(void **state)
{
  const uint32_t slots = 1u << 20;

  (void)state;
  assert_int_equal(open_ring(slots), -ENOMEM);
  assert_non_null(strstr(logged, "make `ring` smaller"));
  pst_slots_close(&ring.cpu.slots);
}

static void another_error_is_dpdks(void **state)
{
  const struct rte_mempool_ops_table kept = rte_mempool_ops_table;

  (void)state;
  rte_mempool_ops_table.num_ops = 0; /* as if nobody had registered any */
  assert_int_equal(open_ring(SLOTS), -EINVAL);
  rte_mempool_ops_table = kept;
  assert_non_null(strstr(logged, "DPDK cannot create a pool of the ring's slots: DPDK's words"));
  pst_slots_close(&ring.cpu.slots);
}

int main(void)
{
#define WITH_POOL(test) cmocka_unit_test_setup_teardown(test, open_pool, close_pool)
  const struct CMUnitTest tests[] = {
      WITH_POOL(slots_that_are_released_soon_are_the_same_ones),
      WITH_POOL(slots_come_in_the_order_of_their_release),
      WITH_POOL(no_slot_is_given_twice_or_lost),
      WITH_POOL(a_bulk_is_there_though_all_slots_are_out),
      cmocka_unit_test(no_memory_names_the_ring),
      cmocka_unit_test(another_error_is_dpdks),
  };

  return cmocka_run_group_tests(tests, start_dpdk, NULL);
}
