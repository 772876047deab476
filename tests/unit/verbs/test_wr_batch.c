/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of plain requests: what of them is built, and at which request a row ends. */
#include <endian.h>

#include "request.h"
#include "support.h"

#define ROW 7u
#define FROM UINT64_C(0xfffffffe) /* its index in the send queue; wr_id has 32 bits of it */
#define BEFORE 0xfffffffdu        /* requests that were posted */
#define INITIAL UINT64_C(0xfffffffd)
#define SEQUENCE UINT64_C(0x500000000)

static struct pst_request requests[ROW];
static struct pst_mr other;
static uint64_t built_to; /* the next one's index */

/* Requests of 100 bytes, one behind the other, and a credit for each. */
static void begin(uint8_t opcode)
{
  static const uint32_t granted[] = {5, 2, 7, 0, 1, 6, 3, 4};

  start_support(1);
  tx.initial = INITIAL;
  endpoint.sq.head = endpoint.sq.done = endpoint.sq.told = FROM;
  tx.credits.head = tx.credits.tail = UINT32_MAX - 2; /* its counts pass 32 bits, too */
  built_to = FROM;
  for (uint32_t i = 0; i < SLOTS; i++)
    add_credit(granted[i]);
  other = memory;
  other.verbs.address = 2 * MEMORY;
  other.lkey = 79;
  for (uint32_t i = 0; i < ROW; i++) {
    requests[i] = (struct pst_request){.opcode = opcode,
                                       .local.mr = &memory,
                                       .offset = UINT64_C(100) * i,
                                       .arg.length = 100,
                                       .cookie = 900 + i};
    if (opcode == PST_OP_SEND)
      requests[i].u.send.sequence = SEQUENCE + i;
    else
      requests[i].u.rma = (struct pst_rma_target){.remote = &remote, .offset = 1000 + 100 * i};
  }
}

static void begin_sends(void)
{
  begin(PST_OP_SEND);
}

static void begin_writes(void)
{
  begin(PST_OP_WRITE);
}

static uint32_t build(uint32_t n)
{
  built_to = FROM;
  return vb_build_row(&endpoint, &built_to, BEFORE, requests, n);
}

static const struct ibv_send_wr *wr_of(uint32_t i)
{
  return &endpoint.sq.wrs[(FROM + i) & endpoint.sq.mask];
}

static void expect_built(uint32_t i)
{
  const struct ibv_send_wr *wr = wr_of(i);
  const struct vb_sent *sent = &endpoint.sq.sent[(FROM + i) & endpoint.sq.mask];

  assert_int_equal(wr->wr_id, WR_ID | (uint32_t)(FROM + i));
  assert_int_equal(wr->num_sge, 1);
  assert_int_equal(wr->sg_list->addr, MEMORY + UINT64_C(100) * i);
  assert_int_equal(wr->sg_list->length, 100);
  assert_int_equal(wr->sg_list->lkey, memory.lkey);
  assert_int_equal(sent->cookie, 900 + i);
  assert_int_equal(sent->opcode, requests[i].opcode);
  assert_int_equal(sent->count, 1);
  assert_int_equal(sent->upto, BEFORE + i + 1);
}

