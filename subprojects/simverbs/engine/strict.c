/* SPDX-License-Identifier: Apache-2.0 */
/* Strict mode: what hardware leaves undefined is reported. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

/* All that is posted is read twice or more: by words, each of which any of its bits changes. */
static uint64_t sim_strict_hash_bytes(uint64_t hash, const char *bytes, uint64_t length)
{
  uint64_t word;
  for (; length >= sizeof(word); bytes += sizeof(word), length -= sizeof(word)) {
    memcpy(&word, bytes, sizeof(word));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29; /* not 32, which the fold to 32 bits would undo */
  }
  for (uint64_t i = 0; i < length; i++)
    hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3u; /* FNV-1a */
  return hash;
}

/* Adds a run of bytes to the hash; bytes of another process are read piece by piece. Whether they
 * are there: it may have died. */
static bool sim_strict_hash_run(uint64_t *hash, const struct sim_bytes *bytes)
{
  char piece[4096];
  if (bytes->slot == fab_slot) {
    *hash = sim_strict_hash_bytes(*hash, (const char *)(uintptr_t)bytes->address, bytes->length);
    return true;
  }
  for (uint64_t at = 0; at < bytes->length;) {
    uint64_t length = bytes->length - at < sizeof(piece) ? bytes->length - at : sizeof(piece);
    struct sim_runs here = {.count = 1, .run = {{fab_slot, (uintptr_t)piece, length}}};
    struct sim_bytes there = {bytes->slot, bytes->address + at, length};
    if (sim_dma(&here, 0, &there, false))
      return false;
    *hash = sim_strict_hash_bytes(*hash, piece, length);
    at += length;
  }
  return true;
}

/* 0 if a key is wrong: the request will end with that; or if the memory is gone. */
static uint32_t sim_strict_hash_sges(const struct fab_qp *qp, const struct ibv_sge *sges,
                                     uint32_t count)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint32_t i = 0; i < count; i++) {
    struct sim_bytes bytes;
    if (!sges[i].length)
      continue;
    if (sim_local(qp, &sges[i], 0, &bytes) || !sim_strict_hash_run(&hash, &bytes))
      return 0;
  }
  uint32_t folded = (uint32_t)(hash ^ hash >> 32);
  return folded ? folded : 1;
}

static bool sim_strict_reads_memory(const struct sim_slot *slot)
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

static uint32_t sim_strict_hash_of(const struct sim_qp *qp, const struct sim_slot *slot)
{
  return sim_strict_hash_sges(sim_fab_qp(qp), slot->sges, slot->num_sge);
}

void sim_strict_posted(struct sim_qp *qp, struct sim_slot *slot)
{
  slot->hash = sim_strict_reads_memory(slot) ? sim_strict_hash_of(qp, slot) : 0;
  slot->hashed = slot->hash != 0;
}

static void sim_strict_compare(const struct sim_qp *qp, struct sim_slot *slot)
{
  if (slot->hashed && sim_strict_hash_of(qp, slot) != slot->hash && sim_strict_hash_of(qp, slot))
    sim_strict_report("the buffer of work request 0x%llx on qp 0x%06x changed while it was posted",
                      (unsigned long long)slot->wr_id, qp->number);
  slot->hashed = 0;
}

/* All requests of its stream up to this completion's are the program's again: what they were to
 * send must be what it was. */
void sim_strict_polled(const struct sim_cqe *cqe)
{
  struct sim_qp *qp = atomic_load(&sim_qp_at[cqe->qp_num & (FAB_QPS - 1)]);
  if (!cqe->is_send || !qp || qp->number != cqe->qp_num)
    return;
  struct sim_sq *sq = qp->sq;
  pthread_mutex_lock(&sq->lock);
  /* A reset since the poll has them all behind it. */
  const uint16_t stream = sim_slot_at(sq, cqe->sq_at)->stream;
  for (uint32_t i = sq->checked;; i++) {
    const bool is_freed = (int32_t)(cqe->sq_count - i) > 0;
    if (!is_freed && (int32_t)(cqe->sq_at - i) < 0)
      break;
    if (is_freed || sim_slot_at(sq, i)->stream == stream)
      sim_strict_compare(qp, sim_slot_at(sq, i));
  }
  if ((int32_t)(cqe->sq_count - sq->checked) > 0)
    sq->checked = cqe->sq_count;
  sim_sq_unlock(qp);
}

void sim_strict_recv_posted(const struct fab_qp *view, struct fab_recv *recv)
{
  recv->hash = sim_strict_hash_sges(view, recv->sges, recv->num_sge);
}

void sim_strict_recv_taken(const struct fab_qp *view, const struct fab_recv *recv)
{
  uint32_t hash = recv->hash ? sim_strict_hash_sges(view, recv->sges, recv->num_sge) : 0;
  if (hash && hash != recv->hash)
    sim_strict_report("the buffer of receive 0x%llx (qp 0x%06x of process %d) was written to while "
                      "it was posted, by the program or by another receive over the same bytes",
                      (unsigned long long)recv->wr_id, view->number, fab->process[view->owner].pid);
}

void sim_strict_left(void)
{
  struct sim_list *at;
  sim_list_each(at, &sim_self.contexts)
  {
    const struct sim_context *context = sim_container_of(at, struct sim_context, link);
    sim_strict_report("%s is open as the process ends, with %u PD, %u MR, %u MW, %u CQ, %u QP, "
                      "%u SRQ, %u AH, %u channels",
                      context->device->dev.name, context->pds, context->mrs, context->mws,
                      context->cqs, context->qps, context->srqs, context->ahs, context->channels);
  }
}
