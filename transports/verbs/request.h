/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the host, checked and built into the send queue. */
#ifndef VERBS_REQUEST_H
#define VERBS_REQUEST_H

#include "endpoint.h"

/* wr_batch.c: at *index and behind it, those at the front of the `n` that are plain and can be
 * taken, of which `before` were posted before. Returns how many, and where the next one comes. */
uint32_t vb_build_row(struct pst_endpoint *endpoint, uint64_t *index, uint32_t before,
                      const struct pst_request *requests, uint32_t n);

/* The most messages of a run whose slots are `stride` bytes apart. One WRITE is reported at once,
 * so that long messages go by themselves. */
#define VB_RUN_MAX 32u
#define VB_RUN_BYTES 65536u
static inline uint32_t vb_run_max(uint64_t stride)
{
  const uint64_t most = stride ? VB_RUN_BYTES / stride : 0;

  return most < 1 ? 1 : most < VB_RUN_MAX ? (uint32_t)most : VB_RUN_MAX;
}

static inline bool vb_is_writable(const struct pst_endpoint *endpoint,
                                  const struct pst_remote *remote)
{
  return (endpoint->roles & PST_ROLE_RMA) && remote && remote->endpoint == endpoint &&
         (remote->access & PST_ACCESS_REMOTE_WRITE);
}

/* Is it a range of local memory with that right? A pst_mr_check of an endpoint. */
static inline bool vb_request_is_within(const void *context, struct pst_mr *mr, uint64_t offset,
                                        uint64_t length, uint32_t right)
{
  const struct pst_endpoint *endpoint = context;

  return mr && mr->domain == endpoint->local && (mr->access & right) &&
         pst_range_holds(mr->length, offset, length);
}

static inline int vb_request_check_local(const struct pst_endpoint *endpoint,
                                         const struct pst_request *request, uint32_t right)
{
  /* No bytes are of no memory. */
  if (request->piece_count == 0 && request->arg.length == 0 && !request->local.mr &&
      request->opcode != PST_OP_SEND)
    return 0;
  return pst_request_check(request, endpoint->pieces_max, right, vb_request_is_within, endpoint);
}

static inline bool vb_request_add_piece(struct ibv_send_wr *wr, const struct pst_mr *mr,
                                        uint64_t offset, uint64_t length)
{
  if (length == 0)
    return true;
  wr->sg_list[wr->num_sge++] = (struct ibv_sge){
      .addr = mr->verbs.address + offset, .length = (uint32_t)length, .lkey = mr->lkey};
  return mr->is_cpu_readable;
}

/* A piece, or all of them, into a work request. True: all of it is memory that the CPU reads. */
static inline bool vb_request_add_local(struct ibv_send_wr *wr, const struct pst_request *request)
{
  bool readable = true;

  if (request->piece_count == 0)
    return request->arg.length == 0 ||
           vb_request_add_piece(wr, request->local.mr, request->offset, request->arg.length);
  for (uint32_t i = 0; i < request->piece_count; i++) {
    const struct pst_piece *piece = &request->local.pieces[i];
    readable &= vb_request_add_piece(wr, piece->mr, piece->offset, piece->length);
  }
  return readable;
}

/* rma.c: checks a WRITE, READ or atomic. 0 or -errno. */
int vb_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* Builds the work request of what vb_rma_check() has passed. */
void vb_rma_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                  const struct pst_request *request);
/* Checks a FLUSH. 0 or -errno. */
int vb_flush_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* Builds the work request of what vb_flush_check() has passed. */
void vb_flush_build(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                    const struct pst_request *request);
/* Whether READs of other ranges must go before this FLUSH, fenced WRITE or fenced atomic, so that
 * WRITEs into these ranges are placed. */
bool vb_flush_needs_others(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* Posts those READs, behind all that was built. 0; -EAGAIN: some were posted, and there is no room
 * for others now; -errno: post failed. */
int vb_flush_others(struct pst_endpoint *endpoint, const struct pst_request *request);
/* post.c: a post was cut short for that reason (enum pst_wait), and room is to wake a sleeper. */
void vb_want_room(struct pst_endpoint *endpoint, uint32_t why);
/* A WRITE names it. */
void vb_written(struct pst_endpoint *endpoint, struct pst_remote *remote);

#endif
