/* SPDX-License-Identifier: Apache-2.0 */
/* From an arrival to completions and counters: who has a slot, and what is said of what is lost. */
#include "support.h"

static struct pst_completion out[4];
static uint32_t settled; /* calls of settle() */
static uint32_t ssrc;    /* of what arrives */

static struct dg_landed settle(void *context)
{
  (void)context;
  settled++;
  return (struct dg_landed){pst_slots_take(&end.ring.slots), 12};
}

static void setup(const struct fake_option *options)
{
  static const struct dg_reach none;
  assert_int_equal(open_end(PST_ROLE_RECEIVER, options), 0);
  assert_int_equal(dg_endpoint_connect(&end.dg, NULL, &none), 0);
  settled = 0;
  ssrc = 5;
}

/* A datagram of 20 bytes of payload, of which the CPU reads the first `readable`. */
static uint32_t arrive_split(uint32_t number, uint32_t first, uint32_t readable, uint32_t max)
{
  static const struct dg_source camera = {{[10] = 0xff, [11] = 0xff, 192, 0, 2, 9}, 5000};
  uint8_t bytes[DG_HEADER_MAX + 20] = {0};
  uint32_t header = dg_header_bytes(end.device.framing, false);
  const struct dg_header made = {
      .sequence = number, .ssrc = ssrc, .payload_type = 96, .marker = true};
  const struct dg_arrival arrival = {.source = &camera,
                                     .header = bytes,
                                     .rest = bytes + header,
                                     .total = header + 20,
                                     .readable = readable,
                                     .time_ns = fake_clock_ns};
  dg_write(end.device.framing, &made, bytes);
  bytes[0] |= (uint8_t)first;
  return dg_receiver_take(&end.receiver, &end.dg.cpu, &arrival, settle, NULL, out, max);
}

static uint32_t arrive(uint32_t number, uint32_t max)
{
  return arrive_split(number, 0, UINT32_MAX, max);
}

static void message_is_told_with_its_place(void **state)
{
  (void)state;
  setup(LIST({"framing", "rtp"}));
  end.receiver.has_times = true;
  assert_int_equal(arrive(9, 4), 1);
  assert_int_equal(out[0].kind, PST_COMPLETION_MESSAGE);
  assert_int_equal(out[0].flags, PST_HAS_SEQUENCE | PST_HAS_META | PST_HAS_TIME | PST_IS_MARKED);
  assert_int_equal(out[0].u.message.token, pst_token(end.ring.number, 0));
  assert_int_equal(out[0].u.message.offset, HEADROOM + 12); /* where settle() has put it */
  assert_int_equal(out[0].u.message.length, 20);
  assert_int_equal(out[0].u.message.sequence, 65536 + 9);
  assert_int_equal(out[0].u.message.meta >> 32, 5);
  assert_int_equal(out[0].u.message.time_ns, 1000000000);
  assert_int_equal(end.ring.slots.out[0], 1);
  end.receiver.has_times = false;
  assert_int_equal(arrive_split(10, 2, UINT32_MAX, 4), 1); /* two contributing sources */
  assert_int_equal(out[0].u.message.offset, STRIDE + HEADROOM + 12 + 8);
  assert_int_equal(out[0].u.message.length, 12);
  assert_int_equal(out[0].u.message.time_ns, 0);
}

static void refused_one_takes_no_slot(void **state)
{
  (void)state;
  setup(LIST({"framing", "rtp"}, {"payload_type", "97"}));
  assert_int_equal(arrive(9, 4), 0);
  assert_int_equal(settled, 0);
  assert_int_equal(end.ring.slots.free_count, SLOTS);
  assert_int_equal(counter("not_ours", NULL), 1);
}

/* A jump that its successor confirms gives two messages; the second waits for the next poll. */
static void second_of_two_is_parked(void **state)
{
  (void)state;
  setup(LIST({"checksum", "false"}));
  assert_int_equal(arrive(0, 4), 1);
  assert_int_equal(arrive(1000000, 4), 0);
  assert_int_equal(settled, 2); /* it is held, in a slot */
  assert_int_equal(counter("held", NULL), 1);
  fake_clock_ns += UINT64_C(4000000000);
  assert_int_equal(arrive(1000001, 1), 1);
  assert_int_equal(out[0].u.message.sequence & UINT32_MAX, 1000000);
  assert_int_equal(out[0].u.message.token, pst_token(end.ring.number, 1));
  assert_true(end.receiver.is_parked);
  assert_int_equal(dg_receiver_poll(&end.receiver, out, 0), 0);
  assert_int_equal(dg_receiver_poll(&end.receiver, out, 4), 1);
  assert_int_equal(out[0].u.message.sequence & UINT32_MAX, 1000001);
  assert_int_equal(dg_receiver_poll(&end.receiver, out, 4), 0);
  assert_int_equal(end.ring.slots.free_count, SLOTS - 3);
}

static void slot_of_a_held_one_comes_back(void **state)
{
  (void)state;
  setup(LIST({"checksum", "false"}));
  assert_int_equal(arrive(0, 4), 1);
  assert_int_equal(arrive(1000000, 4), 0);
  assert_int_equal(end.ring.slots.free_count, SLOTS - 2);
  assert_int_equal(arrive(1, 4), 1); /* it was a stray */
  assert_int_equal(end.ring.slots.free_count, SLOTS - 2);
  assert_int_equal(arrive(2000000, 4), 0);
  assert_int_equal(end.ring.slots.free_count, SLOTS - 3);
  dg_receiver_end(&end.receiver, &end.ring);
  assert_int_equal(end.ring.slots.free_count, SLOTS - 2);
  assert_int_equal(end.receiver.flow.counts.too_far, 2);
}

