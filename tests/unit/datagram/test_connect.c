/* SPDX-License-Identifier: Apache-2.0 */
/* How the end of a network card meets others: nothing goes by loopback, the way to a peer may take
 * time, and what is near is the transport's to say. */
#include "support.h"

static char near[DG_ADDRESS_TEXT], asked[DG_ADDRESS_TEXT];
static int answer;

static bool is_near(const struct dg_endpoint *endpoint, const union dg_address *address)
{
  char text[DG_ADDRESS_TEXT];
  assert_ptr_equal(endpoint, &end.dg);
  dg_address_print(address, text, sizeof(text));
  return strcmp(text, near) == 0;
}

static int reach_peer(struct dg_endpoint *endpoint, const union dg_address *address)
{
  dg_address_print(address, asked, sizeof(asked));
  endpoint->peer = *address;
  return answer;
}

static const struct dg_reach card = {.is_near = is_near, .connect = reach_peer};

static void setup(const char *to)
{
  near[0] = asked[0] = '\0';
  answer = 0;
  assert_int_equal(open_end(PST_ROLE_SENDER, LIST({"to", to})), 0);
}

static void near_one_is_taken_before_the_first(void **state)
{
  (void)state;
  setup("");
  struct dg_blob blob = peer_blob(true);
  blob.count = 2;
  memcpy(blob.addresses[1], blob.addresses[0], 16);
  blob.addresses[1][15] = 77;
  strcpy(near, "192.0.2.77:5000");
  assert_int_equal(connect_blob(&blob, &card), 0);
  assert_string_equal(asked, "192.0.2.77:5000");
  assert_true(dg_is_connected(&end.dg));
  assert_int_equal(end.dg.header_bytes, 16);
  assert_true(end.sender.header.has_nonce);
}

/* A udp receiver of this host, bound to lo: no network card gets there. */
static void loopback_is_out_of_reach_on_the_own_host_too(void **state)
{
  static const struct dg_reach socket = {
      .has_loopback = true, .is_near = is_near, .connect = reach_peer};

  (void)state;
  setup("");
  struct dg_blob blob = peer_blob(true);
  dg_host_identity(blob.identity);
  blob.is_bound = true;
  memcpy(blob.addresses[0] + 12, "\x7f\0\0\1", 4);
  assert_int_equal(connect_blob(&blob, &card), -EHOSTUNREACH);
  assert_non_null(strstr(fake_log(), "listens on 127.0.0.1:5000, which only its own host reaches"));
  assert_string_equal(asked, "");
  assert_int_equal(connect_blob(&blob, &socket), 0);
  assert_string_equal(asked, "127.0.0.1:5000");
}

static void way_that_takes_time_connects_later(void **state)
{
  struct pst_completion out[2];

  (void)state;
  setup("192.0.2.7:5004");
  answer = 1;
  assert_int_equal(dg_endpoint_connect(&end.dg, NULL, &card), 0);
  assert_string_equal(asked, "192.0.2.7:5004");
  assert_false(dg_is_connected(&end.dg));
  assert_int_equal(pst_cpu_may_post(&end.dg.cpu), -ENOTCONN);
  assert_int_equal(dg_endpoint_connect(&end.dg, NULL, &card), -EALREADY);
  assert_int_equal(pst_cpu_endpoint_poll(&end.dg.cpu, out, 2), 0);
  pst_cpu_endpoint_up(&end.dg.cpu);
  assert_int_equal(pst_cpu_endpoint_poll(&end.dg.cpu, out, 2), 1);
  assert_int_equal(out[0].code, PST_EVENT_CONNECTED);
}

static void peer_out_of_reach_is_not_connected(void **state)
{
  (void)state;
  setup("");
  answer = -EHOSTUNREACH;
  const struct dg_blob blob = peer_blob(true);
  assert_int_equal(connect_blob(&blob, &card), -EHOSTUNREACH);
  assert_false(dg_is_connected(&end.dg));
}

