/* SPDX-License-Identifier: Apache-2.0 */
/* The last receive that a queue pair takes of a shared queue. Receives that a failing queue pair
 * has taken come by the completion queue, whoever took them. A queue pair has none any more once
 * its device says so (IBV_EVENT_QP_LAST_WQE_REACHED) and the completion queue was empty since;
 * before that it is neither reset nor destroyed (IBA 10.3.1). Where the device does not say so,
 * what is sent in ERR is flushed behind it.
 */
#include "last_wqe.h"
#include "connection.h"
#include "qp.h"

void rc_last_wqe_begin(struct pst_endpoint *endpoint)
{
  if (!endpoint->shared)
    return;
  atomic_store(&endpoint->last_wqe, false);
  endpoint->rc->has_flushed = false;
  endpoint->rc->last_send = 0;
  endpoint->rc->given_at = 0;
  endpoint->rc->lanes[0].rq.posted = 1;
}

static bool rc_last_wqe_may_have_some(const struct pst_endpoint *endpoint)
{
  return endpoint->shared && endpoint->rc->lanes[0].rq.posted &&
         atomic_load_explicit(&endpoint->rc->setup, memory_order_acquire) == 0;
}

/* soft-RoCE of Linux 6.1 does not tell of the last one. It has its responder flush before its
 * requester: where all sends are back, and one more that is posted in ERR, all receives are, too.
 * An adapter's two halves know nothing of each other. */
static void rc_last_wqe_post_last(struct pst_endpoint *endpoint)
{
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

  if (!endpoint->device->is_soft || !endpoint->rc->lanes[0].is_erred || endpoint->rc->last_send ||
      rc_given_back(endpoint) != endpoint->sq.head || endpoint->rc->lanes[0].own)
    return;
  wr.wr_id = vb_wr_id(&endpoint->sq, (uint32_t)endpoint->sq.head + RC_LAST +
                                         (endpoint->rc->last_sends++ & 0xffff));
  endpoint->rc->last_send = wr.wr_id;
  ibv_post_send(endpoint->rc->lanes[0].rq.qp, &wr, &bad); /* if it cannot, time tells */
}

bool rc_last_wqe_flushed(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  if ((uint32_t)wc->wr_id - (uint32_t)endpoint->sq.done < RC_LAST)
    return false;
  if (wc->wr_id == endpoint->rc->last_send && endpoint->rc->lanes[0].is_erred) {
    endpoint->rc->has_flushed = true;
    vb_pend(endpoint);
  }
  return true;
}

/* Not every device tells. */
static bool rc_last_wqe_takes_no_more(const struct pst_endpoint *endpoint)
{
  return atomic_load(&endpoint->last_wqe) || endpoint->rc->has_flushed ||
         (endpoint->rc->lanes[0].is_erred &&
          vb_now_ns(endpoint->device) >= endpoint->rc->erred_ns + RC_FLUSH_NS);
}

void rc_last_wqe_step(struct pst_endpoint *endpoint)
{
  const uint64_t empties = endpoint->worker->empties;

  if (!rc_last_wqe_may_have_some(endpoint))
    return;
  /* Else its event waits for the next look at the clock, and the end of the connection with it. */
  if (endpoint->rc->lanes[0].is_erred && !atomic_load(&endpoint->last_wqe))
    vb_events(endpoint->device);
  rc_last_wqe_post_last(endpoint);
  if (!endpoint->rc->given_at && rc_last_wqe_takes_no_more(endpoint))
    endpoint->rc->given_at = empties + 1;
  if (!endpoint->rc->given_at)
    return;
  if (empties < endpoint->rc->given_at) {
    vb_pend(endpoint);
    return;
  }
  /* A completion would have said why by now. */
  if (!endpoint->rc->lanes[0].is_erred && endpoint->rc->stage.name == RC_CONNECTED)
    rc_fail(endpoint, -EIO, "the device failed the queue pair, and did not say why");
  endpoint->rc->lanes[0].rq.posted = 0;
}

void rc_last_wqe_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  if (!rc_last_wqe_may_have_some(endpoint) || !endpoint->rc->lanes[0].is_erred)
    return;
  if (now_ns >= endpoint->rc->erred_ns + RC_FLUSH_NS)
    vb_pend(endpoint);
  else
    vb_due(endpoint->worker, endpoint->rc->erred_ns + RC_FLUSH_NS);
}

void rc_last_wqe_notice(struct pst_endpoint *endpoint)
{
  if (endpoint->shared && atomic_load(&endpoint->last_wqe))
    vb_pend(endpoint);
}
