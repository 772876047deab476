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
static int post_linked(struct pst_endpoint *endpoint, struct vb_receive_queue *rq, uint32_t n)
{
  struct ibv_recv_wr *last = &endpoint->receives.wrs[n - 1], *next = last->next, *bad;

  last->next = NULL;
  int rc = ibv_post_recv(rq->qp, endpoint->receives.wrs, &bad);
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
    rc = post_linked(endpoint, rq, missing < VB_POLL_BATCH ? missing : VB_POLL_BATCH);
  }
  return -rc;
}

int vb_slots_post(struct pst_endpoint *endpoint, uint32_t n)
{
  struct vb_rx *rx = endpoint->rx;
  const struct vb_fifo *line = &rx->line;
  int rc = 0;

  for (uint32_t some = 0; n > 0 && rc == 0; n -= some) {
    some = n < VB_POLL_BATCH ? n : VB_POLL_BATCH;
    for (uint32_t i = 0; i < some; i++) {
      uint64_t slot = line->at[(rx->given - n + i) & line->mask];
      endpoint->receives.sges[i].addr = rx->ring->base + slot * rx->ring->params.stride;
    }
    rc = post_linked(endpoint, endpoint->rq, some);
  }
  return -rc;
}

int vb_slots_post_back(struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;
  uint32_t n = vb_back_count(rx);

  rx->given = rx->line.head;
  rx->ungranted += n;
  return vb_slots_post(endpoint, n);
}

int vb_slot_again(struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;
  struct vb_fifo *line = &rx->line;
  uint32_t slot = vb_fifo_get(line);

  /* Before those that were released, in place of the first of them. */
  vb_fifo_put(line, line->at[rx->given & line->mask]);
  line->at[rx->given++ & line->mask] = slot;
  return vb_slots_post(endpoint, 1);
}

/* By the first queue pair; `sge` is NULL for none. 0 or -errno. */
static inline __attribute__((always_inline)) int post_one(struct pst_endpoint *endpoint,
                                                          uint32_t which, struct ibv_sge *sge)
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
                        .lkey = endpoint->control_mr->lkey};

  return post_one(endpoint, buffer, &sge);
}

int vb_receive_spare(struct pst_endpoint *endpoint)
{
  return post_one(endpoint, VB_SPARE, NULL);
}
