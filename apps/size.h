/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of bytes, for people. */
#ifndef APP_SIZE_H
#define APP_SIZE_H

#include <stdint.h>

#define SIZE_TEXT_BYTES 32
/* Exact: "64 B", "1462 B", "1 MiB". */
const char *size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES]);
/* To three digits or more: "64 B", "1.4 KiB", "60.0 MiB". */
const char *size_about(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

#endif
