// SPDX-License-Identifier: Apache-2.0
// Queue pairs and shared receive queues: made, changed, asked.
#include "front.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ibv_qp *front_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
  sim_command(context);
  struct sim_qp *qp = sim_qp_create(sim_context_of(context), attr, NULL);

  if (qp)
    qp = sim_front_qp(qp, attr);
  return qp ? &qp->qp : NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
  struct ibv_qp_init_attr_ex ex;

  // The extended structure begins as the old one does, which is all of it that the caller has.
  memset(&ex, 0, sizeof(ex));
  memcpy(&ex, attr, sizeof(*attr));
  ex.comp_mask = IBV_QP_INIT_ATTR_PD;
  ex.pd = pd;
  struct ibv_qp *qp = front_create_qp_ex(pd->context, &ex);
  if (qp)
    attr->cap = ex.cap;
  return qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
  sim_command(qp->context);
  return sim_qp_modify(sim_qp_of(qp), attr, attr_mask);
}

// The mask is a hint: everything is given, as mlx5 does.
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr)
{
  (void)attr_mask;
  return sim_qp_query(sim_qp_of(qp), attr, init_attr);
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
  return sim_ece_query(sim_qp_of(qp), ece);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
  return sim_ece_set(sim_qp_of(qp), ece);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
  void *front = sim_qp_of(qp)->front;

  sim_command(qp->context);
  int error = sim_qp_destroy(sim_qp_of(qp));

  if (!error)
    free(front);
  return error;
}

// Bytes are moved by memcpy and the kernel: in no order that could be promised.
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
  (void)qp;
  (void)op;
  (void)flags;
  return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
  return sim_qp_attach_mcast(sim_qp_of(qp), gid, lid, true);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
  return sim_qp_attach_mcast(sim_qp_of(qp), gid, lid, false);
}

struct ibv_srq *front_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
  struct sim_srq *srq = sim_srq_create(sim_context_of(context), attr);

  return srq ? &srq->srq : NULL;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
  struct ibv_srq_init_attr_ex ex = {
      .srq_context = attr->srq_context,
      .attr = attr->attr,
      .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
      .srq_type = IBV_SRQT_BASIC,
      .pd = pd,
  };
  struct ibv_srq *srq = front_create_srq_ex(pd->context, &ex);

  if (srq)
    attr->attr = ex.attr;
  return srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask)
{
  return sim_srq_modify(sim_srq_of(srq), attr, attr_mask);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
  return sim_srq_query(sim_srq_of(srq), attr);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
  return sim_srq_destroy(sim_srq_of(srq));
}

int front_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
  *number = sim_srq_of(srq)->number;
  return 0;
}
