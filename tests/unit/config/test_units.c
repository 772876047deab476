/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "config/units.h"
#include "support.h"

struct sample {
  const char *text;
  int rc;
  uint64_t value;
};

typedef int parser(const char *text, uint64_t *value);

static void check(parser *parse, const struct sample *samples, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    uint64_t value = 77;
    int rc = parse(samples[i].text, &value);
    if (rc != samples[i].rc || value != (rc ? 77 : samples[i].value))
      fail_msg("\"%s\": rc %d, value %llu", samples[i].text, rc, (unsigned long long)value);
  }
}
#define CHECK(parse, samples) check(parse, samples, sizeof(samples) / sizeof((samples)[0]))

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
  CHECK(units_parse_uint, samples);
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
  CHECK(units_parse_size, samples);
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
  CHECK(units_parse_duration, samples);
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
  CHECK(units_parse_rate, samples);
}

static void print_shortest(void **state)
{
  (void)state;
  static const struct {
    void (*print)(uint64_t value, char *text, size_t size);
    uint64_t value;
    const char *text;
  } samples[] = {{units_print_size, 0, "0"},
                 {units_print_size, 1, "1 B"},
                 {units_print_size, 1462, "1462 B"},
                 {units_print_size, 1500, "1500 B"},
                 {units_print_size, 8000, "8 KB"},
                 {units_print_size, 8192, "8 KiB"},
                 {units_print_size, 8193, "8193 B"},
                 {units_print_size, UINT64_C(1) << 30, "1 GiB"},
                 {units_print_size, UINT64_C(1610612736), "1.5 GiB"},
                 {units_print_size, UINT64_MAX, "18446744073709551615 B"},
                 {units_print_about, 0, "0 B"},
                 {units_print_about, 1023, "1023 B"},
                 {units_print_about, 1500, "1.5 KiB"},
                 {units_print_about, UINT64_C(64) << 30, "64 GiB"},
                 {units_print_duration, 0, "0"},
                 {units_print_duration, 250000000, "250 ms"},
                 {units_print_duration, UINT64_C(60000000000), "60 s"},
                 {units_print_duration, UINT64_C(3600000000000), "1 h"},
                 {units_print_duration, 1, "1 ns"},
                 {units_print_rate, UINT64_C(68750000000), "68.75 Gbps"},
                 {units_print_rate, 1, "1 bps"},
                 {units_print_rate, UINT64_C(1000000000000), "1 Tbps"}};
  for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
    char text[64];
    samples[i].print(samples[i].value, text, sizeof(text));
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
    units_print_size(sample, text, sizeof(text));
    assert_int_equal(units_parse_size(text, &back), 0);
    assert_true(back == sample);
    units_print_duration(sample, text, sizeof(text));
    assert_int_equal(units_parse_duration(text, &back), 0);
    assert_true(back == sample);
    units_print_rate(sample, text, sizeof(text));
    assert_int_equal(units_parse_rate(text, &back), 0);
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
