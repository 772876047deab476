// SPDX-License-Identifier: Apache-2.0
/* Calls that are not simulated: EOPNOTSUPP, and a line of the log. */
#include "refused.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int sim_refused(const char *symbol)
{
  const char *level = getenv("PENSTOCK_SIMVERBS_LOG");

  // Beside the errors of the fabric, level 1, a program's asking is no error.
  if (level && atoi(level) >= 2)
    fprintf(stderr, "simverbs: %s is not simulated: EOPNOTSUPP\n", symbol);
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}
