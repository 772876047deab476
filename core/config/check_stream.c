/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a stream's keys. */
#include <string.h>

#include "../util/suggest.h"
#include "check.h"

static void check_sender(struct check *check, struct node *map, const struct place *place,
                         struct config_sender *sender, struct node *out)
{
  const struct node *share = node_value(map, "share");
  const struct node *ring = node_value(map, "ring");
  check_keys(check, &schema_sender, map, place, sender, out,
             share ? SCHEMA_SENDER_SHARING : SCHEMA_SENDER_OWN,
             "has no effect beside \"share\", which takes it from the other stream");
  if (sender->ring == 1 && ring)
    findings_add(check->findings, &ring->place,
                 "ring: 1 is out of range; it takes 2 to 16777216, or 0 for the stream's ring");
  const struct node *sleep = node_value(map, "sleep");
  if (sleep && sender->sleep_ns && !sender->chunk)
    findings_add(
        check->findings, &sleep->place,
        "sleep: needs \"chunk\", the number of messages between two pauses; write it beside "
        "\"sleep\"");
  check_program(check, &schema_sender, map, place, out);
}

/* A stream without `assemble` has none of these keys. */
static void check_assemble(struct check *check, struct node *node, const struct place *place,
                           struct config_receiver *receiver, struct node *effective)
{
  struct node *map = check_map(check, &schema_assemble, node);
  struct node *out =
      map ? node_add(check->arena, effective, NODE_MAP, "assemble", NULL, &map->place) : NULL;

  if (out)
    check_keys(check, &schema_assemble, map, node_place(map, place), receiver, out, 0, NULL);
}

static void check_receiver(struct check *check, struct node *map, const struct place *place,
                           struct config_receiver *receiver, struct node *out)
{
  bool foreign = check->owner->config.control.none;

  check_keys(check, &schema_receiver, map, place, receiver, out,
             foreign ? SCHEMA_FOREIGN : SCHEMA_CONTROLLED,
             "is for \"control: none\"; with a control channel the sender ends the stream");
  check_assemble(check, node_find(map, "assemble"), place, receiver, out);
  check_program(check, &schema_receiver, map, place, out);
}

/* Checks sender and receiver of a stream and what they have in common. `out` gets the effective
 * values. */
static void check_ends(struct check *check, struct node *map, const struct place *place,
                       const struct config_transport *global, struct config_stream *stream,
                       struct node *out)
{
  static const uint32_t sides[] = {PST_SCOPE_SENDER, PST_SCOPE_RECEIVER};
  static const char *const keys[] = {"sender", "receiver"};
  const struct schema_map *const schemas[] = {&schema_sender, &schema_receiver};
  struct config_transport whole, *const transports[] = {&stream->sender.transport,
                                                        &stream->receiver.transport};
  struct config_plugin *const memories[] = {&stream->sender.memory, &stream->receiver.memory};
  struct pst_facts facts[2] = {{.struct_size = sizeof(facts[0])},
                               {.struct_size = sizeof(facts[0])}};
  struct pst_facts memory_facts[2] = {facts[0], facts[1]};
  struct node *ends[2], *outs[2];
  const struct place *places[2];
  for (int e = 0; e < 2; e++) {
    ends[e] = check_map(check, schemas[e], node_find(map, keys[e]));
    places[e] = node_place(ends[e], place);
    outs[e] =
        node_add(check->arena, NULL, NODE_MAP, keys[e], NULL, node_place(ends[e], &place_default));
    if (!outs[e])
      return;
  }
  check_transport(check, node_find(map, "transport"), place, 0, global, &whole);
  for (int e = 0; e < 2; e++)
    check_transport(check, node_find(ends[e], "transport"), places[e], sides[e], &whole,
                    transports[e]);
  check_transport_ends(check, transports, place, facts);
  effective_transports(check, out, outs, &whole, transports);
  for (int e = 0; e < 2; e++) {
    check_memory(check, node_find(ends[e], "memory"), places[e], sides[e], memories[e]);
    check_whole(check, memories[e], sides[e], places[e], &memory_facts[e]);
    effective_memory(check, outs[e], memories[e], sides[e]);
  }
  check_sender(check, ends[0], places[0], &stream->sender, outs[0]);
  check_receiver(check, ends[1], places[1], &stream->receiver, outs[1]);
  stream->lacks = facts[1].lacks;
  check_facts(check, map, stream, facts, memory_facts);
  node_append(out, outs[0]);
  node_append(out, outs[1]);
}

