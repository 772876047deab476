/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of udp: snmp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support.h"

static FILE *file_of(const char *text)
{
  FILE *file = fmemopen((void *)text, strlen(text), "r");

  assert_non_null(file);
  return file;
}

static void columns_are_found_by_name(void **state)
{
  static const char text[] =
      "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
      "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors "
      "IgnoredMulti MemErrors\nUdp: 11 12 13 14 15 16 17 18 19\n"
      "UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors "
      "IgnoredMulti MemErrors\nUdpLite: 1 2 3 4 5 6 7 8 9\n";
  struct udp_host_drops drops = {0};
  FILE *file = file_of(text);

  (void)state;
  udp_drops_read4(file, &drops);
  fclose(file);
  assert_int_equal(drops.bad_sums, 17);
  assert_int_equal(drops.full, 15 + 19);
}

static void an_older_kernel_has_fewer_columns(void **state)
{
  struct udp_host_drops drops = {0};
  FILE *file = file_of("Udp: InDatagrams RcvbufErrors InCsumErrors\nUdp: 1 2 3\n");

  (void)state;
  udp_drops_read4(file, &drops);
  fclose(file);
  assert_int_equal(drops.bad_sums, 3);
  assert_int_equal(drops.full, 2);
}

static void rows_are_found_by_name(void **state)
{
  struct udp_host_drops drops = {0};
  FILE *file = file_of("Ip6InReceives \t 7\nUdp6RcvbufErrors \t 21\nUdp6InCsumErrors \t 22\n"
                       "Udp6MemErrors \t 23\nUdpLite6InCsumErrors \t 99\n");

  (void)state;
  udp_drops_read6(file, &drops);
  fclose(file);
  assert_int_equal(drops.bad_sums, 22);
  assert_int_equal(drops.full, 44);
}

/* Others' troubles are not this socket's. */
static void the_least_is_claimed(void **state)
{
  static const struct {
    uint64_t drops, bad_sums, full, expected;
  } cases[] = {{100, 100, 0, 100}, {100, 0, 100, 0}, {100, 40, 60, 40}, {100, 100, 100, 0},
               {100, 90, 60, 40},  {100, 7, 0, 7},   {0, 50, 50, 0}};
  const struct udp_host_drops before = {1000, 2000};

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const struct udp_host_drops now = {1000 + cases[i].bad_sums, 2000 + cases[i].full};
    assert_int_equal(udp_drops_bad_sums(cases[i].drops, &before, &now), cases[i].expected);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(columns_are_found_by_name),
      cmocka_unit_test(an_older_kernel_has_fewer_columns),
      cmocka_unit_test(rows_are_found_by_name),
      cmocka_unit_test(the_least_is_claimed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
