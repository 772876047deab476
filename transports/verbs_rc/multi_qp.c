/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue pairs of an endpoint, of which there may be several (`qps`). They take turns, of up to
 * 32 messages each (rc_turn()); the n-th message goes into the n-th slot that was granted. So a
 * receiver knows by which queue pair the next one comes, and tells messages in their order,
 * whichever arrives first; slots and credit are as with one queue pair. A turn of many messages is
 * posted, and told, as a row. All else goes by the first queue pair, but that each has a hello and
 * a farewell, which are not in the send queue.
 *
 * The send queue is one, too. A queue pair completes its own requests in order; the send queue is
 * done as far as all of them are.
 */
#include <assert.h>
#include <endian.h>

#include "../verbs/receive.h"
#include "connection.h"
#include "multi_qp.h"
#include "qp.h"

#define RECEIVES_MIN 4u /* hello, farewell, and as many to be late */

/* The sends of a queue pair other than the first. */
static uint32_t rc_lanes_sends_of(const struct pst_endpoint *endpoint)
{
  return vb_smaller(endpoint->sq.requests_max,
                    (uint64_t)endpoint->sq.requests_max / endpoint->lane_count + RC_TURN_MAX) +
         1 + RC_LANE_OWN;
}

static uint32_t rc_lanes_receives_of(const struct pst_endpoint *endpoint)
{
  const uint32_t lanes = endpoint->lane_count, share = endpoint->rx ? endpoint->rx->share : 0;

  return (share ? vb_smaller(share, (uint64_t)share / lanes + rc_turn(share, lanes)) : 0) +
         RECEIVES_MIN;
}

uint32_t rc_lanes_size(struct pst_endpoint *endpoint)
{
  uint32_t completions = endpoint->sq.size + endpoint->rc->lanes[0].rq.size;

  for (uint32_t i = 1; i < endpoint->lane_count; i++) {
    endpoint->rc->lanes[i].rq.size = rc_lanes_receives_of(endpoint);
    completions += rc_lanes_sends_of(endpoint) + endpoint->rc->lanes[i].rq.size;
  }
  return completions;
}

/* The first one's messages are as many as another's at most, and its queue is longer. */
static int rc_lanes_open_arrived(const struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  uint32_t size = 1;

  while (size < rc_lanes_receives_of(endpoint))
    size <<= 1;
  lane->arrived_mask = size - 1;
  lane->arrived = calloc(size, sizeof(*lane->arrived));
  return lane->arrived ? 0 : -ENOMEM;
}

/* Creates one queue pair. The first one's capacities are the limit of all. 0 or -errno. */
static int rc_lanes_open_lane(struct pst_endpoint *endpoint, uint32_t i, uint32_t pieces)
{
  struct rc_lane *lane = &endpoint->rc->lanes[i];
  const struct ibv_qp_cap want = {
      .max_send_wr = i ? rc_lanes_sends_of(endpoint) : endpoint->sq.size,
      .max_recv_wr = lane->rq.size,
      .max_send_sge = pieces,
      .max_recv_sge = 1,
      .max_inline_data = i ? endpoint->sq.max_inline : RC_INLINE_REQUESTED};
  struct ibv_qp_cap given;

  lane->failed_from = VB_NEVER;
  lane->sets_up = true;
  lane->psn = rc_random_psn();
  lane->responder_psn = rc_random_psn();
  int rc = endpoint->lane_count > 1 ? rc_lanes_open_arrived(endpoint, lane) : 0;
  if (rc == 0)
    rc = rc_qp_create(endpoint, i, &want, &given);
  if (rc < 0)
    return rc;
  if (i == 0) {
    endpoint->rc->given = given;
    endpoint->sq.qp = lane->qp;
    endpoint->sq.spread = endpoint->lane_count > 1 ? rc_lanes_ring : NULL;
  }
  if (i == 0 || given.max_inline_data < endpoint->sq.max_inline)
    endpoint->sq.max_inline = given.max_inline_data;
  return 0;
}

int rc_lanes_open(struct pst_endpoint *endpoint, uint32_t pieces)
{
  int rc = 0;

  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++)
    rc = rc_lanes_open_lane(endpoint, i, pieces);
  return rc;
}

