/* SPDX-License-Identifier: Apache-2.0 */
/* The log: level, sink, lines. */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/printable.h"

/* A pipe takes as much in one piece (PIPE_BUF), so lines of several processes
 * into one pipe do not mix either. */
#define LOG_LINE_BYTES 4096
#define LOG_TEXT_BYTES (LOG_LINE_BYTES - 32)

static struct {
  pthread_once_t once;
  pthread_mutex_t mutex; /* of sink and context; held while a line is handed out */
  void (*sink)(void *context, int level, const char *line);
  void *context;
  atomic_int level;
  char wrong_word[68]; /* that PENSTOCK_LOG was set to, until it is warned of */
  atomic_bool is_wrong;
} state = {.once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER, .level = PST_LOG_INFO};

static __thread char last_error[2048];
static __thread const char *(*find_place)(const void *context, const char *line);
static __thread const void *find_context;
/* A sink that logs itself must neither deadlock nor recurse. */
static __thread bool in_sink;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void log_write_stderr(int level, const char *text)
{
  static const char *const words[] = {"error: ", "warning: ", "", "debug: "};
  char line[LOG_LINE_BYTES];
  int n = snprintf(line, sizeof(line), "penstock: %s%s\n", words[level], text);

  for (size_t done = 0; done < (size_t)n;) {
    ssize_t w = write(STDERR_FILENO, line + done, (size_t)n - done);

    if (w > 0)
      done += (size_t)w;
    else if (w < 0 && errno != EINTR)
      return;
  }
}

static void log_read_environment(void)
{
  const char *word = secure_getenv("PENSTOCK_LOG");

  if (!word || !*word)
    return;
  for (int i = 0; i < (int)(sizeof(level_names) / sizeof(level_names[0])); i++) {
    if (strcmp(word, level_names[i]) == 0) {
      atomic_store_explicit(&state.level, i, memory_order_relaxed);
      return;
    }
  }
  snprintf(state.wrong_word, sizeof(state.wrong_word), "%.64s", word);
  atomic_store_explicit(&state.is_wrong, true, memory_order_release);
}

/* To the sink where one was set before the first line. */
static void log_warn_of_environment(void)
{
  if (atomic_load_explicit(&state.is_wrong, memory_order_relaxed) &&
      atomic_exchange_explicit(&state.is_wrong, false, memory_order_acquire))
    pst_log(
        PST_LOG_WARN,
        "PENSTOCK_LOG=%s is not a log level, and info is used; write error, warn, info or debug",
        state.wrong_word);
}

int pst_log_level(void)
{
  pthread_once(&state.once, log_read_environment);
  return atomic_load_explicit(&state.level, memory_order_relaxed);
}

void pst_log_set(void (*sink)(void *context, int level, const char *line), void *context, int level)
{
  pthread_once(&state.once, log_read_environment);
  if (!in_sink)
    pthread_mutex_lock(&state.mutex);
  state.sink = sink;
  state.context = context;
  atomic_store_explicit(&state.level, level, memory_order_relaxed);
  if (!in_sink)
    pthread_mutex_unlock(&state.mutex);
  log_warn_of_environment();
}

bool pst_log_enabled(int level)
{
  int now = pst_log_level();

  log_warn_of_environment();
  return level <= now;
}

/* Cut at a character's border, and say that something is missing. */
static void log_mark_cut(char *text, size_t size)
{
  static const char dots[] = "…";
  size_t at = size - sizeof(dots);

  while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
    at--;
  memcpy(text + at, dots, sizeof(dots));
}

static void log_format_line(char *text, size_t size, const char *format, va_list args)
{
  int n = vsnprintf(text, size, format, args);

  if (n < 0)
    snprintf(text, size, "(unprintable: %s)", format);
  else if ((size_t)n >= size)
    log_mark_cut(text, size);
  /* One line stays one line, and what a peer or a file wrote cannot forge another
   * or steer a terminal. */
  pst_make_printable(text, strlen(text), ' ');
}

static void log_emit(int level, const char *text)
{
  if (level < PST_LOG_ERROR)
    level = PST_LOG_ERROR;
  if (level > PST_LOG_DEBUG)
    level = PST_LOG_DEBUG;
  if (level == PST_LOG_ERROR) {
    const char *place = find_place ? find_place(find_context, text) : NULL;
    snprintf(last_error, sizeof(last_error), "%s%s%s", place ? place : "", place ? ": " : "", text);
    text = place ? last_error : text;
  }
  if (!pst_log_enabled(level))
    return;
  if (in_sink) {
    log_write_stderr(level, text);
    return;
  }
  pthread_mutex_lock(&state.mutex);
  if (state.sink) {
    in_sink = true;
    state.sink(state.context, level, text);
    in_sink = false;
  } else {
    log_write_stderr(level, text);
  }
  pthread_mutex_unlock(&state.mutex);
}

void pst_log(int level, const char *format, ...)
{
  int saved = errno;
  char text[LOG_TEXT_BYTES];
  va_list args;

  if (level <= PST_LOG_ERROR || pst_log_enabled(level)) {
    va_start(args, format);
    log_format_line(text, sizeof(text), format, args);
    va_end(args);
    log_emit(level, text);
  }
  errno = saved;
}

const char *pst_log_last_error(void)
{
  return last_error;
}

void pst_log_clear_error(void)
{
  last_error[0] = '\0';
}

static void log_append_line(struct pst_error *error, const char *text)
{
  size_t head = offsetof(struct pst_error, text);
  size_t size = error->struct_size < sizeof(*error) ? error->struct_size : sizeof(*error);
  size_t used, n;

  if (size <= head + 8)
    return;
  size -= head;
  used = strnlen(error->text, size - 1);
  n = (size_t)snprintf(error->text + used, size - used, "%s%s", used ? "\n" : "", text);
  if (n >= size - used)
    log_mark_cut(error->text, size);
}

static void log_note_error(struct pst_error *error, int exit_status, int code, const char *text)
{
  if (!error || error->struct_size < offsetof(struct pst_error, reserved))
    return;
  if (error->code == 0) {
    error->code = code;
    error->exit_status = exit_status;
  }
  log_append_line(error, text);
}

void pst_log_place(const char *(*find)(const void *context, const char *line), const void *context)
{
  find_place = find;
  find_context = context;
  if (find)
    pst_log_clear_error();
}

int pst_fail_said(struct pst_error *error, int exit_status, int code)
{
  if (!last_error[0])
    return -ENOENT;
  log_note_error(error, exit_status, code, last_error);
  return code;
}

int pst_fail(struct pst_error *error, int exit_status, int code, const char *format, ...)
{
  int saved = errno;
  char text[LOG_TEXT_BYTES];
  va_list args;

  va_start(args, format);
  log_format_line(text, sizeof(text), format, args);
  va_end(args);
  log_emit(PST_LOG_ERROR, text);
  log_note_error(error, exit_status, code, text);
  errno = saved;
  return code;
}
