/* SPDX-License-Identifier: Apache-2.0 */
/* vb_post(): what goes to the device in which order, how many it takes, and why not more. */
#include <endian.h>

#include "ops.h"
#include "poll.h"
#include "request.h"
#include "support.h"

#define MOST (QUEUE / 2) /* requests that the endpoint may have outstanding */
#define UNTOUCHED 99u    /* *wait, where vb_post() leaves it alone */

static struct pst_request requests[MOST + 1];
static struct pst_remote other;
static struct ibv_mr scratch_mr = {.lkey = 66};
static uint8_t scratch[VB_SCRATCH_BYTES];
static uint32_t wait;
static int refusal;

static int refuses(const struct pst_endpoint *of)
{
  (void)of;
  return refusal;
}

static int begin(void **state)
{
  (void)state;
  start_support(1);
  worker.scratch = scratch;
  worker.scratch_mr = &scratch_mr;
  other = remote;
  other.address += LENGTH;
  other.rkey = 97;
  other.flush_rkey = 98;
  for (uint32_t i = 0; i < SLOTS; i++)
    add_credit(i);
  wait = UNTOUCHED;
  return 0;
}

/* Request `i` has cookie 900 + i and 100 bytes. */
static struct pst_request *set(uint32_t i, uint8_t opcode)
{
  struct pst_request *request = &requests[i];

  *request = (struct pst_request){.opcode = opcode,
                                  .local.mr = &memory,
                                  .offset = UINT64_C(100) * i,
                                  .arg.length = 100,
                                  .cookie = 900 + i};
  if (opcode == PST_OP_SEND)
    request->u.send.sequence = i;
  else if (opcode == PST_OP_FETCH_ADD || opcode == PST_OP_COMPARE_SWAP)
    request->u.atomic = (struct pst_atomic_target){.remote = &remote, .offset = 16};
  else if (opcode == PST_OP_FLUSH)
    *request = (struct pst_request){.opcode = opcode, .cookie = 900 + i};
  else
    request->u.rma = (struct pst_rma_target){.remote = &remote, .offset = 1000 + 100 * i};
  return request;
}

static void set_all(uint32_t n, uint8_t opcode)
{
  for (uint32_t i = 0; i < n; i++)
    set(i, opcode);
}

static int post(uint32_t n)
{
  wait = UNTOUCHED;
  return vb_post(&endpoint, requests, n, &wait);
}

static void write_two_ranges(void)
{
  set_all(2, PST_OP_WRITE);
  requests[1].u.rma.remote = &other;
}

/* Nothing went, and the endpoint stands as before. */
static void expect_nothing(void)
{
  assert_int_equal(posted_count, 0);
  assert_int_equal(endpoint.sq.head, 0);
  assert_int_equal(endpoint.sq.posted, 0);
  assert_int_equal(tx.credits.count, SLOTS);
}

