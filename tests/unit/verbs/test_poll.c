/* SPDX-License-Identifier: Apache-2.0 */
/* vb_poll(): what becomes of the device's completions, and in which order the host gets events. The
 * transport is a stub; the completion queue has what a case puts there. */
#include <endian.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ops.h"
#include "poll.h"
#include "srq.h"
#include "support.h"

#define FROM UINT64_C(0xfffffffe) /* of the send queue: wr_id has 32 bits of it */
#define POSTED 0xfffffffdu        /* requests that were posted before */
#define MOST (QUEUE / 2)          /* requests at a time */

static struct ibv_cq cq;
static struct ibv_wc queue[300]; /* of the device */
static uint32_t queue_count, queue_at, poll_calls;
static struct pst_completion told[MOST];
static struct pst_request requests[MOST];
static struct pst_endpoint second;

/* Calls that the transport got. */
static struct {
  struct ibv_wc wc;
  uint64_t done; /* then */
} sent[MOST];
static uint32_t sent_count, work_calls, notices, looks, received_count, empty_calls;
static uint32_t received_refused; /* so many receives are not taken yet */
static uint32_t cq_events, async_calls;

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **which, void **context)
{
  (void)channel, (void)which, (void)context;
  if (cq_events == 0)
    return -1;
  cq_events--;
  return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
  (void)context, (void)event;
  async_calls++;
  return -1;
}

static int poll_cq(struct ibv_cq *of, int n, struct ibv_wc *wc)
{
  int taken = 0;

  assert_ptr_equal(of, &cq);
  poll_calls++;
  while (taken < n && queue_at != queue_count)
    wc[taken++] = queue[queue_at++];
  return taken;
}

static int poll_cq_fails(struct ibv_cq *of, int n, struct ibv_wc *wc)
{
  (void)of, (void)n, (void)wc;
  return -1;
}

/* As that of verbs_rc: the first that is refused fails those behind it. */
static void take_sent(struct pst_endpoint *of, const struct ibv_wc *wc)
{
  const uint64_t index = of->sq.done + (uint32_t)((uint32_t)wc->wr_id - (uint32_t)of->sq.done);

  assert_in_range(sent_count, 0, MOST - 1);
  sent[sent_count].wc = *wc;
  sent[sent_count++].done = of->sq.done;
  vb_pend(of);
  if (index >= of->sq.head)
    return;
  if (wc->status == IBV_WC_REM_ACCESS_ERR) {
    of->sq.refused_at = index;
    of->sq.first_error = -EACCES;
  }
  if (wc->status && of->sq.failed_from == VB_NEVER) {
    of->sq.failed_from = index;
    of->sq.error = -ECONNRESET;
    vb_fail(of, -ECONNRESET, "");
  }
  of->sq.done = index + 1;
}

static bool take_received(struct pst_endpoint *of, struct ibv_wc *wc, struct vb_out *out)
{
  (void)of, (void)wc, (void)out;
  if (received_refused) {
    received_refused--;
    return false;
  }
  received_count++;
  return true;
}

static void work(struct pst_endpoint *of, struct vb_out *out)
{
  work_calls++;
  vb_tell_done(of, out);
  if (of->sq.told != of->sq.done)
    vb_pend(of);
}

static void notice(struct pst_endpoint *of)
{
  assert_ptr_equal(of, &endpoint);
  notices++;
}

static void look(struct pst_endpoint *of, uint64_t now_ns)
{
  assert_ptr_equal(of, &endpoint);
  assert_int_equal(now_ns, fake_clock_ns);
  looks++;
}

static void worker_empty(struct pst_worker *of)
{
  assert_ptr_equal(of, &worker);
  empty_calls++;
}

/* Among the worker's; indices of its send queue pass 32 bits. */
static void place(struct pst_endpoint *of)
{
  assert_int_equal(pst_places_take(&worker.endpoints, of, VB_PLACES, &of->place), 0);
  of->sq.wr_id = (uint64_t)of->place << 32;
  of->sq.head = of->sq.done = of->sq.told = of->sq.alike_from = FROM;
  of->sq.posted = POSTED;
  of->sq.posted_max = POSTED + MOST;
}

