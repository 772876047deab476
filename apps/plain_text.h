/* SPDX-License-Identifier: Apache-2.0 */
/* Text that a driver, a peer or a recording has written: it steers no terminal and ends no element
 * of XML. */
#ifndef APP_PLAIN_TEXT_H
#define APP_PLAIN_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include <penstock/types.h>

/* One line, in which what a terminal would obey is '?'. */
void app_print_line(FILE *to, const char *format, ...) PST_PRINTF(2, 3);
/* The bytes of the text's next character, at least 1. *entity: what stands for it in XML; NULL: the
 * character itself. `left`: bytes of the text, at least 1. */
size_t app_xml_next(const char *text, size_t left, const char **entity);
void app_xml_put(FILE *to, const char *text, size_t length);

#endif
