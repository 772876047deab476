/* SPDX-License-Identifier: Apache-2.0 */
/* The responder's part of a message, which the initiator's process does with the target's lock
 * held. */
#include "engine.h"

#include <errno.h>
#include <string.h>

#define SRQ_SGES 31 /* max_srq_sge, at most */

/* A receiver-not-ready timer's value is an index into these, in units of 10 us. */
static const uint32_t rnr_timer_10us[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                            16,    24,   32,   48,    64,    96,    128,   192,
                                            256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                            4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

static struct sim_outcome sim_respond_done(uint32_t length)
{
  return (struct sim_outcome){.fate = SIM_DONE, .length = length};
}

static bool sim_respond_is_reliable(const struct fab_qp *to)
{
  return to->kind == SIM_RC || to->kind == SIM_DCT;
}

/* The error goes back to the initiator, and the target's own queue pair ends. Nothing goes back on
 * an unreliable one. */
static struct sim_outcome sim_respond_refuse(struct fab_qp *to, enum ibv_wc_status status)
{
  if (!sim_respond_is_reliable(to))
    return (struct sim_outcome){.fate = SIM_LOST};
  if (status == IBV_WC_REM_ACCESS_ERR) {
    fab_counted(fab_port_of(to->device, to->port), FAB_ACCESS_ERRORS);
    sim_qp_event(to, IBV_EVENT_QP_ACCESS_ERR);
  } else if (status == IBV_WC_REM_INV_REQ_ERR) {
    sim_qp_event(to, IBV_EVENT_QP_REQ_ERR);
  }
  sim_qp_fail(to);
  return sim_error(status);
}

/* Returns the outcome of an error of the memory on the way. */
static struct sim_outcome sim_respond_broken(struct fab_qp *to, int error)
{
  if (error == ESRCH)
    return (struct sim_outcome){.fate = SIM_LOST};
  return sim_respond_refuse(to, IBV_WC_REM_OP_ERR);
}

static struct sim_outcome sim_respond_not_ready(struct fab_qp *to)
{
  if (!sim_respond_is_reliable(to)) {
    fab_counted(fab_port_of(to->device, to->port), FAB_LOST_NO_RECEIVE);
    return (struct sim_outcome){.fate = SIM_LOST};
  }
  fab_counted(fab_port_of(to->device, to->port), FAB_RNR_NAKS);
  return (struct sim_outcome){.fate = SIM_RNR,
                              .wait_ns = rnr_timer_10us[to->min_rnr_timer & 31] * UINT64_C(10000)};
}

/* A receive that was taken off a shared queue: its place is another's as soon as others, taken
 * later by other queue pairs, are completed, polled and posted again. */
static const struct fab_recv *sim_respond_keep(const struct fab_recv *recv)
{
  static _Thread_local union {
    struct fab_recv recv;
    uint8_t room[sizeof(struct fab_recv) + SRQ_SGES * sizeof(struct ibv_sge)];
  } kept;

  memcpy(&kept, recv, sizeof(*recv) + recv->num_sge * sizeof(recv->sges[0]));
  return &kept.recv;
}

/* The next posted receive: NULL if there is none. One of a queue pair's own stays where it is until
 * its completion is polled. */
static const struct fab_recv *sim_respond_take_shared(struct fab_qp *to)
{
  struct fab_srq *srq = &fab->srq[to->srq - 1];
  const struct fab_recv *recv = NULL;
  bool reached = false;
  if (fab_lock(&srq->lock))
    sim_srq_repair(srq);
  if (srq->number && srq->ring.tail != srq->ring.head) {
    recv = sim_respond_keep(sim_ring_at(&srq->ring, srq->ring.tail));
    srq->taker_tail = srq->ring.tail;
    atomic_signal_fence(memory_order_seq_cst);
    srq->taker = (uint32_t)(to - fab->qp) + 1;
    sim_note_taken(to, recv, srq->ring.tail);
    srq->ring.tail++;
    srq->taker = 0;
    reached = srq->limit && srq->ring.head - srq->ring.tail < srq->limit;
    if (reached)
      srq->limit = 0;
  }
  fab_unlock(&srq->lock);
  if (reached) {
    atomic_fetch_or(&srq->async_bits, 1u << IBV_EVENT_SRQ_LIMIT_REACHED);
    fab_kick(srq->owner);
  }
  return recv;
}

static const struct fab_recv *sim_respond_take(struct fab_qp *to)
{
  if (!to->recv_cq || (sim_respond_is_reliable(to) &&
                       fab_fault_hits(FAB_FAULT_RNR, to->device, to->number, NULL, NULL)))
    return NULL;
  if (to->srq)
    return sim_respond_take_shared(to);
  if (to->rq.tail == to->rq.head)
    return NULL;
  const struct fab_recv *recv = sim_ring_at(&to->rq, to->rq.tail);
  sim_note_taken(to, recv, to->rq.tail);
  to->rq.tail++;
  return recv;
}

/* ConnectX says of a datagram over RoCE what it came in, as its reference manual has it: bits 2 to
 * 0 the header (0 GRH, 1 IPv6, 2 IPv4), bit 3 that there was UDP. Else it is the service level. */
static uint8_t sim_respond_level_of(const struct fab_qp *to, const struct sim_message *message)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  const struct fab_qp *from = message->from;
  const struct fab_port *port = fab_port_of(from->device, from->port);
  const bool is_told = (to->kind == SIM_UD || to->kind == SIM_DCT) &&
                       port->link_layer == IBV_LINK_LAYER_ETHERNET &&
                       fab->device[to->device].vendor_id == FAB_VENDOR_MELLANOX;

  if (!is_told)
    return message->ah->sl;
  const struct fab_gid *gid = &port->gids[message->ah->grh.sgid_index % FAB_GIDS];
  if (gid->type != IBV_GID_TYPE_ROCE_V2)
    return 0;
  return memcmp(gid->gid.raw, mapped, sizeof(mapped)) == 0 ? 8 | 2 : 8 | 1;
}