static int begin(void **state)
{
  uint32_t number = 0;

  (void)state;
  start_support(1);
  transport.sent = take_sent;
  transport.received = take_received;
  transport.work = work;
  transport.notice = notice;
  transport.look = look;
  transport.worker_empty = worker_empty;
  cq.context = qps[0].context;
  cq.context->ops.poll_cq = poll_cq;
  worker.cq = &cq;
  worker.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  worker.timer_fd = -1;
  worker.walked_ns = fake_clock_ns;
  device.events_ns = fake_clock_ns;
  assert_int_equal(pst_places_take(&worker.endpoints, &second, VB_PLACES, &number), 0);
  place(&endpoint); /* not at 0 */
  pst_places_give(&worker.endpoints, number);
  endpoint.rx = NULL;
  for (uint32_t i = 0; i < SLOTS; i++)
    add_credit(i);
  queue_count = queue_at = poll_calls = 0;
  sent_count = work_calls = notices = looks = received_count = empty_calls = 0;
  received_refused = cq_events = async_calls = 0;
  return 0;
}

static int end(void **state)
{
  close(worker.wake_fd);
  free(worker.endpoints.all);
  free(worker.shared.all);
  return stop_support(state);
}

static void post_at(struct pst_endpoint *of, const uint8_t *opcodes, uint32_t n)
{
  uint32_t wait;

  for (uint32_t i = 0; i < n; i++) {
    requests[i] = (struct pst_request){.opcode = opcodes[i], .cookie = 900 + i};
    if (opcodes[i] == PST_OP_FLUSH)
      continue;
    requests[i].local.mr = &memory;
    requests[i].arg.length = 8;
    if (opcodes[i] != PST_OP_SEND)
      requests[i].u.rma.remote = &remote;
  }
  remote.has_flush = false; /* a FLUSH reads nothing */
  remote.endpoint = of;
  assert_int_equal(vb_post(of, requests, n, &wait), n);
}

