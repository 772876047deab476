/* SPDX-License-Identifier: Apache-2.0 */
/* Completions, requests and words of endpoints, and what one does and tells in a poll. */
#include <endian.h>
#include <stdio.h>

#include "../verbs/poll.h"
#include "../verbs/request.h"
#include "../verbs/srq.h"
#include "connection.h"
#include "ops.h"
#include "probe.h"
#include "ring_share.h"

#define ANSWER_NS UINT64_C(10000000)
#define DC_FLUSH_NS UINT64_C(2000000000)

/* ---- Sent -------------------------------------------------------------------------------- */

static void dc_poll_failed(struct dc_endpoint *dc, const struct ibv_wc *wc)
{
  const struct pst_device *device = dc->endpoint.device;
  const struct vb_path *path = &device->path;
  char text[1024];

  vb_wc_text((int)wc->status, wc->vendor_err, dc->endpoint.device->open.port->is_ethernet, text,
             sizeof(text));
  if (wc->status == IBV_WC_RETRY_EXC_ERR)
    dc_handle_doubt(dc);
  if (wc->status == IBV_WC_RETRY_EXC_ERR)
    vb_text_add(
        text, sizeof(text),
        "; the peer has not answered for some %.1f s (`timeout: %u` and `retry_cnt: %u` are "
        "%.2f s, which a device may make up to four times as long)",
        (double)(vb_now_ns(device) - dc->heard_ns) / 1e9, path->timeout, path->retry_cnt,
        (double)vb_silence_ns(path) / 1e9);
  dc_fail(&dc->endpoint, vb_wc_status((int)wc->status)->error, text);
}

/* Report an access that the peer refuses as that, not as the end of the connection that it is. */
static bool dc_poll_is_access_error(const struct pst_endpoint *endpoint, uint64_t index,
                                    const struct ibv_wc *wc)
{
  const uint8_t opcode = endpoint->sq.sent[index & endpoint->sq.mask].opcode;
  const bool is_access =
      wc->status == IBV_WC_REM_ACCESS_ERR || wc->status == IBV_WC_REM_INV_REQ_ERR;

  return is_access && opcode != 0 && opcode != PST_OP_SEND && opcode != PST_OP_FLUSH;
}

/* True for a word that arrived, but whose answer was lost with the peer's target. It is sent again,
 * with those behind it. */
static bool dc_poll_is_of_lost_target(const struct dc_endpoint *dc, uint64_t index,
                                      const struct ibv_wc *wc)
{
  const struct vb_send_queue *sq = &dc->endpoint.sq;

  return wc->status == IBV_WC_RETRY_EXC_ERR && index < dc->moved_at && index < dc->again_at &&
         sq->wrs[index & sq->mask].opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Handles the completion of a request: done, to be posted again, or the end of the peer. */
void dc_sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct dc_endpoint *dc = dc_of(endpoint);
  struct vb_send_queue *sq = &endpoint->sq;
  const uint64_t index = dc_index_of(sq, wc);

  if (!dc->initiator || index >= sq->head) {
    dc_probe_sent(dc, wc); /* or of an initiator that was reset since */
    return;
  }
  vb_pend(endpoint);
  if (wc->status == IBV_WC_SUCCESS) {
    dc_answered(dc, index);
    return;
  }
  if (dc->initiator->is_flushing) {
    sq->done = index + 1;
    dc_flushed(dc);
    return;
  }
  if (dc_poll_is_of_lost_target(dc, index, wc))
    dc->again_at = index;
  if (index >= dc->again_at) {
    sq->done = sq->done > dc->again_at ? sq->done : dc->again_at;
    return;
  }
  /* The others behind it are flushed. Without streams they go with the reset. */
  sq->done = sq->failed_from = index;
  if (dc_device_of(endpoint->device)->log_streams) {
    dc->initiator->is_flushing = true;
    sq->done = index + 1;
  }
  if (dc_poll_is_access_error(endpoint, index, wc)) {
    sq->refused_at = index;
    sq->first_error = -EACCES;
  }
  dc_poll_failed(dc, wc);
  if (dc->initiator->is_flushing)
    dc_flushed(dc);
}

