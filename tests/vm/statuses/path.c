/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that do not answer, and ends that disagree about the connection. */
#include "statuses.h"

static void send_into(const char *name, const struct setup *setup, uint32_t length,
                      enum ibv_wr_opcode opcode)
{
  struct pair pair;
  pair_open(&pair, setup);
  if (setup->state[RSP] >= IBV_QPS_RTR)
    require("ibv_post_recv", receive_post(&pair.end[RSP], REGION_BYTES) == 0);
  struct request request = request_make(&pair, opcode);
  request.sge.length = length;
  struct request follower = request_make(&pair, IBV_WR_RDMA_WRITE);
  int refused = request_post(&pair.end[REQ], &request);
  for (int i = 0; i < FOLLOWERS && !refused; i++)
    refused = request_post(&pair.end[REQ], &follower);
  if (refused)
    tell(name, "post %s", errno_name(refused));
  else
    tell_outcome(name, &pair, 1 + FOLLOWERS, 0);
  pair_close(&pair);
}

static void dead_peer(int retry_cnt)
{
  struct setup setup = setup_usual();
  setup.retry_cnt = (uint8_t)retry_cnt;
  struct pair pair;
  pair_open(&pair, &setup);
  require("ibv_destroy_qp", ibv_destroy_qp(pair.end[RSP].qp) == 0);
  pair.end[RSP].qp = NULL;
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  for (int i = 0; i <= FOLLOWERS; i++)
    require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  char name[64];
  snprintf(name, sizeof(name), "path.dead-peer.retry-%d", retry_cnt);
  tell_outcome(name, &pair, 1 + FOLLOWERS, 0);
  pair_close(&pair);
}

static void responder_in(enum ibv_qp_state state)
{
  struct setup setup = setup_usual();
  bool error = state == IBV_QPS_ERR;
  setup.state[RSP] = error ? IBV_QPS_RTS : state;
  struct pair pair;
  pair_open(&pair, &setup);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  require("ibv_modify_qp", !error || ibv_modify_qp(pair.end[RSP].qp, &attr, IBV_QP_STATE) == 0);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  for (int i = 0; i <= FOLLOWERS; i++)
    require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  char name[64];
  snprintf(name, sizeof(name), "path.responder-in-%s", state_name(state));
  tell_outcome(name, &pair, 1 + FOLLOWERS, 0);
  pair_close(&pair);
}

static void psn(const char *name, int offset)
{
  struct setup setup = setup_usual();
  setup.rq_psn[RSP] = (uint32_t)((int)setup.rq_psn[RSP] + offset);
  send_into(name, &setup, 8, IBV_WR_SEND);
}

static void mtu(const char *name, enum ibv_mtu req, enum ibv_mtu rsp, uint32_t length,
                enum ibv_wr_opcode opcode)
{
  struct setup setup = setup_usual();
  setup.mtu[REQ] = req;
  setup.mtu[RSP] = rsp;
  send_into(name, &setup, length, opcode);
}

/* A third queue pair that is connected to nobody, or whose peer is another. */
static void wrong_qpn(void)
{
  struct setup setup = setup_usual();
  struct pair other;
  pair_open(&other, &setup);
  setup.dest_qp_num = other.end[RSP].qp->qp_num;
  send_into("path.dest-qpn-of-anothers-peer", &setup, 8, IBV_WR_SEND);
  pair_close(&other);
  setup.dest_qp_num = 0xfffff0;
  send_into("path.dest-qpn-of-nobody", &setup, 8, IBV_WR_SEND);
}

/* The answer of INIT to RTR where the address vector is wrong. */
static void address(const char *name, void (*spoil)(struct ibv_qp_attr *))
{
  struct setup setup = setup_usual();
  setup.state[REQ] = IBV_QPS_INIT;
  struct pair pair;
  pair_open(&pair, &setup);
  struct ibv_qp_attr attr;
  int mask = step_attributes(&pair, REQ, IBV_QPS_RTR, &attr);
  spoil(&attr);
  int refused = ibv_modify_qp(pair.end[REQ].qp, &attr, mask);
  tell_errno(name, refused);
  if (!refused) {
    mask = step_attributes(&pair, REQ, IBV_QPS_RTS, &attr);
    require("to RTS", ibv_modify_qp(pair.end[REQ].qp, &attr, mask) == 0);
    struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
    require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
    char then[64];
    snprintf(then, sizeof(then), "%s.then-write", name);
    tell_outcome(then, &pair, 1, 0);
  }
  pair_close(&pair);
}

