/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt to send a request: the initiator's part, up to the target's checks. */
#include "engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static bool sim_attempt_is_atomic(uint32_t opcode)
{
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static enum ibv_wc_status sim_attempt_gather(struct sim_qp *qp, struct sim_slot *slot,
                                             struct sim_runs *runs)
{
  const struct fab_qp *entry = sim_fab_qp(qp);
  if (slot->inline_length)
    runs->run[runs->count++] =
        (struct sim_bytes){fab_slot, (uintptr_t)sim_slot_inline(qp->sq, slot), slot->inline_length};
  bool written = slot->opcode == IBV_WR_RDMA_READ || sim_attempt_is_atomic(slot->opcode);
  for (uint32_t i = 0; i < slot->num_sge; i++) {
    if (!slot->sges[i].length)
      continue;
    enum ibv_wc_status status = sim_local(
        entry, &slot->sges[i], written ? IBV_ACCESS_LOCAL_WRITE : 0, &runs->run[runs->count++]);
    if (status)
      return status;
  }
  return IBV_WC_SUCCESS;
}

static enum ibv_wc_status sim_attempt_check(struct sim_qp *qp, const struct sim_slot *slot)
{
  const struct fab_device *device = sim_fab_device(qp->qp.context);
  const struct fab_port *port = fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num);
  if (slot->length > device->caps.max_msg_size)
    return IBV_WC_LOC_LEN_ERR;
  if (qp->kind == SIM_UD && slot->length > 128u << port->mtu)
    return IBV_WC_LOC_LEN_ERR;
  if (sim_attempt_is_atomic(slot->opcode) && slot->length != 8)
    return IBV_WC_LOC_LEN_ERR;
  if ((sim_attempt_is_atomic(slot->opcode) || slot->opcode == IBV_WR_RDMA_READ) &&
      !qp->attr.max_rd_atomic)
    return IBV_WC_LOC_QP_OP_ERR;
  if (sim_attempt_is_atomic(slot->opcode) && device->caps.atomic_cap == IBV_ATOMIC_NONE)
    return IBV_WC_LOC_QP_OP_ERR;
  return IBV_WC_SUCCESS;
}

/* Faults of the way, and their events; true if the try ends here. */
static bool sim_attempt_faulted(struct sim_qp *qp, struct sim_slot *slot,
                                struct sim_outcome *outcome)
{
  uint32_t device = sim_fab_qp(qp)->device;
  uint64_t delay_ns;
  int event;
  if (!slot->delayed && fab_fault_hits(FAB_FAULT_DELAY, device, qp->number, &delay_ns, NULL)) {
    slot->delayed = 1;
    *outcome = (struct sim_outcome){.fate = SIM_WAIT, .wait_ns = delay_ns};
    return true;
  }
  if (fab_fault_hits(FAB_FAULT_DROP, device, qp->number, NULL, NULL)) {
    fab_counted(fab_port_of(device, qp->attr.port_num), FAB_LOST_FAULT);
    *outcome = (struct sim_outcome){.fate = SIM_LOST};
    return true;
  }
  if (fab_fault_hits(FAB_FAULT_QP_EVENT, device, qp->number, NULL, &event))
    sim_qp_event(sim_fab_qp(qp), event);
  if (fab_fault_hits(FAB_FAULT_QP_ERROR, device, qp->number, NULL, NULL)) {
    sim_qp_lock(sim_fab_qp(qp));
    sim_qp_fail(sim_fab_qp(qp));
    fab_unlock(&sim_fab_qp(qp)->lock);
    sim_qp_event(sim_fab_qp(qp), IBV_EVENT_QP_FATAL);
    *outcome = (struct sim_outcome){.fate = SIM_LOST};
    return true;
  }
  if (fab_fault_hits(FAB_FAULT_CQ_ERROR, device, qp->number, NULL, NULL)) {
    sim_cq_fail(sim_fab_cq(sim_cq_of(qp->qp.send_cq)));
    *outcome = (struct sim_outcome){.fate = SIM_LOST};
    return true;
  }
  return false;
}

static struct sim_outcome sim_attempt_vanish(struct sim_qp *qp, enum fab_counter why)
{
  fab_counted(fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num), why);
  fab_log(2, "qp 0x%06x: a message is lost: %s", qp->number, fab_counter_names[why]);
  return (struct sim_outcome){.fate = SIM_LOST};
}

