/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that happen while a message is posted, and the DONEs that the host has of them. */
#include "../fake_page.h"
#include "support.h"

static void dropped_ones_are_done_in_their_turn(void **state)
{
  (void)state;
  SETUP(8, {"seed", "7"}, {"drop_ppm", "10000"});
  rig.posted = 171; /* 172 is dropped */
  assert_int_equal(post(3), 3);
  EXPECT_POSTED(0, 171, 173);
  assert_int_equal(poll_all(), 0);
  inner_done(1, 0);
  expect_done(172, 2, 0);
  inner_done(1, 0);
  expect_done(173, 1, 0);
}

static void dropped_ones_keep_their_places_in_the_queue(void **state)
{
  (void)state;
  SETUP(4, {"drop_ppm", "1000000"});
  assert_int_equal(post(6), 4);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  assert_int_equal(post(1), -EAGAIN);
  expect_done(3, 4, 0);
  assert_int_equal(post(6), 4);
  expect_done(7, 4, 0);
}

static void duplicate_is_done_when_both_are(void **state)
{
  struct pst_request request = send_of(0, 100);
  uint32_t wait;

  (void)state;
  SETUP(8, {"duplicate_ppm", "1000000"});
  request.local.mr = rig.mr;
  request.flags = PST_REQUEST_EXCLUSIVE | PST_REQUEST_FENCE;
  assert_int_equal(fault()->post(rig.endpoint, &request, 1, &wait), 1);
  EXPECT_POSTED(0, 0, 0);
  assert_int_equal(inner.posted[0].flags, PST_REQUEST_FENCE); /* another names the bytes */
  assert_int_equal(inner.posted[1].flags, PST_REQUEST_FENCE);
  inner_done(1, 0);
  assert_int_equal(poll_all(), 0);
  inner_done(1, 0);
  expect_done(0, 1, 0);
}

static void error_of_either_half_is_the_duplicates(void **state)
{
  (void)state;
  SETUP(8, {"duplicate_ppm", "1000000"});
  assert_int_equal(post(2), 2);
  inner_done(1, -EACCES);
  inner_done(1, 0);
  expect_done(0, 1, -EACCES);
  inner_done(1, 0);
  inner_done(1, -EACCES);
  expect_done(1, 1, -EACCES);
}

static void second_half_goes_before_any_later_message(void **state)
{
  (void)state;
  SETUP(8, {"duplicate_ppm", "1000000"});
  inner.room = 1;
  assert_int_equal(post(2), 1);
  EXPECT_POSTED(0, 0);
  assert_int_equal(last_wait, PST_WAIT_CREDIT);  /* the transport's reason */
  assert_int_equal(fault()->arm(rig.worker), 0); /* it wakes when the transport takes more */
  inner.room = 2;
  assert_int_equal(post(1), 1);
  EXPECT_POSTED(0, 0, 0, 1);
  inner.room = 1;
  poll_all();
  EXPECT_POSTED(0, 0, 0, 1, 1);
  assert_int_equal(counter("injected_duplicate"), 2);
}

/* The ring of inner posts has twice the entries, and turns many times. */
static void inner_dones_find_their_messages_through_many_turns(void **state)
{
  uint64_t next = 0;

  (void)state;
  SETUP(4, {"seed", "5"}, {"duplicate_ppm", "400000"}, {"drop_ppm", "200000"});
  while (rig.posted < 1000) {
    assert_true(post(3) > 0 || last_wait == PST_WAIT_QUEUE);
    if (inner.count > inner.done)
      inner_done(1, 0);
    int n = poll_all();
    for (int i = 0; i < n; i++) {
      assert_int_equal(polled[i].status, 0);
      next += polled[i].u.done.count;
      assert_int_equal(polled[i].u.done.cookie, 1000 + next - 1);
    }
  }
  inner_done(inner.count - inner.done, 0);
  expect_done(rig.posted - 1, rig.posted - next, 0);
  assert_int_equal(inner.count,
                   rig.posted + counter("injected_duplicate") - counter("injected_drop"));
}

/* ---- Corruption --------------------------------------------------------------------------- */

static const uint8_t *sent(uint32_t i)
{
  assert_ptr_equal(inner.posted[i].local.mr, rig.device->pool.mr);
  assert_int_equal(inner.posted[i].piece_count, 0);
  return (const uint8_t *)rig.device->pool.region.host + inner.posted[i].offset;
}

/* Seed 7 and 100 bytes: the finaliser over the draw says which bit. */
static void one_bit_of_a_copy_differs(void **state)
{
  static const uint32_t bits[] = {225, 93, 197, 110};
  uint8_t before[INNER_MR_BYTES];

  (void)state;
  SETUP(8, {"seed", "7"}, {"corrupt_ppm", "1000000"});
  memcpy(before, rig.memory, sizeof(before));
  assert_int_equal(post(4), 4);
  for (uint32_t i = 0; i < 4; i++)
    for (uint32_t k = 0; k < 100; k++)
      assert_int_equal(sent(i)[k] ^ rig.memory[k], k == bits[i] / 8 ? 1u << bits[i] % 8 : 0);
  assert_memory_equal(before, rig.memory, sizeof(before));
}

