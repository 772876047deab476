/* SPDX-License-Identifier: Apache-2.0 */
/* Timed work: peers that died or owe an answer for too long, links that leave. */
#include "timers.h"

#include <errno.h>

#include <ucp/api/ucp.h>

#include "endpoint.h"
#include "fail.h"
#include "link.h"
#include "stage.h"
#include "watch.h"
#include "worker.h"

/* Rounds of progress that find what a dead peer has left: it adds nothing any more. */
#define TICK_ROUNDS_MAX 100000u

/* Ends a link whose peer's process has ended, after taking what arrived before. */
static void ucx_timers_end_dead(struct ucx_link *link)
{
  for (uint32_t i = 0, idle = 0;
       i < TICK_ROUNDS_MAX && idle < 16 && link->ep && !ucx_link_is_lost(link); i++)
    idle = ucp_worker_progress(link->ucp) ? 0 : idle + 1;
  link->peer.has_died = false;
  if (ucx_link_is_lost(link))
    return;
  if (link->endpoint && !ucx_link_has_left(link))
    UCX_TELL(link->endpoint, PST_LOG_INFO, "the peer's process has ended");
  if (!link->endpoint || !ucx_link_has_left(link) ||
      link->endpoint->rx.highest < link->stage.left.total)
    ucx_link_end(link, -ECONNRESET);
}

static void ucx_timers_check_waiting(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  const struct ucx_tx *tx = &endpoint->tx;
  struct ucx_link *link = endpoint->link;
  const bool waits =
      link->stage.name == UCX_CONNECTING ||
      (link->stage.name == UCX_JOINED &&
       (tx->flushing || tx->fetching || tx->is_fencing || tx->writes.head != tx->writes.tail));

  if (!waits) {
    endpoint->waits_since_ns = 0;
    return;
  }
  if (!endpoint->waits_since_ns)
    endpoint->waits_since_ns = now_ns;
  if (!endpoint->cpu.params.timeout_ns ||
      now_ns - endpoint->waits_since_ns < endpoint->cpu.params.timeout_ns)
    return;
  UCX_TELL(endpoint, PST_LOG_INFO,
           "the peer has not answered for %llu ms, and counts as lost; `timeout` sets the time",
           (unsigned long long)(endpoint->cpu.params.timeout_ns / 1000000));
  ucx_link_end(link, -ETIMEDOUT);
}

void ucx_timers_poll(struct pst_worker *worker, uint64_t now_ns)
{
  worker->ticked_ns = now_ns;
  ucx_watch_look(worker->watch_fd);
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    if (worker->endpoints[i]->link->peer.has_died)
      ucx_timers_end_dead(worker->endpoints[i]->link);
    ucx_timers_check_waiting(worker->endpoints[i], now_ns);
  }
  for (struct ucx_link *link = worker->leaving; link; link = link->next)
    if (link->peer.has_died)
      ucx_timers_end_dead(link);
  ucx_links_step(worker, now_ns);
}
