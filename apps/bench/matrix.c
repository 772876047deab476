/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix as a table for people and as JSON. */
#include "matrix.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json_put.h"
#include "size.h"

#define TABLE_MOST 32  /* the most ends whose matrix fits a terminal */
#define PLACE_LEAST 15 /* letters of an end's host, adapter and GPU */
#define PLACE_MOST 40
#define VALUE_MOST 1e12 /* more Gbps or us than any link has: sums of such values stay finite */

int bench_matrix_open(struct matrix *matrix, uint32_t count)
{
  matrix->ends = calloc(count, sizeof(*matrix->ends));
  matrix->values = calloc((size_t)count * count, sizeof(double));
  if (!matrix->ends || !matrix->values)
    return -ENOMEM;
  for (size_t i = 0; i < (size_t)count * count; i++)
    matrix->values[i] = MATRIX_NOT_MEASURED;
  matrix->count = count;
  return 0;
}

void bench_matrix_close(struct matrix *matrix)
{
  free(matrix->ends);
  free(matrix->values);
  free(matrix->outliers);
}

static bool bench_matrix_is_bandwidth(const struct matrix *matrix)
{
  return matrix->c.measure == MEASURE_BANDWIDTH;
}

void bench_matrix_take(struct matrix *matrix, uint32_t from, uint32_t to, struct json_object *row)
{
  struct json_object *value = NULL, *times = NULL;
  double read = MATRIX_NOT_MEASURED;

  if (bench_matrix_is_bandwidth(matrix)) {
    if (json_object_object_get_ex(row, "gbps", &value) && value)
      read = json_object_get_double(value);
  } else if (json_object_object_get_ex(
                 row, bench_is_one_sided(matrix->c.op) ? "completion_ns" : "half_round_trip_ns",
                 &times) &&
             json_object_object_get_ex(times, "p50", &value)) {
    read = json_object_get_double(value) / 1e3;
  }
  const bool is_value = isfinite(read) && read > 0 && read < VALUE_MOST;
  matrix->values[from * matrix->count + to] = is_value ? read : MATRIX_NOT_MEASURED;
}

int bench_matrix_judge(struct matrix *matrix)
{
  return bench_outliers_find(matrix->values, matrix->count, bench_matrix_is_bandwidth(matrix),
                             &matrix->spread, &matrix->outliers, &matrix->outlier_count);
}

const char *bench_matrix_end_name(const struct matrix *matrix, uint32_t end,
                                  char name[MATRIX_NAME_MAX])
{
  const struct matrix_end *it = &matrix->ends[end];

  if (matrix->has_endpoints)
    snprintf(name, MATRIX_NAME_MAX, "%u.%u", it->rank, it->endpoint);
  else
    snprintf(name, MATRIX_NAME_MAX, "%u", it->rank);
  return name;
}

const char *bench_matrix_end_place(const struct matrix *matrix, uint32_t end,
                                   char place[MATRIX_PLACE_MAX])
{
  const struct matrix_end *it = &matrix->ends[end];

  snprintf(place, MATRIX_PLACE_MAX, "%s%s%s%s%s", it->host, it->adapter[0] ? " " : "", it->adapter,
           it->gpu[0] ? " " : "", it->gpu);
  return place;
}

const char *bench_matrix_unit(const struct matrix *matrix)
{
  return bench_matrix_is_bandwidth(matrix) ? "Gbps" : "us";
}

const char *bench_matrix_title(const struct matrix *matrix, char title[MATRIX_NAME_MAX])
{
  char size[SIZE_TEXT_BYTES];

  snprintf(title, MATRIX_NAME_MAX, "%s %s, %s", bench_op_name(matrix->c.op),
           bench_measure_name(matrix->c.measure), app_size_text(matrix->c.size, size));
  return title;
}

/* ---- For people ---------------------------------------------------------------------- */

/* Decimals for about four significant digits. */
static int bench_matrix_digits(double value)
{
  return value < 0.1 ? 5 : value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
}

static int bench_matrix_place_width(const struct matrix *matrix)
{
  char place[MATRIX_PLACE_MAX];
  int width = PLACE_LEAST;

  for (uint32_t end = 0; end < matrix->count; end++) {
    const int length = (int)strlen(bench_matrix_end_place(matrix, end, place));
    width = length > width ? length : width;
  }
  return width < PLACE_MOST ? width : PLACE_MOST;
}

static void bench_matrix_show_row(FILE *to, const struct matrix *matrix, uint32_t from, int width)
{
  char name[MATRIX_NAME_MAX], place[MATRIX_PLACE_MAX];

  fprintf(to, "%6s %-*.*s", bench_matrix_end_name(matrix, from, name), width, width,
          bench_matrix_end_place(matrix, from, place));
  for (uint32_t i = 0; i < matrix->count; i++) {
    const double value = matrix->values[from * matrix->count + i];
    if (value < 0)
      fprintf(to, " %8s", i == from || matrix->ends[i].rank == matrix->ends[from].rank ? "-" : "?");
    else
      fprintf(to, " %8.*f", bench_matrix_digits(value), value);
  }
  fprintf(to, "\n");
}

