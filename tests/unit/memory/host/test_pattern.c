/* SPDX-License-Identifier: Apache-2.0 */
/* Each way of making and checking the pattern, against memory.h's definition
 * worked out byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pattern.h"

#define LENGTH_MAX 4100
#define ALIGNMENTS 256
/* From this alignment on, messages up to this length. */
#define LINE 64
#define SHORT_MAX 256
#define GUARD 64
#define GUARD_BYTE 0xa5

static uint8_t *arena; /* guard, up to 255 bytes of misalignment, payload, guard */
static uint8_t reference[LENGTH_MAX];

/* Written from the text of memory.h, sharing nothing with pattern.c. */
static void make_reference(uint8_t *bytes, size_t length, uint64_t seed, uint64_t sequence)
{
  uint64_t z = seed + sequence * UINT64_C(0xd1342543de82ef95);
  z ^= z >> 30;
  z *= UINT64_C(0xbf58476d1ce4e5b9);
  z ^= z >> 27;
  z *= UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  for (size_t i = 0; i < length; i++) {
    uint64_t word = z + (uint64_t)(i / 8) * UINT64_C(0x9e3779b97f4a7c15);
    bytes[i] = (uint8_t)(word >> 8 * (i % 8));
  }
}

static int setup(void **state)
{
  (void)state;
  arena = aligned_alloc(ALIGNMENTS, 8192 + 2 * ALIGNMENTS);
  return arena ? 0 : -1;
}

static int teardown(void **state)
{
  (void)state;
  free(arena);
  return 0;
}

static void each_variant(void (*check)(const struct pattern_variant *))
{
  for (const struct pattern_variant *v = pattern_variants; v->name; v++) {
    if (v->usable())
      check(v);
    else
      print_message("this CPU has no %s\n", v->name);
  }
}

static bool guards_intact(const uint8_t *bytes, size_t length)
{
  for (size_t i = 1; i <= GUARD; i++)
    if (bytes[-(ptrdiff_t)i] != GUARD_BYTE || bytes[length + i - 1] != GUARD_BYTE)
      return false;
  return true;
}

static void check_lengths_and_alignments(const struct pattern_variant *v)
{
  uint64_t seed = 7, sequence = UINT64_C(0xffffffff00000001);
  uint64_t first = pst_pattern_first(seed, sequence);
  make_reference(reference, LENGTH_MAX, seed, sequence);
  for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
    uint8_t *bytes = arena + GUARD + alignment;
    const size_t longest = alignment < LINE ? LENGTH_MAX : SHORT_MAX;
    for (size_t length = 0; length <= longest; length++) {
      memset(bytes - GUARD, GUARD_BYTE, length + 2 * GUARD);
      v->fill(bytes, length, first);
      if (memcmp(bytes, reference, length) != 0 || !guards_intact(bytes, length))
        fail_msg("%s: fill of %zu at %zu differs", v->name, length, alignment);
      if (pattern_check(v, bytes, length, first) != length)
        fail_msg("%s: verify of %zu at %zu refuses what is right", v->name, length, alignment);
    }
  }
}

static void test_every_length_and_alignment(void **state)
{
  (void)state;
  each_variant(check_lengths_and_alignments);
}

static void check_seeds(const struct pattern_variant *v)
{
  static const uint64_t values[] = {0, 1, 2, 255, UINT32_MAX, UINT64_C(1) << 63, UINT64_MAX};
  size_t n = sizeof(values) / sizeof(values[0]);
  uint8_t *bytes = arena + GUARD;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) {
      make_reference(reference, 1462, values[i], values[j]);
      v->fill(bytes, 1462, pst_pattern_first(values[i], values[j]));
      assert_memory_equal(bytes, reference, 1462);
      assert_int_equal(pattern_check(v, bytes, 1462, pst_pattern_first(values[i], values[j])),
                       1462);
    }
  }
}

static void test_seeds_and_sequences(void **state)
{
  (void)state;
  each_variant(check_seeds);
}

