/* SPDX-License-Identifier: Apache-2.0 */
/* Where a receiver's messages go. */
#include "sink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finding.h"
#include "log.h"

#define BOUNCE_BYTES (UINT64_C(4) << 20)

static int sink_discard_take(void *state, struct pst_receiver *receiver,
                             const struct pst_view *views, uint32_t n, struct pst_fence **fence,
                             struct pst_error *error)
{
  (void)state;
  (void)receiver;
  (void)views;
  (void)n;
  (void)error;
  *fence = NULL;
  return 0;
}

static const struct sink_ops sink_discard = {.name = "discard", .take = sink_discard_take};

#ifndef HAVE_PCAP
static int sink_capture_open(void *state, const struct sink_params *params, struct pst_error *error)
{
  (void)state;
  return app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                      "stream '%s': this build of penstock writes no captures; install libpcap "
                      "(libpcap-dev) and build again",
                      params->stream);
}

const struct sink_ops app_sink_pcap = {.name = "pcap", .size = 1, .open = sink_capture_open};
#endif

static int sink_open_state(struct sink *sink, const struct sink_params *params,
                           struct pst_error *error)
{
  const struct sink_ops *ops = sink->ops;

  if (ops->writes && (!params->file || params->file[0] == '\0'))
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "stream '%s': sink.file is missing; name the %s to write", params->stream,
                        ops->writes);
  if (!ops->open)
    return 0;
  sink->state = calloc(1, ops->size);
  if (!sink->state)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  return ops->open(sink->state, params, error);
}

int app_sink_open(struct sink *sink, const char *type, const struct sink_params *params,
                  struct pst_error *error)
{
  static const struct sink_ops *const known[] = {&app_sink_verify, &sink_discard, &app_sink_file,
                                                 &app_sink_pcap};

  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    if (strcmp(known[i]->name, type) != 0)
      continue;
    *sink = (struct sink){.ops = known[i]};
    int rc = sink_open_state(sink, params, error);
    if (rc < 0)
      app_sink_close(sink);
    return rc;
  }
  return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                      "stream '%s': there is no sink '%s'; use verify, discard, file or pcap",
                      params->stream, type);
}

void app_sink_close(struct sink *sink)
{
  if (sink->state && sink->ops->close)
    sink->ops->close(sink->state);
  free(sink->state);
  *sink = (struct sink){.ops = NULL};
}

/* ---- Sinks that write a file ------------------------------------------------------- */

int app_recording_open(struct recording *recording, const struct sink_params *params,
                       struct pst_error *error)
{
  recording->stream = params->stream;
  recording->message = params->message;
  snprintf(recording->what, sizeof(recording->what), "stream '%s': sink", params->stream);
  snprintf(recording->where, sizeof(recording->where), "streams.%s.receiver.sink", params->stream);
  return app_atomic_file_open(&recording->output, recording->what, params->file,
                              params->overwrite ? ATOMIC_FILE_OVERWRITE : 0, error);
}

int app_recording_failed(const struct recording *recording, int code, const char *done,
                         struct pst_error *error)
{
  const char *remedy = "check the disk";

  if (code == ENOSPC || code == EDQUOT)
    remedy = "free space there, or let sink.file name another filesystem";
  else if (code == EFBIG)
    remedy = "raise the limit of file sizes (ulimit -f), or send less";
  else if (code == EPIPE)
    remedy = "its reader has gone";
  return app_log_fail(error, PST_EXIT_FAILED, -code,
                      "stream '%s': cannot write to %s after %s: %s; %s%s", recording->stream,
                      recording->output.path, done, strerror(code), remedy,
                      recording->output.in_place ? "" : "; nothing is left of the file");
}

int app_recording_reach(struct recording *recording, struct pst_receiver *receiver,
                        const struct pst_view *view, uint64_t *used, const void **bytes,
                        struct pst_error *error)
{
  if (view->host || view->length == 0) {
    *bytes = view->host;
    return 0;
  }
  if (!recording->bounce) {
    recording->bounce_size = recording->message > BOUNCE_BYTES ? recording->message : BOUNCE_BYTES;
    recording->bounce = malloc(recording->bounce_size);
    if (!recording->bounce)
      return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream '%s': out of memory",
                          recording->stream);
  }
  if (recording->bounce_size - *used < view->length)
    return -EAGAIN;
  char *copy = recording->bounce + *used;
  int rc = pst_receiver_read(receiver, view, copy);
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc,
                        "stream '%s': cannot copy message %" PRIu64 " to host memory: %s",
                        recording->stream, view->sequence, strerror(-rc));
  *bytes = copy;
  *used += view->length;
  return 0;
}

int app_recording_cut(void *state)
{
  struct recording *recording = state;
  return recording->messages == 0 ? -ENODATA : app_atomic_file_partial(&recording->output);
}

int app_recording_commit(struct recording *recording, struct pst_error *error)
{
  struct atomic_file *output = &recording->output;
  char *part = output->partial ? strdup(output->path) : NULL;
  int rc = app_atomic_file_commit(output, recording->what, error);

  if (rc == 0 && part)
    app_log_warn(FINDING_RECORDING, recording->where,
                 "stream '%s': the part that came is kept as %s", recording->stream, part);
  free(part);
  return rc;
}

void app_recording_close(void *state)
{
  struct recording *recording = state;

  app_atomic_file_discard(&recording->output);
  free(recording->bounce);
}
