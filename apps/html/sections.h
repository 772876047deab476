/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the page of `penstock report`. */
#ifndef APP_HTML_SECTIONS_H
#define APP_HTML_SECTIONS_H

#include "text.h"

#define HTML_RESULTS 32 /* of a page */

/* A result that was read; its name is the file's. */
struct html_result {
  const char *name;
  struct json_object *root;
};

/* Writes tables and plots of all results; what a plot has no values for is left out. */
void html_sections(struct html *html, const struct html_result *results, size_t count);

#endif
