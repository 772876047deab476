/* SPDX-License-Identifier: Apache-2.0 */
/* Checks relations between streams, and between a stream and the control channel. */
#include <stdio.h>
#include <string.h>

#include "../util/suggest.h"
#include "check.h"
#include "util/units.h"

static void check_report_no_stream(struct check *check, const char *name, const struct place *place)
{
  const struct config *config = &check->owner->config;
  const char **names = arena_alloc(check->arena, (config->stream_count + 1) * sizeof(*names));
  size_t count = 0;
  for (uint32_t i = 0; names && i < config->stream_count; i++)
    if (config->streams[i].name)
      names[count++] = config->streams[i].name;
  const char *near = names ? suggest_name(name, names, count) : NULL;
  findings_add(check->findings, place, "share: no stream is called \"%.63s\"%s%s%s", name,
               near ? "; did you mean \"" : "; name another stream of this file", near ? near : "",
               near ? "\"?" : "");
}

static void check_differ_text(struct check *check, const struct place *place, const char *leader,
                              const char *what, const char *mine, const char *its)
{
  findings_add(check->findings, place,
               "share: %s differs from that of stream \"%s\": %s here, %s there; make them the "
               "same",
               what, leader, mine, its);
}

/* A message or ring of 0 has been reported already. */
static void check_differ_number(struct check *check, const struct place *place, const char *leader,
                                const char *what, uint64_t mine, uint64_t its)
{
  char a[32], b[32];
  snprintf(a, sizeof(a), "%llu", (unsigned long long)mine);
  snprintf(b, sizeof(b), "%llu", (unsigned long long)its);
  if (mine != its && ((mine > 0 && its > 0) || strcmp(what, "stride") == 0))
    check_differ_text(check, place, leader, what, a, b);
}

static void check_compare_plugins(struct check *check, const struct place *place,
                                  const char *leader, const char *kind,
                                  const struct config_plugin *mine, const struct config_plugin *its,
                                  uint32_t scope)
{
  const char *name = NULL;
  char what[128];
  if (!mine->description || !its->description)
    return;
  if (mine->description != its->description) {
    check_differ_text(check, place, leader, kind, mine->name, its->name);
  } else if (scope && !options_agree(mine->options, its->options, scope, &name)) {
    char a[256] = "…", b[256] = "…";
    options_text(mine->options, name, a, sizeof(a));
    options_text(its->options, name, b, sizeof(b));
    snprintf(what, sizeof(what), "%s option \"%.63s\"", kind, name);
    check_differ_text(check, place, leader, what, a[0] ? a : "none", b[0] ? b : "none");
  }
}

/* Settings that must be equal at all ends that share a ring or slots. */
struct shared_end {
  const char *share;
  const struct config_plugin *transport, *memory;
  uint32_t ring;
};

static struct shared_end check_shared_end(const struct config_stream *stream, bool sends)
{
  const struct config_sender *sender = &stream->sender;
  const struct config_receiver *receiver = &stream->receiver;
  return sends ? (struct shared_end){sender->share, &sender->transport.plugin, &sender->memory,
                                     sender->ring ? sender->ring : stream->ring}
               : (struct shared_end){receiver->share, &receiver->transport.plugin,
                                     &receiver->memory, stream->ring};
}

/* The stream whose ring or slots are shared. NULL: the share itself is wrong. */
static const struct config_stream *check_share_leader(struct check *check, const char *own_name,
                                                      const char *share, bool sends,
                                                      const struct place *place)
{
  const struct config_stream *leader =
      config_stream_find(&check->owner->config, share, strlen(share));
  if (own_name && strcmp(own_name, share) == 0) {
    findings_add(check->findings, place,
                 "share: a stream cannot share with itself; name another stream");
    return NULL;
  }
  if (!leader) {
    check_report_no_stream(check, share, place);
    return NULL;
  }
  const char *further = check_shared_end(leader, sends).share;
  if (further) {
    findings_add(check->findings, place,
                 "share: stream \"%s\" itself shares with \"%.63s\"; name that one, there are no "
                 "chains",
                 share, further);
    return NULL;
  }
  return leader;
}

/* Gives a stream its default ring, unless `node`, the stream as it is written, has one. */
static void check_default_ring(struct check *check, struct config_stream *stream,
                               const struct node *node, uint32_t ring)
{
  const struct pst_config *owner = check->owner;

  /* Otherwise a stream that is no mapping has been reported. */
  if (node_value(node, "ring") || owner->streams->count != owner->config.stream_count)
    return;
  struct node *value = node_find(owner->stream_elements[stream - owner->config.streams], "ring");
  char text[16];
  snprintf(text, sizeof(text), "%u", ring);
  if (!value || !(value->text = arena_string(check->arena, text)))
    return;
  value->number = stream->ring = ring;
  value->real = ring;
}

