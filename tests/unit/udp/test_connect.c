/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that ends exchange, and which of a receiver's addresses a sender takes. */
#include "support.h"

/* ---- The sender's choice -----------------------------------------------------------------------
 */

static void add(struct dg_blob *blob, uint32_t at, const char *text)
{
  union dg_address address;
  struct dg_source source;
  assert_true(dg_address_parse(text, &address));
  dg_address_source(&address, &source);
  memcpy(blob->addresses[at], source.address, 16);
  blob->count = (uint8_t)(at + 1);
}

static void expect_peer(const char *printed)
{
  char text[80];
  dg_address_print(&rig.endpoint->dg.peer, text, sizeof(text));
  assert_string_equal(text, printed);
  dg_address_print(&kernel.calls[kernel.call_count - 1].address, text, sizeof(text));
  assert_string_equal(kernel.calls[kernel.call_count - 1].what, "connect");
  assert_string_equal(text, printed);
}

static void first_in_a_network_of_ours_is_taken(void **state)
{
  struct dg_blob blob = peer_blob(true);

  (void)state;
  setup_sender(LIST());
  add(&blob, 0, "203.0.113.5");
  add(&blob, 1, "192.0.2.77");
  add(&blob, 2, "192.0.2.78");
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("192.0.2.77:5000");
}

static void else_the_first(void **state)
{
  struct dg_blob blob = peer_blob(true);

  (void)state;
  setup_sender(LIST());
  add(&blob, 0, "203.0.113.5");
  add(&blob, 1, "203.0.113.6");
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("203.0.113.5:5000");
}

static void on_one_host_it_is_lo(void **state)
{
  struct dg_blob blob = peer_blob(true);

  (void)state;
  setup_sender(LIST());
  dg_host_identity(blob.identity);
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("127.0.0.1:5000");
}

static void with_a_device_it_is_not_lo(void **state)
{
  struct dg_blob blob = peer_blob(true);

  (void)state;
  setup_sender(LIST({"device", "eth0"}));
  dg_host_identity(blob.identity);
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("192.0.2.9:5000");
}

static void option_chooses_with_the_peers_port_or_its_own(void **state)
{
  struct dg_blob blob = peer_blob(true);

  setup_sender(LIST({"to", "198.51.100.3"}));
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("198.51.100.3:5000");
  teardown(state);
  reset(state);
  setup_sender(LIST({"to", "198.51.100.3:6000"}));
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("198.51.100.3:6000");
}

static void bound_receiver_hears_there_alone(void **state)
{
  struct dg_blob blob = peer_blob(true);

  blob.is_bound = true;
  setup_sender(LIST({"to", "198.51.100.3"}));
  assert_int_equal(connect_blob(&blob), -EHOSTUNREACH);
  assert_non_null(strstr(fake_log(), "the receiver listens only on 192.0.2.9:5000"));
  teardown(state);
  reset(state);
  setup_sender(LIST({"to", "192.0.2.9:7000"})); /* a port is forwarded, perhaps */
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("192.0.2.9:7000");
}

static void bound_to_loopback_elsewhere_is_out_of_reach(void **state)
{
  struct dg_blob blob = peer_blob(true);

  (void)state;
  blob.is_bound = true;
  add(&blob, 0, "127.0.0.1");
  setup_sender(LIST());
  assert_int_equal(connect_blob(&blob), -EHOSTUNREACH);
  assert_non_null(strstr(fake_log(), "which only its own host reaches"));
  dg_host_identity(blob.identity);
  assert_int_equal(connect_blob(&blob), 0);
  expect_peer("127.0.0.1:5000");
}

static void peers_that_do_not_fit_are_refused(void **state)
{
  struct dg_blob blob = peer_blob(false);

  (void)state;
  setup_sender(LIST());
  assert_int_equal(connect_blob(&blob), -EPROTO);
  assert_non_null(strstr(fake_log(), "this end sends, and the peer does not receive"));
  blob = peer_blob(true);
  blob.framing = DG_FRAMING_RTP;
  assert_int_equal(connect_blob(&blob), -EPROTO);
  assert_non_null(strstr(fake_log(), "both ends have another `framing`"));
  blob = peer_blob(true);
  blob.family = 6;
  assert_int_equal(connect_blob(&blob), -EPROTO);
  assert_non_null(strstr(fake_log(), "one end is on IPv4, the other on IPv6"));
  blob = peer_blob(true);
  blob.count = 0;
  assert_int_equal(connect_blob(&blob), -EPROTO);
  assert_non_null(strstr(fake_log(), "the receiver has no address"));
  assert_int_equal(udp_poll(rig.worker, polled, 1), 0);
}