/* Requests with cookies from 900. */
#define POST(...)                                                                                  \
  post_at(&endpoint, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static struct ibv_wc *complete_at(const struct pst_endpoint *of, uint32_t i,
                                  enum ibv_wc_status status)
{
  struct ibv_wc *wc = &queue[queue_count++];

  *wc = (struct ibv_wc){.wr_id = vb_wr_id(&of->sq, (uint32_t)(FROM + i)), .status = status};
  return wc;
}

/* Work request `i` of those since `begin`. */
static void complete(uint32_t i, enum ibv_wc_status status)
{
  complete_at(&endpoint, i, status);
}

static void receive(uint32_t n)
{
  while (n--)
    queue[queue_count++] = (struct ibv_wc){.wr_id = VB_RECEIVE | vb_wr_id(&endpoint.sq, 0)};
}

static int poll_some(uint32_t max)
{
  memset(told, 0xee, sizeof(told));
  return vb_poll(&worker, told, max);
}

static int poll_all(void)
{
  return poll_some(MOST);
}

static void expect_done(uint32_t i, uint8_t opcode, int status, uint64_t cookie, uint64_t count)
{
  assert_int_equal(told[i].kind, PST_COMPLETION_DONE);
  assert_int_equal(told[i].code, opcode);
  assert_int_equal(told[i].flags, 0);
  assert_int_equal(told[i].status, status);
  assert_int_equal(told[i].endpoint, COOKIE);
  assert_int_equal(told[i].u.done.cookie, cookie);
  assert_int_equal(told[i].u.done.count, count);
}

/* ---- Requests that are done ----------------------------------------------------------------- */

static void dones_come_in_the_order_of_posts(void **state)
{
  (void)state;
  POST(PST_OP_WRITE, PST_OP_WRITE, PST_OP_SEND, PST_OP_SEND, PST_OP_READ, PST_OP_READ,
       PST_OP_FLUSH);
  assert_int_equal(poll_all(), 0);
  for (uint32_t i = 0; i < 7; i++)
    complete(i, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 5);
  expect_done(0, PST_OP_WRITE, 0, 901, 2);
  expect_done(1, PST_OP_SEND, 0, 903, 2);
  expect_done(2, PST_OP_READ, 0, 904, 1); /* one DONE covers only SENDs or only WRITEs */
  expect_done(3, PST_OP_READ, 0, 905, 1);
  expect_done(4, PST_OP_FLUSH, 0, 906, 1);
  assert_int_equal(vb_send_queue_free(&endpoint.sq), MOST);
  assert_int_equal(vb_send_queue_room(&endpoint.sq), QUEUE);
  assert_int_equal(sent_count, 0); /* the transport has no part in it */
  assert_int_equal(work_calls, 0);
  assert_int_equal(poll_all(), 0);
}

static void a_completion_says_of_all_before_it(void **state)
{
  (void)state;
  POST(PST_OP_READ, PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE);
  complete(3, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 2);
  expect_done(0, PST_OP_READ, 0, 900, 1);
  expect_done(1, PST_OP_WRITE, 0, 903, 3);
  assert_int_equal(vb_send_queue_free(&endpoint.sq), MOST - 1);
  complete(4, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 1);
  expect_done(0, PST_OP_WRITE, 0, 904, 1);
}

static void a_run_is_all_of_its_messages(void **state)
{
  uint32_t wait;

  (void)state;
  for (uint32_t i = 0; i < 5; i++)
    requests[i] = (struct pst_request){.opcode = PST_OP_SEND,
                                       .local.mr = &memory,
                                       .offset = tx.stride * (i + (i > 2)),
                                       .arg.length = 250,
                                       .u.send.sequence = i,
                                       .cookie = 900 + i};
  tx.run_max = 8;
  tx.run_length_min = 240;
  assert_int_equal(vb_post(&endpoint, requests, 5, &wait), 5);
  assert_int_equal(posted_count, 2);
  complete(0, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 1);
  expect_done(0, PST_OP_SEND, 0, 902, 3);
  complete(1, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 1);
  expect_done(0, PST_OP_SEND, 0, 904, 2);
  assert_int_equal(vb_send_queue_free(&endpoint.sq), MOST);
}

static void the_transports_own_are_not_told(void **state)
{
  (void)state;
  POST(PST_OP_WRITE);
  assert_int_equal(vb_send_queue_own(&endpoint.sq, IBV_WR_SEND_WITH_IMM, VB_CREDIT, NULL), 0);
  POST(PST_OP_WRITE);
  assert_int_equal(vb_send_queue_own(&endpoint.sq, IBV_WR_SEND_WITH_IMM, VB_CREDIT, NULL), 0);
  complete(3, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 2);
  expect_done(0, PST_OP_WRITE, 0, 900, 1);
  expect_done(1, PST_OP_WRITE, 0, 900, 1);
  assert_int_equal(vb_send_queue_room(&endpoint.sq), QUEUE);
  assert_int_equal(vb_send_queue_free(&endpoint.sq), MOST);
  assert_int_equal(vb_send_queue_own(&endpoint.sq, IBV_WR_SEND_WITH_IMM, VB_CREDIT, NULL), 0);
  POST(PST_OP_WRITE);
  assert_int_equal(vb_send_queue_own(&endpoint.sq, IBV_WR_SEND_WITH_IMM, VB_CREDIT, NULL), 0);
  complete(6, IBV_WC_SUCCESS);
  assert_int_equal(poll_some(1), 1);
  assert_int_equal(vb_send_queue_room(&endpoint.sq), QUEUE); /* nor need they room to be told */
  assert_null(worker.pending);
}

static void what_there_was_no_room_for_comes_next(void **state)
{
  for (uint32_t turn = 0; turn < 2; turn++) {
    if (turn) {
      end(state);
      begin(state);
      endpoint.roles = PST_ROLE_RMA;
      endpoint.want = VB_WANT_CREDIT; /* by the transport's work() */
    }
    POST(PST_OP_READ, PST_OP_READ, PST_OP_WRITE, PST_OP_WRITE);
    endpoint.want = turn ? VB_WANT_CREDIT : VB_WANT_NOTHING;
    complete(3, IBV_WC_SUCCESS);
    assert_int_equal(poll_some(0), 0);
    assert_int_equal(poll_calls, 0);
    for (uint32_t i = 0; i < 2; i++) {
      assert_int_equal(poll_some(1), 1);
      expect_done(0, PST_OP_READ, 0, 900 + i, 1);
      assert_int_equal(told[1].kind, 0xee); /* no more than `max` */
      assert_ptr_equal(worker.pending, &endpoint);
    }
    assert_int_equal(poll_some(1), 1);
    expect_done(0, PST_OP_WRITE, 0, 903, 2);
    assert_null(worker.pending);
    assert_int_equal(poll_some(1), 0);
    assert_int_equal(work_calls > 0, turn);
  }
}

/* ---- Errors --------------------------------------------------------------------------------- */

static void an_error_is_of_one_and_what_is_flushed_of_the_others(void **state)
{
  (void)state;
  POST(PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE, PST_OP_SEND);
  complete(1, IBV_WC_SUCCESS);
  complete(2, IBV_WC_REM_ACCESS_ERR);
  complete(3, IBV_WC_WR_FLUSH_ERR);
  complete(4, IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(poll_all(), 4);
  expect_done(0, PST_OP_WRITE, 0, 901, 2);
  expect_done(1, PST_OP_WRITE, -EACCES, 902, 1);
  expect_done(2, PST_OP_WRITE, -ECONNRESET, 903, 1);
  expect_done(3, PST_OP_SEND, -ECONNRESET, 904, 1);
  assert_int_equal(vb_send_queue_free(&endpoint.sq), MOST);
  assert_int_equal(sent_count, 3);
  assert_int_equal(sent[0].done, FROM + 2); /* those before it are done */
  assert_int_equal(sent[0].wc.status, IBV_WC_REM_ACCESS_ERR);
  assert_int_equal(sent[1].wc.status, IBV_WC_WR_FLUSH_ERR);
}

/* One of several queue pairs fails first, and another reports the reason later. */
static void the_refused_one_may_be_behind_the_first_that_failed(void **state)
{
  (void)state;
  POST(PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE, PST_OP_WRITE);
  endpoint.sq.failed_from = FROM + 1;
  endpoint.sq.error = -ECONNRESET;
  endpoint.sq.refused_at = FROM + 3;
  endpoint.sq.first_error = -EACCES;
  endpoint.sq.done = FROM + 6;
  struct vb_out out = {told, MOST};
  vb_tell_done(&endpoint, &out);
  assert_int_equal(out.room, MOST - 4);
  expect_done(0, PST_OP_WRITE, 0, 900, 1);
  expect_done(1, PST_OP_WRITE, -ECONNRESET, 902, 2);
  expect_done(2, PST_OP_WRITE, -EACCES, 903, 1);
  expect_done(3, PST_OP_WRITE, -ECONNRESET, 905, 2);
}

/* The transport posts some that are no index of the send queue. */
static void indices_that_are_not_outstanding_are_the_transports(void **state)
{
  (void)state;
  POST(PST_OP_WRITE, PST_OP_WRITE);
  complete(0, IBV_WC_SUCCESS);
  complete(2, IBV_WC_SUCCESS);          /* not yet */
  complete(UINT32_MAX, IBV_WC_SUCCESS); /* no more */
  assert_int_equal(poll_all(), 1);
  expect_done(0, PST_OP_WRITE, 0, 900, 1);
  assert_int_equal(sent_count, 2);
  assert_int_equal(endpoint.sq.done, FROM + 1);
  complete(1, IBV_WC_SUCCESS);
  complete(0, IBV_WC_SUCCESS); /* once more */
  assert_int_equal(poll_all(), 1);
  assert_int_equal(sent_count, 3);
  assert_int_equal(endpoint.sq.done, FROM + 2);
  POST(PST_OP_WRITE, PST_OP_WRITE);
  complete(3, IBV_WC_SUCCESS);
  complete(2, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(sent_count, 4);
  assert_int_equal(endpoint.sq.done, FROM + 4);
}

static void what_is_no_plain_row_is_the_transports(void **state)
{
  for (uint32_t turn = 0; turn < 3; turn++) {
    end(state);
    begin(state);
    POST(PST_OP_WRITE, PST_OP_WRITE);
    static struct vb_srq shared;
    endpoint.is_connected = turn != 0;
    endpoint.lane_count = turn == 1 ? 2 : 1;
    endpoint.shared = turn == 2 ? &shared : NULL;
    complete(0, IBV_WC_SUCCESS);
    complete(1, IBV_WC_SUCCESS);
    assert_int_equal(poll_all(), 1);
    assert_int_equal(sent_count, 2);
    assert_true(work_calls > 0);
  }
}

/* ---- Endpoints of completions
 * ------------------------------------------------------------------------- */

static void completions_of_an_endpoint_that_is_gone_are_dropped(void **state)
{
  (void)state;
  POST(PST_OP_WRITE);
  complete(0, IBV_WC_SUCCESS);
  receive(1);
  for (uint32_t i = 0; i < 2; i++) /* the place has another number by then, or no endpoint */
    queue[i].wr_id += (uint64_t)(i ? 5 : PST_PLACE_MASK + 1) << 32;
  complete(0, IBV_WC_SUCCESS);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(received_count + sent_count, 0);
  POST(PST_OP_WRITE);
  endpoint.is_cut = true;
  complete(1, IBV_WC_SUCCESS);
  receive(1);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(endpoint.sq.done, FROM + 1);
  assert_int_equal(received_count + sent_count, 0);
}

static void completions_of_two_endpoints_may_alternate(void **state)
{
  (void)state;
  second = endpoint;
  second.cookie = 71;
  assert_int_equal(vb_send_queue_open(&second.sq, PIECES), 0);
  place(&second);
  POST(PST_OP_WRITE, PST_OP_WRITE);
  post_at(&second, (const uint8_t[]){PST_OP_READ, PST_OP_WRITE}, 2);
  complete(0, IBV_WC_SUCCESS);
  complete_at(&second, 0, IBV_WC_SUCCESS);
  complete(1, IBV_WC_SUCCESS);
  const int first_count = poll_all();
  const uint64_t second_done = second.sq.done, free_of_second = vb_send_queue_free(&second.sq);
  pst_places_give(&worker.endpoints, second.place);
  vb_send_queue_close(&second.sq);
  assert_int_equal(first_count, 2);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(told[i].code, told[i].endpoint == 71 ? PST_OP_READ : PST_OP_WRITE);
    assert_int_equal(told[i].u.done.count, told[i].endpoint == 71 ? 1 : 2);
  }
  assert_int_not_equal(told[0].endpoint, told[1].endpoint);
  assert_int_equal(second_done, FROM + 1);
  assert_int_equal(free_of_second, MOST - 1);
}

/* The endpoint sends and receives. */
static void messages_are_told_in_a_row_behind_what_was_left(void **state)
{
  (void)state;
  endpoint.rx = &rx;
  for (uint32_t i = 0; i < 4; i++)
    add_slot(7 - i);
  rq.posted = 4;
  POST(PST_OP_READ, PST_OP_READ);
  complete(1, IBV_WC_SUCCESS);
  for (uint32_t i = 0; i < 4; i++)
    queue[queue_count++] = (struct ibv_wc){.wr_id = VB_RECEIVE | vb_wr_id(&endpoint.sq, 0),
                                           .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                                           .imm_data = htobe32(i),
                                           .byte_len = 10};
  assert_int_equal(poll_some(2), 2);
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(told[i].u.message.token, pst_token(ring.place, 7 - i));
  assert_int_equal(poll_some(1), 1);
  expect_done(0, PST_OP_READ, 0, 900, 1);
  assert_int_equal(poll_all(), 3);
  expect_done(0, PST_OP_READ, 0, 901, 1);
  for (uint32_t i = 1; i < 3; i++) {
    assert_int_equal(told[i].kind, PST_COMPLETION_MESSAGE);
    assert_int_equal(told[i].u.message.sequence, i + 1);
    assert_int_equal(told[i].u.message.token, pst_token(ring.place, 6 - i));
  }
  assert_int_equal(rq.posted, 0);
  assert_int_equal(received_count, 0); /* the transport is not asked */
}

static void shared_receives_of_nobody_go_back(void **state)
{
  uint32_t back[4] = {0};
  struct vb_srq shared = {.worker = &worker, .size = 4, .posted = 2, .back = back};

  (void)state;
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(pst_places_take(&worker.shared, &shared, VB_PLACES, &shared.place), 0);
  assert_int_equal(shared.place, endpoint.place); /* numbers of another kind */
  receive(1);
  queue[0].wr_id = VB_RECEIVE | (uint64_t)shared.place << 32 | VB_SRQ_BIT | 3;
  queue[0].qp_num = 4711;
  assert_int_equal(poll_all(), 0);
  assert_int_equal(received_count, 0);
  assert_int_equal(shared.back_count, 1);
  assert_int_equal(back[0], 3);
  assert_int_equal(shared.posted, 1);
  assert_null(worker.shared_due); /* seen to at the end of the poll */
}

/* ---- How many a poll takes ------------------------------------------------------------------ */

static void a_receive_that_is_not_taken_is_the_next(void **state)
{
  (void)state;
  receive(3);
  received_refused = 2;
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(poll_all(), 0);
    assert_int_equal(received_count, 0);
    assert_int_equal(worker.wc_at, 0);
    assert_int_equal(worker.empties, 0);
  }
  assert_int_equal(poll_calls, 1);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(received_count, 3);
}

static void a_poll_takes_so_many_and_no_more(void **state)
{
  (void)state;
  receive(300);
  worker.own = &cq; /* not looked into here */
  assert_int_equal(poll_all(), 0);
  assert_int_equal(received_count, 8 * VB_POLL_BATCH);
  assert_int_equal(poll_calls, 8);
  assert_int_equal(worker.empties, 0);
  assert_int_equal(empty_calls, 0);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(received_count, 300);
  assert_int_equal(poll_calls, 10); /* the last one gave fewer: there are no more */
  assert_int_equal(worker.empties, 1);
  assert_int_equal(empty_calls, 1);
}

static void a_completion_queue_that_fails_is_empty(void **state)
{
  (void)state;
  cq.context->ops.poll_cq = poll_cq_fails;
  assert_int_equal(poll_all(), 0);
  assert_int_equal(worker.wc_count, 0);
  cq.context->ops.poll_cq = poll_cq;
  receive(1);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(received_count, 1);
}

/* ---- Other work of a poll ------------------------------------------------------------------- */

static void a_lost_device_is_told_first_and_once(void **state)
{
  (void)state;
  POST(PST_OP_READ);
  complete(0, IBV_WC_SUCCESS);
  atomic_store(&device.is_lost, true);
  vb_notify(&worker);
  assert_int_equal(poll_some(0), 0);
  assert_true(worker.tells_lost); /* later */
  assert_int_equal(poll_all(), 2);
  assert_int_equal(told[0].kind, PST_COMPLETION_EVENT);
  assert_int_equal(told[0].code, PST_EVENT_DEVICE);
  assert_int_equal(told[0].status, -EIO);
  assert_int_equal(told[0].endpoint, 0);
  expect_done(1, PST_OP_READ, 0, 900, 1);
  assert_int_equal(poll_all(), 0);
  vb_notify(&worker);
  assert_int_equal(poll_all(), 0);
}

static void what_other_threads_left_is_taken_once(void **state)
{
  uint64_t count;

  (void)state;
  vb_notify(&worker);
  vb_notify(&worker);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(notices, 1);
  assert_int_equal(read(worker.wake_fd, &count, sizeof(count)), -1); /* it would wake again */
  assert_int_equal(poll_all(), 0);
  assert_int_equal(notices, 1);
}

static void who_was_woken_looks_at_all(void **state)
{
  (void)state;
  worker.armed = true;
  cq_events = 3;
  assert_int_equal(poll_all(), 0);
  assert_false(worker.armed);
  assert_int_equal(cq_events, 0); /* each would wake again */
  assert_int_equal(worker.events_unacked, 3);
  assert_int_equal(looks, 1);
  assert_int_equal(async_calls, 1);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(looks, 1);
}

/* 4096 polls that bring something, or 64 that do not; a mixture of both, too. */
static void the_clock_is_looked_at_now_and_then(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < 63; i++)
    assert_int_equal(poll_all(), 0);
  for (uint32_t i = 0; i < 64; i++) {
    assert_int_equal(worker.looks, 0);
    POST(PST_OP_WRITE);
    queue_at = queue_count = 0;
    complete(i, IBV_WC_SUCCESS);
    assert_int_equal(poll_all(), 1);
  }
  assert_int_equal(worker.looks, 1);
  for (uint32_t i = 0; i < 64; i++) {
    assert_int_equal(worker.looks, 1);
    assert_int_equal(poll_all(), 0);
  }
  assert_int_equal(worker.looks, 2);
  assert_int_equal(looks, 0); /* nothing is due yet */
  assert_int_equal(async_calls, 0);
}

