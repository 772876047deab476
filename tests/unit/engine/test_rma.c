/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of operations, by a transport that takes what the test says. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/rma.h"

#define POSTED_MAX 4096

static struct {
  struct pst_request requests[POSTED_MAX];
  struct pst_piece pieces[POSTED_MAX][8];
  uint32_t count, calls;
  uint32_t room; /* of the next post */
  int rc;        /* of the next post; 0: takes */
} wire;
static uint32_t ended[POSTED_MAX], ended_count;

static int fake_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                     uint32_t *wait)
{
  uint32_t taken = n < wire.room ? n : wire.room;

  (void)endpoint, (void)wait;
  wire.calls++;
  if (wire.rc)
    return wire.rc;
  for (uint32_t i = 0; i < taken; i++) {
    wire.requests[wire.count] = requests[i];
    if (requests[i].piece_count)
      memcpy(wire.pieces[wire.count], requests[i].local.pieces,
             requests[i].piece_count * sizeof(struct pst_piece));
    wire.count++;
  }
  wire.room -= taken;
  return taken ? (int)taken : -EAGAIN;
}

static int refused(void *context, int rc)
{
  (void)context;
  return rc == -ECONNRESET ? 0 : rc;
}

static bool on_end(void *context, uint32_t slot)
{
  (void)context;
  ended[ended_count++] = slot;
  return false;
}

static const struct pst_transport_ops ops = {.post = fake_post};
static struct rma rma;

static int set_up(void **state)
{
  (void)state;
  memset(&wire, 0, sizeof(wire));
  wire.room = UINT32_MAX;
  ended_count = 0;
  rma = (struct rma){.ops = &ops,
                     .refused = refused,
                     .end = on_end,
                     .max = 100,
                     .operations = rma_operations(PST_CAP_WRITE | PST_CAP_READ),
                     .depth = 8,
                     .pieces = 8,
                     .request_pieces = 8};
  return rma_open(&rma);
}

static int tear_down(void **state)
{
  (void)state;
  rma_close(&rma);
  return 0;
}

static struct rma_work write_of(uint64_t length, uint64_t cookie)
{
  return (struct rma_work){.op = PST_OP_WRITE, .cookie = cookie, .length = length};
}

static bool done(uint8_t op, uint64_t cookie, uint64_t count, int status)
{
  struct pst_completion completion = {
      .kind = PST_COMPLETION_DONE, .code = op, .status = status, .u.done = {cookie, count}};
  return rma_done(&rma, &completion);
}

static uint32_t post(const struct rma_work *work, int *rc)
{
  uint32_t slot;

  *rc = 0;
  return rma_post(&rma, work, 1, &slot, rc);
}

/* Every byte once, in order, though pieces and requests are cut at different places. */
static void pieces_are_cut_where_requests_are(void **state)
{
  const uint64_t lengths[] = {30, 0, 170, 1, 99, 250};
  struct pst_piece pieces[6];
  uint64_t total = 0, at = 0, in_piece = 0;
  uint32_t piece = 0;
  int rc;

  (void)state;
  for (uint32_t i = 0; i < 6; i++) {
    pieces[i] = (struct pst_piece){.offset = 1000 * (i + 1), .length = lengths[i]};
    total += lengths[i];
  }
  struct rma_work work = {.op = PST_OP_READ,
                          .cookie = 5,
                          .pieces = pieces,
                          .piece_count = 6,
                          .remote_offset = 7,
                          .length = total};
  wire.room = 2;
  assert_int_equal(post(&work, &rc), 1);
  memset(pieces, 0, sizeof(pieces)); /* the caller's again */
  while (!rma_push(&rma))
    wire.room = 1;
  for (uint32_t r = 0; r < wire.count; r++) {
    const struct pst_request *request = &wire.requests[r];
    uint64_t sum = 0;
    assert_int_equal(request->u.rma.offset, 7 + at);
    assert_int_equal(request->offset, 0);
    assert_true(request->arg.length <= 100);
    for (uint32_t i = 0; i < request->piece_count; i++) {
      const struct pst_piece *cut = &wire.pieces[r][i];
      sum += cut->length;
      if (cut->length == 0)
        continue;
      while (in_piece == lengths[piece])
        piece++, in_piece = 0;
      assert_int_equal(cut->offset, 1000 * (piece + 1) + in_piece);
      assert_true(in_piece + cut->length <= lengths[piece]);
      in_piece += cut->length;
    }
    assert_int_equal(sum, request->arg.length);
    at += sum;
  }
  assert_int_equal(at, total);
  for (uint32_t r = 0; r < wire.count; r++)
    assert_true(done(PST_OP_READ, wire.requests[r].cookie, 1, 0));
  assert_int_equal(ended_count, 1);
}

