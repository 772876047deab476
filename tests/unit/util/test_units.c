/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/util/units.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/units.h"

struct sample {
  const char *text;
  int rc;
  uint64_t value;
};

static void check(uint32_t type, const struct sample *samples, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    uint64_t value = 77;
    int rc = units_parse(type, samples[i].text, &value);
    if (rc != samples[i].rc || value != (rc ? 77 : samples[i].value))
      fail_msg("\"%s\": rc %d, value %llu", samples[i].text, rc, (unsigned long long)value);
  }
}
#define CHECK(type, samples) check(type, samples, sizeof(samples) / sizeof((samples)[0]))

static void whole_numbers(void **state)
{
  (void)state;
  static const struct sample samples[] = {{"0", 0, 0},
                                          {"4096", 0, 4096},
                                          {"007", 0, 7},
                                          {"18446744073709551615", 0, UINT64_MAX},
                                          {"18446744073709551616", -ERANGE, 0},
                                          {"99999999999999999999999", -ERANGE, 0},
                                          {"", -EINVAL, 0},
                                          {"-1", -EINVAL, 0},
                                          {"+1", -EINVAL, 0},
                                          {" 1", -EINVAL, 0},
                                          {"1 ", -EINVAL, 0},
                                          {"1.0", -EINVAL, 0},
                                          {"0x10", -EINVAL, 0},
                                          {"1k", -EINVAL, 0}};
  CHECK(PST_OPTION_UINT, samples);
}

static void sizes(void **state)
{
  (void)state;
  static const struct sample samples[] = {{"8 KiB", 0, 8192},
                                          {"8KiB", 0, 8192},
                                          {"1462 B", 0, 1462},
                                          {"1462", 0, 1462},
                                          {"1 KB", 0, 1000},
                                          {"1.5 GiB", 0, UINT64_C(1610612736)},
                                          {"2 TB", 0, UINT64_C(2000000000000)},
                                          {"1 TiB", 0, UINT64_C(1) << 40},
                                          {"1.50000000000000000000000 KB", 0, 1500},
                                          {"0", 0, 0},
                                          {"16777215.99999904632568359375 TiB", -EINVAL, 0},
                                          {"16777216 TiB", -ERANGE, 0},
                                          {"0.5 B", -EINVAL, 0},
                                          {"0.1 KiB", -EINVAL, 0},
                                          {"8 kib", -EINVAL, 0},
                                          {"8  KiB", -EINVAL, 0},
                                          {"8 ", -EINVAL, 0},
                                          {"KiB", -EINVAL, 0},
                                          {"8. KiB", -EINVAL, 0},
                                          {".5 KiB", -EINVAL, 0},
                                          {"-8 KiB", -EINVAL, 0},
                                          {"8 KiB x", -EINVAL, 0},
                                          {"", -EINVAL, 0}};
  CHECK(PST_OPTION_SIZE, samples);
}

static void durations(void **state)
{
  (void)state;
  static const struct sample samples[] = {{"250 ms", 0, 250000000},
                                          {"250ms", 0, 250000000},
                                          {"1.5 s", 0, 1500000000},
                                          {"7 ns", 0, 7},
                                          {"3 us", 0, 3000},
                                          {"2 min", 0, UINT64_C(120000000000)},
                                          {"1 h", 0, UINT64_C(3600000000000)},
                                          {"0", 0, 0},
                                          {"0 s", 0, 0},
                                          {"5", -EINVAL, 0},
                                          {"0.5 ns", -EINVAL, 0},
                                          {"1 m", -EINVAL, 0},
                                          {"1 sec", -EINVAL, 0},
                                          {"6000000 h", -ERANGE, 0}};
  CHECK(PST_OPTION_DURATION, samples);
}

static void rates(void **state)
{
  (void)state;
  static const struct sample samples[] = {{"68.75 Gbps", 0, UINT64_C(68750000000)},
                                          {"1 Tbps", 0, UINT64_C(1000000000000)},
                                          {"5 Kbps", 0, 5000},
                                          {"5 Mbps", 0, 5000000},
                                          {"5 bps", 0, 5},
                                          {"1000", 0, 1000},
                                          {"1 Gb/s", -EINVAL, 0},
                                          {"1 GBps", -EINVAL, 0},
                                          {"0.5", -EINVAL, 0},
                                          {"99999999 Tbps", -ERANGE, 0}};
  CHECK(PST_OPTION_RATE, samples);
}

static void print_shortest(void **state)
{
  (void)state;
  static const struct {
    uint32_t type; /* 0: about */
    uint64_t value;
    const char *text;
  } samples[] = {{PST_OPTION_SIZE, 0, "0"},
                 {PST_OPTION_SIZE, 1, "1 B"},
                 {PST_OPTION_SIZE, 1462, "1462 B"},
                 {PST_OPTION_SIZE, 1500, "1500 B"},
                 {PST_OPTION_SIZE, 8000, "8 KB"},
                 {PST_OPTION_SIZE, 8192, "8 KiB"},
                 {PST_OPTION_SIZE, 8193, "8193 B"},
                 {PST_OPTION_SIZE, UINT64_C(1) << 30, "1 GiB"},
                 {PST_OPTION_SIZE, UINT64_C(1610612736), "1.5 GiB"},
                 {PST_OPTION_SIZE, UINT64_MAX, "18446744073709551615 B"},
                 {0, 0, "0 B"},
                 {0, 1023, "1023 B"},
                 {0, 1500, "1.5 KiB"},
                 {0, UINT64_C(64) << 30, "64 GiB"},
                 {PST_OPTION_DURATION, 0, "0"},
                 {PST_OPTION_DURATION, 250000000, "250 ms"},
                 {PST_OPTION_DURATION, UINT64_C(60000000000), "60 s"},
                 {PST_OPTION_DURATION, UINT64_C(3600000000000), "1 h"},
                 {PST_OPTION_DURATION, 1, "1 ns"},
                 {PST_OPTION_RATE, UINT64_C(68750000000), "68.75 Gbps"},
                 {PST_OPTION_RATE, 1, "1 bps"},
                 {PST_OPTION_RATE, UINT64_C(1000000000000), "1 Tbps"}};
  for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
    char text[64];
    if (samples[i].type)
      units_print(samples[i].type, samples[i].value, text, sizeof(text));
    else
      units_print_about(samples[i].value, text, sizeof(text));
    assert_string_equal(text, samples[i].text);
  }
}

static void print_reads_back(void **state)
{
  (void)state;
  uint64_t value = 1;
  for (int i = 0; i < 20000; i++) {
    char text[64];
    uint64_t back = 0;
    /* Every magnitude comes up, and round numbers among them. */
    value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t sample = value >> (value >> 58);
    sample = i % 3 ? sample : sample / 1000 * 1000;
    units_print(PST_OPTION_SIZE, sample, text, sizeof(text));
    assert_int_equal(units_parse(PST_OPTION_SIZE, text, &back), 0);
    assert_true(back == sample);
    units_print(PST_OPTION_DURATION, sample, text, sizeof(text));
    assert_int_equal(units_parse(PST_OPTION_DURATION, text, &back), 0);
    assert_true(back == sample);
    units_print(PST_OPTION_RATE, sample, text, sizeof(text));
    assert_int_equal(units_parse(PST_OPTION_RATE, text, &back), 0);
    assert_true(back == sample);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_numbers),  cmocka_unit_test(sizes),
      cmocka_unit_test(durations),      cmocka_unit_test(rates),
      cmocka_unit_test(print_shortest), cmocka_unit_test(print_reads_back)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
