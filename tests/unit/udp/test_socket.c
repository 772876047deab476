/* SPDX-License-Identifier: Apache-2.0 */
/* Which options an endpoint sets on its socket, in which order, and what it says where the kernel
 * refuses one. */
#include "support.h"

#include <linux/net_tstamp.h>
#include <netinet/udp.h>

static uint32_t bound_at(void)
{
  for (uint32_t i = 0; i < kernel.call_count; i++)
    if (strcmp(kernel.calls[i].what, "bind") == 0)
      return i;
  fail_msg("nothing was bound");
  return 0;
}

static void expect_bound(const char *printed)
{
  char text[80];
  dg_address_print(&kernel.calls[bound_at()].address, text, sizeof(text));
  assert_string_equal(text, printed);
}

/* From bind() on datagrams arrive. */
static void receiver_is_set_before_it_is_bound(void **state)
{
  (void)state;
  setup_receiver(LIST({"port", "5004"}, {"rcvbuf", "100000"}));
  assert_true(call_at(option_set(SOL_SOCKET, SO_RCVBUFFORCE)) < bound_at());
  assert_true(call_at(option_set(SOL_SOCKET, SO_RXQ_OVFL)) < bound_at());
  assert_true(call_at(option_set(IPPROTO_UDP, UDP_GRO)) < bound_at());
  assert_true(call_at(option_set(SOL_SOCKET, SO_TIMESTAMPING)) < bound_at());
  assert_int_equal(option_set(SOL_SOCKET, SO_RCVBUFFORCE)->value, 100000);
  assert_null(option_set(SOL_SOCKET, SO_RCVBUF));
  assert_null(option_set(SOL_SOCKET, SO_REUSEADDR));
  expect_bound("0.0.0.0:5004");
}

static void who_stamps_is_the_options(void **state)
{
  const int software = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  const int hardware = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;

  setup_receiver(LIST());
  assert_int_equal(option_set(SOL_SOCKET, SO_TIMESTAMPING)->value, software);
  teardown(state);
  reset(state);
  setup_receiver(LIST({"timestamps", "hardware"}));
  assert_int_equal(option_set(SOL_SOCKET, SO_TIMESTAMPING)->value, software | hardware);
  teardown(state);
  reset(state);
  setup_receiver(LIST({"timestamps", "off"}));
  assert_null(option_set(SOL_SOCKET, SO_TIMESTAMPING));
}

static void kernel_without_gro_gets_no_spill(void **state)
{
  (void)state;
  kernel.refused_level = IPPROTO_UDP;
  kernel.refused_name = UDP_GRO;
  kernel.refused_errno = ENOPROTOOPT;
  setup_receiver(LIST());
  assert_false(rig.endpoint->rx->gro);
  assert_null(rig.endpoint->rx->spill);
  assert_string_equal(fake_log(), "");
}

static void ordinary_users_get_what_rmem_max_allows(void **state)
{
  kernel.refused_level = SOL_SOCKET;
  kernel.refused_name = SO_RCVBUFFORCE;
  kernel.refused_errno = EPERM;
  kernel.buffer = 99999;
  setup_receiver(LIST({"rcvbuf", "100000"}));
  assert_int_equal(option_set(SOL_SOCKET, SO_RCVBUF)->value, 100000);
  assert_non_null(
      strstr(fake_log(), "1 camera: the kernel gives rcvbuf 99999 bytes of the 100000"));
  teardown(state);
  reset(state);
  kernel.refused_level = SOL_SOCKET;
  kernel.refused_name = SO_RCVBUFFORCE;
  kernel.refused_errno = EPERM;
  kernel.buffer = 100000;
  setup_receiver(LIST({"rcvbuf", "100000"}));
  assert_string_equal(fake_log(), "");
}

static void group_is_joined_on_the_device_and_kept_apart(void **state)
{
  (void)state;
  setup_receiver(LIST({"group", "239.1.2.3"}, {"port", "5004"}, {"device", "eth0"}));
  expect_bound("239.1.2.3:5004"); /* not what comes to other addresses of that port */
  assert_true(call_at(option_set(SOL_SOCKET, SO_REUSEADDR)) < bound_at());
  assert_true(call_at(option_set(IPPROTO_IP, MCAST_JOIN_GROUP)) > bound_at());
  assert_null(option_set(IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP));
  assert_int_equal(option_set(IPPROTO_IP, IP_MULTICAST_ALL)->value, 0);
  assert_null(option_set(SOL_SOCKET, SO_BINDTOIFINDEX));
}

static void ipv6_group_of_one_source(void **state)
{
  (void)state;
  setup_receiver(LIST({"group", "ff15::1"}, {"source", "2001:db8::9"}, {"device", "eth0"}));
  assert_non_null(option_set(IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP));
  assert_null(option_set(IPPROTO_IPV6, MCAST_JOIN_GROUP));
  assert_int_equal(option_set(SOL_SOCKET, SO_BINDTOIFINDEX)->value, 2);
  assert_int_equal(option_set(IPPROTO_IPV6, IPV6_V6ONLY)->value, 1);
  assert_int_equal(option_set(IPPROTO_IPV6, IPV6_MULTICAST_ALL)->value, 0);
  assert_int_equal(kernel.calls[bound_at()].address.v6.sin6_scope_id, 2);
}

