/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a stream's configuration by the program's own keys. */
#include "stream_config.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 512

static const char *stream_config_path_of(const char *stream, const char *key, char path[PATH_BYTES])
{
  snprintf(path, PATH_BYTES, "streams.%s.%s", stream, key);
  return path;
}

const char *app_stream_text(const struct pst_config *config, const char *stream, const char *key)
{
  char path[PATH_BYTES];
  return pst_config_get(config, stream_config_path_of(stream, key, path));
}

uint64_t app_stream_number(const struct pst_config *config, const char *stream, const char *key)
{
  char path[PATH_BYTES];
  return pst_config_get_uint(config, stream_config_path_of(stream, key, path));
}

const char *app_stream_origin(const struct pst_config *config, const char *stream, const char *key)
{
  char path[PATH_BYTES];
  return pst_config_origin(config, stream_config_path_of(stream, key, path));
}

bool app_stream_exists(const struct pst_config *config, const char *stream)
{
  for (uint32_t i = 0; i < pst_config_stream_count(config); i++)
    if (strcmp(pst_config_stream_name(config, i), stream) == 0)
      return true;
  return false;
}

bool app_stream_is_wanted(const struct arguments *arguments, const char *stream)
{
  for (size_t i = 0; i < arguments->stream_count; i++)
    if (strcmp(arguments->streams[i], stream) == 0)
      return true;
  return arguments->stream_count == 0;
}

bool app_streams_are_foreign(const struct pst_config *config)
{
  const char *control = pst_config_get(config, "control");
  return control && strcmp(control, "none") == 0;
}

struct source_params app_stream_source(const struct pst_config *config, const char *stream)
{
  return (struct source_params){
      .stream = stream,
      .file = app_stream_text(config, stream, "sender.source.file"),
      .message = app_stream_number(config, stream, "message"),
      .length = app_stream_number(config, stream, "sender.source.length"),
      .loop = app_stream_number(config, stream, "sender.source.loop") != 0,
      .timed = app_stream_number(config, stream, "sender.source.timed") != 0,
  };
}

struct sink_params app_stream_sink(const struct pst_config *config, const char *stream)
{
  return (struct sink_params){
      .stream = stream,
      .file = app_stream_text(config, stream, "receiver.sink.file"),
      .message = app_stream_number(config, stream, "message"),
      .overwrite = app_stream_number(config, stream, "receiver.sink.overwrite") != 0,
      .joins = app_streams_are_foreign(config),
  };
}
