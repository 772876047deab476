// SPDX-License-Identifier: Apache-2.0
// Declarations that the files of front/ (and mlx5/) share: each fills in the function pointers of
// one kind of object, so that verbs.h's inline functions lead here.
#ifndef SIM_FRONT_H
#define SIM_FRONT_H

#include "export.h"
#include "sim.h"

// Gives an error as the functions do that return -1 or NULL.
#define SIM_FAIL(error, value) (errno = (error), (value))

void front_context_fill(struct sim_context *context);
void front_refuse_ops(struct verbs_context *verbs);
void front_cq_fill(struct sim_cq *cq);

// Allocates what the WR being built needs, fills ibv_qp_ex when the attributes declare operations.
// On failure the QP is destroyed, errno set, and NULL returned.
SIM_EXPORT struct sim_qp *sim_front_qp(struct sim_qp *qp, const struct ibv_qp_init_attr_ex *attr);

// ibv_context_ops
int front_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int front_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int front_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int front_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int front_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_mw *front_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int front_dealloc_mw(struct ibv_mw *mw);
int front_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

// verbs_context
int front_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                     size_t attr_len);
int front_query_device_ex(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *attr, size_t attr_len);
int front_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
struct ibv_cq_ex *front_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int front_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_qp *front_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *front_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int front_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_td *front_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int front_dealloc_td(struct ibv_td *td);
struct ibv_pd *front_alloc_parent_domain(struct ibv_context *context,
                                         struct ibv_parent_domain_init_attr *attr);

#endif
