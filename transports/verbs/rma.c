/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided access. Bounds and rights are checked here by what the peer has told of its range,
 * and once more by the peer's device, which knows what has become of it since.
 */
#include <endian.h>

#include "domain.h"
#include "ops.h"
#include "request.h"

static const uint8_t magic[8] = {'p', 's', 't', 'r', 'm', 'a', 0, 1};

/* A registered range as it travels: big-endian. */
struct packed {
  uint8_t magic[8];
  uint64_t address, length;
  uint32_t rkey, access;
  uint32_t flush_rkey, flags; /* of what may be read the same key */
};
#define HAS_FLUSH 1u
#define IS_RELAXED 2u
_Static_assert(sizeof(struct packed) == VB_REMOTE_BYTES, "of one length, without gaps");

int vb_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob)
{
  const struct ibv_mr *flush = mr->has_flush                         ? mr->flush.mr
                               : mr->access & PST_ACCESS_REMOTE_READ ? mr->verbs.mr
                                                                     : NULL;
  struct packed packed = {.address = htobe64(mr->verbs.address),
                          .length = htobe64(mr->length),
                          .rkey = htobe32(mr->verbs.mr->rkey),
                          .access = htobe32(mr->access & VB_REMOTE_ACCESS),
                          .flush_rkey = htobe32(flush ? flush->rkey : 0),
                          .flags = htobe32((flush ? HAS_FLUSH : 0) |
                                           (vb_relaxed(device, mr->access) ? IS_RELAXED : 0))};

  memcpy(packed.magic, magic, sizeof(magic));
  return mr->access & VB_REMOTE_ACCESS ? pst_blob_write(blob, &packed, sizeof(packed)) : -EACCES;
}

/* Opens memory that the peer offers. The blob is the peer's, so that each field is checked. */
int vb_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote)
{
  struct packed packed = {0};
  const bool is_ours = pst_blob_read(blob, &packed, sizeof(packed)) &&
                       be32toh(packed.flags) <= (HAS_FLUSH | IS_RELAXED) &&
                       memcmp(packed.magic, magic, sizeof(magic)) == 0;
  const uint64_t address = be64toh(packed.address), length = be64toh(packed.length);
  const uint32_t access = be32toh(packed.access);

  if (!is_ours || (access & ~(uint32_t)VB_REMOTE_ACCESS) || address > UINT64_MAX - length) {
    VB_LOG(endpoint->device, PST_LOG_ERROR,
           "%s: the description of the peer's memory is not one of verbs_rc's; both ends need the "
           "same transport and version",
           endpoint->label);
    return -EPROTO;
  }
  struct pst_worker *worker = endpoint->worker;
  /* FLUSHes read bytes of the peer's memory into this scratch memory. */
  const uint32_t flags = be32toh(packed.flags);
  int rc = !worker->scratch_mr && (flags & HAS_FLUSH)
               ? vb_domain_pages_open(&worker->device->own, NULL, "FLUSHes", VB_SCRATCH_BYTES,
                                      &worker->scratch, &worker->scratch_mr)
               : 0;
  if (rc < 0)
    return rc;
  struct pst_remote *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  *made = (struct pst_remote){.endpoint = endpoint,
                              .address = address,
                              .length = length,
                              .rkey = be32toh(packed.rkey),
                              .flush_rkey = be32toh(packed.flush_rkey),
                              .has_flush = flags & HAS_FLUSH,
                              .is_relaxed = flags & IS_RELAXED,
                              .access = access,
                              .next = endpoint->remotes};
  endpoint->remotes = made;
  *remote = made;
  return 0;
}

/* The bytes written are read behind, or no longer count. */
static void vb_rma_forget_written(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  struct pst_remote **at = &endpoint->unflushed;

  endpoint->written = NULL;
  if (!remote->is_unflushed)
    return;
  while (*at != remote)
    at = &(*at)->next_unflushed;
  *at = remote->next_unflushed;
  remote->is_unflushed = false;
}

void vb_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  struct pst_remote **at = &endpoint->remotes;

  while (*at && *at != remote)
    at = &(*at)->next;
  if (!*at)
    return;
  *at = remote->next;
  vb_rma_forget_written(endpoint, remote);
  free(remote);
}

