/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE, READ and atomics by active messages, over TCP: what is asked, what is answered, and in
 * which order it counts. */
#include "support.h"

#include "am.h"
#include "link.h"
#include "mr.h"
#include "remote.h"
#include "rma.h"

#define AT UINT64_C(0x100000)
#define REMOTE_BYTES UINT64_C(1000000)

static struct pst_remote *remote;

static int open_all(void **state)
{
  open_tcp(state);
  remote = open_remote(AT, REMOTE_BYTES);
  return 0;
}

static int close_all(void **state)
{
  ucx_remote_close(fixture.endpoint, remote);
  return close_it(state);
}

static struct pst_request access_of(uint8_t opcode, uint64_t length, uint64_t number)
{
  struct pst_request request = request_of(0, length, number);

  request.opcode = opcode;
  request.u.rma = (struct pst_rma_target){.remote = remote, .offset = 64};
  return request;
}

static int post(struct pst_request request)
{
  uint32_t why = PST_WAIT_NONE;

  return ucx_post(fixture.endpoint, &request, 1, &why);
}

static struct pst_completion poll_one(void)
{
  struct pst_completion done = {0};

  assert_int_equal(poll_all(&done, 1), 1);
  assert_int_equal(done.kind, PST_COMPLETION_DONE);
  return done;
}

static void assert_nothing_is_done(void)
{
  struct pst_completion done;

  assert_int_equal(poll_all(&done, 1), 0);
}

/* An address of ours, as the peer's key has it. */
static uint64_t address_of(uint64_t offset)
{
  return (uintptr_t)fixture.bytes + offset;
}

static void without_bytes_all_is_done_at_once(void **state)
{
  (void)state;
  assert_int_equal(post(access_of(PST_OP_WRITE, 0, 1)), 1);
  assert_int_equal(poll_one().u.done.cookie, 1001);
  assert_int_equal(post(access_of(PST_OP_READ, 0, 2)), 1);
  assert_int_equal(poll_one().u.done.cookie, 1002);
  assert_int_equal(fake_messages(UCX_WRITE) + fake_messages(UCX_READ), 0);
}

static void a_write_is_cut_and_does_without_puts(void **state)
{
  const uint64_t most = fixture.endpoint->link->part_max, length = 2 * most + 100;

  (void)state;
  assert_int_equal(post(access_of(PST_OP_WRITE, length, 1)), 1);
  assert_int_equal(fake_count(FAKE_PUT), 0);
  assert_int_equal(fake_messages(UCX_WRITE), 3);
  for (uint32_t i = 0, at = 0; i < 3; i++) {
    struct fake_request *part = fake_message(UCX_WRITE, i);
    assert_int_equal(part->header.sequence, AT + 64);
    assert_int_equal(part->header.offset, at);
    assert_memory_equal(part->bytes, fixture.bytes + at, part->length);
    at += (uint32_t)part->length;
    assert_nothing_is_done();
    fake_end(part, UCS_OK);
  }
  assert_int_equal(poll_one().u.done.cookie, 1001);
}

/* No round trip: the SEND says how many WRITEs come before it. */
static void a_notification_goes_at_once(void **state)
{
  struct pst_request notice = request_of(0, 8, 2);

  (void)state;
  notice.flags = PST_REQUEST_FENCE;
  assert_int_equal(post(access_of(PST_OP_WRITE, 10, 1)), 1);
  assert_int_equal(post(notice), 1);
  assert_int_equal(fake_count(FAKE_FLUSH), 0);
  assert_int_equal(fake_message(UCX_RUN, 0)->header.writes, 1);
}

static void a_message_waits_for_writes_before_it(void **state)
{
  const struct ucx_header run = {.kind = UCX_RUN, .count = 1, .length = 8, .writes = 1};
  const struct ucx_header write = {.kind = UCX_WRITE, .sequence = address_of(500)};
  struct pst_completion message;

  (void)state;
  deliver(run, "notified", 8);
  assert_nothing_is_done();
  deliver(write, "by a peer", 9);
  assert_memory_equal(fixture.bytes + 500, "by a peer", 9);
  assert_int_equal(poll_all(&message, 1), 1);
  assert_int_equal(message.kind, PST_COMPLETION_MESSAGE);
}

