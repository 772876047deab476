/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix as a picture, in SVG: the slower, the darker. */
#include <string.h>

#include "matrix.h"
#include "plain_text.h"

#define CELL 56         /* units a side */
#define CELL_SMALL 14   /* of many ends: no number has room in it */
#define NUMBERS_MOST 32 /* ends whose cells have numbers */
#define TOP 112
#define BELOW 150
#define RIGHT 40
#define LETTER 7.2 /* a letter's width, about, at a size of 13 */
#define STEPS 64   /* of the legend */

struct color {
  double red, green, blue;
};

struct drawing {
  FILE *to;
  const struct matrix *matrix;
  double least, most; /* values of the scale's ends */
  double left;
  int cell;
};

/* From fast to slow: ColorBrewer's YlOrRd, which also reads without colours. */
static const struct color scale[] = {
    {255, 255, 204}, {254, 217, 118}, {253, 141, 60}, {227, 26, 28}, {128, 0, 38}};
#define SCALE_LAST (sizeof(scale) / sizeof(scale[0]) - 1)

static double bench_heat_least(double a, double b)
{
  return a < b ? a : b;
}

static double bench_heat_most(double a, double b)
{
  return a > b ? a : b;
}

/* slow: 0 to 1. */
static struct color bench_heat_color(double slow)
{
  const double at = bench_heat_least(bench_heat_most(slow, 0), 1) * SCALE_LAST;
  const size_t step = at >= SCALE_LAST ? SCALE_LAST - 1 : (size_t)at;
  const double share = at - (double)step;
  const struct color *a = &scale[step], *b = &scale[step + 1];

  return (struct color){a->red + share * (b->red - a->red),
                        a->green + share * (b->green - a->green),
                        a->blue + share * (b->blue - a->blue)};
}

static double bench_heat_slowness(const struct drawing *drawing, double value)
{
  const double range = drawing->most - drawing->least;
  const double share = range > 0 ? (value - drawing->least) / range : 0;

  return drawing->matrix->c.measure == MEASURE_BANDWIDTH ? 1 - share : share;
}

/* Three digits that count. */
static int bench_heat_digits(double value)
{
  return value < 0.1 ? 4 : value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
}

/* From the median, which is usual and pale, to the worst, or to twice as bad: where values do not
 * differ by much, so do the colours not. */
static void bench_heat_choose_scale(struct drawing *drawing)
{
  const struct matrix *matrix = drawing->matrix;
  const double median = matrix->spread.median;

  drawing->least = median / 2;
  drawing->most = median * 2;
  for (size_t i = 0; i < (size_t)matrix->count * matrix->count; i++) {
    if (matrix->values[i] >= 0) {
      drawing->least = bench_heat_least(drawing->least, matrix->values[i]);
      drawing->most = bench_heat_most(drawing->most, matrix->values[i]);
    }
  }
  if (matrix->c.measure == MEASURE_BANDWIDTH)
    drawing->most = median;
  else
    drawing->least = median;
}

static void bench_heat_draw_cell(const struct drawing *drawing, uint32_t from, uint32_t to)
{
  const struct matrix *matrix = drawing->matrix;
  const double value = matrix->values[from * matrix->count + to];
  const double x = drawing->left + (double)to * drawing->cell;
  const double y = TOP + (double)from * drawing->cell;
  const double slow = bench_heat_slowness(drawing, value);
  const struct color color = bench_heat_color(slow);
  const bool is_own = matrix->ends[from].rank == matrix->ends[to].rank;
  char a[MATRIX_NAME_MAX], b[MATRIX_NAME_MAX];

  fprintf(drawing->to, "<g><title>%s to %s", bench_matrix_end_name(matrix, from, a),
          bench_matrix_end_name(matrix, to, b));
  if (value >= 0)
    fprintf(drawing->to, ": %.*f %s", bench_heat_digits(value) + 1, value,
            bench_matrix_unit(matrix));
  fprintf(drawing->to, "</title><rect x='%g' y='%g' width='%d' height='%d' ", x, y, drawing->cell,
          drawing->cell);
  if (value < 0)
    fprintf(drawing->to, "fill='%s'/>", is_own ? "#ececec" : "url(#none)");
  else
    fprintf(drawing->to, "fill='rgb(%.0f,%.0f,%.0f)'/>", color.red, color.green, color.blue);
  if (value >= 0 && matrix->count <= NUMBERS_MOST)
    fprintf(drawing->to, "<text x='%g' y='%g' text-anchor='middle' fill='%s'>%.*f</text>",
            x + drawing->cell / 2.0, y + drawing->cell / 2.0 + 5, slow > 0.55 ? "#fff" : "#222",
            bench_heat_digits(value), value);
  fprintf(drawing->to, "</g>\n");
}

