/* SPDX-License-Identifier: Apache-2.0 */
#include "standard.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "notice.h"
#include "report.h"

int standard_output_end(int status)
{
  static bool said;

  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  if (!said)
    notice(PST_LOG_ERROR,
           "not all could be written to standard output%s%s; check its disk, or "
           "what reads it",
           errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
  said = true;
  return report_worse(status, PST_EXIT_FAILED);
}
