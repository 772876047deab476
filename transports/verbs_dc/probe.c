/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that wait while silent ones hold the initiators. Each is probed by an empty RDMA WRITE on
 * an initiator that all of them share, the prober, each by a stream of its own: such a WRITE may be
 * posted again. A batch that is not answered ends: the prober is reset, and silent peers are tried
 * later, until the path's silence is over. Without streams a silent peer holds up those behind it,
 * whose probes are posted again. A peer that answers goes before those that have not, and may have
 * an initiator of the reserve.
 */
#include <stdio.h>

#include "../verbs/status.h"
#include "ops.h"
#include "probe.h"

#define STUCK_NS UINT64_C(4000000) /* nobody gave an initiator back, and some wait */
#define PROBE_NS UINT64_C(4000000) /* of a batch's first; an answer takes microseconds */

/* An index that no request of the send queue has. */
#define PROBE_INDEX 0x80000000u
#define PROBE_BATCHES 65536u /* whose completions differ */

/* Into the batch: those that ask, then the silent ones whose time has come, which are the first of
 * their lines. */
static void dc_probe_gather(struct dc_worker *pool, uint64_t now)
{
  pool->probe_count = pool->probes_answered = 0;
  for (uint32_t i = DC_ASKING; i < DC_LINES; i++)
    for (struct dc_endpoint *dc = pool->lines[i].first;
         dc && dc->probe_at_ns <= now && pool->probe_count < DC_PROBES; dc = dc->behind)
      if (dc->stage >= DC_GREETING && !dc_is_over(dc))
        pool->probed[pool->probe_count++] = dc;
}

static void dc_probe_post(struct dc_worker *pool, uint64_t now)
{
  struct dc_initiator *prober = pool->prober;

  pool->probe_ns = now;
  pool->batches++;
  ibv_wr_start(prober->ex);
  for (uint32_t i = 0; i < pool->probe_count; i++) {
    const struct dc_endpoint *dc = pool->probed[i];
    const uint32_t index =
        (uint32_t)dc->endpoint.sq.head + PROBE_INDEX + pool->batches % PROBE_BATCHES;
    pool->probe_ids[i] = prober->ex->wr_id = vb_wr_id(&dc->endpoint.sq, index);
    prober->ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(prober->ex, 0, 0);
    ibv_wr_set_sge_list(prober->ex, 0, NULL);
    dc_set_peer(dc, prober, dc->peer.control, (uint16_t)i);
  }
  const int rc = ibv_wr_complete(prober->ex);
  if (rc == 0)
    return;
  VB_LOG(pool->worker->device, PST_LOG_WARN, "probes of %u peers that wait: ibv_wr_complete: %s",
         pool->probe_count, strerror(rc));
  pool->probe_count = 0;
}

static void dc_probe_begin(struct dc_worker *pool, uint64_t now)
{
  if (!pool->prober || (pool->prober->is_broken && dc_reset(pool, pool->prober) != 0))
    return;
  dc_probe_gather(pool, now);
  if (pool->probe_count)
    dc_probe_post(pool, now);
}

static void dc_probe_drop_kept(struct dc_worker *pool)
{
  for (uint32_t i = 0; i < pool->probe_count; i++) {
    dc_handle_drop(pool->kept[i]);
    pool->kept[i] = NULL;
  }
}

void dc_probe_close(struct dc_worker *pool)
{
  dc_probe_drop_kept(pool);
  pool->probe_count = 0;
}

/* Ends the probes under way, and probes again the peers that have not answered. */
static void dc_probe_again(struct dc_worker *pool, uint64_t now)
{
  const int rc = dc_reset(pool, pool->prober);

  dc_probe_drop_kept(pool);
  pool->probe_count = 0;
  if (rc) {
    VB_LOG(pool->worker->device, PST_LOG_ERROR,
           "the initiator that probes cannot be set up again: %s; see the kernel's log (`dmesg`)",
           strerror(rc));
    return;
  }
  dc_probe_begin(pool, now);
}

