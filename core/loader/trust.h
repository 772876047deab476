/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which users can change a file. */
#ifndef PST_LOADER_TRUST_H
#define PST_LOADER_TRUST_H

#include <limits.h>

struct loader_reason;

/* Could another user change what would be loaded: -EPERM. real gets the path without links.
 * -ENOEXEC: not a file; other -errno: the path leads nowhere. */
int trust_file(const char *path, char real[PATH_MAX], struct loader_reason *why);

#endif