/* ---- Losses ------------------------------------------------------------------------------ */

static void gap_has_the_causes_that_were_told(void **state)
{
  (void)state;
  setup(LIST({"checksum", "false"}));
  assert_int_equal(arrive(0, 4), 1);
  dg_flow_lost(&end.receiver.flow, FULL, 2);
  dg_flow_lost(&end.receiver.flow, MISSED, 3);
  assert_int_equal(arrive(10, 4), 1);
  assert_int_equal(counter("missed", "missed"), 3);
  assert_int_equal(counter("full", "full"), 2);
  assert_int_equal(counter("behind_last", "missed"), 0);
  assert_int_equal(counter("behind_last", "full"), UINT64_MAX);
}

/* Nothing else reports a foreign sender's messages behind the last. A Penstock sender says how many
 * it sent, so that these are a bound. */
static void losses_behind_the_last_are_certain_or_a_bound(void **state)
{
  static const struct dg_reach none;

  setup(LIST({"checksum", "false"}));
  assert_int_equal(arrive(0, 4), 1);
  dg_flow_lost(&end.receiver.flow, FULL, 2);
  assert_int_equal(counter("full", NULL), 2);
  assert_int_equal(counter("no_gap", NULL), 2);
  assert_int_equal(counter("behind_last", "full"), UINT64_MAX);
  teardown(state);
  reset(state);
  assert_int_equal(open_end(PST_ROLE_RECEIVER, LIST()), 0);
  const struct dg_blob blob = peer_blob(false);
  assert_int_equal(connect_blob(&blob, &none), 0);
  dg_flow_lost(&end.receiver.flow, FULL, 2);
  assert_int_equal(counter("full", NULL), 0);
  assert_int_equal(counter("behind_last", "full"), 2);
  assert_int_equal(counter("no_gap", NULL), UINT64_MAX);
}

/* Another SSRC without a pause: while messages come it is ignored, at the end it was the stream's.
 */
static void successor_without_a_pause_is_told_and_lost(void **state)
{
  (void)state;
  setup(LIST({"framing", "rtp"}));
  assert_int_equal(arrive(1, 4), 1);
  ssrc = 6;
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(arrive(1000 + i, 4), 0);
  assert_int_equal(counter("not_ours", NULL), 5);
  assert_non_null(strstr(fake_log(), "another port or SSRC, while it goes on: 5 so far"));
  fake_log_clear();
  assert_int_equal(counter("heard", NULL), 5);
  assert_int_equal(counter("not_ours", NULL), 0); /* no message since the last look */
  assert_int_equal(counter("displaced", "displaced"), 5);
  assert_int_equal(counter("no_gap", NULL), 5);
  ssrc = 5;
  assert_int_equal(arrive(2, 4), 1);
  for (int look = 0; look < 2; look++) {
    assert_int_equal(counter("displaced", "displaced"), 0);
    assert_int_equal(counter("not_ours", NULL), 5);
    assert_int_equal(counter("no_gap", NULL), 0);
  }
  assert_string_equal(fake_log(), ""); /* said once */
}

/* ---- Behind a split ---------------------------------------------------------------------------
 */

static void padding_out_of_reach_is_a_bad_header_that_says_so(void **state)
{
  (void)state;
  setup(LIST({"framing", "rtp"}));
  assert_int_equal(arrive_split(9, 0, 12, 4), 1); /* nothing of the payload is asked for */
  assert_int_equal(counter("unreadable", NULL), UINT64_MAX);
  assert_int_equal(arrive_split(10, 0x20, 31, 4), 0);
  assert_string_equal(fake_log(), "");
  assert_int_equal(counter("bad_header", "bad_header"), 1);
  assert_non_null(strstr(fake_log(), "padding or a header extension that lies behind the header"));
  fake_log_clear();
  assert_int_equal(counter("unreadable", NULL), 1);
  assert_int_equal(settled, 1);
  assert_int_equal(arrive_split(11, 0, 11, 4), 0); /* not even the header */
  assert_int_equal(counter("unreadable", NULL), 2);
  assert_string_equal(fake_log(), ""); /* said once */
  assert_true(counter_count <= 32);
}

static void byte_sum_out_of_reach_is_not_compared_and_counted(void **state)
{
  (void)state;
  setup(LIST());
  assert_int_equal(arrive(0, 4), 1); /* all bytes are 0, and their sum */
  assert_int_equal(arrive_split(1, 0, 27, 4), 1);
  assert_int_equal(counter("unchecked", NULL), 1);
  assert_int_equal(counter("bad_checksum", NULL), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(message_is_told_with_its_place),
      CASE(refused_one_takes_no_slot),
      CASE(second_of_two_is_parked),
      CASE(slot_of_a_held_one_comes_back),
      CASE(gap_has_the_causes_that_were_told),
      CASE(losses_behind_the_last_are_certain_or_a_bound),
      CASE(successor_without_a_pause_is_told_and_lost),
      CASE(padding_out_of_reach_is_a_bad_header_that_says_so),
      CASE(byte_sum_out_of_reach_is_not_compared_and_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