/* Members of a completion: how many parts were scattered, and where. */
struct scattered {
  uint32_t parts;
  struct sim_scatter now;
};

static void sim_respond_complete(struct fab_qp *to, const struct sim_message *message,
                                 const struct fab_recv *recv, enum ibv_wc_status status,
                                 const struct scattered *scatter)
{
  const struct sim_slot *slot = message->slot;
  bool write = slot->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  bool imm = write || slot->opcode == IBV_WR_SEND_WITH_IMM;
  bool inv = slot->opcode == IBV_WR_SEND_WITH_INV;
  struct sim_cqe cqe = {.wr_id = recv->wr_id,
                        .status = status,
                        .opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
                        .vendor_err = sim_syndrome(status),
                        .byte_len = message->length,
                        .imm_or_rkey = imm || inv ? slot->imm_or_rkey : 0,
                        .qp_num = to->number,
                        .src_qp = message->from->number,
                        .slid = message->slid,
                        .sl = sim_respond_level_of(to, message),
                        .dlid_path_bits = message->ah->src_path_bits,
                        .pkey_index = to->pkey,
                        .solicited = !!(slot->flags & IBV_SEND_SOLICITED),
                        .srq = to->srq,
                        .scattered = status || !scatter ? 0 : scatter->parts};
  cqe.wc_flags = (imm ? IBV_WC_WITH_IMM : 0u) | (inv ? IBV_WC_WITH_INV : 0u);
  if (to->kind == SIM_UD && message->ah->is_global)
    cqe.wc_flags |= IBV_WC_GRH;
  sim_complete_taken(to, &cqe, cqe.scattered ? &scatter->now : NULL);
}

/* Returns the queue pair with the domain of a receive's keys: a shared queue has a domain of its
 * own. */
static struct fab_qp sim_respond_as_owner(const struct fab_qp *to)
{
  return (struct fab_qp){.number = to->number,
                         .owner = to->owner,
                         .device = to->device,
                         .pd = to->srq ? fab->srq[to->srq - 1].pd : to->pd};
}

/* Do all of a small SEND's bytes go with its completion? They are few, and in few entries. */
static bool sim_respond_goes_with_completion(const struct fab_qp *to,
                                             const struct sim_message *message,
                                             const struct fab_recv *recv)
{
  uint64_t room = 0;
  for (uint32_t i = 0; i < recv->num_sge && i < SIM_SCATTER_PARTS; i++)
    room += recv->sges[i].length;
  return message->length && message->length <= to->scatter && room >= message->length;
}

