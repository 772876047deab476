/* SPDX-License-Identifier: Apache-2.0 */
/* Active messages of a peer: into slots in any order, to the host in the order of their SENDs; what
 * breaks the protocol ends the connection and writes nowhere. */
#include "support.h"

#include "link.h"
#include "ops.h"
#include "receive.h"
#include "ring.h"
#include "slots.h"

static const uint8_t *slot_of(const struct pst_completion *message)
{
  return fixture.ring->cpu.base + message->u.message.offset;
}

static uint32_t poll_messages(struct pst_completion *out, uint32_t max)
{
  const uint32_t n = poll_all(out, max);

  for (uint32_t i = 0; i < n; i++)
    assert_int_equal(out[i].kind, PST_COMPLETION_MESSAGE);
  return n;
}

static void release(const struct pst_completion *messages, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    assert_int_equal(ucx_release(fixture.worker, &messages[i].u.message.token, 1), 0);
}

/* A run of `count` messages of 100 bytes, from `position` on. */
static ucs_status_t deliver_run(uint64_t position, uint16_t count)
{
  const struct ucx_header header = {.kind = UCX_RUN,
                                    .count = count,
                                    .length = 100,
                                    .position = position,
                                    .sequence = 500 + position};

  return deliver(header, fixture.bytes + 100 * position, 100u * count);
}

static void a_run_is_so_many_messages(void **state)
{
  struct pst_completion got[SLOTS];

  (void)state;
  assert_int_equal(deliver_run(0, 3), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(got[i].endpoint, COOKIE);
    assert_int_equal(got[i].u.message.length, 100);
    assert_int_equal(got[i].u.message.sequence, 500 + i);
    assert_int_equal(got[i].flags, PST_HAS_SEQUENCE | PST_HAS_META);
    assert_memory_equal(slot_of(&got[i]), fixture.bytes + 100 * i, 100);
  }
  release(got, 3);
}

static void a_list_has_a_record_for_each(void **state)
{
  const struct ucx_record records[] = {{7, 70, 5, 0}, {9, 90, 0, 0}, {10, 0, 20, 0}};
  const struct ucx_header header = {.kind = UCX_LIST, .count = 3};
  uint8_t bytes[sizeof(records) + 25];
  struct pst_completion got[SLOTS];

  (void)state;
  memcpy(bytes, records, sizeof(records));
  memcpy(bytes + sizeof(records), fixture.bytes, 25);
  assert_int_equal(deliver(header, bytes, sizeof(bytes)), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(got[i].u.message.sequence, records[i].sequence);
    assert_int_equal(got[i].u.message.meta, records[i].meta);
    assert_int_equal(got[i].u.message.length, records[i].length);
  }
  assert_memory_equal(slot_of(&got[2]), fixture.bytes + 5, 20);
  release(got, 3);
}

static void later_ones_wait_for_earlier_ones(void **state)
{
  struct pst_completion got[SLOTS];

  (void)state;
  assert_int_equal(deliver_run(2, 2), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), 0);
  assert_int_equal(deliver_run(0, 2), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), 4);
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(got[i].u.message.sequence, 500 + i);
  release(got, 4);
}

static void parts_come_in_any_order(void **state)
{
  static const uint64_t offsets[] = {2000, 0, 1000};
  struct ucx_header header = {.kind = UCX_PART, .length = 3000, .sequence = 4, .meta = 5};
  struct pst_completion got;

  (void)state;
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(poll_messages(&got, 1), 0);
    header.offset = offsets[i];
    assert_int_equal(deliver(header, fixture.bytes + offsets[i], 1000), UCS_OK);
  }
  assert_int_equal(poll_messages(&got, 1), 1);
  assert_int_equal(got.u.message.length, 3000);
  assert_int_equal(got.u.message.meta, 5);
  assert_memory_equal(slot_of(&got), fixture.bytes, 3000);
  release(&got, 1);
}

static void what_is_fetched_comes_when_it_is_there(void **state)
{
  const struct ucx_header header = {.kind = UCX_WHOLE, .length = 30000, .sequence = 3};
  struct pst_completion got;

  (void)state;
  assert_int_equal(deliver_offer(header, fixture.bytes, 30000), UCS_INPROGRESS);
  struct fake_request *fetch = fake_request(FAKE_FETCH, 0);
  assert_int_equal(fetch->memory_type, UCS_MEMORY_TYPE_HOST);
  assert_int_equal(fixture.endpoint->link->fetches, 1);
  assert_int_equal(poll_messages(&got, 1), 0);
  fake_end(fetch, UCS_OK);
  assert_int_equal(poll_messages(&got, 1), 1);
  assert_ptr_equal(slot_of(&got), fetch->destination);
  assert_memory_equal(slot_of(&got), fixture.bytes, 30000);
  assert_int_equal(fixture.endpoint->link->fetches, 0);
  release(&got, 1);
}

