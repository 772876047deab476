/* SPDX-License-Identifier: Apache-2.0 */
/* Why a candidate was rejected: one line. */
#include "reason.h"

#include <stdarg.h>
#include <stdio.h>

int loader_reject(struct loader_reason *why, int code, const char *format, ...)
{
  va_list args;
  int n = snprintf(why->line, sizeof(why->line), "%s: ", why->path);

  why->code = code;
  if (n > 0 && (size_t)n < sizeof(why->line)) {
    va_start(args, format);
    vsnprintf(why->line + n, sizeof(why->line) - (size_t)n, format, args);
    va_end(args);
  }
  return code;
}