static void dc_probe_gave_up(struct dc_endpoint *dc, uint64_t now)
{
  const struct pst_device *device = dc->endpoint.device;
  char text[1024];

  vb_wc_text(IBV_WC_RETRY_EXC_ERR, 0, device->open.port->is_ethernet, text, sizeof(text));
  vb_text_add(text, sizeof(text), "; the peer has not answered %u probes in %.1f s", dc->tries,
              (double)(now - dc->silent_ns) / 1e9);
  dc_handle_doubt(dc);
  dc_fail(&dc->endpoint, vb_wc_status(IBV_WC_RETRY_EXC_ERR)->error, text);
}

static bool dc_probe_is_answered(const struct dc_worker *pool, uint32_t i)
{
  return pool->probes_answered & UINT32_C(1) << i;
}

static void dc_probe_missed(struct dc_worker *pool, struct dc_endpoint *dc, uint64_t now)
{
  pool->probes_missed++;
  if (!dc->is_waiting || dc->line == DC_ANSWERED)
    return;
  const uint32_t backoff = dc->tries < DC_BACKOFFS - 1 ? dc->tries : DC_BACKOFFS - 1;
  if (dc->silent_ns == 0)
    dc->silent_ns = pool->probe_ns;
  dc->probe_at_ns = now + (PROBE_NS << backoff);
  dc->tries += dc->tries < UINT8_MAX;
  dc_wait_in(dc, DC_SILENT + backoff);
  if (now - dc->silent_ns >= vb_silence_ns(&dc->endpoint.device->path))
    dc_probe_gave_up(dc, now);
}

/* The batch is over. Its first that has not answered is silent; so are the others, if the device
 * serves streams side by side, which an answer that passed another shows. */
static void dc_probe_end(struct dc_worker *pool, uint64_t now)
{
  bool is_first = true;

  for (uint32_t i = 0; i < pool->probe_count; i++) {
    if (dc_probe_is_answered(pool, i))
      continue;
    if (pool->probed[i] && (is_first || pool->probes_pass))
      dc_probe_missed(pool, pool->probed[i], now);
    is_first = false;
  }
  dc_probe_again(pool, now);
}

static void dc_probe_answered(struct dc_worker *pool, uint32_t i, uint64_t now)
{
  const uint32_t before = (UINT32_C(1) << i) - 1;

  pool->probes_pass |= (pool->probes_answered & before) != before;
  pool->probes_answered |= UINT32_C(1) << i;
  pool->probe_ns = now;
  if (pool->probed[i]->is_waiting)
    dc_has_answered(pool->probed[i]);
  if (pool->probes_answered == UINT32_MAX >> (DC_PROBES - pool->probe_count))
    dc_probe_begin(pool, now);
}

void dc_probe_sent(struct dc_endpoint *dc, const struct ibv_wc *wc)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  if (!pool->prober || wc->qp_num != pool->prober->qp->qp_num || wc->status == IBV_WC_WR_FLUSH_ERR)
    return;
  uint32_t i = 0;
  while (i < pool->probe_count &&
         (pool->probe_ids[i] != wc->wr_id || dc_probe_is_answered(pool, i)))
    i++;
  if (i == pool->probe_count)
    return; /* of a batch that was ended */
  const uint64_t now = vb_now_ns(dc->endpoint.device);
  if (wc->status == IBV_WC_SUCCESS) {
    dc_probe_answered(pool, i, now);
    return;
  }
  dc_probe_missed(pool, dc, now);
  dc_probe_again(pool, now);
}

void dc_probe_forget(struct dc_endpoint *dc)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  for (uint32_t i = 0; i < pool->probe_count; i++) {
    if (pool->probed[i] != dc)
      continue;
    pool->probed[i] = NULL;
    if (dc_probe_is_answered(pool, i))
      continue;
    pool->kept[i] = dc->handle;
    dc->handle = NULL;
  }
}

void dc_probe_look(struct pst_worker *worker)
{
  struct dc_worker *pool = dc_worker_of(worker);

  if (pool->waiting == 0 && pool->probe_count == 0)
    return;
  const uint64_t now = vb_now_ns(worker->device);
  if (pool->gives != pool->gives_seen || pool->stuck_ns == 0) {
    pool->gives_seen = pool->gives;
    pool->stuck_ns = now;
  }
  if (pool->probe_count) {
    if (now - pool->probe_ns >= PROBE_NS && worker->has_all)
      dc_probe_end(pool, now);
  } else if (now - pool->stuck_ns >= STUCK_NS || pool->silent)
    dc_probe_begin(pool, now);
}
