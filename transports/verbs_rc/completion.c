/* SPDX-License-Identifier: Apache-2.0 */
/* Completions that no row takes, and what an endpoint does and tells in a poll. */
#include <endian.h>

#include "../verbs/poll.h"
#include "../verbs/receive.h"
#include "../verbs/receives.h"
#include "cm.h"
#include "completion.h"
#include "connection.h"
#include "last_wqe.h"
#include "multi_qp.h"
#include "qp.h"

/* ---- Completions of the device ----------------------------------------------------------- */

static void rc_completion_failed(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  const struct vb_status *status = vb_wc_status((int)wc->status);
  char text[1024];

  rc_wc_text(endpoint, wc, text, sizeof(text));
  rc_fail(endpoint, status->error, text);
}

/* Report an access that the peer refuses as that, not as the end of the connection that it is. */
static bool rc_completion_is_access_error(const struct pst_endpoint *endpoint, uint64_t index,
                                          const struct ibv_wc *wc)
{
  uint8_t opcode = endpoint->sq.sent[index & endpoint->sq.mask].opcode;
  bool is_access = wc->status == IBV_WC_REM_ACCESS_ERR || wc->status == IBV_WC_REM_INV_REQ_ERR;

  return is_access && opcode != 0 && opcode != PST_OP_SEND && opcode != PST_OP_FLUSH;
}

/* The device has taken the queue pair to ERR by itself: its event says why, if it is there yet. */
static void rc_completion_device_gave_up(struct pst_endpoint *endpoint)
{
  vb_events(endpoint->device);
  vb_take_notices(endpoint->worker);
  if (endpoint->rc->stage.name != RC_FAILED && !rc_is_reconnecting(endpoint))
    rc_fail(endpoint, -EIO, "the device failed the queue pair, and gave back what was posted");
}

static bool rc_completion_is_given_up(const struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  return wc->status == IBV_WC_WR_FLUSH_ERR && endpoint->rc->stage.name >= RC_CONNECTED &&
         !endpoint->rc->lanes[0].is_erred && endpoint->rc->stage.name != RC_FAILED &&
         !rc_is_reconnecting(endpoint);
}

/* A hello went to a peer that was not there yet. */
static void rc_completion_greet_later(struct pst_endpoint *endpoint, struct rc_lane *lane,
                                      const struct ibv_wc *wc)
{
  lane->greets_again = true;
  atomic_store_explicit(&endpoint->device->has_lost_peer, true, memory_order_relaxed);
  endpoint->rc->stage.connecting.hellos_lost++;
  endpoint->rc->stage.connecting.vendor = wc->vendor_err;
  rc_lane_error(endpoint, lane);
}

static void rc_completion_refused_at(struct pst_endpoint *endpoint, struct rc_lane *lane,
                                     uint64_t index, const struct ibv_wc *wc)
{
  if (lane->failed_from == VB_NEVER)
    lane->failed_from = index;
  if (endpoint->sq.refused_at != VB_NEVER || !rc_completion_is_access_error(endpoint, index, wc))
    return;
  endpoint->sq.refused_at = index;
  endpoint->sq.first_error = -EACCES;
}

/* Handles a completion in error that a new connection cannot undo. */
static void rc_completion_failed_by(struct pst_endpoint *endpoint, struct rc_lane *lane,
                                    bool is_met, const struct ibv_wc *wc)
{
  /* With rdma_cm the peer was there when the hello was sent. */
  if (!is_met && wc->status == IBV_WC_RETRY_EXC_ERR && !endpoint->rc->cm)
    rc_completion_greet_later(endpoint, lane, wc);
  else if (wc->status != IBV_WC_WR_FLUSH_ERR && !lane->greets_again)
    rc_completion_failed(endpoint, wc);
}

/* Handles the completion of a request: done, posted again after a reconnection, or the end of the
 * connection. */
void rc_sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  if (endpoint->shared && rc_last_wqe_flushed(endpoint, wc))
    return;
  if (rc_completion_is_given_up(endpoint, wc))
    rc_completion_device_gave_up(endpoint);
  struct rc_lane *lane = rc_lane_of(endpoint, wc);
  const uint64_t index =
      endpoint->sq.done + (uint32_t)((uint32_t)wc->wr_id - (uint32_t)endpoint->sq.done);
  const bool is_aside = index >= endpoint->sq.head, is_fine = wc->status == IBV_WC_SUCCESS;
  const bool is_met = endpoint->rc->stage.name >= RC_CONNECTED;
  const bool is_reconnecting =
      rc_is_reconnecting(endpoint) || (!is_fine && rc_reconnect_for(endpoint, wc));

  vb_pend(endpoint);
  if (is_aside)
    lane->own--;
  else if (is_reconnecting && !is_fine)
    lane->flushed = index + 1;
  else {
    if (!is_fine && is_met)
      rc_completion_refused_at(endpoint, lane, index, wc);
    rc_lane_done(endpoint, lane, index + 1);
  }
  if (is_fine && !is_met)
    rc_lane_heard(endpoint, lane);
  if (is_reconnecting) {
    rc_lanes_given_back(endpoint);
    if (is_aside && !is_fine && endpoint->rc->stage.name == RC_GREETING_AGAIN)
      rc_reconnect_again(endpoint, 0);
  } else if (!is_fine)
    rc_completion_failed_by(endpoint, lane, is_met, wc);
}

