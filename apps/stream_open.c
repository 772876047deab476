/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a stream's ends with their source and sink. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "runner.h"
#include "stream_config.h"

static uint64_t stream_open_number(const struct app_stream *stream, const char *key)
{
  return app_stream_number(stream->runner->config, stream->name, key);
}

static const char *stream_open_value_or(const struct app_stream *stream, const char *key,
                                        const char *otherwise)
{
  const char *text = app_stream_text(stream->runner->config, stream->name, key);
  return text && text[0] != '\0' ? text : otherwise;
}

static int stream_open_unknown_stream(struct runner *runner, const char *name)
{
  uint32_t count = pst_config_stream_count(runner->config);
  const char **names = calloc(count + 1, sizeof(*names));
  char meant[ARGUMENTS_MEANT_BYTES];

  for (uint32_t i = 0; names && i < count; i++)
    names[i] = pst_config_stream_name(runner->config, i);
  app_log_fail(&runner->error, PST_EXIT_USAGE, -ENOENT,
               "--stream: %s has no stream '%s'%s; `penstock check` lists them",
               runner->arguments->operand, name,
               app_arguments_meant(name, names, names ? count : 0, ", did you mean '", meant));
  free(names);
  return -ENOENT;
}

static int stream_open_choose(struct runner *runner)
{
  const struct arguments *arguments = runner->arguments;
  uint32_t count = pst_config_stream_count(runner->config);

  for (size_t i = 0; i < arguments->stream_count; i++)
    if (!app_stream_exists(runner->config, arguments->streams[i]))
      return stream_open_unknown_stream(runner, arguments->streams[i]);
  runner->streams = calloc(count > 0 ? count : 1, sizeof(*runner->streams));
  if (!runner->streams)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  for (uint32_t i = 0; i < count; i++) {
    const char *name = pst_config_stream_name(runner->config, i);
    if (!app_stream_is_wanted(arguments, name))
      continue;
    struct app_stream *stream = &runner->streams[runner->stream_count++];
    stream->runner = runner;
    stream->name = name;
    stream->message = stream_open_number(stream, "message");
    stream->ring = stream_open_number(stream, "ring");
    stream->foreign = app_streams_are_foreign(runner->config);
  }
  return 0;
}

/* Finds the stream whose messages this one shares, or opens the source. 0, or -errno with
 * runner->error reported. */
static int open_sender(struct app_stream *stream)
{
  struct runner *runner = stream->runner;
  struct app_stream_sender *sender = &stream->sender;
  const char *leader = stream_open_value_or(stream, "sender.share", NULL);

  sender->memory = stream_open_value_or(stream, "sender.memory.plugin", "host");
  sender->shares = leader != NULL;
  if (sender->shares) {
    for (uint32_t i = 0; i < runner->stream_count; i++) {
      if (strcmp(runner->streams[i].name, leader) == 0)
        stream->leader = &runner->streams[i];
    }
    if (!stream->leader)
      return app_log_fail(&runner->error, PST_EXIT_USAGE, -ENOENT,
                          "stream '%s' sends what stream '%s' sends: name both with --stream",
                          stream->name, leader);
    return 0;
  }
  sender->left = runner->arguments->count_set ? runner->arguments->count
                                              : stream_open_number(stream, "sender.count");
  if (sender->left == 0)
    sender->left = UINT64_MAX;
  sender->source_type = stream_open_value_or(stream, "sender.source.type", "pattern");
  sender->slots = calloc(SOURCE_BATCH, sizeof(*sender->slots));
  if (!sender->slots)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  const struct source_params params = app_stream_source(runner->config, stream->name);
  struct source_extent extent = {.endless = true};
  int rc = app_source_open(&sender->source, sender->source_type, &params, &runner->error);
  if (rc == 0 && sender->source.ops->extent)
    sender->source.ops->extent(sender->source.state, &extent);
  sender->bounded =
      !extent.endless || sender->left != UINT64_MAX || runner->arguments->duration_set;
  return rc;
}

static int open_receiver(struct app_stream *stream)
{
  struct runner *runner = stream->runner;
  struct app_stream_receiver *receiver = &stream->receiver;

  receiver->memory = stream_open_value_or(stream, "receiver.memory.plugin", "host");
  receiver->sink_type = stream_open_value_or(stream, "receiver.sink.type", "verify");
  receiver->left = stream->foreign ? stream_open_number(stream, "receiver.count") : 0;
  if (runner->arguments->count_set && (runner->command->roles & PST_SESSION_SENDER) == 0) {
    if (!stream->foreign)
      return app_log_fail(&runner->error, PST_EXIT_USAGE, -EINVAL,
                          "--count: a receiver can end a stream only with `control: none`; with a "
                          "control channel give --count to `penstock send`");
    receiver->left = runner->arguments->count;
  }
  if (receiver->left == 0)
    receiver->left = UINT64_MAX;
  receiver->views = calloc(SINK_BATCH, sizeof(*receiver->views));
  if (!receiver->views)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  const struct sink_params params = app_stream_sink(runner->config, stream->name);
  return app_sink_open(&receiver->sink, receiver->sink_type, &params, &runner->error);
}

