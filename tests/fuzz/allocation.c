/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that fail, and numbers from an input. */
#include "allocation.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "allocation_wrap.h"

static bool counting;
static unsigned count, failing;

void allocation_begin(unsigned n)
{
  count = 0;
  failing = n;
  counting = true;
}

unsigned allocation_end(void)
{
  counting = false;
  return count;
}

bool allocation_fails(void)
{
  if (!counting || ++count != failing)
    return false;
  errno = ENOMEM;
  return true;
}

uint32_t input_number(const uint8_t *data, size_t size)
{
  uint32_t number = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < size; i++)
    number = (number ^ data[i]) * 16777619u;
  return number ^ number >> 15;
}

/* ---- libc's: by the linker's --wrap, where a target asks for it ---------------- */

void *__real_malloc(size_t size) __attribute__((weak));
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_malloc(size_t size)
{
  return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
  return allocation_fails() ? NULL : __real_calloc(n, size);
}