static uint32_t has_told_room(void)
{
  vb_tell_room(&endpoint);
  assert_int_equal(worker.told, endpoint.want == VB_WANT_TOLD);
  return worker.told;
}

static void room_is_told_once_it_is_there(void **state)
{
  (void)state;
  assert_int_equal(has_told_room(), 0); /* nobody wants any */
  endpoint.want = VB_WANT_CREDIT;
  tx.credits.count = 0;
  assert_int_equal(has_told_room(), 0);
  tx.credits.count = 1;
  endpoint.is_connected = false;
  assert_int_equal(has_told_room(), 0);
  endpoint.is_connected = true;
  endpoint.sq.posted = endpoint.sq.posted_max;
  assert_int_equal(has_told_room(), 0); /* credit alone is none */
  endpoint.sq.posted--;
  endpoint.wants_rma_done = true;
  endpoint.rma_before = FROM + 1;
  assert_int_equal(has_told_room(), 0);
  endpoint.sq.done = FROM + 1;
  assert_int_equal(has_told_room(), 1);
  assert_int_equal(has_told_room(), 1); /* once */
  vb_forget_room(&endpoint);
  assert_int_equal(worker.told, 0);
  endpoint.want = VB_WANT_QUEUE;
  tx.credits.count = 0;
  endpoint.wants_rma_done = false;
  endpoint.rma_before = FROM + 2;
  assert_int_equal(has_told_room(), 1); /* it was neither credit nor these */
}

