/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration that is right by itself, beside the ends that a process will open. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/memory.h>

#include "check.h"

#define FINDING_MAX 1024
#define ROLES_BOTH ((uint32_t)PST_SESSION_SENDER | PST_SESSION_RECEIVER)

/* A resource that an end takes for itself alone: facts.takes. */
struct taken {
  const struct config_stream *stream;
  const struct config_plugin *plugin;
  const char *option;
  char text[sizeof(((struct pst_facts *)0)->takes)];
  uint32_t order; /* in the file */
  bool shares, receives, reported;
};

struct ends {
  const struct pst_config *config;
  const struct pst_session_params *params;
  void (*finding)(void *context, const char *text);
  void *context;
  int count;
  const struct config_stream *stream;
  const struct config_plugin *plugin; /* the one that is asked */
  struct taken *taken;
  uint32_t taken_count;
};

static void ends_find(struct ends *ends, const char *place, const char *format, ...)
    PST_PRINTF(3, 4);

static void ends_find(struct ends *ends, const char *place, const char *format, ...)
{
  char line[3 * FINDING_MAX];
  va_list args;
  int length = snprintf(line, sizeof(line), "%.2000s: ", place);

  va_start(args, format);
  vsnprintf(line + length, sizeof(line) - (size_t)length, format, args);
  va_end(args);
  ends->finding(ends->context, line);
  ends->count++;
}

static bool ends_has(const struct ends *ends, const char *name)
{
  for (uint32_t i = 0; i < ends->params->stream_count; i++)
    if (strcmp(ends->params->streams[i], name) == 0)
      return true;
  return ends->params->stream_count == 0;
}

/* Where an option of the plugin was written; else, or without one (NULL), where the plugin, or the
 * stream, was. */
static const char *ends_place(const struct config_stream *stream,
                              const struct config_plugin *plugin, const char *option)
{
  if (option && !place_is_default(options_place(plugin->options, option)))
    return options_origin(plugin->options, option);
  return place_is_default(&plugin->place) ? stream->origin : plugin->origin;
}

static void ends_report(void *context, const char *option, const char *text)
{
  struct ends *ends = context;

  ends_find(ends, ends_place(ends->stream, ends->plugin, NULL), "%.31s: %.63s: %.800s",
            ends->plugin->name, option, text);
}

/* Adds to *facts what the plugin knows. */
static void ends_query(struct ends *ends, uint32_t side, const struct config_plugin *plugin,
                       struct pst_facts *facts)
{
  const struct facts_query query = {
      .side = side,
      .flags = PST_CHECK_OPENS |
               (ends->config->config.control.none ? (uint32_t)PST_CHECK_FOREIGN : 0u) |
               ((ends->params->roles & ROLES_BOTH) == ROLES_BOTH ? 0u : (uint32_t)PST_CHECK_APART),
      .report = ends_report,
      .context = ends};

  ends->plugin = plugin;
  plugin_facts(&query, plugin, facts);
}

/* The ring is shared with the other process, and what is staged lands in host memory, too. */
static void ends_ring(struct ends *ends, const struct config_receiver *receiver,
                      const struct pst_facts *transport, const struct pst_facts *memory)
{
  const struct config_plugin *plugin = &receiver->memory;

  if (!(transport->direct_needs & memory->memory_lacks & PST_NEED_EXPORT_FD) ||
      (memory->memory_kinds != 1u << PST_MEMORY_HOST && receiver->path != CONFIG_PATH_DIRECT))
    return;
  ends_find(ends, ends_place(ends->stream, plugin, NULL),
            "transport %.31s receives from another process only into memory that a file descriptor "
            "can share, which memory %.31s with these options is not; take another "
            "memory, or the defaults of its options",
            receiver->transport.plugin.name, plugin->name);
}

/* A stream that shares with another needs it beside itself. */
static void ends_share(struct ends *ends, const char *side, const char *share)
{
  char path[256];
  const char *place;

  if (!share || ends_has(ends, share))
    return;
  snprintf(path, sizeof(path), "streams.%s.%s.share", ends->stream->name, side);
  place = pst_config_origin(ends->config, path);
  ends_find(ends, place ? place : ends->stream->origin,
            "share: stream \"%.63s\" is not among those that are named; name both with --stream",
            share);
}

static void ends_take(struct ends *ends, const struct config_transport *transport, bool receives,
                      const struct pst_facts *facts)
{
  if (!facts->takes[0] || !facts->takes_option)
    return;
  struct taken *taken = &ends->taken[ends->taken_count];
  *taken = (struct taken){.stream = ends->stream,
                          .plugin = &transport->plugin,
                          .option = facts->takes_option,
                          .order = ends->taken_count++,
                          .shares = facts->flags & PST_FACTS_SHARES,
                          .receives = receives};
  memcpy(taken->text, facts->takes, sizeof(taken->text));
  taken->text[sizeof(taken->text) - 1] = '\0';
}

static void ends_meet(struct ends *ends, const struct pst_facts facts[2])
{
  const struct config_stream *stream = ends->stream;
  const struct config_plugin *plugin = &stream->sender.transport.plugin;

  if (!facts[0].meets[0] || !facts[1].meets[0] || strcmp(facts[0].meets, facts[1].meets) == 0)
    return;
  ends_find(ends, ends_place(stream, plugin, facts[0].meets_option),
            "%.31s: %.63s: the receiver listens on %.63s only (its option `%.63s`), but the sender "
            "sends to %.63s; leave `%.63s` out, or change one of them",
            plugin->name, facts[0].meets_option, facts[1].meets, facts[1].meets_option,
            facts[0].meets, facts[0].meets_option);
}

