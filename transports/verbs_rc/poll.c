/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: of messages, of requests, of the transport's own, and events. */
#include <assert.h>
#include <endian.h>
#include <stdio.h>

#include "cm.h"
#include "connection.h"
#include "lanes.h"
#include "ops.h"
#include "qp.h"
#include "queue.h"
#include "receive.h"
#include "shared.h"

/* The clock and events are looked at once in so many polls that brought something, or in a 64th of
 * them that found nothing: who polls rarely is to hear of them, too. */
#define POLLS_BETWEEN_LOOKS 4096u
#define IDLE_POLL 64u
#define BUDGET (8u * RC_POLL_BATCH) /* completions of the device's a poll takes */

/* There is room. */
static void event(struct rc_out *out, uint64_t cookie, uint8_t code, int status)
{
  pst_event_write(out->at++, cookie, code, status);
  out->room--;
}

/* Before its endpoints say that they have failed: their peers have not. */
static void tell_lost(struct pst_worker *worker, struct rc_out *out)
{
  if (out->room == 0)
    return;
  worker->tells_lost = false;
  worker->has_told_lost = true;
  event(out, 0, PST_EVENT_DEVICE, -EIO);
}

/* ---- What the device says ---------------------------------------------------------------- */

static void failed(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  const struct vb_status *status = vb_wc_status((int)wc->status);
  char text[1024];

  rc_wc_text(endpoint, wc, text, sizeof(text));
  rc_fail(endpoint, status->error, text);
}

/* An access that the peer refuses is told as that, not as the end of the connection that it is. */
static bool is_access_error(const struct pst_endpoint *endpoint, uint64_t index,
                            const struct ibv_wc *wc)
{
  uint8_t opcode = endpoint->sent[index & endpoint->sq_mask].opcode;
  bool is_access = wc->status == IBV_WC_REM_ACCESS_ERR || wc->status == IBV_WC_REM_INV_REQ_ERR;

  return is_access && opcode != 0 && opcode != PST_OP_SEND && opcode != PST_OP_FLUSH;
}

/* The device has taken the queue pair to ERR by itself: its event says why, if it is there yet. */
static void device_gave_up(struct pst_endpoint *endpoint)
{
  rc_events(endpoint->device);
  rc_take_notices(endpoint->worker);
  if (endpoint->stage.name != RC_FAILED && !rc_is_reconnecting(endpoint))
    rc_fail(endpoint, -EIO, "the device failed the queue pair, and gave back what was posted");
}

static bool is_given_up(const struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  return wc->status == IBV_WC_WR_FLUSH_ERR && endpoint->stage.name >= RC_CONNECTED &&
         !endpoint->lanes[0].is_erred && endpoint->stage.name != RC_FAILED &&
         !rc_is_reconnecting(endpoint);
}

/* A hello went to a peer that was not there yet. */
static void greet_later(struct pst_endpoint *endpoint, struct rc_lane *lane,
                        const struct ibv_wc *wc)
{
  lane->greets_again = true;
  atomic_store_explicit(&endpoint->device->has_lost_peer, true, memory_order_relaxed);
  endpoint->stage.connecting.hellos_lost++;
  endpoint->stage.connecting.vendor = wc->vendor_err;
  rc_lane_error(endpoint, lane);
}

static void refused_at(struct pst_endpoint *endpoint, struct rc_lane *lane, uint64_t index,
                       const struct ibv_wc *wc)
{
  if (lane->failed_from == RC_NEVER)
    lane->failed_from = index;
  if (endpoint->refused_at != RC_NEVER || !is_access_error(endpoint, index, wc))
    return;
  endpoint->refused_at = index;
  endpoint->first_error = -EACCES;
}

/* Of one in error that cannot be undone by a new connection. */
static void failed_by(struct pst_endpoint *endpoint, struct rc_lane *lane, bool is_met,
                      const struct ibv_wc *wc)
{
  /* By rdma_cm the peer was there when it was said. */
  if (!is_met && wc->status == IBV_WC_RETRY_EXC_ERR && !endpoint->cm)
    greet_later(endpoint, lane, wc);
  else if (wc->status != IBV_WC_WR_FLUSH_ERR && !lane->greets_again)
    failed(endpoint, wc);
}

