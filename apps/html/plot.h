/* SPDX-License-Identifier: Apache-2.0 */
/* Plots as inline SVG. */
#ifndef APP_HTML_PLOT_H
#define APP_HTML_PLOT_H

#include "text.h"

#define HTML_COLOURS 8 /* of the page's style: .c0 to .c7 */

struct html_line {
  char name[160];
  double *x, *y; /* values that are NAN make a gap */
  size_t count;
};

struct html_axes {
  const char *title, *x, *y; /* with their units */
  bool log_x, log_y;
  const char *const *names; /* of x at 0, 1, …; NULL: numbers */
  size_t name_count;
  bool binary_x; /* x are sizes in bytes */
};

/* Lines with axes, grid and legend; nothing where no line has two values. */
void html_plot(struct html *html, const struct html_axes *axes, const struct html_line *lines,
               size_t count);

struct html_bar {
  char name[160];
  double parts[16];
};
/* Horizontal bars of stacked parts, each with its name in the legend. `unit` is behind numbers. */
void html_bars(struct html *html, const char *title, const char *unit, const char *const *parts,
               size_t part_count, const struct html_bar *bars, size_t count);

#endif
