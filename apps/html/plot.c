/* SPDX-License-Identifier: Apache-2.0 */
/* Plots as inline SVG, coloured by the page's style. */
#include "plot.h"

#include <math.h>
#include <stdio.h>

#define WIDTH 860
#define HEIGHT 300
#define LEFT 78
#define RIGHT 30 /* half of the last size has room */
#define TOP 14
#define BOTTOM 48
#define ROW 26 /* of a bar */
#define BAR_LEFT 230
#define BAR_RIGHT 130

struct scale {
  double from, to; /* as they are, or their logarithms */
  bool is_log;
  double first, last; /* pixels */
};

static double plot_at(const struct scale *scale, double value)
{
  double v = scale->is_log ? log10(value) : value;

  return scale->first +
         (v - scale->from) / (scale->to - scale->from) * (scale->last - scale->first);
}

/* 1, 2 or 5 times a power of ten, so that there are about `wanted` steps. */
static double plot_step(double range, double wanted)
{
  double raw = range / wanted, power = pow(10, floor(log10(raw))), rest = raw / power;

  return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

static bool plot_is_shown(const struct html_axes *axes, double x, double y)
{
  return isfinite(x) && isfinite(y) && (!axes->log_x || x > 0) && (!axes->log_y || y > 0);
}

/* False: there is nothing to draw. */
static bool plot_scales(const struct html_axes *axes, const struct html_line *lines, size_t count,
                        struct scale *x, struct scale *y)
{
  double least_x = INFINITY, most_x = -INFINITY, least_y = INFINITY, most_y = -INFINITY;
  size_t shown = 0;

  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < lines[i].count; j++) {
      if (!plot_is_shown(axes, lines[i].x[j], lines[i].y[j]))
        continue;
      shown++;
      least_x = fmin(least_x, lines[i].x[j]);
      most_x = fmax(most_x, lines[i].x[j]);
      least_y = fmin(least_y, lines[i].y[j]);
      most_y = fmax(most_y, lines[i].y[j]);
    }
  if (shown == 0)
    return false;
  *x = (struct scale){axes->log_x   ? log10(least_x)
                      : axes->names ? 0
                                    : fmin(least_x, 0),
                      axes->log_x ? log10(most_x) : most_x, axes->log_x, LEFT, WIDTH - RIGHT};
  *y = (struct scale){axes->log_y ? floor(log10(least_y)) : 0,
                      axes->log_y ? ceil(log10(most_y)) : most_y * 1.05, axes->log_y,
                      HEIGHT - BOTTOM, TOP};
  if (x->to - x->from < 1e-12)
    x->to = x->from + 1;
  if (y->to - y->from < 1e-12)
    y->to = y->from + 1;
  return true;
}

static void plot_number(char text[32], double value)
{
  if (value >= 1e12 || (value > 0 && value < 1e-3))
    snprintf(text, 32, "%.3g", value);
  else if (value >= 1e4)
    snprintf(text, 32, "%.4g%c",
             value / (value >= 1e9   ? 1e9
                      : value >= 1e6 ? 1e6
                                     : 1e3),
             value >= 1e9   ? 'G'
             : value >= 1e6 ? 'M'
                            : 'k');
  else
    snprintf(text, 32, "%.4g", value);
}

static void plot_size(char text[32], double bytes)
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;

  for (; bytes >= 1024 && unit < 3; unit++)
    bytes /= 1024;
  snprintf(text, 32, "%.4g %s", bytes, units[unit]);
}

static void plot_y_tick(struct html *html, const struct scale *y, double value)
{
  char text[32];

  plot_number(text, value);
  html_put(html,
           "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
           "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
           LEFT, WIDTH - RIGHT, plot_at(y, value), plot_at(y, value), LEFT - 8,
           plot_at(y, value) + 4, text);
}

static void plot_x_tick(struct html *html, const struct scale *x, double value, const char *text)
{
  html_put(html,
           "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
           "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>",
           plot_at(x, value), plot_at(x, value), TOP, HEIGHT - BOTTOM, plot_at(x, value),
           HEIGHT - BOTTOM + 17, text);
}

static void plot_y_axis(struct html *html, const struct scale *y)
{
  if (y->is_log) {
    for (double power = y->from; power <= y->to + 0.01; power++)
      plot_y_tick(html, y, pow(10, power));
    return;
  }
  double step = plot_step(y->to - y->from, 5);
  for (double at = 0; at <= y->to; at += step)
    plot_y_tick(html, y, at);
}

static void plot_x_axis(struct html *html, const struct html_axes *axes, const struct scale *x)
{
  char text[32];

  if (axes->names) {
    for (size_t i = 0; i < axes->name_count; i++)
      plot_x_tick(html, x, (double)i, axes->names[i]);
  } else if (axes->binary_x) {
    for (double at = pow(4, ceil(x->from / log10(4))); log10(at) <= x->to + 1e-9; at *= 4) {
      plot_size(text, at);
      plot_x_tick(html, x, at, text);
    }
  } else {
    double step = plot_step(x->to - x->from, 8);
    for (double at = ceil(x->from / step) * step; at <= x->to + step / 1e6; at += step) {
      plot_number(text, at);
      plot_x_tick(html, x, at, text);
    }
  }
}