static void copies_lie_on_whole_pages_of_the_machine(void **state)
{
  (void)state;
  SETUP(8, {"corrupt_ppm", "1"});
  assert_int_equal(rig.device->pool.region.page_size, FAKE_PAGE);
  assert_int_equal(rig.device->pool.region.length % FAKE_PAGE, 0);
}

static void copies_are_as_many_as_announced(void **state)
{
  (void)state;
  SETUP(64, {"corrupt_ppm", "1000000"});
  assert_int_equal(post(20), FAULT_COPIES);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  for (uint32_t i = 0; i < FAULT_COPIES; i++)
    for (uint32_t k = 0; k < i; k++)
      assert_true(sent(i) >= sent(k) + 256 || sent(k) >= sent(i) + 256);
  inner_done(1, 0);
  inner_done(1, -EACCES);
  poll_all();
  assert_int_equal(post(4), 2);
}

static void copy_that_the_receiver_holds_is_not_used_again(void **state)
{
  (void)state;
  SETUP(64, {"corrupt_ppm", "1000000"});
  assert_int_equal(post(FAULT_COPIES), FAULT_COPIES);
  inner_done(1, -EBUSY);
  expect_done(0, 1, -EBUSY);
  assert_int_equal(post(1), -EAGAIN);
}

static void pieces_are_gathered_into_the_copy(void **state)
{
  struct pst_request request = send_of(0, 150);
  uint32_t wait;

  (void)state;
  SETUP(8, {"seed", "7"}, {"corrupt_ppm", "1000000"});
  const struct pst_piece pieces[] = {{rig.mr, 1000, 100, 0}, {rig.mr, 10, 50, 0}};
  request.piece_count = 2;
  request.local.pieces = pieces;
  assert_int_equal(fault()->post(rig.endpoint, &request, 1, &wait), 1);
  uint32_t wrong = 0;
  for (uint32_t k = 0; k < 150; k++)
    wrong += sent(0)[k] != rig.memory[k < 100 ? 1000 + k : k - 90];
  assert_int_equal(wrong, 1);
}

static void expect_unharmed(struct pst_request request)
{
  uint32_t wait, at = inner.count;
  assert_int_equal(fault()->post(rig.endpoint, &request, 1, &wait), 1);
  assert_int_equal(inner.count, at + 1);
  assert_memory_equal(&inner.posted[at], &request, sizeof(request));
}

/* The transport inside is the one that refuses what cannot be sent. */
static void what_cannot_be_copied_passes_as_it_is(void **state)
{
  struct pst_request request;

  (void)state;
  SETUP(64, {"corrupt_ppm", "1000000"});
  expect_unharmed(send_of(0, 0));
  expect_unharmed(send_of(0, 257)); /* over message_max */
  request = send_of(0, 100);
  request.offset = INNER_MR_BYTES - 99;
  expect_unharmed(request);
  request.offset = UINT64_MAX - 50;
  expect_unharmed(request);
  request = send_of(0, 100);
  request.local.mr = (struct pst_mr *)&request;
  expect_unharmed(request);
  const struct pst_piece pieces[] = {{rig.mr, 0, 60, 0}, {rig.mr, 60, 60, 0}, {rig.mr, 0, 0, 0}};
  request = send_of(0, 100); /* its pieces are more */
  request.local.pieces = pieces;
  request.piece_count = 2;
  expect_unharmed(request);
  request.arg.length = 121; /* less */
  expect_unharmed(request);
  request.arg.length = 120; /* more pieces than announced */
  request.piece_count = 3;
  expect_unharmed(request);
  assert_int_equal(counter("injected_corrupt"), 0);
  assert_int_equal(rig.endpoint->engine->copy_count, FAULT_COPIES);
}

/* Else it would lie over the copy that is under way. */
static void piece_of_more_than_the_message_is_not_copied(void **state)
{
  struct pst_request request = send_of(1, 100);
  uint8_t under_way[100];

  (void)state;
  SETUP(64, {"corrupt_ppm", "1000000"});
  const struct pst_piece piece = {rig.mr, 0, 4000, 0};
  assert_int_equal(post(1), 1);
  memcpy(under_way, sent(0), sizeof(under_way));
  request.local.pieces = &piece;
  request.piece_count = 1;
  expect_unharmed(request);
  assert_memory_equal(sent(0), under_way, sizeof(under_way));
}

static void registration_that_is_gone_is_not_read(void **state)
{
  (void)state;
  SETUP(8, {"corrupt_ppm", "1000000"});
  fault()->mr_deregister(rig.device, rig.mr);
  expect_unharmed(send_of(0, 100));
}

