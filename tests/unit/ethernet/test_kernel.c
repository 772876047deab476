/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel as witness, on a veth pair: it takes our frames, and we take its. */
#include "link.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message.h"
#include "multicast.h"
#include "neighbour.h"

static uint8_t frame[70000], payload[70000];

union socket_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

static socklen_t socket_address_of(const char *text, uint16_t port, union socket_address *address)
{
  *address = (union socket_address){.any.sa_family = AF_INET};
  if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1) {
    address->v4.sin_port = htons(port);
    return sizeof(address->v4);
  }
  address->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
  assert_int_equal(inet_pton(AF_INET6, text, &address->v6.sin6_addr), 1);
  return sizeof(address->v6);
}

static void send_udp(int fd, const char *to, uint16_t port, uint32_t length)
{
  union socket_address address;
  const socklen_t size = socket_address_of(to, port, &address);

  assert_int_equal(sendto(fd, payload, length, 0, &address.any, size), length);
}

static bool takes_udp(int fd, uint32_t length, int timeout_ms)
{
  struct pollfd waits = {.fd = fd, .events = POLLIN};
  static uint8_t taken[70000];

  if (poll(&waits, 1, timeout_ms) != 1)
    return false;
  assert_int_equal(recv(fd, taken, sizeof(taken), 0), length);
  assert_memory_equal(taken, payload, length);
  return true;
}

/* A frame of that verdict and port, if it comes. */
static uint32_t wait_for(int raw, enum eth_verdict verdict, uint16_t port, uint32_t known,
                         struct eth_packet *packet)
{
  uint32_t length;

  while ((length = link_frame(raw, frame, sizeof(frame), 3000))) {
    const struct eth_bytes bytes = guarded(frame, length, length);
    if (eth_parse(&bytes, known, packet) == verdict && (!port || packet->to.port == port))
      return length;
  }
  return 0;
}

static void tx_checksum(int side, uint32_t on)
{
  struct ethtool_value value = {.cmd = ETHTOOL_STXCSUM, .data = on};
  struct ifreq request = {.ifr_data = (void *)&value};
  int fd;

  link_enter(side);
  fd = socket(AF_INET, SOCK_DGRAM, 0);
  strcpy(request.ifr_name, side ? "vb0" : "va0");
  assert_int_equal(ioctl(fd, SIOCETHTOOL, &request), 0);
  close(fd);
}

static void read_lengths(int raw, int family, const char *from, const char *to, uint32_t most,
                         enum eth_sum_state sum)
{
  const int fd = link_udp(LINK_A, family, 4000);
  struct eth_packet packet;

  for (uint32_t length = 0; length <= most; length += 1 + length / 3) {
    send_udp(fd, to, 5004, length);
    assert_true(wait_for(raw, ETH_IS_UDP, 5004, ETH_PARTIAL_IS_GOOD, &packet));
    assert_int_equal(packet.sum, sum);
    assert_int_equal(packet.length, length);
    assert_memory_equal(frame + packet.offset, payload, length);
    assert_int_equal(packet.from.port, 4000);
    assert_memory_equal(packet.from.address, AT(from), 16);
    assert_memory_equal(packet.to.address, AT(to), 16);
    assert_memory_equal(frame, mac_b, 6);
    assert_memory_equal(frame + 6, mac_a, 6);
  }
  close(fd);
}

static void the_kernels_frames_are_read(void **state)
{
  const int raw = link_raw(LINK_B);

  (void)state;
  for (uint32_t on = 0; on < 2; on++) {
    tx_checksum(LINK_A, on);
    const enum eth_sum_state sum = on ? ETH_SUM_PARTIAL : ETH_SUM_GOOD;
    read_lengths(raw, AF_INET, LINK_V4_A, LINK_V4_B, 8972, sum);
    read_lengths(raw, AF_INET6, LINK_V6_A, LINK_V6_B, 8952, sum);
  }
  close(raw);
}

static void the_kernels_fragments_are_reported(void **state)
{
  const int raw = link_raw(LINK_B), v4 = link_udp(LINK_A, AF_INET, 4000),
            v6 = link_udp(LINK_A, AF_INET6, 4000);
  struct eth_packet packet;

  (void)state;
  send_udp(v4, LINK_V4_B, 5004, 10000);
  assert_true(wait_for(raw, ETH_IS_FRAGMENT, 0, 0, &packet));
  assert_memory_equal(packet.from.address, AT(LINK_V4_A), 16);
  assert_true(wait_for(raw, ETH_IS_FRAGMENT, 0, 0, &packet));
  send_udp(v6, LINK_V6_B, 5004, 10000);
  assert_true(wait_for(raw, ETH_IS_FRAGMENT, 0, 0, &packet));
  assert_memory_equal(packet.from.address, AT(LINK_V6_A), 16);
  close(raw);
  close(v4);
  close(v6);
}

