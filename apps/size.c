/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes in bytes, in words. */
#include "size.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
#define UNIT_MAX (sizeof(units) / sizeof(units[0]) - 1)

const char *app_size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
  size_t unit = 0;

  while (unit < UNIT_MAX && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  snprintf(text, SIZE_TEXT_BYTES, "%" PRIu64 " %s", bytes, units[unit]);
  return text;
}

const char *app_size_about(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
  double value = (double)bytes;
  size_t unit = 0;

  /* A value that would be shown as "1024.0" is 1.0 of the next unit. */
  while (unit < UNIT_MAX && value >= (unit == 0 ? 1024 : 1023.95)) {
    value /= 1024;
    unit++;
  }
  snprintf(text, SIZE_TEXT_BYTES, "%.*f %s", unit > 0, value, units[unit]);
  return text;
}