static void memory_without_a_mapping_is_refused(void **state)
{
  struct pst_region region = {
      .struct_size = sizeof(region), .length = 4096, .backing = "device memory"};
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_READ,
                                 .region = &region,
                                 .length = 4096};
  struct pst_mr *mr = NULL;

  (void)state;
  SETUP(8, {"corrupt_ppm", "1"});
  assert_int_equal(fault()->mr_register(rig.device, &params, &mr), -EINVAL);
  assert_non_null(strstr(fake_log(), "this memory (device memory) has no host mapping"));
  params.access = PST_ACCESS_LOCAL_READ | PST_ACCESS_RING; /* nothing is sent from there */
  assert_int_equal(fault()->mr_register(rig.device, &params, &mr), 0);
}

static void copies_are_for_the_senders_of_the_plan(void **state)
{
  struct pst_endpoint *second = NULL;

  (void)state;
  SETUP(8, {"corrupt_ppm", "1"});
  assert_int_equal(try_endpoint(8, &second), -ENOSPC);
  assert_non_null(strstr(fake_log(), "copies for the 1 senders of the plan only"));
  assert_int_equal(rig.device->pool.parts_used, 1);
}

static void device_without_host_memory_is_refused_with_the_remedy(void **state)
{
  const struct fake_option corrupts[] = {{"corrupt_ppm", "1"}, {NULL, NULL}};

  (void)state;
  inner.registers = -EOPNOTSUPP;
  assert_int_equal(try_open(corrupts, 1, &rig.device), -EOPNOTSUPP);
  assert_non_null(strstr(fake_log(), "set corrupt_ppm to 0"));
}

/* ---- Stall and kill ------------------------------------------------------------------------- */

static void stall_is_before_its_message_for_its_time(void **state)
{
  (void)state;
  SETUP(64, {"stall_at", "5"}, {"stall_time", "1000"});
  assert_int_equal(post(10), 5);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  assert_int_equal(counter("injected_stall"), 1);
  assert_int_equal(fault()->arm(rig.worker), -EAGAIN);
  fake_clock_ns += 999;
  assert_int_equal(post(1), -EAGAIN);
  fake_clock_ns += 1;
  assert_int_equal(post(5), 5);
  assert_int_equal(fault()->arm(rig.worker), 0);
  assert_int_equal(post(20), 20);
  assert_int_equal(counter("injected_stall"), 1); /* once */
}

static void expect_killed(uint32_t taken)
{
  assert_int_equal(post(10), (int)taken);
  assert_int_equal(post(1), -ECONNRESET);
  assert_int_equal(inner.close_mode, PST_CLOSE_ABORT);
}

static void kill_refuses_its_message_and_ends_the_others(void **state)
{
  (void)state;
  SETUP(64, {"kill_at", "4"});
  inner.counted = 4;
  expect_killed(4);
  inner.counted = 99; /* the endpoint inside is about to be gone */
  assert_int_equal(fault()->arm(rig.worker), -EAGAIN);
  inner_done(1, 0);
  inner_done(3, -ECANCELED);
  inner_event(PST_EVENT_CLOSED, 0);
  assert_int_equal(poll_all(), 3);
  assert_int_equal(polled[0].code, PST_EVENT_DISCONNECTED);
  assert_int_equal(polled[0].status, -ECONNRESET);
  assert_int_equal(polled[1].status, 0);
  assert_int_equal(polled[1].u.done.count, 1);
  assert_int_equal(polled[2].status, -ECONNRESET);
  assert_int_equal(polled[2].u.done.count, 3);
  assert_int_equal(counter("messages_sent"), 4);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, PST_CLOSE_DRAIN, 0), 0);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].code, PST_EVENT_CLOSED);
}

static void stall_before_kill_is_waited_for(void **state)
{
  (void)state;
  SETUP(64, {"stall_at", "2"}, {"kill_at", "4"}, {"stall_time", "1000"});
  assert_int_equal(post(10), 2);
  fake_clock_ns += 1000;
  expect_killed(2);
  assert_int_equal(counter("kill_at"), 4);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(dropped_ones_are_done_in_their_turn),
      CASE(dropped_ones_keep_their_places_in_the_queue),
      CASE(duplicate_is_done_when_both_are),
      CASE(error_of_either_half_is_the_duplicates),
      CASE(second_half_goes_before_any_later_message),
      CASE(inner_dones_find_their_messages_through_many_turns),
      CASE(one_bit_of_a_copy_differs),
      CASE(copies_lie_on_whole_pages_of_the_machine),
      CASE(copies_are_as_many_as_announced),
      CASE(copy_that_the_receiver_holds_is_not_used_again),
      CASE(pieces_are_gathered_into_the_copy),
      CASE(what_cannot_be_copied_passes_as_it_is),
      CASE(piece_of_more_than_the_message_is_not_copied),
      CASE(registration_that_is_gone_is_not_read),
      CASE(memory_without_a_mapping_is_refused),
      CASE(copies_are_for_the_senders_of_the_plan),
      CASE(device_without_host_memory_is_refused_with_the_remedy),
      CASE(stall_is_before_its_message_for_its_time),
      CASE(kill_refuses_its_message_and_ends_the_others),
      CASE(stall_before_kill_is_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
