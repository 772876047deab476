/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of measurements. */
#include "csv.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "log.h"

/* Keys of a row, and of an object in it. */
static const struct {
  const char *object, *key;
} columns[] = {
    {NULL, "op"},
    {NULL, "measure"},
    {NULL, "size_bytes"},
    {NULL, "ring_slots"},
    {NULL, "depth"},
    {NULL, "places"},
    {NULL, "ok"},
    {NULL, "cpu_share"},
    {NULL, "messages_measured"},
    {NULL, "bytes_measured"},
    {NULL, "seconds"},
    {NULL, "messages_per_second"},
    {NULL, "gbps"},
    {"verdict", "limited_by"},
    {"half_round_trip_ns", "min"},
    {"half_round_trip_ns", "p50"},
    {"half_round_trip_ns", "p99"},
    {"half_round_trip_ns", "p99_9"},
    {"half_round_trip_ns", "max"},
    {"completion_ns", "min"},
    {"completion_ns", "p50"},
    {"completion_ns", "p99"},
    {"completion_ns", "p99_9"},
    {"completion_ns", "max"},
    {NULL, "verified"},
    {NULL, "corrupted"},
    {NULL, "path"},
    {NULL, "via"},
    {NULL, "carrier"},
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))
#define HEAD_START "op,measure,size_bytes,"

static void bench_csv_head(FILE *to)
{
  for (size_t i = 0; i < COLUMNS; i++)
    fprintf(to, "%s%s%s%s", i > 0 ? "," : "", columns[i].object ? columns[i].object : "",
            columns[i].object ? "." : "", columns[i].key);
  fputs("\r\n", to);
}

/* Null is an empty field. A text with a comma, quote or end of line is quoted. */
static void bench_csv_field(FILE *to, struct json_object *value)
{
  const char *text = value ? json_object_get_string(value) : "";
  const bool is_quoted = strpbrk(text, ",\"\r\n") != NULL;

  if (is_quoted)
    putc('"', to);
  for (; *text != '\0'; text++) {
    if (*text == '"')
      putc('"', to);
    putc(*text, to);
  }
  if (is_quoted)
    putc('"', to);
}

static void bench_csv_row(FILE *to, struct json_object *row)
{
  for (size_t i = 0; i < COLUMNS; i++) {
    struct json_object *from = row, *value = NULL;
    if (columns[i].object)
      json_object_object_get_ex(row, columns[i].object, &from);
    if (from)
      json_object_object_get_ex(from, columns[i].key, &value);
    if (i > 0)
      putc(',', to);
    bench_csv_field(to, value);
  }
  fputs("\r\n", to);
}

static const char *bench_csv_why_not(int fd)
{
  char start[sizeof(HEAD_START)] = "";

  if (fd == -ENOENT || (fd >= 0 && pread(fd, start, sizeof(start) - 1, 0) == 0) ||
      strcmp(start, HEAD_START) == 0)
    return NULL;
  return "exists and has no measurements of `penstock bench`";
}

static int bench_csv_put(const char *path, const char *text, size_t length)
{
  struct atomic_file output = ATOMIC_FILE_INIT;
  int rc = app_atomic_file_open_over(
      &output, "--csv", path, ATOMIC_FILE_OVERWRITE | ATOMIC_FILE_WHOLE, bench_csv_why_not, NULL);

  while (rc == 0 && length > 0) {
    ssize_t put = write(output.fd, text, length);
    if (put < 0)
      rc = app_log_fail(NULL, PST_EXIT_FAILED, -errno, "--csv: cannot write %s: %s", path,
                        strerror(errno));
    text += put > 0 ? put : 0;
    length -= put > 0 ? (size_t)put : 0;
  }
  if (rc == 0)
    rc = app_atomic_file_commit(&output, "--csv", NULL);
  app_atomic_file_discard(&output);
  return rc;
}

int bench_csv_write(struct json_object *rows, const char *path)
{
  char *text = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&text, &length);

  if (!to)
    return app_log_fail(NULL, PST_EXIT_FAILED, -ENOMEM, "--csv: out of memory");
  bench_csv_head(to);
  for (size_t i = 0; i < json_object_array_length(rows); i++)
    bench_csv_row(to, json_object_array_get_idx(rows, i));
  fclose(to);
  int rc = 0;
  if (strcmp(path, "-") == 0)
    fwrite(text, 1, length, stdout); /* main() looks whether that was possible */
  else
    rc = bench_csv_put(path, text, length);
  free(text);
  return rc;
}
