/* SPDX-License-Identifier: Apache-2.0 */
/* From what recvmmsg() gives into slots: single datagrams, coalesced ones, and what does not lie
 * as it was expected. */
#include <time.h>

#include "support.h"

static void setup(void)
{
  setup_receiver(LIST());
  connect_foreign();
}

static const struct udp_rx *rx(void)
{
  return rig.endpoint->rx;
}

static void one_datagram_lies_in_its_slot(void **state)
{
  (void)state;
  setup();
  arrive(5, 1, 0, 100);
  arrive(6, 1, 0, 0);
  assert_int_equal(poll_up_to(64), 2);
  expect_message(0, 5, 100);
  expect_message(1, 6, 0);
  assert_int_equal(polled[0].u.message.offset, 0); /* the first slot first */
  assert_int_equal(polled[1].u.message.offset, STRIDE);
  assert_int_equal(counter("copied"), 0);
  assert_int_equal(counter("bytes_received"), 100);
}

static uint64_t realtime_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The kernel stamps nothing yet when the first datagrams come. */
static void datagram_without_a_stamp_has_the_time_of_its_poll(void **state)
{
  uint64_t before = realtime_ns();

  (void)state;
  setup();
  arrive(5, 1, 0, 100);
  arrive(6, 1, 0, 100)->stamp = UINT64_C(1700000000123456789);
  assert_int_equal(poll_up_to(64), 2);
  assert_true(polled[0].flags & PST_HAS_TIME);
  assert_in_range(polled[0].u.message.time_ns, before, realtime_ns());
  assert_int_equal(polled[1].u.message.time_ns, UINT64_C(1700000000123456789));
}

static void coalesced_ones_are_copied_once_and_scatter_then(void **state)
{
  (void)state;
  setup();
  arrive(0, 3, 50, 50); /* no entry is laid for so many */
  assert_int_equal(poll_up_to(64), 3);
  for (int i = 0; i < 3; i++) {
    expect_message(i, (uint32_t)i, 50);
    release_message(i);
  }
  assert_int_equal(counter("copied"), 3);
  assert_int_equal(rx()->depth, 3);
  assert_int_equal(rx()->segment, 58);
  for (uint32_t i = 0; i < 9; i++) /* what lay ready already is of one slot */
    arrive(3 + 3 * i, 3, 50, 20);
  for (uint32_t i = 3; i < 30; i++) {
    assert_int_equal(poll_up_to(1), 1);
    expect_message(0, i, i % 3 == 2 ? 20 : 50);
    release_message(0);
  }
  uint64_t copied = counter("copied");
  kernel.arrived = kernel.arrival_count = 0;
  for (uint32_t i = 0; i < 2; i++)
    arrive(100 + 3 * i, 3, 50, i ? 20 : 50);
  assert_int_equal(poll_up_to(64), 6);
  for (uint32_t i = 0; i < 6; i++)
    expect_message((int)i, 100 + i, i == 5 ? 20 : 50);
  assert_int_equal(counter("copied"), copied);
}

/* Laid for 3 of 58 bytes; 4 of 78 come. */
static void another_size_is_put_right_by_a_copy(void **state)
{
  (void)state;
  setup();
  arrive(0, 3, 50, 50);
  assert_int_equal(poll_up_to(64), 3);
  for (int i = 0; i < 3; i++)
    release_message(i);
  for (uint32_t i = 0; i < SLOTS; i++) /* uses up what lay ready of one slot */
    arrive(3 + i, 1, 0, 50);
  for (uint32_t i = 0; i < SLOTS; i++) {
    assert_int_equal(poll_up_to(1), 1);
    expect_message(0, 3 + i, 50);
    release_message(0);
  }
  kernel.arrived = kernel.arrival_count = 0;
  arrive(20, 4, 70, 33);
  arrive(24, 1, 0, 10); /* shorter than what it is laid for */
  assert_int_equal(poll_up_to(64), 5);
  for (int i = 0; i < 4; i++)
    expect_message(i, 20 + (uint32_t)i, i == 3 ? 33 : 70);
  expect_message(4, 24, 10);
}

