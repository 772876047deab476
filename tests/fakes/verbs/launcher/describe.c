/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher.h"

#include <errno.h>
int launcher_describe(struct fabric *f, const char *path)
{
  (void)f;
  (void)path;
  return ENOTSUP;
}