static void check_name(struct check *check, const struct node *map, const char *name)
{
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789_.-";
  const struct node *node = node_value(map, "name");
  if (name && node && name[strspn(name, allowed)] != '\0')
    findings_add(
        check->findings, &node->place,
        "name: \"%.63s\" has characters other than letters, digits, _ . and -; remove them", name);
}

static void check_sizes(struct check *check, const struct node *map,
                        const struct config_stream *stream)
{
  const struct node *stride = node_value(map, "stride");
  if (stride && stream->stride > 0 && stream->stride < stream->message)
    findings_add(check->findings, &stride->place,
                 "stride: %llu B is less than the message of %llu B; slots would overlap",
                 (unsigned long long)stream->stride, (unsigned long long)stream->message);
}

static void check_stream(struct check *check, struct node *node,
                         const struct config_transport *global, struct config_stream *stream,
                         struct node *list)
{
  struct node *map = check_map(check, &schema_stream, node);
  if (!map) {
    if (node->null)
      findings_add(check->findings, &node->place, "an empty stream; give it a name at least");
    return;
  }
  struct node *out = node_add(check->arena, list, NODE_MAP, NULL, NULL, &map->place);
  if (!out)
    return;
  stream->origin = place_text(check->arena, &map->place);
  check_keys(check, &schema_stream, map, &map->place, stream, out, 0, NULL);
  check_name(check, map, stream->name);
  check_ends(check, map, &map->place, global, stream, out);
  check_program(check, &schema_stream, map, &map->place, out);
  check_sizes(check, map, stream);
}

/* Streams without a name have been reported already. */
static bool check_index_streams(struct check *check, struct config *config, struct node *effective)
{
  struct pst_config *owner = check->owner;
  struct name_index_entry *names = arena_alloc(check->arena, config->stream_count * sizeof(*names));
  uint32_t count = 0;
  owner->streams = effective;
  owner->stream_elements = arena_alloc(check->arena, config->stream_count * sizeof(struct node *));
  if (!names || !owner->stream_elements)
    return false;
  for (uint32_t i = 0; i < config->stream_count; i++)
    if (config->streams[i].name)
      names[count++] = (struct name_index_entry){config->streams[i].name, i};
  name_index_sort(names, count);
  config->names = names;
  config->name_count = count;
  count = 0;
  for (struct node *node = effective->first; node; node = node->next)
    owner->stream_elements[count++] = node;
  return true;
}

static void check_unique(struct check *check, const struct config *config, const struct node *list)
{
  const struct config_stream *stream = config->streams;
  for (const struct node *node = list->first; node; node = node->next, stream++) {
    const struct node *mark = node_value(node, "name");
    const struct config_stream *first =
        stream->name && mark ? config_stream_find(config, stream->name, strlen(stream->name))
                             : NULL;
    if (first && first < stream)
      findings_add(
          check->findings, &mark->place,
          "name: \"%s\" is the name of another stream, too (%s); give this one another name",
          stream->name, first->origin);
  }
}

/* Checks the list of streams into config.streams, and adds each to `effective`. */
void check_streams(struct check *check, struct node *list, const struct place *place,
                   const struct config_transport *global, struct node *effective)
{
  struct config *config = &check->owner->config;
  if (!list || (list->type == NODE_LIST && !list->first)) {
    findings_add(check->findings, node_place(list, place),
                 "there is no stream; write \"streams:\" and below it \"- name: packets\"");
    return;
  }
  if (list->type != NODE_LIST) {
    findings_add(check->findings, &list->place,
                 "streams: expected a list; write each stream as \"- name: packets\"");
    return;
  }
  if (list->count > SCHEMA_STREAMS_MAX) {
    findings_add(check->findings, &list->place, "streams: %zu of them; at most %d", list->count,
                 SCHEMA_STREAMS_MAX);
    return;
  }
  struct node *out = node_add(check->arena, effective, NODE_LIST, "streams", NULL, &list->place);
  config->streams = arena_alloc(check->arena, list->count * sizeof(*config->streams));
  if (!out || !config->streams)
    return;
  for (struct node *node = list->first; node; node = node->next)
    check_stream(check, node, global, &config->streams[config->stream_count++], out);
  if (!check_index_streams(check, config, out))
    return;
  check_unique(check, config, list);
  check_relations(check, list);
}
