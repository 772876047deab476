/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the locked-memory limit is what refused: as the kernel counts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mr.h"

#define MIB (UINT64_C(1) << 20)

static void it_is_exceeded(void **state)
{
  (void)state;
  static const struct {
    struct vb_memlock now;
    uint64_t wanted;
    bool exceeded;
  } rows[] = {
      {{.limit = MIB}, MIB, false},
      {{.limit = MIB}, MIB + 1, true},
      {{.limit = MIB, .pinned = 1}, MIB, true},
      {{.limit = MIB, .pinned = MIB}, 0, false},
      {{.limit = MIB, .pinned = MIB}, 1, true},
      {{.limit = MIB, .pinned = 2 * MIB}, 0, true}, /* it was lowered */
      {{.limit = MIB}, UINT64_MAX, true},
      {{.limit = 0}, 1, true},
      {{.limit = UINT64_MAX, .pinned = MIB}, UINT64_MAX, false},
      {{.limit = MIB, .pinned = MIB, .is_privileged = true}, MIB, false},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (vb_memlock_exceeded(&rows[i].now, rows[i].wanted) != rows[i].exceeded)
      fail_msg("row %zu", i);
}

/* In a child: the limit of this process, and a capability that it may have, are lowered. */
static int read_with(rlim_t limit, const char *program)
{
  pid_t child = fork();
  int status = 0;

  assert_true(child >= 0);
  if (child == 0) {
    struct rlimit to = {limit, limit};
    struct vb_memlock now;
    if (setrlimit(RLIMIT_MEMLOCK, &to) < 0)
      _exit(77);
    if (program) {
      execlp("setpriv", "setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock",
             program, "child", (char *)NULL);
      _exit(77);
    }
    vb_memlock_read(&now);
    _exit(now.limit == limit ? now.is_privileged : 2);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *self;

static void it_is_read(void **state)
{
  (void)state;
  struct vb_memlock now = {.pinned = 1};
  vb_memlock_read(&now);
  assert_int_equal(now.pinned, 0); /* no device is open */
  int here = read_with(65536, NULL);
  assert_int_equal(here, now.is_privileged);
  if (now.is_privileged) /* root can show both */
    assert_int_equal(read_with(65536, self), 0);
}

static void a_hint_is_given_where_it_can_be_it(void **state)
{
  (void)state;
  char text[160] = "x";
  struct vb_memlock now;
  assert_string_equal(vb_memlock_hint(EINVAL, text), "");
  assert_string_equal(vb_memlock_hint(ENOSPC, text), "");
  vb_memlock_read(&now);
  if (now.is_privileged || now.limit == UINT64_MAX)
    assert_string_equal(vb_memlock_hint(ENOMEM, text), "");
  else
    assert_non_null(strstr(vb_memlock_hint(ENOMEM, text), ", or raise `ulimit -l`: 0 of "));
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_exceeded),
      cmocka_unit_test(it_is_read),
      cmocka_unit_test(a_hint_is_given_where_it_can_be_it),
  };
  if (argc > 1) {
    struct vb_memlock now;
    char text[160];
    vb_memlock_read(&now);
    bool hints = strstr(vb_memlock_hint(ENOMEM, text), "0 of 64 KiB are pinned") != NULL;
    return now.limit != 65536 ? 2 : !hints ? 3 : now.is_privileged;
  }
  self = argv[0];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
