/* SPDX-License-Identifier: Apache-2.0 */
/* Text appended to a buffer of fixed size. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_add(char *text, size_t size, const char *format, ...)
{
  size_t used = strlen(text);
  va_list args;

  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

void text_add_list(char *text, size_t size, const char *const *items, size_t count)
{
  for (size_t i = 0; i < count; i++)
    text_add(text, size, "%s%s", i ? ", " : "", items[i]);
}
