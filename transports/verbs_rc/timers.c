/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of an endpoint that only time, or another thread, reveals. */
#include <stdio.h>

#include "cm.h"
#include "completion.h"
#include "connection.h"
#include "last_wqe.h"

static void rc_timers_check_event(struct pst_endpoint *endpoint)
{
  int event = atomic_exchange(&endpoint->event, 0);
  char why[512];

  if (event && !rc_is_reconnecting(endpoint)) {
    const struct vb_status *what = vb_event(event - 1);
    vb_event_text(event - 1, why, sizeof(why));
    rc_fail(endpoint, what->error ? what->error : -EIO, why);
  }
  if (atomic_load_explicit(&endpoint->device->is_lost, memory_order_relaxed))
    rc_fail(endpoint, -EIO, "the device is lost");
}

/* Finds out whether the peer is there, by a request that it owes an answer to, or else by an empty
 * WRITE. */
static void rc_timers_check_peer(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  const struct pst_device *device = endpoint->device;
  bool owes = endpoint->sq.head != endpoint->sq.done;

  if (endpoint->arrivals != endpoint->rc->heard_arrivals ||
      endpoint->sq.done != endpoint->rc->heard_done || owes != endpoint->rc->owed) {
    endpoint->rc->heard_arrivals = endpoint->arrivals;
    endpoint->rc->heard_done = endpoint->sq.done;
    endpoint->rc->heard_ns = now_ns;
    endpoint->rc->owed = owes;
  }
  uint64_t patience = owes ? endpoint->timeout_ns : device->keepalive_ns;
  if (patience == 0)
    return;
  if (now_ns - endpoint->rc->heard_ns < patience) {
    vb_due(endpoint->worker, endpoint->rc->heard_ns + patience);
    return;
  }
  if (owes && !endpoint->worker->has_all) {
    vb_due(endpoint->worker, now_ns);
    return;
  }
  if (owes) {
    rc_fail(endpoint, -ETIMEDOUT,
            "the peer owes an answer, and neither it nor the device's own error came within the "
            "stream's timeout: the peer or the path is gone (see hop_limit, GIDs, MTU, routes), "
            "and the device still retries, as long as retry_cnt and timeout say");
    return;
  }
  int rc = vb_send_queue_own(&endpoint->sq, IBV_WR_RDMA_WRITE, 0, NULL);
  if (rc < 0 && rc != -EAGAIN)
    rc_fail(endpoint, rc, "ibv_post_send of a keepalive");
  endpoint->rc->heard_ns = now_ns;
  endpoint->rc->owed = true;
  vb_due(endpoint->worker, now_ns + (endpoint->timeout_ns ? endpoint->timeout_ns : patience));
}

/* ---- Deadlines --------------------------------------------------------------------------- */

/* Fails an endpoint whose time to connect is over, with what is known of the reason. */
static void rc_timers_not_connected(struct pst_endpoint *endpoint)
{
  const uint32_t timeout = endpoint->device->path.timeout;
  const uint64_t again_ns = vb_ack_timeout_ns(timeout);
  char why[1280], status[1024] = "";

  if (endpoint->rc->cm && endpoint->device->cm->waits(endpoint, status, sizeof(status)))
    snprintf(why, sizeof(why), "the peer did not connect in time; by then: %s", status);
  else if (endpoint->rc->stage.connecting.hellos_lost) {
    vb_wc_text(IBV_WC_RETRY_EXC_ERR, endpoint->rc->stage.connecting.vendor,
               endpoint->rc->own.is_ethernet, status, sizeof(status));
    snprintf(why, sizeof(why), "the peer did not connect in time; %u hellos ended with %s",
             endpoint->rc->stage.connecting.hellos_lost, status);
  } else {
    if (!endpoint->rc->cm && again_ns >= endpoint->timeout_ns)
      snprintf(status, sizeof(status),
               "`timeout: %u`: a hello that came too early is sent again only after %.1f s, and "
               "this end waits %.1f s; ",
               timeout, (double)again_ns / 1e9, (double)endpoint->timeout_ns / 1e9);
    snprintf(why, sizeof(why),
             "the peer was not heard in time: it never connected, or its packets do not reach this "
             "end. Check: %s%s; the peer's log",
             status,
             endpoint->rc->own.is_ethernet
                 ? "`hop_limit` and the hop limit of the routes (`ip route get`, both ends); the "
                   "GIDs; MTU; firewall (UDP port 4791)"
                 : "both ports' P_Keys (`pkey_index`); `service_level`; `sminfo`, and `ibtracert` "
                   "between both LIDs; MTU");
  }
  rc_fail(endpoint, -ETIMEDOUT, why);
}