int rc_lanes_init(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; i < endpoint->lane_count; i++) {
    int rc = rc_lane_init(endpoint, &endpoint->rc->lanes[i]);
    if (rc < 0 && i > 0)
      VB_LOG(endpoint->device, PST_LOG_ERROR,
             "%s: queue pair %u of `qps: %u` cannot be set to INIT with %u receives: %s; fewer "
             "`qps`, or see `rdma resource`",
             endpoint->label, i + 1, endpoint->lane_count, endpoint->rc->lanes[i].rq.size,
             strerror(-rc));
    if (rc < 0)
      return rc;
  }
  return 0;
}

void rc_lanes_close(struct pst_endpoint *endpoint)
{
  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++) {
    if (lane->rq.qp && lane->rq.qp != lane->qp)
      ibv_destroy_qp(lane->rq.qp);
    if (lane->qp)
      ibv_destroy_qp(lane->qp);
    for (int i = 0; i < 2; i++)
      if (lane->pds[i])
        vb_thread_domain_give(endpoint->worker, lane->pds[i]);
    free(lane->arrived);
  }
}

void rc_lane_done(struct pst_endpoint *endpoint, struct rc_lane *lane, uint64_t end)
{
  assert(end <= endpoint->sq.head);
  lane->done = end;
  if (endpoint->lane_count == 1) { /* the send queue is its own */
    endpoint->sq.done = end;
    if (lane->failed_from < end && endpoint->sq.failed_from == VB_NEVER)
      endpoint->sq.failed_from = lane->failed_from;
    return;
  }
  for (; endpoint->sq.done != endpoint->sq.head; endpoint->sq.done++) {
    const uint64_t index = endpoint->sq.done;
    lane = &endpoint->rc->lanes[endpoint->sq.sent[index & endpoint->sq.mask].lane];
    if (index >= lane->done)
      return;
    if (index >= lane->failed_from && endpoint->sq.failed_from == VB_NEVER)
      endpoint->sq.failed_from = index;
  }
}

/* The queue pair of the request at `i`, and of how many at most: `is_again`: as it went. */
static uint32_t rc_lanes_lane_of(const struct pst_endpoint *endpoint, uint64_t i, bool is_again,
                                 uint32_t *most)
{
  const struct vb_sent *sent = &endpoint->sq.sent[i & endpoint->sq.mask];

  *most = UINT32_MAX;
  if (is_again)
    return sent->lane;
  if (sent->opcode != PST_OP_SEND)
    return 0;
  const uint32_t turn = endpoint->tx->turn;
  *most = turn - (uint32_t)endpoint->rc->striped % turn;
  return rc_lane_of_message(endpoint, endpoint->rc->striped, turn);
}

/* From `*i` on, those that go by queue pair `which` one after the other, linked behind `last`. */
static inline __attribute__((always_inline)) struct ibv_send_wr *
rc_lanes_link_row(struct pst_endpoint *endpoint, uint64_t *i, uint64_t to, uint32_t which,
                  uint32_t most, const bool is_again)
{
  const uint64_t mask = endpoint->sq.mask, first = *i;
  struct vb_sent *sent = endpoint->sq.sent;
  struct ibv_send_wr *wrs = endpoint->sq.wrs, *wr = &wrs[first & mask];
  const bool is_message = sent[first & mask].opcode == PST_OP_SEND;
  uint64_t at = first;

  uint32_t messages = 0;
  for (;;) {
    sent[at & mask].lane = (uint8_t)which;
    messages += is_message ? sent[at & mask].count : 0;
    at++;
    if (at == to || messages >= most ||
        (is_again ? sent[at & mask].lane != which
                  : (sent[at & mask].opcode == PST_OP_SEND) != is_message))
      break;
    wr->next = &wrs[at & mask];
    wr = wr->next;
  }
  wr->next = NULL;
  if (!is_again && is_message)
    endpoint->rc->striped += messages;
  *i = at;
  return wr;
}

/* Hands the requests [from, to) to the device, as one list for each queue pair. Returns how many;
 * -errno: none went. */
static inline __attribute__((always_inline)) int
rc_lanes_ring_each(struct pst_endpoint *endpoint, uint64_t from, uint64_t to, const bool is_again)
{
  struct ibv_send_wr *first[RC_LANES_MAX] = {NULL}, *last[RC_LANES_MAX] = {NULL}, *bad;
  bool went = false;
  int rc = 0;

  for (uint64_t i = from; i != to;) {
    uint32_t most;
    const uint32_t which = rc_lanes_lane_of(endpoint, i, is_again, &most);
    *(last[which] ? &last[which]->next : &first[which]) = &endpoint->sq.wrs[i & endpoint->sq.mask];
    last[which] = rc_lanes_link_row(endpoint, &i, to, which, most, is_again);
  }
  endpoint->sq.head = to;
  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++) {
    if (!first[i])
      continue;
    last[i]->send_flags |= IBV_SEND_SIGNALED;
    rc = ibv_post_send(endpoint->rc->lanes[i].qp, first[i], &bad);
    went |= rc == 0 || bad != first[i];
  }
  if (rc && !went) {
    endpoint->sq.head = from;
    return -rc;
  }
  /* Requests that were not posted end with the connection. */
  if (rc)
    rc_fail(endpoint, -rc, "ibv_post_send");
  return (int)(to - from);
}

