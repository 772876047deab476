/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/util/suggest.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/suggest.h"

static const char *const names[] = {"loopback", "verbs_rc", "verbs_dc", "udp", "ucx", "message"};

static const char *nearest(const char *word)
{
  return suggest_name(word, names, sizeof(names) / sizeof(names[0]));
}

static void test_one_letter(void **state)
{
  (void)state;
  assert_string_equal(nearest("lopback"), "loopback");
  assert_string_equal(nearest("loopbacks"), "loopback");
  assert_string_equal(nearest("loopbeck"), "loopback");
}

static void test_swapped_neighbours(void **state)
{
  (void)state;
  assert_string_equal(nearest("upd"), "udp");
  assert_string_equal(nearest("mesasge"), "message");
}

static void test_case_does_not_count(void **state)
{
  (void)state;
  assert_string_equal(nearest("LoopBack"), "loopback");
}

static void test_a_third_may_differ(void **state)
{
  (void)state;
  assert_string_equal(nearest("mexxage"), "message");
  assert_null(nearest("mexxxge"));
}

static void test_short_words(void **state)
{
  (void)state;
  assert_string_equal(nearest("udq"), "udp");
  assert_null(nearest("xyz"));
  assert_null(suggest_name("a", (const char *const[]){"b"}, 1));
}

static void test_first_of_equals(void **state)
{
  (void)state;
  assert_string_equal(nearest("verbs_xc"), "verbs_rc");
}

static void test_nothing_to_choose(void **state)
{
  char word[500];

  (void)state;
  assert_null(suggest_name("loopback", NULL, 0));
  assert_null(nearest(""));
  memset(word, 'x', sizeof(word) - 1);
  word[sizeof(word) - 1] = '\0';
  assert_null(nearest(word));
  assert_string_equal(suggest_name("ab1", (const char *const[]){NULL, "", word, "ab2"}, 4), "ab2");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_letter),          cmocka_unit_test(test_swapped_neighbours),
      cmocka_unit_test(test_case_does_not_count), cmocka_unit_test(test_a_third_may_differ),
      cmocka_unit_test(test_short_words),         cmocka_unit_test(test_first_of_equals),
      cmocka_unit_test(test_nothing_to_choose),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