static void sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  if (endpoint->shared && rc_shared_flushed(endpoint, wc))
    return;
  if (is_given_up(endpoint, wc))
    device_gave_up(endpoint);
  struct rc_lane *lane = rc_lane_of(endpoint, wc);
  const uint64_t index =
      endpoint->sq_done + (uint32_t)((uint32_t)wc->wr_id - (uint32_t)endpoint->sq_done);
  const bool is_aside = index >= endpoint->sq_head, is_fine = wc->status == IBV_WC_SUCCESS;
  const bool is_met = endpoint->stage.name >= RC_CONNECTED;
  const bool is_reconnecting =
      rc_is_reconnecting(endpoint) || (!is_fine && rc_reconnect_for(endpoint, wc));

  rc_pend(endpoint);
  if (is_aside)
    lane->own--;
  else if (is_reconnecting && !is_fine)
    lane->flushed = index + 1;
  else {
    if (!is_fine && is_met)
      refused_at(endpoint, lane, index, wc);
    rc_lane_done(endpoint, lane, index + 1);
  }
  if (is_fine && !is_met)
    rc_lane_heard(endpoint, lane);
  if (is_reconnecting) {
    rc_lanes_given_back(endpoint);
    if (is_aside && !is_fine && endpoint->stage.name == RC_GREETING_AGAIN)
      rc_reconnect_again(endpoint, 0);
  } else if (!is_fine)
    failed_by(endpoint, lane, is_met, wc);
}

/* `lane`: by which it came. */
static void control(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc)
{
  uint32_t said = be32toh(wc->imm_data), what = rc_is_hello(said) ? RC_HELLO : said,
           buffer = (uint32_t)wc->wr_id;
  bool fine = (wc->wc_flags & IBV_WC_WITH_IMM) != 0;

  if (fine && what == RC_CREDIT) {
    const uint8_t *bytes = endpoint->shared ? rc_shared_buffer(endpoint->shared, wc->wr_id)
                                            : rc_receive_buffer(endpoint, buffer);
    fine = lane == endpoint->lanes && endpoint->tx && rc_credit_take(endpoint, bytes, wc->byte_len);
  } else if (fine && (what == RC_FAREWELL || what == RC_ABORTED)) {
    if (rc_lane_left(endpoint, lane))
      rc_left(endpoint, what == RC_FAREWELL ? 0 : -ECONNRESET);
  } else if (what != RC_HELLO)
    fine = false;
  else
    rc_reconnect_heard(endpoint, lane, said);
  if (!fine)
    rc_fail(endpoint, -EPROTO, "the peer sent a message that is not verbs_rc's");
  else
    rc_pend(endpoint);
}

static void flushed(struct pst_endpoint *endpoint, const struct rc_lane *lane,
                    const struct ibv_wc *wc)
{
  /* What was sent goes by another queue pair, which need not know. The event that says why may
   * come later. */
  if (endpoint->is_split && endpoint->stage.name == RC_CONNECTED &&
      !endpoint->stage.connected.flushed_ns && is_given_up(endpoint, wc)) {
    endpoint->stage.connected.flushed_ns = rc_now_ns(endpoint->device);
    rc_due(endpoint->worker, endpoint->stage.connected.flushed_ns + RC_EVENT_NS);
  }
  if (rc_is_reconnecting(endpoint))
    rc_reconnect_lost(endpoint);
  else if (!rc_reconnect_for(endpoint, wc) && wc->status != IBV_WC_WR_FLUSH_ERR &&
           !lane->greets_again)
    failed(endpoint, wc);
  if (lane->rq_posted == 0)
    rc_pend(endpoint);
}

/* A shared one. */
static void give_back(const struct pst_worker *worker, const struct ibv_wc *wc)
{
  struct rc_shared *shared = rc_shared_of(worker, wc->wr_id);

  if (shared)
    rc_shared_back(shared, rc_shared_entry(wc->wr_id));
}

/* Also before it is connected: a hello may be here as soon as the queue pair is in RTR. In ERR
 * soft-RoCE takes receives and never gives them back. */
static bool takes_receives(const struct pst_endpoint *endpoint)
{
  return !endpoint->lanes[0].is_erred && !rc_is_over(endpoint);
}

static bool is_hello(const struct ibv_wc *wc)
{
  return rc_is_hello(be32toh(wc->imm_data));
}

/* A queue pair in RTR answers the peer's hello and takes what it sends then: that waits until the
 * deferred work, of which little is left, is through, and CONNECTED is told. */
