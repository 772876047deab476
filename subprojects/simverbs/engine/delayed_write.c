/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WRITEs that are placed after they were acknowledged, and not in their order: of each queue pair
 * one waits, and others pass it. A NIC acknowledges when it has the packets; what it then sends by
 * PCI Express arrives in order on one way, unless it was registered with
 * IBV_ACCESS_RELAXED_ORDERING (ibv_reg_mr(3)), and in no order on several.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#define LATE_NS UINT64_C(1000000) /* of the fabric's clock, at most */

struct sim_delayed_write {
  struct fab_qp view; /* of the target, as its keys are looked up */
  uint32_t rkey;
  uint64_t remote_addr;
  struct sim_bytes region; /* that it goes into */
  uint64_t due_ns;
  uint32_t length;
  bool is_relaxed; /* its region lets other WRITEs pass */
  char bytes[];
};

static struct sim_qp *sim_delayed_write_initiator(const struct fab_qp *from)
{
  return atomic_load(&sim_qp_at[from - fab->qp]);
}

void sim_delayed_write_place(struct sim_qp *qp)
{
  struct sim_delayed_write *late = qp->sq ? qp->sq->delayed_write : NULL;
  struct fab_mr *mr;
  struct sim_bytes bytes;
  if (!late)
    return;
  qp->sq->delayed_write = NULL;
  /* Memory that was deregistered meanwhile is not written to. */
  if (!sim_remote(&late->view, late->rkey, late->remote_addr, late->length, IBV_ACCESS_REMOTE_WRITE,
                  &mr, &bytes)) {
    struct sim_runs from = {.count = 1, .run = {{fab_slot, (uintptr_t)late->bytes, late->length}}};
    sim_dma(&from, 0, &bytes, true);
    sim_release(mr);
  }
  free(late);
}

uint64_t sim_delayed_write_due(struct sim_qp *qp)
{
  if (qp->sq->delayed_write && qp->sq->delayed_write->due_ns <= fab_clock_ns(fab))
    sim_delayed_write_place(qp);
  return qp->sq->delayed_write ? qp->sq->delayed_write->due_ns : 0;
}

void sim_delayed_write_before(const struct fab_qp *from, const struct sim_bytes *bytes)
{
  struct sim_qp *qp = sim_delayed_write_initiator(from);
  const struct sim_delayed_write *late = qp && qp->sq ? qp->sq->delayed_write : NULL;
  if (late && (!bytes || (bytes->slot == late->region.slot &&
                          bytes->address - late->region.address < late->region.length)))
    sim_delayed_write_place(qp);
}

void sim_delayed_write_before_write(const struct fab_qp *from, uint32_t rkey)
{
  struct sim_qp *qp = sim_delayed_write_initiator(from);
  const struct sim_delayed_write *late = qp && qp->sq ? qp->sq->delayed_write : NULL;
  if (late && late->rkey == rkey && !late->is_relaxed)
    sim_delayed_write_place(qp);
}

bool sim_delayed_write_takes(const struct fab_qp *to, const struct sim_message *message,
                             const struct fab_mr *mr)
{
  struct sim_qp *qp = sim_delayed_write_initiator(message->from);
  const struct sim_slot *slot = message->slot;
  if (!fab->device[to->device].caps.late_writes || !qp)
    return false;
  if (qp->sq->delayed_write)
    return false;
  struct sim_delayed_write *late = malloc(sizeof(*late) + slot->length);
  if (!late)
    return false;
  *late = (struct sim_delayed_write){
      .view = {.number = to->number, .owner = to->owner, .device = to->device, .pd = to->pd},
      .rkey = slot->rkey,
      .remote_addr = slot->remote_addr,
      .region = {mr->owner, mr->address, mr->length},
      .due_ns = fab_clock_ns(fab) + LATE_NS,
      .length = slot->length,
      .is_relaxed = mr->access & IBV_ACCESS_RELAXED_ORDERING};
  struct sim_bytes here = {fab_slot, (uintptr_t)late->bytes, slot->length};
  sim_dma(message->data, 0, &here, true);
  qp->sq->delayed_write = late;
  /* The NIC thread is to learn of the time. */
  atomic_store(&qp->sq->attention, true);
  return true;
}
