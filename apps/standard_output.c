/* SPDX-License-Identifier: Apache-2.0 */
/* Standard output, whose failures are noticed at the end. */
#include "standard_output.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

const char *app_standard_output_cause(int code)
{
  return code == EBADF ? "it is closed" : strerror(code);
}

int app_standard_output_end(int status)
{
  static bool said;

  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  int code = errno;
  /* The write may have failed earlier: writing nothing reveals the errno. */
  if (code == 0 && write(STDOUT_FILENO, "", 0) < 0)
    code = errno;
  if (!said)
    app_log(PST_LOG_ERROR, "not all could be written to standard output%s%s; %s",
            code != 0 ? ": " : "", code != 0 ? app_standard_output_cause(code) : "",
            code == EBADF ? "redirect it to a file" : "check its disk, or what reads it");
  said = true;
  return app_finding_worse(status, PST_EXIT_FAILED);
}
