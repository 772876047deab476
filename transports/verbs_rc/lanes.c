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

#include "connection.h"
#include "lanes.h"
#include "qp.h"
#include "queue.h"
#include "receive.h"

#define RECEIVES_MIN 4u /* hello, farewell, and as many to be late */

/* Of another than the first. */
static uint32_t sends_of(const struct pst_endpoint *endpoint)
{
  return rc_smaller(endpoint->requests_max,
                    (uint64_t)endpoint->requests_max / endpoint->lane_count + RC_TURN_MAX) +
         1 + RC_LANE_OWN;
}

static uint32_t receives_of(const struct pst_endpoint *endpoint)
{
  const uint32_t lanes = endpoint->lane_count, share = endpoint->rx ? endpoint->rx->share : 0;

  return (share ? rc_smaller(share, (uint64_t)share / lanes + rc_turn(share, lanes)) : 0) +
         RECEIVES_MIN;
}

uint32_t rc_lanes_size(struct pst_endpoint *endpoint)
{
  uint32_t completions = endpoint->sq_size + endpoint->lanes[0].rq_size;

  for (uint32_t i = 1; i < endpoint->lane_count; i++) {
    endpoint->lanes[i].rq_size = receives_of(endpoint);
    completions += sends_of(endpoint) + endpoint->lanes[i].rq_size;
  }
  return completions;
}

/* The first one's messages are as many as another's at most, and its queue is longer. */
static int open_arrived(const struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  uint32_t size = 1;

  while (size < receives_of(endpoint))
    size <<= 1;
  lane->arrived_mask = size - 1;
  lane->arrived = calloc(size, sizeof(*lane->arrived));
  return lane->arrived ? 0 : -ENOMEM;
}

static int open_lane(struct pst_endpoint *endpoint, uint32_t i, uint32_t pieces)
{
  struct rc_lane *lane = &endpoint->lanes[i];
  const struct ibv_qp_cap want = {.max_send_wr = i ? sends_of(endpoint) : endpoint->sq_size,
                                  .max_recv_wr = lane->rq_size,
                                  .max_send_sge = pieces,
                                  .max_recv_sge = 1,
                                  .max_inline_data = i ? endpoint->max_inline : RC_INLINE_WISH};
  struct ibv_qp_cap given;

  lane->failed_from = RC_NEVER;
  lane->sets_up = true;
  lane->psn = rc_random_psn();
  lane->responder_psn = rc_random_psn();
  int rc = endpoint->lane_count > 1 ? open_arrived(endpoint, lane) : 0;
  if (rc == 0)
    rc = rc_qp_create(endpoint, i, &want, &given);
  if (rc < 0)
    return rc;
  if (i == 0)
    endpoint->given = given;
  if (i == 0 || given.max_inline_data < endpoint->max_inline)
    endpoint->max_inline = given.max_inline_data;
  return 0;
}

int rc_lanes_open(struct pst_endpoint *endpoint, uint32_t pieces)
{
  int rc = 0;

  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++)
    rc = open_lane(endpoint, i, pieces);
  return rc;
}

int rc_lanes_init(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; i < endpoint->lane_count; i++) {
    int rc = rc_lane_init(endpoint, &endpoint->lanes[i]);
    if (rc < 0 && i > 0)
      RC_LOG(endpoint->device, PST_LOG_ERROR,
             "%s: queue pair %u of `qps: %u` cannot be set to INIT with %u receives: %s; fewer "
             "`qps`, or see `rdma resource`",
             endpoint->label, i + 1, endpoint->lane_count, endpoint->lanes[i].rq_size,
             strerror(-rc));
    if (rc < 0)
      return rc;
  }
  return 0;
}

void rc_lanes_close(struct pst_endpoint *endpoint)
{
  for (struct rc_lane *lane = endpoint->lanes; lane < rc_lanes_end(endpoint); lane++) {
    if (lane->responder && lane->responder != lane->qp)
      ibv_destroy_qp(lane->responder);
    if (lane->qp)
      ibv_destroy_qp(lane->qp);
    free(lane->arrived);
  }
}

void rc_lane_done(struct pst_endpoint *endpoint, struct rc_lane *lane, uint64_t end)
{
  assert(end <= endpoint->sq_head);
  lane->done = end;
  if (endpoint->lane_count == 1) { /* the send queue is its own */
    endpoint->sq_done = end;
    if (lane->failed_from < end && endpoint->failed_from == RC_NEVER)
      endpoint->failed_from = lane->failed_from;
    return;
  }
  for (; endpoint->sq_done != endpoint->sq_head; endpoint->sq_done++) {
    const uint64_t index = endpoint->sq_done;
    lane = &endpoint->lanes[endpoint->sent[index & endpoint->sq_mask].lane];
    if (index >= lane->done)
      return;
    if (index >= lane->failed_from && endpoint->failed_from == RC_NEVER)
      endpoint->failed_from = index;
  }
}

/* The queue pair of the request at `i`, and of how many at most: `is_again`: as it went. */
static uint32_t lane_of(const struct pst_endpoint *endpoint, uint64_t i, bool is_again,
                        uint32_t *most)
{
  const struct rc_sent *sent = &endpoint->sent[i & endpoint->sq_mask];

  *most = UINT32_MAX;
  if (is_again)
    return sent->lane;
  if (sent->opcode != PST_OP_SEND)
    return 0;
  const uint32_t turn = endpoint->tx->turn;
  *most = turn - (uint32_t)endpoint->striped % turn;
  return rc_lane_of_message(endpoint, endpoint->striped, turn);
}

