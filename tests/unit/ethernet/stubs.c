/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of ethernet: stubs. */
#include "stubs.h"

#include <stdarg.h>
#include <stdio.h>

char logged[1024];
int logged_level;
uint32_t warnings;

void take_log(const struct pst_host *host, int level, const char *format, ...)
{
  va_list arguments;

  (void)host;
  va_start(arguments, format);
  vsnprintf(logged, sizeof(logged), format, arguments);
  va_end(arguments);
  logged_level = level;
  warnings += level == PST_LOG_WARN;
}

const char *eal_words(void)
{
  return ": DPDK's words";
}
