/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a stream's ends with their source and sink. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "runner.h"
#include "stream_config.h"

static uint64_t stream_open_number(const struct flow *flow, const char *key)
{
  return app_stream_number(flow->runner->config, flow->name, key);
}

static const char *stream_open_value_or(const struct flow *flow, const char *key,
                                        const char *otherwise)
{
  const char *text = app_stream_text(flow->runner->config, flow->name, key);
  return text && text[0] != '\0' ? text : otherwise;
}

static int stream_open_unknown_stream(struct runner *runner, const char *name)
{
  uint32_t count = pst_config_stream_count(runner->config);
  const char **names = calloc(count + 1, sizeof(*names));
  char meant[ARGUMENTS_MEANT_BYTES];

  for (uint32_t i = 0; names && i < count; i++)
    names[i] = pst_config_stream_name(runner->config, i);
  app_log_fail(&runner->error, PST_EXIT_USAGE, -ENOENT, "--stream: %s has no stream '%s'%s",
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
  runner->flows = calloc(count > 0 ? count : 1, sizeof(*runner->flows));
  if (!runner->flows)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  for (uint32_t i = 0; i < count; i++) {
    const char *name = pst_config_stream_name(runner->config, i);
    if (!app_stream_is_wanted(arguments, name))
      continue;
    struct flow *flow = &runner->flows[runner->flow_count++];
    flow->runner = runner;
    flow->name = name;
    flow->message = stream_open_number(flow, "message");
    flow->ring = stream_open_number(flow, "ring");
    flow->foreign = app_streams_are_foreign(runner->config);
  }
  return 0;
}

/* Finds the stream whose messages this one shares, or opens the source. 0, or -errno with
 * runner->error reported. */
static int open_sender(struct flow *flow)
{
  struct runner *runner = flow->runner;
  struct flow_sender *sender = &flow->sender;
  const char *leader = stream_open_value_or(flow, "sender.share", NULL);

  sender->memory = stream_open_value_or(flow, "sender.memory.plugin", "host");
  sender->shares = leader != NULL;
  if (sender->shares) {
    for (uint32_t i = 0; i < runner->flow_count; i++) {
      if (strcmp(runner->flows[i].name, leader) == 0)
        flow->leader = &runner->flows[i];
    }
    if (!flow->leader)
      return app_log_fail(&runner->error, PST_EXIT_USAGE, -ENOENT,
                          "stream '%s' sends what stream '%s' sends: name both with --stream",
                          flow->name, leader);
    return 0;
  }
  sender->left = runner->arguments->count_set ? runner->arguments->count
                                              : stream_open_number(flow, "sender.count");
  if (sender->left == 0)
    sender->left = UINT64_MAX;
  sender->source_type = stream_open_value_or(flow, "sender.source.type", "pattern");
  sender->slots = calloc(SOURCE_BATCH, sizeof(*sender->slots));
  if (!sender->slots)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  const struct source_params params = app_stream_source(runner->config, flow->name);
  struct source_extent extent = {.endless = true};
  int rc = app_source_open(&sender->source, sender->source_type, &params, &runner->error);
  if (rc == 0 && sender->source.ops->extent)
    sender->source.ops->extent(sender->source.state, &extent);
  sender->bounded =
      !extent.endless || sender->left != UINT64_MAX || runner->arguments->duration_set;
  return rc;
}

static int open_receiver(struct flow *flow)
{
  struct runner *runner = flow->runner;
  struct flow_receiver *receiver = &flow->receiver;

  receiver->memory = stream_open_value_or(flow, "receiver.memory.plugin", "host");
  receiver->sink_type = stream_open_value_or(flow, "receiver.sink.type", "verify");
  receiver->left = flow->foreign ? stream_open_number(flow, "receiver.count") : 0;
  if (runner->arguments->count_set && (runner->command->roles & PST_SESSION_SENDER) == 0) {
    if (!flow->foreign)
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
  const struct sink_params params = app_stream_sink(runner->config, flow->name);
  return app_sink_open(&receiver->sink, receiver->sink_type, &params, &runner->error);
}

int app_streams_open(struct runner *runner)
{
  int rc = stream_open_choose(runner);

  for (uint32_t i = 0; rc == 0 && i < runner->flow_count; i++) {
    if ((runner->command->roles & PST_SESSION_SENDER) != 0)
      rc = open_sender(&runner->flows[i]);
    if (rc == 0 && (runner->command->roles & PST_SESSION_RECEIVER) != 0)
      rc = open_receiver(&runner->flows[i]);
  }
  return rc;
}

/* Has the transport what the sink needs? One without META may still give views a `meta`, such as
 * RTP's timestamp: it is not what the sender's source set. */
static int stream_open_check_sink(struct flow *flow)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};

  if (!flow->receiver.handle)
    return 0;
  int rc = pst_receiver_stats(flow->receiver.handle, &stats);
  if (rc < 0)
    return app_log_fail(&flow->runner->error, PST_EXIT_FAILED, rc,
                        "stream '%s': the transport's capabilities are unknown: %s", flow->name,
                        strerror(-rc));
  if (strcmp(flow->receiver.sink_type, "verify") == 0 &&
      !(stats.capabilities & (PST_CAP_SEQUENCE | PST_CAP_RELIABLE)))
    app_log_warn(
        FINDING_UNNUMBERED, NULL,
        "stream '%s': its transport has no sequence numbers, so that `sink: verify` takes messages "
        "after a lost one for corrupted ones; set framing: sequence, or sink: discard",
        flow->name);
  if (!flow->receiver.sink.ops->meta || (stats.capabilities & PST_CAP_META))
    return 0;
  return app_log_fail(
      &flow->runner->error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
      "stream '%s': sink: %s needs the packets' times of capture, and its transport "
      "does not carry them; use loopback, or sink: {type: file, file: PATH}",
      flow->name, flow->receiver.sink_type);
}

