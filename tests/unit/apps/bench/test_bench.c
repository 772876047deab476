/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/bench/bench.c. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/cases.h"
#include "bench/histogram.h"
#include "bench/result_row.h"
#include "log.h"
#include "support.h"

/* ---- Histogram ------------------------------------------------------------------- */

static void small_values_are_exact(void **state)
{
  static struct histogram h;

  (void)state;
  for (uint64_t i = 1; i <= 100; i++)
    bench_histogram_add(&h, i);
  assert_int_equal(bench_histogram_at(&h, 0), 1);
  assert_int_equal(bench_histogram_at(&h, 0.5), 50);
  assert_int_equal(bench_histogram_at(&h, 0.9), 90);
  assert_int_equal(bench_histogram_at(&h, 0.99), 99);
  assert_int_equal(bench_histogram_at(&h, 0.999), 100);
  assert_int_equal(bench_histogram_at(&h, 1), 100);
  assert_int_equal(h.least, 1);
  assert_int_equal(h.most, 100);
}

static void large_values_are_within_a_step(void **state)
{
  (void)state;
  for (unsigned bit = 0; bit < 64; bit++) {
    static const int64_t around[] = {-1, 0, 1};
    for (size_t i = 0; i < 3; i++) {
      struct histogram *h = calloc(1, sizeof(*h));
      uint64_t value = (UINT64_C(1) << bit) + (uint64_t)around[i];
      assert_non_null(h);
      bench_histogram_add(h, value);
      bench_histogram_add(h, UINT64_MAX);
      uint64_t got = bench_histogram_at(h, 0.5);
      assert_true(got >= value);
      assert_true(got - value <= value >> HISTOGRAM_BITS);
      assert_int_equal(bench_histogram_at(h, 1), UINT64_MAX);
      free(h);
    }
  }
}

static void an_empty_one_has_no_percentile(void **state)
{
  static struct histogram h;

  (void)state;
  assert_int_equal(bench_histogram_at(&h, 0.5), 0);
}

static void percentiles_match_a_sorted_list(void **state)
{
  static struct histogram h;
  static uint64_t all[10000];
  uint64_t x = 88172645463325252u;

  (void)state;
  for (size_t i = 0; i < 10000; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    all[i] = x >> (x % 50);
    bench_histogram_add(&h, all[i]);
  }
  for (size_t i = 1; i < 10000; i++)
    for (size_t k = i; k > 0 && all[k - 1] > all[k]; k--) {
      uint64_t swap = all[k];
      all[k] = all[k - 1];
      all[k - 1] = swap;
    }
  static const double shares[] = {0.5, 0.9, 0.99, 0.999};
  for (size_t i = 0; i < 4; i++) {
    uint64_t exact = all[(size_t)(shares[i] * 10000 + 0.5) - 1];
    uint64_t got = bench_histogram_at(&h, shares[i]);
    assert_true(got >= exact);
    assert_true(got - exact <= exact >> HISTOGRAM_BITS);
  }
}

/* ---- The plan, from the command line ------------------------------------------------ */

static int read_plan(struct bench_plan *plan, const char *const *words)
{
  char *argv[32] = {(char *)(uintptr_t) "bench", (char *)(uintptr_t) "--transport",
                    (char *)(uintptr_t) "loopback", (char *)(uintptr_t) "--memory",
                    (char *)(uintptr_t) "host"};
  static const struct command command = {
      .name = "bench", .operand = "HOST", .need = OPERAND_OPTIONAL, .options = UINT32_MAX};
  static struct arguments arguments;
  int argc = 5;

  for (size_t i = 0; words[i] != NULL; i++)
    argv[argc++] = (char *)(uintptr_t)words[i];
  app_arguments_free(&arguments);
  if (app_arguments_parse(&command, argc, argv, &arguments) != ARGUMENTS_OK)
    return -1;
  int rc = bench_plan_read(&command, &arguments, plan);
  if (rc < 0)
    bench_plan_free(plan);
  return rc;
}
#define READ(plan, ...) read_plan(plan, (const char *const[]){__VA_ARGS__, NULL})

