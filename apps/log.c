/* SPDX-License-Identifier: Apache-2.0 */
/* Lines on standard error: errors, warnings, notes. */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/printable.h"

static const char *const prefixes[] = {"penstock: error: ", "penstock: warning: ", "",
                                       "penstock: debug: "};
/* Called before and after a line is written; NULL: nobody is to be asked. */
static _Atomic(log_around *) around_line;
static int shown_level = PST_LOG_INFO;
static int log_level;          /* of the library's lines */
static atomic_bool is_hushed;  /* none of them is written */
static const char *fail_place; /* of one thread: files are opened by one */
static __thread char last_error[2560];
static __thread char last_where[256];

/* One write a line, so that lines of several threads do not mix. */
static void log_put_line(const char *prefix, const char *line)
{
  char text[4096];
  int length = snprintf(text, sizeof(text) - 1, "%s%s", prefix, line);
  if (length < 0)
    return;
  if ((size_t)length > sizeof(text) - 2)
    length = (int)sizeof(text) - 2;
  text[length++] = '\n';
  log_around *around = atomic_load_explicit(&around_line, memory_order_acquire);
  if (around)
    around(true);
  ssize_t written = write(STDERR_FILENO, text, (size_t)length);
  (void)written; /* nobody is left to tell */
  if (around)
    around(false);
}

void app_log_around(log_around *around)
{
  atomic_store_explicit(&around_line, around, memory_order_release);
}

/* Removes control characters, so that the name of a file or peer cannot forge a line or steer a
 * terminal. */
static void log_clean(char *line)
{
  pst_make_printable(line, strlen(line), '?');
}

void app_log_level(int level)
{
  shown_level = level;
}

/* `where` is of an error. */
static void log_say(int level, const char *where, const char *format, va_list args)
{
  char line[sizeof(last_error)];

  if (level > shown_level && level > PST_LOG_ERROR)
    return;
  vsnprintf(line, sizeof(line), format, args);
  log_clean(line);
  if (level == PST_LOG_ERROR) {
    memcpy(last_error, line, sizeof(line));
    snprintf(last_where, sizeof(last_where), "%s", where ? where : "");
    log_clean(last_where);
  }
  if (level <= shown_level)
    log_put_line(prefixes[level], line);
}

void app_log(int level, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  log_say(level, NULL, format, args);
  va_end(args);
}

void app_log_error_at(const char *where, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  log_say(PST_LOG_ERROR, where, format, args);
  va_end(args);
}

void app_log_warn(enum finding finding, const char *where, const char *format, ...)
{
  char line[2560];
  va_list args;

  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  log_clean(line);
  app_finding_warn(finding, where, line);
  if (finding == FINDING_NO_MAX_LOSS || shown_level >= PST_LOG_WARN)
    log_put_line(prefixes[PST_LOG_WARN], line);
}

static void log_line(void *context, int level, const char *line)
{
  (void)context;
  if (level == PST_LOG_WARN)
    app_finding_warn(FINDING_LOG, NULL, line);
  if (level <= log_level && !atomic_load_explicit(&is_hushed, memory_order_relaxed))
    log_put_line(level == PST_LOG_INFO ? "penstock: " : prefixes[level], line);
}

void app_log_begin(const struct arguments *arguments, int level)
{
  const char *asked = secure_getenv("PENSTOCK_LOG");

  if (arguments->quiet || arguments->verbose > 0) {
    level = arguments->quiet ? PST_LOG_ERROR : PST_LOG_DEBUG;
    app_log_level(level);
  } else if (asked && asked[0] != '\0') {
    level = pst_log_level();
  }
  log_level = level;
  pst_log_set(log_line, NULL, level > PST_LOG_WARN ? level : PST_LOG_WARN);
}

void app_log_hush(bool is_on)
{
  atomic_store_explicit(&is_hushed, is_on, memory_order_relaxed);
}

const char *app_log_last_error(void)
{
  return last_error;
}

const char *app_log_last_where(void)
{
  return last_where[0] != '\0' ? last_where : NULL;
}

void app_log_place(const char *place)
{
  fail_place = place;
}

int app_log_fail(struct pst_error *error, int exit_status, int code, const char *format, ...)
{
  char line[sizeof(error->text)];
  int used_by_place = 0;
  va_list args;

  if (fail_place)
    used_by_place = snprintf(line, sizeof(line), "%.1000s: ", fail_place);
  va_start(args, format);
  vsnprintf(line + used_by_place, sizeof(line) - (size_t)used_by_place, format, args);
  va_end(args);
  log_clean(line);
  snprintf(last_error, sizeof(last_error), "%s", line);
  last_where[0] = '\0';
  if (shown_level >= PST_LOG_ERROR)
    log_put_line(prefixes[PST_LOG_ERROR], line);

  if (error) {
    size_t used = strlen(error->text);
    if (used == 0) {
      error->code = code;
      error->exit_status = exit_status;
    }
    snprintf(error->text + used, sizeof(error->text) - used, "%s%s", used > 0 ? "\n" : "", line);
  }
  return code;
}
