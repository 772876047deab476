/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's queues: how long they are, opened, filled with receives. */
#include "../verbs/receive.h"
#include "../verbs/receives.h"
#include "../verbs/srq.h"
#include "multi_qp.h"
#include "qp.h"

/* Completions that there may be at a time: of all queues of the worker's. */
static int rc_queue_reserve_completions(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  uint32_t wanted = worker->cq_used + endpoint->completions;
  int rc = vb_cq_grow(worker, wanted, endpoint->label);

  if (rc == 0)
    worker->cq_used = wanted;
  else
    endpoint->completions = 0;
  return rc;
}

/* SENDs: all slots into receives; those that are shared are posted already. With `reconnect` one of
 * these is not granted, so that a hello finds one though the host has all the others. */
static void rc_queue_line_up(struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx && endpoint->rx->sends ? endpoint->rx : NULL;
  const struct pst_ring *ring = rx ? rx->ring : NULL;

  vb_receives_open(endpoint->receives, VB_RECEIVE | vb_wr_id(&endpoint->sq, 0),
                   ring ? (uint32_t)ring->params.payload_max : 0, ring ? ring->verbs.mr : NULL);
  if (!rx)
    return;
  if (endpoint->shared) {
    rx->ungranted = rx->share - (endpoint->device->reconnect_ns && rx->share > 1);
    return;
  }
  rx->ungranted = rx->back.count;
  while (rx->back.count)
    vb_slot_fifo_move(&rx->back, &rx->own->line);
}

void rc_queue_sizes(struct pst_endpoint *endpoint)
{
  struct rc_lane *lane = endpoint->rc->lanes;

  endpoint->credit_depth = endpoint->device->shares ? VB_SRQ_CREDITS : VB_CONTROL_RECEIVES;
  endpoint->credit_bytes = endpoint->device->shares ? VB_SRQ_CREDIT_BYTES : VB_CONTROL_BYTES;
  endpoint->sq.size = endpoint->sq.requests_max + VB_SPARE_SENDS;
  lane->rq.size = VB_SPARE_RECEIVES;
  if (endpoint->rx) {
    endpoint->sq.size += endpoint->credit_depth;
    lane->rq.size = endpoint->rx->share + (endpoint->rx->sends ? 1 : VB_SPARE_RECEIVES);
  }
  if (endpoint->rx && endpoint->rx->ring->shared) /* which has them all */
    lane->rq.size = 0;
  if (endpoint->tx)
    lane->rq.size += endpoint->credit_depth;
  if (endpoint->tx && !endpoint->device->shares)
    endpoint->receive_buffers = lane->rq.size;
  endpoint->completions = rc_lanes_size(endpoint);
}

int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces)
{
  endpoint->pieces_max = pieces ? pieces : 1;
  rc_queue_sizes(endpoint);
  int rc = rc_queue_reserve_completions(endpoint);
  if (rc == 0 && endpoint->device->shares)
    rc = vb_srq_join(endpoint);
  if (rc == 0)
    rc = rc_lanes_open(endpoint, endpoint->pieces_max);
  if (rc < 0)
    return rc;
  if (endpoint->shared)
    vb_srq_name(endpoint);
  rc = vb_send_queue_open(&endpoint->sq, endpoint->pieces_max);
  if (rc == 0)
    rc = vb_credit_open(endpoint);
  rc_queue_line_up(endpoint);
  if (rc == 0)
    rc = rc_lanes_init(endpoint);
  return rc;
}

void rc_queue_close(struct pst_endpoint *endpoint)
{
  rc_lanes_close(endpoint);
  if (endpoint->shared)
    vb_srq_leave(endpoint);
  vb_credit_close(endpoint);
  endpoint->worker->cq_used -= endpoint->completions;
  vb_send_queue_close(&endpoint->sq);
}

int rc_receives_restore(struct pst_endpoint *endpoint)
{
  int rc = 0;

  for (uint32_t i = endpoint->receive_buffers > 0; rc == 0 && i < endpoint->lane_count; i++)
    rc = vb_receives_restore(endpoint, &endpoint->rc->lanes[i].rq);
  return rc;
}

int rc_receive_confirmation(struct pst_endpoint *endpoint)
{
  const struct vb_rx *rx = endpoint->rx;

  if (!rx || !rx->sends || endpoint->shared || rx->own->line.count > 0)
    return 0;
  return vb_receive_spare(endpoint);
}

int rc_lane_init(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  int rc = rc_lane_to_init(endpoint, lane);

  if (rc < 0 || endpoint->shared)
    return rc;
  if (lane != endpoint->rc->lanes)
    return vb_receives_restore(endpoint, &lane->rq);
  if (endpoint->rx && endpoint->rx->sends) {
    /* The host may have all slots: a hello that comes first must not wait for one. */
    if (endpoint->rc->reconnect.number && (rc = vb_receive_spare(endpoint)) < 0)
      return rc;
    return vb_slots_post(endpoint);
  }
  if (!endpoint->receive_buffers)
    return vb_receives_restore(endpoint, &lane->rq);
  for (uint32_t i = 0; i < lane->rq.size && rc == 0; i++)
    rc = vb_receive_again(endpoint, i);
  return rc;
}