static void requests_go_by_one_call_in_their_order(void **state)
{
  (void)state;
  set_all(3, PST_OP_SEND);
  set(1, PST_OP_SEND)->flags = PST_REQUEST_FENCE; /* no row has it */
  assert_int_equal(post(3), 3);
  assert_int_equal(wait, PST_WAIT_NONE);
  assert_int_equal(posted_count, 3);
  assert_int_equal(post_calls, 1);
  for (uint32_t i = 0; i < 3; i++) {
    const struct ibv_send_wr *wr = &posted[i].wr;
    assert_int_equal(wr->wr_id, WR_ID | i);
    assert_int_equal(wr->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
    assert_int_equal(be32toh(wr->imm_data), i);
    assert_int_equal(wr->wr.rdma.remote_addr, REMOTE + i * tx.stride);
    assert_int_equal(wr->wr.rdma.rkey, 86);
    assert_int_equal(wr->sg_list->addr, MEMORY + UINT64_C(100) * i);
    assert_int_equal(endpoint.sq.sent[i].cookie, 900 + i);
    assert_int_equal(endpoint.sq.sent[i].upto, i + 1);
    assert_int_equal(endpoint.sq.sent[i].count, 1);
    assert_int_equal(endpoint.sq.sent[i].opcode, PST_OP_SEND);
  }
  assert_int_equal(posted[1].wr.send_flags & IBV_SEND_FENCE, IBV_SEND_FENCE);
  assert_int_equal(posted[2].wr.send_flags & IBV_SEND_FENCE, 0);
  assert_int_equal(endpoint.sq.head, 3);
  assert_int_equal(endpoint.sq.posted, 3);
  assert_int_equal(tx.credits.count, SLOTS - 3);
  assert_int_equal(tx.messages, 3);
  assert_int_equal(tx.bytes, 300);
}

/* Without a completion of the last one no DONE would come. */
static void the_last_one_is_signalled(void **state)
{
  static const uint8_t opcodes[] = {PST_OP_SEND, PST_OP_WRITE, PST_OP_READ};

  for (uint32_t turn = 0; turn < 3; turn++) {
    begin(state);
    set_all(7, opcodes[turn]);
    assert_int_equal(post(7), 7);
    for (uint32_t i = 0; i < 7; i++) /* and one in a quarter of the queue */
      assert_int_equal(posted[i].wr.send_flags & IBV_SEND_SIGNALED,
                       i == 6 || i % 4 == 0 ? IBV_SEND_SIGNALED : 0);
    stop_support(state);
  }
  begin(state);
}

static void the_queue_bounds_a_post(void **state)
{
  (void)state;
  set_all(MOST + 1, PST_OP_WRITE);
  assert_int_equal(post(MOST + 1), MOST);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(endpoint.want, VB_WANT_QUEUE);
  assert_int_equal(posted[MOST - 1].wr.send_flags & IBV_SEND_SIGNALED, IBV_SEND_SIGNALED);
  for (uint32_t n = 1; n < 3; n++) {
    assert_int_equal(post(n), -EAGAIN);
    assert_int_equal(wait, PST_WAIT_QUEUE);
  }
  assert_int_equal(posted_count, MOST);
  endpoint.sq.posted_max += 2; /* two are done */
  endpoint.sq.told = endpoint.sq.done = 2;
  assert_int_equal(post(3), 2);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(endpoint.sq.posted, MOST + 2);
}

static void a_full_queue_takes_no_lone_write(void **state)
{
  (void)state;
  set_all(MOST, PST_OP_WRITE);
  assert_int_equal(post(MOST), MOST);
  assert_int_equal(endpoint.want, VB_WANT_NOTHING);
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(posted_count, MOST);
}

static void credit_bounds_a_post(void **state)
{
  (void)state;
  set_all(4, PST_OP_SEND);
  tx.credits.count = tx.credits.at[tx.credits.tail & tx.credits.mask].count = 2;
  assert_int_equal(post(4), 2);
  assert_int_equal(wait, PST_WAIT_CREDIT);
  assert_int_equal(endpoint.want, VB_WANT_CREDIT);
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_CREDIT);
  assert_int_equal(posted_count, 2);
  set(0, PST_OP_WRITE); /* needs none */
  assert_int_equal(post(1), 1);
  assert_int_equal(wait, PST_WAIT_NONE);
  assert_int_equal(endpoint.want, VB_WANT_NOTHING);
}

/* Credit that comes would help nobody while the queue is full. */
static void a_full_queue_is_named_before_credit(void **state)
{
  (void)state;
  set_all(MOST + 1, PST_OP_SEND);
  assert_int_equal(post(MOST), MOST);
  assert_int_equal(tx.credits.count, 0);
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
}

static void one_that_cannot_be_taken_ends_a_post(void **state)
{
  (void)state;
  for (uint32_t turn = 0; turn < 2; turn++) {
    begin(state);
    set_all(3, turn ? PST_OP_WRITE : PST_OP_SEND);
    requests[1].offset = LENGTH;
    assert_int_equal(post(3), 1);
    assert_int_equal(wait, PST_WAIT_NONE);
    assert_int_equal(endpoint.want, VB_WANT_NOTHING);
    assert_int_equal(posted_count, 1);
    assert_int_equal(endpoint.sq.posted, 1);
    requests[0] = requests[1];
    assert_int_equal(post(1), -EINVAL);
    assert_int_equal(wait, UNTOUCHED);
    assert_int_equal(posted_count, 1);
    stop_support(state);
  }
  begin(state);
}

