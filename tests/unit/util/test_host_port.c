/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/util/host_port.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "util/host_port.h"

static void each_form_has_its_parts(void **state)
{
  static const struct {
    const char *text, *host, *port;
    bool is_ambiguous;
  } cases[] = {
      {"far:5", "far", "5", false},
      {"far", "far", NULL, false},
      {"far:", "far", "", false},
      {":5", "", "5", false},
      {"", "", NULL, false},
      {"[::1]:5", "::1", "5", false},
      {"[::1]", "::1", NULL, false},
      {"[]:5", "", "5", false},
      {"[far]:5:6", "far", "5:6", false},
      {"::1", "::1", NULL, true},
      {"fe80::1:5", "fe80::1:5", NULL, true},
  };
  struct pst_host_port parts;
  (void)state;

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_true(pst_host_port_split(cases[i].text, &parts));
    assert_int_equal(parts.host_length, strlen(cases[i].host));
    assert_memory_equal(parts.host, cases[i].host, parts.host_length);
    assert_int_equal(parts.is_ambiguous, cases[i].is_ambiguous);
    if (cases[i].port)
      assert_string_equal(parts.port, cases[i].port);
    else
      assert_null(parts.port);
  }
}

static void brackets_close_around_a_host(void **state)
{
  static const char *const wrong[] = {"[", "[::1", "[::1:5", "[::1]5", "[::1]x:5"};
  struct pst_host_port parts;
  (void)state;

  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    assert_false(pst_host_port_split(wrong[i], &parts));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_form_has_its_parts),
      cmocka_unit_test(brackets_close_around_a_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
