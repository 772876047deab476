/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of this process while a plugin is asked for more than a machine has. */
#include "contract.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* More than a refusal takes, and less than any machine lacks. */
#define GUARD_BYTES (UINT64_C(1) << 30)

static struct {
  struct rlimit file, space;
  struct sigaction too_large;
} before;

static void guard_lower(int resource, const struct rlimit *was, uint64_t bytes)
{
  const struct rlimit limit = {.rlim_cur = bytes < was->rlim_cur ? bytes : was->rlim_cur,
                               .rlim_max = was->rlim_max};
  assert_int_equal(setrlimit(resource, &limit), 0);
}

/* fallocate() of a memfd, whose file system has no size of its own, asks RLIMIT_FSIZE. */
void contract_guard(void)
{
  const struct sigaction ignore = {.sa_handler = SIG_IGN};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before.file), 0);
  assert_int_equal(getrlimit(RLIMIT_AS, &before.space), 0);
  assert_int_equal(sigaction(SIGXFSZ, &ignore, &before.too_large), 0);
  guard_lower(RLIMIT_FSIZE, &before.file, GUARD_BYTES);
  guard_lower(RLIMIT_AS, &before.space, contract_mapped_bytes() + GUARD_BYTES);
}

void contract_unguard(void)
{
  setrlimit(RLIMIT_AS, &before.space);
  setrlimit(RLIMIT_FSIZE, &before.file);
  sigaction(SIGXFSZ, &before.too_large, NULL);
}