static void sender_hears_errors_and_sets_its_packets(void **state)
{
  (void)state;
  setup_sender(LIST({"to", "192.0.2.9:5000"}, {"ttl", "7"}, {"dscp", "46"},
                    {"dont_fragment", "true"}, {"device", "eth0"}, {"source_port", "99"}));
  assert_int_equal(option_set(IPPROTO_IP, IP_RECVERR)->value, 1);
  assert_int_equal(option_set(SOL_SOCKET, SO_BROADCAST)->value, 1);
  assert_int_equal(option_set(IPPROTO_IP, IP_TTL)->value, 7);
  assert_int_equal(option_set(IPPROTO_IP, IP_MULTICAST_TTL)->value, 7);
  assert_int_equal(option_set(IPPROTO_IP, IP_TOS)->value, 46 << 2);
  assert_int_equal(option_set(IPPROTO_IP, IP_MTU_DISCOVER)->value, IP_PMTUDISC_DO);
  assert_non_null(option_set(IPPROTO_IP, IP_MULTICAST_IF));
  assert_null(option_set(SOL_SOCKET, SO_SNDBUFFORCE));
  expect_bound("192.0.2.1:99");
}

static void sender_by_default_changes_nothing_else(void **state)
{
  (void)state;
  setup_sender(LIST());
  assert_int_equal(kernel.call_count, 2); /* RECVERR and bind */
  expect_bound("0.0.0.0:0");
}

static void ipv6_sender_has_the_options_of_ipv6(void **state)
{
  (void)state;
  setup_sender(
      LIST({"to", "[2001:db8::9]:5000"}, {"ttl", "7"}, {"dscp", "1"}, {"dont_fragment", "true"}));
  assert_int_equal(option_set(IPPROTO_IPV6, IPV6_RECVERR)->value, 1);
  assert_int_equal(option_set(IPPROTO_IPV6, IPV6_UNICAST_HOPS)->value, 7);
  assert_int_equal(option_set(IPPROTO_IPV6, IPV6_MULTICAST_HOPS)->value, 7);
  assert_int_equal(option_set(IPPROTO_IPV6, IPV6_TCLASS)->value, 4);
  assert_int_equal(option_set(IPPROTO_IPV6, IPV6_MTU_DISCOVER)->value, IPV6_PMTUDISC_DO);
  assert_null(option_set(SOL_SOCKET, SO_BROADCAST));
}

/* ---- Where it is bound
 * --------------------------------------------------------------------------- */

static void receiver_is_bound_where_control_listens(void **state)
{
  assert_int_equal(open_device(LIST(), 0, "192.0.2.1"), 0);
  setup_receiver(LIST());
  expect_bound("192.0.2.1:0");
  teardown(state);
  reset(state);
  assert_int_equal(open_device(LIST({"device", "any"}), 0, "192.0.2.1"), 0);
  setup_receiver(LIST());
  expect_bound("0.0.0.0:0");
  teardown(state);
  reset(state);
  assert_int_equal(open_device(LIST(), 0, "192.0.2.1"), 0);
  setup_sender(LIST());
  expect_bound("0.0.0.0:0"); /* the route chooses */
  teardown(state);
  reset(state);
  assert_int_equal(open_device(LIST({"family", "ipv6"}), PST_PLAN_IN_PROCESS, NULL), 0);
  setup_receiver(LIST());
  expect_bound("[::1]:0");
  teardown(state);
  reset(state);
  /* An address of the other family that is not lo's says nothing of this one. */
  assert_int_equal(open_device(LIST({"family", "ipv6"}), 0, "192.0.2.1"), 0);
  setup_receiver(LIST());
  expect_bound("[::]:0");
}

static void addresses_of_two_families_are_refused(void **state)
{
  (void)state;
  assert_int_equal(open_sender(LIST({"to", "[2001:db8::9]:1"}, {"family", "ipv4"})), -EINVAL);
  assert_non_null(strstr(fake_log(), "must be all of IPv4, or all of IPv6"));
  fake_log_clear();
  assert_int_equal(open_receiver(LIST({"group", "192.0.2.9"})), -EINVAL);
  assert_non_null(strstr(fake_log(), "group: not a multicast address"));
  fake_log_clear();
  assert_int_equal(open_receiver(LIST({"group", "ff15::1%eth7"})), -ENODEV);
  assert_non_null(strstr(fake_log(), "this host has no interface eth7"));
  assert_int_equal(rig.worker->endpoint_count, 0);
  assert_int_equal(rig.ring->cpu.endpoints, 0);
}

static void expect_bind_fails(int error, const struct fake_option *options, const char *remedy)
{
  reset(NULL);
  kernel.bind_errno = error;
  assert_int_equal(open_receiver(options), -error);
  if (!strstr(fake_log(), remedy))
    fail_msg("\"%s\" is not in: %s", remedy, fake_log());
  teardown(NULL);
  reset(NULL);
}

static void bind_that_fails_says_what_helps(void **state)
{
  (void)state;
  expect_bind_fails(EADDRINUSE, LIST({"port", "5004"}),
                    "camera: cannot bind to 0.0.0.0:5004: Address already in use; another endpoint "
                    "or program has that port, choose another `port`");
  expect_bind_fails(EADDRNOTAVAIL, LIST({"device", "192.0.2.1"}), "see `device`");
  expect_bind_fails(EADDRNOTAVAIL, LIST(), "`control` listens there");
  expect_bind_fails(EACCES, LIST({"port", "80"}), "CAP_NET_BIND_SERVICE");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(receiver_is_set_before_it_is_bound),
      CASE(who_stamps_is_the_options),
      CASE(kernel_without_gro_gets_no_spill),
      CASE(ordinary_users_get_what_rmem_max_allows),
      CASE(group_is_joined_on_the_device_and_kept_apart),
      CASE(ipv6_group_of_one_source),
      CASE(sender_hears_errors_and_sets_its_packets),
      CASE(sender_by_default_changes_nothing_else),
      CASE(ipv6_sender_has_the_options_of_ipv6),
      CASE(receiver_is_bound_where_control_listens),
      CASE(addresses_of_two_families_are_refused),
      CASE(bind_that_fails_says_what_helps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
