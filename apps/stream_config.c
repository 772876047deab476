/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says of a stream, by the program's own keys. */
#include "stream_config.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 512

static const char *path_of(const char *stream, const char *key, char path[PATH_BYTES])
{
  snprintf(path, PATH_BYTES, "streams.%s.%s", stream, key);
  return path;
}

const char *stream_text(const struct pst_config *config, const char *stream, const char *key)
{
  char path[PATH_BYTES];
  return pst_config_get(config, path_of(stream, key, path));
}

uint64_t stream_number(const struct pst_config *config, const char *stream, const char *key)
{
  char path[PATH_BYTES];
  return pst_config_get_uint(config, path_of(stream, key, path));
}

const char *stream_origin(const struct pst_config *config, const char *stream, const char *key)
{
  char path[PATH_BYTES];
  return pst_config_origin(config, path_of(stream, key, path));
}

bool stream_exists(const struct pst_config *config, const char *stream)
{
  for (uint32_t i = 0; i < pst_config_stream_count(config); i++)
    if (strcmp(pst_config_stream_name(config, i), stream) == 0)
      return true;
  return false;
}

bool stream_is_wanted(const struct arguments *arguments, const char *stream)
{
  for (size_t i = 0; i < arguments->stream_count; i++)
    if (strcmp(arguments->streams[i], stream) == 0)
      return true;
  return arguments->stream_count == 0;
}

bool streams_are_foreign(const struct pst_config *config)
{
  const char *control = pst_config_get(config, "control");
  return control && strcmp(control, "none") == 0;
}

struct source_params stream_source(const struct pst_config *config, const char *stream)
{
  return (struct source_params){
      .stream = stream,
      .file = stream_text(config, stream, "sender.source.file"),
      .message = stream_number(config, stream, "message"),
      .length = stream_number(config, stream, "sender.source.length"),
      .loop = stream_number(config, stream, "sender.source.loop") != 0,
      .timed = stream_number(config, stream, "sender.source.timed") != 0,
  };
}

struct sink_params stream_sink(const struct pst_config *config, const char *stream)
{
  return (struct sink_params){
      .stream = stream,
      .file = stream_text(config, stream, "receiver.sink.file"),
      .message = stream_number(config, stream, "message"),
      .overwrite = stream_number(config, stream, "receiver.sink.overwrite") != 0,
      .joins = streams_are_foreign(config),
  };
}
