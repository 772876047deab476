/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/verbs/counters.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "counters.h"

static char folder[] = "/tmp/penstock-counters-XXXXXX";

static void put(const char *name, const char *value)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(value, file) >= 0);
  fclose(file);
}

static void those_that_grew_are_named(void **state)
{
  (void)state;
  char text[256];
  struct vb_counters before, now;
  vb_counters_read(folder, NULL, &now);
  vb_counters_text(&now, &now, text, sizeof(text));
  assert_string_equal(text, "none can be read");
  char path[128];
  snprintf(path, sizeof(path), "%s/hw_counters", folder);
  assert_int_equal(mkdir(path, 0700), 0);
  put("hw_counters/completer_retry_err", "3\n");
  put("hw_counters/sent_pkts", "10\n");
  put("hw_counters/duplicate_request", "0\n");
  vb_counters_read(folder, NULL, &before);
  assert_int_equal(before.count, 3);
  vb_counters_text(&before, &before, text, sizeof(text));
  assert_string_equal(text, "none has grown");
  put("hw_counters/completer_retry_err", "363\n");
  put("hw_counters/sent_pkts", "999\n");
  vb_counters_read(folder, NULL, &now);
  vb_counters_text(&before, &now, text, sizeof(text));
  assert_string_equal(text, "completer_retry_err +360");
  put("hw_counters/duplicate_request", "18446744073709551615\n");
  vb_counters_read(folder, NULL, &now);
  vb_counters_text(&before, &now, text, sizeof(text));
  assert_non_null(strstr(text, "duplicate_request +18446744073709551615"));
  assert_non_null(strstr(text, ", "));
  memset(text, '#', sizeof(text));
  vb_counters_text(&before, &now, text, 10);
  assert_int_equal(strlen(text), 9);
}

static void have(struct vb_counters *counters, const char *name, uint64_t value)
{
  uint32_t at = 0;
  while (at < counters->count && strcmp(counters->at[at].name, name) != 0)
    at++;
  counters->count += at == counters->count;
  snprintf(counters->at[at].name, sizeof(counters->at[at].name), "%s", name);
  counters->at[at].value = value;
}

/* Counters of repeated packets are reported; those that grow when all is well are not. */
static void a_slow_link_is_reported(void **state)
{
  (void)state;
  const struct vb_counters before = {.count = 2,
                                     .at = {{"out_of_sequence", 5}, {"port_rcv_data", 9}}};
  struct vb_counters now = before;
  char text[512];
  have(&now, "port_rcv_data", 1000);
  assert_false(vb_counters_slow(&before, &now, text, sizeof(text)));
  assert_string_equal(text, "");
  have(&now, "port_xmit_wait", 700);
  have(&now, "np_cnp_sent", 800);
  have(&now, "rp_cnp_handled", 900);
  have(&now, "rnr_nak_retry_err", 1000);
  have(&now, "rcvd_rnr_err", 1100);
  assert_false(vb_counters_slow(&before, &now, text, sizeof(text)));
  assert_string_equal(text, "np_cnp_sent +800, rp_cnp_handled +900, rnr_nak_retry_err +1000, "
                            "rcvd_rnr_err +1100, port_xmit_wait +700");
  have(&now, "out_of_sequence", 102);
  have(&now, "roce_adp_retrans", 2);
  assert_false(vb_counters_slow(&before, &now, text, sizeof(text)));
  have(&now, "roce_adp_retrans", 3);
  assert_true(vb_counters_slow(&before, &now, text, sizeof(text)));
  assert_ptr_equal(strstr(text, "out_of_sequence +97, roce_adp_retrans +3, np_cnp_sent +800"),
                   text);
  vb_counters_text(&before, &now, text, sizeof(text));
  assert_non_null(strstr(text, "roce_adp_retrans +3"));
}

/* One packet in 1000. */
static void a_few_of_many_packets_are_not_told(void **state)
{
  (void)state;
  static const char *const names[] = {"port_xmit_packets", "sent_pkts"};
  char text[256];
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    struct vb_counters before = {0}, now = {0};
    have(&before, names[i], 50);
    have(&now, names[i], 200050);
    have(&now, "out_of_sequence", 199);
    assert_false(vb_counters_slow(&before, &now, text, sizeof(text)));
    have(&now, "out_of_sequence", 200);
    assert_true(vb_counters_slow(&before, &now, text, sizeof(text)));
  }
}

