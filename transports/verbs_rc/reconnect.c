/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reconnecting (`reconnect`). The queue pair of a failed connection gives everything back, is reset
 * and says hello again. Each hello says how many messages and credit messages its sender has
 * received. Those are not sent again; all others are, into the slots that they were meant for. So
 * each message arrives once, and in order. A READ or a WRITE may take place twice, which is as good
 * as once, unless a later message announced it to the peer: then it is not repeated. An atomic is
 * never repeated: one that was under way ends the connection.
 *
 * Three hellos connect. One end opens, the other answers when it has heard the openings of all
 * queue pairs, the first confirms when it has heard all answers, by the first queue pair. Neither
 * end sends anything else before it has heard the other's last hello: what either has counted by
 * then is still true if they begin anew.
 *
 * An end may begin anew before its peer has noticed the failure. Queue pairs keep their PSNs, so
 * what the peer's old queue pair repeats can be what the new one expects: its first hello, and the
 * messages behind that. Therefore each try has a number, and an answer and a confirmation name the
 * number of the hello that they answer. Another number is of an earlier try: the end begins anew.
 * Messages behind such a hello count, except those that its first queue pair had received: the peer
 * repeats from its first hello on, so that these are as many as were counted since then.
 *
 * Several queue pairs (`qps`) begin anew together: one that fails takes the others with it. A hello
 * counts the messages of its queue pair, delivered or waiting for their turn; the hello of the
 * first one counts credit messages, too. Messages that have not arrived go by the same queue pair
 * again. An end that has waited too long for some hellos begins anew with all queue pairs.
 *
 * This file reconnects by exchange, with the peer's first address. cm.c has what rdma_cm does
 * instead, fail.c what makes a connection fail.
 */
#include <endian.h>
#include <stdio.h>

#include "cm.h"
#include "connection.h"
#include "multi_qp.h"
#include "qp.h"

/* A hello's immediate data, from the lowest bit. Counts are modulo their masks plus one. */
#define CREDITS_SHIFT 2 /* behind VB_HELLO */
#define CREDITS_MASK 0x3fu
#define TRY_SHIFT 8      /* the number of the sender's try, from 1 */
#define ANSWERS_SHIFT 12 /* the peer's try that this hello answers or confirms; 0: it opens */
#define TRY_MASK 0xfu
#define MESSAGES_SHIFT 16
#define MESSAGES_MASK 0xffffu

_Static_assert(VB_CONTROL_RECEIVES < CREDITS_MASK && RC_REQUESTS_MAX < MESSAGES_MASK / 2,
               "counts of what is under way are unambiguous");

static uint32_t rc_reconnect_try_of(uint32_t said)
{
  return said >> TRY_SHIFT & TRY_MASK;
}

static uint32_t rc_reconnect_answers_of(uint32_t said)
{
  return said >> ANSWERS_SHIFT & TRY_MASK;
}

void rc_reconnect_step(struct pst_endpoint *endpoint)
{
  struct rc_stage *stage = &endpoint->rc->stage;

  if (rc_given_back(endpoint) != endpoint->sq.head || !rc_lanes_are_empty(endpoint) ||
      vb_now_ns(endpoint->device) < stage->again.again_ns)
    return;
  stage->again.progress = RC_TRY_BEGUN;
  endpoint->rc->reconnect.number = endpoint->rc->reconnect.number % TRY_MASK + 1;
  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++) {
    lane->sets_up = true;
    lane->peer = RC_PEER_SILENT;
    lane->repeated = 0;
  }
  if (endpoint->rc->cm)
    endpoint->device->cm->reconnect(endpoint);
  else
    rc_set_up_again(endpoint);
}

uint32_t rc_reconnect_hello(uint64_t messages, uint64_t credits, uint32_t number, uint32_t answers)
{
  return ((uint32_t)messages & MESSAGES_MASK) << MESSAGES_SHIFT | answers << ANSWERS_SHIFT |
         number << TRY_SHIFT | ((uint32_t)credits & CREDITS_MASK) << CREDITS_SHIFT | VB_HELLO;
}

static bool rc_reconnect_is_credit(const struct pst_endpoint *endpoint, uint32_t at)
{
  return endpoint->sq.sent[at].opcode == 0 && endpoint->sq.wrs[at].imm_data == htobe32(VB_CREDIT);
}

/* The peer has it: an empty WRITE in its place keeps the order of completions. */
static void rc_reconnect_empty(struct ibv_send_wr *wr)
{
  wr->opcode = IBV_WR_RDMA_WRITE;
  wr->num_sge = 0;
  wr->send_flags &= ~(unsigned int)IBV_SEND_INLINE;
  wr->wr.rdma.remote_addr = 0;
  wr->wr.rdma.rkey = 0;
}

