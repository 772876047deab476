/* SPDX-License-Identifier: Apache-2.0 */
/* tshark as witness: of each kind of frame that is made, it has nothing to say against any. */
#include "support.h"

#include <pcap/pcap.h>
#include <unistd.h>

#include "message.h"
#include "multicast.h"
#include "neighbour.h"

/* Without the user's own settings. */
#define TSHARK                                                                                     \
  "HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent tshark -n -o ip.check_checksum:TRUE "            \
  "-o udp.check_checksum:TRUE"
/* Malformed, a bad checksum of any protocol, or an expert's warning or error. */
#define COMPLAINTS                                                                                 \
  "_ws.malformed || _ws.expert.severity >= 0x600000 || ip.checksum.status == 0 || "                \
  "udp.checksum.status == 0 || icmpv6.checksum.status == 0 || igmp.checksum.status == 0"

static char folder[] = "/tmp/penstock-frames-XXXXXX", path[64];
static pcap_dumper_t *dumper;
static uint32_t written;

static void begin(void)
{
  pcap_t *capture = pcap_open_dead(DLT_EN10MB, 65535);

  dumper = pcap_dump_open(capture, path);
  assert_non_null(dumper);
  pcap_close(capture);
  written = 0;
}

static void put(const uint8_t *frame, uint32_t length)
{
  const struct pcap_pkthdr header = {
      .ts = {.tv_sec = 1700000000 + written}, .caplen = length, .len = length};

  pcap_dump((u_char *)dumper, &header, frame);
  written++;
}

#define FILTERS_MAX 16u

/* Shows the frames of the file that a display filter has. */
static void show(const char *filter)
{
  char command[700], line[1000];

  snprintf(command, sizeof(command), TSHARK " -r %s -Y '%s' 2>/dev/null", path, filter);
  FILE *output = popen(command, "r");
  assert_non_null(output);
  while (fgets(line, sizeof(line), output))
    print_message("%s", line);
  assert_int_equal(pclose(output), 0);
}

/* How many frames of the file each display filter has, by one run: its table has one row, of the
 * time, then frames and bytes for each. */
static void count_all(const char *const *filters, uint32_t n, uint32_t *counts)
{
  char command[2000], line[4000];
  uint32_t found = 0;
  int at = snprintf(command, sizeof(command), TSHARK " -q -r %s -z 'io,stat,0", path);

  assert_true(n <= FILTERS_MAX);
  for (uint32_t i = 0; i < n; i++)
    at += snprintf(command + at, sizeof(command) - (size_t)at, ",%s", filters[i]);
  at += snprintf(command + at, sizeof(command) - (size_t)at, "' 2>/dev/null");
  assert_true((size_t)at < sizeof(command));
  FILE *output = popen(command, "r");
  assert_non_null(output);
  while (fgets(line, sizeof(line), output)) {
    char *rest = strstr(line, "<>") ? strchr(strstr(line, "<>"), '|') : NULL;
    for (; rest && found < n && rest[1] != '\n'; rest = strchr(strchr(rest + 1, '|') + 1, '|'))
      counts[found++] = (uint32_t)strtoul(rest + 1, NULL, 10);
  }
  assert_int_equal(pclose(output), 0);
  assert_int_equal(found, n);
}

static void put_datagrams(void)
{
  static const char *const ends[4][2] = {{"192.0.2.1", "192.0.2.2"},
                                         {"192.0.2.1", "239.1.2.3"},
                                         {"2001:db8::1", "2001:db8::2"},
                                         {"2001:db8::1", "ff0e::1:2"}};
  static uint8_t payload[8900], frame[9000];

  for (uint32_t i = 0; i < sizeof(payload); i++)
    payload[i] = (uint8_t)(i * 13);
  for (uint32_t i = 0; i < 8; i++) {
    struct eth_template_params params = params_of(ends[i % 4][0], ends[i % 4][1]);
    params.vlan = i < 4 ? ETH_UNTAGGED : 5u << 13 | 100;
    params.traffic_class = 0xb8;
    params.from.port = params.to.port = 40000;
    if (i & 1)
      eth_multicast_mac(params.to.address, params.mac_to);
    for (uint32_t length = 0; length < 8900; length = length * 3 + 1) {
      const uint32_t total = frame_of(&params, payload, length, frame);
      memset(frame + total, 0, eth_padding(total));
      put(frame, total + eth_padding(total));
    }
  }
}

static void put_neighbours(void)
{
  struct eth_neighbours_params params = {.vlan = ETH_UNTAGGED, .own_count = 2};
  struct eth_neighbours *a, *b;
  uint8_t frame[ETH_CONTROL_MAX];
  uint32_t index, length;

  memcpy(params.mac, mac_a, 6);
  memcpy(params.own[0], AT("192.0.2.1"), 16);
  memcpy(params.own[1], AT("2001:db8::1"), 16);
  assert_int_equal(eth_neighbours_open(&params, 0, &a), 0);
  memcpy(params.mac, mac_b, 6);
  memcpy(params.own[0], AT("192.0.2.2"), 16);
  memcpy(params.own[1], AT("2001:db8::2"), 16);
  assert_int_equal(eth_neighbours_open(&params, 0, &b), 0);
  assert_int_equal(eth_neighbours_ask(a, AT("192.0.2.2"), 0, &index), 0);
  assert_int_equal(eth_neighbours_ask(a, AT("2001:db8::2"), 0, &index), 0);
  for (struct eth_neighbours *from = a, *to = b, *swap;
       (length = eth_neighbours_next(from, 0, frame)); swap = from, from = to, to = swap) {
    do {
      const struct eth_bytes bytes = {frame, length, length};
      struct eth_packet packet;
      (void)eth_parse(&bytes, 0, &packet);
      assert_true(eth_neighbours_take(to, &bytes, &packet, 0));
      put(frame, length);
    } while ((length = eth_neighbours_next(from, 0, frame)));
  }
  eth_neighbours_close(a);
  eth_neighbours_close(b);
}