/* A datagram of a size that no message has writes nothing beyond its slot. */
static void size_that_no_slot_has_is_not_laid_for(void **state)
{
  (void)state;
  setup();
  arrive(0, 2, PAYLOAD + 40, PAYLOAD + 40);
  assert_int_equal(poll_up_to(64), 0);
  assert_int_equal(rx()->segment, PAYLOAD + 48);
  for (uint32_t i = 0; i < SLOTS; i++)
    arrive(2 + i, 1, 0, 10);
  for (uint32_t i = 0; i < SLOTS; i++) {
    assert_int_equal(poll_up_to(1), 1);
    release_message(0);
  }
  assert_int_equal(rx()->segment, PAYLOAD + 48); /* single ones teach nothing */
  poll_up_to(64);
  assert_int_equal(rx()->laid, SLOTS);
  for (uint32_t i = 0; i < SLOTS; i++) {
    const struct udp_entry *entry = &rx()->entries[(rx()->first + i) % UDP_ENTRIES];
    assert_int_equal(entry->laid, 1);
    assert_int_equal(entry->parts[1].iov_len, PAYLOAD);
  }
}

/* More of the learned size than the entry has slots: the rest is in the spill. */
static void deeper_buffer_has_its_end_in_the_spill(void **state)
{
  (void)state;
  setup();
  arrive(0, 2, 50, 50);
  assert_int_equal(poll_up_to(64), 2);
  release_message(0);
  release_message(1);
  for (uint32_t i = 0; i < SLOTS; i++)
    arrive(2 + i, 1, 0, 50);
  for (uint32_t i = 0; i < SLOTS; i++) {
    assert_int_equal(poll_up_to(1), 1);
    release_message(0);
  }
  uint64_t copied = counter("copied");
  kernel.arrived = kernel.arrival_count = 0;
  arrive(20, 5, 50, 7);
  assert_int_equal(poll_up_to(64), 5);
  for (int i = 0; i < 5; i++)
    expect_message(i, 20 + (uint32_t)i, i == 4 ? 7 : 50);
  assert_int_equal(counter("copied"), copied + 3);
}

static void spill_waits_for_free_slots(void **state)
{
  (void)state;
  setup();
  arrive(0, 12, 50, 50);
  assert_int_equal(poll_up_to(64), SLOTS);
  assert_int_equal(poll_up_to(64), 0);
  assert_true(rx()->starved);
  assert_false(udp_rx_pending(rig.endpoint)); /* nothing until a slot is free */
  assert_int_equal(release_token(SLOTS - 1), 0);
  assert_true(udp_rx_pending(rig.endpoint));
  assert_int_equal(poll_up_to(64), 1);
  expect_message(0, 8, 50);
  assert_int_equal(polled[0].u.message.token, SLOTS - 1);
  for (uint64_t slot = 0; slot < 3; slot++)
    assert_int_equal(release_token(slot), 0);
  assert_int_equal(poll_up_to(64), 3);
  expect_message(2, 11, 50);
  assert_int_equal(counter("messages_received"), 12);
  assert_int_equal(rx()->laid_slots, 0); /* all that lay ready was taken back */
}

static void ring_without_a_slot_reads_nothing(void **state)
{
  (void)state;
  setup();
  for (uint32_t i = 0; i < SLOTS + 2; i++)
    arrive(i, 1, 0, 10);
  assert_int_equal(poll_up_to(64), SLOTS);
  assert_int_equal(kernel.arrived, SLOTS);
  assert_false(udp_rx_has_room(rig.endpoint));
  assert_int_equal(poll_up_to(64), 0);
  assert_int_equal(kernel.arrived, SLOTS);
  assert_int_equal(release_token(3), 0);
  assert_int_equal(poll_up_to(64), 1);
  expect_message(0, SLOTS, 10);
}