/* ---- Received ---------------------------------------------------------------------------- */

struct pst_endpoint *dc_whose(struct pst_worker *worker, const struct ibv_wc *wc)
{
  struct dc_worker *pool = dc_worker_of(worker);
  struct pst_endpoint *endpoint = NULL;

  if (wc->status == IBV_WC_SUCCESS && (wc->wc_flags & IBV_WC_WITH_IMM))
    endpoint = pool->numbers[be32toh(wc->imm_data) >> 16];
  if (!endpoint)
    pool->dropped++;
  return endpoint;
}

static void dc_poll_drop(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  dc_worker_of(endpoint->worker)->dropped++;
  vb_srq_give_back(endpoint->worker, wc);
}

static bool dc_poll_take_credit(struct dc_endpoint *dc, uint32_t value)
{
  struct vb_tx *tx = dc->endpoint.tx;
  const uint32_t more = (value - dc->seen) % DC_VALUES;

  if (!tx || tx->credits.count + more > tx->credits.max)
    return false;
  dc->seen += more;
  tx->credit_messages++;
  if (tx->credits.count) {
    vb_slot_fifo_first(&tx->credits)->count += more;
    tx->credits.count += more;
  } else
    vb_slot_fifo_put(&tx->credits, 0, more);
  return true;
}

static void dc_poll_take_word(struct dc_endpoint *dc, const struct ibv_wc *wc)
{
  const uint32_t said = be32toh(wc->imm_data) & 0xffff, value = said % DC_VALUES;

  switch (said >> DC_VALUE_BITS) {
  case DC_HELLO:
    break;
  case DC_CREDIT:
    if (!dc_poll_take_credit(dc, value))
      dc_fail(&dc->endpoint, -EPROTO, "the peer granted more credit than it may");
    break;
  case DC_FAREWELL:
    dc_left(dc, 0);
    break;
  case DC_ABORTED:
    dc_left(dc, -ECONNRESET);
    break;
  default:
    dc_fail(&dc->endpoint, -EPROTO, "the peer sent a control word that verbs_dc does not have");
  }
  vb_pend(&dc->endpoint);
}

/* The messages at the front of those that were polled that are this endpoint's, and into the same
 * ring: as many as it may have, and as there is room for. */
static uint32_t dc_poll_tell_row(struct pst_endpoint *endpoint, const struct ibv_wc *wc,
                                 uint32_t most, struct vb_out *out)
{
  struct vb_rx *rx = endpoint->rx;
  struct pst_ring *ring = rx->ring;
  const struct ibv_wc *first = wc;
  const uint32_t number = be32toh(wc->imm_data) >> 16;
  const uint64_t whose = wc->wr_id >> 31;
  const uint64_t base = ring->params.base + ring->params.headroom, stride = ring->params.stride;

  most = most < rx->granted ? most : rx->granted;
  most = most < out->room ? most : out->room;
  for (const struct ibv_wc *end = wc + most;
       wc != end && wc->wr_id >> 31 == whose && wc->status == IBV_WC_SUCCESS &&
       wc->opcode == IBV_WC_RECV && (wc->wc_flags & IBV_WC_WITH_IMM) &&
       be32toh(wc->imm_data) >> 16 == number;
       wc++) {
    const uint32_t slot = vb_srq_entry(wc->wr_id);
    const uint64_t carried = (uint64_t)be32toh(wc->imm_data) - rx->initial;
    const uint64_t sequence = pst_sequence_nearest(rx->highest, carried, DC_SEQUENCE_BITS);
    if ((int64_t)(sequence - rx->highest) > 0)
      rx->highest = sequence;
    rx->bytes += wc->byte_len;
    ring->owners[slot] = endpoint->place;
    vb_bits_set(ring->held, slot, 1);
    *out->at++ = (struct pst_completion){.kind = PST_COMPLETION_MESSAGE,
                                         .flags = PST_HAS_SEQUENCE,
                                         .endpoint = endpoint->cookie,
                                         .u.message = {.token = pst_token(ring->place, slot),
                                                       .offset = base + slot * stride,
                                                       .length = wc->byte_len,
                                                       .sequence = sequence}};
  }
  const uint32_t n = (uint32_t)(wc - first);
  out->room -= n;
  rx->granted -= n;
  rx->out += n;
  rx->arrived += n;
  return n;
}

