/* SPDX-License-Identifier: Apache-2.0 */
/* SENDs as active messages: several in one, one in several, or fetched by the peer. */
#include "support.h"

#include "am.h"
#include "link.h"
#include "link_close.h"
#include "mr.h"

/* `n` of `length` bytes each, one behind the other in memory. */
static int post_alike(uint64_t length, uint32_t n, uint32_t *why)
{
  struct pst_request requests[REQUESTS];

  assert_true(n <= REQUESTS);
  for (uint32_t i = 0; i < n; i++)
    requests[i] = request_of(i * length, length, i);
  return ucx_post(fixture.endpoint, requests, n, why);
}

static uint32_t poll_dones(struct pst_completion *done)
{
  const uint32_t n = poll_all(done, 1);

  assert_true(n == 0 || done->kind == PST_COMPLETION_DONE);
  return n ? done->u.done.count : 0;
}

static void small_ones_that_are_alike_are_a_run(void **state)
{
  struct pst_completion done;
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  assert_int_equal(post_alike(100, 40, &why), 40);
  assert_int_equal(fake_messages(UCX_RUN), 1);
  struct fake_request *run = fake_message(UCX_RUN, 0);
  assert_int_equal(run->header.count, 40);
  assert_int_equal(run->header.length, 100);
  assert_int_equal(run->header.position, 0);
  assert_int_equal(run->flags, UCP_AM_SEND_FLAG_EAGER);
  assert_int_equal(poll_dones(&done), 0);
  fake_end(run, UCS_OK);
  assert_memory_equal(run->bytes, fixture.bytes, 4000);
  assert_int_equal(run->length, 4000);
  assert_int_equal(poll_dones(&done), 40);
  assert_int_equal(done.u.done.cookie, 1039);
  assert_int_equal(done.status, 0);
}

static void a_run_ends_where_the_lane_does(void **state)
{
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  const uint64_t most = fixture.endpoint->link->part_max / 1462;
  assert_int_equal(post_alike(1462, 12, &why), 12);
  for (uint32_t i = 0, at = 0; i < fake_messages(UCX_RUN); i++) {
    const struct ucx_header *header = &fake_message(UCX_RUN, i)->header;
    assert_true(header->count <= most);
    assert_int_equal(header->position, at);
    assert_int_equal(header->sequence, at);
    at += header->count;
    assert_true(at < 12 || at == 12);
  }
  assert_int_equal(fake_messages(UCX_RUN), (12 + most - 1) / most);
}

static void small_ones_that_differ_are_a_list(void **state)
{
  const uint64_t lengths[] = {10, 300, 0, 77};
  struct pst_request requests[4];
  const struct ucx_record *records;
  uint32_t why = PST_WAIT_NONE;
  uint64_t at = 0;

  (void)state;
  for (uint32_t i = 0; i < 4; i++) {
    requests[i] = request_of(1000 * i, lengths[i], 50 + 2 * i);
    requests[i].u.send.meta = 9 + i;
  }
  assert_int_equal(ucx_post(fixture.endpoint, requests, 4, &why), 4);
  struct fake_request *list = fake_message(UCX_LIST, 0);
  assert_int_equal(list->header.count, 4);
  fake_end(list, UCS_OK);
  records = (const void *)list->bytes;
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(records[i].sequence, 50 + 2 * i);
    assert_int_equal(records[i].meta, 9 + i);
    assert_int_equal(records[i].length, lengths[i]);
    assert_memory_equal(list->bytes + 4 * sizeof(*records) + at, fixture.bytes + 1000 * i,
                        lengths[i]);
    at += lengths[i];
  }
  assert_int_equal(list->length, 4 * sizeof(*records) + at);
}

static void pieces_lie_one_behind_the_other(void **state)
{
  struct pst_request request = request_of(0, 700, 1);
  const struct pst_piece pieces[] = {{fixture.source, 100, 200, 0}, {fixture.source, 5000, 500, 0}};
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  request.piece_count = 2;
  request.local.pieces = pieces;
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), 1);
  struct fake_request *list = fake_message(UCX_LIST, 0);
  fake_end(list, UCS_OK);
  assert_memory_equal(list->bytes + sizeof(struct ucx_record), fixture.bytes + 100, 200);
  assert_memory_equal(list->bytes + sizeof(struct ucx_record) + 200, fixture.bytes + 5000, 500);
}

static void a_long_one_is_cut_in_parts_that_are_alike(void **state)
{
  struct pst_completion done;
  uint32_t why = PST_WAIT_NONE;
  uint64_t at = 0;

  (void)state;
  const uint64_t most = fixture.endpoint->link->part_max, length = 2 * most + 10;
  assert_int_equal(post_alike(length, 1, &why), 1);
  assert_int_equal(fake_messages(UCX_PART), 3);
  for (uint32_t i = 0; i < 3; i++) {
    struct fake_request *part = fake_message(UCX_PART, i);
    assert_int_equal(poll_dones(&done), 0);
    fake_end(part, UCS_OK);
    assert_int_equal(part->header.offset, at);
    assert_int_equal(part->header.length, length);
    assert_int_equal(part->header.position, 0);
    assert_true(part->length >= length / 3 && part->length <= length / 3 + 1);
    assert_memory_equal(part->bytes, fixture.bytes + at, part->length);
    at += part->length;
  }
  assert_int_equal(at, length);
  assert_int_equal(poll_dones(&done), 1);
}