static void a_flush_waits_for_writes_to_be_placed(void **state)
{
  struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 7};
  struct ucx_header flushed = {.kind = UCX_FLUSHED};

  (void)state;
  assert_int_equal(post(access_of(PST_OP_WRITE, 10, 1)), 1);
  fake_end(fake_message(UCX_WRITE, 0), UCS_OK);
  assert_int_equal(post(flush), 1);
  assert_int_equal(poll_one().u.done.cookie, 1001);
  assert_int_equal(fake_message(UCX_FLUSH, 0)->header.writes, 1);
  deliver(flushed, NULL, 0);
  assert_nothing_is_done();
  flushed.sequence = 1;
  deliver(flushed, NULL, 0);
  assert_int_equal(poll_one().u.done.cookie, 7);
}

/* Parts that wait for room are in it. */
static void a_flush_is_of_all_parts(void **state)
{
  const struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 7};

  (void)state;
  fixture.endpoint->link->part_max = 100;
  assert_int_equal(post(access_of(PST_OP_WRITE, 100 * (UCX_WINDOW + 3), 1)), 1);
  assert_int_equal(post(access_of(PST_OP_WRITE, 1, 2)), -EAGAIN);
  assert_int_equal(post(flush), 1);
  assert_int_equal(fake_messages(UCX_WRITE), UCX_WINDOW);
  assert_int_equal(fake_message(UCX_FLUSH, 0)->header.writes, UCX_WINDOW + 3);
}

/* UCX's put goes its own way: nothing orders it behind messages. */
static void a_put_behind_a_fence_waits_for_writes_to_be_placed(void **state)
{
  struct pst_remote *gpu = open_remote(AT, REMOTE_BYTES);
  struct pst_request put = access_of(PST_OP_WRITE, 10, 2);
  const struct ucx_header flushed = {.kind = UCX_FLUSHED, .sequence = 1};

  (void)state;
  gpu->by_cpu = false;
  put.flags = PST_REQUEST_FENCE;
  put.u.rma.remote = gpu;
  assert_int_equal(post(access_of(PST_OP_WRITE, 10, 1)), 1);
  assert_int_equal(post(put), 1);
  assert_nothing_is_done();
  assert_int_equal(fake_count(FAKE_PUT), 0);
  assert_int_equal(fake_message(UCX_FLUSH, 0)->header.writes, 1);
  deliver(flushed, NULL, 0);
  assert_nothing_is_done();
  assert_int_equal(fake_count(FAKE_PUT), 1);
  ucx_remote_close(fixture.endpoint, gpu);
}

static void a_peers_flush_is_answered_behind_its_writes(void **state)
{
  const struct ucx_header flush = {.kind = UCX_FLUSH, .writes = 1};
  const struct ucx_header write = {.kind = UCX_WRITE, .sequence = address_of(0)};

  (void)state;
  deliver(flush, NULL, 0);
  assert_nothing_is_done();
  assert_int_equal(fake_messages(UCX_FLUSHED), 0);
  deliver(write, "x", 1);
  assert_nothing_is_done();
  assert_int_equal(fake_message(UCX_FLUSHED, 0)->header.sequence, 1);
}

static void a_read_is_scattered_as_it_comes(void **state)
{
  struct pst_request request = access_of(PST_OP_READ, 30, 1);
  const struct pst_piece pieces[] = {{fixture.source, 100, 10, 0}, {fixture.source, 300, 20, 0}};
  struct ucx_header data = {.kind = UCX_DATA, .offset = 5};

  (void)state;
  request.piece_count = 2;
  request.local.pieces = pieces;
  assert_int_equal(post(request), 1);
  assert_int_equal(fake_count(FAKE_GET), 0);
  struct fake_request *ask = fake_message(UCX_READ, 0);
  fake_end(ask, UCS_OK);
  assert_int_equal(ask->header.sequence, AT + 64);
  assert_int_equal(ask->header.length, 30);
  data.position = ask->header.position;
  deliver(data, "fghijklmnopqrstuvwxyzABCD", 25);
  assert_nothing_is_done();
  data.offset = 0;
  deliver(data, "abcde", 5);
  assert_int_equal(poll_one().u.done.cookie, 1001);
  assert_memory_equal(fixture.bytes + 100, "abcdefghij", 10);
  assert_memory_equal(fixture.bytes + 300, "klmnopqrstuvwxyzABCD", 20);
}