static void sizes_are_read_with_units(void **state)
{
  struct bench_plan plan;

  (void)state;
  assert_int_equal(READ(&plan, "--size", "64,1462B,64KiB,1 MB"), 0);
  assert_int_equal(plan.size_count, 4);
  assert_int_equal(plan.sizes[0], 64);
  assert_int_equal(plan.sizes[1], 1462);
  assert_int_equal(plan.sizes[2], 65536);
  assert_int_equal(plan.sizes[3], 1000000);
  bench_plan_free(&plan);
}

static void the_default_sweeps(void **state)
{
  struct bench_plan plan;

  (void)state;
  assert_int_equal(READ(&plan, NULL), 0);
  assert_int_equal(plan.size_count, 9);
  assert_int_equal(plan.sizes[0], 64);
  assert_int_equal(plan.sizes[8], 4 << 20);
  assert_int_equal(plan.measures, MEASURE_BANDWIDTH | MEASURE_LATENCY);
  assert_int_equal(plan.duration_ns, 500000000);
  assert_int_equal(plan.cpus[0], -1);
  bench_plan_free(&plan);
}

static void operations_are_a_list_or_all(void **state)
{
  struct bench_plan plan;

  (void)state;
  assert_int_equal(READ(&plan, "--op", "all"), 0);
  assert_int_equal(plan.ops, 0);
  bench_plan_free(&plan);
  assert_int_equal(READ(&plan, "--op", "write,read", "--depth", "1"), 0);
  assert_int_equal(plan.ops, BENCH_ONE_SIDED);
  assert_int_equal(plan.depth, 1);
  bench_plan_free(&plan);
  assert_int_equal(READ(&plan, "--op", "send,write", "--ring", "2", "--path", "direct"), 0);
  assert_int_equal(plan.ops, 1u << BENCH_SEND | 1u << BENCH_WRITE);
  bench_plan_free(&plan);
}

static void places_do_not_share_a_line(void **state)
{
  struct bench_case c = {.op = BENCH_READ, .size = 1, .ring = 1};

  (void)state;
  assert_int_equal(bench_stride(&c), 64);
  assert_int_equal(bench_places(&c), 1);
  c.verify = true;
  c.size = 65;
  assert_int_equal(bench_stride(&c), 128);
  assert_int_equal(bench_places(&c), 2); /* what is read differs from what was there */
}

static void options_of_plugins_are_split(void **state)
{
  struct bench_plan plan;

  (void)state;
  assert_int_equal(READ(&plan, "--transport-option", "mode=copy", "--memory-option", "backing=a=b"),
                   0);
  assert_int_equal(plan.side.transport_option_count, 1);
  assert_string_equal(plan.side.transport_options[0].name, "mode");
  assert_string_equal(plan.side.transport_options[0].value, "copy");
  assert_string_equal(plan.side.memory_options[0].name, "backing");
  assert_string_equal(plan.side.memory_options[0].value, "a=b");
  bench_plan_free(&plan);
}

static void what_cannot_be_is_refused(void **state)
{
  static const char *const refused[][5] = {
      {"--size", "0"},
      {"--size", "18446744073709551616"},
      {"--size", "18446744073709551615"},
      {"--size", "17179869184GiB"},
      {"--size", "1GiB1"},
      {"--size", "64,,65"},
      {"--size", ""},
      {"--size", "-1"},
      {"--ring", "1"},
      {"--ring", "65537"},
      {"--ring", "65536", "--size", "128KiB"},
      {"--op", "sendd"},
      {"--path", "direkt"},
      {"--cpu", "0,1,2"},
      {"--cpu", "x"},
      {"--touch", "perhaps"},
      {"--hold", "2s"},
      {"--hold", "50"},
      {"--hold", "50us", "--latency"},
      {"--hold", "50us", "--op", "write,read"},
      {"--server", "--hold", "50us"},
      {"--transport-option", "mode"},
      {"--in-process", "--server"},
      {"--in-process", "10.0.0.1"},
      {"--bandwidth", "--latency"},
      {"--once"},
      {"--op", "all,send"},
      {"--op", ""},
      {"--depth", "0"},
      {"--depth", "65537"},
      {"--depth", "65536", "--size", "128KiB"},
      {"--op", "send", "--depth", "4"},
      {"--op", "write", "--ring", "4"},
      {"--op", "write,read", "--path", "direct"},
      {"--server", "--depth", "4"},
      {"--server", "--size", "64"},
      {"--duration", "2h"},
      {"--duration", "0"},
  };
  int kept = dup(STDERR_FILENO);
  struct bench_plan plan;

  (void)state;
  assert_non_null(freopen("/dev/null", "w", stderr));
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
    if (read_plan(&plan, refused[i]) == 0)
      fail_msg("%s %s was taken", refused[i][0], refused[i][1]);
  }
  dup2(kept, STDERR_FILENO);
  close(kept);
}

