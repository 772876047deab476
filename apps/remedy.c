/* SPDX-License-Identifier: Apache-2.0 */
#include "remedy.h"

#include <errno.h>

#include <penstock/penstock.h>

const char *remedy_of_folder(int code)
{
  switch (code) {
  case ENOENT:
    return "create the folder first (mkdir -p), or name another";
  case ENOTDIR:
    return "a file stands where a folder should; name another";
  case EISDIR:
    return "that is a folder; name a file in it";
  case EACCES:
  case EPERM:
    return "allow it there (chmod, chown), or name another folder";
  case EROFS:
    return "that file system is mounted read-only; name a folder elsewhere";
  case ENOSYS:
    return "openat2(2) needs Linux 5.6";
  case EMFILE:
  case ENFILE:
    return "let it have more open files (ulimit -n)";
  case ENOMEM:
    return "free memory";
  case EIO:
    return "see what the kernel says of that disk (dmesg)";
  case ENOSPC:
  case EDQUOT:
    return "free space there, or name a folder elsewhere";
  case ENXIO:
  case ENODEV:
    return "no device or terminal answers there; name another";
  default:
    return "name another place";
  }
}

const char *remedy_of_source(int code)
{
  switch (code) {
  case ENOENT:
    return "check its path";
  case ENOTDIR:
    return "its path leads through a file; check it";
  case ELOOP:
    return "its path has too many symbolic links; name what they lead to";
  case EACCES:
  case EPERM:
    return "allow this user to read it (chmod, chown)";
  case ESTALE:
    return "mount its file system again";
  case EMFILE:
  case ENFILE:
  case ENOMEM:
  case EIO:
    return remedy_of_folder(code);
  default:
    return "name another file";
  }
}

int remedy_open_status(int code)
{
  switch (code) {
  case ENXIO:
  case ENODEV:
  case ENOMEDIUM:
  case EBUSY:
  case EIO:
    return PST_EXIT_UNAVAILABLE;
  case EMFILE:
  case ENFILE:
  case ENOMEM:
    return PST_EXIT_FAILED;
  default:
    return PST_EXIT_USAGE;
  }
}
