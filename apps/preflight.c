/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "notice.h"
#include "sink.h"
#include "source.h"

struct preflight {
  const struct pst_config *config;
  const char *command, *stream;
  struct pst_error *error;
};

static const char *path_of(const struct preflight *flight, const char *key, char *path, size_t size)
{
  snprintf(path, size, "streams.%s.%s", flight->stream, key);
  return path;
}

static const char *text_of(const struct preflight *flight, const char *key)
{
  char path[512];
  return pst_config_get(flight->config, path_of(flight, key, path, sizeof path));
}

static uint64_t number_of(const struct preflight *flight, const char *key)
{
  char path[512];
  return pst_config_get_uint(flight->config, path_of(flight, key, path, sizeof path));
}

static void at(const struct preflight *flight, const char *key)
{
  char path[512];
  notice_place(pst_config_origin(flight->config, path_of(flight, key, path, sizeof path)));
}

static void preflight_finding(void *context, const char *text)
{
  const struct preflight *flight = context;
  notice_fail(flight->error, PST_EXIT_USAGE, -EINVAL, "%s", text);
}

#define MEMORY_DEVICES 1 /* major number of /dev/null and its like */

/* A FIFO or a device notices whoever opens it; /dev/null and its like do not. */
static bool is_special(const char *file)
{
  struct stat st;
  if (file == NULL || stat(file, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
    return false;
  return !S_ISCHR(st.st_mode) || major(st.st_rdev) != MEMORY_DEVICES;
}

static void preflight_special(const struct preflight *flight, const char *file, int mode)
{
  if (access(file, mode) != 0)
    notice_fail(flight->error, PST_EXIT_USAGE, -errno,
                "stream '%s': cannot %s %s: %s; change its permissions, or name another file",
                flight->stream, mode == R_OK ? "read" : "write", file, strerror(errno));
}

static void preflight_source(const struct preflight *flight)
{
  const char *type = text_of(flight, "sender.source.type");
  const struct source_params params = {
      .stream = flight->stream,
      .file = text_of(flight, "sender.source.file"),
      .message = number_of(flight, "message"),
      .length = number_of(flight, "sender.source.length"),
      .loop = number_of(flight, "sender.source.loop") != 0,
      .timed = number_of(flight, "sender.source.timed") != 0,
  };
  struct source source = {0};

  if (type == NULL) /* what it shares has one */
    return;
  at(flight, params.file != NULL ? "sender.source.file" : "sender.source.type");
  struct stat st;
  if (is_special(params.file) && params.loop && stat(params.file, &st) == 0 && !S_ISBLK(st.st_mode))
    notice_fail(flight->error, PST_EXIT_USAGE, -ESPIPE,
                "stream '%s': source file %s cannot be read twice; remove source.loop",
                flight->stream, params.file);
  else if (is_special(params.file))
    preflight_special(flight, params.file, R_OK);
  else if (source_open(&source, type, &params, flight->error) == 0)
    source_close(&source);
}

static void preflight_sink(const struct preflight *flight)
{
  const char *type = text_of(flight, "receiver.sink.type");
  const char *control = pst_config_get(flight->config, "control");
  const struct sink_params params = {
      .stream = flight->stream,
      .file = text_of(flight, "receiver.sink.file"),
      .message = number_of(flight, "message"),
      .overwrite = number_of(flight, "receiver.sink.overwrite") != 0,
      .joins = control != NULL && strcmp(control, "none") == 0,
  };
  struct sink sink = {0};

  if (type == NULL)
    return;
  at(flight, params.file != NULL ? "receiver.sink.file" : "receiver.sink.type");
  if (is_special(params.file))
    preflight_special(flight, params.file, W_OK);
  else if (sink_open(&sink, type, &params, flight->error) == 0)
    sink_close(&sink);
}

static bool is_wanted(const struct arguments *arguments, const char *name)
{
  for (size_t i = 0; i < arguments->stream_count; i++)
    if (strcmp(arguments->streams[i], name) == 0)
      return true;
  return arguments->stream_count == 0;
}

static void preflight_stream(const struct preflight *flight, uint32_t roles)
{
  if (number_of(flight, "region") > 0) {
    at(flight, "region");
    notice_fail(flight->error, PST_EXIT_USAGE, -EINVAL,
                "stream '%s' is one-sided (`region`) and has no messages for `penstock %s`: such "
                "streams are for programs that embed libpenstock; name others with --stream",
                flight->stream, flight->command);
    return;
  }
  if (roles & PST_SESSION_SENDER)
    preflight_source(flight);
  if (roles & PST_SESSION_RECEIVER)
    preflight_sink(flight);
}

int preflight(const struct pst_config *config, uint32_t roles, const char *command,
              const struct arguments *arguments, struct pst_error *error)
{
  struct preflight flight = {.config = config, .command = command, .error = error};
  const struct pst_session_params params = {
      .struct_size = sizeof params,
      .roles = roles,
      .streams = arguments->streams,
      .stream_count = (uint32_t)arguments->stream_count,
  };

  pst_config_check(config, &params, preflight_finding, &flight);
  for (uint32_t i = 0; i < pst_config_stream_count(config); i++) {
    flight.stream = pst_config_stream_name(config, i);
    if (is_wanted(arguments, flight.stream))
      preflight_stream(&flight, roles);
  }
  notice_place(NULL);
  return error->code;
}