static void an_endpoint_with_more_to_tell_is_the_transports(void **state)
{
  (void)state;
  for (uint32_t turn = 0; turn < 6; turn++) {
    end(state);
    begin(state);
    endpoint.rx = turn == 0 ? &rx : NULL;
    endpoint.is_connected = turn != 1;
    endpoint.tell_connected = turn == 2;
    endpoint.closing.mode = turn == 3 ? PST_CLOSE_DRAIN : 0;
    endpoint.want = turn == 4 ? VB_WANT_CREDIT : VB_WANT_NOTHING;
    endpoint.lane_count = turn == 5 ? 2 : 1;
    vb_pend(&endpoint);
    assert_int_equal(poll_all(), 0);
    assert_int_equal(work_calls, 1);
    assert_false(endpoint.is_pending);
  }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(dones_come_in_the_order_of_posts),
      CASE(a_completion_says_of_all_before_it),
      CASE(a_run_is_all_of_its_messages),
      CASE(the_transports_own_are_not_told),
      CASE(what_there_was_no_room_for_comes_next),
      CASE(an_error_is_of_one_and_what_is_flushed_of_the_others),
      CASE(the_refused_one_may_be_behind_the_first_that_failed),
      CASE(indices_that_are_not_outstanding_are_the_transports),
      CASE(what_is_no_plain_row_is_the_transports),
      CASE(completions_of_an_endpoint_that_is_gone_are_dropped),
      CASE(completions_of_two_endpoints_may_alternate),
      CASE(messages_are_told_in_a_row_behind_what_was_left),
      CASE(shared_receives_of_nobody_go_back),
      CASE(a_receive_that_is_not_taken_is_the_next),
      CASE(a_poll_takes_so_many_and_no_more),
      CASE(a_completion_queue_that_fails_is_empty),
      CASE(a_lost_device_is_told_first_and_once),
      CASE(what_other_threads_left_is_taken_once),
      CASE(who_was_woken_looks_at_all),
      CASE(the_clock_is_looked_at_now_and_then),
      CASE(room_is_told_once_it_is_there),
      CASE(an_endpoint_with_more_to_tell_is_the_transports),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
