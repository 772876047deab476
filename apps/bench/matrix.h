/* SPDX-License-Identifier: Apache-2.0 */
/* Results of --all-pairs: a value for each pair of ends and each direction. */
#ifndef APP_BENCH_MATRIX_H
#define APP_BENCH_MATRIX_H

#include <stdint.h>
#include <stdio.h>

#include "cases.h"
#include "outliers.h"

struct json_object;

#define MATRIX_NOT_MEASURED (-1.0)

struct matrix_end {
  uint32_t rank, endpoint;
  char host[64];
  char address[96];
  char adapter[64], gpu[64]; /* "": none, or not known */
};

struct matrix {
  struct bench_case c; /* of each measurement */
  uint32_t ranks, count;
  bool has_endpoints; /* some rank has more than one */
  struct matrix_end *ends;
  double *values; /* Gbps, or us at the median; [from * count + to] */
  struct bench_spread spread;
  struct bench_outlier *outliers;
  uint32_t outlier_count;
};

/* Of `count` ends, whose names the caller writes; nothing is measured. 0 or -ENOMEM. */
int bench_matrix_open(struct matrix *matrix, uint32_t count);
void bench_matrix_close(struct matrix *matrix);
/* Notes what a bench_row_json() says of this pair. */
void bench_matrix_take(struct matrix *matrix, uint32_t from, uint32_t to, struct json_object *row);
/* Finds what is slow. 0 or -ENOMEM. */
int bench_matrix_judge(struct matrix *matrix);

#define MATRIX_NAME_MAX 96
#define MATRIX_PLACE_MAX 200
/* "3" or "3.1" where ranks have several endpoints. */
const char *bench_matrix_end_name(const struct matrix *matrix, uint32_t end,
                                  char name[MATRIX_NAME_MAX]);
/* "node2 mlx5_0 gpu1": its host, and what is known of its adapter and GPU. */
const char *bench_matrix_end_place(const struct matrix *matrix, uint32_t end,
                                   char place[MATRIX_PLACE_MAX]);
const char *bench_matrix_unit(const struct matrix *matrix);
/* "send bandwidth, 1 MiB" */
const char *bench_matrix_title(const struct matrix *matrix, char title[MATRIX_NAME_MAX]);

/* The table, the median, and what is slow. */
void bench_matrix_show(FILE *to, const struct matrix *matrix);
struct json_object *bench_matrix_json(const struct matrix *matrix);
/* An SVG picture. */
void bench_matrix_draw(FILE *to, const struct matrix *matrix);

#endif
