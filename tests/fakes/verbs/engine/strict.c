/* SPDX-License-Identifier: Apache-2.0 */
/* Strict mode: what hardware leaves undefined is reported. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>

void sim_strict_report(const char *format, ...)
{
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  atomic_fetch_add(&fab->counters[FAB_STRICT_REPORTS], 1);
  fab_log(1, "strict: %s", text);
}

/* A hash is enough to see a change (FNV-1a, eight bytes at a time). */
static uint32_t hash_bytes(uint64_t hash, const char *bytes, uint64_t length)
{
  for (uint64_t i = 0; i < length; i++)
    hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3u;
  return (uint32_t)(hash ^ hash >> 32);
}

static bool reads_memory(const struct sim_slot *slot)
{
  switch (slot->opcode) {
  case IBV_WR_SEND:
  case IBV_WR_SEND_WITH_IMM:
  case IBV_WR_SEND_WITH_INV:
  case IBV_WR_RDMA_WRITE:
  case IBV_WR_RDMA_WRITE_WITH_IMM:
    return !slot->inline_length && slot->length;
  default:
    return false;
  }
}

/* 0 if a key is wrong: the request will end with that. */
static uint32_t hash_of(const struct sim_qp *qp, const struct sim_slot *slot)
{
  uint32_t hash = 2166136261u;
  for (uint32_t i = 0; i < slot->num_sge; i++) {
    struct sim_bytes bytes;
    if (!slot->sges[i].length)
      continue;
    if (sim_local(sim_fab_qp(qp), &slot->sges[i], 0, &bytes))
      return 0;
    hash = hash_bytes(hash, (const char *)(uintptr_t)bytes.address, bytes.length);
  }
  return hash;
}

void sim_strict_posted(struct sim_qp *qp, struct sim_slot *slot)
{
  slot->hash = reads_memory(slot) ? hash_of(qp, slot) : 0;
  slot->hashed = slot->hash != 0;
}

/* All requests up to this completion's are the program's again: what they were to send must be
 * what it was. */
void sim_strict_polled(const struct sim_cqe *cqe)
{
  struct sim_qp *qp = atomic_load(&sim_qp_at[cqe->qp_num & (FAB_QPS - 1)]);
  if (!cqe->is_send || !qp || qp->number != cqe->qp_num)
    return;
  struct sim_sq *sq = qp->sq;
  pthread_mutex_lock(&sq->lock);
  for (; sq->checked != cqe->sq_count; sq->checked++) {
    struct sim_slot *slot = sim_slot_at(sq, sq->checked);
    if (slot->hashed && hash_of(qp, slot) != slot->hash && hash_of(qp, slot))
      sim_strict_report(
          "the buffer of work request 0x%llx on qp 0x%06x changed while it was posted",
          (unsigned long long)slot->wr_id, qp->number);
  }
  sim_sq_unlock(qp);
}
