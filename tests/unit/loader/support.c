/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of loader. */
#include "support.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"

unsigned long fake_secure;

unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type)
{
  return type == AT_SECURE ? fake_secure : __real_getauxval(type);
}

static char text[65536];
static int last_level;

static void sink(void *context, int level, const char *line)
{
  size_t used = strlen(text);

  (void)context;
  last_level = level;
  snprintf(text + used, sizeof(text) - used, "%s\n", line);
}

int log_level(void)
{
  return last_level;
}

const char *log_text(void)
{
  return text;
}

void log_clear(void)
{
  text[0] = '\0';
}

void log_capture(void)
{
  log_capture_to(PST_LOG_DEBUG);
}

void log_capture_to(int level)
{
  pst_log_set(sink, NULL, level);
  log_clear();
}

char *scratch_new(void)
{
  const char *base = getenv("TMPDIR");
  char *folder, *real;

  assert_true(asprintf(&folder, "%s/penstock-loader-XXXXXX", base ? base : "/tmp") > 0);
  assert_non_null(mkdtemp(folder));
  real = realpath(folder, NULL);
  assert_non_null(real);
  free(folder);
  return real;
}

void scratch_free(char *folder)
{
  DIR *dir = opendir(folder);
  struct dirent *entry;
  char path[4096];

  while (dir && (entry = readdir(dir))) {
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    unlink(path);
  }
  if (dir)
    closedir(dir);
  rmdir(folder);
  free(folder);
}

const char *scratch_copy(const char *folder, const char *file, const char *fixture, size_t length,
                         long at, unsigned char byte)
{
  static char path[4096];
  char source[4096];
  struct stat st;
  FILE *in, *out;
  char *bytes;

  snprintf(source, sizeof(source), "%s/%s", PST_FIXTURES, fixture);
  assert_int_equal(stat(source, &st), 0);
  bytes = malloc((size_t)st.st_size);
  in = fopen(source, "re");
  assert_non_null(in);
  assert_int_equal(fread(bytes, 1, (size_t)st.st_size, in), st.st_size);
  fclose(in);
  if (at >= 0)
    bytes[at] = (char)byte;
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  out = fopen(path, "we");
  assert_non_null(out);
  length = length ? length : (size_t)st.st_size;
  assert_int_equal(fwrite(bytes, 1, length, out), length);
  fclose(out);
  assert_int_equal(chmod(path, 0755), 0);
  free(bytes);
  return path;
}