/* What is read from a file is no pattern, and nobody can verify it. */
static int stream_open_set_pattern(struct flow *flow)
{
  bool is_pattern = strcmp(flow->sender.source_type, "pattern") == 0;
  uint64_t seed = stream_open_number(flow, "sender.source.seed");
  int rc = pst_sender_pattern(flow->sender.handle, is_pattern ? &seed : NULL);

  if (rc < 0)
    return app_log_fail(&flow->runner->error, PST_EXIT_FAILED, rc,
                        "stream '%s': the pattern cannot be chosen: %s", flow->name, strerror(-rc));
  return 0;
}

static int stream_open_bind_flow(struct flow *flow)
{
  struct runner *runner = flow->runner;
  struct flow_sender *sender = &flow->sender;

  if ((runner->command->roles & PST_SESSION_SENDER) != 0)
    sender->handle = pst_session_sender(runner->session, flow->name);
  if ((runner->command->roles & PST_SESSION_RECEIVER) != 0)
    flow->receiver.handle = pst_session_receiver(runner->session, flow->name);
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  if (flow->receiver.handle && pst_receiver_stats(flow->receiver.handle, &stats) == 0)
    flow->ring = stats.ring_slots; /* the link may have had a say in it */
  if (((runner->command->roles & PST_SESSION_SENDER) != 0 && !sender->handle) ||
      ((runner->command->roles & PST_SESSION_RECEIVER) != 0 && !flow->receiver.handle))
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOENT,
                        "stream '%s': the session lacks one of its ends", flow->name);
  int rc = stream_open_check_sink(flow);
  if (rc < 0)
    return rc;
  if (!sender->handle || sender->shares)
    return 0;
  rc = stream_open_set_pattern(flow);
  if (rc < 0 || !sender->source.ops->announce)
    return rc;
  return sender->source.ops->announce(sender->source.state, sender->handle, &runner->error);
}

int app_streams_bind(struct runner *runner)
{
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < runner->flow_count; i++)
    rc = stream_open_bind_flow(&runner->flows[i]);
  return rc;
}

void app_streams_close(struct runner *runner)
{
  for (uint32_t i = 0; i < runner->flow_count; i++) {
    struct flow *flow = &runner->flows[i];
    app_source_close(&flow->sender.source);
    app_sink_close(&flow->receiver.sink);
    free(flow->sender.slots);
    free(flow->receiver.views);
  }
  free(runner->flows);
  runner->flows = NULL;
}
