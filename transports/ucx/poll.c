/* SPDX-License-Identifier: Apache-2.0 */
/* poll(): progress of every link, then what each endpoint has to tell. */
#include <assert.h>
#include <errno.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "am.h"
#include "cuda.h"
#include "device.h"
#include "endpoint.h"
#include "fail.h"
#include "fence_queue.h"
#include "link.h"
#include "link_close.h"
#include "ops.h"
#include "path.h"
#include "receive.h"
#include "rma.h"
#include "rma_am.h"
#include "send.h"
#include "stage.h"
#include "timers.h"
#include "units.h"
#include "wire.h"
#include "worker.h"

#define POLL_TICK_NS 1000000u
#define POLL_TURNS 64u /* polls between two looks at the clock */

static bool ucx_poll_send_hello(struct pst_endpoint *endpoint, uint8_t flags)
{
  const struct pst_cpu_ring *ring = endpoint->cpu.ring;
  const struct ucx_header hello = {
      .kind = UCX_HELLO,
      .flags = flags,
      .length = ring ? (uint32_t)ring->params.payload_max : 0,
      .position = endpoint->rx.share.granted,
      .sequence = endpoint->link->nonce,
  };

  return ucx_am_control(endpoint->link, &hello);
}

static void ucx_poll_greet(struct pst_endpoint *endpoint)
{
  struct ucx_stage *stage = &endpoint->link->stage;

  if (stage->greeting.hello == UCX_OWED && ucx_poll_send_hello(endpoint, 0))
    stage->greeting.hello = UCX_SAID;
  if (stage->greeting.answer == UCX_OWED && ucx_poll_send_hello(endpoint, UCX_HEADER_ANSWER))
    stage->greeting.answer = UCX_SAID;
}

static void ucx_poll_step_connecting(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (ucx_link_owes_greeting(link))
    ucx_poll_greet(endpoint);
  /* While UCX still wires up it keeps what is sent: a post would wait for a later poll. */
  if (endpoint->cpu.state != PST_CPU_NEW || !ucx_link_is_joined(link) || link->controls_under_way)
    return;
  ucx_path_settle(endpoint);
  pst_cpu_endpoint_up(&endpoint->cpu);
}

/* All requests outstanding end with this status. UCX calls back for those that it is made to end
 * and says neither why nor that they failed, so that they are ended here before. The host sees the
 * DONEs when poll() returns, and UCX uses no memory by then. */
static void ucx_poll_end_all(struct pst_endpoint *endpoint, int32_t status)
{
  struct ucx_link *link = endpoint->link;
  bool uses_memory;

  if (link->ucp)
    ucx_link_settle(link);
  uses_memory = ucx_link_uses_memory(link);
  ucx_ams_void(link, status);
  endpoint->tx.cut.is_open = false;
  ucx_units_fail(&endpoint->tx.sends, status);
  ucx_fence_queue_fail(endpoint, status);
  ucx_rma_fail(endpoint, status);
  if (uses_memory)
    ucx_link_end_requests(link);
  assert(!ucx_link_uses_memory(link));
}

/* Has all come that was sent? A peer that aborts has not sent the rest, and its link lingers for
 * messages that are being fetched. */
static bool ucx_poll_has_all(const struct pst_endpoint *endpoint)
{
  const struct ucx_link *link = endpoint->link;

  assert(link->stage.name == UCX_LEFT || link->stage.name == UCX_DRAINED);
  if (ucx_link_is_cut(link))
    return true;
  if (!link->stage.left.is_aborted)
    return endpoint->rx.head >= link->stage.left.total;
  return !link->fetches || ucx_now_ns(endpoint->worker->device) >= link->stage.left.until_ns;
}

static int32_t ucx_poll_status_of_leaving(const struct pst_endpoint *endpoint)
{
  const struct ucx_stage *stage = &endpoint->link->stage;

  return stage->left.is_aborted || endpoint->rx.head < stage->left.total ? -ECONNRESET : 0;
}

/* A cut is the end of what the peer has sent and we have not received, too. */
static bool ucx_poll_must_wait_to_end(const struct pst_endpoint *endpoint)
{
  const struct ucx_link *link = endpoint->link;

  return link->stage.name == UCX_LEFT && ucx_link_uses_memory(link) &&
         !ucx_poll_has_all(endpoint) &&
         ucx_now_ns(endpoint->worker->device) < link->stage.left.until_ns;
}

/* No request is under way any more. Ending them may find the connection gone. */
static void ucx_poll_end_requests(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;
  struct ucx_stage next;

  ucx_poll_end_all(endpoint, link->stage.name == UCX_LOST ? link->stage.lost.status : -ECONNRESET);
  next = link->stage;
  next.name = next.name == UCX_LOST ? UCX_GONE : UCX_DRAINED;
  ucx_enter(link, next);
}