static bool ends_differ(struct ends *ends, const struct pst_facts facts[2])
{
  const struct config_stream *stream = ends->stream;
  const struct config_plugin *plugin = &stream->sender.transport.plugin;
  const char *option = facts[0].equals_option;

  if (!facts[0].equals[0] || !facts[1].equals[0] || strcmp(facts[0].equals, facts[1].equals) == 0)
    return false;
  ends_find(ends, ends_place(stream, plugin, option),
            "%.31s: %.63s: the sender uses %.15s, the receiver %.15s (its option `%.63s`); change "
            "one of them",
            plugin->name, option, facts[0].equals, facts[1].equals, facts[1].equals_option);
  return true;
}

static int ends_taken_compare(const void *left, const void *right)
{
  const struct taken *a = left, *b = right;
  int text = strcmp(a->text, b->text);

  return text ? text : a->order < b->order ? -1 : 1;
}

static void ends_clash(struct ends *ends, struct taken *a, struct taken *b)
{
  struct taken *first = a->order < b->order ? a : b, *second = first == a ? b : a;

  if (second->reported || (a->shares && b->shares))
    return;
  second->reported = true;
  ends_find(ends, ends_place(second->stream, second->plugin, second->option),
            "%.31s: %.63s: the %s of stream \"%.63s\" uses %.79s already (%.200s), and a process "
            "has it only once; choose another",
            second->plugin->name, second->option, first->receives ? "receiver" : "sender",
            first->stream->name, first->text,
            ends_place(first->stream, first->plugin, first->option));
}

/* In the order of their texts a whole is just before its parts. */
static void ends_clashes(struct ends *ends)
{
  struct taken *all = ends->taken;

  qsort(all, ends->taken_count, sizeof(*all), ends_taken_compare);
  for (uint32_t i = 0; i < ends->taken_count; i++) {
    size_t length = strlen(all[i].text);
    for (uint32_t j = i + 1; j < ends->taken_count; j++) {
      if (strncmp(all[i].text, all[j].text, length) != 0)
        break;
      if (all[j].text[length] == '\0' || all[j].text[length] == '/')
        ends_clash(ends, &all[i], &all[j]);
    }
  }
}

/* Checks what only both ends of a stream together can tell, for the roles of this session. */
static void ends_stream(struct ends *ends, const struct config_stream *stream)
{
  const uint32_t sides[] = {PST_SCOPE_SENDER, PST_SCOPE_RECEIVER};
  const uint32_t roles[] = {PST_SESSION_SENDER, PST_SESSION_RECEIVER};
  const struct config_transport *transports[] = {&stream->sender.transport,
                                                 &stream->receiver.transport};
  const struct config_plugin *memories[] = {&stream->sender.memory, &stream->receiver.memory};

  struct pst_facts met[2] = {{.struct_size = sizeof(met[0])}, {.struct_size = sizeof(met[0])}};

  ends->stream = stream;
  for (int e = 0; e < 2; e++) {
    if (!(ends->params->roles & roles[e]))
      continue;
    struct pst_facts transport = {.struct_size = sizeof(transport)}, memory = transport;
    ends_query(ends, sides[e], &transports[e]->plugin, &transport);
    for (uint32_t i = 0; i < transports[e]->filter_count; i++)
      ends_query(ends, sides[e], &transports[e]->filters[i], &transport);
    ends_query(ends, sides[e], memories[e], &memory);
    if (e == 1)
      ends_ring(ends, &stream->receiver, &transport, &memory);
    ends_share(ends, e == 0 ? "sender" : "receiver",
               e == 0 ? stream->sender.share : stream->receiver.share);
    ends_take(ends, transports[e], e == 1, &transport);
    met[e] = transport;
  }
  if (!ends_differ(ends, met))
    ends_meet(ends, met);
}

PST_EXPORT int pst_config_check(const struct pst_config *config,
                                const struct pst_session_params *params,
                                void (*finding)(void *context, const char *text), void *context)
{
  struct pst_session_params in;
  struct ends ends = {.config = config, .params = &in, .finding = finding, .context = context};

  pst_struct_read(&in, sizeof(in), params);
  if (config->config.control.none && (in.roles & ROLES_BOTH) == ROLES_BOTH) {
    const char *place = pst_config_origin(config, "control");
    ends_find(&ends, place ? place : "control",
              "`control: none` is for one end, whose peer is not Penstock; run `penstock receive` "
              "or `penstock send`, or leave it out to run both ends in one process");
    return ends.count; /* what each end lacks is the next step's */
  }
  ends.taken = calloc(2 * (size_t)config->config.stream_count + 1, sizeof(*ends.taken));
  if (!ends.taken)
    return -ENOMEM;
  for (uint32_t i = 0; i < config->config.stream_count; i++)
    if (ends_has(&ends, config->config.streams[i].name))
      ends_stream(&ends, &config->config.streams[i]);
  ends_clashes(&ends);
  free(ends.taken);
  return ends.count;
}