static void slots_that_are_free_again_are_reported(void **state)
{
  struct pst_completion got[SLOTS];

  (void)state;
  assert_int_equal(deliver_run(0, SLOTS), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), SLOTS);
  assert_int_equal(fake_messages(UCX_CREDIT), 0);
  release(got, SLOTS);
  assert_int_equal(poll_messages(got, 1), 0);
  assert_int_equal(fake_messages(UCX_CREDIT), 1);
  assert_int_equal(fake_message(UCX_CREDIT, 0)->header.position, 2 * SLOTS);
}

/* Messages 0 to 2, whose slots come back, and six more. */
static void slots_of_nine(uint32_t slots[9])
{
  struct pst_completion got[SLOTS];

  assert_int_equal(deliver_run(0, 3), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), 3);
  for (uint32_t i = 0; i < 3; i++)
    slots[i] = pst_token_slot(got[i].u.message.token);
  release(got, 3);
  assert_int_equal(ucx_release(fixture.worker, &got[0].u.message.token, 1), -EINVAL);
  assert_int_equal(poll_messages(got, SLOTS), 0);
  assert_int_equal(deliver_run(3, 6), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), 6);
  for (uint32_t i = 0; i < 6; i++)
    slots[3 + i] = pst_token_slot(got[i].u.message.token);
  release(got, 6);
  assert_int_equal(fixture.ring->cpu.slots.free_count, SLOTS);
}

static void the_slot_that_was_last_back_is_next(void **state)
{
  static const uint32_t expected[9] = {0, 1, 2, 2, 1, 0, 3, 4, 5};
  uint32_t slots[9];

  (void)state;
  slots_of_nine(slots);
  assert_memory_equal(slots, expected, sizeof(expected));
}

static void slots_that_a_device_copies_out_of_go_in_turn(void **state)
{
  static const uint32_t expected[9] = {0, 1, 2, 3, 4, 5, 6, 7, 0};
  uint32_t slots[9];

  (void)state;
  ucx_slots_turn(fixture.ring);
  slots_of_nine(slots);
  assert_memory_equal(slots, expected, sizeof(expected));
}

static void a_ring_in_pinned_memory_is_such_a_one(void **state)
{
  const struct pst_region region = {.struct_size = sizeof(region),
                                    .address = (uintptr_t)fixture.bytes,
                                    .host = fixture.bytes,
                                    .length = SLOT_BYTES,
                                    .flags = PST_REGION_PINNED};
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                                       .region = &region,
                                       .length = SLOT_BYTES};
  struct pst_ring_params some = {.struct_size = sizeof(some),
                                 .slots = 1,
                                 .stride = SLOT_BYTES,
                                 .payload_max = SLOT_BYTES,
                                 .endpoints = 1};
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_ring *ring;

  (void)state;
  assert_false(fixture.ring->in_turn);
  assert_int_equal(ucx_mr_register(&fixture.device, &params, &some.mr), 0);
  assert_int_equal(ucx_ring_open(fixture.worker, &some, &path, &ring), 0);
  assert_true(ring->in_turn);
  ucx_ring_close(fixture.worker, ring);
  ucx_mr_deregister(&fixture.device, some.mr);
}

static void a_flush_is_answered_behind_its_messages(void **state)
{
  const struct ucx_header ask = {.kind = UCX_FLUSH, .position = 2};
  struct pst_completion got[SLOTS];

  (void)state;
  assert_int_equal(deliver(ask, NULL, 0), UCS_OK);
  assert_int_equal(deliver_run(0, 1), UCS_OK);
  assert_int_equal(poll_messages(got, SLOTS), 1);
  assert_int_equal(fake_messages(UCX_FLUSHED), 0);
  assert_int_equal(deliver_run(1, 1), UCS_OK);
  assert_int_equal(poll_messages(got + 1, SLOTS), 1);
  assert_int_equal(fake_messages(UCX_FLUSHED), 1);
  assert_int_equal(fake_message(UCX_FLUSHED, 0)->header.position, 2);
  release(got, 2);
}

/* Messages of another run or process, or of an endpoint that is closed, are ignored. */
static void another_nonce_counts_for_nothing(void **state)
{
  struct ucx_header header = {.kind = UCX_RUN, .count = 1, .length = 100};
  const ucp_am_recv_param_t param = {0};
  struct pst_completion got;

  (void)state;
  header.nonce = fixture.endpoint->link->nonce + 1;
  assert_int_equal(
      ucx_receive(fixture.endpoint->link, &header, sizeof(header), fixture.bytes, 100, &param),
      UCS_OK);
  assert_int_equal(poll_messages(&got, 1), 0);
  assert_true(is_lost_with(0));
}

struct broken {
  const char *what;
  struct ucx_header header;
  size_t bytes;
  bool is_offer;
};

