/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what run, send and receive would refuse because of the file. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file_identity.h"
#include "log.h"
#include "runner.h"
#include "stream_config.h"

#define SINK "receiver.sink.file"
#define SOURCE "sender.source.file"
#define BOTH ((uint32_t)PST_SESSION_SENDER | PST_SESSION_RECEIVER)
#define MEMORY_DEVICES 1 /* major number of /dev/null and its like */

/* A file that a stream reads or writes. */
struct named_file {
  const char *stream;
  const char *path; /* NULL: there is none */
  struct file_identity identity;
};

struct preflight {
  const struct pst_config *config;
  const struct arguments *arguments;
  const char *stream;
  struct named_file *sinks, *sources; /* one a stream */
  struct file_identity configuration, result;
  struct pst_error *error;
};

static const char *preflight_text_of(const struct preflight *flight, const char *key)
{
  return app_stream_text(flight->config, flight->stream, key);
}

/* Sets the place for the next finding. */
static void preflight_at(const struct preflight *flight, const char *stream, const char *key)
{
  app_log_place(app_stream_origin(flight->config, stream, key));
}

static void preflight_finding(void *context, const char *text)
{
  const struct preflight *flight = context;
  app_log_fail(flight->error, PST_EXIT_USAGE, -EINVAL, "%s", text);
}

