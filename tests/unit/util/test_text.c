/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/util/text.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/text.h"

static void what_is_added_stands_behind_what_was_there(void **state)
{
  char text[32] = "ring";
  (void)state;

  text_add(text, sizeof(text), ": %d of %s", 3, "slots");
  assert_string_equal(text, "ring: 3 of slots");
}

static void a_full_text_is_cut_and_ends(void **state)
{
  char text[9] = "1234";
  (void)state;

  text[8] = '#';
  text_add(text, 8, "%s", "5678");
  assert_string_equal(text, "1234567");
  text_add(text, 8, "%s", "9");
  assert_string_equal(text, "1234567");
  assert_int_equal(text[8], '#');
}

static void a_list_has_commas_between(void **state)
{
  static const char *const items[] = {"udp", "ucx", "loopback"};
  char text[32] = "";
  (void)state;

  text_add_list(text, sizeof(text), items, 0);
  assert_string_equal(text, "");
  text_add_list(text, sizeof(text), items, 1);
  assert_string_equal(text, "udp");
  text[0] = '\0';
  text_add_list(text, sizeof(text), items, 3);
  assert_string_equal(text, "udp, ucx, loopback");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_added_stands_behind_what_was_there),
      cmocka_unit_test(a_full_text_is_cut_and_ends),
      cmocka_unit_test(a_list_has_commas_between),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