int app_streams_open(struct runner *runner)
{
  int rc = stream_open_choose(runner);

  for (uint32_t i = 0; rc == 0 && i < runner->stream_count; i++) {
    if ((runner->command->roles & PST_SESSION_SENDER) != 0)
      rc = open_sender(&runner->streams[i]);
    if (rc == 0 && (runner->command->roles & PST_SESSION_RECEIVER) != 0)
      rc = open_receiver(&runner->streams[i]);
  }
  return rc;
}

/* Has the transport what the sink needs? One without META may still give views a `meta`, such as
 * RTP's timestamp: it is not what the sender's source set. */
static int stream_open_check_sink(struct app_stream *stream)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};

  if (!stream->receiver.handle)
    return 0;
  int rc = pst_receiver_stats(stream->receiver.handle, &stats);
  if (rc < 0)
    return app_log_fail(&stream->runner->error, PST_EXIT_FAILED, rc,
                        "stream '%s': the transport's capabilities are unknown: %s", stream->name,
                        strerror(-rc));
  if (strcmp(stream->receiver.sink_type, "verify") == 0 &&
      !(stats.capabilities & (PST_CAP_SEQUENCE | PST_CAP_RELIABLE)))
    app_log_warn(
        FINDING_UNNUMBERED, NULL,
        "stream '%s': its transport has no sequence numbers, so that `sink: verify` takes messages "
        "after a lost one for corrupted ones; set framing: sequence, or sink: discard",
        stream->name);
  if (!stream->receiver.sink.ops->meta || (stats.capabilities & PST_CAP_META))
    return 0;
  return app_log_fail(
      &stream->runner->error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
      "stream '%s': sink: %s needs the packets' times of capture, and its transport "
      "does not carry them; use loopback, or sink: {type: file, file: PATH}",
      stream->name, stream->receiver.sink_type);
}

/* Sets the sender's pattern; messages that are read from a file have none, and cannot be
 * verified. */
static int stream_open_set_pattern(struct app_stream *stream)
{
  bool is_pattern = strcmp(stream->sender.source_type, "pattern") == 0;
  uint64_t seed = stream_open_number(stream, "sender.source.seed");
  int rc = pst_sender_pattern(stream->sender.handle, is_pattern ? &seed : NULL);

  if (rc < 0)
    return app_log_fail(&stream->runner->error, PST_EXIT_FAILED, rc,
                        "stream '%s': the pattern cannot be chosen: %s", stream->name,
                        strerror(-rc));
  return 0;
}

static int stream_open_bind_one(struct app_stream *stream)
{
  struct runner *runner = stream->runner;
  struct app_stream_sender *sender = &stream->sender;

  if ((runner->command->roles & PST_SESSION_SENDER) != 0)
    sender->handle = pst_session_sender(runner->session, stream->name);
  if ((runner->command->roles & PST_SESSION_RECEIVER) != 0)
    stream->receiver.handle = pst_session_receiver(runner->session, stream->name);
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  if (stream->receiver.handle && pst_receiver_stats(stream->receiver.handle, &stats) == 0)
    stream->ring = stats.ring_slots; /* the link may have had a say in it */
  if (((runner->command->roles & PST_SESSION_SENDER) != 0 && !sender->handle) ||
      ((runner->command->roles & PST_SESSION_RECEIVER) != 0 && !stream->receiver.handle))
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOENT,
                        "stream '%s': the session lacks one of its ends", stream->name);
  int rc = stream_open_check_sink(stream);
  if (rc < 0)
    return rc;
  if (!sender->handle || sender->shares)
    return 0;
  rc = stream_open_set_pattern(stream);
  if (rc < 0 || !sender->source.ops->announce)
    return rc;
  return sender->source.ops->announce(sender->source.state, sender->handle, &runner->error);
}

int app_streams_bind(struct runner *runner)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < runner->stream_count; i++)
    rc = stream_open_bind_one(&runner->streams[i]);
  return rc;
}

void app_streams_close(struct runner *runner)
{
  for (uint32_t i = 0; i < runner->stream_count; i++) {
    struct app_stream *stream = &runner->streams[i];
    app_source_close(&stream->sender.source);
    app_sink_close(&stream->receiver.sink);
    free(stream->sender.slots);
    free(stream->receiver.views);
  }
  free(runner->streams);
  runner->streams = NULL;
}