/* Fails a connection whose time for an event that says why is over: an event that is there, and was
 * not read yet, is handled first. */
static void rc_timers_no_event_came(struct pst_endpoint *endpoint)
{
  vb_events(endpoint->device);
  rc_timers_check_event(endpoint);
  if (endpoint->rc->stage.name != RC_FAILED && !rc_is_reconnecting(endpoint))
    rc_fail(endpoint, -EIO, "the device failed the queue pair, and gave back what was posted");
}

/* Work by the clock: lost devices, deadlines of closing and connecting, and peers that are
 * silent. */
void rc_timers_poll(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct pst_worker *worker = endpoint->worker;

  if (!endpoint->closing.mode && !rc_is_over(endpoint) &&
      atomic_load_explicit(&endpoint->device->is_lost, memory_order_relaxed))
    rc_fail(endpoint, -EIO, "the device is lost");

  rc_last_wqe_look(endpoint, now_ns);
  if (endpoint->closing.mode) {
    if (now_ns >= rc_close_due(endpoint))
      vb_pend(endpoint);
    if (now_ns < endpoint->closing.deadline_ns)
      vb_due(worker, now_ns < rc_close_due(endpoint) ? rc_close_due(endpoint)
                                                     : endpoint->closing.deadline_ns);
    return;
  }
  if (rc_is_reconnecting(endpoint)) {
    rc_reconnect_look(endpoint, now_ns);
    return;
  }
  switch (endpoint->rc->stage.name) {
  case RC_SETTING_UP:
  case RC_GREETING:
    if (endpoint->rc->cm)
      endpoint->device->cm->look(endpoint, now_ns);
    if (now_ns >= endpoint->rc->stage.connecting.by_ns && worker->has_all)
      rc_timers_not_connected(endpoint);
    else
      vb_due(worker, endpoint->rc->stage.connecting.by_ns);
    break;
  case RC_CONNECTED:
    if (endpoint->rc->stage.connected.flushed_ns &&
        now_ns >= endpoint->rc->stage.connected.flushed_ns + RC_EVENT_NS)
      rc_timers_no_event_came(endpoint);
    else if (endpoint->rc->stage.connected.flushed_ns)
      vb_due(worker, endpoint->rc->stage.connected.flushed_ns + RC_EVENT_NS);
    else
      rc_timers_check_peer(endpoint, now_ns);
    break;
  case RC_LEFT:
  case RC_FAILED:
    if (rc_tells_gone(endpoint) && now_ns >= endpoint->rc->over_ns + RC_FLUSH_NS)
      vb_pend(endpoint);
    else if (rc_tells_gone(endpoint))
      vb_due(worker, endpoint->rc->over_ns + RC_FLUSH_NS);
    rc_left_look(endpoint, now_ns);
    break;
  default:
    break;
  }
}

void rc_notice(struct pst_endpoint *endpoint)
{
  rc_timers_check_event(endpoint);
  rc_last_wqe_notice(endpoint);
  if (atomic_load_explicit(&endpoint->rc->setup, memory_order_acquire) != 2)
    return;
  rc_greet(endpoint);
  vb_pend(endpoint);
}
