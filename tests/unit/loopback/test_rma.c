/* SPDX-License-Identifier: Apache-2.0 */
/* READ, WRITE and atomics by the CPU: ranges, rights, and who is inside of the peer's memory. */
#include "support.h"

static uint8_t far_bytes[MEMORY] __attribute__((aligned(8)));
static struct pst_mr *far_mr, *near_mr;
static struct pst_remote *far;

static int open_far(void **state)
{
  struct pst_region region = {.struct_size = sizeof(region), .host = far_bytes, .length = MEMORY};
  reset(state);
  for (uint32_t i = 0; i < MEMORY; i++)
    far_bytes[i] = (uint8_t)(i * 7);
  setup_rma(&fake_host);
  far_mr = register_region(&region, LB_REMOTE_ACCESS);
  region.host = rig.source;
  near_mr = register_region(&region, PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE);
  far = reach(far_mr);
  return 0;
}

static int close_far(void **state)
{
  lb_mr_deregister(rig.device, far_mr);
  lb_mr_deregister(rig.device, near_mr);
  return teardown(state);
}

static struct pst_request rma(uint8_t opcode, uint64_t near, uint64_t offset, uint64_t length)
{
  return (struct pst_request){.opcode = opcode,
                              .local.mr = near_mr,
                              .offset = near,
                              .arg.length = length,
                              .cookie = 5,
                              .u.rma = {.remote = far, .offset = offset}};
}

static int run(const struct pst_request *request)
{
  last_wait = PST_WAIT_NONE;
  return lb_post(rig.sender, request, 1, &last_wait);
}

static void read_and_write_move_their_bytes_alone(void **state)
{
  struct pst_request request = rma(PST_OP_READ, 10, 20, 33);

  (void)state;
  memset(rig.source, 0xee, MEMORY);
  assert_int_equal(run(&request), 1);
  assert_int_equal(rig.source[9], 0xee);
  assert_memory_equal(rig.source + 10, far_bytes + 20, 33);
  assert_int_equal(rig.source[43], 0xee);
  request = rma(PST_OP_WRITE, 100, MEMORY - 3, 3);
  assert_int_equal(run(&request), 1);
  assert_int_equal(far_bytes[MEMORY - 4], (uint8_t)((MEMORY - 4) * 7));
  assert_int_equal(far_bytes[MEMORY - 3], 0xee);
  assert_int_equal(far_bytes[MEMORY - 1], 0xee);
  assert_int_equal(poll_all(), 2);
  assert_int_equal(polled[0].code, PST_OP_READ);
  assert_int_equal(polled[1].code, PST_OP_WRITE);
}

static void pieces_lie_side_by_side_at_the_peer(void **state)
{
  const struct pst_piece pieces[] = {{near_mr, 50, 3, 0}, {near_mr, 7, 0, 0}, {near_mr, 9, 4, 0}};
  struct pst_request request = rma(PST_OP_WRITE, 0, 1000, 7);

  (void)state;
  for (uint32_t i = 0; i < 64; i++)
    rig.source[i] = (uint8_t)(100 + i);
  request.piece_count = 3;
  request.local.pieces = pieces;
  assert_int_equal(run(&request), 1);
  assert_memory_equal(far_bytes + 1000, rig.source + 50, 3);
  assert_memory_equal(far_bytes + 1003, rig.source + 9, 4);
  assert_int_equal(far_bytes[1007], (uint8_t)(1007 * 7));
}

static void ranges_end_where_their_registrations_end(void **state)
{
  const struct pst_request wrong_far[] = {rma(PST_OP_READ, 0, MEMORY, 1),
                                          rma(PST_OP_READ, 0, MEMORY - 1, 2),
                                          rma(PST_OP_READ, 0, UINT64_MAX, 2)};
  const struct pst_request wrong_near[] = {rma(PST_OP_READ, MEMORY, 0, 1),
                                           rma(PST_OP_READ, MEMORY - 1, 0, 2),
                                           rma(PST_OP_READ, UINT64_MAX, 0, 2)};

  (void)state;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(run(&wrong_far[i]), -EACCES);
    assert_int_equal(run(&wrong_near[i]), -EINVAL);
  }
  assert_int_equal(poll_all(), 0);
}

static void rights_are_those_of_the_registrations(void **state)
{
  struct pst_request request = rma(PST_OP_WRITE, 0, 0, 8);

  (void)state;
  request.local.mr = rig.into; /* LOCAL_WRITE */
  assert_int_equal(run(&request), -EINVAL);
  request = rma(PST_OP_READ, 0, 0, 8);
  request.local.mr = rig.from; /* LOCAL_READ */
  assert_int_equal(run(&request), -EINVAL);
  far->access = PST_ACCESS_REMOTE_WRITE;
  far->plain = 0;
  request = rma(PST_OP_READ, 0, 0, 8);
  assert_int_equal(run(&request), -EACCES);
  request = rma(PST_OP_WRITE, 0, 0, 8);
  assert_int_equal(run(&request), 1);
  request.u.rma.reserved = 1;
  assert_int_equal(run(&request), -EINVAL);
  request = rma(PST_OP_WRITE, 0, 0, 8);
  request.flags = PST_REQUEST_EXCLUSIVE;
  assert_int_equal(run(&request), -EINVAL);
  request = rma(PST_OP_WRITE, 0, 0, 8);
  request.u.rma.remote = NULL;
  assert_int_equal(run(&request), -EINVAL);
}