static void one_that_is_longer_than_a_slot_is_counted(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, PAYLOAD + 1);
  arrive(1, 1, 0, PAYLOAD);
  assert_int_equal(poll_up_to(64), 1);
  expect_message(0, 1, PAYLOAD);
  assert_int_equal(counter("too_long"), 1);
  assert_int_equal(counter("copied"), 0); /* one that fills its slot lies there */
}

static void damaged_one_gives_its_slot_back(void **state)
{
  (void)state;
  setup();
  for (int turn = 0; turn < 3; turn++) {
    kernel.arrived = kernel.arrival_count = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
      arrive(i + 1, 1, 0, 20)->wire[10] ^= 1;
    assert_int_equal(poll_up_to(64), 0);
    assert_int_equal(kernel.arrived, SLOTS);
  }
  assert_int_equal(counter("bad_checksum"), 3 * SLOTS);
  assert_int_equal(counter("datagrams"), 3 * SLOTS);
}

static void polls_of_one_message_lose_none(void **state)
{
  (void)state;
  setup();
  arrive(0, 3, 50, 50);
  arrive(3, 1, 0, 20);
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(poll_up_to(1), 1);
    expect_message(0, i, i < 3 ? 50 : 20);
  }
  assert_int_equal(poll_up_to(1), 0);
}

/* A jump that its successor confirms gives two messages; the second waits for the next poll. */
static void second_of_two_is_parked(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  arrive(1000000, 1, 0, 20);
  arrive(1000001, 1, 0, 20);
  assert_int_equal(poll_up_to(1), 1);
  fake_clock_ns += UINT64_C(4000000000);
  assert_int_equal(poll_up_to(1), 1);
  expect_message(0, 1000000, 20);
  assert_true(udp_rx_pending(rig.endpoint));
  assert_int_equal(udp_arm(rig.worker), -EAGAIN);
  assert_int_equal(poll_up_to(1), 1);
  expect_message(0, 1000001, 20);
}

/* Its token is out: it is given, and then the endpoint is closed. */
static void parked_one_comes_before_closed(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  arrive(1000000, 1, 0, 20);
  arrive(1000001, 1, 0, 20);
  assert_int_equal(poll_up_to(1), 1);
  fake_clock_ns += UINT64_C(4000000000);
  assert_int_equal(poll_up_to(1), 1);
  assert_int_equal(pst_cpu_endpoint_close(rig.endpoint, PST_CLOSE_DRAIN, 0), 0);
  arrive(1000002, 1, 0, 20); /* and no other */
  assert_int_equal(poll_up_to(8), 2);
  expect_message(0, 1000001, 20);
  assert_int_equal(polled[1].code, PST_EVENT_CLOSED);
}

static void close_gives_all_slots_back(void **state)
{
  (void)state;
  setup();
  arrive(0, 3, 50, 50);
  assert_int_equal(poll_up_to(1), 1);
  assert_int_equal(pst_cpu_endpoint_close(rig.endpoint, PST_CLOSE_ABORT, 0), 0);
  release_message(0);
  assert_int_equal(poll_up_to(64), 1);
  assert_int_equal(polled[0].code, PST_EVENT_CLOSED);
  assert_int_equal(rig.ring->cpu.slots.free_count, SLOTS);
  uint32_t seen = 0;
  for (uint32_t i = 0; i < SLOTS; i++)
    seen |= 1u << rig.ring->cpu.slots.free[i];
  assert_int_equal(seen, (1u << SLOTS) - 1);
  assert_int_equal(rig.ring->cpu.endpoints, 0);
}

