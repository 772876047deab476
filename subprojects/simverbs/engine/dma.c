/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up memory by its keys, and copies to and from it as the device's DMA does. */
#include "engine.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static bool sim_dma_within(const struct fab_mr *mr, uint64_t address, uint64_t length)
{
  return address >= mr->iova && length <= mr->length && address - mr->iova <= mr->length - length;
}

enum ibv_wc_status sim_local(const struct fab_qp *qp, const struct ibv_sge *sge, uint32_t access,
                             struct sim_bytes *bytes)
{
  const struct fab_mr *mr = fab_mr_of(sge->lkey);
  if (!mr || mr->is_window || !mr->valid || mr->device != qp->device || mr->owner != qp->owner ||
      mr->pd != qp->pd || (mr->access & access) != access ||
      !sim_dma_within(mr, sge->addr, sge->length))
    return IBV_WC_LOC_PROT_ERR;
  *bytes = (struct sim_bytes){
      .slot = qp->owner, .address = mr->address + (sge->addr - mr->iova), .length = sge->length};
  return IBV_WC_SUCCESS;
}

static bool sim_dma_allowed(const struct fab_qp *qp, const struct fab_mr *mr, uint32_t access)
{
  if (!mr->valid || mr->device != qp->device || mr->owner != qp->owner || mr->pd != qp->pd)
    return false;
  if (mr->is_window == IBV_MW_TYPE_2 && mr->window_qp != qp->number)
    return false;
  return (mr->access & access) == access;
}

enum ibv_wc_status sim_remote(const struct fab_qp *qp, uint32_t rkey, uint64_t address,
                              uint64_t length, uint32_t access, struct fab_mr **mr,
                              struct sim_bytes *bytes)
{
  struct fab_mr *at = &fab->mr[fab_mr_index(rkey)];
  if (!rkey || atomic_load_explicit(&at->number, memory_order_acquire) != rkey)
    return IBV_WC_REM_ACCESS_ERR;
  fab_lock(&at->lock);
  if (at->number != rkey || !sim_dma_allowed(qp, at, access) ||
      !sim_dma_within(at, address, length)) {
    fab_unlock(&at->lock);
    return IBV_WC_REM_ACCESS_ERR;
  }
  *mr = at;
  *bytes = (struct sim_bytes){
      .slot = at->owner, .address = at->address + (address - at->iova), .length = length};
  return IBV_WC_SUCCESS;
}

void sim_release(struct fab_mr *mr)
{
  fab_unlock(&mr->lock);
}

/* Our runs from byte `skip` on, as far as `length` goes. */
static unsigned sim_dma_cut(const struct sim_runs *ours, uint64_t skip, uint64_t length,
                            struct iovec *to)
{
  unsigned n = 0;
  for (unsigned i = 0; i < ours->count && length; i++) {
    const struct sim_bytes *run = &ours->run[i];
    if (skip >= run->length) {
      skip -= run->length;
      continue;
    }
    uint64_t take = run->length - skip < length ? run->length - skip : length;
    to[n++] = (struct iovec){(void *)(uintptr_t)(run->address + skip), take};
    length -= take;
    skip = 0;
  }
  return n;
}

static void sim_dma_here(const struct iovec *ours, unsigned n, char *theirs, bool to_them)
{
  for (unsigned i = 0; i < n; i++) {
    /* A buffer may be sent to itself. */
    if (to_them)
      memmove(theirs, ours[i].iov_base, ours[i].iov_len);
    else
      memmove(ours[i].iov_base, theirs, ours[i].iov_len);
    theirs += ours[i].iov_len;
  }
}

static int sim_dma_there(const struct sim_bytes *theirs, const struct iovec *ours, unsigned n,
                         bool to_them)
{
  struct iovec other = {(void *)(uintptr_t)theirs->address, theirs->length};
  pid_t pid = fab->process[theirs->slot].pid;
  ssize_t moved = to_them ? process_vm_writev(pid, ours, n, &other, 1, 0)
                          : process_vm_readv(pid, ours, n, &other, 1, 0);
  if (moved == (ssize_t)theirs->length)
    return 0;
  int error = moved < 0 ? errno : EFAULT;
  if (error == EPERM)
    fab_log(1,
            "process %d may not be written to: run both as one user, and with Yama's "
            "kernel.yama.ptrace_scope below 2, or with CAP_SYS_PTRACE",
            pid);
  else if (error != ESRCH)
    fab_log(1, "moving %llu bytes at 0x%llx of process %d: %s; is registered memory unmapped?",
            (unsigned long long)theirs->length, (unsigned long long)theirs->address, pid,
            strerror(error));
  return error;
}

int sim_dma(const struct sim_runs *ours, uint64_t skip, const struct sim_bytes *theirs,
            bool to_them)
{
  struct iovec iov[SIM_MAX_RUNS];
  if (!theirs->length)
    return 0;
  unsigned n = sim_dma_cut(ours, skip, theirs->length, iov);
  if (theirs->slot != fab_slot)
    return sim_dma_there(theirs, iov, n, to_them);
  sim_dma_here(iov, n, (char *)(uintptr_t)theirs->address, to_them);
  return 0;
}
