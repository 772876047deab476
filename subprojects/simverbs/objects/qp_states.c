/* SPDX-License-Identifier: Apache-2.0 */
/* Which attributes a transition needs and takes: the table of the kernel's ib_modify_qp_is_ok, and
 * for dynamically connected ones mlx5's own. */
#include "objects.h"

#include <errno.h>

enum {
  CUR = IBV_QP_CUR_STATE,
  NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
  ACCESS = IBV_QP_ACCESS_FLAGS,
  PKEY = IBV_QP_PKEY_INDEX,
  PORT = IBV_QP_PORT,
  QKEY = IBV_QP_QKEY,
  AV = IBV_QP_AV,
  MTU = IBV_QP_PATH_MTU,
  TIMEOUT = IBV_QP_TIMEOUT,
  RETRY = IBV_QP_RETRY_CNT,
  RNR = IBV_QP_RNR_RETRY,
  RQ_PSN = IBV_QP_RQ_PSN,
  RD = IBV_QP_MAX_QP_RD_ATOMIC,
  ALT = IBV_QP_ALT_PATH,
  MIN_RNR = IBV_QP_MIN_RNR_TIMER,
  SQ_PSN = IBV_QP_SQ_PSN,
  DEST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
  MIG = IBV_QP_PATH_MIG_STATE,
  DEST = IBV_QP_DEST_QPN,
};

struct transition {
  uint8_t kind, from, to;
  int required, optional;
};

static const struct transition table[] = {
    {SIM_RC, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | ACCESS, 0},
    {SIM_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | ACCESS},
    {SIM_RC, IBV_QPS_INIT, IBV_QPS_RTR, AV | MTU | DEST | RQ_PSN | DEST_RD | MIN_RNR,
     ALT | ACCESS | PKEY},
    {SIM_RC, IBV_QPS_RTR, IBV_QPS_RTS, TIMEOUT | RETRY | RNR | SQ_PSN | RD,
     CUR | ALT | ACCESS | MIN_RNR | MIG},
    {SIM_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | ACCESS | ALT | MIG | MIN_RNR},
    {SIM_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0, NOTIFY},
    {SIM_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | ALT | ACCESS | MIN_RNR | MIG},
    {SIM_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
     PORT | AV | TIMEOUT | RETRY | RNR | RD | DEST_RD | ALT | ACCESS | PKEY | MIN_RNR | MIG},
    {SIM_UC, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | ACCESS, 0},
    {SIM_UC, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | ACCESS},
    {SIM_UC, IBV_QPS_INIT, IBV_QPS_RTR, AV | MTU | DEST | RQ_PSN, ALT | ACCESS | PKEY},
    {SIM_UC, IBV_QPS_RTR, IBV_QPS_RTS, SQ_PSN, CUR | ALT | ACCESS | MIG},
    {SIM_UC, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | ACCESS | ALT | MIG},
    {SIM_UC, IBV_QPS_RTS, IBV_QPS_SQD, 0, NOTIFY},
    {SIM_UC, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | ALT | ACCESS | MIG},
    {SIM_UC, IBV_QPS_SQD, IBV_QPS_SQD, 0, AV | ALT | ACCESS | PKEY | MIG},
    {SIM_UC, IBV_QPS_SQE, IBV_QPS_RTS, 0, CUR | ACCESS},
    {SIM_UD, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | QKEY, 0},
    {SIM_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT | QKEY},
    {SIM_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, PKEY | QKEY},
    {SIM_UD, IBV_QPS_RTR, IBV_QPS_RTS, SQ_PSN, CUR | QKEY},
    {SIM_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, CUR | QKEY},
    {SIM_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0, NOTIFY},
    {SIM_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, CUR | QKEY},
    {SIM_UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, PKEY | QKEY},
    {SIM_UD, IBV_QPS_SQE, IBV_QPS_RTS, 0, CUR | QKEY},
    {SIM_DCI, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT, 0},
    {SIM_DCI, IBV_QPS_INIT, IBV_QPS_INIT, 0, PKEY | PORT},
    {SIM_DCI, IBV_QPS_INIT, IBV_QPS_RTR, MTU, PKEY | AV},
    {SIM_DCI, IBV_QPS_RTR, IBV_QPS_RTS, TIMEOUT | RETRY | RNR | RD | SQ_PSN, MIN_RNR},
    {SIM_DCI, IBV_QPS_RTS, IBV_QPS_RTS, 0, MIN_RNR},
    {SIM_DCT, IBV_QPS_RESET, IBV_QPS_INIT, PKEY | PORT | ACCESS, 0},
    {SIM_DCT, IBV_QPS_INIT, IBV_QPS_RTR, MIN_RNR | AV | MTU, 0},
};

static const struct transition *sim_qp_states_find(enum sim_qp_kind kind, enum ibv_qp_state from,
                                                   enum ibv_qp_state to)
{
  static const struct transition any = {.required = 0};
  for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    const struct transition *at = &table[i];
    if (at->kind == kind && at->from == from && at->to == to)
      return at;
  }
  if (kind == SIM_DCT)
    return NULL;
  /* With nothing but the state: to RESET from anywhere, to ERR from all but RESET. */
  if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
    return &any;
  return NULL;
}

static int sim_qp_states_check_path(const struct sim_qp *qp, const struct ibv_qp_attr *attr)
{
  int error = sim_ah_check(qp->qp.context, &attr->ah_attr);
  bool connected = qp->kind == SIM_RC || qp->kind == SIM_UC;
  return error || !connected ? error : sim_ah_resolve(qp->qp.context, &attr->ah_attr);
}

static bool sim_qp_states_ranges_hold(const struct sim_qp *qp, const struct ibv_qp_attr *attr,
                                      int mask)
{
  const struct fab_caps *caps = &sim_fab_device(qp->qp.context)->caps;
  unsigned port_num = mask & PORT ? attr->port_num : qp->attr.port_num;
  const struct fab_port *port = fab_port_of(sim_device_number(qp->qp.context), port_num);
  if ((mask & (PORT | AV | MTU)) && !port)
    return false;
  if ((mask & PKEY) && attr->pkey_index >= 1)
    return false;
  if ((mask & MTU) && (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096))
    return false;
  if ((mask & RD) && attr->max_rd_atomic > caps->max_rd_atomic)
    return false;
  if ((mask & DEST_RD) && attr->max_dest_rd_atomic > caps->max_dest_rd_atomic)
    return false;
  if (((mask & TIMEOUT) && attr->timeout > 31) || ((mask & RETRY) && attr->retry_cnt > 7) ||
      ((mask & RNR) && attr->rnr_retry > 7) || ((mask & MIN_RNR) && attr->min_rnr_timer > 31))
    return false;
  return !((mask & DEST) && attr->dest_qp_num > 0xffffff);
}

int sim_modify_check(const struct sim_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
                     const struct ibv_qp_attr *attr, int mask)
{
  if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
    return EINVAL;
  const struct transition *at = sim_qp_states_find(qp->kind, from, to);
  int given = mask & ~IBV_QP_STATE;
  if (!at || (given & at->required) != at->required || (given & ~(at->required | at->optional)))
    return EINVAL;
  /* Path migration is not built; the state that says so is accepted. */
  if ((mask & ALT) || ((mask & MIG) && attr->path_mig_state != IBV_MIG_MIGRATED))
    return EINVAL;
  if (!sim_qp_states_ranges_hold(qp, attr, mask))
    return EINVAL;
  return mask & AV ? sim_qp_states_check_path(qp, attr) : 0;
}