static void expect_flips_found(const struct pattern_variant *v, uint8_t *bytes, size_t length,
                               uint64_t first)
{
  v->fill(bytes, length, first);
  for (size_t at = 0; at < length; at++) {
    for (int bit = 0; bit < 8; bit++) {
      bytes[at] ^= (uint8_t)(1u << bit);
      size_t found = pattern_check(v, bytes, length, first);
      if (found != at)
        fail_msg("%s: bit %d of byte %zu of %zu: found at %zu", v->name, bit, at, length, found);
      bytes[at] ^= (uint8_t)(1u << bit);
    }
  }
}

static void check_flips(const struct pattern_variant *v)
{
  uint64_t first = pst_pattern_first(3, 99);
  for (size_t length = 1; length <= 520; length += length < 140 ? 1 : 19)
    expect_flips_found(v, arena + GUARD + length % 64, length, first);
  expect_flips_found(v, arena + GUARD, 1462, first);
  expect_flips_found(v, arena + GUARD + 13, LENGTH_MAX, first);
}

static void test_every_flipped_bit_is_found_where_it_is(void **state)
{
  (void)state;
  each_variant(check_flips);
}

/* Bytes after the message are wrong and none of verify's business. */
static void check_outside(const struct pattern_variant *v)
{
  uint64_t first = pst_pattern_first(1, 1);
  for (size_t length = 0; length < 600; length++) {
    uint8_t *bytes = arena + GUARD + length % 64;
    memset(bytes - GUARD, GUARD_BYTE, length + 2 * GUARD);
    v->fill(bytes, length, first);
    memset(bytes + length, 0, GUARD);
    assert_int_equal(pattern_check(v, bytes, length, first), length);
  }
}

static void test_bytes_outside_do_not_matter(void **state)
{
  (void)state;
  each_variant(check_outside);
}

static void check_swapped(const struct pattern_variant *v)
{
  uint8_t *bytes = arena + GUARD;
  for (uint64_t sequence = 0; sequence < 200; sequence++) {
    v->fill(bytes, 256, pst_pattern_first(5, sequence));
    for (uint64_t other = 0; other < 200; other++) {
      bool right = pattern_check(v, bytes, 256, pst_pattern_first(5, other)) == 256;
      assert_int_equal(right, sequence == other);
    }
    assert_true(pattern_check(v, bytes, 256, pst_pattern_first(6, sequence)) < 8);
  }
}

static void test_a_swapped_message_is_found(void **state)
{
  (void)state;
  each_variant(check_swapped);
}

static void check_shifted(const struct pattern_variant *v)
{
  uint64_t first = pst_pattern_first(11, 4);
  uint8_t *bytes = arena + GUARD;
  v->fill(bytes, 3000, first);
  for (size_t shift = 1; shift <= 1500; shift++) {
    size_t at = pattern_check(v, bytes + shift, 1462, first);
    assert_in_range(at, 0, 7);
  }
}

static void test_a_shifted_payload_is_found(void **state)
{
  (void)state;
  each_variant(check_shifted);
}

static void test_the_best_variant_is_usable(void **state)
{
  (void)state;
  const struct pattern_variant *best = pattern_best();
  assert_true(best->usable());
  for (const struct pattern_variant *v = pattern_variants; v != best; v++)
    assert_false(v->usable());
}

static void test_single_bytes_agree_with_the_definition(void **state)
{
  (void)state;
  make_reference(reference, LENGTH_MAX, 42, 17);
  for (size_t at = 0; at < LENGTH_MAX; at++)
    assert_int_equal(pst_pattern_byte(pst_pattern_first(42, 17), at), reference[at]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_single_bytes_agree_with_the_definition),
      cmocka_unit_test(test_the_best_variant_is_usable),
      cmocka_unit_test(test_every_length_and_alignment),
      cmocka_unit_test(test_seeds_and_sequences),
      cmocka_unit_test(test_every_flipped_bit_is_found_where_it_is),
      cmocka_unit_test(test_bytes_outside_do_not_matter),
      cmocka_unit_test(test_a_swapped_message_is_found),
      cmocka_unit_test(test_a_shifted_payload_is_found),
  };
  return cmocka_run_group_tests(tests, setup, teardown) ? 1 : 0;
}
