/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of all folders: fake host. */
#include "fake_host.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char log_text[16384];
static size_t log_length;
/* A plugin's own threads log too; the text is read when they are quiet. */
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

static void PST_PRINTF(3, 4)
    log_line(const struct pst_host *host, int level, const char *format, ...)
{
  (void)host;
  int kept = errno;
  char line[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  pthread_mutex_lock(&log_mutex);
  int n = snprintf(log_text + log_length, sizeof(log_text) - log_length, "%d %s\n", level, line);
  if (n > 0 && (size_t)n < sizeof(log_text) - log_length)
    log_length += (size_t)n;
  pthread_mutex_unlock(&log_mutex);
  errno = kept;
}

const char *fake_log(void)
{
  return log_text;
}

void fake_log_clear(void)
{
  log_length = 0;
  log_text[0] = '\0';
}

static const struct pst_option *find(const char *name)
{
  const struct pst_description *description = pst_description_v1.description;

  for (uint32_t i = 0; i < description->option_count; i++)
    if (strcmp(description->options[i].name, name) == 0)
      return &description->options[i];
  fprintf(stderr, "the plugin asks for \"%s\", which is not in its table\n", name);
  abort();
}

static const char *value_of(const struct pst_options *options, const char *name)
{
  const struct pst_option *option = find(name);
  for (const struct fake_option *o = (const struct fake_option *)options; o->name; o++)
    if (strcmp(o->name, name) == 0)
      return o->value;
  return option->default_value ? option->default_value : "";
}

static int option_is_set(const struct pst_options *options, const char *name)
{
  find(name);
  for (const struct fake_option *o = (const struct fake_option *)options; o->name; o++)
    if (strcmp(o->name, name) == 0)
      return 1;
  return 0;
}

static uint64_t option_uint(const struct pst_options *options, const char *name)
{
  const struct pst_option *option = find(name);
  const char *value = value_of(options, name);
  if (option->type == PST_OPTION_BOOL)
    return strcmp(value, "true") == 0;
  for (uint64_t i = 0; option->type == PST_OPTION_ENUM && option->choices[i]; i++)
    if (strcmp(option->choices[i], value) == 0)
      return i;
  return strtoull(value, NULL, 10);
}

uint64_t fake_clock_ns;

static uint64_t clock_ns(const struct pst_host *host)
{
  (void)host;
  return fake_clock_ns;
}

const struct pst_host fake_host = {
    .struct_size = sizeof(fake_host),
    .log = log_line,
    .clock_ns = clock_ns,
    .option_uint = option_uint,
    .option_string = value_of,
    .option_is_set = option_is_set,
};
