/* SPDX-License-Identifier: Apache-2.0 */
/* Sleep: what a worker has to be woken for, and when. */
#include <errno.h>
#include <sys/timerfd.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "am.h"
#include "device.h"
#include "endpoint.h"
#include "link.h"
#include "ops.h"
#include "receive.h"
#include "rma.h"
#include "rma_am.h"
#include "stage.h"
#include "timers.h"
#include "units.h"
#include "worker.h"

/* How long a worker sleeps while UCX has something that it could not send yet. */
#define SLEEP_STUCK_NS 200000u
/* The same for a peer that has been told nothing of a close for as long as UCX_LINGER_NS. */
#define SLEEP_UNTOLD_NS 10000000u

/* Would post() take what it did not take? */
static bool ucx_sleep_has_room_again(const struct pst_endpoint *endpoint)
{
  const struct ucx_tx *tx = &endpoint->tx;

  if (endpoint->waits_for == PST_WAIT_CREDIT)
    return tx->limit - tx->position > tx->held_sends;
  if (endpoint->link->by_messages && tx->fetching >= UCX_ASKED_MAX)
    return false;
  return endpoint->waits_for == PST_WAIT_QUEUE && ucx_am_is_free(endpoint->link) &&
         !tx->cut.is_open && endpoint->cpu.dones.outstanding < endpoint->cpu.dones.requests;
}

/* Would poll() give something, or do work of its own? */
static bool ucx_sleep_is_pending(const struct pst_endpoint *endpoint)
{
  const struct ucx_link *link = endpoint->link;
  const struct ucx_tx *tx = &endpoint->tx;

  if (ucx_units_are_done(&tx->sends) || ucx_units_are_done(&tx->writes) ||
      endpoint->cpu.owes_connected || endpoint->cpu.owes_disconnected ||
      !pst_dones_is_empty(&endpoint->cpu.dones) || ucx_sleep_has_room_again(endpoint))
    return true;
  if (endpoint->cpu.closing.mode && !endpoint->cpu.dones.outstanding)
    return true;
  if (endpoint->cpu.state == PST_CPU_DOWN)
    return false;
  if (link->stage.name > UCX_JOINED || link->peer.has_died)
    return true;
  return ucx_link_owes_greeting(link) ||
         (link->stage.name == UCX_JOINED && endpoint->cpu.state == PST_CPU_NEW) ||
         ucx_receive_is_pending(endpoint) || ucx_receive_owes(endpoint) || ucx_rma_am_owes(link);
}

static uint64_t ucx_sleep_earlier(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static uint64_t ucx_sleep_deadline_ns(const struct pst_worker *worker)
{
  uint64_t first = ucx_links_deadline_ns(worker);

  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    const struct pst_endpoint *endpoint = worker->endpoints[i];
    if (endpoint->cpu.closing.mode)
      first = ucx_sleep_earlier(first, endpoint->cpu.closing.deadline_ns);
    if (endpoint->waits_since_ns && endpoint->cpu.params.timeout_ns)
      first = ucx_sleep_earlier(first, endpoint->waits_since_ns + endpoint->cpu.params.timeout_ns);
  }
  return first;
}

static void ucx_sleep_set_timer(const struct pst_worker *worker, uint64_t at)
{
  struct itimerspec when = {{0, 0}, {0, 0}};

  if (at != UINT64_MAX) {
    when.it_value.tv_sec = (time_t)(at / 1000000000);
    when.it_value.tv_nsec = (long)(at % 1000000000) + (at == 0);
  }
  timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* 0: UCX wakes; -EAGAIN: it has something already. Where it keeps what it could not send, it wakes
 * nobody for the room: then the timer does, after *look_ns. */
static int ucx_sleep_arm_link(const struct ucx_link *link, uint64_t now_ns, uint64_t *look_ns)
{
  ucs_status_t status;

  if (ucx_link_is_lost(link) || !link->ep)
    return 0;
  status = ucp_worker_arm(link->ucp);
  if (link->ams_under_way || link->controls_under_way) {
    const bool is_late = link->stage.name == UCX_LEAVING && now_ns >= link->stage.leaving.until_ns;
    *look_ns = ucx_sleep_earlier(*look_ns, is_late ? SLEEP_UNTOLD_NS : SLEEP_STUCK_NS);
    return 0;
  }
  return status == UCS_OK ? 0 : -EAGAIN;
}

int ucx_arm(struct pst_worker *worker)
{
  const uint64_t now_ns = ucx_now_ns(worker->device);
  uint64_t look_ns = UINT64_MAX;
  int rc = 0;

  if (worker->sleep_fd < 0)
    return -EOPNOTSUPP;
  ucx_timers_poll(worker, now_ns);
  for (uint32_t i = 0; rc == 0 && i < worker->endpoint_count; i++)
    if (ucx_sleep_is_pending(worker->endpoints[i]))
      rc = -EAGAIN;
  for (uint32_t i = 0; rc == 0 && i < worker->endpoint_count; i++)
    rc = ucx_sleep_arm_link(worker->endpoints[i]->link, now_ns, &look_ns);
  for (const struct ucx_link *link = worker->leaving; rc == 0 && link; link = link->next)
    rc = ucx_sleep_arm_link(link, now_ns, &look_ns);
  if (rc == 0)
    ucx_sleep_set_timer(worker,
                        ucx_sleep_earlier(ucx_sleep_deadline_ns(worker),
                                          look_ns == UINT64_MAX ? look_ns : now_ns + look_ns));
  return rc;
}