/* The way of a connected queue pair is looked up once a topology. */
static struct fab_path sim_attempt_path_of(struct sim_qp *qp, const struct ibv_ah_attr *ah,
                                           uint8_t mtu)
{
  struct sim_sq *sq = qp->sq;
  const struct fab_qp *entry = sim_fab_qp(qp);
  bool connected = qp->kind == SIM_RC || qp->kind == SIM_UC;
  uint32_t topology = atomic_load_explicit(&fab->topology, memory_order_acquire);
  if (connected && sq->path_topology == topology && sq->path.found)
    return sq->path;
  struct fab_path path = fab_route(entry->device, qp->attr.port_num, ah, mtu);
  sq->path = path;
  sq->path_topology = topology;
  return path;
}

/* Acknowledgements go by the target's own address vector. */
static bool sim_attempt_answers(const struct fab_qp *to, const struct sim_qp *qp)
{
  struct sim_sq *sq = qp->sq;
  if (sq->answer_topology == sq->path_topology && sq->answer_number == to->number)
    return true;
  struct fab_path back = fab_route(to->device, to->port, &to->ah, 1);
  const struct fab_qp *entry = sim_fab_qp(qp);
  if (!back.found || back.device != entry->device || back.port != entry->port)
    return false;
  sq->answer_topology = sq->path_topology;
  sq->answer_number = to->number;
  return true;
}

static uint8_t sim_attempt_gid_type(const struct fab_port *port, const struct ibv_ah_attr *ah)
{
  return port->gids[ah->grh.sgid_index % FAB_GIDS].type;
}

/* Both ends of a connection speak one version of RoCE: what comes in another is not theirs. */
static bool sim_attempt_types_agree(const struct sim_qp *qp, const struct ibv_ah_attr *ah,
                                    const struct fab_qp *to)
{
  const struct fab_port *from = fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num);
  if (from->link_layer != IBV_LINK_LAYER_ETHERNET)
    return true;
  return sim_attempt_gid_type(from, ah) ==
         sim_attempt_gid_type(fab_port_of(to->device, to->port), &to->ah);
}

/* Two members of one partition, of which one at least is full. */
static bool sim_attempt_partitions_agree(const struct sim_qp *qp, const struct fab_qp *to)
{
  const uint16_t from = fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num)->pkeys[0];
  const uint16_t at = fab_port_of(to->device, to->port)->pkeys[0];
  return !((from ^ at) & 0x7fff) && ((from | at) & 0x8000);
}

static uint32_t sim_attempt_packets_of(uint32_t length, uint8_t mtu)
{
  uint32_t bytes = 128u << mtu;
  return length ? (length + bytes - 1) / bytes : 1;
}

static bool sim_attempt_sizes_agree(const struct fab_qp *to, uint32_t length, uint8_t mtu)
{
  return length <= 128u << mtu ? length <= 128u << to->path_mtu : mtu == to->path_mtu;
}

/* Returns the counter of the target's port for a packet that it drops before any answer;
 * FAB_COUNTERS if it takes it. */
static enum fab_counter sim_attempt_refused(struct sim_qp *qp, const struct sim_message *message,
                                            const struct fab_qp *to)
{
  const struct sim_slot *slot = message->slot;
  enum ibv_qp_state state = to->state;
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_SQE)
    return FAB_LOST_QP_STATE;
  if (qp->kind != SIM_UD && !sim_attempt_types_agree(qp, message->ah, to))
    return FAB_LOST_GID_TYPE;
  if (!sim_attempt_partitions_agree(qp, to))
    return FAB_LOST_PKEY;
  switch (qp->kind) {
  case SIM_RC:
  case SIM_UC:
    if (to->kind != qp->kind || to->dest_qpn != qp->number || !sim_attempt_answers(to, qp))
      return FAB_LOST_PEER;
    if (!sim_attempt_sizes_agree(to, slot->length, (uint8_t)qp->attr.path_mtu))
      return FAB_LOST_MTU;
    if (to->ece != sim_fab_qp(qp)->ece)
      return FAB_LOST_ECE;
    return qp->kind == SIM_UC || to->rq_psn == qp->sq->psn ? FAB_COUNTERS : FAB_LOST_PSN;
  case SIM_UD: {
    uint32_t qkey = slot->remote_qkey & 0x80000000 ? qp->attr.qkey : slot->remote_qkey;
    if (to->kind != SIM_UD)
      return FAB_LOST_NO_QP;
    return to->qkey == qkey ? FAB_COUNTERS : FAB_LOST_KEY;
  }
  default:
    if (to->kind != SIM_DCT)
      return FAB_LOST_NO_QP;
    if (to->dct_key != slot->dc_key)
      return FAB_LOST_KEY;
    return sim_attempt_sizes_agree(to, slot->length, (uint8_t)qp->attr.path_mtu) ? FAB_COUNTERS
                                                                                 : FAB_LOST_MTU;
  }
}

