/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, by the library's own statistics, and looks at nothing. */
#include "sink.h"

static int discard_open(const struct sink_params *params, void **state, struct pst_error *error)
{
  (void)params;
  (void)error;
  *state = NULL;
  return 0;
}

static int discard_take(void *state, const struct sink_host *host, const struct pst_view *views,
                        uint32_t n, struct pst_fence **fence, struct pst_error *error)
{
  (void)state;
  (void)host;
  (void)views;
  (void)n;
  (void)error;
  *fence = NULL;
  return 0;
}

static int discard_finish(void *state, const struct sink_host *host, struct pst_error *error)
{
  (void)state;
  (void)host;
  (void)error;
  return 0;
}

static void discard_close(void *state)
{
  (void)state;
}

const struct sink_ops sink_discard = {
    .name = "discard",
    .open = discard_open,
    .take = discard_take,
    .finish = discard_finish,
    .close = discard_close,
};