static void a_million_sizes_are_too_many(void **state)
{
  char *list = malloc(2000001);
  struct bench_plan plan;
  int kept = dup(STDERR_FILENO);

  (void)state;
  assert_non_null(list);
  for (size_t i = 0; i < 1000000; i++)
    memcpy(list + 2 * i, "8,", 2);
  list[1999999] = '\0';
  assert_non_null(freopen("/dev/null", "w", stderr));
  int rc = READ(&plan, "--size", list);
  dup2(kept, STDERR_FILENO);
  close(kept);
  free(list);
  assert_true(rc < 0);
}

static void a_ring_holds_few_large_and_many_small(void **state)
{
  (void)state;
  assert_int_equal(pst_ring_default(1), 1024);
  assert_int_equal(pst_ring_default(1462), 512);
  assert_int_equal(pst_ring_default(65536), 16);
  assert_int_equal(pst_ring_default(64 << 20), 16);
  assert_int_equal(pst_ring_default(100 << 20), 8);
  assert_int_equal(pst_ring_default(BENCH_SIZE_MAX), 2);
}

/* ---- A case, from a client ------------------------------------------------------------ */

static const struct bench_case sound = {.op = BENCH_SEND,
                                        .measure = MEASURE_LATENCY,
                                        .size = 1462,
                                        .ring = 64,
                                        .duration_ns = 7,
                                        .warmup_ns = 3,
                                        .hold_ns = 50000,
                                        .touch = true,
                                        .back_port = 4711,
                                        .token = "0123456789abcdef"};

static void a_case_comes_as_it_went(void **state)
{
  struct json_object *wire = bench_case_write(&sound);
  struct bench_case got = {0};
  char why[128];

  (void)state;
  assert_int_equal(bench_case_read(wire, &got, why, sizeof(why)), 0);
  assert_int_equal(got.op, sound.op);
  assert_int_equal(got.measure, sound.measure);
  assert_int_equal(got.size, sound.size);
  assert_int_equal(got.ring, sound.ring);
  assert_int_equal(got.duration_ns, sound.duration_ns);
  assert_int_equal(got.warmup_ns, sound.warmup_ns);
  assert_int_equal(got.hold_ns, sound.hold_ns);
  assert_true(got.touch);
  assert_false(got.verify);
  assert_int_equal(got.back_port, sound.back_port);
  assert_string_equal(got.token, sound.token);
  json_object_put(wire);
}

static void a_one_sided_case_needs_less(void **state)
{
  struct bench_case asked = sound, got = {0};
  char why[128];

  (void)state;
  asked.op = BENCH_READ;
  asked.ring = 1;
  asked.back_port = 0;
  struct json_object *wire = bench_case_write(&asked);
  assert_int_equal(bench_case_read(wire, &got, why, sizeof(why)), 0);
  assert_int_equal(got.op, BENCH_READ);
  assert_int_equal(got.ring, 1);
  json_object_put(wire);
}

static int take_places(uint64_t size, uint32_t ring, uint32_t places, bool verify)
{
  struct bench_case asked = sound, got = {0};
  char why[128];

  asked.op = BENCH_WRITE;
  asked.size = size;
  asked.ring = ring;
  asked.places = places;
  asked.verify = verify;
  struct json_object *wire = bench_case_write(&asked);
  int rc = bench_case_read(wire, &got, why, sizeof(why));
  json_object_put(wire);
  return rc < 0 ? rc : (int)bench_places(&got);
}

static void places_are_named(void **state)
{
  (void)state;
  assert_int_equal(take_places(64, 16, 0, false), 16);
  assert_int_equal(take_places(64, 1, 0, true), 2);
  assert_int_equal(take_places(64, 16, 1, false), 1);
  assert_int_equal(take_places(64, 16, 1000, false), 1000);
  assert_int_equal(take_places(64, 16, 16, true), -EPROTO);
  /* The memory limits the number of places. */
  assert_int_equal(take_places(1 << 30, 64, 4, false), 4);
  assert_int_equal(take_places(1 << 30, 64, 5, false), -EPROTO);
}