/* `lane`: by which it came. */
static void rc_completion_control(struct pst_endpoint *endpoint, struct rc_lane *lane,
                                  const struct ibv_wc *wc)
{
  uint32_t said = be32toh(wc->imm_data), what = rc_is_hello(said) ? VB_HELLO : said,
           buffer = (uint32_t)wc->wr_id;
  bool fine = (wc->wc_flags & IBV_WC_WITH_IMM) != 0;

  if (fine && what == VB_CREDIT) {
    const uint8_t *bytes = endpoint->shared ? vb_srq_buffer(endpoint->shared, wc->wr_id)
                                            : vb_receive_buffer(endpoint, buffer);
    fine = lane == endpoint->rc->lanes && endpoint->tx &&
           vb_credit_take(endpoint, bytes, wc->byte_len);
  } else if (fine && (what == VB_FAREWELL || what == VB_ABORTED)) {
    if (rc_lane_left(endpoint, lane))
      rc_left(endpoint, what == VB_FAREWELL ? 0 : -ECONNRESET);
  } else if (what != VB_HELLO)
    fine = false;
  else
    rc_reconnect_heard(endpoint, lane, said);
  if (!fine)
    rc_fail(endpoint, -EPROTO, "the peer sent a message that is not verbs_rc's");
  else
    vb_pend(endpoint);
}

static void rc_completion_flushed(struct pst_endpoint *endpoint, const struct rc_lane *lane,
                                  const struct ibv_wc *wc)
{
  /* The requests go by another queue pair, to which the failure may be unknown. The event that says
   * why may come later. */
  if (endpoint->rc->is_split && endpoint->rc->stage.name == RC_CONNECTED &&
      !endpoint->rc->stage.connected.flushed_ns && rc_completion_is_given_up(endpoint, wc)) {
    endpoint->rc->stage.connected.flushed_ns = vb_now_ns(endpoint->device);
    vb_due(endpoint->worker, endpoint->rc->stage.connected.flushed_ns + RC_EVENT_NS);
  }
  if (rc_is_reconnecting(endpoint))
    rc_reconnect_lost(endpoint);
  else if (!rc_reconnect_for(endpoint, wc) && wc->status != IBV_WC_WR_FLUSH_ERR &&
           !lane->greets_again)
    rc_completion_failed(endpoint, wc);
  if (lane->rq.posted == 0)
    vb_pend(endpoint);
}

/* Also before it is connected: a hello may be here as soon as the queue pair is in RTR. In ERR
 * soft-RoCE takes receives and never gives them back. */
static bool rc_completion_takes_receives(const struct pst_endpoint *endpoint)
{
  return !endpoint->rc->lanes[0].is_erred && !rc_is_over(endpoint);
}

static bool rc_completion_is_hello(const struct ibv_wc *wc)
{
  return rc_is_hello(be32toh(wc->imm_data));
}

/* A queue pair in RTR answers the peer's hello and takes what it sends then: that waits until the
 * deferred work, of which little is left, is done, and CONNECTED is reported. */
static bool rc_completion_is_early(const struct pst_endpoint *endpoint, const struct ibv_wc *wc,
                                   bool is_message)
{
  return endpoint->rc->stage.name == RC_SETTING_UP && !endpoint->closing.mode &&
         wc->status == IBV_WC_SUCCESS && (is_message || !rc_completion_is_hello(wc));
}

/* Before the connection is: what a receive says of the peer. */
static void rc_completion_hear(struct pst_endpoint *endpoint, struct rc_lane *by, bool is_hello)
{
  if (rc_is_reconnecting(endpoint)) {
    if (!is_hello)
      rc_reconnect_met(endpoint, by);
    return;
  }
  /* A peer that sends anything but a hello has met this end on all queue pairs. */
  for (struct rc_lane *lane = endpoint->rc->lanes; !is_hello && lane < rc_lanes_end(endpoint);
       lane++)
    if (lane->peer == RC_PEER_SILENT)
      lane->peer = RC_PEER_HEARD;
  rc_lane_heard(endpoint, by);
}

/* Handles what has arrived: a message, credit, a hello or a farewell. false: not taken yet, so that
 * it is handed in again. */