static void our_frames_are_taken(void **state)
{
  static const char *const ends[2][2] = {{LINK_V4_A, LINK_V4_B}, {LINK_V6_A, LINK_V6_B}};
  const int raw = link_raw(LINK_A);

  (void)state;
  for (int i = 0; i < 2; i++) {
    struct eth_template_params params = params_of(ends[i][0], ends[i][1]);
    const int fd = link_udp(LINK_B, i ? AF_INET6 : AF_INET, 5004);
    for (uint32_t length = 0; length <= 8952; length += 1 + length / 3) {
      const uint32_t total = frame_of(&params, payload, length, frame);
      assert_int_equal(send(raw, frame, total, 0), total);
      assert_true(takes_udp(fd, length, 3000));
    }
    params.udp_checksum = ETH_CHECKSUM_OFFLOAD; /* which no device finishes here */
    const uint32_t total = frame_of(&params, payload, 100, frame);
    assert_int_equal(send(raw, frame, total, 0), total);
    assert_false(takes_udp(fd, 100, 50));
    close(fd);
  }
  close(raw);
}

/* Steps of the kernel's neighbour until it has an answer. */
static int resolve(struct eth_kernel *kernel, uint8_t mac[6], char why[ETH_WHY_MAX], uint32_t ms)
{
  const uint64_t end = link_now() + ms * MS;
  struct pollfd waits = {.fd = eth_kernel_fd(kernel), .events = POLLIN};
  int rc;

  while ((rc = eth_kernel_step(kernel, link_now(), mac, why)) == 0 && link_now() < end)
    (void)poll(&waits, 1, 100);
  return rc;
}

static void the_kernel_finds_neighbours(void **state)
{
  static const char *const ends[] = {LINK_V4_B, LINK_V6_B, "198.51.100.7"};
  const uint32_t netdev = link_netdev(LINK_A);
  struct eth_kernel *kernel;
  struct eth_route route;
  char why[ETH_WHY_MAX];
  uint8_t mac[6];

  (void)state;
  link_run(LINK_A, "ip route replace 198.51.100.0/24 via %s mtu 1400", LINK_V4_B);
  for (uint32_t i = 0; i < LENGTH(ends); i++) {
    link_run(LINK_A, "ip neigh flush dev va0");
    assert_int_equal(eth_kernel_open(netdev, AT(ends[i]), &route, &kernel, why), 0);
    assert_memory_equal(route.next_hop, i == 1 ? AT(LINK_V6_B) : AT(LINK_V4_B), 16);
    assert_memory_equal(route.source, i == 1 ? AT(LINK_V6_A) : AT(LINK_V4_A), 16);
    assert_int_equal(route.mtu, i == 2 ? 1400 : 9000);
    assert_int_equal(resolve(kernel, mac, why, 5000), 1);
    assert_memory_equal(mac, mac_b, 6);
    eth_kernel_close(kernel);
  }
}

static void the_kernel_says_why_not(void **state)
{
  const uint32_t netdev = link_netdev(LINK_A);
  struct eth_kernel *kernel;
  char why[ETH_WHY_MAX];
  uint8_t mac[6];

  (void)state;
  assert_int_equal(eth_kernel_open(netdev, AT("203.0.113.1"), NULL, &kernel, why), -ENETUNREACH);
  assert_non_null(strstr(why, "ip route get 203.0.113.1 oif va0"));
  assert_int_equal(eth_kernel_open(netdev, AT("2001:db8::1"), NULL, &kernel, why), -ENETUNREACH);
  assert_int_equal(eth_kernel_open(netdev, AT(LINK_V4_A), NULL, &kernel, why), -EHOSTUNREACH);
  assert_non_null(strstr(why, "an address of this host"));
  assert_int_equal(eth_kernel_open(9999, AT(LINK_V4_B), NULL, &kernel, why), -ENODEV);
  assert_non_null(strstr(why, "ip link"));
  assert_int_equal(eth_kernel_open(1, AT(LINK_V4_B), NULL, &kernel, why), -ENODEV); /* lo */
  assert_int_equal(eth_kernel_open(netdev, AT("10.78.0.77"), NULL, &kernel, why), 0);
  assert_int_equal(resolve(kernel, mac, why, 8000), -EHOSTUNREACH);
  assert_non_null(strstr(why, "10.78.0.77, the next hop to 10.78.0.77, does not answer on va0"));
  eth_kernel_close(kernel);
}

