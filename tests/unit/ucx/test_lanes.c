/* SPDX-License-Identifier: Apache-2.0 */
/* Names of UCX's transports and lanes, and its statuses as errno. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "lanes.h"
#include "status.h"

#include <cmocka.h>

static void a_name_counts_from_its_beginning(void **state)
{
  static const char lanes[] = "posix/memory cma/memory xrc_verbs/mlx5_0:1";

  (void)state;
  assert_true(ucx_lanes_has(lanes, "posix"));
  assert_true(ucx_lanes_has(lanes, "cma"));
  assert_true(ucx_lanes_has(lanes, "xrc_"));
  assert_false(ucx_lanes_has(lanes, "rc_")); /* within another */
  assert_false(ucx_lanes_has(lanes, "memory"));
  assert_false(ucx_lanes_has("", "tcp"));
  assert_false(ucx_lanes_has("tc", "tcp"));
}

static void a_status_is_an_errno_with_a_remedy(void **state)
{
  static const struct {
    ucs_status_t status;
    int code;
  } rows[] = {{UCS_ERR_NO_MEMORY, -ENOMEM},
              {UCS_ERR_UNREACHABLE, -EHOSTUNREACH},
              {UCS_ERR_ENDPOINT_TIMEOUT, -ETIMEDOUT},
              {UCS_ERR_CANCELED, -ECANCELED},
              /* Not in the table: of an endpoint, and of something else. */
              {UCS_ERR_FIRST_ENDPOINT_FAILURE, -ECONNRESET},
              {UCS_ERR_BUSY, -EIO}};

  (void)state;
  assert_int_equal(ucx_status_errno(UCS_OK), 0);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    assert_int_equal(ucx_status_errno(rows[i].status), rows[i].code);
    assert_true(ucx_status_remedy(rows[i].status)[0]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_counts_from_its_beginning),
      cmocka_unit_test(a_status_is_an_errno_with_a_remedy),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