static void close_gives_the_slot_of_a_held_one_back(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  arrive(1000000, 1, 0, 20);
  assert_int_equal(poll_up_to(64), 1);
  assert_int_equal(counter("held"), 1);
  release_message(0);
  assert_int_equal(pst_cpu_endpoint_close(rig.endpoint, PST_CLOSE_ABORT, 0), 0);
  assert_int_equal(poll_up_to(64), 1);
  assert_int_equal(rig.ring->cpu.slots.free_count, SLOTS);
}

/* ---- Drops
 * ---------------------------------------------------------------------------------------- */

static void gap_with_drops_is_the_kernels(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  struct arrival *late = arrive(4, 1, 0, 20);
  late->has_drops = true;
  late->drops = kernel.drops = 3;
  assert_int_equal(poll_up_to(64), 2);
  assert_int_equal(counter("kernel"), 3);
  assert_int_equal(counter("no_buffer"), 0);
  assert_int_equal(counter("socket_drops"), 3);
}

static void drops_while_the_ring_was_full_lacked_a_buffer(void **state)
{
  struct arrival *late;

  (void)state;
  setup();
  for (uint32_t i = 0; i < SLOTS; i++)
    arrive(i, 1, 0, 20);
  assert_int_equal(poll_up_to(64), SLOTS);
  assert_int_equal(poll_up_to(64), 0);
  assert_int_equal(release_token(0), 0);
  late = arrive(SLOTS + 4, 1, 0, 20);
  late->has_drops = true;
  late->drops = kernel.drops = 4;
  assert_int_equal(poll_up_to(64), 1);
  assert_int_equal(counter("kernel"), 0);
  assert_int_equal(counter("no_buffer"), 4);
}

/* Nobody else tells that they are missing. */
static void drops_behind_the_last_are_counted_and_left_no_gap(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  assert_int_equal(poll_up_to(64), 1);
  kernel.drops = 2;
  assert_int_equal(counter("kernel"), 2);
  assert_int_equal(counter("no_gap"), 2);
  assert_int_equal(counter("behind_last"), 0); /* buffers had one each */
  assert_non_null(strstr(fake_log(), "since the socket's buffer of"));
}

/* The kernel drops so many more of this socket: damaged ones, and for want of room. */
static void drop(uint32_t bad_sums, uint32_t full)
{
  kernel.bad_sums += bad_sums;
  kernel.full += full;
  kernel.drops += bad_sums + full;
}

/* Their sums are checked as they are read: what came behind them does not carry their drops. */
static void gap_of_a_bad_sum_is_the_checksums(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  arrive(2, 1, 0, 20);
  arrive(6, 1, 0, 20); /* 2 of these 3 were lost on the way */
  assert_int_equal(poll_up_to(64), 3);
  drop(2, 0);
  for (int look = 0; look < 2; look++) {
    assert_int_equal(counter("udp_checksum"), 2);
    assert_int_equal(counter("kernel"), 0);
    assert_int_equal(counter("no_gap"), 0);
  }
  assert_non_null(strstr(fake_log(), "checksum is wrong (2 so far"));
  assert_null(strstr(fake_log(), "buffer of"));
}

static void bad_sums_and_full_buffers_are_told_apart(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  arrive(2, 1, 0, 20);
  assert_int_equal(poll_up_to(64), 2);
  drop(1, 0);
  assert_int_equal(counter("udp_checksum"), 1);
  drop(0, 3);
  struct arrival *late = arrive(6, 1, 0, 20);
  late->has_drops = true;
  late->drops = kernel.drops;
  assert_int_equal(poll_up_to(64), 1);
  assert_int_equal(counter("kernel"), 3);
  assert_int_equal(counter("udp_checksum"), 1);
  /* One more whose drop the next message does carry. */
  drop(1, 0);
  late = arrive(8, 1, 0, 20);
  late->has_drops = true;
  late->drops = kernel.drops;
  assert_int_equal(poll_up_to(64), 1);
  assert_int_equal(counter("kernel"), 3);
  assert_int_equal(counter("udp_checksum"), 2);
}

