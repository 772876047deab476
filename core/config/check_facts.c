/* SPDX-License-Identifier: Apache-2.0 */
/* A stream beside what its transports have, as far as it is known without their devices. */
#include <stdio.h>

#include <penstock/memory.h>
#include <penstock/transport.h>

#include "check.h"

struct facts_at {
  struct check *check;
  const struct node *map; /* the stream's */
  const struct config_stream *stream;
  const struct config_plugin *transport, *memory;
  const struct pst_facts *facts, *memory_facts;
  bool receives;
};

static void check_sizes(const struct facts_at *at)
{
  const char *name = at->transport->name;
  if (at->facts->message_max && at->stream->message > at->facts->message_max) {
    findings_add(at->check->findings, node_place(node_value(at->map, "message"), &at->map->place),
                 "message: %llu B is more than transport %s carries in one message; it takes at "
                 "most %llu B with these options",
                 (unsigned long long)at->stream->message, name,
                 (unsigned long long)at->facts->message_max);
  }
  if (at->receives && at->facts->slots_max && at->stream->ring > at->facts->slots_max)
    findings_add(at->check->findings, node_place(node_value(at->map, "ring"), &at->map->place),
                 "ring: %u slots are more than transport %s can have; it takes at most %llu",
                 at->stream->ring, name, (unsigned long long)at->facts->slots_max);
}

/* Without any of `capabilities`, `key` cannot be had. */
static void check_need(const struct facts_at *at, const struct node *key, uint64_t capabilities,
                       const char *what, const char *remedy)
{
  if ((at->facts->lacks & capabilities) == capabilities)
    findings_add(at->check->findings, node_place(key, &at->map->place),
                 "%s, which transport %s does not have with these options; %s", what,
                 at->transport->name, remedy);
}

static void check_receiver(const struct facts_at *at)
{
  const struct node *receiver = node_value(at->map, "receiver");
  const struct node *assemble = node_value(receiver, "assemble");
  const struct config_stream *stream = at->stream;

  if (stream->receiver.assemble.packets)
    check_need(at, assemble, PST_CAP_SEQUENCE, "assemble needs sequence numbers",
               "choose a framing that has them, or another transport, or remove \"assemble\"");
  if (stream->receiver.assemble.packets && stream->receiver.assemble.by == CONFIG_BY_RTP_MARKER &&
      !(at->facts->flags & PST_FACTS_PROTOCOL_META))
    check_need(at, node_value(assemble, "by"), PST_CAP_META,
               "assemble: `by: rtp_marker` needs RTP's timestamps",
               "take udp with `framing: rtp`, or write `by: sequence`");
  if (stream->receiver.intervals)
    check_need(at, node_value(receiver, "intervals"), PST_CAP_TIME,
               "intervals need the time of each message",
               "let the transport take timestamps, or remove \"intervals\"");
  if (stream->receiver.share)
    check_need(at, node_value(receiver, "share"), PST_CAP_SHARED_RING,
               "share needs rings that streams can share", "give the stream a ring of its own");
}

/* `path: mapped` is for host memory that a device sees. */
static void check_mapped(const struct facts_at *at, const struct node *path)
{
  const uint32_t kinds = at->memory_facts->memory_kinds;

  if (kinds && !(kinds & 1u << PST_MEMORY_MAPPED))
    findings_add(at->check->findings, node_place(path, &at->map->place),
                 "path: mapped needs memory that a GPU reads by a mapping, which memory %s is not; "
                 "write \"path: auto\", or take the GPU's memory",
                 at->memory->name);
}

/* A direct path takes memory that the transport itself can reach. */
static void check_direct(const struct facts_at *at, const struct node *path)
{
  static const struct {
    uint32_t need;
    const char *text;
  } needs[] = {{PST_NEED_CPU_ACCESS, "memory that the CPU can touch"},
               {PST_NEED_EXPORT_FD, "memory that can be shared by a file descriptor"},
               {PST_NEED_EXPORT_DMABUF, "memory that can be shared by a dma-buf"},
               {PST_NEED_PINNED, "pinned memory"}};

  for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
    if (!(at->facts->direct_needs & at->memory_facts->memory_lacks & needs[i].need))
      continue;
    findings_add(at->check->findings, node_place(path, &at->map->place),
                 "path: direct is not possible: transport %s %s %s, which memory %s is not; write "
                 "\"path: auto\", which stages",
                 at->transport->name, at->receives ? "receives into" : "sends from", needs[i].text,
                 at->memory->name);
    return;
  }
}

static void check_secrets(const struct facts_at *at)
{
  if (at->facts->flags & PST_FACTS_SECRET_ADDRESS && at->check->owner->config.control.is_clear)
    findings_add(at->check->findings, node_place(node_value(at->map, "transport"), &at->map->place),
                 "transport %s with these options sends a key by the control channel, which is in "
                 "clear with \"insecure: true\"; write \"tls\" under \"control\" instead",
                 at->transport->name);
}

static void check_paths(const struct facts_at *at)
{
  const struct node *end = node_value(at->map, at->receives ? "receiver" : "sender");
  const struct node *path = node_value(end, "path");

  if (at->receives && at->stream->receiver.path == CONFIG_PATH_MAPPED)
    check_mapped(at, path);
  if (at->receives ? at->stream->receiver.path == CONFIG_PATH_DIRECT
                   : at->stream->sender.path == CONFIG_SENDER_PATH_DIRECT)
    check_direct(at, path);
}

void check_facts(struct check *check, struct node *map, const struct config_stream *stream,
                 const struct pst_facts facts[2], const struct pst_facts memories[2])
{
  const struct config_plugin *const transports[] = {&stream->sender.transport.plugin,
                                                    &stream->receiver.transport.plugin};
  const struct config_plugin *const memory[] = {&stream->sender.memory, &stream->receiver.memory};
  for (int e = 0; e < 2; e++) {
    const struct facts_at at = {.check = check,
                                .map = map,
                                .stream = stream,
                                .transport = transports[e],
                                .memory = memory[e],
                                .facts = &facts[e],
                                .memory_facts = &memories[e],
                                .receives = e == 1};
    check_paths(&at);
    if (!at.transport->description)
      continue;
    check_sizes(&at);
    check_secrets(&at);
    if (check->owner->config.is_node)
      check_need(&at, node_value(map, "transport"), PST_CAP_READ | PST_CAP_WRITE,
                 "regions need READ or WRITE", "use loopback, ucx or verbs_rc");
    if (check->owner->config.control.none)
      check_need(&at, node_value(map, "transport"), PST_CAP_FOREIGN,
                 "`control: none` needs a transport to peers without Penstock",
                 "take one that is, such as udp, or remove \"control: none\"");
    if (at.receives)
      check_receiver(&at);
  }
}