int rc_lanes_ring(struct vb_send_queue *sq, uint64_t from, uint64_t to)
{
  return rc_lanes_ring_each(vb_endpoint_of(sq), from, to, false);
}

int rc_lanes_ring_again(struct pst_endpoint *endpoint, uint64_t from, uint64_t to)
{
  return rc_lanes_ring_each(endpoint, from, to, true);
}

struct rc_lane *rc_lanes_turn(struct pst_endpoint *endpoint, uint32_t *left)
{
  const struct vb_rx *rx = endpoint->rx;

  *left = rx->own->turn - (uint32_t)rx->arrived % rx->own->turn;
  return &endpoint->rc->lanes[rc_lane_of_message(endpoint, rx->arrived, rx->own->turn)];
}

uint32_t rc_lanes_arrived(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t most,
                          struct vb_out *out)
{
  uint32_t left;
  struct rc_lane *lane = rc_lanes_turn(endpoint, &left);

  if (wc->qp_num != lane->rq.qp->qp_num || lane->arrived_head != lane->arrived_tail)
    return 0;
  const struct pst_completion *first = out->at;
  const uint32_t taken = vb_arrived_by_one(endpoint, wc, most, vb_smaller(out->room, left), out);
  lane->messages += (uint64_t)(out->at - first);
  lane->rq.posted -= taken;
  return taken;
}

/* How many completions of those that wait can be reported now: of one turn, of whose queue pair it
 * is. */
static uint32_t rc_lanes_waiting(struct pst_endpoint *endpoint, struct rc_lane **lane,
                                 uint32_t *left)
{
  *lane = rc_lanes_turn(endpoint, left);
  return vb_smaller((*lane)->arrived_head - (*lane)->arrived_tail, *left);
}

/* Delivers at most `left` messages of the turn. False: the first of them is not as it has to be,
 * and the connection fails. */
static bool rc_lanes_deliver_some(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t n,
                                  uint32_t left, struct vb_out *out)
{
  const struct pst_completion *first = out->at;
  struct ibv_wc wcs[VB_POLL_BATCH];

  n = vb_smaller(n, VB_POLL_BATCH);
  for (uint32_t i = 0; i < n; i++) {
    const struct rc_arrival *one = &lane->arrived[(lane->arrived_tail + i) & lane->arrived_mask];
    wcs[i] = (struct ibv_wc){.status = IBV_WC_SUCCESS,
                             .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                             .byte_len = one->length,
                             .imm_data = one->number};
  }
  const uint32_t taken = vb_arrived_row(endpoint, wcs, n, vb_smaller(out->room, left), out);
  lane->arrived_tail += taken;
  if (taken < n) /* a run that was reported in part */
    lane->arrived[lane->arrived_tail & lane->arrived_mask] =
        (struct rc_arrival){.length = wcs[taken].byte_len, .number = wcs[taken].imm_data};
  return out->at != first;
}

bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct vb_out *out)
{
  struct rc_lane *lane;
  uint32_t n, left;

  if (endpoint->lane_count == 1 || !endpoint->rx || endpoint->closing.mode)
    return true;
  while (out->room && (n = rc_lanes_waiting(endpoint, &lane, &left)) != 0)
    if (!rc_lanes_deliver_some(endpoint, lane, n, left, out))
      return true;
  if (rc_lanes_waiting(endpoint, &lane, &left) == 0)
    return true;
  vb_pend(endpoint);
  return false;
}

void rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc,
                     struct vb_out *out)
{
  if (!endpoint->rx || lane->arrived_head - lane->arrived_tail > lane->arrived_mask) {
    rc_fail(endpoint, -EPROTO, "the peer sent a message for which it had no slot");
    return;
  }
  lane->arrived[lane->arrived_head++ & lane->arrived_mask] =
      (struct rc_arrival){.length = wc->byte_len, .number = wc->imm_data};
  lane->messages += vb_messages_of(endpoint->rx, wc);
  rc_lanes_deliver(endpoint, out);
}
