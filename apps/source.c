/* SPDX-License-Identifier: Apache-2.0 */
/* Where a sender's messages come from. */
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

struct pattern {
  const char *stream;
  uint32_t length;
};

static int source_pattern_open(void *state, const struct source_params *params,
                               struct pst_error *error)
{
  struct pattern *pattern = state;
  uint64_t length = params->length != 0 ? params->length : params->message;

  if (length > params->message || length > UINT32_MAX)
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "stream '%s': source.length is %llu B, a message holds %llu B; lower the "
                        "one or raise the other",
                        params->stream, (unsigned long long)length,
                        (unsigned long long)params->message);
  pattern->stream = params->stream;
  pattern->length = (uint32_t)length;
  return 0;
}

static int source_pattern_ready(void *state, uint32_t n, uint64_t *until_ns,
                                struct pst_error *error)
{
  (void)state;
  (void)until_ns;
  (void)error;
  return (int)n;
}

static int source_pattern_fill(void *state, struct pst_sender *sender, struct pst_slot *slots,
                               uint32_t n, struct pst_error *error)
{
  struct pattern *pattern = state;

  for (uint32_t i = 0; i < n; i++) {
    slots[i].length = pattern->length;
    slots[i].meta = 0;
  }
  int rc = pst_sender_fill(sender, slots, n);
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "stream '%s': cannot make the test pattern: %s",
                        pattern->stream, strerror(-rc));
  return 0;
}

static const struct source_ops source_pattern = {
    .name = "pattern",
    .size = sizeof(struct pattern),
    .open = source_pattern_open,
    .ready = source_pattern_ready,
    .fill = source_pattern_fill,
};

#ifndef HAVE_PCAP
static int source_capture_open(void *state, const struct source_params *params,
                               struct pst_error *error)
{
  (void)state;
  return app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                      "stream '%s': this build of penstock reads no captures; install libpcap "
                      "(libpcap-dev) and build again",
                      params->stream);
}

const struct source_ops app_source_pcap = {.name = "pcap", .size = 1, .open = source_capture_open};
#endif

static int source_open_state(struct source *source, const struct source_params *params,
                             struct pst_error *error)
{
  const struct source_ops *ops = source->ops;

  if (ops->reads && (!params->file || params->file[0] == '\0'))
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "stream '%s': source.file is missing; name the %s to send", params->stream,
                        ops->reads);
  source->state = calloc(1, ops->size);
  if (!source->state)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  return ops->open(source->state, params, error);
}

int app_source_open(struct source *source, const char *type, const struct source_params *params,
                    struct pst_error *error)
{
  static const struct source_ops *const known[] = {&source_pattern, &app_source_file,
                                                   &app_source_pcap};

  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    if (strcmp(known[i]->name, type) != 0)
      continue;
    *source = (struct source){.ops = known[i]};
    int rc = source_open_state(source, params, error);
    if (rc < 0)
      app_source_close(source);
    return rc;
  }
  return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                      "stream '%s': there is no source '%s'; use pattern, file or pcap",
                      params->stream, type);
}

void app_source_close(struct source *source)
{
  if (source->state && source->ops->close)
    source->ops->close(source->state);
  free(source->state);
  *source = (struct source){.ops = NULL};
}
