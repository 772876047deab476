/* SPDX-License-Identifier: Apache-2.0 */
/* Remedies for errnos, in words. */
#include "errno_hint.h"

#include <errno.h>
#include <stddef.h>

#include <penstock/penstock.h>

struct errno_hint {
  int code;
  const char *text;
};

/* `otherwise`: of a code that is none of `remedies`. */
static const char *errno_hint_find(const struct errno_hint *remedies, size_t count, int code,
                                   const char *otherwise)
{
  for (size_t i = 0; i < count; i++)
    if (remedies[i].code == code)
      return remedies[i].text;
  return otherwise;
}

const char *app_errno_hint_folder(int code)
{
  static const struct errno_hint remedies[] = {
      {ENOENT, "create the folder first (mkdir -p), or name another"},
      {ENOTDIR, "a file stands where a folder should; name another"},
      {EISDIR, "that is a folder; name a file in it"},
      {EACCES, "allow it there (chmod, chown), or name another folder"},
      {EPERM, "allow it there (chmod, chown), or name another folder"},
      {EROFS, "that file system is mounted read-only; name a folder elsewhere"},
      {ENOSYS, "openat2(2) needs Linux 5.6"},
      {EMFILE, "raise the limit of open files (ulimit -n)"},
      {ENFILE, "raise the limit of open files (ulimit -n)"},
      {ENOMEM, "free memory"},
      {EIO, "see what the kernel says of that disk (dmesg)"},
      {ENOSPC, "free space there, or name a folder elsewhere"},
      {EDQUOT, "free space there, or name a folder elsewhere"},
      {ENXIO, "no device or terminal answers there; name another"},
      {ENODEV, "no device or terminal answers there; name another"},
  };

  return errno_hint_find(remedies, sizeof(remedies) / sizeof(remedies[0]), code,
                         "name another place");
}

const char *app_errno_hint_source(int code)
{
  static const struct errno_hint remedies[] = {
      {ENOENT, "check its path"},
      {ENOTDIR, "its path leads through a file; check it"},
      {ELOOP, "its path has too many symbolic links; name what they lead to"},
      {EACCES, "allow this user to read it (chmod, chown)"},
      {EPERM, "allow this user to read it (chmod, chown)"},
      {ESTALE, "mount its file system again"},
  };

  if (code == EMFILE || code == ENFILE || code == ENOMEM || code == EIO)
    return app_errno_hint_folder(code);
  return errno_hint_find(remedies, sizeof(remedies) / sizeof(remedies[0]), code,
                         "name another file");
}

int app_errno_hint_exit_status(int code)
{
  if (code == ENXIO || code == ENODEV || code == ENOMEDIUM || code == EBUSY || code == EIO)
    return PST_EXIT_UNAVAILABLE;
  return code == EMFILE || code == ENFILE || code == ENOMEM ? PST_EXIT_FAILED : PST_EXIT_USAGE;
}
