// SPDX-License-Identifier: Apache-2.0
// Protection domains, thread domains, memory regions and windows.
#include "front.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
  struct sim_pd *pd = sim_pd_alloc(sim_context_of(context));

  return pd ? &pd->pd : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
  return sim_pd_free(sim_pd_of(pd));
}

// A thread domain promises that one thread at a time posts: a lock less, which the simulator takes
// all the same.
struct ibv_td *front_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
  if (attr->comp_mask)
    return SIM_FAIL(EINVAL, NULL);
  struct ibv_td *td = calloc(1, sizeof(*td));
  if (!td)
    return SIM_FAIL(ENOMEM, NULL);
  td->context = context;
  return td;
}

int front_dealloc_td(struct ibv_td *td)
{
  free(td);
  return 0;
}

struct ibv_pd *front_alloc_parent_domain(struct ibv_context *context,
                                         struct ibv_parent_domain_init_attr *attr)
{
  const uint32_t known =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

  if (!attr->pd || attr->pd->context != context || attr->comp_mask & ~known)
    return SIM_FAIL(EINVAL, NULL);
  // Queues lie in the fabric, where peers reach them, never in the program's own memory.
  if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS)
    return SIM_FAIL(EOPNOTSUPP, NULL);
  struct sim_pd *pd = sim_pd_alloc_child(sim_pd_of(attr->pd));
  return pd ? &pd->pd : NULL;
}

static struct ibv_mr *front_domains_reg(struct ibv_pd *pd, const struct sim_mr_init *init)
{
  sim_command(pd->context);
  struct sim_mr *mr = sim_mr_reg(sim_pd_of(pd), init);

  return mr ? &mr->mr : NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
  // Optional flags are hints that a device may not know.
  const struct sim_mr_init init = {
      .addr = (uintptr_t)addr,
      .length = length,
      .iova = iova,
      .access = access & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE,
  };

  return front_domains_reg(pd, &init);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                               int access)
{
  return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
  return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
  const struct sim_mr_init init = {
      .length = length,
      .iova = iova,
      .access = (uint32_t)access & ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE,
      .dmabuf = true,
      .fd = fd,
      .fd_offset = offset,
  };

  return front_domains_reg(pd, &init);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access)
{
  const struct sim_mr_init init = {
      .addr = (uintptr_t)addr,
      .length = length,
      .iova = (uintptr_t)addr,
      .access = (uint32_t)access & ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE,
  };
  const int all =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;

  if (!flags || flags & ~all || (flags & IBV_REREG_MR_CHANGE_PD && !pd) ||
      (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length)))
    return SIM_FAIL(EINVAL, IBV_REREG_MR_ERR_INPUT);
  int error = sim_mr_rereg(sim_mr_of(mr), flags, pd ? sim_pd_of(pd) : NULL, &init);
  return error ? SIM_FAIL(error, IBV_REREG_MR_ERR_CMD) : 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
  sim_command(mr->context);
  return sim_mr_dereg(sim_mr_of(mr));
}

struct ibv_mw *front_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
  struct sim_mw *mw = sim_mw_alloc(sim_pd_of(pd), type);

  return mw ? &mw->mw : NULL;
}

int front_dealloc_mw(struct ibv_mw *mw)
{
  return sim_mw_free(sim_mw_of(mw));
}

// A window of type 1 is bound by the library: a work request with a key that it chooses.
int front_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
  struct ibv_send_wr wr = {
      .wr_id = bind->wr_id,
      .opcode = IBV_WR_BIND_MW,
      .send_flags = bind->send_flags,
      .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info},
  };
  struct ibv_send_wr *bad;
  int error = front_post_send(qp, &wr, &bad);

  if (!error)
    mw->rkey = wr.bind_mw.rkey;
  return error;
}