/* As if it were alone: `rc`, and 0 where one is taken. */
#define EXPECT(op, rc, change)                                                                     \
  do {                                                                                             \
    begin(state);                                                                                  \
    struct pst_request *r = set(0, op);                                                            \
    (void)r;                                                                                       \
    change;                                                                                        \
    assert_int_equal(post(1), (rc) == 0 ? 1 : (rc));                                               \
    if ((rc) < 0) {                                                                                \
      assert_int_equal(wait, UNTOUCHED);                                                           \
      expect_nothing();                                                                            \
    }                                                                                              \
    assert_int_equal(failed_status, 0);                                                            \
    stop_support(state);                                                                           \
  } while (0)

static void requests_are_checked(void **state)
{
  static const struct pst_piece pieces[PIECES + 1] = {{&memory, 0, 50, 0}, {&memory, 60, 50, 0}};

  stop_support(state);
  EXPECT(PST_OP_SEND, 0, (void)0);
  EXPECT(PST_OP_SEND, 0, r->flags = PST_REQUEST_EXCLUSIVE);
  EXPECT(PST_OP_SEND, -EINVAL, r->flags = 0x80);
  EXPECT(PST_OP_SEND, -EINVAL, r->reserved0 = 1);
  EXPECT(PST_OP_SEND, -EINVAL, r->u.send.departure_ns = 1);
  EXPECT(PST_OP_SEND, -EMSGSIZE, r->arg.length = tx.message_max + 1);
  EXPECT(PST_OP_SEND, 0, r->arg.length = tx.message_max);
  EXPECT(PST_OP_SEND, -EINVAL, r->local.mr = NULL);
  EXPECT(PST_OP_SEND, -EINVAL, memory.access = PST_ACCESS_LOCAL_WRITE);
  EXPECT(PST_OP_SEND, -EINVAL, memory.domain = NULL);
  EXPECT(PST_OP_SEND, 0, (r->local.pieces = pieces, r->piece_count = 2));
  EXPECT(PST_OP_SEND, -E2BIG, (r->local.pieces = pieces, r->piece_count = PIECES + 1));
  EXPECT(PST_OP_SEND, -EINVAL, endpoint.tx = NULL);
  EXPECT(0, -EINVAL, (void)0);
  EXPECT(0xff, -EINVAL, (void)0);
  EXPECT(PST_OP_FLUSH, -EINVAL, r->u.rma.remote = (other.endpoint = NULL, &other));
  EXPECT(PST_OP_FETCH_ADD, 0, (void)0);
  EXPECT(PST_OP_FETCH_ADD, -EINVAL, r->flags = 0x80);
  EXPECT(PST_OP_COMPARE_SWAP, -EINVAL, r->reserved0 = 1);
  EXPECT(PST_OP_READ, 0, (void)0);
  EXPECT(PST_OP_READ, -EACCES, remote.access = PST_ACCESS_REMOTE_WRITE);
  EXPECT(PST_OP_READ, -EINVAL, endpoint.sq.requests_max = 0); /* it receives alone */
  begin(state);
}