static void sim_attempt_count(const struct sim_qp *qp, const struct fab_qp *to, uint32_t length)
{
  struct fab_port *from = fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num);
  struct fab_port *at = fab_port_of(to->device, to->port);
  atomic_fetch_add_explicit(&from->counters[FAB_TX_MESSAGES], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&from->counters[FAB_TX_BYTES], length, memory_order_relaxed);
  atomic_fetch_add_explicit(&at->counters[FAB_RX_MESSAGES], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&at->counters[FAB_RX_BYTES], length, memory_order_relaxed);
}

static struct sim_outcome sim_attempt_deliver(struct sim_qp *qp, struct fab_path path,
                                              uint32_t number, const struct sim_message *message)
{
  struct fab_qp *to = fab_qp_of(number);
  if (!to)
    return sim_attempt_vanish(qp, FAB_LOST_NO_QP);
  uint32_t owner = to->owner;
  /* Where no bytes are to move, nothing else would show it. */
  if (message->length ? fab_seems_dead(owner) : fab_is_dead(owner))
    return sim_attempt_vanish(qp, FAB_LOST_DEAD);
  sim_qp_lock(to);
  if (to->number != number || to->device != path.device || to->port != path.port) {
    fab_unlock(&to->lock);
    return sim_attempt_vanish(qp, FAB_LOST_NO_QP);
  }
  enum fab_counter why = sim_attempt_refused(qp, message, to);
  if (why != FAB_COUNTERS) {
    fab_unlock(&to->lock);
    return sim_attempt_vanish(qp, why);
  }
  if (to->kind == SIM_DCT &&
      fab_fault_hits(FAB_FAULT_TARGET_ERROR, to->device, number, NULL, NULL)) {
    atomic_store_explicit(&to->state, IBV_QPS_ERR, memory_order_release);
    sim_qp_event(to, IBV_EVENT_QP_FATAL);
    fab_unlock(&to->lock);
    return sim_attempt_vanish(qp, FAB_LOST_FAULT);
  }
  if (to->state == IBV_QPS_RTR && !to->communicated && qp->kind == SIM_RC) {
    to->communicated = 1;
    sim_qp_event(to, IBV_EVENT_COMM_EST);
  }
  struct sim_outcome outcome = sim_respond(to, message);
  if (outcome.fate == SIM_DONE) {
    sim_attempt_count(qp, to, message->slot->length);
    if (qp->kind == SIM_RC) {
      uint32_t packets = sim_attempt_packets_of(message->slot->length, (uint8_t)qp->attr.path_mtu);
      to->rq_psn = (to->rq_psn + packets) & 0xffffff;
      qp->sq->psn = (qp->sq->psn + packets) & 0xffffff;
    }
  }
  fab_unlock(&to->lock);
  if (outcome.fate == SIM_LOST && fab_is_dead(owner))
    return sim_attempt_vanish(qp, FAB_LOST_DEAD);
  return outcome;
}

static struct sim_outcome sim_attempt_multicast(struct sim_qp *qp,
                                                const struct sim_message *message)
{
  const struct fab_port *from = fab_port_of(sim_fab_qp(qp)->device, qp->attr.port_num);
  for (unsigned i = 0; i < FAB_MCAST; i++) {
    uint32_t number = fab->mcast[i].qpn;
    const struct fab_qp *to = fab_qp_of(number);
    if (!to || memcmp(&fab->mcast[i].gid, &message->ah->grh.dgid, 16))
      continue;
    struct fab_path path = {.device = to->device, .port = to->port, .found = true};
    const struct fab_port *at = fab_port_of(path.device, path.port);
    if (at && at->up && from->up && at->subnet == from->subnet)
      sim_attempt_deliver(qp, path, number, message);
  }
  return (struct sim_outcome){.fate = SIM_DONE};
}