static bool rc_reconnect_is_atomic(uint8_t opcode)
{
  return opcode == PST_OP_FETCH_ADD || opcode == PST_OP_COMPARE_SWAP;
}

static bool rc_reconnect_is_fenced(const struct pst_endpoint *endpoint, uint32_t at)
{
  return endpoint->sq.wrs[at].send_flags & IBV_SEND_FENCE;
}

/* Requests with a fence up to the last of the first `had` messages. False: `had` ends in the midst
 * of a message's run. */
static bool rc_reconnect_count_fenced(const struct pst_endpoint *endpoint, uint32_t by,
                                      uint32_t had, uint32_t *fenced)
{
  *fenced = 0;
  for (uint64_t i = endpoint->sq.done; had; i++) {
    const uint32_t at = (uint32_t)i & endpoint->sq.mask;
    const struct vb_sent *sent = &endpoint->sq.sent[at];
    if (sent->lane != by)
      continue;
    *fenced += rc_reconnect_is_fenced(endpoint, at);
    if (sent->opcode != PST_OP_SEND)
      continue;
    if (had < sent->count)
      return false;
    had -= sent->count;
  }
  return true;
}

/* Where `had` messages have arrived, the WRITEs before the last of them are placed, and the READs
 * before the last request with a fence are done (IBA 10.8.3.3). The peer knows, and may use these
 * bytes otherwise since. */
const char *rc_reconnect_drop_what_arrived(struct pst_endpoint *endpoint, uint32_t by,
                                           uint32_t said)
{
  /* With several queue pairs one may have been further than the send queue. */
  const uint64_t done = endpoint->lane_count > 1 ? endpoint->rc->lanes[by].done : endpoint->sq.done;
  uint32_t messages = 0, credits = 0, known = 0;

  for (uint64_t i = endpoint->sq.done; i != endpoint->sq.head; i++) {
    const uint32_t at = (uint32_t)i & endpoint->sq.mask;
    const uint8_t opcode = endpoint->sq.sent[at].opcode;
    if (endpoint->sq.sent[at].lane != by)
      continue;
    if (i >= done && rc_reconnect_is_atomic(opcode))
      return "an atomic was under way, which may or may not have taken place";
    messages += opcode == PST_OP_SEND ? endpoint->sq.sent[at].count : 0;
    known += opcode == PST_OP_SEND && i < done ? endpoint->sq.sent[at].count : 0;
    credits += rc_reconnect_is_credit(endpoint, at);
  }
  const uint64_t granted = endpoint->rx && by == 0 ? endpoint->rx->credits_sent : 0;
  uint32_t had =
      ((said >> MESSAGES_SHIFT) - (uint32_t)(rc_lane_messages(endpoint, by) - messages)) &
      MESSAGES_MASK;
  uint32_t taken = ((said >> CREDITS_SHIFT) - (uint32_t)(granted - credits)) & CREDITS_MASK;
  uint32_t fenced;
  if (had > messages || had < known || taken > credits ||
      !rc_reconnect_count_fenced(endpoint, by, had, &fenced))
    return "the peer says that it received other messages than were sent";
  for (uint64_t i = endpoint->sq.done; i != endpoint->sq.head; i++) {
    const uint32_t at = (uint32_t)i & endpoint->sq.mask;
    const uint8_t opcode = endpoint->sq.sent[at].opcode;
    const bool is_message = opcode == PST_OP_SEND, is_given = rc_reconnect_is_credit(endpoint, at);
    if (endpoint->sq.sent[at].lane != by)
      continue;
    const uint32_t count = is_message ? endpoint->sq.sent[at].count : 0;
    if (had == 0)
      endpoint->rc->reconnect.repeated += count;
    fenced -= had && rc_reconnect_is_fenced(endpoint, at);
    if (i < done || (is_message && had) || (is_given && taken) || (opcode == PST_OP_WRITE && had) ||
        (opcode == PST_OP_READ && fenced))
      rc_reconnect_empty(&endpoint->sq.wrs[at]);
    had -= had ? count : 0;
    taken -= is_given && taken;
  }
  return NULL;
}

