/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finding.h"
#include "notice.h"
#include "output.h"

static int discard_open(const struct sink_params *params, void **state, struct pst_error *error)
{
  (void)params;
  (void)error;
  *state = NULL;
  return 0;
}

static int discard_take(void *state, struct pst_receiver *receiver, const struct pst_view *views,
                        uint32_t n, struct pst_fence **fence, struct pst_error *error)
{
  (void)state;
  (void)receiver;
  (void)views;
  (void)n;
  (void)error;
  *fence = NULL;
  return 0;
}

static int discard_finish(void *state, struct pst_receiver *receiver, struct pst_error *error)
{
  (void)state;
  (void)receiver;
  (void)error;
  return 0;
}

static void discard_close(void *state)
{
  (void)state;
}

static const struct sink_ops sink_discard = {
    .name = "discard",
    .open = discard_open,
    .take = discard_take,
    .finish = discard_finish,
    .close = discard_close,
};

int sink_open(struct sink *sink, const char *type, const struct sink_params *params,
              struct pst_error *error)
{
  static const struct sink_ops *const known[] = {&sink_verify, &sink_discard, &sink_file,
                                                 &sink_pcap};

  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i]->name, type) == 0) {
      int result = known[i]->open(params, &sink->state, error);
      if (result == 0)
        sink->ops = known[i];
      return result;
    }
  }
  return notice_fail(error, PST_EXIT_USAGE, -EINVAL,
                     "stream '%s': there is no sink '%s'; use verify, discard, file or pcap",
                     params->stream, type);
}

int sink_commit(struct output *output, const char *stream, const char *what,
                struct pst_error *error)
{
  char *part = output->partial ? strdup(output->path) : NULL;
  char where[512];
  int result = output_commit(output, what, error);

  snprintf(where, sizeof where, "streams.%s.receiver.sink", stream);
  if (result == 0 && part != NULL)
    notice_warn(FINDING_RECORDING, where, "stream '%s': the part that came is kept as %s", stream,
                part);
  free(part);
  return result;
}

void sink_close(struct sink *sink)
{
  if (sink->ops != NULL)
    sink->ops->close(sink->state);
  sink->ops = NULL;
}
