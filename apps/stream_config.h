/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's configuration, for its ends in this program. */
#ifndef APP_STREAM_CONFIG_H
#define APP_STREAM_CONFIG_H

#include "arguments.h"
#include "sink.h"
#include "source.h"

/* The text of `key` in a stream, as in "sender.source.file"; NULL if there is none. */
const char *app_stream_text(const struct pst_config *config, const char *stream, const char *key);
/* The number of `key` in a stream; 0 if there is none. */
uint64_t app_stream_number(const struct pst_config *config, const char *stream, const char *key);
/* Where it was written. */
const char *app_stream_origin(const struct pst_config *config, const char *stream, const char *key);

bool app_stream_exists(const struct pst_config *config, const char *stream);
/* Is it one of --stream, or is there none? */
bool app_stream_is_wanted(const struct arguments *arguments, const char *stream);
/* `control: none`: the other ends are no Penstock. */
bool app_streams_are_foreign(const struct pst_config *config);

struct source_params app_stream_source(const struct pst_config *config, const char *stream);
struct sink_params app_stream_sink(const struct pst_config *config, const char *stream);

#endif
