/* SPDX-License-Identifier: Apache-2.0 */
/* Cleans up after a process that has ended: its peers see what hardware would show, a queue pair
 * that answers nothing and keys that are gone. */
#include "fabric.h"

static void fab_reap_qps(uint32_t slot)
{
  for (uint32_t i = 0; i < fab->high[FAB_KIND_QP]; i++) {
    struct fab_qp *qp = &fab->qp[i];
    if (!qp->number || qp->owner != slot)
      continue;
    fab_lock(&qp->lock);
    atomic_store(&qp->state, IBV_QPS_RESET);
    atomic_store(&qp->number, 0);
    fab_unlock(&qp->lock);
    fab_uncount(&fab->device[qp->device], FAB_KIND_QP);
  }
}

static void fab_reap_srqs(uint32_t slot)
{
  for (uint32_t i = 0; i < fab->high[FAB_KIND_SRQ]; i++) {
    struct fab_srq *srq = &fab->srq[i];
    if (!srq->number || srq->owner != slot)
      continue;
    fab_lock(&srq->lock);
    atomic_store(&srq->number, 0);
    fab_unlock(&srq->lock);
    fab_uncount(&fab->device[srq->device], FAB_KIND_SRQ);
  }
}

static void fab_reap_mrs(uint32_t slot)
{
  for (uint32_t i = 0; i < fab->high[FAB_KIND_MR]; i++) {
    struct fab_mr *mr = &fab->mr[i];
    if (!mr->number || mr->owner != slot)
      continue;
    fab_lock(&mr->lock);
    atomic_store(&mr->number, 0);
    fab_unlock(&mr->lock);
    fab_uncount(&fab->device[mr->device], FAB_KIND_MR);
  }
}

static void fab_reap_cqs(uint32_t slot)
{
  for (uint32_t i = 0; i < fab->high[FAB_KIND_CQ]; i++) {
    struct fab_cq *cq = &fab->cq[i];
    if (!cq->number || cq->owner != slot)
      continue;
    fab_lock(&cq->lock);
    atomic_store(&cq->number, 0);
    fab_unlock(&cq->lock);
    fab_uncount(&fab->device[cq->device], FAB_KIND_CQ);
  }
}

static void fab_reap_pds(uint32_t slot)
{
  for (uint32_t i = 0; i < fab->high[FAB_KIND_PD]; i++) {
    struct fab_pd *pd = &fab->pd[i];
    if (!pd->number || pd->owner != slot)
      continue;
    atomic_store(&pd->number, 0);
    fab_uncount(&fab->device[pd->device], FAB_KIND_PD);
  }
}

void fab_reap(uint32_t slot)
{
  struct fab_process *process = &fab->process[slot];
  fab_lock(&fab->lock);
  /* Another process may have reaped the slot meanwhile, and a new process may have it. */
  if (atomic_load(&process->state) != FAB_SLOT_FREE && (slot == fab_slot || !fab_slot_held(slot))) {
    fab_log(2, "process %d has ended: its objects go", process->pid);
    fab_reap_qps(slot);
    fab_reap_srqs(slot);
    fab_reap_mrs(slot);
    fab_reap_cqs(slot);
    fab_reap_pds(slot);
    /* Last: while an object was there, somebody might have been using its ring. */
    for (uint32_t page = 0; page < FAB_PAGES; page++) {
      if (fab->page_owner[page] == slot + 1)
        fab->page_owner[page] = 0;
    }
    fab->page_cursor = 0;
    atomic_store(&process->state, FAB_SLOT_FREE);
  }
  fab_unlock(&fab->lock);
  /* The process may have died just before it would have woken one of these. */
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    if (i != slot && atomic_load(&fab->process[i].state) == FAB_SLOT_USED)
      fab_kick(i);
  }
}

void fab_patrol(void)
{
  static uint32_t next;
  for (uint32_t tried = 0; tried < FAB_PROCESSES; tried++) {
    uint32_t i = next++ % FAB_PROCESSES;
    if (i == fab_slot || atomic_load(&fab->process[i].state) != FAB_SLOT_USED)
      continue;
    fab_is_dead(i);
    return;
  }
}

void fab_reap_all(void)
{
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    if (atomic_load(&fab->process[i].state) == FAB_SLOT_USED)
      fab_is_dead(i);
  }
}
