/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that messages to peers are sent from: how many regions there are, and whose slots lie
 * where. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/peer.h"

#define PEERS 100u
#define SLOTS 8u
#define STRIDE 512u
#define SHARE_BYTES ((uint64_t)SLOTS * STRIDE)

/* ---- What it stands on ---------------------------------------------------------------- */

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

static void start(uint64_t capabilities)
{
  device = (struct engine_device){.limits.capabilities = capabilities};
  node = (struct pst_node){
      .device = &device, .peers_max = PEERS, .messages = SLOTS, .send_stride = STRIDE};
  opened = open_now = 0;
  is_full = false;
}

static void take(struct send_share *shares, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(send_share_take(&node, &shares[i]), 0);
    assert_int_equal(shares[i].offset % SHARE_BYTES, 0);
    assert_true(shares[i].offset + SHARE_BYTES <= shares[i].block->region.length);
    for (uint32_t k = 0; k < i; k++)
      assert_true(shares[k].block != shares[i].block || shares[k].offset != shares[i].offset);
  }
}

/* ---- What is tested ------------------------------------------------------------------- */

static void many_peers_have_few_regions(void **state)
{
  struct send_share shares[PEERS];
  uint64_t bytes = 0;

  (void)state;
  start(0);
  take(shares, 1);
  assert_int_equal(shares[0].block->region.length, SHARE_BYTES); /* one peer costs what it needs */
  take(shares + 1, PEERS - 1);
  assert_int_equal(opened, 8); /* 1, 1, 2, 4, 8, 16, 32 and the rest */
  for (const struct send_block *block = node.send_blocks; block; block = block->next)
    bytes += block->region.length;
  assert_int_equal(bytes, PEERS * SHARE_BYTES); /* and all of them no more */
  for (uint32_t i = 0; i < PEERS; i++)
    send_share_give(&node, &shares[i]);
  assert_int_equal(open_now, 0);
  assert_null(node.send_blocks);
}

static void what_was_given_is_taken_again(void **state)
{
  struct send_share shares[4], again;

  (void)state;
  start(0);
  take(shares, 4);
  const struct send_share gone = shares[2];
  send_share_give(&node, &shares[2]);
  assert_null(shares[2].block);
  send_share_give(&node, &shares[2]); /* of none */
  const uint32_t before = opened;
  assert_int_equal(send_share_take(&node, &again), 0);
  assert_ptr_equal(again.block, gone.block);
  assert_int_equal(again.offset, gone.offset);
  assert_int_equal(opened, before);
  shares[2] = again;
  for (uint32_t i = 0; i < 4; i++)
    send_share_give(&node, &shares[i]);
  assert_int_equal(open_now, 0);
}

/* Or one would read what goes to another. */
static void a_region_each_where_receivers_map_it(void **state)
{
  struct send_share shares[9];

  (void)state;
  start(PST_CAP_LEND);
  take(shares, 9);
  for (uint32_t i = 0; i < 9; i++) {
    assert_int_equal(shares[i].offset, 0);
    assert_int_equal(shares[i].block->region.length, SHARE_BYTES);
  }
  assert_int_equal(open_now, 9);
  for (uint32_t i = 0; i < 9; i++)
    send_share_give(&node, &shares[i]);
  assert_int_equal(open_now, 0);
}

static void no_memory(void **state)
{
  struct send_share shares[2], none = {0};

  (void)state;
  start(0);
  take(shares, 2);
  is_full = true;
  assert_int_equal(send_share_take(&node, &none), -ENOMEM);
  assert_null(none.block);
  is_full = false;
  send_share_give(&node, &shares[0]);
  send_share_give(&node, &shares[1]);
  assert_int_equal(open_now, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_peers_have_few_regions),
      cmocka_unit_test(what_was_given_is_taken_again),
      cmocka_unit_test(a_region_each_where_receivers_map_it),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