#define HEADER(...)                                                                                \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }
static const struct broken broken[] = {
    {"no credit", HEADER(.kind = UCX_RUN, .count = 1, .length = 10, .position = SLOTS), 10, false},
    {"more than there is credit for", HEADER(.kind = UCX_RUN, .count = SLOTS + 1, .length = 10),
     (SLOTS + 1) * 10, false},
    {"shorter than it says", HEADER(.kind = UCX_RUN, .count = 2, .length = 10), 19, false},
    {"longer than a slot", HEADER(.kind = UCX_RUN, .count = 1, .length = SLOT_BYTES + 1),
     SLOT_BYTES + 1, false},
    {"no room for the records", HEADER(.kind = UCX_LIST, .count = 2),
     2 * sizeof(struct ucx_record) - 1, false},
    {"a record of more than came", HEADER(.kind = UCX_LIST, .count = 1), sizeof(struct ucx_record),
     false},
    {"a part behind the end", HEADER(.kind = UCX_PART, .length = 100, .offset = 91), 10, false},
    {"a part far behind the end", HEADER(.kind = UCX_PART, .length = 100, .offset = UINT64_MAX - 4),
     10, false},
    {"a part of more than a slot", HEADER(.kind = UCX_PART, .length = SLOT_BYTES + 1), 10, false},
    {"a rendezvous of another length", HEADER(.kind = UCX_WHOLE, .length = 99), 100, true},
    {"a rendezvous that is none", HEADER(.kind = UCX_WHOLE, .length = 100), 100, false},
    {"a run by rendezvous", HEADER(.kind = UCX_RUN, .count = 1, .length = 100), 100, true},
    {"an answer to more than was sent", HEADER(.kind = UCX_FLUSHED, .position = 1), 0, false},
    {"of no kind", HEADER(.kind = 99), 0, false},
};

static void what_breaks_the_protocol_ends_the_connection(void **state)
{
  static uint8_t bytes[SLOT_BYTES + 1];
  const struct ucx_record record = {.length = 1};
  struct pst_completion got[SLOTS + 1];

  (void)state;
  memcpy(bytes, &record, sizeof(record));
  for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
    open_posix(NULL);
    if (broken[i].is_offer)
      deliver_offer(broken[i].header, bytes, broken[i].bytes);
    else
      deliver(broken[i].header, bytes, broken[i].bytes);
    if (!is_lost_with(-EPROTO))
      print_error("%s\n", broken[i].what);
    assert_true(is_lost_with(-EPROTO));
    assert_non_null(strstr(fake_log(), "breaks the protocol"));
    assert_int_equal(fake_count(FAKE_FETCH), 0);
    /* Behind what had come before. */
    const uint32_t n = poll_all(got, SLOTS + 1);
    assert_int_equal(got[n - 1].kind, PST_COMPLETION_EVENT);
    assert_int_equal(got[n - 1].code, PST_EVENT_DISCONNECTED);
    assert_int_equal(got[n - 1].status, -EPROTO);
    close_it(NULL);
  }
}

static void a_part_twice_breaks_it(void **state)
{
  const struct ucx_header header = {.kind = UCX_PART, .length = 3000};

  (void)state;
  assert_int_equal(deliver(header, fixture.bytes, 2000), UCS_OK);
  assert_true(is_lost_with(0));
  deliver(header, fixture.bytes, 2000);
  assert_true(is_lost_with(-EPROTO));
}

static void a_message_twice_breaks_it(void **state)
{
  (void)state;
  assert_int_equal(deliver_run(0, 2), UCS_OK);
  deliver_run(1, 1);
  assert_true(is_lost_with(-EPROTO));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_run_is_so_many_messages, open_posix, close_it),
      cmocka_unit_test_setup_teardown(a_list_has_a_record_for_each, open_posix, close_it),
      cmocka_unit_test_setup_teardown(later_ones_wait_for_earlier_ones, open_posix, close_it),
      cmocka_unit_test_setup_teardown(parts_come_in_any_order, open_posix, close_it),
      cmocka_unit_test_setup_teardown(what_is_fetched_comes_when_it_is_there, open_posix, close_it),
      cmocka_unit_test_setup_teardown(slots_that_are_free_again_are_reported, open_posix, close_it),
      cmocka_unit_test_setup_teardown(the_slot_that_was_last_back_is_next, open_posix, close_it),
      cmocka_unit_test_setup_teardown(slots_that_a_device_copies_out_of_go_in_turn, open_posix,
                                      close_it),
      cmocka_unit_test_setup_teardown(a_ring_in_pinned_memory_is_such_a_one, open_posix, close_it),
      cmocka_unit_test_setup_teardown(a_flush_is_answered_behind_its_messages, open_posix,
                                      close_it),
      cmocka_unit_test_setup_teardown(another_nonce_counts_for_nothing, open_posix, close_it),
      cmocka_unit_test(what_breaks_the_protocol_ends_the_connection),
      cmocka_unit_test_setup_teardown(a_part_twice_breaks_it, open_posix, close_it),
      cmocka_unit_test_setup_teardown(a_message_twice_breaks_it, open_posix, close_it),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
