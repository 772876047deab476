/* SPDX-License-Identifier: Apache-2.0 */
/* The control group of a client: when its process's number may stand for the process. */
#include "share/classes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

int __wrap_getsockopt(void);

/* Fails SO_PEERPIDFD with the errno that the test sets. */
int __wrap_getsockopt(void)
{
  errno = mock_type(int);
  return -1;
}

static void another_failure_is_no_old_kernel(void **state)
{
  /* A peer that has been reaped, by kernel, and a router that is short of descriptors. */
  static const int codes[] = {EINVAL, ESRCH, ENODATA, EMFILE};
  char path[1024];

  (void)state;
  for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
    will_return(__wrap_getsockopt, codes[i]);
    assert_int_equal(share_cgroup_of(-1, getpid(), path, sizeof(path)), -codes[i]);
  }
}

/* Before Linux 6.5. It may have no control groups of version 2. */
static void old_kernel_has_the_number(void **state)
{
  char path[1024] = "";

  (void)state;
  will_return(__wrap_getsockopt, ENOPROTOOPT);
  const int rc = share_cgroup_of(-1, getpid(), path, sizeof(path));
  assert_true(rc == 0 ? path[0] == '/' : rc == -ENOENT);
}

int main(void)
{
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(another_failure_is_no_old_kernel),
      cmocka_unit_test(old_kernel_has_the_number),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