static void rc_reconnect_go_on(struct pst_endpoint *endpoint, uint64_t repeated)
{
  struct rc_reconnect *reconnect = &endpoint->rc->reconnect;
  const uint64_t from = endpoint->sq.done, to = endpoint->sq.head;
  const uint64_t began_ns = endpoint->rc->stage.again.began_ns;
  int rc = 0;

  reconnect->last_by_ns = endpoint->rc->stage.again.by_ns;
  reconnect->last_got = rc_got_through(endpoint);
  reconnect->peer_number = rc_reconnect_try_of(endpoint->rc->lanes[0].said);
  reconnect->count++;
  rc_enter(endpoint, RC_CONNECTED);
  endpoint->rc->heard_ns = vb_now_ns(endpoint->device);
  if (from != to)
    rc = endpoint->lane_count > 1 ? rc_lanes_ring_again(endpoint, from, to)
                                  : vb_send_queue_ring(&endpoint->sq, from, to);
  endpoint->sq.head = to; /* what was not posted is still to be reported */
  if (rc < 0 || (uint64_t)rc < to - from) {
    rc_fail(endpoint, rc < 0 ? rc : -ENOBUFS, "ibv_post_send of what was under way");
    return;
  }
  VB_LOG(endpoint->device, PST_LOG_INFO,
         "%s: the connection is re-established after %.3f s; %llu messages were sent again",
         endpoint->label, (double)(endpoint->rc->heard_ns - began_ns) / 1e9,
         (unsigned long long)(reconnect->repeated - repeated));
  vb_due(endpoint->worker, 0);
  vb_pend(endpoint);
}

/* Messages that this queue pair has received, ever. */
static uint64_t rc_reconnect_messages_of(const struct pst_endpoint *endpoint,
                                         const struct rc_lane *lane)
{
  if (endpoint->lane_count > 1)
    return lane->messages;
  return endpoint->rx ? endpoint->rx->arrived : 0;
}

/* Credit messages come by the first queue pair. */
static uint64_t rc_reconnect_credits_of(const struct pst_endpoint *endpoint,
                                        const struct rc_lane *lane)
{
  return lane == endpoint->rc->lanes && endpoint->tx ? endpoint->tx->credit_messages : 0;
}

/* 0 or -errno. */
static int rc_reconnect_say_hello(struct pst_endpoint *endpoint, uint32_t i)
{
  struct rc_lane *lane = &endpoint->rc->lanes[i];
  const uint32_t answers = lane->peer ? rc_reconnect_try_of(lane->said) : 0;

  return rc_lane_say(endpoint, lane,
                     rc_reconnect_hello(rc_reconnect_messages_of(endpoint, lane),
                                        rc_reconnect_credits_of(endpoint, lane),
                                        endpoint->rc->reconnect.number, answers));
}

/* An opening or an answer by each queue pair, which the peer has some time to reply to. By exchange
 * the peer notices the failure by a keepalive of its own; by rdma_cm it has noticed. */
static void rc_reconnect_say_hellos(struct pst_endpoint *endpoint)
{
  int rc = 0;

  rc_reconnect_within(endpoint, endpoint->rc->cm ? RC_CM_TRY_NS : endpoint->device->keepalive_ns);
  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++)
    rc = rc_reconnect_say_hello(endpoint, i);
  if (rc < 0)
    rc_reconnect_again(endpoint, RC_RECONNECT_AGAIN_NS);
}

/* The hellos that this end waited for have come: what the peer has not received goes again. */
static void rc_reconnect_stand(struct pst_endpoint *endpoint)
{
  const uint64_t before = endpoint->rc->reconnect.repeated;

  for (uint32_t i = 0; i < endpoint->lane_count; i++) {
    const char *why = rc_reconnect_drop_what_arrived(endpoint, i, endpoint->rc->lanes[i].said);
    if (!why)
      continue;
    rc_fail(endpoint, -EPROTO, why);
    return;
  }
  for (uint32_t i = 0; i < endpoint->lane_count; i++)
    endpoint->rc->lanes[i].done = endpoint->rc->lanes[i].flushed = endpoint->sq.done;
  if (rc_says_hello(endpoint) && rc_reconnect_say_hello(endpoint, 0) < 0)
    rc_reconnect_again(endpoint, RC_RECONNECT_AGAIN_NS);
  else
    rc_reconnect_go_on(endpoint, before);
}

/* The openings of all queue pairs have come. */
static void rc_reconnect_answer(struct pst_endpoint *endpoint)
{
  endpoint->rc->stage.again.progress = RC_TRY_ANSWERED;
  if (rc_receive_confirmation(endpoint) < 0)
    rc_reconnect_again(endpoint, RC_RECONNECT_AGAIN_NS);
  else
    rc_reconnect_say_hellos(endpoint);
}

static void rc_reconnect_look_at_try(struct pst_endpoint *endpoint)
{
  const struct rc_stage *stage = &endpoint->rc->stage;

  if (stage->name != RC_GREETING_AGAIN)
    return;
  for (const struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->peer == RC_PEER_SILENT)
      return;
  if (rc_says_hello(endpoint) || stage->again.progress == RC_TRY_CONFIRMED)
    rc_reconnect_stand(endpoint);
  else if (stage->again.progress == RC_TRY_BEGUN)
    rc_reconnect_answer(endpoint);
}

