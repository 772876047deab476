/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/util/name_index.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "util/name_index.h"

static const struct name_index_entry *find(const struct name_index_entry *entries, size_t count,
                                           const char *name)
{
  return name_index_find(entries, count, name, strlen(name));
}

static void test_none(void **state)
{
  (void)state;
  name_index_sort(NULL, 0);
  assert_null(find(NULL, 0, "a"));
}

static void test_a_name_that_another_begins_with(void **state)
{
  (void)state;
  struct name_index_entry entries[] = {{"a.b", 0}, {"a", 1}, {"ab", 2}, {"a.b.c", 3}};
  name_index_sort(entries, 4);
  assert_int_equal(find(entries, 4, "a")->item, 1);
  assert_int_equal(find(entries, 4, "a.b")->item, 0);
  assert_int_equal(find(entries, 4, "a.b.c")->item, 3);
  assert_null(find(entries, 4, "a."));
  assert_null(find(entries, 4, "a.b.c.d"));
  assert_null(find(entries, 4, ""));
  assert_null(find(entries, 4, "b"));
}

static void test_only_the_bytes_given(void **state)
{
  (void)state;
  struct name_index_entry entries[] = {{"one", 0}, {"one.two", 1}};
  name_index_sort(entries, 2);
  assert_int_equal(name_index_find(entries, 2, "one.two.three", 3)->item, 0);
  assert_int_equal(name_index_find(entries, 2, "one.two.three", 7)->item, 1);
  assert_null(name_index_find(entries, 2, "one.two.three", 5));
}

static void test_the_first_of_one_name(void **state)
{
  (void)state;
  struct name_index_entry entries[] = {{"b", 0}, {"a", 5}, {"a", 3}, {"a", 4}, {"c", 1}};
  name_index_sort(entries, 5);
  const struct name_index_entry *first = find(entries, 5, "a");
  assert_int_equal(first->item, 3);
  assert_int_equal(first[1].item, 4);
  assert_int_equal(first[2].item, 5);
}

static void test_every_one_of_many(void **state)
{
  (void)state;
  static char names[1000][16];
  static struct name_index_entry entries[1000];
  for (uint32_t i = 0; i < 1000; i++) {
    snprintf(names[i], sizeof(names[i]), "s%u", i * 7919 % 1000);
    entries[i] = (struct name_index_entry){names[i], i};
  }
  name_index_sort(entries, 1000);
  for (uint32_t i = 0; i < 1000; i++)
    assert_int_equal(find(entries, 1000, names[i])->item, i);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_none),
      cmocka_unit_test(test_a_name_that_another_begins_with),
      cmocka_unit_test(test_only_the_bytes_given),
      cmocka_unit_test(test_the_first_of_one_name),
      cmocka_unit_test(test_every_one_of_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