/* True: nothing of it is left. */
static bool dc_poll_take_messages(struct dc_endpoint *dc, const struct ibv_wc *wc,
                                  struct vb_out *out)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  struct pst_worker *worker = endpoint->worker;
  const struct vb_srq *shared = vb_srq_of(worker, wc->wr_id);

  if (!endpoint->is_connected || endpoint->closing.mode || !endpoint->rx || !shared ||
      shared->ring != endpoint->rx->ring) {
    dc_poll_drop(endpoint, wc);
    return true;
  }
  if (out->room == 0)
    return false;
  const uint32_t n = dc_poll_tell_row(endpoint, wc, worker->wc_count - worker->wc_at, out);
  if (n == 0) {
    dc_poll_drop(endpoint, wc);
    dc_fail(endpoint, -EPROTO, "the peer sent a message for which it had no slot");
    return true;
  }
  worker->wc_at += n - 1;
  endpoint->arrivals += n;
  if (dc_share_more(dc) || endpoint->rx->ungranted)
    vb_pend(endpoint);
  return true;
}

/* A peer that sends any other word has received our hello. False: the word is a stranger's, before
 * the peer's hello. */
static bool dc_poll_hear(struct dc_endpoint *dc, const struct ibv_wc *wc)
{
  const uint32_t said = be32toh(wc->imm_data) & 0xffff;

  if (wc->opcode != IBV_WC_RECV && said >> DC_VALUE_BITS == DC_HELLO) {
    if (!dc_hear_hello(dc, said % DC_VALUES))
      return false;
    if (dc->is_waiting && dc->line != DC_ANSWERED) /* counts as an answer to a probe */
      dc_has_answered(dc);
  } else if (!dc->is_heard)
    return false;
  else
    dc->is_answered |= dc->hello_at != VB_NEVER;
  dc_met(dc);
  return true;
}

bool dc_received(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out)
{
  struct dc_endpoint *dc = dc_of(endpoint);
  const bool is_message = wc->opcode == IBV_WC_RECV;

  if (__builtin_expect(!dc->is_heard || !dc->is_answered, 0) && !dc_poll_hear(dc, wc)) {
    dc_poll_drop(endpoint, wc);
    return true;
  }
  if (endpoint->tell_connected && !endpoint->closing.mode) {
    endpoint->tell_connected = false;
    vb_event_write(out, endpoint->cookie, PST_EVENT_CONNECTED, 0);
    if (out->room == 0)
      return false;
  }
  if (is_message)
    return dc_poll_take_messages(dc, wc, out);
  endpoint->arrivals++;
  vb_srq_give_back(endpoint->worker, wc);
  if (!dc_is_over(dc))
    dc_poll_take_word(dc, wc);
  return true;
}

/* ---- Posted ------------------------------------------------------------------------------ */

int dc_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait)
{
  struct dc_endpoint *dc = dc_of(endpoint);

  if (!endpoint->is_connected || n == 0 || endpoint->closing.mode || endpoint->tell_connected ||
      endpoint->sq.requests_max == 0)
    return vb_post(endpoint, requests, n, wait);
  if ((dc->initiator && dc_is_spent(dc)) || !dc_take(dc)) {
    vb_want_room(endpoint, PST_WAIT_QUEUE);
    *wait = PST_WAIT_QUEUE;
    return -EAGAIN;
  }
  const int rc = vb_post(endpoint, requests, n, wait);
  if (dc->initiator && endpoint->sq.head == endpoint->sq.told)
    dc_give(dc);
  return rc;
}