/* Reports a peer that is gone, in order or not, behind all messages of the peer. */
static void ucx_poll_step_gone(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (endpoint->cpu.state == PST_CPU_DOWN || link->stage.name <= UCX_JOINED)
    return;
  if (link->stage.name == UCX_LEFT || link->stage.name == UCX_LOST) {
    if (ucx_poll_must_wait_to_end(endpoint))
      return;
    ucx_poll_end_requests(endpoint);
  }
  if (endpoint->cpu.owes_connected || ucx_receive_is_pending(endpoint))
    return;
  if (link->stage.name == UCX_GONE) {
    pst_cpu_endpoint_down(&endpoint->cpu, link->stage.lost.status);
  } else if (ucx_poll_has_all(endpoint)) {
    const struct ucx_header answer = {.kind = UCX_BYE, .flags = UCX_HEADER_ANSWER};
    pst_cpu_endpoint_down(&endpoint->cpu, ucx_poll_status_of_leaving(endpoint));
    if (link->ep)
      ucx_am_control(link, &answer);
  }
}

static void ucx_poll_step_closing(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (!endpoint->cpu.closing.mode || !endpoint->cpu.dones.outstanding)
    return;
  switch (pst_closing_look(&endpoint->cpu.closing, ucx_now_ns(endpoint->worker->device))) {
  case PST_CLOSING_ABORT:
    endpoint->has_cancelled = true;
    ucx_ams_void(link, -ECANCELED);
    ucx_send_cancel(endpoint, -ECANCELED);
    ucx_fence_queue_fail(endpoint, -ECANCELED);
    break;
  case PST_CLOSING_OVER:
    endpoint->has_cancelled = true;
    ucx_poll_end_all(endpoint, -ECANCELED);
    break;
  default:
    break;
  }
}

static void ucx_poll_step(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (link->line == UCX_LINE_OPEN && link->stage.name <= UCX_DRAINED)
    ucx_poll_step_connecting(endpoint);
  if (endpoint->cpu.state == PST_CPU_UP && link->line == UCX_LINE_OPEN &&
      link->stage.name == UCX_JOINED) {
    ucx_send_step(endpoint);
    ucx_fence_queue_step(endpoint);
    ucx_rma_step(endpoint);
    ucx_rma_am_step(endpoint);
    ucx_receive_step(endpoint);
  }
  ucx_poll_step_gone(endpoint);
  ucx_poll_step_closing(endpoint);
  ucx_units_retire(&endpoint->tx.sends, PST_OP_SEND, &endpoint->cpu.dones);
  ucx_units_retire(&endpoint->tx.writes, PST_OP_WRITE, &endpoint->cpu.dones);
}

/* DISCONNECTED is the last word but for DONEs: a fetch that ends later gives no MESSAGE. */
static bool ucx_poll_may_give_messages(const struct pst_cpu_endpoint *cpu)
{
  return cpu->state == PST_CPU_UP || (cpu->state == PST_CPU_DOWN && cpu->owes_disconnected);
}

static uint32_t ucx_poll_endpoint(struct pst_endpoint *endpoint, struct pst_completion *out,
                                  uint32_t max)
{
  uint32_t n;

  ucx_poll_step(endpoint);
  n = pst_cpu_endpoint_poll(&endpoint->cpu, out, max);
  if (ucx_poll_may_give_messages(&endpoint->cpu))
    n += ucx_receive_take(endpoint, out + n, max - n);
  if (n < max && pst_dones_is_empty(&endpoint->cpu.dones)) {
    ucx_poll_step_gone(endpoint);
    n += pst_cpu_endpoint_poll_end(&endpoint->cpu, out + n, max - n);
  }
  return n;
}

/* Not before it connects: UCX 1.22 crashes where it answers a peer that has come and gone. */
static void ucx_poll_progress_link(const struct ucx_link *link)
{
  if (link->ep && !ucx_link_is_lost(link))
    ucp_worker_progress(link->ucp);
}

static void ucx_poll_progress(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    ucx_poll_progress_link(worker->endpoints[i]->link);
  ucx_links_progress(worker);
  if (worker->idle_turns++ % POLL_TURNS == 0 || worker->sleep_fd >= 0 || worker->leaving) {
    const uint64_t now_ns = ucx_now_ns(worker->device);
    if (now_ns - worker->ticked_ns >= POLL_TICK_NS)
      ucx_timers_poll(worker, now_ns);
    else if (worker->leaving)
      ucx_links_step(worker, now_ns);
  }
}

int ucx_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  const uint32_t count = worker->endpoint_count;
  const struct ucx_cuda *cuda;
  uint32_t n = 0, i = 0;

  cuda = ucx_cuda_enter(worker->device);
  ucx_poll_progress(worker);
  ucx_cuda_leave(cuda);
  if (worker->turn >= count)
    worker->turn = 0;
  /* An endpoint that closes is replaced by the last one, which then waits for the next poll. */
  for (; i < count && n < max && worker->endpoint_count; i++) {
    const uint32_t at = (worker->turn + i) % worker->endpoint_count;
    struct pst_endpoint *endpoint = worker->endpoints[at];
    n += ucx_poll_endpoint(endpoint, completions + n, max - n);
    if (endpoint->cpu.state == PST_CPU_CLOSED)
      ucx_endpoint_free(endpoint);
  }
  worker->turn++;
  return (int)n;
}
