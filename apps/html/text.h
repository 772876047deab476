/* SPDX-License-Identifier: Apache-2.0 */
/* Text of an HTML page, and what is read from results that others may have written. */
#ifndef APP_HTML_TEXT_H
#define APP_HTML_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/penstock.h>

struct json_object;

struct html {
  char *bytes;
  size_t length, capacity;
  bool failed; /* out of memory */
};

/* Markup of our own. */
void html_put(struct html *html, const char *format, ...) PST_PRINTF(2, 3);
void html_put_plain(struct html *html, const char *text);
/* Any text: what has a meaning in HTML is escaped, also in attributes with quotes; bytes that are
 * not UTF-8 and control characters become '?'. NULL is "". */
void html_escaped(struct html *html, const char *text);

/* Members of an object; `from` and what is there may be of any type. */
struct json_object *html_member(struct json_object *from, const char *key);
/* "" where it is no text. */
const char *html_text_of(struct json_object *from, const char *key);
/* NAN where it is no finite number of 0 to 1e300. */
double html_number_of(struct json_object *from, const char *key);
double html_number_at(struct json_object *list, size_t at);
/* How many elements; 0 where it is no list. `most`: what is more is left out. */
size_t html_count(struct json_object *list, size_t most);

#endif