static void handle_is_of_one_endpoint(void **state)
{
  const struct pst_request request = rma(PST_OP_WRITE, 0, 0, 8);

  (void)state;
  assert_int_equal(lb_post(rig.receiver, &request, 1, &last_wait), -EINVAL);
}

static void good_ones_before_a_wrong_one_are_taken(void **state)
{
  const struct pst_request requests[] = {rma(PST_OP_WRITE, 0, 0, 8), rma(PST_OP_WRITE, 0, 8, 8),
                                         rma(PST_OP_WRITE, 0, MEMORY, 8)};
  const struct pst_completion *done;

  (void)state;
  assert_int_equal(lb_post(rig.sender, requests, 3, &last_wait), 2);
  poll_all();
  done = find(PST_COMPLETION_DONE, PST_OP_WRITE);
  assert_non_null(done);
  assert_int_equal(done->u.done.count, 2);
}

static void nobody_is_inside_after_a_post(void **state)
{
  const struct pst_request requests[] = {rma(PST_OP_WRITE, 0, 0, 8), rma(PST_OP_READ, 0, 8, 8),
                                         rma(PST_OP_WRITE, 0, MEMORY, 8)};

  (void)state;
  assert_int_equal(lb_post(rig.sender, requests, 3, &last_wait), 2);
  assert_int_equal(far->own_seat.inside, 0);
  assert_int_equal(far->gate->inside, 0);
}

static void withdrawn_memory_is_refused(void **state)
{
  const struct pst_request request = rma(PST_OP_WRITE, 0, 0, 8), none = rma(PST_OP_WRITE, 0, 0, 0);

  (void)state;
  lb_mr_deregister(rig.device, far_mr);
  far_mr = NULL;
  memset(rig.source, 0xee, 8);
  assert_int_equal(run(&request), -EACCES);
  assert_int_equal(run(&none), -EACCES);
  assert_int_equal(far_bytes[0], 0);
}

static void one_that_may_complete_needs_no_done(void **state)
{
  const struct pst_request write = rma(PST_OP_WRITE, 0, 0, 8);

  (void)state;
  last_wait = PST_POST_MAY_COMPLETE;
  assert_int_equal(lb_post(rig.sender, &write, 1, &last_wait), 1);
  assert_int_equal(last_wait, PST_POST_COMPLETED);
  assert_int_equal(rig.sender->dones.outstanding, 0);
  assert_int_equal(run(&write), 1);
  last_wait = PST_POST_MAY_COMPLETE; /* but not before one that has a DONE */
  assert_int_equal(lb_post(rig.sender, &write, 1, &last_wait), 1);
  assert_int_not_equal(last_wait, PST_POST_COMPLETED);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].u.done.count, 2);
}

static struct pst_request atomic_of(uint8_t opcode, uint64_t offset, uint64_t compare,
                                    uint64_t operand)
{
  return (struct pst_request){.opcode = opcode,
                              .local.mr = near_mr,
                              .offset = 64,
                              .arg.compare = compare,
                              .u.atomic = {.remote = far, .offset = offset, .operand = operand}};
}

static void atomics_give_what_was_there(void **state)
{
  uint64_t *word = (uint64_t *)(void *)(far_bytes + 16), found;
  struct pst_request request = atomic_of(PST_OP_FETCH_ADD, 16, 0, 5);

  (void)state;
  *word = 100;
  assert_int_equal(run(&request), 1);
  memcpy(&found, rig.source + 64, sizeof(found));
  assert_int_equal(found, 100);
  assert_int_equal(*word, 105);
  request = atomic_of(PST_OP_COMPARE_SWAP, 16, 100, 1);
  assert_int_equal(run(&request), 1);
  memcpy(&found, rig.source + 64, sizeof(found));
  assert_int_equal(found, 105);
  assert_int_equal(*word, 105);
  request.arg.compare = 105;
  assert_int_equal(run(&request), 1);
  assert_int_equal(*word, 1);
  request = atomic_of(PST_OP_FETCH_ADD, 12, 0, 5);
  assert_int_equal(run(&request), -EINVAL);
  request = atomic_of(PST_OP_FETCH_ADD, MEMORY, 0, 5);
  assert_int_equal(run(&request), -EACCES);
  far->base = NULL;
  request = atomic_of(PST_OP_FETCH_ADD, 16, 0, 5);
  assert_int_equal(run(&request), -EOPNOTSUPP);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_far, close_far)
  const struct CMUnitTest tests[] = {
      CASE(read_and_write_move_their_bytes_alone),
      CASE(pieces_lie_side_by_side_at_the_peer),
      CASE(ranges_end_where_their_registrations_end),
      CASE(rights_are_those_of_the_registrations),
      CASE(handle_is_of_one_endpoint),
      CASE(good_ones_before_a_wrong_one_are_taken),
      CASE(nobody_is_inside_after_a_post),
      CASE(withdrawn_memory_is_refused),
      CASE(one_that_may_complete_needs_no_done),
      CASE(atomics_give_what_was_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
