/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between streams, and between a stream and the control channel. */
#include <stdio.h>
#include <string.h>

#include "../util/nearest.h"
#include "check.h"
#include "units.h"

static void report_no_stream(struct check *check, const char *name, const struct place *place)
{
  const struct config *config = &check->owner->config;
  const char **names = check_alloc(check, (config->stream_count + 1) * sizeof(*names));
  size_t count = 0;
  for (uint32_t i = 0; names && i < config->stream_count; i++)
    if (config->streams[i].name)
      names[count++] = config->streams[i].name;
  const char *near = names ? nearest_name(name, names, count) : NULL;
  findings_add(check->findings, place, "share: no stream is called \"%.63s\"%s%s%s", name,
               near ? "; did you mean \"" : "; name another stream of this file", near ? near : "",
               near ? "\"?" : "");
}

static void differ_text(struct check *check, const struct place *place, const char *leader,
                        const char *what, const char *mine, const char *its)
{
  findings_add(check->findings, place,
               "share: %s differs from that of stream \"%s\": %s here, %s there; make them the "
               "same",
               what, leader, mine, its);
}

/* A message or ring of 0 has been reported as wrong in itself. */
static void differ_number(struct check *check, const struct place *place, const char *leader,
                          const char *what, uint64_t mine, uint64_t its)
{
  char a[32], b[32];
  snprintf(a, sizeof(a), "%llu", (unsigned long long)mine);
  snprintf(b, sizeof(b), "%llu", (unsigned long long)its);
  if (mine != its && ((mine > 0 && its > 0) || strcmp(what, "stride") == 0))
    differ_text(check, place, leader, what, a, b);
}

static void compare_plugins(struct check *check, const struct place *place, const char *leader,
                            const char *kind, const struct config_plugin *mine,
                            const struct config_plugin *its, uint32_t scope)
{
  const char *name = NULL;
  char what[128];
  if (!mine->description || !its->description)
    return;
  if (mine->description != its->description) {
    differ_text(check, place, leader, kind, mine->name, its->name);
  } else if (scope && !options_equal(mine->options, its->options, scope, &name)) {
    char a[256] = "…", b[256] = "…";
    options_text(mine->options, name, a, sizeof(a));
    options_text(its->options, name, b, sizeof(b));
    snprintf(what, sizeof(what), "%s option \"%.63s\"", kind, name);
    differ_text(check, place, leader, what, a[0] ? a : "none", b[0] ? b : "none");
  }
}

/* NULL when the share is wrong in itself. */
static const struct config_stream *share_leader(struct check *check, const char *own_name,
                                                const char *share, bool sender,
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
    report_no_stream(check, share, place);
    return NULL;
  }
  const char *further = sender ? leader->sender.share : leader->receiver.share;
  if (further) {
    findings_add(check->findings, place,
                 "share: stream \"%s\" itself shares with \"%.63s\"; name that one, there are no "
                 "chains",
                 share, further);
    return NULL;
  }
  return leader;
}

static void check_fan_out(struct check *check, struct config_stream *stream,
                          const struct place *place)
{
  const struct config_stream *leader =
      share_leader(check, stream->name, stream->sender.share, true, place);
  if (!leader)
    return;
  uint32_t its_ring = leader->sender.ring ? leader->sender.ring : leader->ring;
  uint32_t my_ring = leader->sender.ring ? its_ring : stream->ring;
  const char *name = leader->name;
  compare_plugins(check, place, name, "transport plugin", &stream->sender.transport.plugin,
                  &leader->sender.transport.plugin, 0);
  compare_plugins(check, place, name, "memory", &stream->sender.memory, &leader->sender.memory,
                  UINT32_MAX);
  differ_number(check, place, name, "message", stream->message, leader->message);
  differ_number(check, place, name, "stride", stream->stride, leader->stride);
  differ_number(check, place, name, "ring", my_ring, its_ring);
  stream->sender.rate_bps = leader->sender.rate_bps;
  stream->sender.burst = leader->sender.burst;
  stream->sender.ring = leader->sender.ring;
}

static void check_fan_in(struct check *check, const struct config_stream *stream,
                         const struct place *place)
{
  const struct config_stream *leader =
      share_leader(check, stream->name, stream->receiver.share, false, place);
  if (!leader)
    return;
  const char *name = leader->name;
  compare_plugins(check, place, name, "transport plugin", &stream->receiver.transport.plugin,
                  &leader->receiver.transport.plugin, PST_SCOPE_DEVICE);
  compare_plugins(check, place, name, "memory", &stream->receiver.memory, &leader->receiver.memory,
                  UINT32_MAX);
  differ_number(check, place, name, "message", stream->message, leader->message);
  differ_number(check, place, name, "stride", stream->stride, leader->stride);
  differ_number(check, place, name, "ring", stream->ring, leader->ring);
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
                 "path: %s cannot be had beside \"assemble\", which copies each payload to its "
                 "place in a frame; write \"path: staged\", or remove one of them",
                 path->text);
  if (!share || !stream->receiver.share)
    return;
  leader = config_stream_find(&check->owner->config, stream->receiver.share,
                              strlen(stream->receiver.share));
  if (stream->receiver.assemble.packets || (leader && leader->receiver.assemble.packets))
    findings_add(check->findings, &share->place,
                 "share: stream \"%.63s\" assembles frames, whose ring is its own; remove "
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
  units_print_duration(stream->timeout_ns, mine, sizeof(mine));
  units_print_duration(config->control.heartbeat_ns, beat, sizeof(beat));
  findings_add(check->findings, timeout ? &timeout->place : &node->place,
               "timeout: %s is less than two heartbeats of %s, so that a living peer would look "
               "dead; raise it, or lower \"heartbeat\" under \"control\"",
               mine, beat);
}

void check_relations(struct check *check, const struct node *streams)
{
  struct config *config = &check->owner->config;
  struct config_stream *stream = config->streams;
  for (const struct node *node = streams->first; node; node = node->next, stream++) {
    const struct node *out = node_value(node_value(node, "sender"), "share");
    const struct node *in = node_value(node_value(node, "receiver"), "share");
    if (stream->sender.share && out)
      check_fan_out(check, stream, &out->place);
    if (stream->receiver.share && in)
      check_fan_in(check, stream, &in->place);
  }
  stream = config->streams;
  for (const struct node *node = streams->first; node; node = node->next, stream++) {
    check_assemble(check, stream, node);
    /* Else one that is no mapping has been reported, and numbers are not what they seem. */
    if (check->owner->streams->count == config->stream_count)
      check_program_stream(check, node, (uint32_t)(stream - config->streams));
    check_timeout(check, stream, node);
  }
}
