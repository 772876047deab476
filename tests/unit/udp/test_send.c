/* SPDX-License-Identifier: Apache-2.0 */
/* From requests to sendmmsg(): which messages share a buffer, what each error means, and which
 * requests are refused. */
#include "support.h"

static uint32_t last_wait;

static void setup(void)
{
  setup_sender(LIST({"to", "192.0.2.9:5000"}));
  for (uint32_t i = 0; i < sizeof(rig.memory); i++)
    rig.memory[i] = (uint8_t)(i * 3);
  connect_foreign();
}

static int post_lengths(uint32_t n, const uint32_t *lengths)
{
  static uint64_t sequence;
  struct pst_request requests[128];
  if (!kernel.sent_count)
    sequence = 0;
  for (uint32_t i = 0; i < n; i++)
    requests[i] = send_of(sequence + i, lengths[i]);
  int rc = udp_post(rig.endpoint, requests, n, &last_wait);
  if (rc > 0)
    sequence += (uint64_t)rc;
  return rc;
}
#define POST(...)                                                                                  \
  post_lengths(sizeof((uint32_t[]){__VA_ARGS__}) / 4, (const uint32_t[]){__VA_ARGS__})

static void expect_sent(uint32_t i, uint32_t length, uint32_t segment)
{
  assert_true(i < kernel.sent_count);
  assert_int_equal(kernel.sent[i].length, length);
  assert_int_equal(kernel.sent[i].segment, segment);
}

static void expect_done(uint64_t cookie, uint64_t count)
{
  assert_int_equal(poll_up_to(64), 1);
  assert_int_equal(polled[0].kind, PST_COMPLETION_DONE);
  assert_int_equal(polled[0].u.done.cookie, cookie);
  assert_int_equal(polled[0].u.done.count, count);
}

static void message_has_number_sum_and_payload(void **state)
{
  static const uint8_t header[] = {0, 0, 0, 0, 0, 0, 0, 3 * (0 + 1 + 2 + 3)};

  (void)state;
  setup();
  assert_int_equal(POST(4, 0), 2);
  assert_int_equal(kernel.sent_count, 1); /* the last may be shorter */
  expect_sent(0, 12 + 8, 12);
  assert_memory_equal(kernel.sent[0].wire, header, 8);
  assert_memory_equal(kernel.sent[0].wire + 8, rig.memory, 4);
  assert_memory_equal(kernel.sent[0].wire + 12, "\0\0\0\1\0\0\0\0", 8);
  expect_done(1001, 2);
  assert_int_equal(counter("messages_sent"), 2);
  assert_int_equal(counter("bytes_sent"), 4);
}

static void buffer_ends_at_a_longer_one_and_behind_a_shorter_one(void **state)
{
  (void)state;
  setup();
  assert_int_equal(POST(100, 100, 60, 100, 120, 120), 6);
  assert_int_equal(kernel.sent_count, 3);
  expect_sent(0, 108 + 108 + 68, 108);
  expect_sent(1, 108, 0);
  expect_sent(2, 128 + 128, 128);
}

static void buffer_has_64_segments_at_most(void **state)
{
  uint32_t lengths[128] = {0};

  (void)state;
  setup();
  assert_int_equal(post_lengths(65, lengths), 65);
  assert_int_equal(kernel.sent_count, 2);
  expect_sent(0, 64 * 8, 8);
  expect_sent(1, 8, 0);
}

static void buffer_is_no_longer_than_a_datagram(void **state)
{
  (void)state;
  setup();
  rig.endpoint->dg.message_max = 40000;
  struct pst_cpu_mr *mr = pst_cpu_mr_of(rig.mr);
  uint8_t *large = calloc(1, 40000);
  uint8_t *base = mr->base;
  mr->base = large;
  mr->length = 40000;
  rig.endpoint->tx->mtu = 40008;
  kernel.buffers_max = 0; /* laid out, and not taken */
  kernel.send_errors[0] = EAGAIN;
  assert_int_equal(POST(32741, 32741), -EAGAIN); /* 2 * 32749 is 9 bytes too long */
  assert_int_equal(rig.endpoint->tx->counts[0], 2);
  kernel.send_errors[1] = EAGAIN;
  assert_int_equal(POST(32746, 32746), -EAGAIN); /* 2 * 32754 is 65508 */
  assert_int_equal(rig.endpoint->tx->counts[0], 1);
  mr->base = base;
  free(large);
}

