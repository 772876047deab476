/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"
#include "support.h"

static void a_failed_run_hides_an_unmet_expect(void **state)
{
  static const int rows[][3] = {
      {0, 0, 0}, {0, 4, 4}, {4, 0, 4}, {4, 1, 1}, {1, 4, 1}, {2, 3, 3}, {3, 1, 1}, {2, 4, 2},
  };

  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_int_equal(report_worse(rows[i][0], rows[i][1]), rows[i][2]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_failed_run_hides_an_unmet_expect)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