static bool is_early(const struct pst_endpoint *endpoint, const struct ibv_wc *wc, bool is_message)
{
  return endpoint->stage.name == RC_SETTING_UP && !endpoint->closing.mode &&
         wc->status == IBV_WC_SUCCESS && (is_message || !is_hello(wc));
}

/* Before the connection is: what a receive says of the peer. */
static void hear(struct pst_endpoint *endpoint, struct rc_lane *by, bool is_hello)
{
  if (rc_is_reconnecting(endpoint)) {
    if (!is_hello)
      rc_reconnect_met(endpoint, by);
    return;
  }
  /* Who says anything else has met this end on all of them. */
  for (struct rc_lane *lane = endpoint->lanes; !is_hello && lane < rc_lanes_end(endpoint); lane++)
    if (lane->peer == RC_PEER_SILENT)
      lane->peer = RC_PEER_HEARD;
  rc_lane_heard(endpoint, by);
}

/* False: it needs more room than there is, or has come too early. */
static bool received(struct pst_endpoint *endpoint, const struct ibv_wc *wc, struct rc_out *out)
{
  const bool sends = endpoint->rx && endpoint->rx->sends;
  const bool is_message = (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) != sends;
  struct rc_lane *lane = rc_lane_of(endpoint, wc);

  if (wc->status == IBV_WC_SUCCESS) {
    if (endpoint->stage.name != RC_CONNECTED)
      hear(endpoint, lane, !is_message && is_hello(wc));
    if (endpoint->tell_connected && !endpoint->closing.mode) {
      endpoint->tell_connected = false;
      event(out, endpoint->cookie, PST_EVENT_CONNECTED, 0);
      if (out->room == 0)
        return false;
    }
  }
  if (is_early(endpoint, wc, is_message))
    return false;
  if (!endpoint->shared)
    lane->rq_posted--;
  else if (wc->status != IBV_WC_SUCCESS || !is_message)
    give_back(endpoint->worker, wc);
  endpoint->arrivals++;
  if (wc->status != IBV_WC_SUCCESS) {
    flushed(endpoint, lane, wc);
    return true;
  }
  int rc = 0;
  const bool is_repeated = rc_is_reconnecting(endpoint) && (is_message || !is_hello(wc)) &&
                           rc_reconnect_is_repeated(endpoint, lane);
  if (is_message && is_repeated) {
    if (endpoint->shared)
      give_back(endpoint->worker, wc);
    else if (sends && takes_receives(endpoint))
      rc = rc_slot_again(endpoint);
  } else if (is_message) {
    if (endpoint->lane_count > 1)
      rc_lane_arrived(endpoint, lane, wc, out);
    else
      rc_arrived(endpoint, wc, out);
  } else {
    if (!is_repeated)
      control(endpoint, lane, wc);
    if (sends && !endpoint->shared && takes_receives(endpoint) &&
        (uint32_t)wc->wr_id != RC_SPARE) /* it took a slot's receive, and not the slot */
      rc = rc_slot_again(endpoint);
  }
  if (endpoint->receive_buffers && takes_receives(endpoint) && lane == endpoint->lanes)
    rc = rc_receive_again(endpoint, (uint32_t)wc->wr_id);
  if (rc < 0)
    rc_fail(endpoint, rc, "ibv_post_recv");
  return true;
}

static inline bool is_shared(const struct ibv_wc *wc)
{
  return (wc->wr_id & (RC_RECEIVE | RC_SHARED_BIT)) == (RC_RECEIVE | RC_SHARED_BIT);
}

static inline struct pst_endpoint *whose(struct pst_worker *worker, const struct ibv_wc *wc)
{
  if (is_shared(wc))
    return rc_shared_find(worker, wc->qp_num);
  return pst_places_find(&worker->endpoints, (uint32_t)(wc->wr_id >> 32) & PST_PLACE_NUMBERS);
}

/* Those at the front that say of this one's requests that they are done, which the last of them
 * says of all. Returns how many. */