void rc_reconnect_greet(struct pst_endpoint *endpoint)
{
  if (endpoint->rc->setup_rc != 0 || endpoint->rc->stage.again.progress == RC_TRY_LOST) {
    rc_reconnect_again(endpoint, RC_RECONNECT_AGAIN_NS);
    return;
  }
  rc_enter(endpoint, RC_GREETING_AGAIN);
  endpoint->rc->stage.again.again_ns = VB_NEVER;
  if (endpoint->rc->cm)
    rc_reconnect_within(endpoint, RC_CM_TRY_NS);
  if (rc_says_hello(endpoint))
    rc_reconnect_say_hellos(endpoint);
  rc_reconnect_look_at_try(endpoint); /* the peer's may have come first */
}

static bool rc_reconnect_is_awaited(const struct pst_endpoint *endpoint)
{
  return endpoint->rc->stage.name == RC_SETTING_UP_AGAIN ||
         endpoint->rc->stage.name == RC_GREETING_AGAIN;
}

void rc_reconnect_lost(struct pst_endpoint *endpoint)
{
  if (endpoint->rc->stage.name == RC_GREETING_AGAIN)
    rc_reconnect_again(endpoint, 0);
  else if (endpoint->rc->stage.name == RC_SETTING_UP_AGAIN)
    endpoint->rc->stage.again.progress = RC_TRY_LOST;
}

static uint32_t rc_reconnect_count_of(const struct pst_endpoint *endpoint,
                                      const struct rc_lane *lane)
{
  return (uint32_t)(rc_reconnect_messages_of(endpoint, lane) +
                    rc_reconnect_credits_of(endpoint, lane));
}

bool rc_reconnect_is_repeated(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t count)
{
  if (endpoint->rc->stage.again.progress == RC_TRY_NONE)
    return false;
  const bool is = lane->repeated < rc_reconnect_count_of(endpoint, lane) - lane->counted;
  lane->repeated += count;
  return is;
}

void rc_reconnect_heard(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said)
{
  const bool is_opening = lane->peer == RC_PEER_SILENT && !rc_says_hello(endpoint);

  if (rc_is_reconnecting(endpoint) && rc_reconnect_try_of(said) != lane->peer_number) {
    lane->peer_number = rc_reconnect_try_of(said);
    lane->counted = rc_reconnect_count_of(endpoint, lane);
  }
  if (!rc_reconnect_is_awaited(endpoint))
    return;
  if (rc_reconnect_answers_of(said) != (is_opening ? 0 : endpoint->rc->reconnect.number) ||
      rc_reconnect_try_of(said) == endpoint->rc->reconnect.peer_number) {
    rc_reconnect_lost(endpoint);
    return;
  }
  if (lane->peer != RC_PEER_HEARD)
    lane->said = said;
  else if (endpoint->rc->stage.again.progress == RC_TRY_ANSWERED)
    endpoint->rc->stage.again.progress = RC_TRY_CONFIRMED;
  lane->peer = RC_PEER_HEARD;
  rc_reconnect_look_at_try(endpoint);
}

void rc_reconnect_met(struct pst_endpoint *endpoint, const struct rc_lane *lane)
{
  if (rc_reconnect_is_awaited(endpoint) && lane->peer == RC_PEER_SILENT)
    rc_reconnect_lost(endpoint);
}

static void rc_reconnect_not_had_again(struct pst_endpoint *endpoint)
{
  char why[1280], status[1024] = "";

  if (endpoint->rc->cm)
    endpoint->device->cm->missed(endpoint, status, sizeof(status));
  snprintf(
      why, sizeof(why),
      "the connection that failed could not be re-established within `reconnect`: the peer, or the "
      "path to it, is gone%s%s%s",
      endpoint->rc->stage.again.by_ns == endpoint->rc->reconnect.last_by_ns
          ? "; it was re-established before, and only short packets got through: see the MTU of "
            "every link (`ping -M do -s`)"
          : "",
      status[0] ? "; by rdma_cm: " : "", status);
  rc_fail(endpoint, -ETIMEDOUT, why);
}

void rc_reconnect_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct rc_stage *stage = &endpoint->rc->stage;

  if (now_ns >= stage->again.by_ns) {
    rc_reconnect_not_had_again(endpoint);
    return;
  }
  vb_due(endpoint->worker, stage->again.by_ns);
  if (now_ns < stage->again.again_ns)
    vb_due(endpoint->worker, stage->again.again_ns);
  else if (stage->name == RC_GREETING_AGAIN ||
           (stage->name == RC_SETTING_UP_AGAIN &&
            atomic_load_explicit(&endpoint->rc->setup, memory_order_acquire) == 0))
    rc_reconnect_again(endpoint, 0);
  else if (stage->again.again_ns) { /* once: whatever else it waits for pends it */
    stage->again.again_ns = 0;
    vb_pend(endpoint);
  }
}
