/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver finds exactly the faults that were injected, of each kind. */
#include "fault.h"

#define COUNT UINT64_C(200000)

static void find_what_was_injected(const struct fault_stream *stream)
{
  uint64_t unique = stream->arrived - stream->track.duplicates;
  assert_int_equal(stream->posted - unique, fault_count(stream, "injected_drop"));
  assert_int_equal(stream->track.duplicates, fault_count(stream, "injected_duplicate"));
  assert_int_equal(stream->track.reordered,
                   fault_count(stream, "injected_reorder") + fault_count(stream, "delayed_late"));
  assert_int_equal(stream->corrupted, fault_count(stream, "injected_corrupt"));
}

/* As many as the rate says, within a tenth: five times what chance would do. */
static void is_about(uint64_t count, uint64_t ppm)
{
  assert_in_range(count, COUNT * ppm / 1000000 * 9 / 10, COUNT * ppm / 1000000 * 11 / 10);
}

static void one_kind(void **state, const char *options, const char *counter, uint64_t ppm)
{
  static const char *const kinds[] = {"injected_drop", "injected_duplicate", "injected_reorder",
                                      "injected_corrupt", "injected_delay"};
  struct fault_stream stream;
  fault_open(*state, options, &stream);
  fault_stream(&stream, COUNT);
  find_what_was_injected(&stream);
  is_about(fault_count(&stream, counter), ppm);
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    if (strcmp(kinds[i], counter) != 0)
      assert_int_equal(fault_count(&stream, kinds[i]), 0);
  fault_close(&stream);
}

static void dropped_are_missing(void **state)
{
  one_kind(state, "drop_ppm=10000", "injected_drop", 10000);
  one_kind(state, "drop_ppm=50000,seed=2", "injected_drop", 50000);
}

static void duplicates_arrive_twice(void **state)
{
  one_kind(state, "duplicate_ppm=10000", "injected_duplicate", 10000);
  one_kind(state, "duplicate_ppm=50000,seed=2", "injected_duplicate", 50000);
}

static void reordered_arrive_late(void **state)
{
  one_kind(state, "reorder_ppm=10000,reorder_time=60000000000 ns", "injected_reorder", 10000);
  one_kind(state, "reorder_ppm=50000,distance=100,reorder_time=60000000000 ns", "injected_reorder",
           50000);
}

static void corrupted_do_not_verify(void **state)
{
  one_kind(state, "corrupt_ppm=10000", "injected_corrupt", 10000);
  one_kind(state, "corrupt_ppm=50000,seed=2", "injected_corrupt", 50000);
}

static void delayed_arrive(void **state)
{
  one_kind(state, "delay_ppm=10000,delay_time=20000 ns", "injected_delay", 10000);
  one_kind(state, "delay_ppm=50000,delay_time=0 ns", "injected_delay", 50000);
}

#define ALL                                                                                        \
  "drop_ppm=10000,duplicate_ppm=20000,reorder_ppm=30000,corrupt_ppm=40000,delay_ppm=50000,"        \
  "delay_time=10000 ns,reorder_time=60000000000 ns,ledger=1000"

static void all_kinds_together(void **state)
{
  struct fault_stream stream;
  fault_open(*state, ALL, &stream);
  fault_stream(&stream, COUNT);
  find_what_was_injected(&stream);
  is_about(fault_count(&stream, "injected_drop"), 10000);
  is_about(fault_count(&stream, "injected_duplicate"), 20000);
  is_about(fault_count(&stream, "injected_reorder") + fault_count(&stream, "reorder_missed"),
           30000);
  is_about(fault_count(&stream, "injected_corrupt"), 40000);
  is_about(fault_count(&stream, "injected_delay"), 50000);
  fault_close(&stream);
}

/* All that must be equal: the kinds' counts and the records. */
static uint32_t take_ledger(void **state, const char *options, struct pst_counter *ledger,
                            uint32_t max)
{
  struct fault_stream stream;
  struct pst_counter counters[512];
  uint32_t kept = 0;
  fault_open(*state, options, &stream);
  fault_stream(&stream, 20000);
  const struct contract_side *side = &stream.pair->sender;
  int n = side->image.ops->counters(side->device, side->worker, side->endpoints[0], counters, 512);
  for (int i = 0; i < n && i < 512; i++)
    if (strncmp(counters[i].name, "injected_", 9) == 0 || strstr(counters[i].name, "_at") ||
        strcmp(counters[i].name, "ledger_checksum") == 0) {
      assert_true(kept < max);
      ledger[kept++] = counters[i];
    }
  fault_close(&stream);
  return kept;
}

#define MIXED                                                                                      \
  "drop_ppm=400000,duplicate_ppm=10000,reorder_ppm=200000,corrupt_ppm=10000,delay_ppm=200000,"     \
  "reorder_time=60000000000 ns,ledger=100,"

static void same_seed_gives_the_same_ledger(void **state)
{
  struct pst_counter a[200], b[200];
  uint32_t n = take_ledger(state, MIXED "seed=7,delay_time=0 ns", a, 200);
  assert_true(n > 100);
  /* However long a delay takes. */
  assert_int_equal(take_ledger(state, MIXED "seed=7,delay_time=1000000 ns", b, 200), n);
  for (uint32_t i = 0; i < n; i++) {
    assert_string_equal(a[i].name, b[i].name);
    assert_int_equal(a[i].value, b[i].value);
  }
  assert_int_equal(take_ledger(state, MIXED "seed=8,delay_time=0 ns", b, 200), n);
  uint32_t differing = 0;
  for (uint32_t i = 0; i < n; i++)
    differing += a[i].value != b[i].value;
  assert_true(differing > 90);
}

static void drops_are_reported_as_drops(void **state)
{
  struct fault_stream stream;
  struct pst_counter counters[64];
  uint32_t drops = 0;
  fault_open(*state, "drop_ppm=100000,ledger=4", &stream);
  fault_stream(&stream, 1000);
  const struct contract_side *side = &stream.pair->sender;
  int n = side->image.ops->counters(side->device, side->worker, side->endpoints[0], counters, 64);
  assert_in_range(n, 1, 64);
  for (int i = 0; i < n; i++)
    if (counters[i].flags & PST_COUNTER_DROP) {
      assert_string_equal(counters[i].cause, "injected");
      assert_int_equal(counters[i].value, 1000 - stream.arrived);
      drops++;
    }
  assert_int_equal(drops, 1);
  fault_close(&stream);
}

int fault_rates_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(dropped_are_missing),
      CONTRACT_CASE(duplicates_arrive_twice),
      CONTRACT_CASE(reordered_arrive_late),
      CONTRACT_CASE(corrupted_do_not_verify),
      CONTRACT_CASE(delayed_arrive),
      CONTRACT_CASE(all_kinds_together),
      CONTRACT_CASE(same_seed_gives_the_same_ledger),
      CONTRACT_CASE(drops_are_reported_as_drops),
  };
  return CONTRACT_RUN("rates", cases, variant);
}
