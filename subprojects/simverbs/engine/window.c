/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows, and keys that are taken back by a request. */
#include "engine.h"

static bool sim_window_covers(const struct fab_mr *mr, const struct ibv_mw_bind_info *bind)
{
  return bind->addr >= mr->iova && bind->length <= mr->length &&
         bind->addr - mr->iova <= mr->length - bind->length;
}

static bool sim_window_may_bind(const struct fab_qp *qp, const struct fab_mr *window,
                                const struct fab_mr *mr, const struct ibv_mw_bind_info *bind)
{
  uint32_t writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (window->pd != qp->pd || mr->pd != qp->pd || !(mr->access & IBV_ACCESS_MW_BIND))
    return false;
  if ((bind->mw_access_flags & writes) && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
    return false;
  return sim_window_covers(mr, bind);
}

struct sim_outcome sim_bind(struct sim_qp *qp, const struct sim_slot *slot)
{
  const struct ibv_mw_bind_info *bind = &slot->bind;
  struct fab_mr *window = &fab->mr[slot->mw->index];
  struct fab_mr *mr = bind->mr ? &fab->mr[sim_mr_of(bind->mr)->index] : NULL;
  bool again = window->is_window == IBV_MW_TYPE_2 && window->valid;
  if (again || (bind->length && (!mr || !sim_window_may_bind(sim_fab_qp(qp), window, mr, bind))))
    return sim_error(IBV_WC_MW_BIND_ERR);
  sim_mw_unbind(window);
  if (mr && bind->length) {
    fab_lock(&mr->lock);
    mr->windows++;
    fab_unlock(&mr->lock);
  }
  fab_lock(&window->lock);
  if (bind->length) {
    window->window_of = sim_mr_of(bind->mr)->index + 1;
    window->window_qp = qp->number;
    window->iova = bind->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : bind->addr;
    window->length = bind->length;
    window->address = mr->address + (bind->addr - mr->iova);
    window->access = bind->mw_access_flags;
    window->valid = 1;
  }
  window->last_key = slot->imm_or_rkey;
  atomic_store(&window->number, slot->imm_or_rkey);
  fab_unlock(&window->lock);
  return (struct sim_outcome){.fate = SIM_DONE};
}

struct sim_outcome sim_invalidate_local(struct sim_qp *qp, uint32_t rkey)
{
  struct fab_mr *window = fab_mr_of(rkey);
  if (!window || window->is_window != IBV_MW_TYPE_2 || window->pd != sim_fab_qp(qp)->pd)
    return sim_error(IBV_WC_LOC_PROT_ERR);
  sim_mw_unbind(window);
  return (struct sim_outcome){.fate = SIM_DONE};
}

bool sim_invalidate_remote(struct fab_qp *to, uint32_t rkey)
{
  struct fab_mr *window = fab_mr_of(rkey);
  if (!window || window->is_window != IBV_MW_TYPE_2 || window->owner != to->owner ||
      window->pd != to->pd || !window->valid || window->window_qp != to->number)
    return false;
  sim_mw_unbind(window);
  return true;
}