static int vb_rma_check_remote(const struct pst_endpoint *endpoint, const struct pst_remote *remote,
                               uint64_t offset, uint64_t length, uint32_t right)
{
  if (!remote || remote->endpoint != endpoint)
    return -EINVAL;
  return (remote->access & right) && pst_range_holds(remote->length, offset, length) ? 0 : -EACCES;
}

static int vb_rma_check_atomic(const struct pst_endpoint *endpoint,
                               const struct pst_request *request)
{
  const struct pst_remote *remote = request->u.atomic.remote;
  uint64_t offset = request->u.atomic.offset;

  if (!(endpoint->device->capabilities & PST_CAP_ATOMIC))
    return -EOPNOTSUPP;
  if (request->piece_count || !vb_request_is_within(endpoint, request->local.mr, request->offset, 8,
                                                    PST_ACCESS_LOCAL_WRITE))
    return -EINVAL;
  int rc = vb_rma_check_remote(endpoint, remote, offset, 8, PST_ACCESS_REMOTE_ATOMIC);
  return rc == 0 && (remote->address + offset) % 8 ? -EINVAL : rc;
}

int vb_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  bool reads = request->opcode == PST_OP_READ;

  if (!(endpoint->roles & PST_ROLE_RMA) || (request->flags & PST_REQUEST_EXCLUSIVE))
    return -EINVAL;
  if (request->opcode != PST_OP_WRITE && !reads)
    return vb_rma_check_atomic(endpoint, request);
  if (request->u.rma.reserved)
    return -EINVAL;
  int rc = vb_request_check_local(endpoint, request,
                                  reads ? PST_ACCESS_LOCAL_WRITE : PST_ACCESS_LOCAL_READ);
  if (rc == 0)
    rc = vb_rma_check_remote(endpoint, request->u.rma.remote, request->u.rma.offset,
                             request->arg.length,
                             reads ? PST_ACCESS_REMOTE_READ : PST_ACCESS_REMOTE_WRITE);
  return rc == 0 && request->arg.length > endpoint->device->message_max ? -EMSGSIZE : rc;
}

static void vb_rma_is_to_flush(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  if (remote->is_unflushed || remote->length == 0 || !remote->has_flush)
    return;
  remote->is_unflushed = true;
  remote->next_unflushed = endpoint->unflushed;
  endpoint->unflushed = remote;
}

void vb_written(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  endpoint->written = remote;
  vb_rma_is_to_flush(endpoint, remote);
}

static void vb_rma_build_atomic(struct ibv_send_wr *wr, const struct pst_request *request)
{
  const struct pst_remote *remote = request->u.atomic.remote;
  const struct pst_mr *mr = request->local.mr;

  wr->wr.atomic.remote_addr = remote->address + request->u.atomic.offset;
  wr->wr.atomic.rkey = remote->rkey;
  if (request->opcode == PST_OP_FETCH_ADD) {
    wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr->wr.atomic.compare_add = request->u.atomic.operand;
    wr->wr.atomic.swap = 0;
  } else {
    wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr->wr.atomic.compare_add = request->arg.compare;
    wr->wr.atomic.swap = request->u.atomic.operand;
  }
  wr->sg_list[0] = (struct ibv_sge){
      .addr = mr->verbs.address + request->offset, .length = 8, .lkey = mr->verbs.mr->lkey};
  wr->num_sge = 1;
}

void vb_rma_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                  const struct pst_request *request)
{
  struct pst_remote *remote = request->u.rma.remote;

  if (request->opcode != PST_OP_READ && request->opcode != PST_OP_WRITE) {
    vb_rma_build_atomic(wr, request);
    vb_rma_is_to_flush(endpoint, request->u.atomic.remote);
    return;
  }
  bool readable = vb_request_add_local(wr, request);
  wr->opcode = request->opcode == PST_OP_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  wr->wr.rdma.remote_addr = remote->address + request->u.rma.offset;
  wr->wr.rdma.rkey = remote->rkey;
  if (request->opcode == PST_OP_READ)
    return;
  if (readable && wr->num_sge && request->arg.length <= endpoint->sq.max_inline)
    wr->send_flags |= IBV_SEND_INLINE;
  vb_written(endpoint, remote);
}