static uint32_t sent_in_line(struct pst_endpoint *endpoint, uint32_t most)
{
  struct pst_worker *worker = endpoint->worker;
  const struct ibv_wc *wc = &worker->wc[worker->wc_at];
  const uint64_t whose = wc->wr_id >> 32, done = endpoint->sq_done;
  const uint32_t there = worker->wc_count - worker->wc_at;
  uint64_t index = done;
  uint32_t n = 0;

  if (endpoint->stage.name != RC_CONNECTED || endpoint->lane_count > 1 || endpoint->shared)
    return 0;
  most = there < most ? there : most;
  for (; n < most && wc[n].status == IBV_WC_SUCCESS && wc[n].wr_id >> 32 == whose; n++) {
    const uint64_t at = done + (uint32_t)((uint32_t)wc[n].wr_id - (uint32_t)done);
    if (at < index || at >= endpoint->sq_head)
      break;
    index = at + 1;
  }
  if (n == 0)
    return 0;
  endpoint->sq_done = index;
  rc_pend(endpoint);
  worker->wc_at += n;
  return n;
}

/* True: there are no more. */
static bool take(struct pst_worker *worker, struct rc_out *out)
{
  bool is_empty = false; /* ibv_poll_cq(3): it gave fewer than it was asked for */

  for (uint32_t budget = BUDGET, n; out->room && budget; budget -= n) {
    n = 1;
    if (worker->wc_at == worker->wc_count) {
      int some = is_empty ? 0 : ibv_poll_cq(worker->cq, RC_POLL_BATCH, worker->wc);
      worker->wc_at = 0;
      worker->wc_count = some > 0 ? (uint32_t)some : 0;
      if (some <= 0)
        return true;
      is_empty = some < (int)RC_POLL_BATCH;
    }
    const struct ibv_wc *wc = &worker->wc[worker->wc_at];
    struct pst_endpoint *endpoint = whose(worker, wc);
    if (endpoint && endpoint->is_cut)
      endpoint = NULL;
    if (!endpoint && is_shared(wc))
      give_back(worker, wc);
    if (endpoint) {
      n = wc->wr_id & RC_RECEIVE ? rc_arrived_in_line(endpoint, budget, out)
                                 : sent_in_line(endpoint, budget);
      if (n)
        continue;
      n = 1;
    }
    if (endpoint && !(wc->wr_id & RC_RECEIVE))
      sent(endpoint, wc);
    else if (endpoint && !received(endpoint, wc, out))
      return false;
    worker->wc_at++;
  }
  return false;
}

/* ---- What endpoints have to tell --------------------------------------------------------- */