/* Its memory is the host's again when it is done, whatever comes. */
static void an_answer_that_comes_late_writes_nothing(void **state)
{
  struct ucx_header data = {.kind = UCX_DATA};

  (void)state;
  assert_int_equal(post(access_of(PST_OP_READ, 4, 1)), 1);
  data.position = fake_message(UCX_READ, 0)->header.position;
  ucx_rma_fail(fixture.endpoint, -ECANCELED);
  assert_int_equal(poll_one().status, -ECANCELED);
  deliver(data, "late", 4);
  assert_int_equal(fixture.bytes[0], 0);
  assert_nothing_is_done();
  /* Nor may it be taken for another. */
  assert_int_equal(post(access_of(PST_OP_READ, 4, 2)), 1);
  deliver(data, "late", 4);
  assert_int_equal(fixture.bytes[0], 0);
  assert_nothing_is_done();
}

static void an_answer_of_more_than_was_asked_is_refused(void **state)
{
  struct ucx_header data = {.kind = UCX_DATA, .offset = UINT64_MAX};

  (void)state;
  assert_int_equal(post(access_of(PST_OP_READ, 4, 1)), 1);
  data.position = fake_message(UCX_READ, 0)->header.position;
  deliver(data, "far", 3);
  assert_true(is_lost_with(-EPROTO));
}

static void at_most_so_many_reads_are_under_way(void **state)
{
  struct ucx_header data = {.kind = UCX_DATA};

  (void)state;
  _Static_assert(REQUESTS > UCX_ASKED_MAX, "more than may be under way");
  for (uint32_t i = 0; i < UCX_ASKED_MAX; i++) {
    assert_int_equal(post(access_of(PST_OP_READ, 1, i)), 1);
    fake_end(fake_message(UCX_READ, i), UCS_OK);
  }
  assert_int_equal(post(access_of(PST_OP_READ, 1, 99)), -EAGAIN);
  data.position = fake_message(UCX_READ, 0)->header.position;
  deliver(data, "x", 1);
  assert_int_equal(post(access_of(PST_OP_READ, 1, 99)), 1);
}

static void a_peers_read_is_answered_in_parts(void **state)
{
  const uint64_t most = fixture.endpoint->link->part_max;
  const struct ucx_header ask = {.kind = UCX_READ,
                                 .position = 77,
                                 .length = (uint32_t)(2 * most + 5),
                                 .sequence = address_of(3)};

  (void)state;
  deliver(ask, NULL, 0);
  assert_nothing_is_done();
  assert_int_equal(fake_messages(UCX_DATA), 3);
  for (uint32_t i = 0; i < 3; i++) {
    const struct fake_request *part = fake_message(UCX_DATA, i);
    assert_int_equal(part->header.position, 77);
    assert_int_equal(part->header.offset, i * most);
    assert_memory_equal(part->bytes, fixture.bytes + 3 + i * most, part->length);
  }
  assert_int_equal(fake_message(UCX_DATA, 2)->length, 5);
}

static void a_peers_read_sees_writes_before_it(void **state)
{
  const struct ucx_header ask = {
      .kind = UCX_READ, .length = 4, .sequence = address_of(0), .writes = 1};
  const struct ucx_header write = {.kind = UCX_WRITE, .sequence = address_of(0)};

  (void)state;
  deliver(ask, NULL, 0);
  assert_nothing_is_done();
  assert_int_equal(fake_messages(UCX_DATA), 0);
  deliver(write, "new.", 4);
  assert_nothing_is_done();
  assert_memory_equal(fake_message(UCX_DATA, 0)->bytes, "new.", 4);
}