/* Slow ends have their row or column framed, slow links their cell. */
static void bench_heat_frame(const struct drawing *drawing, const struct bench_outlier *outlier)
{
  const struct matrix *matrix = drawing->matrix;
  const int all = (int)matrix->count * drawing->cell;
  const double x = drawing->left + (double)outlier->to * drawing->cell;
  const double y = TOP + (double)outlier->from * drawing->cell;
  const char *const form =
      "<rect x='%g' y='%g' width='%d' height='%d' fill='none' stroke='#1f4e9e' "
      "stroke-width='3'/>\n";

  if (outlier->what == BENCH_SLOW_LINK)
    fprintf(drawing->to, form, x, y, drawing->cell, drawing->cell);
  if (outlier->what == BENCH_SLOW_END || outlier->what == BENCH_SLOW_SENDER)
    fprintf(drawing->to, form, drawing->left, y, all, drawing->cell);
  if (outlier->what == BENCH_SLOW_END || outlier->what == BENCH_SLOW_RECEIVER)
    fprintf(drawing->to, form, x, (double)TOP, drawing->cell, all);
}

static void bench_heat_draw_names(const struct drawing *drawing)
{
  const struct matrix *matrix = drawing->matrix;
  char name[MATRIX_NAME_MAX], place[MATRIX_PLACE_MAX];

  for (uint32_t end = 0; end < matrix->count; end++) {
    const double middle = ((double)end + 0.5) * drawing->cell;
    bench_matrix_end_name(matrix, end, name);
    fprintf(drawing->to, "<text x='%g' y='%g' text-anchor='end'>", drawing->left - 8,
            TOP + middle + 5);
    bench_matrix_end_place(matrix, end, place);
    app_xml_put(drawing->to, place, strlen(place));
    fprintf(drawing->to, "  <tspan font-weight='bold'>%s</tspan></text>\n", name);
    fprintf(drawing->to, "<text x='%g' y='%d' text-anchor='middle' font-weight='bold'>%s</text>\n",
            drawing->left + middle, TOP - 8, name);
  }
  fprintf(drawing->to, "<text x='%g' y='%d' fill='#555'>receives &#8594;</text>\n", drawing->left,
          TOP - 30);
  fprintf(drawing->to, "<text x='%g' y='%d' text-anchor='end' fill='#555'>sends &#8595;</text>\n",
          drawing->left - 8, TOP - 8);
}

static void bench_heat_draw_legend(const struct drawing *drawing, double y)
{
  const double fast =
      drawing->matrix->c.measure == MEASURE_BANDWIDTH ? drawing->most : drawing->least;
  const double slow = drawing->most + drawing->least - fast;
  const double step = 4;

  for (int i = 0; i < STEPS; i++) {
    const struct color color = bench_heat_color((double)i / (STEPS - 1));
    fprintf(drawing->to,
            "<rect x='%g' y='%g' width='%g' height='16' fill='rgb(%.0f,%.0f,%.0f)'/>\n",
            24 + i * step, y, step + 0.5, color.red, color.green, color.blue);
  }
  fprintf(drawing->to, "<text x='24' y='%g'>%.*f %s and better</text>\n", y + 34,
          bench_heat_digits(fast), fast, bench_matrix_unit(drawing->matrix));
  fprintf(drawing->to, "<text x='%g' y='%g' text-anchor='end'>%.*f</text>\n", 24 + STEPS * step,
          y + 34, bench_heat_digits(slow), slow);
}

