/* SPDX-License-Identifier: Apache-2.0 */
/* The line that a stream begins with: sizes, memories, path. */
#include <inttypes.h>
#include <stdio.h>

#include "accounting.h"
#include "log.h"
#include "runner.h"
#include "statistics.h"
#include "stream_config.h"

static void banner_print_memory(const char *plugin, const struct pst_stats *stats, char *text,
                                size_t size)
{
  snprintf(text, size, "%s%s%s%s", plugin, stats->memory_backing[0] != '\0' ? " (" : "",
           stats->memory_backing, stats->memory_backing[0] != '\0' ? ")" : "");
}

/* Loss that nobody judges is no failure, and -q hides its line too. */
static void banner_warn_of_loss(const struct app_stream *stream, const struct pst_stats *in,
                                uint64_t capabilities)
{
  char key[512];

  if ((capabilities & PST_CAP_RELIABLE) != 0 ||
      app_stream_text(stream->runner->config, stream->name, "expect.max_loss"))
    return;
  if (stream->foreign && (!in || (capabilities & PST_CAP_SEQUENCE) == 0))
    return; /* it cannot be known here */
  snprintf(key, sizeof(key), "streams.%s", stream->name);
  app_log_warn(FINDING_NO_MAX_LOSS, key,
               "%s: this transport may lose messages, and no `expect` limits the loss: the exit "
               "status is 0 however many are lost; write expect: {max_loss: 1%%}",
               stream->name);
}

void app_banner_stream(const struct app_stream *stream)
{
  struct pst_stats sender = {.struct_size = sizeof(sender)};
  struct pst_stats receiver = {.struct_size = sizeof(receiver)};
  const struct pst_stats *decides = &receiver;
  char from[128] = "", to[128] = "";

  if (stream->sender.handle) {
    pst_sender_stats(stream->sender.handle, &sender);
    banner_print_memory(stream->sender.memory, &sender, from, sizeof(from));
    decides = &sender;
  }
  if (stream->receiver.handle) {
    pst_receiver_stats(stream->receiver.handle, &receiver);
    banner_print_memory(stream->receiver.memory, &receiver, to, sizeof(to));
    decides = &receiver;
  }
  const struct pst_stats *out = stream->sender.handle ? &sender : NULL;
  const struct pst_stats *in = stream->receiver.handle ? &receiver : NULL;
  const struct pst_path_info *path = app_accounting_path(out, in);
  char way[STATISTICS_PATH_BYTES];
  banner_warn_of_loss(stream, in, decides->capabilities);
  app_log(PST_LOG_INFO,
          "%s: messages of up to %" PRIu64 " B, %" PRIu64
          " slots, %s%s%s | %s via %s over %s%s%s%s",
          stream->name, stream->message, stream->ring, from[0] != '\0' ? from : "from the peer",
          from[0] != '\0' && to[0] == '\0' ? " to the peer" : " to ", to,
          app_statistics_path_by(path->path, app_accounting_staged_by(out, in), way),
          path->via[0] != '\0' ? path->via : "unknown means",
          path->carrier[0] != '\0' ? path->carrier : "an unknown carrier",
          path->reason[0] != '\0' ? " (" : "", path->reason, path->reason[0] != '\0' ? ")" : "");
  if (!stream->sender.handle || !stream->receiver.handle)
    app_log(PST_LOG_INFO, "%s: %s%s", stream->name,
            stream->foreign ? "" : "peer: ", decides->peer[0] != '\0' ? decides->peer : "unknown");
}