static void sends_go_into_the_granted_slots(void **state)
{
  static const uint32_t slots[ROW] = {5, 2, 7, 0, 1, 6, 3};

  (void)state;
  begin_sends();
  assert_int_equal(build(ROW), ROW);
  for (uint32_t i = 0; i < ROW; i++) {
    const struct ibv_send_wr *wr = wr_of(i);
    expect_built(i);
    assert_int_equal(wr->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(be32toh(wr->imm_data), (uint32_t)(INITIAL + i));
    assert_int_equal(wr->wr.rdma.remote_addr, REMOTE + slots[i] * tx.stride);
    assert_int_equal(wr->wr.rdma.rkey, 86);
  }
  assert_int_equal(tx.credits.count, SLOTS - ROW);
  assert_int_equal(tx.messages, ROW);
  assert_int_equal(tx.bytes, 100 * ROW);
  assert_int_equal(posted_count, 0); /* that is post.c's */
}

static void one_of_a_quarter_is_signalled(void **state)
{
  for (int turn = 0; turn < 2; turn++) {
    begin(turn ? PST_OP_WRITE : PST_OP_SEND);
    assert_int_equal(build(ROW), ROW);
    for (uint32_t i = 0; i < ROW; i++)
      assert_int_equal(wr_of(i)->send_flags, (FROM + i) % 4 == 0 ? IBV_SEND_SIGNALED : 0);
    stop_support(state);
  }
}

static void small_ones_of_cpu_memory_are_inline(void **state)
{
  for (int turn = 0; turn < 2; turn++) {
    begin(turn ? PST_OP_WRITE : PST_OP_SEND);
    other.is_cpu_readable = false;
    requests[0].arg.length = INLINE;
    requests[1].arg.length = INLINE + 1;
    requests[2].arg.length = 0;
    requests[3].arg.length = 1;
    requests[3].local.mr = &other; /* looked at anew, as is the one behind it */
    requests[4].arg.length = 1;
    assert_int_equal(build(5), 5);
    for (uint32_t i = 0; i < 5; i++)
      assert_int_equal(wr_of(i)->send_flags & IBV_SEND_INLINE,
                       i == 0 || i == 4 ? IBV_SEND_INLINE : 0);
    assert_int_equal(wr_of(2)->num_sge, 0);
    assert_int_equal(wr_of(3)->sg_list->addr, other.verbs.address + 300);
    assert_int_equal(wr_of(3)->sg_list->lkey, 79);
    assert_int_equal(wr_of(4)->sg_list->addr, MEMORY + 400);
    assert_int_equal(wr_of(4)->sg_list->lkey, 77);
    stop_support(state);
  }
}

static void whose_bytes_they_are_makes_no_difference(void **state)
{
  (void)state;
  begin_sends();
  requests[0].flags = requests[2].flags = PST_REQUEST_EXCLUSIVE;
  assert_int_equal(build(ROW), ROW);
}

static void credit_bounds_a_row(void **state)
{
  (void)state;
  begin_sends();
  while (tx.credits.count > 3)
    vb_slot_fifo_get(&tx.credits);
  assert_int_equal(build(ROW), 3);
  assert_int_equal(tx.credits.count, 0);
  assert_int_equal(build(ROW), 0);
  assert_int_equal(tx.messages, 3);
  endpoint.tx = NULL;
  assert_int_equal(build(ROW), 0);
}

/* The first and the third request of a row in turn. */
#define EXPECT_END(begin_row, spoil)                                                               \
  for (uint32_t at = 0; at < 3; at += 2) {                                                         \
    begin_row();                                                                                   \
    struct pst_request *r = &requests[at];                                                         \
    spoil;                                                                                         \
    if (build(ROW) != at)                                                                          \
      fail_msg("the row does not end at request %u: %s", at, #spoil);                              \
    assert_int_equal(tx.messages + tx.bytes, r->opcode == PST_OP_WRITE ? 0 : at * 101);            \
    assert_int_equal(tx.credits.count, SLOTS - tx.messages);                                       \
  }

static void sends_that_are_not_plain_end_a_row(void **state)
{
  (void)state;
  EXPECT_END(begin_sends, r->flags = PST_REQUEST_FENCE);
  EXPECT_END(begin_sends, r->flags = PST_REQUEST_EXCLUSIVE | 0x80);
  EXPECT_END(begin_sends, r->reserved0 = 1);
  EXPECT_END(begin_sends, r->piece_count = 1);
  EXPECT_END(begin_sends, r->u.send.departure_ns = 1);
}

static void ranges_of_sends_are_checked(void **state)
{
  (void)state;
  begin_sends();
  requests[0].arg.length = tx.message_max;
  requests[1].offset = LENGTH;
  requests[1].arg.length = 0;
  requests[2].offset = LENGTH - 100;
  assert_int_equal(build(3), 3);
  EXPECT_END(begin_sends, r->arg.length = tx.message_max + 1);
  EXPECT_END(begin_sends, r->offset = LENGTH - 99);
  EXPECT_END(begin_sends, (r->offset = LENGTH + 1, r->arg.length = 0));
  EXPECT_END(begin_sends, r->offset = UINT64_MAX - 50);
  EXPECT_END(begin_sends, r->local.mr = NULL);
  EXPECT_END(begin_sends, (other.domain = &(struct vb_domain){0}, r->local.mr = &other));
  EXPECT_END(begin_sends, (other.access = PST_ACCESS_LOCAL_WRITE, r->local.mr = &other));
}

static void writes_go_to_the_remote_range(void **state)
{
  (void)state;
  begin_writes();
  assert_int_equal(build(ROW), ROW);
  for (uint32_t i = 0; i < ROW; i++) {
    expect_built(i);
    assert_int_equal(wr_of(i)->opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(wr_of(i)->wr.rdma.remote_addr, REMOTE + 1000 + UINT64_C(100) * i);
    assert_int_equal(wr_of(i)->wr.rdma.rkey, 87);
  }
  assert_int_equal(tx.messages, 0);
  assert_int_equal(tx.credits.count, SLOTS);
  assert_int_equal(endpoint.rma_before, FROM + ROW);
  assert_ptr_equal(endpoint.written, &remote);
  assert_ptr_equal(endpoint.unflushed, &remote);
}

static void writes_that_are_not_plain_end_a_row(void **state)
{
  static struct pst_remote another;

  (void)state;
  EXPECT_END(begin_writes, r->flags = PST_REQUEST_FENCE);
  EXPECT_END(begin_writes, r->flags = PST_REQUEST_EXCLUSIVE);
  EXPECT_END(begin_writes, r->piece_count = 1);
  EXPECT_END(begin_writes, r->u.rma.reserved = 1);
  EXPECT_END(begin_writes, r->offset = LENGTH - 99);
  EXPECT_END(begin_writes, r->local.mr = NULL);
  EXPECT_END(begin_writes, r->u.rma.remote = NULL);
  begin_writes();
  another = remote;
  requests[2].u.rma.remote = &another; /* begins the next row */
  assert_int_equal(build(ROW), 2);
  assert_int_equal(endpoint.rma_before, FROM + 2);
  built_to = FROM + 2;
  assert_int_equal(vb_build_row(&endpoint, &built_to, 0, requests + 2, 1), 1);
  assert_ptr_equal(endpoint.written, &another);
}

static void remote_ranges_are_checked(void **state)
{
  (void)state;
  begin_writes();
  requests[0].u.rma.offset = LENGTH - 100;
  requests[1].u.rma.offset = LENGTH;
  requests[1].arg.length = 0;
  requests[2].offset = requests[2].u.rma.offset = 0;
  requests[2].arg.length = device.message_max;
  assert_int_equal(build(3), 3);
  EXPECT_END(begin_writes, r->u.rma.offset = LENGTH - 99);
  EXPECT_END(begin_writes, (r->u.rma.offset = LENGTH + 1, r->arg.length = 0));
  EXPECT_END(begin_writes, r->u.rma.offset = UINT64_MAX - 50);
  EXPECT_END(begin_writes, r->arg.length = device.message_max + 1);
}

static void writes_need_rights(void **state)
{
  (void)state;
  begin_writes();
  remote.access &= ~(uint32_t)PST_ACCESS_REMOTE_WRITE;
  assert_int_equal(build(ROW), 0);
  begin_writes();
  endpoint.roles &= ~(uint32_t)PST_ROLE_RMA;
  assert_int_equal(build(ROW), 0);
  begin_writes();
  remote.endpoint = NULL;
  assert_int_equal(build(ROW), 0);
  assert_null(endpoint.written);
  assert_int_equal(endpoint.rma_before, 0);
}

static void rows_have_one_opcode(void **state)
{
  (void)state;
  begin_sends();
  requests[2].opcode = PST_OP_WRITE;
  requests[2].u.rma = (struct pst_rma_target){.remote = &remote};
  assert_int_equal(build(ROW), 2);
  begin_writes();
  requests[2].opcode = PST_OP_SEND;
  assert_int_equal(build(ROW), 2);
  begin_writes();
  requests[0].opcode = PST_OP_READ;
  assert_int_equal(build(ROW), 0);
}

/* A row of another opcode than what is in front of it begins anew what is alike. */
static void what_is_alike_begins_with_another_opcode(void **state)
{
  (void)state;
  begin_sends();
  endpoint.sq.alike_from = 1;
  endpoint.sq.sent[(FROM - 1) & endpoint.sq.mask].opcode = PST_OP_SEND;
  assert_int_equal(build(ROW), ROW);
  assert_int_equal(endpoint.sq.alike_from, 1);
  endpoint.sq.sent[(FROM - 1) & endpoint.sq.mask].opcode = PST_OP_WRITE;
  requests[0].piece_count = 1;
  assert_int_equal(build(ROW), 0);
  assert_int_equal(endpoint.sq.alike_from, 1);
  requests[0].piece_count = 0;
  assert_int_equal(build(1), 1);
  assert_int_equal(endpoint.sq.alike_from, FROM);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

#define STRIDE 512u
#define LONG (STRIDE - STRIDE / 8) /* the shortest that makes a run */

/* Messages in consecutive slots of both ends. */
static void begin_run(void)
{
  begin(PST_OP_SEND);
  while (tx.credits.count)
    vb_slot_fifo_get(&tx.credits);
  vb_slot_fifo_put(&tx.credits, 0, SLOTS);
  tx.message_max = STRIDE;
  tx.run_max = 32;
  tx.run_length_min = LONG;
  for (uint32_t i = 0; i < ROW; i++) {
    requests[i].offset = UINT64_C(512) * i;
    requests[i].arg.length = LONG;
  }
}

/* The counts of the work requests, as digits: "7", "124". */
static void expect_runs(const char *expected)
{
  char text[2 * ROW] = "";
  uint32_t n = 0, slot = 0;

  assert_int_equal(build(ROW), ROW);
  for (uint32_t i = 0; FROM + i != built_to; i++) {
    const struct ibv_send_wr *wr = wr_of(i);
    const struct vb_sent *sent = &endpoint.sq.sent[(FROM + i) & endpoint.sq.mask];
    text[i] = (char)('0' + sent->count);
    assert_int_equal(wr->num_sge, 1);
    assert_int_equal(wr->sg_list->addr, MEMORY + requests[n].offset);
    assert_int_equal(wr->sg_list->length, (sent->count - 1) * STRIDE + requests[n].arg.length);
    assert_int_equal(be32toh(wr->imm_data), (uint32_t)(tx.initial + requests[n].u.send.sequence));
    assert_int_equal(wr->wr.rdma.remote_addr, REMOTE + slot * STRIDE);
    n += sent->count;
    slot += sent->count;
    assert_int_equal(sent->upto, BEFORE + n);
    assert_int_equal(sent->cookie, 900 + n - 1);
  }
  assert_string_equal(text, expected);
  assert_int_equal(n, ROW);
  assert_int_equal(tx.messages, ROW);
}

static void messages_that_follow_one_another_are_one_write(void **state)
{
  (void)state;
  begin_run();
  expect_runs("7");
  assert_int_equal(tx.credits.count, 1);
  assert_int_equal(vb_slot_fifo_get(&tx.credits), 7);
  assert_int_equal(tx.bytes, ROW * LONG);
}

#define EXPECT_RUNS(expected, spoil)                                                               \
  do {                                                                                             \
    begin_run();                                                                                   \
    struct pst_request *r = &requests[2];                                                          \
    (void)r;                                                                                       \
    spoil;                                                                                         \
    expect_runs(expected);                                                                         \
    stop_support(NULL);                                                                            \
  } while (0)

static void what_is_not_alike_ends_a_run(void **state)
{
  (void)state;
  other = memory;
  other.verbs.address = MEMORY; /* as another registration of the same bytes */
  EXPECT_RUNS("25", r->flags = PST_REQUEST_EXCLUSIVE;
              for (int i = 3; i < 7; i++) requests[i].flags = PST_REQUEST_EXCLUSIVE);
  EXPECT_RUNS("214", r->arg.length++);
  EXPECT_RUNS("214", r->offset++);
  EXPECT_RUNS("214", r->u.send.sequence += 100);
  EXPECT_RUNS("214", (other.verbs.address = MEMORY, r->local.mr = &other));
  EXPECT_RUNS("3211", tx.run_max = 3; requests[5].offset--);
  EXPECT_RUNS("1111111", tx.run_length_min = UINT64_MAX);
  EXPECT_RUNS("1111111", tx.run_length_min++);
}

#define MANY 24u /* of which eight are looked at at once */

/* Of MANY messages that follow one another all but the one at `at` are alike. */
static void begin_many(struct pst_request *many, uint32_t at, int how)
{
  begin_run();
  free(tx.credits.at);
  assert_int_equal(vb_slot_fifo_open(&tx.credits, MANY), 0);
  vb_slot_fifo_put(&tx.credits, 0, MANY);
  memory.length = other.length = (uint64_t)MANY * STRIDE;
  other.verbs.address = MEMORY;
  for (uint32_t i = 0; i < MANY; i++) {
    many[i] = requests[0];
    many[i].offset = (uint64_t)i * STRIDE;
    many[i].u.send.sequence = SEQUENCE + i;
  }
  switch (how) {
  case 0:
    many[at].u.send.sequence += 1;
    break;
  case 1:
    many[at].offset -= 1;
    break;
  case 2:
    many[at].arg.length += 1;
    break;
  case 3:
    many[at].local.mr = &other;
    break;
  case 4:
    many[at].flags = PST_REQUEST_EXCLUSIVE;
    break;
  case 5:
    many[at].u.send.sequence = SEQUENCE; /* the first one's again */
    break;
  default:
    many[at].u.send.departure_ns = UINT64_C(1) << 63;
  }
}

static void a_run_ends_before_each_message_that_is_not_alike(void **state)
{
  struct pst_request many[MANY];

  (void)state;
  for (int how = 0; how < 7; how++)
    for (uint32_t at = 1; at < MANY; at++) {
      begin_many(many, at, how);
      built_to = FROM;
      vb_build_row(&endpoint, &built_to, BEFORE, many, MANY);
      if (endpoint.sq.sent[FROM & endpoint.sq.mask].count != at)
        fail_msg("%u before message %u, spoilt as %d",
                 endpoint.sq.sent[FROM & endpoint.sq.mask].count, at, how);
      stop_support(NULL);
    }
}

static void runs_end_with_the_slots_of_the_peer(void **state)
{
  (void)state;
  begin_run();
  tx.credits.head = tx.credits.tail;
  tx.credits.count = 0;
  vb_slot_fifo_put(&tx.credits, 4, 3);
  vb_slot_fifo_put(&tx.credits, 7, 1); /* of the same run */
  vb_slot_fifo_put(&tx.credits, 0, 4);
  assert_int_equal(build(ROW), ROW);
  assert_int_equal(built_to, FROM + 2);
  assert_int_equal(wr_of(0)->wr.rdma.remote_addr, REMOTE + 4 * STRIDE);
  assert_int_equal(endpoint.sq.sent[FROM & endpoint.sq.mask].count, 4);
  assert_int_equal(wr_of(1)->wr.rdma.remote_addr, REMOTE);
  assert_int_equal(tx.credits.count, 1);
}

static void runs_end_with_a_turn(void **state)
{
  (void)state;
  EXPECT_RUNS("3121", endpoint.lane_count = 2; tx.turn = 4; tx.messages = 0; requests[3].offset--;
              requests[6].offset--);
  EXPECT_RUNS("43", endpoint.lane_count = 2; tx.turn = 4);
}

/* The last slot ends with the memory: what is behind it is no part of the run. */
static void runs_end_with_the_memory(void **state)
{
  (void)state;
  EXPECT_RUNS("7", memory.length = 6 * STRIDE + LONG);
  begin_run();
  memory.length = 6 * STRIDE + LONG - 1;
  assert_int_equal(build(ROW), 6);
  assert_int_equal(endpoint.sq.sent[FROM & endpoint.sq.mask].count, 6);
}

static void long_messages_go_by_themselves(void **state)
{
  (void)state;
  assert_int_equal(vb_run_max(64), 32);
  assert_int_equal(vb_run_max(1472), 32);
  assert_int_equal(vb_run_max(4096), 16);
  assert_int_equal(vb_run_max(32769), 1);
  assert_int_equal(vb_run_max(UINT64_C(1) << 40), 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(sends_go_into_the_granted_slots),
      CASE(one_of_a_quarter_is_signalled),
      CASE(small_ones_of_cpu_memory_are_inline),
      CASE(whose_bytes_they_are_makes_no_difference),
      CASE(credit_bounds_a_row),
      CASE(sends_that_are_not_plain_end_a_row),
      CASE(ranges_of_sends_are_checked),
      CASE(writes_go_to_the_remote_range),
      CASE(writes_that_are_not_plain_end_a_row),
      CASE(remote_ranges_are_checked),
      CASE(writes_need_rights),
      CASE(rows_have_one_opcode),
      CASE(what_is_alike_begins_with_another_opcode),
      CASE(messages_that_follow_one_another_are_one_write),
      CASE(what_is_not_alike_ends_a_run),
      CASE(a_run_ends_before_each_message_that_is_not_alike),
      CASE(runs_end_with_the_slots_of_the_peer),
      CASE(runs_end_with_a_turn),
      CASE(runs_end_with_the_memory),
      CASE(long_messages_go_by_themselves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
