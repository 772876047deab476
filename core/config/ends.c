/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration that is right by itself, beside the ends that a process will open. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

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

static void ends_ask(struct ends *ends, uint32_t side, const struct config_plugin *plugin)
{
  struct pst_facts facts = {.struct_size = sizeof(facts)};
  const struct ask ask = {
      .side = side,
      .flags =
          PST_CHECK_OPENS | (ends->config->config.control.none ? (uint32_t)PST_CHECK_FOREIGN : 0u),
      .report = ends_report,
      .context = ends};

  ends->plugin = plugin;
  if (plugin->description)
    ask_plugin(&ask, plugin->description, plugin->options, &facts);
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
    ends_ask(ends, sides[e], &transports[e]->plugin);
    for (uint32_t i = 0; i < transports[e]->filter_count; i++)
      ends_ask(ends, sides[e], &transports[e]->filters[i]);
    ends_ask(ends, sides[e], memories[e]);
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