/* The peer has another NIC now; its own first request says so. */
static void a_moved_neighbour_is_followed(void **state)
{
  struct eth_kernel *kernel;
  char why[ETH_WHY_MAX];
  uint8_t mac[6];

  (void)state;
  assert_int_equal(eth_kernel_open(link_netdev(LINK_A), AT(LINK_V4_B), NULL, &kernel, why), 0);
  assert_int_equal(resolve(kernel, mac, why, 5000), 1);
  assert_memory_equal(mac, mac_b, 6);
  link_run(LINK_B, "ip link set vb0 address 02:00:00:00:00:0c && ip neigh flush dev vb0");
  const int fd = link_udp(LINK_B, AF_INET, 0);
  for (uint32_t i = 0; i < 50 && memcmp(mac, mac_c, 6) != 0; i++) {
    send_udp(fd, LINK_V4_A, 9, 1);
    (void)poll(NULL, 0, 100);
    assert_int_equal(eth_kernel_step(kernel, link_now(), mac, why), 1);
    if (i % 12 == 11)
      link_run(LINK_B, "ip neigh flush dev vb0"); /* once what locks the entry is over */
  }
  assert_memory_equal(mac, mac_c, 6);
  close(fd);
  eth_kernel_close(kernel);
  link_run(LINK_B, "ip link set vb0 address 02:00:00:00:00:0b && ip neigh flush dev vb0");
  link_run(LINK_A, "ip neigh flush dev va0");
}

/* Sends and receives for a port without a kernel, until `until`. */
static void drive(struct eth_neighbours *n, int raw, uint64_t until)
{
  for (uint64_t now = link_now(); now < until; now = link_now()) {
    uint8_t made[ETH_CONTROL_MAX];
    struct eth_packet packet;
    uint32_t length;
    while ((length = eth_neighbours_next(n, now, made)))
      assert_int_equal(send(raw, made, length, 0), length);
    if (!(length = link_frame(raw, frame, sizeof(frame), 10)))
      continue;
    const struct eth_bytes bytes = guarded(frame, length, length);
    const enum eth_verdict verdict = eth_parse(&bytes, 0, &packet);
    if (verdict == ETH_IS_ARP || verdict == ETH_IS_ICMPV6)
      (void)eth_neighbours_take(n, &bytes, &packet, now);
  }
}

/* A host without a kernel, on the wire of the two that have one. */
static void our_own_neighbours_and_the_kernels_agree(void **state)
{
  struct eth_neighbours_params params = {.vlan = ETH_UNTAGGED, .own_count = 2, .seed = 1};
  const int raw = link_raw(LINK_A);
  struct eth_neighbours_counts counts;
  struct eth_neighbours *n;
  uint32_t v4, v6;
  uint8_t mac[6];

  (void)state;
  memcpy(params.mac, mac_c, 6);
  memcpy(params.own[0], AT("10.78.0.5"), 16);
  memcpy(params.own[1], AT("fd78::5"), 16);
  assert_int_equal(eth_neighbours_open(&params, link_now(), &n), 0);
  assert_int_equal(eth_neighbours_ask(n, AT(LINK_V4_B), link_now(), &v4), 0);
  assert_int_equal(eth_neighbours_ask(n, AT(LINK_V6_B), link_now(), &v6), 0);
  for (uint32_t i = 0; i < 30 && (eth_neighbours_look(n, v4, mac) != ETH_NEIGHBOUR_KNOWN ||
                                  eth_neighbours_look(n, v6, mac) != ETH_NEIGHBOUR_KNOWN);
       i++)
    drive(n, raw, link_now() + 100 * MS);
  for (uint32_t i = 0; i < 2; i++) {
    memset(mac, 0, 6);
    assert_int_equal(eth_neighbours_look(n, i ? v6 : v4, mac), ETH_NEIGHBOUR_KNOWN);
    assert_memory_equal(mac, mac_b, 6);
  }
  link_run(LINK_B, "ip neigh flush dev vb0");
  for (int i = 0; i < 2; i++) { /* the kernel asks, and we answer */
    const int fd = link_udp(LINK_B, i ? AF_INET6 : AF_INET, 0);
    send_udp(fd, i ? "fd78::5" : "10.78.0.5", 9, 1);
    drive(n, raw, link_now() + 300 * MS);
    close(fd);
  }
  link_run(LINK_B, "ip neigh show 10.78.0.5 dev vb0 | grep -q 02:00:00:00:00:0c");
  link_run(LINK_B, "ip neigh show fd78::5 dev vb0 | grep -q 02:00:00:00:00:0c");
  eth_neighbours_counts(n, &counts);
  assert_true(counts.answered >= 2 && counts.refused == 0);
  eth_neighbours_close(n);
  close(raw);
}

/* A report's record for that group, of the kernel's or of ours; 0: it has none. The kernel reports
 * all groups together that have changed meanwhile. */
