/* SPDX-License-Identifier: Apache-2.0 */
/* Receives that a queue pair has by itself: posted as lists that are built once, or one by one. */
#include "receives.h"

void vb_receives_open(struct vb_receives *receives, uint64_t wr_id, uint32_t length,
                      const struct ibv_mr *mr)
{
  for (uint32_t i = 0; i < VB_POLL_BATCH; i++) {
    receives->sges[i] = (struct ibv_sge){.length = length, .lkey = mr ? mr->lkey : 0};
    receives->wrs[i] =
        (struct ibv_recv_wr){.wr_id = wr_id,
                             .next = i + 1 < VB_POLL_BATCH ? &receives->wrs[i + 1] : NULL,
                             .sg_list = &receives->sges[i],
                             .num_sge = mr != NULL};
  }
}

/* The first `n` of its receives. 0 or an errno. */
static int vb_receives_post_linked(struct pst_endpoint *endpoint, struct vb_receive_queue *rq,
                                   uint32_t n)
{
  struct ibv_recv_wr *last = &endpoint->receives->wrs[n - 1], *next = last->next, *bad;

  last->next = NULL;
  int rc = ibv_post_recv(rq->qp, endpoint->receives->wrs, &bad);
  last->next = next;
  if (rc == 0)
    rq->posted += n;
  return rc;
}

int vb_receives_restore(struct pst_endpoint *endpoint, struct vb_receive_queue *rq)
{
  int rc = 0;

  while (rc == 0 && rq->posted < rq->size) {
    const uint32_t missing = rq->size - rq->posted;
    rc = vb_receives_post_linked(endpoint, rq, missing < VB_POLL_BATCH ? missing : VB_POLL_BATCH);
  }
  return -rc;
}

/* 0 or an errno. */
static int vb_receives_post_run(struct pst_endpoint *endpoint, struct vb_slot_run slots)
{
  const struct pst_ring *ring = endpoint->rx->ring;
  uint64_t address = ring->base + slots.first * ring->params.stride;
  int rc = 0;

  for (uint32_t some; slots.count && rc == 0; slots.count -= some) {
    some = slots.count < VB_POLL_BATCH ? slots.count : VB_POLL_BATCH;
    for (uint32_t i = 0; i < some; i++, address += ring->params.stride)
      endpoint->receives->sges[i].addr = address;
    rc = vb_receives_post_linked(endpoint, endpoint->rq, some);
  }
  return rc;
}

int vb_slots_post(struct pst_endpoint *endpoint)
{
  const struct vb_slot_fifo *line = &endpoint->rx->own->line;
  int rc = 0;

  for (uint32_t at = line->tail; line->count && at != line->head && rc == 0; at++)
    rc = vb_receives_post_run(endpoint, line->at[at & line->mask]);
  return -rc;
}

int vb_slots_post_back(struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;
  int rc = 0;

  while (rx->back.count && rc == 0) {
    const struct vb_slot_run some = vb_slot_fifo_move(&rx->back, &rx->own->line);
    rx->ungranted += some.count;
    rc = vb_receives_post_run(endpoint, some);
  }
  return -rc;
}

int vb_slot_again(struct pst_endpoint *endpoint)
{
  struct vb_slot_fifo *line = &endpoint->rx->own->line;
  const uint32_t slot = vb_slot_fifo_get(line);

  vb_slot_fifo_put(line, slot, 1);
  return -vb_receives_post_run(endpoint, (struct vb_slot_run){slot, 1});
}

/* Posts a receive by the first queue pair; `sge` is NULL for none. 0 or -errno. */
static inline __attribute__((always_inline)) int
vb_receives_post_one(struct pst_endpoint *endpoint, uint32_t which, struct ibv_sge *sge)
{
  struct ibv_recv_wr wr = {.wr_id = VB_RECEIVE | vb_wr_id(&endpoint->sq, which),
                           .sg_list = sge,
                           .num_sge = sge != NULL},
                     *bad;
  int rc = ibv_post_recv(endpoint->rq->qp, &wr, &bad);

  if (rc == 0)
    endpoint->rq->posted++;
  return -rc;
}

int vb_receive_again(struct pst_endpoint *endpoint, uint32_t buffer)
{
  struct ibv_sge sge = {.addr = (uintptr_t)vb_receive_buffer(endpoint, buffer),
                        .length = endpoint->credit_bytes,
                        .lkey = endpoint->buffers->control_mr->lkey};

  return vb_receives_post_one(endpoint, buffer, &sge);
}

int vb_receive_spare(struct pst_endpoint *endpoint)
{
  return vb_receives_post_one(endpoint, VB_SPARE, NULL);
}