/* The kernel refuses to cut into segments that IP would have to fragment. */
static void messages_over_the_mtu_go_alone(void **state)
{
  (void)state;
  kernel.mtu = 28 + 107;
  setup();
  assert_int_equal(counter("path_mtu_payload"), 107);
  assert_int_equal(POST(100, 100), 2);
  assert_int_equal(kernel.sent_count, 2);
  assert_int_equal(POST(99, 99), 2);
  assert_int_equal(kernel.sent_count, 3);
  assert_non_null(strstr(fake_log(), "messages of more than 99 bytes"));
}

static void batch_has_64_buffers_at_most(void **state)
{
  uint32_t lengths[128];

  (void)state;
  setup();
  for (uint32_t i = 0; i < 128; i++)
    lengths[i] = i; /* each longer than the one before */
  assert_int_equal(post_lengths(70, lengths), 70);
  assert_int_equal(kernel.sent_count, 70);
  for (uint32_t i = 0; i < 70; i++)
    expect_sent(i, 8 + i, 0);
  expect_done(1069, 70);
}

static void requests_that_a_call_leaves_are_handed_over_again(void **state)
{
  (void)state;
  setup();
  kernel.buffers_max = 1;
  assert_int_equal(POST(10, 20, 20, 30), 4);
  assert_int_equal(kernel.sent_count, 3);
  expect_sent(1, 56, 28);
  assert_memory_equal(kernel.sent[2].wire, "\0\0\0\3", 4);
  expect_done(1003, 4);
}

static void queue_is_as_long_as_asked_for(void **state)
{
  uint32_t lengths[128] = {0};

  (void)state;
  setup();
  assert_int_equal(post_lengths(128, lengths), 128);
  assert_int_equal(post_lengths(127, lengths), 127);
  assert_int_equal(post_lengths(2, lengths), 1);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  assert_int_equal(post_lengths(1, lengths), -EAGAIN);
  expect_done(1255, 256);
  assert_int_equal(post_lengths(1, lengths), 1);
}

/* ---- Errors
 * --------------------------------------------------------------------------------------- */

static void full_socket_blocks_and_full_device_throttles(void **state)
{
  (void)state;
  setup();
  kernel.send_errors[0] = EAGAIN;
  kernel.send_errors[1] = ENOBUFS;
  assert_int_equal(POST(10), -EAGAIN);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  assert_true(rig.endpoint->tx->blocked);
  assert_int_equal(POST(10), -EAGAIN);
  assert_false(rig.endpoint->tx->blocked);
  assert_int_equal(udp_arm(rig.worker), -EAGAIN); /* nothing would wake us */
  assert_int_equal(counter("device_busy"), 1);
  assert_int_equal(POST(10), 1);
}

static void device_that_cuts_no_buffers_gets_them_one_by_one(void **state)
{
  (void)state;
  setup();
  kernel.send_errors[0] = EIO;
  assert_int_equal(POST(10, 10, 10), 3);
  assert_int_equal(kernel.sent_count, 3);
  expect_sent(0, 18, 0);
  assert_non_null(strstr(fake_log(), "the network device cannot cut buffers"));
  kernel.send_errors[1] = kernel.send_errors[2] = EIO; /* now it means what it says */
  kernel.send_error = 1;
  assert_int_equal(POST(10), -EIO);
}

static void error_of_an_earlier_message_costs_none(void **state)
{
  (void)state;
  setup();
  kernel.send_errors[0] = ECONNREFUSED;
  kernel.send_errors[1] = EHOSTUNREACH;
  kernel.send_errors[2] = 0;
  assert_int_equal(POST(10), 1);
  assert_int_equal(counter("unreachable"), 1); /* the second in a row is this one's */
  kernel.send_error = 0;
  kernel.send_errors[0] = EHOSTUNREACH;
  kernel.send_errors[1] = 0;
  assert_int_equal(POST(10), 1);
  assert_int_equal(counter("unreachable"), 1);
  assert_int_equal(kernel.sent_count, 1);
}