/* With fan-out a stream takes the rate and the ring of the other stream, too. */
static void check_share(struct check *check, struct config_stream *stream, bool sends,
                        const struct node *node)
{
  const struct node *share = node_value(node_value(node, sends ? "sender" : "receiver"), "share");
  struct shared_end mine = check_shared_end(stream, sends);
  if (!share || !mine.share)
    return;
  const struct place *place = &share->place;
  const struct config_stream *leader =
      check_share_leader(check, stream->name, mine.share, sends, place);
  if (!leader)
    return;
  check_default_ring(check, stream, node, leader->ring);
  stream->ring_by_link &= leader->ring_by_link;
  mine = check_shared_end(stream, sends);
  const struct shared_end its = check_shared_end(leader, sends);
  const char *name = leader->name;
  if (sends)
    mine.ring = leader->sender.ring ? its.ring : stream->ring;
  check_compare_plugins(check, place, name, "transport plugin", mine.transport, its.transport,
                        sends ? 0 : PST_SCOPE_DEVICE);
  check_compare_plugins(check, place, name, "memory", mine.memory, its.memory, UINT32_MAX);
  check_differ_number(check, place, name, "message", stream->message, leader->message);
  check_differ_number(check, place, name, "stride", stream->stride, leader->stride);
  check_differ_number(check, place, name, "ring", mine.ring, its.ring);
  if (!sends)
    return;
  stream->sender.rate_bps = leader->sender.rate_bps;
  stream->sender.burst = leader->sender.burst;
  stream->sender.ring = leader->sender.ring;
}

/* Frames are copied into memory of their own, which neither fits a direct path nor a
 * ring that several streams share. */
static void check_assemble(struct check *check, const struct config_stream *stream,
                           const struct node *node)
{
  const struct node *receiver = node_value(node, "receiver");
  const struct node *path = node_value(receiver, "path");
  const struct node *share = node_value(receiver, "share");
  const struct config_stream *leader;

  if (path && stream->receiver.assemble.packets &&
      (stream->receiver.path == CONFIG_PATH_DIRECT || stream->receiver.path == CONFIG_PATH_MAPPED))
    findings_add(check->findings, &path->place,
                 "path: %s is not possible with \"assemble\", which copies each payload to its "
                 "place in a frame; write \"path: staged\", or remove one of them",
                 path->text);
  if (!share || !stream->receiver.share)
    return;
  leader = config_stream_find(&check->owner->config, stream->receiver.share,
                              strlen(stream->receiver.share));
  if (stream->receiver.assemble.packets || (leader && leader->receiver.assemble.packets))
    findings_add(check->findings, &share->place,
                 "share: stream \"%.63s\" assembles frames, which needs a ring of its own; remove "
                 "\"share\" or \"assemble\"",
                 stream->receiver.assemble.packets ? stream->name : leader->name);
}

static void check_timeout(struct check *check, const struct config_stream *stream,
                          const struct node *node)
{
  const struct config *config = &check->owner->config;
  const struct node *timeout = node_value(node, "timeout");
  char mine[64], beat[64];
  if (config->control.none || stream->timeout_ns == 0 ||
      stream->timeout_ns / 2 >= config->control.heartbeat_ns)
    return;
  units_print(PST_OPTION_DURATION, stream->timeout_ns, mine, sizeof(mine));
  units_print(PST_OPTION_DURATION, config->control.heartbeat_ns, beat, sizeof(beat));
  findings_add(check->findings, node_place(timeout, &node->place),
               "timeout: %s is less than two heartbeats of %s, so that a living peer would look "
               "dead; raise it, or lower \"heartbeat\" under \"control\"",
               mine, beat);
}

void check_relations(struct check *check, const struct node *streams)
{
  struct config *config = &check->owner->config;
  struct config_stream *stream = config->streams;
  for (const struct node *node = streams->first; node; node = node->next, stream++) {
    const uint64_t rate_bps = stream->sender.rate_bps;
    stream->ring_by_link = !rate_bps && !node_value(node, "ring");
    if (rate_bps)
      check_default_ring(check, stream, node, config_ring_of_rate(stream->message, rate_bps));
  }
  stream = config->streams;
  for (const struct node *node = streams->first; node; node = node->next, stream++) {
    check_share(check, stream, true, node);
    check_share(check, stream, false, node);
  }
  stream = config->streams;
  for (const struct node *node = streams->first; node; node = node->next, stream++) {
    check_assemble(check, stream, node);
    /* Otherwise a stream that is no mapping has been reported, and the indexes differ. */
    if (check->owner->streams->count == config->stream_count)
      check_program_stream(check, node, (uint32_t)(stream - config->streams));
    check_timeout(check, stream, node);
  }
}