/* Lists of more pieces than a request has: none is lost, empty ones are left out, and as many
 * requests go by one call as are taken. */
static void lists_are_cut_where_they_are_too_long(void **state)
{
  const uint64_t lengths[] = {0, 5, 6, 7, 0, 120, 9, 1};
  struct pst_piece pieces[8];
  uint64_t at = 0, in_piece = 0;
  uint32_t piece = 0;
  int rc;

  (void)state;
  rma.request_pieces = 2;
  for (uint32_t i = 0; i < 8; i++)
    pieces[i] = (struct pst_piece){.offset = 1000 * i, .length = lengths[i]};
  struct rma_work work = {
      .op = PST_OP_WRITE, .cookie = 5, .pieces = pieces, .piece_count = 8, .length = 148};
  wire.room = 2;
  assert_int_equal(post(&work, &rc), 1);
  assert_int_equal(wire.count, 2);
  assert_false(rma_push(&rma));
  wire.room = 8;
  assert_true(rma_push(&rma));
  assert_int_equal(wire.calls, 3); /* one of them without room */
  for (uint32_t r = 0; r < wire.count; r++) {
    const struct pst_request *request = &wire.requests[r];
    uint64_t sum = 0;
    assert_in_range(request->piece_count, 1, 2);
    assert_int_equal(request->u.rma.offset, at);
    for (uint32_t i = 0; i < request->piece_count; i++) {
      const struct pst_piece *cut = &wire.pieces[r][i];
      while (in_piece == lengths[piece])
        piece++, in_piece = 0;
      assert_int_equal(cut->offset, 1000 * piece + in_piece);
      assert_true(cut->length && in_piece + cut->length <= lengths[piece]);
      in_piece += cut->length;
      sum += cut->length;
    }
    assert_int_equal(sum, request->arg.length);
    at += sum;
  }
  assert_int_equal(at, 148);
  assert_int_equal(wire.count, 4); /* 5+6, 7+93, 27+9, 1 */
  const uint64_t slot = wire.requests[0].cookie;
  assert_true(done(PST_OP_WRITE, slot, 2, 0));
  assert_true(done(PST_OP_WRITE, slot, 1, -EACCES));
  assert_int_equal(ended_count, 0);
  assert_true(done(PST_OP_WRITE, slot, 1, -ECONNRESET));
  assert_int_equal(ended_count, 1);
  assert_int_equal(rma.slots[rma_take_ended(&rma)].status, -EACCES);
}

static void one_done_covers_many_writes(void **state)
{
  int rc;

  (void)state;
  for (uint32_t i = 0; i < 3; i++) {
    struct rma_work work = write_of(i == 1 ? 250 : 10, i);
    assert_int_equal(post(&work, &rc), 1);
  }
  assert_int_equal(wire.count, 5);
  /* The first, and two of three parts. */
  assert_true(done(PST_OP_WRITE, wire.requests[2].cookie, 3, 0));
  assert_int_equal(ended_count, 1);
  assert_true(done(PST_OP_WRITE, wire.requests[4].cookie, 2, -EIO));
  assert_int_equal(ended_count, 3);
  const int status[] = {0, -EIO, -EIO};
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t slot = rma_take_ended(&rma);
    assert_int_equal(rma.slots[slot].cookie, i);
    assert_int_equal(rma.slots[slot].status, status[i]);
  }
  assert_int_equal(rma_take_ended(&rma), RMA_NO_SLOT);
  assert_int_equal(rma.requests, 0);
}

/* None of them ends anything. */
static void wrong_dones_are_noticed(void **state)
{
  struct rma_work work = write_of(10, 1);
  int rc;

  (void)state;
  assert_false(done(PST_OP_WRITE, 0, 1, 0));
  assert_false(done(PST_OP_READ, 0, 1, 0));
  assert_false(done(PST_OP_READ, 1000, 1, 0));
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(post(&work, &rc), 1);
  const uint64_t first = wire.requests[0].cookie, second = wire.requests[1].cookie;
  assert_false(done(PST_OP_WRITE, first, 0, 0));
  assert_false(done(PST_OP_WRITE, first, 2, 0));
  assert_false(done(PST_OP_WRITE, second, 1, 0)); /* not the oldest */
  assert_false(done(PST_OP_WRITE, second, 3, 0));
  assert_false(done(PST_OP_WRITE, wire.requests[2].cookie, 4, 0));
  assert_false(done(PST_OP_WRITE, RMA_NO_SLOT, 4, 0));
  assert_int_equal(ended_count, 0);
  assert_true(done(PST_OP_WRITE, second, 2, 0));
  assert_false(done(PST_OP_WRITE, second, 1, 0));
  assert_int_equal(ended_count, 2);
}