/* ---- Words ------------------------------------------------------------------------------- */

static int dc_poll_say(struct dc_endpoint *dc, enum dc_word word, uint32_t value)
{
  const int rc = vb_send_queue_own(&dc->endpoint.sq, IBV_WR_RDMA_WRITE_WITH_IMM,
                                   (uint32_t)word << DC_VALUE_BITS | value % DC_VALUES, NULL);

  if (rc == 0)
    dc->says &= ~(1u << word);
  return rc;
}

/* arm() says no as long as the answer, which lets the next word go, may come at once. One that is
 * late wakes the host by its completion. */
static void dc_poll_wait_for_answer(struct dc_endpoint *dc)
{
  const uint64_t now = vb_now_ns(dc->endpoint.device);

  if (dc->late_ns == 0)
    dc->late_ns = now + ANSWER_NS;
  if (now < dc->late_ns)
    vb_pend(&dc->endpoint);
}

/* Receives come before the credit that uses them. Two such words are under way at a time: the next
 * has all that was granted since. With one alone, a release would tell the peer nothing where the
 * device's answer to the word before is late, until the host polls once more. */
static void dc_poll_grant(struct dc_endpoint *dc)
{
  struct pst_endpoint *endpoint = &dc->endpoint;

  if (!endpoint->is_connected || endpoint->closing.mode)
    return;
  if (endpoint->rx->ungranted)
    dc_share_settle(dc);
  const bool may_say = dc->credits_at[0] == VB_NEVER || dc->credits_at[0] < endpoint->sq.done;
  const uint32_t more = dc_share_more(dc);
  if (more == 0)
    return;
  if (!may_say) {
    dc_poll_wait_for_answer(dc);
    return;
  }
  const int rc = vb_srq_post(endpoint->rx->ring->shared);
  if (rc < 0) {
    dc_fail(endpoint, rc, "ibv_post_srq_recv");
    return;
  }
  dc->late_ns = 0;
  dc_share_grant(dc, more);
  dc->says |= 1u << DC_CREDIT;
}

static uint32_t dc_poll_value_of(const struct dc_endpoint *dc, enum dc_word word)
{
  struct dc_blob own;

  if (word != DC_HELLO)
    return word == DC_CREDIT ? dc->granted : 0;
  dc_local_address(dc, &own);
  return dc_blob_proof(&own);
}

/* In the order of their numbers: hello first, farewell behind all that was posted. */
static void dc_poll_say_all(struct dc_endpoint *dc)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  int rc = 0;

  if (!dc->says || dc->stage < DC_GREETING || dc->stage == DC_FAILED || !dc_take(dc))
    return;
  for (uint32_t word = DC_HELLO; rc == 0 && word <= DC_ABORTED; word++) {
    if (!(dc->says & 1u << word))
      continue;
    const uint64_t at = endpoint->sq.head;
    rc = dc_poll_say(dc, (enum dc_word)word, dc_poll_value_of(dc, (enum dc_word)word));
    if (rc == 0 && word == DC_HELLO)
      dc->hello_at = at;
    if (rc == 0 && word == DC_CREDIT) {
      dc->credits_at[0] = dc->credits_at[1];
      dc->credits_at[1] = at;
    }
  }
  if (rc < 0 && rc != -EAGAIN)
    dc_fail(endpoint, rc, "ibv_wr_complete of a word");
}

/* ---- Told -------------------------------------------------------------------------------- */

/* A failed one once all that arrived before has been taken. */
static bool dc_poll_is_gone(const struct dc_endpoint *dc)
{
  return dc->tells_gone && dc->endpoint.sq.done == dc->endpoint.sq.head &&
         (dc->stage == DC_LEFT || dc->endpoint.worker->empties >= dc->over_at);
}

static void dc_poll_give_back(struct dc_endpoint *dc)
{
  const struct vb_send_queue *sq = &dc->endpoint.sq;

  if (dc->initiator && sq->told == sq->head && (!dc->says || dc->stage == DC_FAILED))
    dc_give(dc);
}

