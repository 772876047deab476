/* SPDX-License-Identifier: Apache-2.0 */
/* A connection fails: it is over, or, with `reconnect`, begins anew. */
#include <stdio.h>

#include "cm.h"
#include "connection.h"
#include "multi_qp.h"
#include "qp.h"

/* Counters of port and host as they were when connections began, for the words of those that fail.
 * They are some tens of small files, of which those of a port are commands of the firmware's:
 * connections of a worker that begin at one time share them, and the host's thread reads them,
 * before it sets the first one's queue pairs up. */

#define SHARED_FOR_NS UINT64_C(100000000)

/* The reader and the last user both hold it; the second of them to finish frees it. */
enum rc_baseline_state { RC_BASELINE_READING, RC_BASELINE_READ, RC_BASELINE_UNUSED };

struct rc_counter_baseline {
  const struct pst_device *device;
  _Atomic int state;
  uint32_t users; /* endpoints */
  uint64_t at_ns;
  struct vb_counters counters;
};

void rc_counter_baseline_end(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  struct rc_counter_baseline *since = endpoint->rc->since;

  endpoint->rc->since = NULL;
  if (!since || --since->users > 0)
    return;
  if (worker->since == since)
    worker->since = NULL;
  if (atomic_exchange(&since->state, RC_BASELINE_UNUSED) == RC_BASELINE_READ)
    free(since);
}

static void rc_fail_read_since(void *arg)
{
  struct rc_counter_baseline *since = arg;

  vb_counters_read(since->device->counter_folder, since->device->counter_host, &since->counters);
  if (atomic_exchange(&since->state, RC_BASELINE_READ) == RC_BASELINE_UNUSED)
    free(since);
}

static struct rc_counter_baseline *rc_fail_begin_reading(struct pst_endpoint *endpoint,
                                                         uint64_t now_ns)
{
  struct pst_worker *worker = endpoint->worker;
  const struct pst_host *host = worker->device->host;
  struct rc_counter_baseline *made = calloc(1, sizeof(*made));

  if (!made)
    return NULL;
  made->device = worker->device;
  made->at_ns = now_ns;
  if (host->defer(host, endpoint, rc_fail_read_since, made) < 0) {
    free(made);
    return NULL;
  }
  return worker->since = made;
}

int rc_counter_baseline_begin(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct pst_worker *worker = endpoint->worker;
  struct rc_counter_baseline *since = worker->since;

  if (!since || now_ns - since->at_ns >= SHARED_FOR_NS)
    since = rc_fail_begin_reading(endpoint, now_ns);
  if (!since)
    return -ENOMEM;
  since->users++;
  endpoint->rc->since = since;
  return 0;
}

static void rc_counter_baseline_text(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct pst_device *device = endpoint->device;
  struct vb_counters now;

  if (!endpoint->rc->since || atomic_load(&endpoint->rc->since->state) != RC_BASELINE_READ) {
    snprintf(text, size, "it had not begun");
    return;
  }
  vb_counters_read(device->counter_folder, device->counter_host, &now);
  vb_counters_text(&endpoint->rc->since->counters, &now, text, size);
}

static void rc_fail_say_failed(const struct pst_endpoint *endpoint, enum pst_log_level level,
                               int status, const char *why, const char *then)
{
  const struct pst_device *device = endpoint->device;
  char counters[512], peer[VB_GID_TEXT];

  rc_counter_baseline_text(endpoint, counters, sizeof(counters));
  vb_gid_address(endpoint->rc->peer.gid, peer);
  VB_LOG(device, level,
         "%s: the connection from %s port %u to %s (QP %u) failed: %s (%s). Counters of port and "
         "host since the connection began: %s. %s%s%s",
         endpoint->label, device->open.info->name, device->open.port->number, peer,
         endpoint->rc->peer.qps[0].qpn, why, strerror(-status), counters,
         endpoint->rc->where.reason, then[0] ? ". " : "", then);
}

static bool rc_fail_can_reconnect(const struct pst_endpoint *endpoint, int status)
{
  return endpoint->device->reconnect_ns && endpoint->rc->peer.reconnects &&
         endpoint->rc->stage.name == RC_CONNECTED && !endpoint->closing.mode &&
         !endpoint->is_refused && !rc_lanes_are_leaving(endpoint) &&
         !atomic_load_explicit(&endpoint->device->is_lost, memory_order_relaxed) &&
         !endpoint->rc->reconnect.is_exhausted &&
         (status == -ECONNRESET || status == -ETIMEDOUT || status == -EIO);
}

uint64_t rc_got_through(const struct pst_endpoint *endpoint)
{
  return endpoint->sq.done + (endpoint->rx ? endpoint->rx->arrived : 0) +
         (endpoint->tx ? endpoint->tx->credit_messages : 0);
}