/* From `*i` on, those that go by queue pair `which` one after the other, linked behind `last`. */
static inline __attribute__((always_inline)) struct ibv_send_wr *
link_row(struct pst_endpoint *endpoint, uint64_t *i, uint64_t to, uint32_t which, uint32_t most,
         const bool is_again)
{
  const uint64_t mask = endpoint->sq_mask, first = *i;
  struct rc_sent *sent = endpoint->sent;
  struct ibv_send_wr *wrs = endpoint->wrs, *wr = &wrs[first & mask];
  const bool is_message = sent[first & mask].opcode == PST_OP_SEND;
  uint64_t at = first;

  if (to - first > most)
    to = first + most;
  for (;;) {
    sent[at & mask].lane = (uint8_t)which;
    at++;
    if (at == to || (is_again ? sent[at & mask].lane != which
                              : (sent[at & mask].opcode == PST_OP_SEND) != is_message))
      break;
    wr->next = &wrs[at & mask];
    wr = wr->next;
  }
  wr->next = NULL;
  if (!is_again && is_message)
    endpoint->striped += at - first;
  *i = at;
  return wr;
}

static inline __attribute__((always_inline)) int ring(struct pst_endpoint *endpoint, uint64_t from,
                                                      uint64_t to, const bool is_again)
{
  struct ibv_send_wr *first[RC_LANES_MAX] = {NULL}, *last[RC_LANES_MAX] = {NULL}, *bad;
  bool went = false;
  int rc = 0;

  for (uint64_t i = from; i != to;) {
    uint32_t most;
    const uint32_t which = lane_of(endpoint, i, is_again, &most);
    *(last[which] ? &last[which]->next : &first[which]) = &endpoint->wrs[i & endpoint->sq_mask];
    last[which] = link_row(endpoint, &i, to, which, most, is_again);
  }
  endpoint->sq_head = to;
  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++) {
    if (!first[i])
      continue;
    last[i]->send_flags |= IBV_SEND_SIGNALED;
    rc = ibv_post_send(endpoint->lanes[i].qp, first[i], &bad);
    went |= rc == 0 || bad != first[i];
  }
  if (rc && !went) {
    endpoint->sq_head = from;
    return -rc;
  }
  /* Those that did not go end with the connection. */
  if (rc)
    rc_fail(endpoint, -rc, "ibv_post_send");
  return (int)(to - from);
}

int rc_lanes_ring(struct pst_endpoint *endpoint, uint64_t from, uint64_t to)
{
  return ring(endpoint, from, to, false);
}

int rc_lanes_ring_again(struct pst_endpoint *endpoint, uint64_t from, uint64_t to)
{
  return ring(endpoint, from, to, true);
}

struct rc_lane *rc_lanes_turn(struct pst_endpoint *endpoint, uint32_t *left)
{
  const struct rc_rx *rx = endpoint->rx;

  *left = rx->turn - (uint32_t)rx->arrived % rx->turn;
  return &endpoint->lanes[rc_lane_of_message(endpoint, rx->arrived, rx->turn)];
}

/* Of those that wait, how many can be told now: of one turn, of whose queue pair it is. */
static uint32_t waiting(struct pst_endpoint *endpoint, struct rc_lane **lane)
{
  uint32_t left;

  *lane = rc_lanes_turn(endpoint, &left);
  return rc_smaller((*lane)->arrived_head - (*lane)->arrived_tail, left);
}

/* False: the first of them is not as it has to be, and the connection fails. */
static bool deliver_some(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t n,
                         struct rc_out *out)
{
  struct ibv_wc wcs[RC_POLL_BATCH];

  n = rc_smaller(n, rc_smaller(out->room, RC_POLL_BATCH));
  for (uint32_t i = 0; i < n; i++) {
    const struct rc_arrival *one = &lane->arrived[(lane->arrived_tail + i) & lane->arrived_mask];
    wcs[i] = (struct ibv_wc){.status = IBV_WC_SUCCESS,
                             .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                             .byte_len = one->length,
                             .imm_data = one->number};
  }
  n = rc_arrived_row(endpoint, wcs, n, out);
  lane->arrived_tail += n;
  return n > 0;
}

bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct rc_out *out)
{
  struct rc_lane *lane;
  uint32_t n;

  if (endpoint->lane_count == 1 || !endpoint->rx || endpoint->closing.mode)
    return true;
  while (out->room && (n = waiting(endpoint, &lane)) != 0)
    if (!deliver_some(endpoint, lane, n, out))
      return true;
  if (waiting(endpoint, &lane) == 0)
    return true;
  rc_pend(endpoint);
  return false;
}

void rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc,
                     struct rc_out *out)
{
  if (!endpoint->rx || lane->arrived_head - lane->arrived_tail > lane->arrived_mask) {
    rc_fail(endpoint, -EPROTO, "the peer sent a message for which it had no slot");
    return;
  }
  lane->arrived[lane->arrived_head++ & lane->arrived_mask] =
      (struct rc_arrival){.length = wc->byte_len, .number = wc->imm_data};
  rc_lanes_deliver(endpoint, out);
}