static uint32_t record_of(const uint8_t *report, uint32_t length, const uint8_t group[16],
                          uint8_t *record)
{
  const uint32_t bytes = eth_is_v4(group) ? 4 : 16;
  uint32_t at = 8;

  for (uint32_t left = eth_get16(report + 6); left > 0; left--) {
    const uint32_t size = 4 + bytes + eth_get16(report + at + 2) * bytes + report[at + 1] * 4u;
    assert_true(at + size <= length);
    if (memcmp(report + at + 4, group + 16 - bytes, bytes) == 0) {
      memcpy(record, report + at, size);
      return size;
    }
    at += size;
  }
  return 0;
}

/* The kernel's record for that group, if a report with one comes. */
static uint32_t kernel_record(int raw, const uint8_t group[16], uint8_t *record)
{
  const bool is_v4 = eth_is_v4(group);
  struct eth_packet packet;

  while (wait_for(raw, is_v4 ? ETH_IS_IGMP : ETH_IS_ICMPV6, 0, 0, &packet)) {
    const uint8_t *report = frame + packet.offset;
    uint32_t length;
    if (report[0] == (is_v4 ? ETH_IGMP3_REPORT : ETH_MLD2_REPORT) && packet.has_alert &&
        packet.hop_limit == 1 && (length = record_of(report, packet.length, group, record)))
      return length;
  }
  return 0;
}

static uint32_t our_record(const uint8_t group[16], const uint8_t *source, uint8_t *record)
{
  struct eth_groups_params params = {.vlan = ETH_UNTAGGED};
  struct eth_groups *groups;
  struct eth_packet packet;
  uint8_t made[ETH_CONTROL_MAX];

  memcpy(params.mac, mac_c, 6);
  memcpy(params.own_v4, AT("10.78.0.5"), 16);
  assert_int_equal(eth_groups_open(&params, &groups), 0);
  assert_int_equal(eth_groups_join(groups, group, source, link_now()), 0);
  const uint32_t length = eth_groups_next(groups, link_now(), made);
  const enum eth_verdict verdict = parse(made, length, &packet);
  assert_true(verdict == ETH_IS_IGMP || verdict == ETH_IS_ICMPV6);
  eth_groups_close(groups);
  return record_of(made + packet.offset, packet.length, group, record);
}

/* For each join, the kernel's report and ours have equal records. */
static void memberships_are_reported_as_the_kernel_does(void **state)
{
  static const char *const joins[4][2] = {{"239.7.8.9", NULL},
                                          {"232.7.8.9", "10.78.0.2"},
                                          {"ff35::7:8", NULL},
                                          {"ff35::7:9", "fd78::2"}};
  const int raw = link_raw(LINK_B);
  const uint32_t netdev = link_netdev(LINK_A);
  uint8_t theirs[64], ours[64];
  char why[ETH_WHY_MAX];

  (void)state;
  for (uint32_t i = 0; i < LENGTH(joins); i++) {
    const struct dg_source group = end_of(joins[i][0], 0),
                           from = end_of(joins[i][1] ? joins[i][1] : "::", 0);
    const uint8_t *source = joins[i][1] ? from.address : NULL;
    link_enter(LINK_A);
    const int fd = eth_join_kernel(netdev, group.address, source, why);
    assert_true(fd >= 0);
    const uint32_t length = kernel_record(raw, group.address, theirs);
    assert_true(length > 0);
    assert_int_equal(our_record(group.address, source, ours), length);
    assert_memory_equal(ours, theirs, length);
    close(fd);
    assert_int_equal(kernel_record(raw, group.address, theirs), length);
  }
  close(raw);
}

static void joins_that_cannot_be_are_explained(void **state)
{
  const struct dg_source group = end_of("239.1.2.3", 0), none = end_of("10.0.0.1", 0),
                         other = end_of("fd00::1", 0);
  char why[ETH_WHY_MAX];

  (void)state;
  link_enter(LINK_A);
  assert_int_equal(eth_join_kernel(9999, group.address, NULL, why), -ENODEV);
  assert_non_null(strstr(why, "group 239.1.2.3 cannot be joined"));
  assert_int_equal(eth_join_kernel(1, none.address, NULL, why), -EINVAL);
  assert_int_equal(eth_join_kernel(1, group.address, other.address, why), -EINVAL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_kernels_frames_are_read),
      cmocka_unit_test(the_kernels_fragments_are_reported),
      cmocka_unit_test(our_frames_are_taken),
      cmocka_unit_test(the_kernel_finds_neighbours),
      cmocka_unit_test(the_kernel_says_why_not),
      cmocka_unit_test(a_moved_neighbour_is_followed),
      cmocka_unit_test(our_own_neighbours_and_the_kernels_agree),
      cmocka_unit_test(memberships_are_reported_as_the_kernel_does),
      cmocka_unit_test(joins_that_cannot_be_are_explained),
  };
  const char *why = link_open();

  if (why) {
    fprintf(stderr, "skipped: %s\n", why);
    return 77;
  }
  for (uint32_t i = 0; i < sizeof(payload); i++)
    payload[i] = (uint8_t)(i * 31 + i / 256);
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