/* A slot that was free between goes to the end of the row of WRITEs. */
static void writes_end_in_post_order(void **state)
{
  struct rma_work work = write_of(10, 0), read = {.op = PST_OP_READ, .length = 10};
  int rc;

  (void)state;
  for (uint32_t i = 0; i < 100; i++) {
    work.cookie = i;
    assert_int_equal(post(&work, &rc), 1);
    assert_int_equal(post(&read, &rc), 1);
    assert_int_equal(post(&work, &rc), 1);
    const struct pst_request *posted = &wire.requests[wire.count - 3];
    if (i % 2)
      assert_true(done(PST_OP_READ, posted[1].cookie, 1, 0));
    assert_true(done(PST_OP_WRITE, posted[0].cookie, i ? 2 : 1, 0));
    if (i % 2 == 0)
      assert_true(done(PST_OP_READ, posted[1].cookie, 1, 0));
    for (uint32_t slot; (slot = rma_take_ended(&rma)) != RMA_NO_SLOT;)
      assert_true(rma.slots[slot].cookie == i || rma.slots[slot].cookie + 1 == i ||
                  rma.slots[slot].op == PST_OP_READ);
  }
  assert_int_equal(ended_count, 299);
  assert_int_equal(rma.requests, 1);
}

/* READs keep slots, so that WRITEs are in others each time. */
static void writes_are_found_in_whatever_slots(void **state)
{
  const struct rma_work read = {.op = PST_OP_READ, .cookie = 1, .length = 10};
  const struct rma_work write = write_of(10, 2);
  int rc;

  (void)state;
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(post(&read, &rc), 1);
    assert_int_equal(post(&write, &rc), 1);
    assert_int_equal(post(&write, &rc), 1);
    const struct pst_request *const newest = &wire.requests[wire.count - 1];
    assert_int_not_equal(newest[-1].cookie, 0); /* the first READ's */
    ended_count = 0;
    assert_true(done(PST_OP_WRITE, newest->cookie, 2, 0));
    assert_int_equal(ended_count, 2);
    assert_int_equal(ended[0], newest[-1].cookie);
    assert_int_equal(ended[1], newest->cookie);
    assert_int_equal(rma_take_ended(&rma), newest[-1].cookie);
    assert_int_equal(rma_take_ended(&rma), newest->cookie);
  }
}

/* Refused, in the middle of one that was cut too: nothing is under way that was not taken. */
static void refusals_leave_nothing_behind(void **state)
{
  struct rma_work work = write_of(10, 1), cut = write_of(1000, 2);
  int rc;

  (void)state;
  wire.rc = -EACCES;
  assert_int_equal(post(&work, &rc), 0);
  assert_int_equal(rc, -EACCES);
  assert_int_equal(post(&cut, &rc), 0);
  assert_int_equal(rc, -EACCES);
  wire.rc = -ECONNRESET;
  assert_int_equal(post(&work, &rc), 0);
  assert_int_equal(rc, 0);
  wire.rc = 0;
  wire.room = 0;
  assert_int_equal(post(&cut, &rc), 0);
  assert_int_equal(rc, 0);
  assert_int_equal(rma.free_count, 8);
  assert_int_equal(rma.requests, 0);
  wire.room = 3;
  assert_int_equal(post(&cut, &rc), 1);
  wire.rc = -EACCES;
  assert_true(rma_push(&rma));
  assert_int_equal(ended_count, 0);
  assert_true(done(PST_OP_WRITE, wire.requests[2].cookie, 3, 0));
  assert_int_equal(ended_count, 1);
  assert_int_equal(rma.slots[rma_take_ended(&rma)].status, -EACCES);
}

static void abandoned_ones_end_once(void **state)
{
  struct rma_work work = write_of(10, 1), cut = write_of(10000, 2);
  int rc;

  (void)state;
  assert_int_equal(post(&work, &rc), 1);
  assert_int_equal(post(&cut, &rc), 1);
  assert_int_equal(rma.requests, 8);
  rma_abandon(&rma, -ECONNRESET);
  assert_int_equal(ended_count, 2);
  assert_int_equal(rma.requests, 0);
  while (rma_take_ended(&rma) != RMA_NO_SLOT)
    ;
  assert_int_equal(rma.free_count, 8);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(pieces_are_cut_where_requests_are, set_up, tear_down),
      cmocka_unit_test_setup_teardown(lists_are_cut_where_they_are_too_long, set_up, tear_down),
      cmocka_unit_test_setup_teardown(one_done_covers_many_writes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(wrong_dones_are_noticed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(writes_end_in_post_order, set_up, tear_down),
      cmocka_unit_test_setup_teardown(writes_are_found_in_whatever_slots, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refusals_leave_nothing_behind, set_up, tear_down),
      cmocka_unit_test_setup_teardown(abandoned_ones_end_once, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