static void other_wire_form_is_refused_by_its_name(void **state)
{
  uint8_t bytes[DG_BLOB_BYTES] = {'p', 's', 't', 'r', 'c'};
  const struct pst_blob address = {
      .struct_size = sizeof(address), .length = sizeof(bytes), .bytes = bytes};

  (void)state;
  setup("");
  assert_int_equal(dg_endpoint_connect(&end.dg, &address, &card), -EPROTO);
  assert_non_null(strstr(fake_log(), "camera: the peer's address cannot be used: it is not one of "
                                     "\"penstock-datagram\""));
}

static void address_is_that_of_the_end(void **state)
{
  uint8_t bytes[DG_BLOB_BYTES];
  struct pst_blob address = {
      .struct_size = sizeof(address), .capacity = sizeof(bytes), .bytes = bytes};
  struct dg_blob blob;

  (void)state;
  setup("");
  assert_int_equal(dg_endpoint_address(&end.dg, NULL, 0, &address), 0);
  assert_true(dg_blob_read(bytes, address.length, &blob));
  assert_true(blob.is_bound && !blob.is_receiver);
  assert_int_equal(blob.port, 40000);
  assert_int_equal(blob.nonce, end.sender.header.nonce);
}

static void families_are_one(void **state)
{
  (void)state;
  assert_int_equal(open_end(PST_ROLE_SENDER, LIST({"to", "[2001:db8::7]:5004"})), -EINVAL);
  assert_non_null(strstr(fake_log(), "must be all of IPv4, or all of IPv6"));
}

/* ---- Headers ------------------------------------------------------------------------------ */

/* RTP has no place for a sum, and none is asked for. */
static void sums_are_for_their_framing_alone(void **state)
{
  static const char *const framings[] = {"sequence", "rtp", "none"};

  for (int i = 0; i < 3; i++) {
    assert_int_equal(open_end(PST_ROLE_SENDER, LIST({"framing", framings[i]})), 0);
    assert_int_equal(end.sender.sums, i == 0);
    teardown(state);
    reset(state);
  }
  assert_int_equal(open_end(PST_ROLE_SENDER, LIST({"checksum", "false"})), 0);
  assert_false(end.sender.sums);
}

/* In any order, as long as DG_FRAMES_KEPT of them are kept. */
static void frame_keeps_its_timestamp_however_late(void **state)
{
  uint8_t first[DG_HEADER_MAX], other[DG_HEADER_MAX];

  (void)state;
  assert_int_equal(open_end(PST_ROLE_SENDER, LIST({"framing", "rtp"}, {"frame", "2"})), 0);
  dg_sender_header(&end.sender, 0, 0, fake_clock_ns, first);
  fake_clock_ns += 1000000000;
  for (uint64_t frame = DG_FRAMES_KEPT - 1; frame > 0; frame--)
    dg_sender_header(&end.sender, 2 * frame, 0, fake_clock_ns, other);
  dg_sender_header(&end.sender, 1, 0, fake_clock_ns, other);
  assert_memory_equal(first + 4, other + 4, 8);
  assert_int_equal(first[1], 96);
  assert_int_equal(other[1], 0x80 | 96);
  dg_sender_header(&end.sender, 2 * DG_FRAMES_KEPT, 0, fake_clock_ns, other);
  dg_sender_header(&end.sender, 1, 0, fake_clock_ns, other); /* forgotten */
  assert_memory_not_equal(first + 4, other + 4, 4);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(near_one_is_taken_before_the_first),
      CASE(loopback_is_out_of_reach_on_the_own_host_too),
      CASE(way_that_takes_time_connects_later),
      CASE(peer_out_of_reach_is_not_connected),
      CASE(other_wire_form_is_refused_by_its_name),
      CASE(address_is_that_of_the_end),
      CASE(families_are_one),
      CASE(sums_are_for_their_framing_alone),
      CASE(frame_keeps_its_timestamp_however_late),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