int vb_flush_check(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  const struct pst_remote *remote = request->u.rma.remote;

  return remote && remote->endpoint != endpoint ? -EINVAL : pst_flush_check(request, true);
}

/*
 * A connection answers in order: once an empty WRITE is answered, all messages before it are at the
 * peer, whose completions make them visible. WRITEs have no completion there, and an answer means
 * that the device has them; a READ of that memory pushes them there (PCI Express Base
 * Specification, 2.4.1: the device's read request does not pass the writes that it posted before).
 * Each range may be behind a path of its own, so that each is read: the last by the FLUSH itself,
 * the others before it by READs of the transport's own.
 */
static void vb_rma_build_read(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                              struct pst_remote *remote)
{
  const struct pst_worker *worker = endpoint->worker;

  wr->opcode = IBV_WR_RDMA_READ;
  wr->wr.rdma.remote_addr = remote->address;
  wr->wr.rdma.rkey = remote->flush_rkey;
  wr->sg_list[0] = (struct ibv_sge){
      .addr = (uintptr_t)worker->scratch, .length = 1, .lkey = worker->scratch_mr->lkey};
  wr->num_sge = 1;
  vb_rma_forget_written(endpoint, remote);
}

void vb_flush_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                    const struct pst_request *request)
{
  struct pst_remote *remote = request->u.rma.remote;

  if (!remote || !remote->has_flush || remote->length == 0)
    remote = endpoint->unflushed;
  wr->opcode = IBV_WR_RDMA_WRITE;
  wr->wr.rdma.remote_addr = 0;
  wr->wr.rdma.rkey = 0;
  if (remote)
    vb_rma_build_read(endpoint, wr, remote);
}

/* The range that a fenced WRITE or atomic changes; one queue pair's WRITEs into one range keep
 * their order by themselves, unless its owner lets them pass one another. */
static const struct pst_remote *vb_rma_kept_by_order(const struct pst_request *request)
{
  const struct pst_remote *remote =
      request->opcode == PST_OP_WRITE ? request->u.rma.remote : request->u.atomic.remote;

  return remote && !remote->is_relaxed ? remote : NULL;
}

static bool vb_rma_is_behind_writes(const struct pst_endpoint *endpoint,
                                    const struct pst_request *request)
{
  const struct pst_remote *first = endpoint->unflushed;

  if (request->opcode == PST_OP_SEND) /* of one queue pair a message's completion is behind them */
    return (request->flags & PST_REQUEST_FENCE) && first && endpoint->lane_count > 1;
  return (request->flags & PST_REQUEST_FENCE) &&
         (request->opcode == PST_OP_WRITE || request->opcode == PST_OP_FETCH_ADD ||
          request->opcode == PST_OP_COMPARE_SWAP) &&
         first && (first->next_unflushed || first != vb_rma_kept_by_order(request));
}

bool vb_flush_needs_others(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  if (request->opcode != PST_OP_FLUSH)
    return vb_rma_is_behind_writes(endpoint, request);
  return !request->u.rma.remote && endpoint->unflushed && endpoint->unflushed->next_unflushed;
}

static int vb_rma_read_one(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  const uint64_t index = endpoint->sq.head;
  struct ibv_send_wr *wr = &endpoint->sq.wrs[index & endpoint->sq.mask];

  wr->wr_id = vb_wr_id(&endpoint->sq, (uint32_t)index);
  wr->imm_data = 0; /* none of enum vb_control */
  wr->send_flags = IBV_SEND_SIGNALED;
  vb_rma_build_read(endpoint, wr, remote);
  return vb_send_queue_push_own(&endpoint->sq);
}

int vb_flush_others(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  /* A FLUSH reads the last one itself. */
  const bool leaves_one = request->opcode == PST_OP_FLUSH;
  int rc = 0;

  while (rc == 0 && endpoint->unflushed && (!leaves_one || endpoint->unflushed->next_unflushed))
    rc = vb_send_queue_own_room(&endpoint->sq) > VB_SPARE_SENDS / 2
             ? vb_rma_read_one(endpoint, endpoint->unflushed)
             : -EAGAIN;
  return rc;
}