/* A query, so that an older version is spoken. */
static void hear_older(struct eth_groups *groups)
{
  const struct eth_link link = {{2, 0, 0, 0, 0, 0xc}, ETH_UNTAGGED};
  uint8_t frame[ETH_CONTROL_MAX], igmp[8] = {0x11, 100}, mld[24] = {130, [4] = 3};
  const struct dg_source router = end_of("fe80::1", 0), all = end_of("ff02::1", 0);
  const struct eth_icmpv6 query = {.from = router.address,
                                   .to = all.address,
                                   .hop_limit = 1,
                                   .has_alert = true,
                                   .message = mld,
                                   .length = sizeof(mld)};

  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t length =
        i ? eth_icmpv6_write(frame, &link, &query)
          : eth_igmp_write(frame, &link, AT("192.0.2.254"), AT("224.0.0.1"), igmp, 8);
    const struct eth_bytes bytes = {frame, length, length};
    struct eth_packet packet;
    (void)eth_parse(&bytes, 0, &packet);
    assert_true(eth_groups_take(groups, &bytes, &packet, 0));
    put(frame, length);
  }
}

static void put_memberships(void)
{
  struct eth_groups_params params = {.vlan = 7};
  const struct dg_source v4 = end_of("192.0.2.9", 0), v6 = end_of("2001:db8::9", 0);
  struct eth_groups *groups;
  uint8_t frame[ETH_CONTROL_MAX];
  uint32_t length;

  memcpy(params.mac, mac_a, 6);
  memcpy(params.own_v4, AT("192.0.2.1"), 16);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(eth_groups_open(&params, &groups), 0);
    if (i)
      hear_older(groups);
    assert_int_equal(eth_groups_join(groups, AT("239.1.2.3"), NULL, 0), 0);
    assert_int_equal(eth_groups_join(groups, AT("232.1.2.3"), v4.address, 0), 0);
    assert_int_equal(eth_groups_join(groups, AT("ff15::1"), NULL, 0), 0);
    assert_int_equal(eth_groups_join(groups, AT("ff35::1"), v6.address, 0), 0);
    while ((length = eth_groups_next(groups, 0, frame)))
      put(frame, length);
    assert_int_equal(eth_groups_leave(groups, AT("239.1.2.3"), NULL, 0), 0);
    assert_int_equal(eth_groups_leave(groups, AT("232.1.2.3"), v4.address, 0), 0);
    assert_int_equal(eth_groups_leave(groups, AT("ff15::1"), NULL, 0), 0);
    assert_int_equal(eth_groups_leave(groups, AT("ff35::1"), v6.address, 0), 0);
    while ((length = eth_groups_next(groups, 0, frame)))
      put(frame, length);
    eth_groups_close(groups);
  }
}

static void tshark_has_no_complaint(void **state)
{
  (void)state;
  begin();
  put_datagrams();
  const uint32_t datagrams = written;
  put_neighbours();
  put_memberships();
  pcap_dump_close(dumper);
  const struct {
    const char *filter;
    uint32_t frames;
  } rows[] = {
      {"frame", written},
      {COMPLAINTS, 0},
      {"udp && udp.checksum.status == 1", datagrams},
      {"udp && vlan.id == 100 && vlan.priority == 5", datagrams / 2},
      {"arp.isgratuitous == 1", 2},
      {"arp.opcode == 2", 1},
      {"icmpv6.type == 135", 1},
      {"icmpv6.type == 136", 5},
      {"igmp.version == 3 && igmp.type == 0x22", 2},
      {"igmp.version == 2 && igmp.type == 0x16", 2},
      {"igmp.type == 0x17", 2},
      {"icmpv6.type == 143", 2},
      {"icmpv6.type == 131", 2},
      {"icmpv6.type == 132", 2},
  };
  const char *filters[LENGTH(rows)];
  uint32_t counts[LENGTH(rows)];
  for (uint32_t i = 0; i < LENGTH(rows); i++)
    filters[i] = rows[i].filter;
  count_all(filters, LENGTH(rows), counts);
  for (uint32_t i = 0; i < LENGTH(rows); i++)
    if (counts[i] != rows[i].frames) {
      show(rows[i].filter);
      fail_msg("%s: %u frames instead of %u", rows[i].filter, counts[i], rows[i].frames);
    }
}

/* The witness sees what is wrong, so that its silence says something. */
static void tshark_would_complain(void **state)
{
  struct eth_template_params params = params_of("192.0.2.1", "192.0.2.2");
  uint8_t frame[100];
  uint32_t complaints;

  (void)state;
  begin();
  for (uint32_t at = 24; at <= 44; at += 10) { /* IP's checksum, UDP's ports, the payload */
    const uint32_t total = frame_of(&params, "0123456789", 10, frame);
    frame[at] ^= 0x10;
    put(frame, total);
  }
  pcap_dump_close(dumper);
  count_all((const char *const[]){COMPLAINTS}, 1, &complaints);
  assert_int_equal(complaints, 3);
}

static int remove_all(void **state)
{
  (void)state;
  (void)unlink(path);
  return rmdir(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tshark_has_no_complaint),
      cmocka_unit_test(tshark_would_complain),
  };

  if (system("command -v tshark >/dev/null") != 0) {
    fprintf(stderr, "skipped: tshark is not installed\n");
    return 77;
  }
  if (!mkdtemp(folder))
    return 1;
  snprintf(path, sizeof(path), "%s/frames.pcap", folder);
  return cmocka_run_group_tests(tests, NULL, remove_all) ? 1 : 0;
}