static void no_way_there_is_told_with_the_address(void **state)
{
  struct dg_blob blob = peer_blob(true);

  (void)state;
  setup_sender(LIST());
  kernel.connect_errno = EINVAL; /* as the kernel has it for an address that lacks a route */
  assert_int_equal(connect_blob(&blob), -ENETUNREACH);
  assert_non_null(strstr(fake_log(), "no route to 192.0.2.9:5000: Network is unreachable"));
}

/* ---- The receiver
 * ---------------------------------------------------------------------------------- */

static void receiver_expects_what_the_sender_said(void **state)
{
  struct dg_blob blob = peer_blob(false);

  (void)state;
  setup_receiver(LIST());
  blob.initial = 77;
  blob.is_bound = true;
  assert_int_equal(connect_blob(&blob), 0);
  const struct dg_flow_params *params = &rig.endpoint->rx->dg.flow.params;
  assert_true(params->numbered && params->port_is_fixed && params->address_is_fixed);
  assert_int_equal(params->initial, 77);
  assert_int_equal(params->nonce, blob.nonce);
  assert_int_equal(params->source.port, 5000);
  assert_memory_equal(params->source.address, blob.addresses[0], 16);
  assert_int_equal(params->payload_type, 96);
  assert_int_equal(rig.endpoint->dg.header_bytes, 16); /* with the nonce */
}

static void sender_bound_anywhere_may_come_from_any_address(void **state)
{
  struct dg_blob blob = peer_blob(false);

  (void)state;
  setup_receiver(LIST());
  assert_int_equal(connect_blob(&blob), 0);
  assert_false(rig.endpoint->rx->dg.flow.params.address_is_fixed);
}

static void second_connect_keeps_the_peer(void **state)
{
  struct dg_blob blob = peer_blob(true);

  (void)state;
  setup_sender(LIST());
  assert_int_equal(connect_blob(&blob), 0);
  assert_int_equal(connect_blob(&blob), -EALREADY);
  assert_int_equal(udp_poll(rig.worker, polled, 4), 1);
  assert_int_equal(connect_blob(&blob), 0);
  assert_int_equal(udp_poll(rig.worker, polled, 4), 1); /* CONNECTED comes again */
  blob.port++;
  assert_int_equal(connect_blob(&blob), -EPROTO);
  expect_peer("192.0.2.9:5000");
}

static void address_tells_where_it_is_bound(void **state)
{
  uint8_t bytes[DG_BLOB_BYTES];
  struct pst_blob address = {
      .struct_size = sizeof(address), .capacity = sizeof(bytes) - 1, .bytes = bytes};
  struct dg_blob blob;

  (void)state;
  setup_receiver(LIST({"device", "eth0"}, {"port", "5004"}));
  assert_int_equal(udp_endpoint_address(rig.endpoint, &address), -ENOSPC);
  address.capacity++;
  assert_int_equal(udp_endpoint_address(rig.endpoint, &address), 0);
  assert_true(dg_blob_read(bytes, address.length, &blob));
  assert_true(blob.is_receiver && blob.is_bound);
  assert_int_equal(blob.count, 1);
  assert_int_equal(blob.port, 5004);
  assert_memory_equal(blob.addresses[0] + 12, "\xc0\x00\x02\x01", 4);
}

static void address_of_an_end_bound_anywhere_lists_the_hosts(void **state)
{
  uint8_t bytes[DG_BLOB_BYTES];
  struct pst_blob address = {
      .struct_size = sizeof(address), .capacity = sizeof(bytes), .bytes = bytes};
  struct dg_blob blob;

  (void)state;
  setup_receiver(LIST({"device", "any"}, {"family", "ipv6"}));
  assert_int_equal(udp_endpoint_address(rig.endpoint, &address), 0);
  assert_true(dg_blob_read(bytes, address.length, &blob));
  assert_false(blob.is_bound);
  assert_int_equal(blob.family, 6);
  assert_int_equal(blob.count, 2);
  assert_int_equal(blob.port, 40000);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(first_in_a_network_of_ours_is_taken),
      CASE(else_the_first),
      CASE(on_one_host_it_is_lo),
      CASE(with_a_device_it_is_not_lo),
      CASE(option_chooses_with_the_peers_port_or_its_own),
      CASE(bound_receiver_hears_there_alone),
      CASE(bound_to_loopback_elsewhere_is_out_of_reach),
      CASE(peers_that_do_not_fit_are_refused),
      CASE(no_way_there_is_told_with_the_address),
      CASE(receiver_expects_what_the_sender_said),
      CASE(sender_bound_anywhere_may_come_from_any_address),
      CASE(second_connect_keeps_the_peer),
      CASE(address_tells_where_it_is_bound),
      CASE(address_of_an_end_bound_anywhere_lists_the_hosts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