static void bad_sums_behind_the_last_are_counted_and_left_no_gap(void **state)
{
  (void)state;
  setup();
  drop(5, 0); /* before the stream */
  assert_int_equal(counter("udp_checksum"), 0);
  for (uint32_t number = 0; number <= 2; number += 2) {
    struct arrival *arrived = arrive(number, 1, 0, 20);
    arrived->has_drops = true;
    arrived->drops = kernel.drops;
  }
  assert_int_equal(poll_up_to(64), 2);
  drop(3, 0);
  for (int look = 0; look < 2; look++) {
    assert_int_equal(counter("udp_checksum"), 3);
    assert_int_equal(counter("no_gap"), 2);
    assert_int_equal(counter("behind_last"), 0);
  }
  drop(0, 4); /* and behind them, for want of room */
  assert_int_equal(counter("kernel"), 4);
  assert_int_equal(counter("udp_checksum"), 3);
  assert_int_equal(counter("no_gap"), 6);
}

/* Those that were known before the last message came are not behind it. */
static void bad_sums_of_before_are_not_behind_the_last(void **state)
{
  (void)state;
  setup();
  arrive(0, 1, 0, 20);
  arrive(3, 1, 0, 20);
  assert_int_equal(poll_up_to(64), 2);
  drop(2, 0);
  assert_int_equal(counter("udp_checksum"), 2);
  struct arrival *last = arrive(4, 1, 0, 20);
  last->has_drops = true;
  last->drops = kernel.drops;
  assert_int_equal(poll_up_to(64), 1);
  drop(0, 2);
  assert_int_equal(counter("kernel"), 2);
  assert_int_equal(counter("udp_checksum"), 2);
  assert_int_equal(counter("no_gap"), 2);
}

static void strangers_alone_are_told_of_once(void **state)
{
  (void)state;
  setup();
  for (uint32_t i = 0; i < 7; i++)
    arrive(i, 1, 0, PAYLOAD + 9);
  assert_int_equal(poll_up_to(64), 0);
  counter("datagrams");
  assert_string_equal(fake_log(), "");
  arrive(7, 1, 0, PAYLOAD + 9);
  assert_int_equal(poll_up_to(64), 0);
  counter("datagrams");
  assert_non_null(strstr(fake_log(), "of 8 so far 8 are longer than `message` (200 bytes)"));
  fake_log_clear();
  counter("datagrams");
  assert_string_equal(fake_log(), "");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(one_datagram_lies_in_its_slot),
      CASE(datagram_without_a_stamp_has_the_time_of_its_poll),
      CASE(coalesced_ones_are_copied_once_and_scatter_then),
      CASE(another_size_is_put_right_by_a_copy),
      CASE(size_that_no_slot_has_is_not_laid_for),
      CASE(deeper_buffer_has_its_end_in_the_spill),
      CASE(spill_waits_for_free_slots),
      CASE(ring_without_a_slot_reads_nothing),
      CASE(one_that_is_longer_than_a_slot_is_counted),
      CASE(damaged_one_gives_its_slot_back),
      CASE(polls_of_one_message_lose_none),
      CASE(second_of_two_is_parked),
      CASE(parked_one_comes_before_closed),
      CASE(close_gives_all_slots_back),
      CASE(close_gives_the_slot_of_a_held_one_back),
      CASE(gap_with_drops_is_the_kernels),
      CASE(drops_while_the_ring_was_full_lacked_a_buffer),
      CASE(drops_behind_the_last_are_counted_and_left_no_gap),
      CASE(gap_of_a_bad_sum_is_the_checksums),
      CASE(bad_sums_and_full_buffers_are_told_apart),
      CASE(bad_sums_behind_the_last_are_counted_and_left_no_gap),
      CASE(bad_sums_of_before_are_not_behind_the_last),
      CASE(strangers_alone_are_told_of_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