static void expect(const char *port, const char *host, const struct vb_counters *before,
                   const char *expected)
{
  char text[512];
  struct vb_counters now;

  vb_counters_read(port, host, &now);
  vb_counters_text(before, &now, text, sizeof(text));
  assert_string_equal(text, expected);
}

static void packets_without_an_answer_are_reported(void **state)
{
  (void)state;
  struct vb_counters before;
  put("hw_counters/sent_pkts", "10\n");
  put("hw_counters/rcvd_pkts", "7\n");
  vb_counters_read(folder, NULL, &before);
  expect(folder, NULL, &before, "sent_pkts +0, rcvd_pkts +0");
  put("hw_counters/sent_pkts", "14\n");
  expect(folder, NULL, &before, "sent_pkts +4, rcvd_pkts +0");
  put("hw_counters/rcvd_pkts", "8\n");
  expect(folder, NULL, &before, "none has grown");
}

static void refusals_of_routers_are_reported(void **state)
{
  (void)state;
  char path[128];
  struct vb_counters before;
  for (int family = 4; family <= 6; family += 2) {
    const char *prefix = family == 4 ? "Icmp" : "Icmp6";
    const char *shape =
        family == 4 ? "Ip: Forwarding InTimeExcds\nIp: 1 77\n"
                      "Icmp: InMsgs InDestUnreachs InTimeExcds OutTimeExcds\nIcmp: 9 %u %u 5\n"
                      "IcmpMsg: InType3\nIcmpMsg: 8\n"
                    : "Ip6InDelivers  \t3\nIcmp6InDestUnreachs    \t%u\nIcmp6InTimeExcds   \t%u\n"
                      "Icmp6OutTimeExcds  \t5\n";
    char text[256], expected[512];
    const char *name = family == 4 ? "snmp" : "snmp6";
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(text, sizeof(text), shape, 3, 4);
    put(name, text);
    vb_counters_read("/nowhere", path, &before);
    expect("/nowhere", path, &before, "none has grown");
    snprintf(text, sizeof(text), shape, 4, 24);
    put(name, text);
    snprintf(expected, sizeof(expected),
             "%s InDestUnreachs +1 (packets of this host were refused: no route, a closed port or "
             "a link's MTU), %s InTimeExcds +20 (a router's word that the hop limit of this host's "
             "packets ran out)",
             prefix, prefix);
    expect("/nowhere", path, &before, expected);
    /* One that cannot be read is not invented. */
    expect("/nowhere", "/nowhere", &before, "none can be read");
  }
}

static void the_host_counts_for_its_own_addresses_alone(void **state)
{
  (void)state;
  struct vb_gid gid = {.type = VB_GID_ROCE_V2};
  assert_true(vb_gid_parse("127.0.0.1", gid.raw));
  const char *path = vb_counters_host(&gid);
  assert_non_null(path);
  struct vb_counters now;
  vb_counters_read("/nowhere", path, &now);
  assert_int_equal(now.count, 2);
  gid.type = VB_GID_ROCE_V1;
  assert_null(vb_counters_host(&gid));
  gid.type = VB_GID_ROCE_V2;
  assert_true(vb_gid_parse("192.0.2.77", gid.raw));
  assert_null(vb_counters_host(&gid));
  assert_true(vb_gid_parse("2001:db8::77", gid.raw));
  assert_null(vb_counters_host(&gid));
}

static int set_up(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
  (void)state;
  static const char *const files[] = {"hw_counters/completer_retry_err",
                                      "hw_counters/sent_pkts",
                                      "hw_counters/rcvd_pkts",
                                      "hw_counters/duplicate_request",
                                      "hw_counters",
                                      "snmp",
                                      "snmp6",
                                      ""};
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
    remove(path);
  }
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_that_grew_are_named),
      cmocka_unit_test(a_slow_link_is_reported),
      cmocka_unit_test(a_few_of_many_packets_are_not_told),
      cmocka_unit_test(packets_without_an_answer_are_reported),
      cmocka_unit_test(refusals_of_routers_are_reported),
      cmocka_unit_test(the_host_counts_for_its_own_addresses_alone),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down) ? 1 : 0;
}