static uint16_t sim_attempt_sum16(const uint8_t *bytes, unsigned n)
{
  uint32_t sum = 0;
  for (unsigned i = 0; i < n; i += 2)
    sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
  while (sum >> 16)
    sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)~sum;
}

/* The 40 bytes before a datagram: a GRH, or for RoCEv2 over IPv4 that header in their second
 * half. */
static void sim_attempt_write_header(uint8_t header[40], const struct fab_port *from,
                                     const struct ibv_ah_attr *ah, uint32_t length)
{
  memset(header, 0, 40);
  if (!ah->is_global)
    return;
  const struct fab_gid *source = &from->gids[ah->grh.sgid_index % FAB_GIDS];
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  if (source->type == IBV_GID_TYPE_ROCE_V2 && !memcmp(source->gid.raw, mapped, 12)) {
    uint8_t *ip = header + 20;
    uint16_t total = htons((uint16_t)(20 + 8 + 12 + 8 + length + 4));
    ip[0] = 0x45;
    ip[1] = ah->grh.traffic_class;
    memcpy(ip + 2, &total, 2);
    ip[6] = 0x40;
    ip[8] = ah->grh.hop_limit;
    ip[9] = 17;
    memcpy(ip + 12, source->gid.raw + 12, 4);
    memcpy(ip + 16, ah->grh.dgid.raw + 12, 4);
    uint16_t sum = htons(sim_attempt_sum16(ip, 20));
    memcpy(ip + 10, &sum, 2);
    return;
  }
  struct ibv_grh grh = {
      .version_tclass_flow =
          htonl(6u << 28 | (uint32_t)ah->grh.traffic_class << 20 | (ah->grh.flow_label & 0xfffff)),
      .paylen = htons((uint16_t)(length + 24)),
      .next_hdr = source->type == IBV_GID_TYPE_ROCE_V2 ? 17 : 0x1b,
      .hop_limit = ah->grh.hop_limit,
      .sgid = source->gid,
      .dgid = ah->grh.dgid};
  memcpy(header, &grh, 40);
}

struct sim_outcome sim_attempt(struct sim_qp *qp, struct sim_slot *slot)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  if (slot->opcode == IBV_WR_BIND_MW)
    return sim_bind(qp, slot);
  if (slot->opcode == IBV_WR_LOCAL_INV)
    return sim_invalidate_local(qp, slot->imm_or_rkey);
  const struct ibv_ah_attr *ah =
      qp->kind == SIM_UD || qp->kind == SIM_DCI ? &slot->ah : &qp->attr.ah_attr;
  const struct fab_port *port = fab_port_of(entry->device, qp->attr.port_num);
  struct sim_runs runs = {0};
  uint8_t header[40];
  struct sim_message message = {.slot = slot,
                                .from = entry,
                                .ah = ah,
                                .data = &runs,
                                .length = slot->length,
                                .slid = port->lid};
  if (qp->kind == SIM_UD) {
    sim_attempt_write_header(header, port, ah, slot->length);
    runs.run[runs.count++] = (struct sim_bytes){fab_slot, (uintptr_t)header, sizeof(header)};
    message.length += sizeof(header);
  }
  enum ibv_wc_status status = sim_attempt_check(qp, slot);
  if (!status)
    status = sim_attempt_gather(qp, slot, &runs);
  if (status)
    return sim_error(status);
  if (fab->strict && qp->kind == SIM_DCI && !slot->remote_qpn)
    sim_strict_report("qp 0x%06x sends to target 0: was a DCT's qp_num read before it was in RTR?",
                      qp->number);
  struct sim_outcome outcome;
  if (sim_attempt_faulted(qp, slot, &outcome))
    return outcome;
  if (qp->kind == SIM_UD && ah->is_global && ah->grh.dgid.raw[0] == 0xff)
    return sim_attempt_multicast(qp, &message);
  uint8_t mtu = qp->kind == SIM_UD ? 1 : (uint8_t)qp->attr.path_mtu;
  struct fab_path path = sim_attempt_path_of(qp, ah, mtu);
  if (!path.found)
    return sim_attempt_vanish(qp, path.lost);
  bool connected = qp->kind == SIM_RC || qp->kind == SIM_UC;
  return sim_attempt_deliver(qp, path, connected ? qp->attr.dest_qp_num : slot->remote_qpn,
                             &message);
}
