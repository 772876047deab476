/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a case, and how it is shown: a table for people, JSON for machines. */
#ifndef APP_BENCH_RESULT_ROW_H
#define APP_BENCH_RESULT_ROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <penstock/penstock.h>

#include "cases.h"
#include "environment.h"
#include "finding.h"
#include "histogram.h"
#include "measure.h"

struct json_object;

/* The path as the receiving end has it. */
struct bench_path {
  char path[16], reason[256], via[64], carrier[64];
  char backing[48];
};

struct bench_row {
  struct bench_case c;
  struct measure_taken taken; /* by the receiver; latency, one-sided: by the client */
  struct histogram times;     /* latency: whole round trips, or transfers, in ns */
  struct bench_path path;
  struct bench_path back; /* send latency: of what comes back */
  uint64_t sent;          /* one-sided: posted */
  uint64_t done, failed;  /* one-sided */
  bool reliable;          /* the transport promises that none is lost */
  int limited_by;         /* as pst_verdict */
  double share;
  bool stopped;     /* cut short by ^C */
  bool unreachable; /* the ends could not connect: `error` says why, and has been logged */
  double cpu_share; /* the least that an end had of its CPU; less than 0: not known */
  int exit_status;
  enum finding finding;
  char error[2048]; /* "": ok */
};

/* The two ends, and what they measure with. */
struct bench_setting {
  const struct bench_plan *plan;
  struct environment environment;
  const char *form;               /* "processes", "threads", "hosts", "ranks" */
  char token[BENCH_TOKEN_MAX];    /* a server of our own knows us by it; "" */
  char server[512];               /* the other end, in words */
  char server_cpu[128];           /* its CPU's model; "" */
  char transport[64], memory[64]; /* "loopback 0.1.0" */
  uint64_t warmup_ns;
};

void bench_path_make(const struct pst_path_info *info, const char *via, const char *backing,
                     struct bench_path *path);
void bench_path_of(const struct pst_stats *stats, struct bench_path *path);

void bench_show_head(FILE *to, const struct bench_setting *setting);
/* Prints the table's head, before the rows of a kind of case; `c` is the first. */
void bench_show_title(FILE *to, const struct bench_case *c);
void bench_show_row(FILE *to, const struct bench_row *row);

/* Below the table, where threads lacked a CPU: the least share that one had. */
void bench_show_shared(FILE *to, uint32_t shared, uint32_t rows, double least);

/* stopped: as a stream's, of the whole sweep. */
struct json_object *bench_setting_json(const struct bench_setting *setting, const char *stopped);
/* number: it is rows[number]. */
struct json_object *bench_row_json(const struct bench_row *row, uint32_t number);

/* Returns the receiving end's counts as JSON, for the client. NULL: out of memory. */
struct json_object *bench_taken_write(const struct measure_taken *taken,
                                      const struct bench_path *path);
/* Reads what the server counted. 0 or -EPROTO. */
int bench_taken_read(struct json_object *from, struct measure_taken *taken,
                     struct bench_path *path);

#endif