/* A FIFO or a device notices each opening; /dev/null and its like do not. */
static bool preflight_is_special(const char *file)
{
  struct stat st;
  if (!file || stat(file, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
    return false;
  return !S_ISCHR(st.st_mode) || major(st.st_rdev) != MEMORY_DEVICES;
}

static bool preflight_is_kind(const char *file, mode_t kind)
{
  struct stat st;
  return stat(file, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

static void preflight_special(const struct preflight *flight, const char *file, int mode)
{
  const char *verb = mode == R_OK ? "read" : "write";

  if (preflight_is_kind(file, S_IFSOCK))
    app_log_fail(flight->error, PST_EXIT_USAGE, -ENXIO,
                 "stream '%s': cannot %s %s: it is a socket; name a file, a FIFO or a device",
                 flight->stream, verb, file);
  else if (access(file, mode) != 0)
    app_log_fail(flight->error, PST_EXIT_USAGE, -errno,
                 "stream '%s': cannot %s %s: %s; change its permissions, or name another file",
                 flight->stream, verb, file, strerror(errno));
}

static void preflight_source(const struct preflight *flight)
{
  const char *type = preflight_text_of(flight, "sender.source.type");
  const struct source_params params = app_stream_source(flight->config, flight->stream);
  struct source source = {0};

  if (!type) /* what it shares has one */
    return;
  preflight_at(flight, flight->stream, params.file ? SOURCE : "sender.source.type");
  bool once = preflight_is_special(params.file) && !preflight_is_kind(params.file, S_IFBLK);
  if (once && strcmp(type, "pcap") == 0)
    app_log_fail(flight->error, PST_EXIT_USAGE, -ESPIPE,
                 "stream '%s': source file %s is not a regular file, and a capture is read twice "
                 "from its beginning; copy it to a file",
                 flight->stream, params.file);
  else if (once && params.loop)
    app_log_fail(flight->error, PST_EXIT_USAGE, -ESPIPE,
                 "stream '%s': source file %s cannot be read twice; remove source.loop",
                 flight->stream, params.file);
  else if (preflight_is_special(params.file))
    preflight_special(flight, params.file, R_OK);
  else if (app_source_open(&source, type, &params, flight->error) == 0)
    app_source_close(&source);
}

static void preflight_sink(const struct preflight *flight)
{
  const char *type = preflight_text_of(flight, "receiver.sink.type");
  const struct sink_params params = app_stream_sink(flight->config, flight->stream);
  struct sink sink = {0};

  if (!type)
    return;
  preflight_at(flight, flight->stream, params.file ? SINK : "receiver.sink.type");
  bool is_disk = params.file && preflight_is_kind(params.file, S_IFBLK);
  if (preflight_is_special(params.file) && (!is_disk || params.overwrite))
    preflight_special(flight, params.file, W_OK);
  else if (app_sink_open(&sink, type, &params, flight->error) == 0)
    app_sink_close(&sink);
}

/* ---- Files that a stream writes, and others name ------------------------------------- */

static void preflight_name_file(struct named_file *file, const struct preflight *flight,
                                const char *key)
{
  file->stream = flight->stream;
  file->path = preflight_text_of(flight, key);
  if (file->path)
    file->identity = app_file_identity(file->path);
}

/* Names the files that this command opens: those of other ends may be on another host. */
static bool preflight_name_files(struct preflight *flight, uint32_t roles)
{
  uint32_t count = pst_config_stream_count(flight->config);

  flight->sinks = calloc(count, sizeof(*flight->sinks));
  flight->sources = calloc(count, sizeof(*flight->sources));
  if (strcmp(flight->arguments->operand, "-") != 0)
    flight->configuration = app_file_identity(flight->arguments->operand);
  if (flight->arguments->json && strcmp(flight->arguments->json, "-") != 0)
    flight->result = app_file_identity(flight->arguments->json);
  for (uint32_t i = 0; i < count && flight->sinks && flight->sources; i++) {
    flight->stream = pst_config_stream_name(flight->config, i);
    if (!app_stream_is_wanted(flight->arguments, flight->stream))
      continue;
    if (roles & PST_SESSION_RECEIVER)
      preflight_name_file(&flight->sinks[i], flight, SINK);
    if (roles & PST_SESSION_SENDER)
      preflight_name_file(&flight->sources[i], flight, SOURCE);
  }
  return flight->sinks && flight->sources;
}

/* Reports that the file of `key` is what something else needs. */
static bool preflight_clashes(const struct preflight *flight, const struct named_file *file,
                              const char *key, const char *format, ...) PST_PRINTF(4, 5);
static bool preflight_clashes(const struct preflight *flight, const struct named_file *file,
                              const char *key, const char *format, ...)
{
  char what[1024];
  va_list args;

  va_start(args, format);
  vsnprintf(what, sizeof(what), format, args);
  va_end(args);
  preflight_at(flight, file->stream, key);
  app_log_fail(flight->error, PST_EXIT_USAGE, -EEXIST, "stream '%s': %s; name another file",
               file->stream, what);
  return true;
}

static bool preflight_is_taken_by(const struct preflight *flight, const struct named_file *sink,
                                  const struct named_file *other, const char *key)
{
  return other->path && app_file_identity_equal(&sink->identity, &other->identity) &&
         preflight_clashes(
             flight, sink, SINK,
             "sink.file %s is the %s of stream '%s', too (%s), and one would replace the other",
             sink->path, strcmp(key, SOURCE) == 0 ? "source" : "sink", other->stream,
             app_stream_origin(flight->config, other->stream, key));
}

/* Is it the FILE of --json? */
static bool preflight_is_result(const struct preflight *flight, const struct named_file *file,
                                const char *key)
{
  return file->path && app_file_identity_equal(&file->identity, &flight->result) &&
         preflight_clashes(flight, file, key,
                           "%s %s is the FILE of --json, which the result replaces", key,
                           file->path);
}

static bool preflight_is_configuration(const struct preflight *flight,
                                       const struct named_file *sink)
{
  return app_file_identity_equal(&sink->identity, &flight->configuration) &&
         preflight_clashes(flight, sink, SINK,
                           "sink.file %s is this configuration, and would replace it", sink->path);
}

/* Is the sink of this stream a file that something else needs? Reported. */
static bool preflight_sink_clashes(const struct preflight *flight, uint32_t index)
{
  const struct named_file *sink = &flight->sinks[index];

  if (!sink->path || !sink->identity.is_known)
    return false;
  if (preflight_is_configuration(flight, sink) || preflight_is_result(flight, sink, SINK))
    return true;
  for (uint32_t i = 0; i < index; i++)
    if (preflight_is_taken_by(flight, sink, &flight->sinks[i], SINK))
      return true;
  for (uint32_t i = 0; i < pst_config_stream_count(flight->config); i++)
    if (preflight_is_taken_by(flight, sink, &flight->sources[i], SOURCE))
      return true;
  return false;
}

/* A source that another stream writes need not be there yet; its sink's check says what is wrong.
 */
static bool preflight_is_written(const struct preflight *flight, const struct named_file *source)
{
  for (uint32_t i = 0; i < pst_config_stream_count(flight->config); i++)
    if (source->path && flight->sinks[i].path &&
        app_file_identity_equal(&source->identity, &flight->sinks[i].identity))
      return true;
  return false;
}

/* ---- Each stream by itself ------------------------------------------------------------ */

static void preflight_stream(const struct preflight *flight, uint32_t roles, uint32_t index)
{
  if ((roles & PST_SESSION_SENDER) &&
      !preflight_is_result(flight, &flight->sources[index], SOURCE) &&
      !preflight_is_written(flight, &flight->sources[index]))
    preflight_source(flight);
  if ((roles & PST_SESSION_RECEIVER) && !preflight_sink_clashes(flight, index))
    preflight_sink(flight);
}

static int preflight_values(const struct preflight *flight, uint32_t roles,
                            void (*finding)(void *context, const char *text))
{
  const struct pst_session_params params = {
      .struct_size = sizeof(params),
      .roles = roles,
      .streams = flight->arguments->streams,
      .stream_count = (uint32_t)flight->arguments->stream_count,
  };

  return pst_config_check(flight->config, &params, finding, (void *)(uintptr_t)flight);
}

static void preflight_ignore(void *context, const char *text)
{
  (void)context;
  (void)text;
}

/* Values of one end that neither its own command takes nor `run`. */
static bool preflight_has_bad_end(const struct preflight *flight)
{
  return !app_streams_are_foreign(flight->config) &&
         preflight_values(flight, BOTH, preflight_ignore) != 0 &&
         (preflight_values(flight, PST_SESSION_SENDER, preflight_ignore) > 0 ||
          preflight_values(flight, PST_SESSION_RECEIVER, preflight_ignore) > 0);
}

int app_preflight(const struct pst_config *config, const struct command *command,
                  const struct arguments *arguments, struct pst_error *error)
{
  struct preflight flight = {.config = config, .arguments = arguments, .error = error};
  const uint32_t roles = command ? command->roles : (uint32_t)PST_SESSION_RECEIVER;

  if (command || preflight_has_bad_end(&flight))
    preflight_values(&flight, command ? roles : BOTH, preflight_finding);
  if (!preflight_name_files(&flight, roles))
    app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  for (uint32_t i = 0; i < pst_config_stream_count(config) && error->code != -ENOMEM; i++) {
    flight.stream = pst_config_stream_name(config, i);
    if (!command)
      preflight_sink_clashes(&flight, i);
    else if (app_stream_is_wanted(arguments, flight.stream))
      preflight_stream(&flight, roles, i);
  }
  free(flight.sinks);
  free(flight.sources);
  app_log_place(NULL);
  return error->code;
}