static void no_route_loses_the_first_buffer_and_says_so_once(void **state)
{
  (void)state;
  setup();
  for (int i = 0; i < 4; i++)
    kernel.send_errors[i] = ENETUNREACH;
  assert_int_equal(POST(10, 10, 20), 3);
  assert_int_equal(counter("unreachable"), 3);
  assert_int_equal(counter("messages_sent"), 0);
  expect_done(1002, 3);
  assert_non_null(strstr(fake_log(), "messages do not reach 192.0.2.9:5000"));
}

static void narrower_path_is_laid_out_again(void **state)
{
  (void)state;
  setup();
  kernel.mtu = 28 + 50;
  kernel.send_errors[0] = EMSGSIZE;
  assert_int_equal(POST(60, 60), 2);
  assert_int_equal(kernel.sent_count, 2);
  kernel.send_error = 0;
  kernel.send_errors[1] = EMSGSIZE; /* and narrower once more */
  assert_int_equal(POST(60), 1);
  kernel.send_error = 0;
  for (int i = 0; i < 3; i++)
    kernel.send_errors[i] = EMSGSIZE;
  assert_int_equal(POST(60), -EMSGSIZE);
  assert_non_null(strstr(fake_log(), "longer than the 50 bytes that a packet of this path has"));
}

/* ---- Requests
 * ------------------------------------------------------------------------------------- */

static int post_one(struct pst_request request)
{
  return udp_post(rig.endpoint, &request, 1, &last_wait);
}

static void pieces_are_sent_as_one(void **state)
{
  struct pst_request request;

  (void)state;
  setup();
  const struct pst_piece pieces[] = {
      {rig.mr, 100, 3, 0}, {NULL, 0, 0, 0}, {rig.mr, 50, 2, 0}, {rig.mr, 7, 1, 0}};
  request = send_of(9, 6);
  request.local.pieces = pieces;
  request.piece_count = 4;
  assert_int_equal(post_one(request), 1);
  const uint8_t *m = rig.memory;
  const uint8_t payload[] = {m[100], m[101], m[102], m[50], m[51], m[7]};
  assert_int_equal(kernel.sent[0].length, 14);
  assert_memory_equal(kernel.sent[0].wire + 8, payload, 6);
  assert_int_equal(kernel.sent[0].wire[7], (uint8_t)dg_byte_sum(payload, 6));
}

static void requests_out_of_bounds_are_refused(void **state)
{
  const uint64_t whole = sizeof(rig.memory);
  struct pst_request request, good;

  (void)state;
  setup();
  good = send_of(0, 10);
#define REFUSED(rc, change)                                                                        \
  do {                                                                                             \
    request = good;                                                                                \
    change;                                                                                        \
    assert_int_equal(post_one(request), rc);                                                       \
  } while (0)
  REFUSED(-EINVAL, request.flags = 4);
  REFUSED(-EINVAL, request.reserved0 = 1);
  REFUSED(-EINVAL, request.u.send.departure_ns = 1);
  REFUSED(-EINVAL, request.opcode = PST_OP_WRITE);
  REFUSED(-EINVAL, request.local.mr = NULL);
  REFUSED(-EINVAL, request.offset = whole - 9);
  REFUSED(-EINVAL, request.offset = UINT64_MAX - 4);
  REFUSED(-EMSGSIZE, request.arg.length = PAYLOAD + 1);
  const struct pst_piece halves[] = {{rig.mr, 0, 5, 0}, {rig.mr, whole - 5, 5, 0}};
  good.local.pieces = halves;
  good.piece_count = 2;
  REFUSED(1, );
  REFUSED(-EINVAL, request.offset = 1);
  REFUSED(-EINVAL, request.arg.length = 9);
  REFUSED(-EINVAL, request.arg.length = 11);
  REFUSED(-EINVAL, request.local.pieces = NULL);
  REFUSED(-E2BIG, request.piece_count = PST_CPU_PIECES_MAX + 1);
  const struct pst_piece beyond[] = {{rig.mr, 0, 5, 0}, {rig.mr, whole - 4, 5, 0}};
  REFUSED(-EINVAL, request.local.pieces = beyond);
  const struct pst_piece reserved[] = {{rig.mr, 0, 5, 1}, {rig.mr, 0, 5, 0}};
  REFUSED(-EINVAL, request.local.pieces = reserved);
  const struct pst_piece wraps[] = {{rig.mr, 0, 15, 0}, {NULL, 0, UINT64_MAX - 4, 0}};
  REFUSED(-EINVAL, request.local.pieces = wraps);
  pst_cpu_mr_of(rig.mr)->access = PST_ACCESS_LOCAL_WRITE;
  good = send_of(0, 10);
  REFUSED(-EINVAL, );
  assert_int_equal(kernel.sent_count, 1);
}

