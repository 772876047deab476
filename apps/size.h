/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in sentences. */
#ifndef APP_SIZE_H
#define APP_SIZE_H

#include <stdint.h>

/* Behind a noun: "1 message", "2 messages". */
static inline const char *app_plural(uint64_t count)
{
  return count == 1 ? "" : "s";
}

#define SIZE_TEXT_BYTES 32
/* Exact: "64 B", "1462 B", "1 MiB". */
const char *app_size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES]);
/* To three digits or more: "64 B", "1.4 KiB", "60.0 MiB". */
const char *app_size_about(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

#endif