static void bench_matrix_show_outlier(FILE *to, const struct matrix *matrix,
                                      const struct bench_outlier *outlier)
{
  char from[MATRIX_NAME_MAX], other[MATRIX_NAME_MAX];
  const char *whole = matrix->has_endpoints ? "endpoint" : "rank";
  char place[MATRIX_PLACE_MAX], there[MATRIX_PLACE_MAX];

  bench_matrix_end_name(matrix, outlier->from, from);
  bench_matrix_end_name(matrix, outlier->to, other);
  bench_matrix_end_place(matrix, outlier->from, place);
  if (outlier->what == BENCH_SLOW_LINK)
    fprintf(to, "slow: link from %s %s (%s) to %s (%s)", whole, from, place, other,
            bench_matrix_end_place(matrix, outlier->to, there));
  else
    fprintf(to, "slow: %s %s (%s)%s", whole, from, place,
            outlier->what == BENCH_SLOW_SENDER     ? " as a sender"
            : outlier->what == BENCH_SLOW_RECEIVER ? " as a receiver"
                                                   : "");
  fprintf(to, ": %.*f %s", bench_matrix_digits(outlier->value), outlier->value,
          bench_matrix_unit(matrix));
  if (matrix->spread.median > 0)
    fprintf(to, ", %.0f%% of the median", 100 * outlier->value / matrix->spread.median);
  fprintf(to, "\n");
}

void bench_matrix_show(FILE *to, const struct matrix *matrix)
{
  char title[MATRIX_NAME_MAX], name[MATRIX_NAME_MAX];
  const struct bench_spread *spread = &matrix->spread;

  fprintf(to, "%s, %u ranks, in %s; rows send to columns\n", bench_matrix_title(matrix, title),
          matrix->ranks, bench_matrix_unit(matrix));
  if (matrix->count > TABLE_MOST) {
    fprintf(to, "%u ends: the matrix is in --json FILE and --heat-map FILE\n", matrix->count);
  } else {
    const int width = bench_matrix_place_width(matrix);
    fprintf(to, "%6s %-*s", matrix->has_endpoints ? "end" : "rank", width, "host");
    for (uint32_t end = 0; end < matrix->count; end++)
      fprintf(to, " %8s", bench_matrix_end_name(matrix, end, name));
    fprintf(to, "\n");
    for (uint32_t from = 0; from < matrix->count; from++)
      bench_matrix_show_row(to, matrix, from, width);
  }
  if (spread->count == 0) {
    fprintf(to, "nothing was measured\n");
    return;
  }
  fprintf(to, "%u links, median %.*f %s, MAD %.*f\n", spread->count,
          bench_matrix_digits(spread->median), spread->median, bench_matrix_unit(matrix),
          bench_matrix_digits(spread->mad), spread->mad);
  for (uint32_t i = 0; i < matrix->outlier_count; i++)
    bench_matrix_show_outlier(to, matrix, &matrix->outliers[i]);
  if (matrix->count < 3)
    fprintf(to, "only two ends: nothing shows which one is slow\n");
  else if (matrix->outlier_count == 0)
    fprintf(to, "no end and no link is slow\n");
}

/* ---- For machines --------------------------------------------------------------------- */

static struct json_object *bench_matrix_ends_json(const struct matrix *matrix)
{
  struct json_object *list = json_object_new_array();

  for (uint32_t i = 0; i < matrix->count; i++) {
    struct json_object *end = json_object_new_object();
    app_json_put_uint(end, "rank", matrix->ends[i].rank);
    app_json_put_uint(end, "endpoint", matrix->ends[i].endpoint);
    app_json_put_text(end, "hostname", matrix->ends[i].host);
    app_json_put_text(end, "address", matrix->ends[i].address);
    app_json_put_text(end, "adapter", matrix->ends[i].adapter);
    app_json_put_text(end, "gpu", matrix->ends[i].gpu);
    json_object_array_add(list, end);
  }
  return list;
}

static struct json_object *bench_matrix_values_json(const struct matrix *matrix)
{
  struct json_object *rows = json_object_new_array();

  for (uint32_t from = 0; from < matrix->count; from++) {
    struct json_object *row = json_object_new_array();
    for (uint32_t to = 0; to < matrix->count; to++) {
      const double value = matrix->values[from * matrix->count + to];
      json_object_array_add(row, value < 0 ? NULL : json_object_new_double(value));
    }
    json_object_array_add(rows, row);
  }
  return rows;
}

static struct json_object *bench_matrix_outliers_json(const struct matrix *matrix)
{
  struct json_object *list = json_object_new_array();

  for (uint32_t i = 0; i < matrix->outlier_count; i++) {
    const struct bench_outlier *outlier = &matrix->outliers[i];
    struct json_object *object = json_object_new_object();
    app_json_put_text(object, "what", bench_slow_name(outlier->what));
    app_json_put_uint(object, "from", outlier->from);
    app_json_put_uint(object, "to", outlier->to);
    app_json_put_number(object, "value", outlier->value);
    app_json_put_share(object, "of_median",
                       matrix->spread.median > 0 ? outlier->value / matrix->spread.median : -1);
    json_object_array_add(list, object);
  }
  return list;
}

struct json_object *bench_matrix_json(const struct matrix *matrix)
{
  const bool is_known = matrix->spread.count > 0;
  struct json_object *object = json_object_new_object();

  app_json_put_uint(object, "ranks", matrix->ranks);
  app_json_put_text(object, "unit", bench_matrix_unit(matrix));
  json_object_object_add(object, "ends", bench_matrix_ends_json(matrix));
  json_object_object_add(object, "matrix", bench_matrix_values_json(matrix));
  app_json_put_share(object, "median", is_known ? matrix->spread.median : -1);
  app_json_put_share(object, "mad", is_known ? matrix->spread.mad : -1);
  json_object_object_add(object, "outliers", bench_matrix_outliers_json(matrix));
  return object;
}
