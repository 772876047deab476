/* SPDX-License-Identifier: Apache-2.0 */
/* Send queues: opened, and what a transport posts of its own. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#include "send_queue.h"

int vb_send_queue_open(struct vb_send_queue *sq, uint32_t pieces)
{
  uint32_t size = 1;

  while (size < sq->size)
    size <<= 1;
  sq->mask = size - 1;
  sq->posted_max = sq->requests_max;
  sq->sent = calloc(size, sizeof(*sq->sent));
  sq->wrs = calloc(size, sizeof(*sq->wrs));
  sq->sges = calloc((size_t)size * pieces, sizeof(*sq->sges));
  if (!sq->sent || !sq->wrs || !sq->sges)
    return -ENOMEM;
  for (uint32_t i = 0; i < size; i++) {
    sq->wrs[i].next = &sq->wrs[(i + 1) & sq->mask];
    sq->wrs[i].sg_list = &sq->sges[(size_t)i * pieces];
  }
  return 0;
}

void vb_send_queue_close(struct vb_send_queue *sq)
{
  free(sq->sent);
  free(sq->wrs);
  free(sq->sges);
}

int vb_send_queue_went(struct vb_send_queue *sq, uint64_t from, const struct ibv_send_wr *bad,
                       int rc)
{
  const struct ibv_send_wr *first = &sq->wrs[from & sq->mask];
  const uint32_t went = bad ? (uint32_t)((bad - first) & (ptrdiff_t)sq->mask) : 0;

  sq->head = from + went;
  return went ? (int)went : -rc;
}

int vb_send_queue_push_own(struct vb_send_queue *sq)
{
  const uint64_t index = sq->head;

  sq->sent[index & sq->mask] = (struct vb_sent){.upto = sq->posted};
  vb_send_queue_alike(sq, index, 0);
  int rc = vb_send_queue_ring(sq, index, index + 1);
  return rc < 0 ? rc : 0;
}

int vb_send_queue_own(struct vb_send_queue *sq, enum ibv_wr_opcode opcode, uint32_t immediate,
                      const struct ibv_sge *bytes)
{
  const uint64_t index = sq->head;
  struct ibv_send_wr *wr = &sq->wrs[index & sq->mask];

  if (vb_send_queue_room(sq) == 0)
    return -EAGAIN;
  wr->wr_id = vb_wr_id(sq, (uint32_t)index);
  wr->opcode = opcode;
  wr->imm_data = htobe32(immediate);
  wr->send_flags = IBV_SEND_SIGNALED;
  wr->num_sge = 0;
  wr->wr.rdma.remote_addr = 0;
  wr->wr.rdma.rkey = 0;
  if (bytes) {
    wr->sg_list[0] = *bytes;
    wr->num_sge = 1;
    if (bytes->length <= sq->max_inline)
      wr->send_flags |= IBV_SEND_INLINE;
  }
  return vb_send_queue_push_own(sq);
}