/* A target of this end, or of the peer's, was made anew. */
static void dc_poll_tell_move(struct dc_endpoint *dc, struct vb_out *out)
{
  const uint64_t cookie = dc->endpoint.cookie;

  if (dc_is_over(dc) || dc->endpoint.closing.mode)
    dc->tells_address = dc->tells_again = false;
  if (dc->tells_address && out->room) {
    dc->tells_address = false;
    vb_event_write(out, cookie, PST_EVENT_READDRESS, 0);
  }
  if (dc->tells_again && out->room) {
    dc->tells_again = false;
    vb_event_write(out, cookie, PST_EVENT_CONNECTED, 0);
  }
}

/* Work of a poll beside completions: posts again, grants credit, says hello, and reports
 * CONNECTED. */
void dc_work(struct pst_endpoint *endpoint, struct vb_out *out)
{
  struct dc_endpoint *dc = dc_of(endpoint);

  if (__builtin_expect(endpoint->sq.done >= dc->again_at, 0))
    dc_post_again(dc, 0);
  if (endpoint->rx)
    dc_poll_grant(dc);
  dc_poll_say_all(dc);
  if (endpoint->tell_connected && out->room && !endpoint->closing.mode) {
    endpoint->tell_connected = false;
    vb_event_write(out, endpoint->cookie, PST_EVENT_CONNECTED, 0);
  }
  if (__builtin_expect(dc->tells_address | dc->tells_again, 0))
    dc_poll_tell_move(dc, out);
  const bool is_closable = endpoint->closing.mode && dc_close_step(dc, vb_now_ns(endpoint->device));
  vb_tell_done(endpoint, out);
  dc_poll_give_back(dc);
  if (!dc->is_waiting && !(dc->initiator && dc_is_spent(dc)))
    vb_tell_room(endpoint);
  if (dc_poll_is_gone(dc) && out->room && endpoint->sq.told == endpoint->sq.done) {
    dc->tells_gone = false;
    vb_event_write(out, endpoint->cookie, PST_EVENT_DISCONNECTED, dc->status);
  }
  if (!is_closable || endpoint->sq.told != endpoint->sq.head || out->room == 0) {
    if (endpoint->sq.told != endpoint->sq.done || is_closable || dc->tells_gone ||
        endpoint->tell_connected || dc->tells_address || dc->tells_again)
      vb_pend(endpoint);
    return;
  }
  const uint64_t cookie = endpoint->cookie;
  dc_endpoint_free(endpoint);
  vb_event_write(out, cookie, PST_EVENT_CLOSED, 0);
}

/* ---- Deadlines --------------------------------------------------------------------------- */

static void dc_poll_not_connected(struct dc_endpoint *dc)
{
  char why[512];

  snprintf(
      why, sizeof(why),
      "%s: it never connected, or its packets do not reach this end. Check: %s; the peer's log",
      dc->hello_at == VB_NEVER ? "its address was not resolved in time, or no initiator was free"
                               : "the peer was not heard in time",
      dc->endpoint.device->open.port->is_ethernet
          ? "`hop_limit` and the hop limit of the routes (`ip route get`, both ends); the "
            "GIDs; firewall (UDP port 4791)"
          : "both ports' P_Keys (`pkey_index`); `service_level`; `sminfo`, and `ibtracert` "
            "between both LIDs");
  dc_fail(&dc->endpoint, -ETIMEDOUT, why);
}

/* Finds out whether the peer is there, by a request that it owes an answer to, or else by an empty
 * WRITE. */
