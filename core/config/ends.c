/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration that is right by itself, beside the ends that a process will open. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <penstock/memory.h>

#include "ask.h"
#include "check.h"

#define FINDING_MAX 1024

struct ends {
  const struct pst_config *config;
  const struct pst_session_params *params;
  void (*finding)(void *context, const char *text);
  void *context;
  int count;
  const struct config_stream *stream;
  const struct config_plugin *plugin; /* the one that is asked */
};

static void ends_find(struct ends *ends, const char *place, const char *text)
{
  char line[3 * FINDING_MAX];

  snprintf(line, sizeof(line), "%.2000s: %s", place, text);
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

static void ends_report(void *context, const char *option, const char *text)
{
  struct ends *ends = context;
  const char *place = ends->plugin->mark.origin;
  char line[FINDING_MAX];

  if (!place || strcmp(place, place_default.source) == 0)
    place = ends->stream->mark.origin;
  snprintf(line, sizeof(line), "%.31s: %.63s: %.800s", ends->plugin->name, option, text);
  ends_find(ends, place, line);
}

/* Adds to *facts what the plugin knows. */
static void ends_ask(struct ends *ends, uint32_t side, const struct config_plugin *plugin,
                     struct pst_facts *facts)
{
  const uint32_t both = PST_SESSION_SENDER | PST_SESSION_RECEIVER;
  const struct ask ask = {
      .side = side,
      .flags = PST_CHECK_OPENS |
               (ends->config->config.control.none ? (uint32_t)PST_CHECK_FOREIGN : 0u) |
               ((ends->params->roles & both) == both ? 0u : (uint32_t)PST_CHECK_APART),
      .report = ends_report,
      .context = ends};

  ends->plugin = plugin;
  if (plugin->description)
    ask_plugin(&ask, plugin->description, plugin->options, facts);
}

/* The ring is shared with the other process, and what is staged lands in host memory, too. */
static void ends_ring(struct ends *ends, const struct config_receiver *receiver,
                      const struct pst_facts *transport, const struct pst_facts *memory)
{
  const struct config_plugin *plugin = &receiver->memory;
  const char *place = plugin->mark.origin;
  char text[FINDING_MAX];

  if (!(transport->direct_needs & memory->memory_lacks & PST_NEED_EXPORT_FD) ||
      (memory->memory_kinds != 1u << PST_MEMORY_HOST && receiver->path != CONFIG_PATH_DIRECT))
    return;
  if (!place || strcmp(place, place_default.source) == 0)
    place = ends->stream->mark.origin;
  snprintf(text, sizeof(text),
           "transport %.31s receives from another process into memory that can be shared by a file "
           "descriptor, and memory %.31s has none as it is set up; take other memory, or the "
           "defaults of its options",
           receiver->transport.plugin.name, plugin->name);
  ends_find(ends, place, text);
}

/* A stream that shares with another needs it beside itself. */
static void ends_share(struct ends *ends, const char *side, const char *share)
{
  char path[256], text[FINDING_MAX];
  const char *place;

  if (!share || ends_has(ends, share))
    return;
  snprintf(path, sizeof(path), "streams.%s.%s.share", ends->stream->name, side);
  place = pst_config_origin(ends->config, path);
  snprintf(text, sizeof(text),
           "share: stream \"%.63s\" is not among those that are named; name both with --stream",
           share);
  ends_find(ends, place ? place : ends->stream->mark.origin, text);
}

static void ends_stream(struct ends *ends, const struct config_stream *stream)
{
  const uint32_t sides[] = {PST_SCOPE_SENDER, PST_SCOPE_RECEIVER};
  const uint32_t roles[] = {PST_SESSION_SENDER, PST_SESSION_RECEIVER};
  const struct config_transport *transports[] = {&stream->sender.transport,
                                                 &stream->receiver.transport};
  const struct config_plugin *memories[] = {&stream->sender.memory, &stream->receiver.memory};

  ends->stream = stream;
  for (int e = 0; e < 2; e++) {
    if (!(ends->params->roles & roles[e]))
      continue;
    struct pst_facts transport = {.struct_size = sizeof(transport)}, memory = transport;
    ends_ask(ends, sides[e], &transports[e]->plugin, &transport);
    for (uint32_t i = 0; i < transports[e]->filter_count; i++)
      ends_ask(ends, sides[e], &transports[e]->filters[i], &transport);
    ends_ask(ends, sides[e], memories[e], &memory);
    if (e == 1)
      ends_ring(ends, &stream->receiver, &transport, &memory);
    ends_share(ends, e == 0 ? "sender" : "receiver",
               e == 0 ? stream->sender.share : stream->receiver.share);
  }
}

PST_EXPORT int pst_config_check(const struct pst_config *config,
                                const struct pst_session_params *params,
                                void (*finding)(void *context, const char *text), void *context)
{
  const uint32_t both = PST_SESSION_SENDER | PST_SESSION_RECEIVER;
  struct pst_session_params in;
  struct ends ends = {.config = config, .params = &in, .finding = finding, .context = context};

  pst_struct_read(&in, sizeof(in), params);
  if (config->config.control.none && (in.roles & both) == both) {
    const char *place = pst_config_origin(config, "control");
    ends_find(&ends, place ? place : "control",
              "`control: none` is for one end alone, whose peer is not Penstock; run `penstock "
              "receive` or `penstock send`, or leave it out for both in one process");
    return ends.count; /* what each end lacks is the next step's */
  }
  for (uint32_t i = 0; i < config->config.stream_count; i++)
    if (ends_has(&ends, config->config.streams[i].name))
      ends_stream(&ends, &config->config.streams[i]);
  return ends.count;
}