static void a_hostile_case_is_refused(void **state)
{
  static const char *const refused[][2] = {
      {"size_bytes", "0"},
      {"size_bytes", "-1"},
      {"size_bytes", "18446744073709551615"},
      {"size_bytes", "1e99"},
      {"size_bytes", "\"64\""},
      {"size_bytes", "[64]"},
      {"size_bytes", "1073741824"}, /* alone it is legal, with 64 slots it is not */
      {"ring_slots", "0"},
      {"ring_slots", "1"},
      {"ring_slots", "4294967298"},
      {"places", "65537"},
      {"places", "1"}, /* of what is sent */
      {"duration_ns", "9223372036854775807"},
      {"warmup_ns", "-1"},
      {"hold_ns", "1000000001"},
      {"back_port", "0"},
      {"back_port", "65536"},
      {"op", "\"sendd\""},
      {"op", "1"},
      {"measure", "null"},
      {"touch", "1"},
      {"verify", "\"true\""},
      {"token", "\"\""},
      {"token", "\"../../etc\""},
      {"token", "\"a\\u0000b\""},
      {"token", "\"00000000000000000000000000000000\""},
      {"token", "7"},
  };
  struct bench_case got = {.size = 99};
  char why[128];

  (void)state;
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
    for (int missing = 0; missing < 2; missing++) {
      struct json_object *wire = bench_case_write(&sound);
      why[0] = '\0';
      json_object_object_del(wire, refused[i][0]);
      if (!missing)
        json_object_object_add(wire, refused[i][0], json_tokener_parse(refused[i][1]));
      if (bench_case_read(wire, &got, why, sizeof(why)) == 0)
        fail_msg("%s %s was taken", refused[i][0], missing ? "missing" : refused[i][1]);
      assert_true(why[0] != '\0');
      assert_int_equal(got.size, 99);
      json_object_put(wire);
    }
  }
  assert_true(bench_case_read(NULL, &got, why, sizeof(why)) < 0);
}

static void what_the_receiver_saw_comes_back(void **state)
{
  const struct measure_taken taken = {.delivered = 9,
                                      .messages = 7,
                                      .bytes = 5,
                                      .ns = UINT64_MAX,
                                      .verified = 3,
                                      .corrupted = 2,
                                      .touched = true};
  struct bench_path path = {.path = "direct", .via = "me\x1b[31mcpy", .carrier = "shm"}, back = {0};
  struct measure_taken got = {0};
  struct json_object *wire = bench_taken_write(&taken, &path);

  (void)state;
  assert_int_equal(bench_taken_read(wire, &got, &back), 0);
  assert_int_equal(got.delivered, taken.delivered);
  assert_int_equal(got.messages, taken.messages);
  assert_int_equal(got.bytes, taken.bytes);
  assert_true(got.ns == taken.ns);
  assert_int_equal(got.verified, taken.verified);
  assert_int_equal(got.corrupted, taken.corrupted);
  assert_true(got.touched);
  assert_string_equal(back.path, "direct");
  assert_string_equal(back.via, "me?[31mcpy"); /* no escape reaches a terminal */
  json_object_object_del(wire, "ns");
  assert_true(bench_taken_read(wire, &got, &back) < 0);
  json_object_put(wire);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_values_are_exact),
      cmocka_unit_test(large_values_are_within_a_step),
      cmocka_unit_test(an_empty_one_has_no_percentile),
      cmocka_unit_test(percentiles_match_a_sorted_list),
      cmocka_unit_test(sizes_are_read_with_units),
      cmocka_unit_test(the_default_sweeps),
      cmocka_unit_test(operations_are_a_list_or_all),
      cmocka_unit_test(places_do_not_share_a_line),
      cmocka_unit_test(options_of_plugins_are_split),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(a_million_sizes_are_too_many),
      cmocka_unit_test(a_ring_holds_few_large_and_many_small),
      cmocka_unit_test(a_case_comes_as_it_went),
      cmocka_unit_test(a_one_sided_case_needs_less),
      cmocka_unit_test(places_are_named),
      cmocka_unit_test(a_hostile_case_is_refused),
      cmocka_unit_test(what_the_receiver_saw_comes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