/* The worst of what is slow, and how many more there are. */
static void bench_heat_draw_findings(const struct drawing *drawing, double y)
{
  const struct matrix *matrix = drawing->matrix;
  const uint32_t shown = matrix->outlier_count < 3 ? matrix->outlier_count : 3;
  char a[MATRIX_NAME_MAX], b[MATRIX_NAME_MAX];

  for (uint32_t i = 0; i < shown; i++) {
    const struct bench_outlier *it = &matrix->outliers[i];
    bench_matrix_end_name(matrix, it->from, a);
    bench_matrix_end_name(matrix, it->to, b);
    fprintf(drawing->to, "<text x='24' y='%g' fill='#1f4e9e'>slow: ", y + 20 * i);
    if (it->what == BENCH_SLOW_LINK)
      fprintf(drawing->to, "link %s to %s", a, b);
    else
      fprintf(drawing->to, "%s%s", a,
              it->what == BENCH_SLOW_SENDER     ? " sends"
              : it->what == BENCH_SLOW_RECEIVER ? " receives"
                                                : "");
    fprintf(drawing->to, ", %.*f %s%s</text>\n", bench_heat_digits(it->value), it->value,
            bench_matrix_unit(matrix),
            i + 1 == shown && matrix->outlier_count > shown ? ", and more" : "");
  }
  if (matrix->outlier_count == 0)
    fprintf(drawing->to, "<text x='24' y='%g' fill='#555'>%s</text>\n", y,
            matrix->spread.count == 0 ? "nothing was measured"
            : matrix->count < 3       ? "only two ends: nothing shows which one is slow"
                                      : "no end and no link is slow");
}

void bench_matrix_draw(FILE *to, const struct matrix *matrix)
{
  struct drawing drawing = {
      .to = to, .matrix = matrix, .cell = matrix->count <= NUMBERS_MOST ? CELL : CELL_SMALL};
  char title[MATRIX_NAME_MAX], place[MATRIX_PLACE_MAX];
  size_t longest = 4;

  for (uint32_t end = 0; end < matrix->count; end++)
    if (strlen(bench_matrix_end_place(matrix, end, place)) > longest)
      longest = strlen(place);
  drawing.left = 70 + LETTER * (double)longest;
  bench_heat_choose_scale(&drawing);
  const double side = (double)matrix->count * drawing.cell;
  const double width = bench_heat_most(drawing.left + side + RIGHT, 400),
               height = TOP + side + BELOW;
  fprintf(to,
          "<svg xmlns='http://www.w3.org/2000/svg' width='%g' height='%g' viewBox='0 0 %g %g' "
          "font-family='Helvetica, Arial, sans-serif' font-size='13' fill='#222'>\n"
          "<defs><pattern id='none' width='8' height='8' patternUnits='userSpaceOnUse'>"
          "<rect width='8' height='8' fill='#fff'/><path d='M0 8L8 0' stroke='#999'/></pattern>"
          "</defs>\n<rect width='%g' height='%g' fill='#fff'/>\n"
          "<text x='24' y='32' font-size='17' font-weight='bold'>",
          width, height, width, height, width, height);
  app_xml_put(to, bench_matrix_title(matrix, title), strlen(bench_matrix_title(matrix, title)));
  fprintf(to, "</text>\n<text x='24' y='54' fill='#555'>%u ranks, in %s", matrix->ranks,
          bench_matrix_unit(matrix));
  if (matrix->spread.count > 0)
    fprintf(to, "; median %.*f, MAD %.2g", bench_heat_digits(matrix->spread.median),
            matrix->spread.median, matrix->spread.mad);
  fprintf(to, "</text>\n");
  for (uint32_t from = 0; from < matrix->count; from++)
    for (uint32_t end = 0; end < matrix->count; end++)
      bench_heat_draw_cell(&drawing, from, end);
  for (uint32_t i = 0; i < matrix->outlier_count; i++)
    bench_heat_frame(&drawing, &matrix->outliers[i]);
  bench_heat_draw_names(&drawing);
  bench_heat_draw_legend(&drawing, TOP + side + 24);
  bench_heat_draw_findings(&drawing, TOP + side + 86);
  fprintf(to, "</svg>\n");
}