/* One WRITE goes by a way of its own, which judges as the other does. */
static void a_lone_write_is_checked(void **state)
{
  stop_support(state);
  EXPECT(PST_OP_WRITE, 0, (void)0);
  EXPECT(PST_OP_WRITE, -EINVAL, r->flags = 0x80);
  EXPECT(PST_OP_WRITE, -EINVAL, r->flags = PST_REQUEST_EXCLUSIVE);
  EXPECT(PST_OP_WRITE, -EINVAL, r->reserved0 = 1);
  EXPECT(PST_OP_WRITE, -EINVAL, r->u.rma.reserved = 1);
  EXPECT(PST_OP_WRITE, -EINVAL, r->u.rma.remote = NULL);
  EXPECT(PST_OP_WRITE, -EINVAL, remote.endpoint = NULL);
  EXPECT(PST_OP_WRITE, -EACCES, remote.access = PST_ACCESS_REMOTE_READ);
  EXPECT(PST_OP_WRITE, -EINVAL, r->local.mr = NULL);
  EXPECT(PST_OP_WRITE, -EINVAL, memory.domain = NULL);
  EXPECT(PST_OP_WRITE, -EINVAL, memory.access = PST_ACCESS_LOCAL_WRITE);
  EXPECT(PST_OP_WRITE, -EINVAL, endpoint.roles = PST_ROLE_SENDER);
  EXPECT(PST_OP_WRITE, 0, r->offset = LENGTH - 100);
  EXPECT(PST_OP_WRITE, -EINVAL, r->offset = LENGTH - 99);
  EXPECT(PST_OP_WRITE, -EINVAL, r->offset = UINT64_MAX - 50);
  EXPECT(PST_OP_WRITE, 0, r->u.rma.offset = LENGTH - 100);
  EXPECT(PST_OP_WRITE, -EACCES, r->u.rma.offset = LENGTH - 99);
  EXPECT(PST_OP_WRITE, -EACCES, r->u.rma.offset = UINT64_MAX - 50);
  EXPECT(PST_OP_WRITE, 0, r->arg.length = device.message_max);
  EXPECT(PST_OP_WRITE, -EMSGSIZE, r->arg.length = device.message_max + 1);
  EXPECT(PST_OP_WRITE, 0, r->arg.length = 0);
  begin(state);
}

static void a_lone_write_is_built(void **state)
{
  static const uint32_t lengths[] = {100, INLINE, INLINE};
  static const uint32_t flags[] = {IBV_SEND_SIGNALED, IBV_SEND_SIGNALED | IBV_SEND_INLINE,
                                   IBV_SEND_SIGNALED};

  (void)state;
  endpoint.sq.head = endpoint.sq.done = endpoint.sq.told = UINT64_C(0xfffffffff);
  endpoint.sq.posted = UINT32_MAX;
  endpoint.sq.posted_max = MOST - 1;
  for (uint32_t i = 0; i < 3; i++) {
    const uint64_t index = UINT64_C(0xfffffffff) + i;
    const struct vb_sent *sent = &endpoint.sq.sent[index & endpoint.sq.mask];
    const struct ibv_send_wr *wr = &posted[i].wr;
    memory.is_cpu_readable = i != 2;
    set(0, PST_OP_WRITE)->arg.length = lengths[i];
    requests[0].cookie = 50 + i;
    assert_int_equal(post(1), 1);
    assert_int_equal(posted_count, i + 1);
    assert_int_equal(wr->wr_id, WR_ID | (uint32_t)index);
    assert_int_equal(wr->opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(wr->send_flags, flags[i]);
    assert_int_equal(wr->wr.rdma.remote_addr, REMOTE + 1000);
    assert_int_equal(wr->wr.rdma.rkey, 87);
    assert_int_equal(wr->num_sge, 1);
    assert_int_equal(wr->sg_list->addr, MEMORY);
    assert_int_equal(wr->sg_list->length, lengths[i]);
    assert_int_equal(wr->sg_list->lkey, 77);
    assert_int_equal(sent->cookie, 50 + i);
    assert_int_equal(sent->upto, i);
    assert_int_equal(sent->count, 1);
    assert_int_equal(sent->opcode, PST_OP_WRITE);
    assert_int_equal(endpoint.sq.head, index + 1);
    assert_int_equal(endpoint.sq.posted, i);
    assert_int_equal(endpoint.rma_before, index + 1);
  }
  assert_int_equal(endpoint.sq.alike_from, UINT64_C(0xfffffffff));
  assert_ptr_equal(endpoint.written, &remote);
  assert_ptr_equal(endpoint.unflushed, &remote);
  requests[0].u.rma.remote = &other; /* is to be read by a FLUSH, too */
  assert_int_equal(post(1), 1);
  assert_int_equal(posted[3].wr.wr.rdma.rkey, 97);
  assert_ptr_equal(endpoint.written, &other);
  assert_ptr_equal(endpoint.unflushed, &other);
}

/* To a device a piece of no bytes may be one of 2^31. */
static void a_lone_write_without_bytes_has_no_piece(void **state)
{
  (void)state;
  set(0, PST_OP_WRITE)->arg.length = 0;
  requests[0].local.mr = NULL;
  assert_int_equal(post(1), 1);
  requests[0].local.mr = &memory;
  assert_int_equal(post(1), 1);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(posted[i].wr.num_sge, 0);
    assert_int_equal(posted[i].wr.send_flags, IBV_SEND_SIGNALED);
  }
}