static void plot_line(struct html *html, const struct html_axes *axes, const struct scale *x,
                      const struct scale *y, const struct html_line *line, size_t number)
{
  bool is_open = false;

  html_put(html, "<g class=\"c%zu%s\"><title>", number % HTML_COLOURS,
           number >= HTML_COLOURS ? " dashed" : "");
  html_escaped(html, line->name);
  html_put(html, "</title><path d=\"");
  for (size_t i = 0; i < line->count; i++) {
    bool is_shown = plot_is_shown(axes, line->x[i], line->y[i]);
    if (is_shown)
      html_put(html, "%c%.1f %.1f", is_open ? 'L' : 'M', plot_at(x, line->x[i]),
               plot_at(y, line->y[i]));
    is_open = is_shown;
  }
  html_put(html, "\"/>");
  for (size_t i = 0; i < line->count && line->count <= 40; i++)
    if (plot_is_shown(axes, line->x[i], line->y[i]))
      html_put(html, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", plot_at(x, line->x[i]),
               plot_at(y, line->y[i]));
  html_put(html, "</g>\n");
}

static void plot_key(struct html *html, size_t number, const char *name)
{
  html_put(html, "<li><span class=\"key c%zu%s\"></span>", number % HTML_COLOURS,
           number >= HTML_COLOURS ? " dashed" : "");
  html_escaped(html, name);
  html_put(html, "</li>");
}

void html_plot(struct html *html, const struct html_axes *axes, const struct html_line *lines,
               size_t count)
{
  struct scale x, y;

  if (!plot_scales(axes, lines, count, &x, &y))
    return;
  html_put(html, "<figure><figcaption>%s</figcaption>\n", axes->title);
  html_put(html, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", WIDTH, HEIGHT,
           axes->title);
  plot_y_axis(html, &y);
  plot_x_axis(html, axes, &x);
  html_put(html,
           "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>"
           "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>"
           "<text class=\"label\" transform=\"translate(16 %d) rotate(-90)\" "
           "text-anchor=\"middle\">%s</text>\n",
           LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8,
           axes->x, (TOP + HEIGHT - BOTTOM) / 2, axes->y);
  for (size_t i = 0; i < count; i++)
    plot_line(html, axes, &x, &y, &lines[i], i);
  html_put(html, "</svg><ul class=\"legend\">");
  for (size_t i = 0; i < count; i++)
    plot_key(html, i, lines[i].name);
  html_put(html, "</ul></figure>\n");
}

/* ---- Bars --------------------------------------------------------------------- */

static double plot_sum(const struct html_bar *bar, size_t part_count)
{
  double sum = 0;

  for (size_t i = 0; i < part_count; i++)
    sum += isfinite(bar->parts[i]) ? bar->parts[i] : 0;
  return sum;
}

static void plot_bar(struct html *html, const struct html_bar *bar, const char *unit,
                     const char *const *parts, size_t part_count, double most, int y)
{
  const double scale = (WIDTH - BAR_LEFT - BAR_RIGHT) / most;
  double at = BAR_LEFT;
  char text[32];

  html_put(html, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", BAR_LEFT - 8, y + ROW / 2 + 4);
  html_escaped(html, bar->name);
  html_put(html, "</text>");
  for (size_t i = 0; i < part_count; i++) {
    double value = bar->parts[i];
    if (!(value > 0))
      continue;
    plot_number(text, value);
    html_put(html, "<rect class=\"c%zu\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"><title>",
             i % HTML_COLOURS, at, y + 3, fmax(value * scale, 0.5), ROW - 6);
    html_escaped(html, parts[i]);
    html_put(html, ": %s %s</title></rect>", text, unit);
    at += value * scale;
  }
  plot_number(text, plot_sum(bar, part_count));
  html_put(html, "<text x=\"%.1f\" y=\"%d\">%s %s</text>\n", at + 6, y + ROW / 2 + 4, text, unit);
}

void html_bars(struct html *html, const char *title, const char *unit, const char *const *parts,
               size_t part_count, const struct html_bar *bars, size_t count)
{
  double most = 0;

  for (size_t i = 0; i < count; i++)
    most = fmax(most, plot_sum(&bars[i], part_count));
  if (!(most > 0))
    return;
  html_put(html, "<figure><figcaption>%s</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">",
           title, WIDTH, (int)count * ROW + 8);
  for (size_t i = 0; i < count; i++)
    plot_bar(html, &bars[i], unit, parts, part_count, most, 4 + (int)i * ROW);
  html_put(html, "</svg><ul class=\"legend\">");
  for (size_t i = 0; i < part_count; i++)
    plot_key(html, i, parts[i]);
  html_put(html, "</ul></figure>\n");
}
