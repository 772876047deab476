/* SPDX-License-Identifier: Apache-2.0 */
/* The test pattern of memory.h, made where the slots are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "notice.h"
#include "source.h"

struct pattern {
  const char *stream;
  uint32_t length;
};

static int pattern_open(const struct source_params *params, void **state, struct pst_error *error)
{
  uint64_t length = params->length != 0 ? params->length : params->message;

  if (length > params->message || length > UINT32_MAX)
    return notice_fail(error, PST_EXIT_USAGE, -EINVAL,
                       "stream '%s': source.length is %llu B, a message holds %llu B; lower the "
                       "one or raise the other",
                       params->stream, (unsigned long long)length,
                       (unsigned long long)params->message);
  struct pattern *pattern = calloc(1, sizeof *pattern);
  if (pattern == NULL)
    return notice_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  pattern->stream = params->stream;
  pattern->length = (uint32_t)length;
  *state = pattern;
  return 0;
}

static int pattern_ready(void *state, uint32_t n, uint64_t *until_ns, struct pst_error *error)
{
  (void)state;
  (void)until_ns;
  (void)error;
  return (int)n;
}

static int pattern_fill(void *state, const struct source_host *host, struct pst_slot *slots,
                        uint32_t n, struct pst_error *error)
{
  struct pattern *pattern = state;

  for (uint32_t i = 0; i < n; i++) {
    slots[i].length = pattern->length;
    slots[i].meta = 0;
  }
  int result = host->fill(host->context, slots, n);
  if (result < 0)
    return notice_fail(error, PST_EXIT_FAILED, result,
                       "stream '%s': cannot make the test pattern: %s", pattern->stream,
                       strerror(-result));
  return 0;
}

static void pattern_close(void *state)
{
  free(state);
}

const struct source_ops source_pattern = {
    .name = "pattern",
    .open = pattern_open,
    .ready = pattern_ready,
    .fill = pattern_fill,
    .close = pattern_close,
};