/* Work requests are a chain that is built once; a post cuts it behind its last. */
static void the_chain_is_whole_again(void **state)
{
  (void)state;
  set_all(3, PST_OP_WRITE);
  assert_int_equal(post(1), 1);
  assert_null(posted[0].wr.next);
  assert_int_equal(post(3), 3);
  assert_null(posted[3].wr.next);
  posts_left = 0;
  assert_int_equal(post(1), -ECONNRESET);
  for (uint32_t i = 0; i < QUEUE; i++)
    assert_ptr_equal(endpoint.sq.wrs[i].next, &endpoint.sq.wrs[(i + 1) % QUEUE]);
}

static void what_is_alike_begins_with_another_opcode(void **state)
{
  (void)state;
  set(0, PST_OP_SEND);
  set(1, PST_OP_READ);
  set(2, PST_OP_READ);
  assert_int_equal(post(3), 3);
  assert_int_equal(endpoint.sq.alike_from, 1);
  assert_int_equal(endpoint.rma_before, 3);
  set(0, PST_OP_SEND);
  assert_int_equal(post(1), 1);
  assert_int_equal(endpoint.rma_before, 3);
  assert_int_equal(endpoint.sq.alike_from, 3);
}

/* ---- When nothing goes ---------------------------------------------------------------------- */

