/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the context's own table that are refused. An entry that is NULL is refused by
 * verbs.h itself, without a word: these say what was asked for. */
#include "front.h"
#include "refused.h"

#define REFUSE(type, op, name, of, how)                                                            \
  static struct type *op(struct of *asked, struct how *wanted)                                     \
  {                                                                                                \
    (void)asked, (void)wanted;                                                                     \
    sim_refused(name);                                                                             \
    return NULL;                                                                                   \
  }

REFUSE(ibv_xrcd, front_refused_ops_open_xrcd, "ibv_open_xrcd", ibv_context, ibv_xrcd_init_attr)
REFUSE(ibv_qp, front_refused_ops_open_qp, "ibv_open_qp", ibv_context, ibv_qp_open_attr)
REFUSE(ibv_flow, front_refused_ops_create_flow, "ibv_create_flow", ibv_qp, ibv_flow_attr)
REFUSE(ibv_flow_action, front_refused_ops_create_esp, "ibv_create_flow_action_esp", ibv_context,
       ibv_flow_action_esp_attr)
REFUSE(ibv_dm, front_refused_ops_alloc_dm, "ibv_alloc_dm", ibv_context, ibv_alloc_dm_attr)
REFUSE(ibv_wq, front_refused_ops_create_wq, "ibv_create_wq", ibv_context, ibv_wq_init_attr)
REFUSE(ibv_rwq_ind_table, front_refused_ops_create_table, "ibv_create_rwq_ind_table", ibv_context,
       ibv_rwq_ind_table_init_attr)
REFUSE(ibv_counters, front_refused_ops_create_counters, "ibv_create_counters", ibv_context,
       ibv_counters_init_attr)

static struct ibv_mr *front_refused_ops_alloc_null_mr(struct ibv_pd *pd)
{
  (void)pd;
  sim_refused("ibv_alloc_null_mr");
  return NULL;
}

void front_refuse_ops(struct verbs_context *verbs)
{
  verbs->open_xrcd = front_refused_ops_open_xrcd;
  verbs->open_qp = front_refused_ops_open_qp;
  verbs->ibv_create_flow = front_refused_ops_create_flow;
  verbs->create_flow_action_esp = front_refused_ops_create_esp;
  verbs->alloc_dm = front_refused_ops_alloc_dm;
  verbs->create_wq = front_refused_ops_create_wq;
  verbs->create_rwq_ind_table = front_refused_ops_create_table;
  verbs->create_counters = front_refused_ops_create_counters;
  verbs->alloc_null_mr = front_refused_ops_alloc_null_mr;
}
