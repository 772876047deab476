/* SPDX-License-Identifier: Apache-2.0 */
/* The measurements of a sweep as CSV (RFC 4180). */
#ifndef APP_BENCH_CSV_H
#define APP_BENCH_CSV_H

struct json_object;

/* Writes `rows`, as a result has them, one line each behind a head; "-": standard output. Replaces
 * a FILE whose head is equal, and no other. Returns 0, or -errno, reported. */
int bench_csv_write(struct json_object *rows, const char *path);

#endif