static void dc_poll_look_at_life(struct dc_endpoint *dc, uint64_t now_ns)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  const bool owes = endpoint->sq.head != endpoint->sq.done;

  if ((uint32_t)endpoint->arrivals != dc->heard_arrivals ||
      (uint32_t)endpoint->sq.done != dc->heard_done || owes != dc->owed) {
    dc->heard_arrivals = (uint32_t)endpoint->arrivals;
    dc->heard_done = (uint32_t)endpoint->sq.done;
    dc->heard_ns = now_ns;
    dc->owed = owes;
  }
  const uint64_t patience = owes ? endpoint->timeout_ns : endpoint->device->keepalive_ns;
  if (patience == 0)
    return;
  if (now_ns - dc->heard_ns < patience) {
    vb_due(endpoint->worker, dc->heard_ns + patience);
    return;
  }
  if (owes && !endpoint->worker->has_all) {
    vb_due(endpoint->worker, now_ns);
    return;
  }
  if (owes) {
    dc_fail(endpoint, -ETIMEDOUT,
            "the peer owes an answer, and neither it nor the device's own error came within the "
            "stream's timeout: the peer or the path is gone (see hop_limit, GIDs, routes), and "
            "the device still retries, as long as retry_cnt and timeout say");
    return;
  }
  /* While others have all initiators, there is time. */
  const int rc =
      dc_worker_of(endpoint->worker)->free || dc->initiator
          ? dc_take(dc) ? vb_send_queue_own(&endpoint->sq, IBV_WR_RDMA_WRITE, 0, NULL) : -EAGAIN
          : -EAGAIN;
  if (rc < 0 && rc != -EAGAIN)
    dc_fail(endpoint, rc, "ibv_wr_complete of a keepalive");
  dc->heard_ns = now_ns;
  dc->owed = rc == 0;
  vb_due(endpoint->worker,
         now_ns + (rc == 0 && endpoint->timeout_ns ? endpoint->timeout_ns : patience));
}

/* A device may take up to a second to flush what is behind a request that has failed. */
static void dc_poll_look_at_flush(struct dc_endpoint *dc, uint64_t now_ns)
{
  if (now_ns < dc->over_ns + DC_FLUSH_NS) {
    vb_due(dc->endpoint.worker, dc->over_ns + DC_FLUSH_NS);
    return;
  }
  dc_abandon(dc);
  vb_pend(&dc->endpoint);
}

/* Gives up requests that a peer which has left has not answered within the stream's timeout. */
static void dc_poll_look_at_rest(struct dc_endpoint *dc, uint64_t now_ns)
{
  struct pst_endpoint *endpoint = &dc->endpoint;

  if (dc->stage != DC_LEFT || endpoint->timeout_ns == 0 || endpoint->sq.done == endpoint->sq.head)
    return;
  if (now_ns < dc->over_ns + endpoint->timeout_ns) {
    vb_due(endpoint->worker, dc->over_ns + endpoint->timeout_ns);
    return;
  }
  if (!endpoint->sq.error)
    endpoint->sq.error = -ECONNRESET;
  dc_abandon(dc);
  vb_pend(endpoint);
}

void dc_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct dc_endpoint *dc = dc_of(endpoint);

  if (!endpoint->closing.mode && !dc_is_over(dc) &&
      atomic_load_explicit(&endpoint->device->is_lost, memory_order_relaxed))
    dc_fail(endpoint, -EIO, "the device is lost");
  if (dc->initiator && dc->initiator->is_flushing)
    dc_poll_look_at_flush(dc, now_ns);
  if (dc->is_waiting) /* worker_look() */
    vb_due(endpoint->worker, now_ns + DC_PROBE_LOOK_NS);
  if (endpoint->closing.mode) {
    if (now_ns >= endpoint->closing.deadline_ns)
      vb_pend(endpoint);
    else
      vb_due(endpoint->worker, endpoint->closing.deadline_ns);
    return;
  }
  if (dc->stage == DC_RESOLVING || dc->stage == DC_GREETING) {
    if (now_ns >= dc->by_ns && endpoint->worker->has_all)
      dc_poll_not_connected(dc);
    else
      vb_due(endpoint->worker, now_ns < dc->by_ns ? dc->by_ns : now_ns);
  } else if (dc->stage == DC_CONNECTED)
    dc_poll_look_at_life(dc, now_ns);
  else
    dc_poll_look_at_rest(dc, now_ns);
}
