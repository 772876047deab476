/* SPDX-License-Identifier: Apache-2.0 */
/* Remedies for limits of this process. */
#ifndef PST_UTIL_LIMIT_REMEDY_H
#define PST_UTIL_LIMIT_REMEDY_H

#include <errno.h>

/* "; raise …" when that is what helps against -errno, else "". */
static inline const char *limit_remedy(int code)
{
  if (code == -EMFILE)
    return "; raise `ulimit -n`";
  return code == -ENFILE ? "; raise the sysctl fs.file-max" : "";
}

#endif
