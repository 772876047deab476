/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a queue pair. */
#ifndef RC_QUEUE_H
#define RC_QUEUE_H

#include "endpoint.h"

/* wr_id: whose, and which: an index of the send queue, a control buffer. */
#define RC_RECEIVE (UINT64_C(1) << 63)
#define RC_SPARE 1u /* of SENDs: a receive without a slot */
static inline uint64_t rc_wr_id(const struct pst_endpoint *endpoint, uint32_t index)
{
  return (uint64_t)(endpoint->generation & 0x7fffu) << 48 | (uint64_t)endpoint->place << 32 | index;
}

/* queue.c: the queue pair and its send queue. */
int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces);
void rc_queue_close(struct pst_endpoint *endpoint);
int rc_queue_init(struct pst_endpoint *endpoint);
/* Receives: `n` without buffers; or, of who sends and is sent credit, the one with that buffer.
 * 0 or -errno. */
int rc_receives_post(struct pst_endpoint *endpoint, uint32_t n);
int rc_receive_again(struct pst_endpoint *endpoint, uint32_t buffer);
/* Of SENDs: for the last `n` slots that are granted; what was released, into receives; the next
 * one to be filled, whose receive took another's place. */
int rc_slots_post(struct pst_endpoint *endpoint, uint32_t n);
int rc_slots_post_back(struct pst_endpoint *endpoint);
int rc_slot_again(struct pst_endpoint *endpoint);
static inline uint32_t rc_queue_room(const struct pst_endpoint *endpoint)
{
  return endpoint->sq_size - (uint32_t)(endpoint->sq_head - endpoint->sq_told);
}
/* The one at `index` follows the others of the send queue. */
static inline void rc_queue_alike(struct pst_endpoint *endpoint, uint64_t index, uint8_t opcode)
{
  if (endpoint->sent[(index - 1) & endpoint->sq_mask].opcode != opcode)
    endpoint->alike_from = index;
}
/* Hand the requests [from, to) of the send queue over. How many went, or -errno for none. */
int rc_queue_ring(struct pst_endpoint *endpoint, uint64_t from, uint64_t to);
/* One of the transport's own: a SEND with `control` and perhaps bytes of `control` memory, or,
 * with 0, an empty RDMA WRITE. `cookie`, `opcode`: of what it ends, 0 for nothing. */
int rc_queue_own(struct pst_endpoint *endpoint, uint32_t control, const struct ibv_sge *bytes,
                 unsigned int flags, uint8_t opcode, uint64_t cookie);
void rc_queue_error(struct pst_endpoint *endpoint);
/* What hellos and farewells travel by: a receive that names a slot is for messages' SENDs. */
static inline enum ibv_wr_opcode rc_control_opcode(const struct pst_endpoint *endpoint)
{
  return endpoint->own.sends && endpoint->tx ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM;
}

static inline uint8_t *rc_send_buffer(const struct pst_endpoint *endpoint, uint32_t buffer)
{
  return endpoint->control + (size_t)buffer * RC_CONTROL_BYTES;
}
static inline uint8_t *rc_receive_buffer(const struct pst_endpoint *endpoint, uint32_t buffer)
{
  return rc_send_buffer(endpoint, (endpoint->rx ? RC_CONTROL_RECEIVES : 0) + buffer);
}
static inline uint8_t *rc_scratch(const struct pst_endpoint *endpoint)
{
  return rc_receive_buffer(endpoint, endpoint->receive_buffers);
}

/* row.c: at `index` and behind it, those at the front of the `n` that are plain and can be taken.
 * Returns how many. */
uint32_t rc_build_row(struct pst_endpoint *endpoint, uint64_t index,
                      const struct pst_request *requests, uint32_t n);

/* rma.c: 0 or -errno; and what was checked, as a work request. */
int rc_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_rma_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                  const struct pst_request *request);
int rc_flush_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
void rc_flush_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                    const struct pst_request *request);
/* post.c: is it a range of local memory with that right; a piece of it for a work request. */
bool rc_is_within(const struct pst_endpoint *endpoint, const struct pst_mr *mr, uint64_t offset,
                  uint64_t length, uint32_t right);
int rc_check_local(const struct pst_endpoint *endpoint, const struct pst_request *request,
                   uint32_t right);
/* True: all of it is memory that the CPU reads. */
bool rc_add_local(struct ibv_send_wr *wr, const struct pst_request *request);

#endif