static void atomics_are_the_owners(void **state)
{
  struct ucx_header ask = {.kind = UCX_ATOMIC, .sequence = address_of(8), .meta = 2};
  uint64_t now = 40;

  (void)state;
  memcpy(fixture.bytes + 8, &now, 8);
  deliver(ask, NULL, 0);
  ask.flags = UCX_HEADER_SWAP;
  ask.offset = 41;
  deliver(ask, NULL, 0);
  ask.offset = 42;
  ask.meta = 7;
  deliver(ask, NULL, 0);
  assert_nothing_is_done();
  assert_int_equal(fake_message(UCX_FOUND, 0)->header.meta, 40);
  assert_int_equal(fake_message(UCX_FOUND, 1)->header.meta, 42);
  assert_int_equal(fake_message(UCX_FOUND, 2)->header.meta, 42);
  memcpy(&now, fixture.bytes + 8, 8);
  assert_int_equal(now, 7);
}

static void an_atomic_of_ours_gets_what_was_found(void **state)
{
  struct pst_request request = {.opcode = PST_OP_COMPARE_SWAP,
                                .local.mr = fixture.source,
                                .offset = 16,
                                .arg.compare = 5,
                                .cookie = 9,
                                .u.atomic = {.remote = remote, .offset = 8, .operand = 6}};
  struct ucx_header found = {.kind = UCX_FOUND, .meta = 1234};
  uint64_t now;

  (void)state;
  assert_int_equal(post(request), 1);
  assert_int_equal(fake_count(FAKE_ATOMIC), 0);
  const struct ucx_header *ask = &fake_message(UCX_ATOMIC, 0)->header;
  assert_int_equal(ask->sequence, AT + 8);
  assert_int_equal(ask->meta, 6);
  assert_int_equal(ask->offset, 5);
  assert_int_equal(ask->flags, UCX_HEADER_SWAP);
  found.position = ask->position;
  deliver(found, NULL, 0);
  assert_int_equal(poll_one().u.done.cookie, 9);
  memcpy(&now, fixture.bytes + 16, 8);
  assert_int_equal(now, 1234);
}

static void refuses(struct ucx_header header, uint64_t address)
{
  close_all(NULL);
  open_all(NULL);
  header.sequence = address_of(address);
  deliver(header, fixture.bytes, header.kind == UCX_WRITE ? 16 : 0);
  struct pst_completion gone;
  assert_int_equal(poll_all(&gone, 1), 1);
  assert_int_equal(gone.code, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -EPROTO);
}

/* 1 MiB is registered. */
static void memory_that_is_not_registered_is_out_of_reach(void **state)
{
  (void)state;
  for (uint8_t kind = UCX_WRITE; kind <= UCX_ATOMIC; kind++) {
    const struct ucx_header header = {.kind = kind, .length = kind == UCX_READ ? 16 : 0};
    if (kind == UCX_DATA)
      continue;
    refuses(header, (1u << 20) - (kind == UCX_ATOMIC ? 0 : 15));
    refuses(header, UINT64_MAX - 7);
  }
  refuses((struct ucx_header){.kind = UCX_ATOMIC}, 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_bytes_all_is_done_at_once, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_write_is_cut_and_does_without_puts, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_notification_goes_at_once, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_message_waits_for_writes_before_it, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_flush_waits_for_writes_to_be_placed, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_flush_is_of_all_parts, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_put_behind_a_fence_waits_for_writes_to_be_placed, open_all,
                                      close_all),
      cmocka_unit_test_setup_teardown(a_peers_flush_is_answered_behind_its_writes, open_all,
                                      close_all),
      cmocka_unit_test_setup_teardown(a_read_is_scattered_as_it_comes, open_all, close_all),
      cmocka_unit_test_setup_teardown(an_answer_that_comes_late_writes_nothing, open_all,
                                      close_all),
      cmocka_unit_test_setup_teardown(an_answer_of_more_than_was_asked_is_refused, open_all,
                                      close_all),
      cmocka_unit_test_setup_teardown(at_most_so_many_reads_are_under_way, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_peers_read_is_answered_in_parts, open_all, close_all),
      cmocka_unit_test_setup_teardown(a_peers_read_sees_writes_before_it, open_all, close_all),
      cmocka_unit_test_setup_teardown(atomics_are_the_owners, open_all, close_all),
      cmocka_unit_test_setup_teardown(an_atomic_of_ours_gets_what_was_found, open_all, close_all),
      cmocka_unit_test_setup_teardown(memory_that_is_not_registered_is_out_of_reach, open_all,
                                      close_all),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
