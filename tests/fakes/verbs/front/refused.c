// SPDX-License-Identifier: Apache-2.0
#include "refused.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int sim_refused(const char *symbol)
{
  if (getenv("PENSTOCK_SIMVERBS_LOG"))
    fprintf(stderr, "simverbs: %s is not simulated: EOPNOTSUPP\n", symbol);
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}
