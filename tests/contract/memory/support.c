/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the contract of memories. */
#include "contract.h"

#include <sched.h>

int contract_alloc_params(const struct pst_alloc_params *params, struct pst_region *region)
{
  memset(region, 0, sizeof(*region));
  region->struct_size = sizeof(*region);
  return contract.ops->alloc(contract.memory, params, region);
}

struct pst_region contract_alloc(uint32_t purpose, uint64_t length, uint64_t alignment,
                                 uint32_t needs)
{
  struct pst_region region;
  struct pst_alloc_params params = {
      .struct_size = sizeof(params),
      .purpose = purpose,
      .length = length,
      .alignment = alignment,
      .needs = needs,
      .label = "contract",
  };
  const char *before = contract_rule("Allocate a region of at least params->length bytes");
  assert_int_equal(contract_alloc_params(&params, &region), 0);
  contract_rule(before);
  return region;
}

void contract_free(struct pst_region *region)
{
  contract.ops->free_region(contract.memory, region);
}

struct pst_queue *contract_queue(void)
{
  struct pst_queue_params params = {sizeof(params), QUEUE_BATCHES, QUEUE_PIECES, 0};
  struct pst_queue *queue = NULL;
  assert_int_equal(contract.ops->queue_open(contract.memory, &params, &queue), 0);
  assert_non_null(queue);
  return queue;
}

void contract_finish(struct pst_queue *queue, uint64_t ticket)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns, done = 0;
  for (;;) {
    assert_int_equal(contract.ops->queue_poll(queue, &done), 0);
    if (done >= ticket)
      return;
    if (contract_now_ns() > deadline)
      fail_msg("batch %lu is not done in time, only %lu", (unsigned long)ticket,
               (unsigned long)done);
    sched_yield();
  }
}

bool contract_reaches(const struct pst_region *region)
{
  return region->host || contract.mover;
}

/* By way of staging, as much as fits at a time. */
static void move(const struct pst_region *region, uint64_t offset, uint8_t *bytes, uint64_t length,
                 bool out)
{
  while (length > 0) {
    uint64_t n = length < contract.staging.length ? length : contract.staging.length;
    struct pst_copy_row piece = {contract.staging.address, region->address + offset, n, 0, 0, 1, 0};
    uint64_t ticket;
    if (out)
      piece =
          (struct pst_copy_row){region->address + offset, contract.staging.address, n, 0, 0, 1, 0};
    else
      memcpy(contract.staging.host, bytes, n);
    assert_int_equal(contract.ops->copy_rows(contract.mover, &piece, 1, &ticket), 0);
    contract_finish(contract.mover, ticket);
    if (out)
      memcpy(bytes, contract.staging.host, n);
    offset += n;
    bytes += n;
    length -= n;
  }
}

void contract_put(const struct pst_region *region, uint64_t offset, const void *bytes,
                  uint64_t length)
{
  if (region->host)
    memcpy((uint8_t *)region->host + offset, bytes, length);
  else
    move(region, offset, (uint8_t *)(uintptr_t)bytes, length, false);
}

void contract_get(const struct pst_region *region, uint64_t offset, void *bytes, uint64_t length)
{
  if (region->host)
    memcpy(bytes, (uint8_t *)region->host + offset, length);
  else
    move(region, offset, bytes, length, true);
}

void contract_pattern(uint8_t *bytes, uint64_t length, uint64_t seed, uint64_t sequence)
{
  uint64_t h = seed + sequence * UINT64_C(0xd1342543de82ef95);
  h ^= h >> 30;
  h *= UINT64_C(0xbf58476d1ce4e5b9);
  h ^= h >> 27;
  h *= UINT64_C(0x94d049bb133111eb);
  h ^= h >> 31;
  for (uint64_t i = 0; i < length; i++)
    bytes[i] = (uint8_t)((h + i / 8 * UINT64_C(0x9e3779b97f4a7c15)) >> 8 * (i % 8));
}