static void gid_index_out_of_table(struct ibv_qp_attr *attr)
{
  attr->ah_attr.grh.sgid_index = 255;
}

static void gid_index_empty(struct ibv_qp_attr *attr)
{
  attr->ah_attr.grh.sgid_index = (uint8_t)(device.gid_index + 20);
}

static void gid_index_of_other_family(struct ibv_qp_attr *attr)
{
  attr->ah_attr.grh.sgid_index = device.gid_index ? 0 : 1;
}

static void gid_of_nobody(struct ibv_qp_attr *attr)
{
  attr->ah_attr.grh.dgid.raw[15] ^= 0x55;
}

static void gid_without_route(struct ibv_qp_attr *attr)
{
  attr->ah_attr.grh.dgid.raw[12] ^= 0xc0;
}

static void gid_zero(struct ibv_qp_attr *attr)
{
  memset(&attr->ah_attr.grh.dgid, 0, sizeof(attr->ah_attr.grh.dgid));
}

static void not_global(struct ibv_qp_attr *attr)
{
  attr->ah_attr.is_global = 0;
}

static void port_2(struct ibv_qp_attr *attr)
{
  attr->ah_attr.port_num = 2;
}

static void hop_limit_0(struct ibv_qp_attr *attr)
{
  attr->ah_attr.grh.hop_limit = 0;
}

static void hop_limit_1(struct ibv_qp_attr *attr)
{
  attr->ah_attr.grh.hop_limit = 1;
}

void family_path(void)
{
  static const int retries[] = {0, 1, 3, 6};
  for (size_t i = 0; i < COUNT_OF(retries); i++)
    dead_peer(retries[i]);
  responder_in(IBV_QPS_RESET);
  responder_in(IBV_QPS_INIT);
  responder_in(IBV_QPS_RTR);
  responder_in(IBV_QPS_ERR);
  psn("path.responder-expects-later-psn", 10);
  psn("path.responder-expects-earlier-psn", -10);
  wrong_qpn();
  mtu("path.mtu-larger-at-requester.short-send", IBV_MTU_1024, IBV_MTU_256, 64, IBV_WR_SEND);
  mtu("path.mtu-larger-at-requester.send", IBV_MTU_1024, IBV_MTU_256, 4096, IBV_WR_SEND);
  mtu("path.mtu-larger-at-requester.write", IBV_MTU_1024, IBV_MTU_256, 4096, IBV_WR_RDMA_WRITE);
  mtu("path.mtu-larger-at-requester.read", IBV_MTU_1024, IBV_MTU_256, 4096, IBV_WR_RDMA_READ);
  mtu("path.mtu-larger-at-responder.send", IBV_MTU_256, IBV_MTU_1024, 4096, IBV_WR_SEND);
  mtu("path.mtu-larger-at-responder.write", IBV_MTU_256, IBV_MTU_1024, 4096, IBV_WR_RDMA_WRITE);
  mtu("path.mtu-larger-at-responder.read", IBV_MTU_256, IBV_MTU_1024, 4096, IBV_WR_RDMA_READ);
  address("path.gid-index-out-of-table", gid_index_out_of_table);
  address("path.gid-index-empty", gid_index_empty);
  address("path.gid-index-of-other-family", gid_index_of_other_family);
  address("path.gid-of-nobody", gid_of_nobody);
  address("path.gid-without-route", gid_without_route);
  address("path.gid-zero", gid_zero);
  address("path.not-global", not_global);
  address("path.address-port-2", port_2);
  address("path.hop-limit-0", hop_limit_0);
  address("path.hop-limit-1", hop_limit_1);
}
