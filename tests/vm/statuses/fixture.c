/* SPDX-License-Identifier: Apache-2.0 */
/* The device, and pairs of connected queue pairs on it. */
#include "statuses.h"

#include <fcntl.h>

struct device device;

void require(const char *what, int succeeded)
{
  if (succeeded)
    return;
  fprintf(stderr, "statuses: %s: %s\n", what, strerror(errno));
  exit(1);
}

static bool is_ipv4(const union ibv_gid *gid)
{
  static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

/* RoCE v2 with an IPv4 address where there is one, else the first entry. */
static int gid_choose(void)
{
  for (int index = 0; index < device.port.gid_tbl_len; index++) {
    struct ibv_gid_entry entry;
    if (ibv_query_gid_ex(device.context, 1, index, &entry, 0) == 0 &&
        entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(&entry.gid))
      return index;
  }
  return 0;
}

void device_open(const char *name, int gid_index)
{
  int count = 0;
  struct ibv_device **list = ibv_get_device_list(&count);
  require("ibv_get_device_list", list != NULL);
  for (int i = 0; i < count && !device.context; i++) {
    if (!name || strcmp(name, ibv_get_device_name(list[i])) == 0)
      device.context = ibv_open_device(list[i]);
  }
  errno = device.context ? 0 : ENODEV;
  require(name ? name : "the first device", device.context != NULL);
  ibv_free_device_list(list);
  require("ibv_query_device", ibv_query_device(device.context, &device.attr) == 0);
  require("ibv_query_port", ibv_query_port(device.context, 1, &device.port) == 0);
  device.gid_index = gid_index >= 0 ? gid_index : gid_choose();
  require("ibv_query_gid", ibv_query_gid(device.context, 1, device.gid_index, &device.gid) == 0);
  int flags = fcntl(device.context->async_fd, F_GETFL);
  require("async_fd", fcntl(device.context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

struct setup setup_usual(void)
{
  int mr = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
           IBV_ACCESS_REMOTE_ATOMIC;
  unsigned int qp = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  return (struct setup){
      .type = IBV_QPT_RC,
      .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2},
      .cq_depth = CQ_DEPTH,
      .state = {IBV_QPS_RTS, IBV_QPS_RTS},
      .mr_access = {mr, mr},
      .qp_access = {qp, qp},
      .mtu = {IBV_MTU_1024, IBV_MTU_1024},
      .sq_psn = {100, 200},
      .rq_psn = {200, 100},
      .rd_atomic = {4, 4},
      .dest_rd_atomic = {4, 4},
      .timeout = 10, /* 4 ms */
      .retry_cnt = 3,
      .rnr_retry = 3,
      .min_rnr_timer = 12, /* 0.64 ms */
      .hop_limit = 64,
  };
}

struct ibv_qp *qp_create(const struct end *end, const struct setup *setup)
{
  struct ibv_qp_init_attr init = {
      .send_cq = end->cq,
      .recv_cq = end->cq,
      .srq = end->srq,
      .cap = setup->cap,
      .qp_type = setup->type,
      .sq_sig_all = !setup->unsignalled,
  };
  return ibv_create_qp(end->pd, &init);
}

static void end_open(struct end *end, const struct setup *setup, int which)
{
  end->pd = ibv_alloc_pd(device.context);
  require("ibv_alloc_pd", end->pd != NULL);
  end->channel = ibv_create_comp_channel(device.context);
  require("ibv_create_comp_channel", end->channel != NULL);
  int flags = fcntl(end->channel->fd, F_GETFL);
  require("channel", fcntl(end->channel->fd, F_SETFL, flags | O_NONBLOCK) == 0);
  end->cq = ibv_create_cq(device.context, setup->cq_depth, NULL, end->channel, 0);
  require("ibv_create_cq", end->cq != NULL);
  if (setup->srq && which == RSP) {
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 1}};
    end->srq = ibv_create_srq(end->pd, &init);
    require("ibv_create_srq", end->srq != NULL);
  }
  end->qp = qp_create(end, setup);
  require("ibv_create_qp", end->qp != NULL);
  end->memory = aligned_alloc(4096, REGION_BYTES);
  require("aligned_alloc", end->memory != NULL);
  memset(end->memory, which + 1, REGION_BYTES);
  end->mr = ibv_reg_mr(end->pd, end->memory, REGION_BYTES, setup->mr_access[which]);
  require("ibv_reg_mr", end->mr != NULL);
}

void pair_open(struct pair *pair, const struct setup *setup)
{
  memset(pair, 0, sizeof(*pair));
  pair->setup = *setup;
  for (int which = REQ; which <= RSP; which++)
    end_open(&pair->end[which], setup, which);
  for (int which = REQ; which <= RSP; which++) {
    errno = qp_bring(pair, which, setup->state[which]);
    require("ibv_modify_qp", errno == 0);
  }
}

void pair_close(struct pair *pair)
{
  for (int which = REQ; which <= RSP; which++) {
    struct end *end = &pair->end[which];
    require("ibv_destroy_qp", !end->qp || ibv_destroy_qp(end->qp) == 0);
    require("ibv_destroy_srq", !end->srq || ibv_destroy_srq(end->srq) == 0);
    require("ibv_dereg_mr", !end->mr || ibv_dereg_mr(end->mr) == 0);
    require("ibv_destroy_cq", !end->cq || ibv_destroy_cq(end->cq) == 0);
    require("ibv_destroy_comp_channel", ibv_destroy_comp_channel(end->channel) == 0);
    require("ibv_dealloc_pd", ibv_dealloc_pd(end->pd) == 0);
    free(end->memory);
  }
}

static int init_attributes(const struct setup *setup, int which, struct ibv_qp_attr *attr)
{
  attr->port_num = 1;
  attr->pkey_index = 0;
  if (setup->type == IBV_QPT_UD) {
    attr->qkey = 0x11111111;
    return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  }
  attr->qp_access_flags = setup->qp_access[which];
  return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static int rtr_attributes(const struct pair *pair, int which, struct ibv_qp_attr *attr)
{
  const struct setup *setup = &pair->setup;
  if (setup->type == IBV_QPT_UD)
    return IBV_QP_STATE;
  bool elsewhere = which == REQ && setup->dest_qp_num;
  attr->dest_qp_num = elsewhere ? setup->dest_qp_num : pair->end[1 - which].qp->qp_num;
  attr->path_mtu = setup->mtu[which];
  attr->rq_psn = setup->rq_psn[which];
  attr->ah_attr = (struct ibv_ah_attr){
      .is_global = 1,
      .port_num = 1,
      .dlid = device.port.lid,
      .grh = {.dgid = device.gid,
              .sgid_index = (uint8_t)device.gid_index,
              .hop_limit = setup->hop_limit},
  };
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (setup->type == IBV_QPT_UC)
    return mask;
  attr->max_dest_rd_atomic = setup->dest_rd_atomic[which];
  attr->min_rnr_timer = setup->min_rnr_timer;
  return mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int rts_attributes(const struct setup *setup, int which, struct ibv_qp_attr *attr)
{
  attr->sq_psn = setup->sq_psn[which];
  if (setup->type != IBV_QPT_RC)
    return IBV_QP_STATE | IBV_QP_SQ_PSN;
  attr->timeout = setup->timeout;
  attr->retry_cnt = setup->retry_cnt;
  attr->rnr_retry = setup->rnr_retry;
  attr->max_rd_atomic = setup->rd_atomic[which];
  return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_MAX_QP_RD_ATOMIC;
}

int step_attributes(const struct pair *pair, int which, enum ibv_qp_state to,
                    struct ibv_qp_attr *attr)
{
  memset(attr, 0, sizeof(*attr));
  attr->qp_state = to;
  if (to == IBV_QPS_INIT)
    return init_attributes(&pair->setup, which, attr);
  if (to == IBV_QPS_RTR)
    return rtr_attributes(pair, which, attr);
  if (to == IBV_QPS_RTS)
    return rts_attributes(&pair->setup, which, attr);
  return IBV_QP_STATE;
}

int qp_bring(struct pair *pair, int which, enum ibv_qp_state to)
{
  static const enum ibv_qp_state steps[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
  for (size_t i = 0; i < COUNT_OF(steps) && steps[i] <= to; i++) {
    struct ibv_qp_attr attr;
    int mask = step_attributes(pair, which, steps[i], &attr);
    int refused = ibv_modify_qp(pair->end[which].qp, &attr, mask);
    if (refused)
      return refused;
  }
  return 0;
}