static void good_ones_before_a_wrong_one_are_taken(void **state)
{
  (void)state;
  setup();
  assert_int_equal(POST(10, 10, PAYLOAD + 1, 10), 2);
  assert_int_equal(last_wait, PST_WAIT_NONE);
  assert_int_equal(kernel.sent_count, 1);
}

static void flush_is_done_in_its_turn_and_by_itself(void **state)
{
  struct pst_request requests[3];

  (void)state;
  setup();
  requests[0] = send_of(0, 10);
  requests[1] = (struct pst_request){.opcode = PST_OP_FLUSH, .cookie = 5};
  requests[2] = (struct pst_request){.opcode = PST_OP_FLUSH, .cookie = 6};
  assert_int_equal(udp_post(rig.endpoint, requests, 3, &last_wait), 3);
  assert_int_equal(poll_up_to(64), 3);
  assert_int_equal(polled[0].code, PST_OP_SEND);
  assert_int_equal(polled[1].u.done.cookie, 5);
  assert_int_equal(polled[2].u.done.cookie, 6);
  assert_int_equal(polled[2].u.done.count, 1);
  requests[1].piece_count = 1;
  assert_int_equal(post_one(requests[1]), -EINVAL);
}

/* ---- RTP
 * ------------------------------------------------------------------------------------------ */

static uint32_t timestamp(uint32_t i)
{
  const uint8_t *at = kernel.sent[i].wire + 4;
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* 90000 ticks a second; each frame has one timestamp, later than that of the frame before. */
static void frames_have_a_timestamp_each_and_a_marker_last(void **state)
{
  (void)state;
  setup_sender(LIST({"to", "192.0.2.9:5000"}, {"framing", "rtp"}, {"frame", "2"}, {"gso", "false"},
                    {"payload_type", "33"}, {"ssrc", "258"}));
  connect_foreign();
  assert_int_equal(POST(10, 10, 10), 3);
  fake_clock_ns += 1000000000;
  assert_int_equal(POST(10, 10), 2);
  assert_int_equal(kernel.sent_count, 5);
  for (uint32_t i = 0; i < 5; i++) {
    assert_int_equal(kernel.sent[i].wire[0], 0x80);
    assert_int_equal(kernel.sent[i].wire[1], 33 | (i % 2 ? 0x80 : 0));
    assert_memory_equal(kernel.sent[i].wire + 8, "\0\0\1\2", 4);
    assert_int_equal((kernel.sent[i].wire[3] - kernel.sent[0].wire[3]) & 0xff, i);
  }
  assert_int_equal(timestamp(0), timestamp(1));
  assert_int_equal(timestamp(2) - timestamp(0), 1); /* at the same time, and yet another frame */
  assert_int_equal(timestamp(3), timestamp(2));     /* begun before the clock moved */
  assert_int_equal(timestamp(4) - rig.endpoint->tx->dg.header.timestamp, 90000);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(message_has_number_sum_and_payload),
      CASE(buffer_ends_at_a_longer_one_and_behind_a_shorter_one),
      CASE(buffer_has_64_segments_at_most),
      CASE(buffer_is_no_longer_than_a_datagram),
      CASE(messages_over_the_mtu_go_alone),
      CASE(batch_has_64_buffers_at_most),
      CASE(requests_that_a_call_leaves_are_handed_over_again),
      CASE(queue_is_as_long_as_asked_for),
      CASE(full_socket_blocks_and_full_device_throttles),
      CASE(device_that_cuts_no_buffers_gets_them_one_by_one),
      CASE(error_of_an_earlier_message_costs_none),
      CASE(no_route_loses_the_first_buffer_and_says_so_once),
      CASE(narrower_path_is_laid_out_again),
      CASE(pieces_are_sent_as_one),
      CASE(requests_out_of_bounds_are_refused),
      CASE(good_ones_before_a_wrong_one_are_taken),
      CASE(flush_is_done_in_its_turn_and_by_itself),
      CASE(frames_have_a_timestamp_each_and_a_marker_last),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