static void a_cut_goes_on_as_there_is_room(void **state)
{
  struct pst_request request;
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  fixture.endpoint->link->part_max = 100;
  assert_int_equal(post_alike(5000, 1, &why), 1);
  assert_int_equal(fake_messages(UCX_PART), UCX_WINDOW);
  request = request_of(0, 10, 1); /* it waits for the one that is cut */
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), -EAGAIN);
  assert_int_equal(why, PST_WAIT_QUEUE);
  for (uint32_t i = 0; i < 50; i++) {
    struct pst_completion none;
    fake_end(fake_message(UCX_PART, i), UCS_OK);
    poll_all(&none, i < 49 ? 1 : 0);
  }
  assert_int_equal(fake_messages(UCX_PART), 50);
}

static void the_longest_are_fetched_by_the_peer(void **state)
{
  struct pst_completion done;
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  fixture.endpoint->link->whole_from = 20000;
  assert_int_equal(post_alike(20000, 1, &why), 1);
  const struct pst_piece pieces[] = {{fixture.source, 0, 15000, 0},
                                     {fixture.source, 20000, 7000, 0}};
  struct pst_request request = request_of(0, 22000, 1);
  request.piece_count = 2;
  request.local.pieces = pieces;
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), 1);
  struct fake_request *one = fake_message(UCX_WHOLE, 0), *two = fake_message(UCX_WHOLE, 1);
  assert_int_equal(one->flags, UCP_AM_SEND_FLAG_RNDV);
  assert_int_equal(one->memory_type, UCS_MEMORY_TYPE_HOST);
  assert_ptr_equal(one->source, fixture.bytes);
  assert_ptr_equal(one->memh, fixture.source->memh);
  assert_null(two->memh); /* UCX takes one for a block alone */
  assert_int_equal(one->length, 20000);
  assert_int_equal(two->pieces, 2);
  assert_int_equal(two->length, 22000);
  /* In post order, in whatever order UCX ends them. */
  fake_end(two, UCS_OK);
  assert_int_equal(poll_dones(&done), 0);
  fake_end(one, UCS_OK);
  assert_int_equal(poll_dones(&done), 2);
  assert_int_equal(done.u.done.cookie, 1001);
}

static void without_credit_nothing_goes(void **state)
{
  const struct ucx_header credit = {.kind = UCX_CREDIT, .position = PEER_SLOTS + 3};
  struct pst_completion done;
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  assert_int_equal(post_alike(10, PEER_SLOTS, &why), PEER_SLOTS);
  fake_end(fake_message(UCX_RUN, 0), UCS_OK);
  assert_int_equal(poll_dones(&done), PEER_SLOTS);
  assert_int_equal(post_alike(10, 5, &why), -EAGAIN);
  assert_int_equal(why, PST_WAIT_CREDIT);
  assert_int_equal(deliver(credit, NULL, 0), UCS_OK);
  assert_int_equal(post_alike(10, 5, &why), 3);
  assert_int_equal(why, PST_WAIT_CREDIT);
}

static void longer_than_a_slot_of_the_peers_is_refused(void **state)
{
  struct pst_request request = request_of(0, SLOT_BYTES + 1, 1);
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), -EMSGSIZE);
  assert_int_equal(fake_messages(UCX_PART), 0);
}

/* One block, not a datatype, which UCX would send in pieces of a lane's buffer. */
static void over_tcp_a_run_is_longer_and_one_block(void **state)
{
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  assert_int_equal(post_alike(1462, 40, &why), 40);
  assert_int_equal(fake_messages(UCX_RUN), 1);
  struct fake_request *run = fake_message(UCX_RUN, 0);
  assert_false(run->by_datatype);
  assert_int_equal(run->length, 40 * 1462);
  assert_memory_equal(run->bytes, fixture.bytes, 40 * 1462);
  assert_int_equal(run->flags, UCP_AM_SEND_FLAG_EAGER);
  /* The slots are the host's again whatever UCX does with the block. */
  assert_true((const uint8_t *)run->source < fixture.bytes ||
              (const uint8_t *)run->source >= fixture.bytes + (1u << 20));
  fake_end(run, UCS_OK);
}

static void over_tcp_one_long_piece_goes_without_a_copy(void **state)
{
  struct pst_completion done;
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  assert_int_equal(post_alike(20000, 1, &why), 1);
  struct fake_request *run = fake_message(UCX_RUN, 0);
  assert_ptr_equal(run->source, fixture.bytes);
  /* UCX reads it, so that it is not the host's again before it ends. */
  assert_true(ucx_link_uses_memory(fixture.endpoint->link));
  ucx_ams_void(fixture.endpoint->link, -ECANCELED);
  assert_int_equal(poll_dones(&done), 0);
  fake_end(run, UCS_OK);
  assert_int_equal(poll_dones(&done), 1);
  assert_int_equal(done.status, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(small_ones_that_are_alike_are_a_run, open_posix, close_it),
      cmocka_unit_test_setup_teardown(a_run_ends_where_the_lane_does, open_posix, close_it),
      cmocka_unit_test_setup_teardown(small_ones_that_differ_are_a_list, open_posix, close_it),
      cmocka_unit_test_setup_teardown(pieces_lie_one_behind_the_other, open_posix, close_it),
      cmocka_unit_test_setup_teardown(a_long_one_is_cut_in_parts_that_are_alike, open_posix,
                                      close_it),
      cmocka_unit_test_setup_teardown(a_cut_goes_on_as_there_is_room, open_posix, close_it),
      cmocka_unit_test_setup_teardown(the_longest_are_fetched_by_the_peer, open_posix, close_it),
      cmocka_unit_test_setup_teardown(without_credit_nothing_goes, open_posix, close_it),
      cmocka_unit_test_setup_teardown(longer_than_a_slot_of_the_peers_is_refused, open_posix,
                                      close_it),
      cmocka_unit_test_setup_teardown(over_tcp_one_long_piece_goes_without_a_copy, open_tcp,
                                      close_it),
      cmocka_unit_test_setup_teardown(over_tcp_a_run_is_longer_and_one_block, open_tcp, close_it),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