/* Into the receive's entries, one after the other; each is checked as the bytes come to it. */
static enum ibv_wc_status sim_respond_scatter(const struct fab_qp *to,
                                              const struct sim_message *message,
                                              const struct fab_recv *recv,
                                              struct scattered *scattered, int *error)
{
  const struct fab_qp owner = sim_respond_as_owner(to), *view = &owner;
  const bool is_with = sim_respond_goes_with_completion(to, message, recv);
  uint64_t done_bytes = 0;
  for (uint32_t i = 0; i < recv->num_sge && done_bytes < message->length; i++) {
    struct ibv_sge part = recv->sges[i];
    if (part.length > message->length - done_bytes)
      part.length = (uint32_t)(message->length - done_bytes);
    if (!part.length)
      continue;
    struct fab_mr *mr;
    struct sim_bytes bytes;
    if (sim_remote(view, part.lkey, part.addr, part.length, IBV_ACCESS_LOCAL_WRITE, &mr, &bytes))
      return IBV_WC_LOC_PROT_ERR;
    if (is_with) {
      scattered->now.to[scattered->parts].address = part.addr;
      scattered->now.to[scattered->parts++].length = part.length;
      bytes =
          (struct sim_bytes){fab_slot, (uintptr_t)(scattered->now.bytes + done_bytes), part.length};
    }
    *error = sim_dma(message->data, done_bytes, &bytes, true);
    sim_release(mr);
    if (*error)
      return IBV_WC_LOC_PROT_ERR;
    done_bytes += part.length;
  }
  return done_bytes < message->length ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static uint64_t sim_respond_room_of(const struct fab_recv *recv)
{
  uint64_t room = 0;
  for (uint32_t i = 0; i < recv->num_sge; i++)
    room += recv->sges[i].length;
  return room;
}

static struct sim_outcome sim_respond_receive(struct fab_qp *to, const struct sim_message *message)
{
  const struct sim_slot *slot = message->slot;
  const struct fab_recv *recv = sim_respond_take(to);
  if (!recv)
    return sim_respond_not_ready(to);
  int error = 0;
  enum ibv_wc_status status = IBV_WC_LOC_LEN_ERR;
  struct scattered scattered;
  scattered.parts = 0;
  if (fab->strict) {
    struct fab_qp view = sim_respond_as_owner(to);
    sim_strict_recv_taken(&view, recv);
  }
  if (sim_respond_room_of(recv) >= message->length)
    status = sim_respond_scatter(to, message, recv, &scattered, &error);
  if (!status && slot->opcode == IBV_WR_SEND_WITH_INV &&
      !sim_invalidate_remote(to, slot->imm_or_rkey))
    status = IBV_WC_LOC_ACCESS_ERR;
  if (error == ESRCH)
    return (struct sim_outcome){.fate = SIM_LOST};
  if (fab->device[to->device].caps.late_writes)
    sim_delayed_write_before(message->from, NULL);
  sim_respond_complete(to, message, recv, status, &scattered);
  if (status == IBV_WC_LOC_LEN_ERR)
    return sim_respond_refuse(to, IBV_WC_REM_INV_REQ_ERR);
  if (status == IBV_WC_LOC_ACCESS_ERR)
    return sim_respond_refuse(to, IBV_WC_REM_ACCESS_ERR);
  return status ? sim_respond_refuse(to, IBV_WC_REM_OP_ERR) : sim_respond_done(message->length);
}

/* Finds what a one-sided request addresses; an outcome other than SIM_DONE is final. */
static struct sim_outcome sim_respond_reach(struct fab_qp *to, const struct sim_slot *slot,
                                            uint32_t access, struct fab_mr **mr,
                                            struct sim_bytes *bytes)
{
  *mr = NULL;
  if ((to->access & access) != access)
    return sim_respond_refuse(to, IBV_WC_REM_INV_REQ_ERR);
  if (!slot->length)
    return sim_respond_done(0);
  enum ibv_wc_status status =
      sim_remote(to, slot->rkey, slot->remote_addr, slot->length, access, mr, bytes);
  return status ? sim_respond_refuse(to, status) : sim_respond_done(0);
}

/* A READ or an atomic, which passes no WRITE on its way. */
static struct sim_outcome sim_respond_reach_again(struct fab_qp *to,
                                                  const struct sim_message *message,
                                                  uint32_t access, struct fab_mr **mr,
                                                  struct sim_bytes *bytes)
{
  struct sim_outcome outcome = sim_respond_reach(to, message->slot, access, mr, bytes);
  if (outcome.fate != SIM_DONE || !*mr || !fab->device[to->device].caps.late_writes)
    return outcome;
  sim_release(*mr);
  sim_delayed_write_before(message->from, bytes);
  return sim_respond_reach(to, message->slot, access, mr, bytes);
}

static struct sim_outcome sim_respond_write_to(struct fab_qp *to, const struct sim_message *message)
{
  const struct sim_slot *slot = message->slot;
  struct fab_mr *mr;
  struct sim_bytes bytes;
  const struct fab_recv *recv = NULL;
  bool imm = slot->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (fab->device[to->device].caps.late_writes)
    sim_delayed_write_before_write(message->from, slot->rkey);
  struct sim_outcome outcome = sim_respond_reach(to, slot, IBV_ACCESS_REMOTE_WRITE, &mr, &bytes);
  if (outcome.fate != SIM_DONE)
    return outcome;
  if (imm)
    recv = sim_respond_take(to);
  int error = 0;
  if (mr && (!imm || recv) && (imm || !sim_delayed_write_takes(to, message, mr)))
    error = sim_dma(message->data, 0, &bytes, true);
  if (mr)
    sim_release(mr);
  if (imm && !recv)
    return sim_respond_not_ready(to);
  if (error)
    return sim_respond_broken(to, error);
  if (imm) {
    if (fab->device[to->device].caps.late_writes)
      sim_delayed_write_before(message->from, NULL);
    sim_respond_complete(to, message, recv, IBV_WC_SUCCESS, NULL);
  }
  return sim_respond_done(slot->length);
}

static struct sim_outcome sim_respond_read_from(struct fab_qp *to,
                                                const struct sim_message *message)
{
  struct fab_mr *mr;
  struct sim_bytes bytes;
  if (!to->max_dest_rd_atomic && to->kind == SIM_RC)
    return sim_respond_refuse(to, IBV_WC_REM_INV_REQ_ERR);
  struct sim_outcome outcome =
      sim_respond_reach_again(to, message, IBV_ACCESS_REMOTE_READ, &mr, &bytes);
  if (outcome.fate != SIM_DONE || !mr)
    return outcome;
  int error = sim_dma(message->data, 0, &bytes, false);
  sim_release(mr);
  return error ? sim_respond_broken(to, error) : sim_respond_done(message->slot->length);
}

static struct sim_outcome sim_respond_change(struct fab_qp *to, const struct sim_message *message)
{
  const struct sim_slot *slot = message->slot;
  struct fab_mr *mr;
  struct sim_bytes bytes;
  if ((slot->remote_addr & 7) || (!to->max_dest_rd_atomic && to->kind == SIM_RC) ||
      fab->device[to->device].caps.atomic_cap == IBV_ATOMIC_NONE)
    return sim_respond_refuse(to, IBV_WC_REM_INV_REQ_ERR);
  struct sim_outcome outcome =
      sim_respond_reach_again(to, message, IBV_ACCESS_REMOTE_ATOMIC, &mr, &bytes);
  if (outcome.fate != SIM_DONE)
    return outcome;
  uint64_t value = 0, result;
  struct sim_runs old = {.count = 1, .run = {{fab_slot, (uintptr_t)&value, sizeof(value)}}};
  struct sim_runs new = {.count = 1, .run = {{fab_slot, (uintptr_t)&result, sizeof(result)}}};
  /* Atomic against what else this device does, as IBV_ATOMIC_HCA promises, and no more. */
  pthread_mutex_t *lock = &fab->device[to->device].atomics;
  fab_lock(lock);
  int error = sim_dma(&old, 0, &bytes, false);
  result = value;
  if (slot->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    result = value + slot->compare_add;
  else if (value == slot->compare_add)
    result = slot->swap;
  if (!error && result != value)
    error = sim_dma(&new, 0, &bytes, true);
  fab_unlock(lock);
  sim_release(mr);
  if (error)
    return sim_respond_broken(to, error);
  struct sim_bytes original = {fab_slot, (uintptr_t)&value, sizeof(value)};
  sim_dma(message->data, 0, &original, false);
  return sim_respond_done(sizeof(value));
}

struct sim_outcome sim_respond(struct fab_qp *to, const struct sim_message *message)
{
  switch (message->slot->opcode) {
  case IBV_WR_RDMA_WRITE:
  case IBV_WR_RDMA_WRITE_WITH_IMM:
    return sim_respond_write_to(to, message);
  case IBV_WR_RDMA_READ:
    return sim_respond_read_from(to, message);
  case IBV_WR_ATOMIC_CMP_AND_SWP:
  case IBV_WR_ATOMIC_FETCH_AND_ADD:
    return sim_respond_change(to, message);
  default:
    return sim_respond_receive(to, message);
  }
}