/* True: the endpoint reconnects, and has not failed. */
static bool rc_fail_reconnect(struct pst_endpoint *endpoint, int status, const char *why)
{
  struct rc_reconnect *reconnect = &endpoint->rc->reconnect;
  const uint64_t now = vb_now_ns(endpoint->device);
  uint64_t by_ns = now + endpoint->device->reconnect_ns;
  const bool got_none = reconnect->last_by_ns && reconnect->last_got == rc_got_through(endpoint);
  char then[96];

  if (!rc_fail_can_reconnect(endpoint, status))
    return false;
  /* Where hellos alone get through, its time does not begin anew each time. Once it is over it
   * stays so, though what failed counts as given back from here on. */
  reconnect->is_exhausted = got_none && now >= reconnect->last_by_ns;
  if (reconnect->is_exhausted)
    return false;
  if (got_none)
    by_ns = reconnect->last_by_ns;
  snprintf(then, sizeof(then), "Reconnecting for up to %.1f s", (double)(by_ns - now) / 1e9);
  rc_fail_say_failed(endpoint, PST_LOG_WARN, status, why, then);
  rc_enter(endpoint, RC_FLUSHING);
  endpoint->rc->stage.again.began_ns = now;
  endpoint->rc->stage.again.by_ns = by_ns;
  endpoint->rc->stage.again.flushed = endpoint->sq.done;
  vb_due(endpoint->worker, by_ns);
  rc_reconnect_again(endpoint, 0);
  return true;
}

void rc_wc_text(const struct pst_endpoint *endpoint, const struct ibv_wc *wc, char *text,
                size_t size)
{
  const struct vb_path *path = &endpoint->device->path;

  vb_wc_text((int)wc->status, wc->vendor_err, endpoint->rc->own.is_ethernet, text, size);
  const size_t used = strlen(text);
  if (wc->status == IBV_WC_RETRY_EXC_ERR && endpoint->rc->heard_ns)
    snprintf(text + used, size - used,
             "; the peer has not answered for some %.1f s (`timeout: %u` and `retry_cnt: %u` are "
             "%.2f s, which a device may make up to four times as long)",
             (double)(vb_now_ns(endpoint->device) - endpoint->rc->heard_ns) / 1e9, path->timeout,
             path->retry_cnt, (double)vb_silence_ns(path) / 1e9);
}

bool rc_reconnect_for(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  const struct vb_status *status = vb_wc_status((int)wc->status);
  char text[1024];

  if (!rc_fail_can_reconnect(endpoint, status->error))
    return false;
  atomic_store_explicit(&endpoint->device->has_lost_peer, true, memory_order_relaxed);
  rc_wc_text(endpoint, wc, text, sizeof(text));
  return rc_fail_reconnect(endpoint, status->error, text);
}

void rc_reconnect_within(struct pst_endpoint *endpoint, uint64_t in_ns)
{
  endpoint->rc->stage.again.again_ns = vb_now_ns(endpoint->device) + in_ns;
  vb_due(endpoint->worker, endpoint->rc->stage.again.again_ns);
}

void rc_reconnect_again(struct pst_endpoint *endpoint, uint64_t in_ns)
{
  rc_enter(endpoint, RC_FLUSHING);
  rc_reconnect_within(endpoint, in_ns);
  rc_queue_error(endpoint);
  if (endpoint->rc->cm)
    endpoint->device->cm->drop(endpoint);
  vb_pend(endpoint);
}

uint64_t rc_given_back(const struct pst_endpoint *endpoint)
{
  const uint64_t done = endpoint->sq.done;

  if (!rc_is_reconnecting(endpoint) || endpoint->rc->stage.again.flushed < done)
    return done;
  return endpoint->rc->stage.again.flushed;
}

/* Nothing goes again: what was under way has failed. */
static void rc_fail_reconnect_no_more(struct pst_endpoint *endpoint, int error)
{
  if (!endpoint->sq.error)
    endpoint->sq.error = error;
  if (endpoint->sq.failed_from == VB_NEVER)
    endpoint->sq.failed_from = endpoint->sq.done;
  endpoint->sq.done = rc_given_back(endpoint);
  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->flushed > lane->done)
      lane->done = lane->flushed;
}

void rc_over(struct pst_endpoint *endpoint, enum rc_stage_name stage, int status)
{
  if (rc_is_reconnecting(endpoint))
    rc_fail_reconnect_no_more(endpoint,
                              status == -ETIMEDOUT || status == -ECANCELED ? status : -ECONNRESET);
  rc_enter(endpoint, stage);
  endpoint->rc->stage.over.status = status;
  endpoint->rc->stage.over.is_due = !endpoint->closing.mode;
  vb_forget_room(endpoint);
  endpoint->rc->over_ns = vb_now_ns(endpoint->device);
  vb_due(endpoint->worker, endpoint->rc->over_ns + RC_FLUSH_NS);
  vb_pend(endpoint);
}

void rc_fail(struct pst_endpoint *endpoint, int status, const char *why)
{
  if (endpoint->rc->stage.name == RC_FAILED)
    return;
  atomic_store_explicit(&endpoint->device->has_lost_peer, true, memory_order_relaxed);
  if (rc_fail_reconnect(endpoint, status, why ? why : strerror(-status)))
    return;
  if (!endpoint->sq.error)
    endpoint->sq.error = status == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET;
  if (atomic_load_explicit(&endpoint->rc->setup, memory_order_acquire) != 1)
    rc_queue_error(endpoint);
  if (endpoint->rc->stage.name == RC_LEFT) { /* reported already; what is still posted ends */
    vb_pend(endpoint);
    return;
  }
  if (why && !endpoint->closing.mode)
    rc_fail_say_failed(endpoint, PST_LOG_ERROR, status, why, "");
  rc_over(endpoint, RC_FAILED, status);
}

/* Notes that the peer has left; requests that this end has posted are still answered, as long as
 * the peer's queue pair is there. */
void rc_left(struct pst_endpoint *endpoint, int status)
{
  if (!rc_is_over(endpoint))
    rc_over(endpoint, RC_LEFT, status);
}
