/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in buffers of a fixed size. */
#ifndef PST_UTIL_TEXT_H
#define PST_UTIL_TEXT_H

#include <stddef.h>

#include <penstock/plugin.h>

/* Behind what `text` holds, cut to `size` bytes. */
void text_add(char *text, size_t size, const char *format, ...) PST_PRINTF(3, 4);
/* "a, b" */
void text_add_list(char *text, size_t size, const char *const *items, size_t count);

#endif