bool rc_received(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out)
{
  const bool sends = endpoint->rx && endpoint->rx->sends;
  const bool is_message = (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) != sends;
  struct rc_lane *lane = rc_lane_of(endpoint, wc);

  if (wc->status == IBV_WC_SUCCESS) {
    if (endpoint->rc->stage.name != RC_CONNECTED)
      rc_completion_hear(endpoint, lane, !is_message && rc_completion_is_hello(wc));
    if (endpoint->tell_connected && !endpoint->closing.mode) {
      endpoint->tell_connected = false;
      vb_event_write(out, endpoint->cookie, PST_EVENT_CONNECTED, 0);
      if (out->room == 0)
        return false;
    }
  }
  if (rc_completion_is_early(endpoint, wc, is_message))
    return false;
  const bool is_fine = wc->status == IBV_WC_SUCCESS;
  const uint32_t count =
      is_fine && is_message && endpoint->rx ? vb_messages_of(endpoint->rx, wc) : 1;
  const bool is_repeated = is_fine && rc_is_reconnecting(endpoint) &&
                           (is_message || !rc_completion_is_hello(wc)) &&
                           rc_reconnect_is_repeated(endpoint, lane, count);
  const bool is_told = is_fine && is_message && !is_repeated && endpoint->lane_count == 1;
  if (is_told && !vb_arrived(endpoint, wc, out))
    return false;
  if (!endpoint->shared)
    lane->rq.posted--;
  else if (wc->status != IBV_WC_SUCCESS || !is_message)
    vb_srq_give_back(endpoint->worker, wc);
  endpoint->arrivals++;
  if (wc->status != IBV_WC_SUCCESS) {
    rc_completion_flushed(endpoint, lane, wc);
    return true;
  }
  int rc = 0;
  if (is_message && is_repeated) {
    if (endpoint->shared)
      vb_srq_give_back(endpoint->worker, wc);
    else if (sends && rc_completion_takes_receives(endpoint))
      rc = vb_slot_again(endpoint);
  } else if (is_message) {
    if (!is_told)
      rc_lane_arrived(endpoint, lane, wc, out);
  } else {
    if (!is_repeated)
      rc_completion_control(endpoint, lane, wc);
    if (sends && !endpoint->shared && rc_completion_takes_receives(endpoint) &&
        (uint32_t)wc->wr_id != VB_SPARE) /* it took a slot's receive, and not the slot */
      rc = vb_slot_again(endpoint);
  }
  if (endpoint->receive_buffers && rc_completion_takes_receives(endpoint) &&
      lane == endpoint->rc->lanes)
    rc = vb_receive_again(endpoint, (uint32_t)wc->wr_id);
  if (rc < 0)
    rc_fail(endpoint, rc, "ibv_post_recv");
  return true;
}

/* Work of a poll beside completions: hellos, reconnection, credit, and the events that are due. */
void rc_work(struct pst_endpoint *endpoint, struct vb_out *out)
{
  uint64_t now =
      endpoint->closing.mode || rc_tells_gone(endpoint) ? vb_now_ns(endpoint->device) : 0;

  if (endpoint->shared)
    rc_last_wqe_step(endpoint);
  rc_greet_again(endpoint);
  if (endpoint->rc->stage.name == RC_FLUSHING)
    rc_reconnect_step(endpoint);
  if (endpoint->rx)
    vb_credit_send(endpoint);
  vb_tell_room(endpoint);
  if (endpoint->tell_connected && out->room && !endpoint->closing.mode) {
    endpoint->tell_connected = false;
    vb_event_write(out, endpoint->cookie, PST_EVENT_CONNECTED, 0);
  }
  bool is_told = rc_lanes_deliver(endpoint, out);
  bool closable = endpoint->closing.mode && rc_close_step(endpoint, now);
  bool gone = rc_tells_gone(endpoint) && rc_gone_step(endpoint, now) && is_told;
  vb_tell_done(endpoint, out);
  if (gone && out->room) {
    endpoint->rc->stage.over.is_due = false;
    vb_event_write(out, endpoint->cookie, PST_EVENT_DISCONNECTED, endpoint->rc->stage.over.status);
  }
  if (!closable || endpoint->sq.told != endpoint->sq.head || out->room == 0) {
    /* An endpoint that only waits for room is polled again; one that waits for time or for its peer
     * is not. */
    if (endpoint->sq.told != endpoint->sq.done || closable || (gone && rc_tells_gone(endpoint)) ||
        endpoint->tell_connected)
      vb_pend(endpoint);
    return;
  }
  uint64_t cookie = endpoint->cookie;
  rc_endpoint_free(endpoint);
  vb_event_write(out, cookie, PST_EVENT_CLOSED, 0);
}