static int status_of(const struct pst_endpoint *endpoint, uint64_t index)
{
  if (index == endpoint->refused_at && endpoint->first_error)
    return endpoint->first_error;
  return index < endpoint->failed_from ? 0 : endpoint->error;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Where those end that are done as the one at `index` is. */
static uint64_t alike_until(const struct pst_endpoint *endpoint, uint64_t index)
{
  const uint64_t refused = endpoint->refused_at, failed = endpoint->failed_from;

  if (index == refused)
    return index + 1;
  const uint64_t end = refused > index ? sooner(endpoint->sq_done, refused) : endpoint->sq_done;
  return index < failed ? sooner(end, failed) : end;
}

static void tell_done(struct pst_endpoint *endpoint, struct rc_out *out)
{
  const struct rc_sent *sent = endpoint->sent;
  const uint32_t mask = endpoint->sq_mask;

  assert(endpoint->sq_told <= endpoint->sq_done && endpoint->sq_done <= endpoint->sq_head);
  while (endpoint->sq_told != endpoint->sq_done) {
    const uint64_t first = endpoint->sq_told;
    const uint8_t opcode = sent[first & mask].opcode;
    uint64_t next = first + 1;
    if (opcode && out->room == 0)
      return;
    if (opcode == PST_OP_SEND || opcode == PST_OP_WRITE) {
      const uint64_t end = alike_until(endpoint, first);
      if (first >= endpoint->alike_from)
        next = end;
      while (next != end && sent[next & mask].opcode == opcode)
        next++;
    }
    endpoint->sq_told = next;
    if (opcode == 0)
      continue;
    assert(endpoint->outstanding >= next - first);
    endpoint->outstanding -= (uint32_t)(next - first);
    *out->at++ = (struct pst_completion){.kind = PST_COMPLETION_DONE,
                                         .code = opcode,
                                         .status = status_of(endpoint, first),
                                         .endpoint = endpoint->cookie,
                                         .u.done = {sent[(next - 1) & mask].cookie, next - first}};
    out->room--;
  }
}

/* Room that a post wanted, and that nothing else tells of. */
static void tell_room(struct pst_endpoint *endpoint)
{
  if (!endpoint->wants_room || endpoint->has_told_room || endpoint->stage.name != RC_CONNECTED ||
      endpoint->outstanding == endpoint->requests_max ||
      (endpoint->wants_rma_done && endpoint->sq_done < endpoint->rma_before) ||
      (!endpoint->wants_queue && rc_fifo_count(&endpoint->tx->credits) == 0))
    return;
  endpoint->has_told_room = true;
  endpoint->worker->told++;
}

/* An endpoint of requests alone, with nothing to tell but those that are done. */
static inline bool only_requests(const struct pst_endpoint *endpoint)
{
  return endpoint->stage.name == RC_CONNECTED && !endpoint->rx && !endpoint->shared &&
         endpoint->lane_count == 1 && !endpoint->closing.mode && !endpoint->tell_connected &&
         !endpoint->wants_room && !endpoint->lanes[0].greets_again;
}

/* work_on() of such a one. */
static void tell_requests(struct pst_endpoint *endpoint, struct rc_out *out)
{
  tell_done(endpoint, out);
  if (endpoint->sq_told != endpoint->sq_done)
    rc_pend(endpoint);
}

/* False: it is freed. */
static bool work_on(struct pst_endpoint *endpoint, struct rc_out *out)
{
  uint64_t now =
      endpoint->closing.mode || rc_tells_gone(endpoint) ? rc_now_ns(endpoint->device) : 0;

  if (endpoint->shared)
    rc_shared_step(endpoint);
  rc_greet_again(endpoint);
  if (endpoint->stage.name == RC_FLUSHING)
    rc_reconnect_step(endpoint);
  if (endpoint->rx)
    rc_credit_send(endpoint);
  tell_room(endpoint);
  if (endpoint->tell_connected && out->room && !endpoint->closing.mode) {
    endpoint->tell_connected = false;
    event(out, endpoint->cookie, PST_EVENT_CONNECTED, 0);
  }
  bool is_told = rc_lanes_deliver(endpoint, out);
  bool closable = endpoint->closing.mode && rc_close_step(endpoint, now);
  bool gone = rc_tells_gone(endpoint) && rc_gone_step(endpoint, now) && is_told;
  tell_done(endpoint, out);
  if (gone && out->room) {
    endpoint->stage.over.is_due = false;
    event(out, endpoint->cookie, PST_EVENT_DISCONNECTED, endpoint->stage.over.status);
  }
  if (!closable || endpoint->sq_told != endpoint->sq_head || out->room == 0) {
    /* What only waits for room is asked again; what waits for time or peers is not. */
    if (endpoint->sq_told != endpoint->sq_done || closable || (gone && rc_tells_gone(endpoint)) ||
        endpoint->tell_connected)
      rc_pend(endpoint);
    return true;
  }
  uint64_t cookie = endpoint->cookie;
  rc_endpoint_free(endpoint);
  event(out, cookie, PST_EVENT_CLOSED, 0);
  return false;
}

static void work(struct pst_worker *worker, struct rc_out *out)
{
  struct pst_endpoint *list = worker->pending;

  worker->pending = NULL;
  while (list) {
    struct pst_endpoint *endpoint = list;
    list = endpoint->next_pending;
    endpoint->is_pending = false;
    if (only_requests(endpoint))
      tell_requests(endpoint, out);
    else
      work_on(endpoint, out);
  }
}

int rc_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  struct rc_out out = {completions, max};
  bool woken = worker->armed;

  if (woken)
    rc_disarm(worker);
  rc_take_notices(worker);
  if (__builtin_expect(worker->tells_lost, 0))
    tell_lost(worker, &out);
  if (worker->pending)
    work(worker, &out);
  if (take(worker, &out)) {
    worker->empties++;
    if (worker->cm)
      worker->device->cm->leave(worker);
  }
  if (worker->pending)
    work(worker, &out);
  if (worker->shared_due)
    rc_shared_post_due(worker);
  worker->calls += out.room == max ? IDLE_POLL : 1;
  if (woken || worker->calls >= POLLS_BETWEEN_LOOKS) {
    worker->calls = 0;
    rc_look(worker, woken);
  }
  return (int)(max - out.room);
}
