/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a peer: where each word of its end leads from each of them, and with what reason.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/peer.h"

#define GRACE_NS (500 * PST_NS_PER_MS)

/* ---- Stand-ins for other files ------------------------------------------------------ */

static struct pst_node node;
static struct pst_peer peer;
static uint32_t byes, closes, mode;
static int said;

int control_node_say(struct control *control, const struct control_node_message *message)
{
  (void)control;
  assert_int_equal(message->type, WIRE_BYE);
  byes++;
  said = message->code;
  return 0;
}

void rma_end_rest(struct rma *rma, int status)
{
  (void)status;
  rma->rest_slot = RMA_NO_SLOT;
}

void engine_endpoint_close(struct engine_endpoint *endpoint, uint32_t how, uint64_t deadline_ns)
{
  assert_ptr_equal(endpoint, &peer.endpoint);
  assert_true(deadline_ns > clock_now_ns());
  closes++;
  mode = how;
}

static void start(enum node_peer_state state)
{
  static const struct loader_plugin plugin = {.name = "fake"};
  static struct engine_device device = {.plugin = &plugin};

  node = (struct pst_node){.device = &device, .grace_ns = GRACE_NS};
  peer = (struct pst_peer){.node = &node, .state = state, .text = "somebody"};
  peer.rma.rest_slot = 3;
  byes = closes = 0;
  mode = UINT32_MAX;
  said = 1;
}

/* The peer stays in this state for as long as the other end's message may take. */
static void assert_waits(enum node_peer_state state)
{
  const uint64_t now = clock_now_ns();

  assert_int_equal(peer.state, state);
  assert_in_range(peer.deadline_ns, now, now + GRACE_NS);
  assert_int_equal(closes + byes, 0);
}

static void assert_closes(uint32_t how, int code)
{
  assert_int_equal(peer.state, NODE_PEER_CLOSING);
  assert_int_equal(peer.deadline_ns, 0);
  assert_int_equal(closes, 1);
  assert_int_equal(byes, 1);
  assert_int_equal(mode, how);
  assert_int_equal(said, code);
  assert_int_equal(peer.end.code, code);
}

/* ---- Words ---------------------------------------------------------------------------- */

static void one_word_waits_for_the_other(void **state)
{
  (void)state;
  start(NODE_PEER_JOINED);
  peer_control_over(&peer, -EIO, "why");
  assert_waits(NODE_PEER_CONTROL_LOST);
  peer_transport_over(&peer, -ECONNRESET);
  assert_closes(PST_CLOSE_ABORT, -EIO); /* the control channel's is the better reason */
  assert_string_equal(peer.end.text, "why");
  assert_int_equal(peer.rma.rest_slot, RMA_NO_SLOT);

  start(NODE_PEER_JOINED);
  peer_transport_over(&peer, 0);
  assert_waits(NODE_PEER_TRANSPORT_LOST);
  peer_transport_over(&peer, -EIO); /* again: nothing new */
  assert_waits(NODE_PEER_TRANSPORT_LOST);
  assert_int_equal(peer.end.code, -ECONNRESET);
  peer_control_over(&peer, 0, "closed");
  assert_closes(PST_CLOSE_ABORT, 0);
  assert_string_equal(peer.end.text, "closed");
}

static void before_it_has_joined(void **state)
{
  (void)state;
  start(NODE_PEER_JOINING);
  peer_control_over(&peer, -EUSERS, "full"); /* there is no other word to come */
  assert_closes(PST_CLOSE_ABORT, -EUSERS);

  start(NODE_PEER_JOINING);
  peer_transport_over(&peer, -EHOSTUNREACH);
  assert_waits(NODE_PEER_UNREACHED);
  peer_control_over(&peer, -EUSERS, "full");
  assert_closes(PST_CLOSE_ABORT, -EUSERS);
}

static void time_is_up(void **state)
{
  (void)state;
  start(NODE_PEER_JOINING);
  node.connect_timeout_ns = 3 * PST_NS_PER_S;
  peer_overdue(&peer);
  assert_closes(PST_CLOSE_ABORT, -ETIMEDOUT);
  assert_string_equal(peer.end.text, "somebody: transport fake did not connect within 3 s");

  start(NODE_PEER_JOINED);
  peer_transport_over(&peer, -EIO);
  peer_overdue(&peer);
  assert_closes(PST_CLOSE_ABORT, -EIO);
}

/* ---- Leaving --------------------------------------------------------------------------- */

static void what_is_queued_goes_first(void **state)
{
  (void)state;
  start(NODE_PEER_JOINED);
  peer.queued = 1;
  peer_leave(&peer, PST_CLOSE_DRAIN, 0, "done");
  assert_int_equal(peer.state, NODE_PEER_DRAINING);
  assert_int_not_equal(peer.deadline_ns, 0);
  assert_int_equal(closes, 0);
  peer_control_over(&peer, -EIO, "gone"); /* ours is the reason */
  peer_drained(&peer);
  assert_closes(PST_CLOSE_DRAIN, 0);
  assert_string_equal(peer.end.text, "done");

  start(NODE_PEER_JOINED);
  peer.queued = 1;
  peer_leave(&peer, PST_CLOSE_DRAIN, 0, NULL);
  peer_overdue(&peer);
  assert_closes(PST_CLOSE_ABORT, 0);

  start(NODE_PEER_CONTROL_LOST);
  peer.queued = 1;
  peer_leave(&peer, PST_CLOSE_DRAIN, 0, NULL);
  assert_int_equal(peer.state, NODE_PEER_DRAINING);
  peer_transport_over(&peer, -EIO); /* nothing goes any more */
  assert_closes(PST_CLOSE_DRAIN, 0);

  start(NODE_PEER_TRANSPORT_LOST);
  peer.queued = 1;
  peer_leave(&peer, PST_CLOSE_DRAIN, 0, NULL);
  assert_closes(PST_CLOSE_DRAIN, 0);
}

static void leaving_twice(void **state)
{
  (void)state;
  start(NODE_PEER_JOINED);
  peer_leave(&peer, PST_CLOSE_ABORT, -EPROTO, "first");
  assert_closes(PST_CLOSE_ABORT, -EPROTO);
  assert_int_equal(peer.rma.cancelled, -EPROTO);
  peer_leave(&peer, PST_CLOSE_DRAIN, -EIO, "second");
  peer_transport_over(&peer, -EIO);
  peer_control_over(&peer, 0, "third");
  assert_closes(PST_CLOSE_ABORT, -EPROTO);
  assert_string_equal(peer.end.text, "first");
  peer_closed(&peer);
  assert_int_equal(peer.state, NODE_PEER_LEFT);
}

/* By a transport that has a bug. The other side hears of it. */
static void closed_unasked(void **state)
{
  (void)state;
  for (enum node_peer_state from = NODE_PEER_JOINING; from < NODE_PEER_DRAINING; from++) {
    start(from);
    peer_closed(&peer);
    assert_int_equal(peer.state, NODE_PEER_LEFT);
    assert_int_equal(peer.deadline_ns, 0);
    assert_int_equal(peer.end.code, -EIO);
    assert_int_equal(byes, 1);
    assert_int_equal(closes, 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_word_waits_for_the_other),
      cmocka_unit_test(before_it_has_joined),
      cmocka_unit_test(time_is_up),
      cmocka_unit_test(what_is_queued_goes_first),
      cmocka_unit_test(leaving_twice),
      cmocka_unit_test(closed_unasked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
