/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines about peers without a stream or a node: so many, then silence for a while. */
#include <stdarg.h>
#include <stdio.h>

#include "loop.h"
#include "util/log.h"

#define COMPLAINTS_AT_ONCE 10

void control_complain(struct control *control, int level, const char *format, ...)
{
  char line[1024];
  va_list args;

  if (control->now_ns >= control->complaints_refill_ns) {
    if (control->complaints_hidden > 0)
      pst_log(PST_LOG_WARN, "control: %u more lines about unknown peers were left out",
              control->complaints_hidden);
    control->complaints_hidden = 0;
    control->complaints_left = COMPLAINTS_AT_ONCE;
    control->complaints_refill_ns = control->now_ns + control->limits.notice_ns;
  }
  if (control->complaints_left == 0) {
    control->complaints_hidden++;
    return;
  }
  control->complaints_left--;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  pst_log(level, "%s", line);
}