static void an_endpoint_that_is_not_connected_says_why(void **state)
{
  int (*const before)(const struct pst_endpoint *) = transport.refuses;

  (void)state;
  transport.refuses = refuses;
  set_all(1, PST_OP_WRITE);
  endpoint.is_connected = false;
  refusal = -ECONNRESET;
  const int failed = post(1);
  assert_int_equal(wait, UNTOUCHED);
  assert_int_equal(endpoint.want, VB_WANT_NOTHING);
  refusal = -EAGAIN; /* it connects anew */
  const int later = post(1);
  transport.refuses = before;
  assert_int_equal(failed, -ECONNRESET);
  assert_int_equal(later, -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(endpoint.want, VB_WANT_QUEUE);
  expect_nothing();
}

static void nothing_goes_before_connected_is_polled_or_while_it_closes(void **state)
{
  (void)state;
  for (uint32_t n = 0; n < 3; n++) {
    set_all(2, PST_OP_WRITE);
    endpoint.tell_connected = true;
    assert_int_equal(post(n), -ENOTCONN);
    endpoint.tell_connected = false;
    endpoint.closing.mode = PST_CLOSE_DRAIN;
    assert_int_equal(post(n), -ENOTCONN);
    endpoint.closing.mode = 0;
  }
  expect_nothing();
  assert_int_equal(post(0), 0);
  assert_int_equal(post(1), 1);
}

static void a_post_forgets_the_room_that_the_one_before_wanted(void **state)
{
  (void)state;
  set_all(MOST + 1, PST_OP_WRITE);
  assert_int_equal(post(MOST + 1), MOST);
  endpoint.sq.posted_max += 2;
  vb_tell_room(&endpoint);
  assert_int_equal(worker.told, 1);
  assert_int_equal(post(1), 1);
  assert_int_equal(worker.told, 0);
  assert_int_equal(endpoint.want, VB_WANT_NOTHING);
  assert_int_equal(post(1), 1); /* the short way once more */
}

/* ---- The device refuses --------------------------------------------------------------------- */

static void a_device_that_takes_some_breaks_the_connection(void **state)
{
  (void)state;
  set_all(3, PST_OP_READ);
  posts_left = 2;
  assert_int_equal(post(3), 2);
  assert_int_equal(endpoint.sq.head, 2);
  assert_int_equal(endpoint.sq.posted, 2);
  assert_int_equal(failed_status, -ENOBUFS);
  assert_string_equal(failed_why, "ibv_post_send");
  assert_true(endpoint.is_refused);
  assert_int_equal(post(1), -ECONNRESET);
}

/* A FLUSH is not tried behind what did not go. */
static void nothing_follows_what_did_not_go(void **state)
{
  (void)state;
  write_two_ranges();
  set(2, PST_OP_FLUSH);
  posts_left = 1;
  assert_int_equal(post(3), 1);
  assert_int_equal(post_calls, 1);
  assert_int_equal(endpoint.sq.posted, 1);
  assert_int_equal(failed_status, -ENOBUFS);
}

/* With runs there are more requests than work requests. */
static void what_the_device_took_are_requests(void **state)
{
  (void)state;
  set_all(5, PST_OP_SEND);
  for (uint32_t i = 0; i < 5; i++) {
    requests[i].offset = tx.stride * (i + (i > 2)); /* three in a row, and two */
    requests[i].arg.length = 250;
  }
  tx.run_max = 8;
  tx.run_length_min = 240;
  posts_left = 1;
  assert_int_equal(post(5), 3);
  assert_int_equal(posted_count, 1);
  assert_int_equal(endpoint.sq.head, 1);
  assert_int_equal(endpoint.sq.posted, 3);
  assert_int_equal(failed_status, -ENOBUFS);
}

static void a_device_that_takes_none_breaks_the_connection(void **state)
{
  for (uint32_t n = 1; n < 3; n++) {
    begin(state);
    set_all(n, PST_OP_WRITE);
    posts_left = 0;
    assert_int_equal(post(n), -ECONNRESET);
    assert_int_equal(endpoint.sq.head, 0);
    assert_int_equal(endpoint.sq.posted, 0);
    assert_int_equal(failed_status, -ENOMEM);
    assert_string_equal(failed_why, "ibv_post_send");
    assert_true(endpoint.is_refused);
    stop_support(state);
  }
  begin(state);
}

/* ---- Before a FLUSH or a fence -------------------------------------------------------------- */

static void a_flush_reads_the_other_ranges_before_it(void **state)
{
  (void)state;
  write_two_ranges();
  set(2, PST_OP_FLUSH);
  set(3, PST_OP_SEND);
  assert_int_equal(post(4), 4);
  assert_int_equal(wait, PST_WAIT_NONE);
  assert_int_equal(posted_count, 5);
  assert_int_equal(posted[1].wr.opcode, IBV_WR_RDMA_WRITE);
  assert_int_equal(posted[1].wr.send_flags & IBV_SEND_SIGNALED, IBV_SEND_SIGNALED);
  assert_int_equal(posted[2].wr.opcode, IBV_WR_RDMA_READ); /* the transport's own */
  assert_int_equal(posted[2].wr.wr.rdma.rkey, 98);
  assert_int_equal(endpoint.sq.sent[2].opcode, 0);
  assert_int_equal(endpoint.sq.sent[2].upto, 2);
  assert_int_equal(posted[3].wr.opcode, IBV_WR_RDMA_READ); /* the FLUSH's */
  assert_int_equal(posted[3].wr.wr.rdma.rkey, 88);
  assert_int_equal(endpoint.sq.sent[3].opcode, PST_OP_FLUSH);
  assert_int_equal(endpoint.sq.sent[3].cookie, 902);
  assert_int_equal(endpoint.sq.sent[3].upto, 3);
  assert_int_equal(posted[4].wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
  assert_int_equal(endpoint.sq.posted, 4);
  assert_int_equal(endpoint.sq.head, 5);
  assert_null(endpoint.unflushed);
  assert_int_equal(endpoint.rma_before, 2); /* a FLUSH is none */
}

static void a_flush_waits_for_room_for_its_reads(void **state)
{
  (void)state;
  write_two_ranges();
  set(2, PST_OP_FLUSH);
  endpoint.sq.requests_max = endpoint.sq.posted_max = QUEUE - VB_SPARE_SENDS / 2;
  assert_int_equal(post(3), 2);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(endpoint.want, VB_WANT_QUEUE);
  assert_int_equal(posted_count, 2);
  requests[0] = requests[2];
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  endpoint.sq.told = endpoint.sq.done = 1; /* of the transport's own */
  assert_int_equal(post(1), 1);
  assert_int_equal(posted_count, 4);
}

static void a_read_that_does_not_go_breaks_the_connection(void **state)
{
  (void)state;
  write_two_ranges();
  set(2, PST_OP_FLUSH);
  posts_left = 2;
  assert_int_equal(post(3), 2);
  assert_int_equal(failed_status, -ENOMEM);
  assert_true(endpoint.is_refused);
  assert_int_equal(endpoint.sq.posted, 2);
}

/* One queue pair does not fence another. */
static void fenced_messages_of_several_queue_pairs_wait_for_requests(void **state)
{
  (void)state;
  remote.has_flush = false; /* and there is nothing to read */
  endpoint.lane_count = 2;
  set(0, PST_OP_WRITE);
  set(1, PST_OP_SEND);
  set(2, PST_OP_SEND)->flags = PST_REQUEST_FENCE;
  assert_int_equal(post(3), 2);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_true(endpoint.wants_rma_done);
  requests[0] = requests[2];
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(tx.credits.count, SLOTS - 1);
  endpoint.lane_count = 1;
  assert_int_equal(post(1), 1);
  endpoint.lane_count = 2;
  assert_int_equal(post(1), -EAGAIN);
  endpoint.sq.done = 1; /* the WRITE; the message before it is no matter */
  assert_int_equal(post(1), 1);
  assert_false(endpoint.wants_rma_done);
  assert_int_equal(posted[3].wr.send_flags & IBV_SEND_FENCE, IBV_SEND_FENCE);
}

static void fenced_messages_of_several_queue_pairs_wait_for_reads(void **state)
{
  (void)state;
  endpoint.lane_count = 2;
  set(0, PST_OP_WRITE);
  assert_int_equal(post(1), 1);
  endpoint.sq.done = 1; /* the device there has the bytes: they are not yet placed */
  set(0, PST_OP_SEND)->flags = PST_REQUEST_FENCE;
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(posted_count, 2);
  assert_int_equal(posted[1].wr.opcode, IBV_WR_RDMA_READ);
  assert_int_equal(endpoint.rma_before, 2);
  assert_true(endpoint.wants_rma_done);
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(posted_count, 2); /* read once */
  endpoint.sq.done = 2;
  assert_int_equal(post(1), 1);
  assert_int_equal(posted_count, 3);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(requests_go_by_one_call_in_their_order),
      CASE(the_last_one_is_signalled),
      CASE(the_queue_bounds_a_post),
      CASE(a_full_queue_takes_no_lone_write),
      CASE(credit_bounds_a_post),
      CASE(a_full_queue_is_named_before_credit),
      CASE(one_that_cannot_be_taken_ends_a_post),
      CASE(requests_are_checked),
      CASE(a_lone_write_is_checked),
      CASE(a_lone_write_is_built),
      CASE(a_lone_write_without_bytes_has_no_piece),
      CASE(the_chain_is_whole_again),
      CASE(what_is_alike_begins_with_another_opcode),
      CASE(an_endpoint_that_is_not_connected_says_why),
      CASE(nothing_goes_before_connected_is_polled_or_while_it_closes),
      CASE(a_post_forgets_the_room_that_the_one_before_wanted),
      CASE(a_device_that_takes_some_breaks_the_connection),
      CASE(nothing_follows_what_did_not_go),
      CASE(what_the_device_took_are_requests),
      CASE(a_device_that_takes_none_breaks_the_connection),
      CASE(a_flush_reads_the_other_ranges_before_it),
      CASE(a_flush_waits_for_room_for_its_reads),
      CASE(a_read_that_does_not_go_breaks_the_connection),
      CASE(fenced_messages_of_several_queue_pairs_wait_for_requests),
      CASE(fenced_messages_of_several_queue_pairs_wait_for_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
