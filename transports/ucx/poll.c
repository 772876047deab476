/* SPDX-License-Identifier: Apache-2.0 */
/* poll(): progress of every link, then what each endpoint has to tell. */
#include "am.h"
#include "cut.h"
#include "fail.h"
#include "held.h"
#include "link.h"
#include "ops.h"
#include "path.h"
#include "receive.h"
#include "rma.h"
#include "send.h"
#include "tick.h"
#include "units.h"

#define POLL_TICK_NS 1000000u
#define POLL_TURNS 64u /* polls between two looks at the clock */

static bool send_hello(struct pst_endpoint *endpoint, uint8_t flags)
{
  const struct pst_cpu_ring *ring = endpoint->cpu.ring;
  const struct ucx_header hello = {
      .kind = UCX_HELLO,
      .flags = flags,
      .length = ring ? (uint32_t)ring->params.payload_max : 0,
      .position = endpoint->rx.limit_told,
      .sequence = endpoint->link->nonce,
  };

  return ucx_am_control(endpoint->link, &hello);
}

static void step_connecting(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (endpoint->owes_hello)
    endpoint->owes_hello = !send_hello(endpoint, 0);
  if (endpoint->owes_hello_answer)
    endpoint->owes_hello_answer = !send_hello(endpoint, UCX_HEADER_ANSWER);
  /* While UCX still wires up it keeps what is sent: a post would wait for a later poll. */
  if (endpoint->cpu.state != PST_CPU_NEW || !link->is_joined || link->failure ||
      link->controls_under_way)
    return;
  ucx_path_settle(endpoint);
  pst_cpu_endpoint_up(&endpoint->cpu);
}

/* All requests outstanding end with this status. UCX calls back for those that it is made to end
 * and says neither why nor that they failed, so that they are ended here before. The host sees the
 * DONEs when poll() returns, and UCX uses no memory by then. */
static void end_all(struct pst_endpoint *endpoint, int32_t status)
{
  struct ucx_link *link = endpoint->link;
  bool uses_memory;

  if (link->ucp)
    ucx_link_settle(link);
  uses_memory = ucx_link_uses_memory(link);
  ucx_ams_void(link, status);
  endpoint->tx.cut.is_open = false;
  ucx_units_fail(&endpoint->tx.sends, status);
  ucx_held_fail(endpoint, status);
  ucx_rma_fail(endpoint, status);
  if (uses_memory) {
    link->sent = endpoint->tx.position;
    ucx_link_end_requests(link);
  }
}

/* Has all come that was sent? Who aborts has sent some and not the rest; it lets those that are
 * being fetched be fetched as long as its link lingers. */
static bool has_all(const struct pst_endpoint *endpoint)
{
  const struct ucx_link *link = endpoint->link;
  const struct ucx_rx *rx = &endpoint->rx;

  if (link->is_cut)
    return true;
  if (!rx->is_aborted)
    return rx->head >= rx->total;
  return !link->fetches || ucx_now_ns(endpoint->worker->device) >= link->linger_until_ns;
}

static int32_t status_of_leaving(const struct ucx_rx *rx)
{
  return rx->is_aborted || rx->head < rx->total ? -ECONNRESET : 0;
}

/* A cut is the end of what the peer has sent and we have not received, too. */
static bool must_wait_to_end(const struct pst_endpoint *endpoint)
{
  const struct ucx_link *link = endpoint->link;

  return !link->failure && ucx_link_uses_memory(link) && !has_all(endpoint) &&
         ucx_now_ns(endpoint->worker->device) < link->linger_until_ns;
}

/* The peer is gone, in order or not. What it sent comes before that is told. */
static void step_gone(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (endpoint->cpu.state == PST_CPU_DOWN || (!link->failure && !link->has_left))
    return;
  if (!endpoint->is_ended) {
    if (must_wait_to_end(endpoint))
      return;
    endpoint->is_ended = true;
    end_all(endpoint, link->failure ? link->failure : -ECONNRESET);
  }
  if (endpoint->cpu.owes_connected || ucx_receive_is_pending(endpoint))
    return;
  if (link->failure)
    pst_cpu_endpoint_down(&endpoint->cpu, link->failure);
  else if (has_all(endpoint))
    pst_cpu_endpoint_down(&endpoint->cpu, status_of_leaving(&endpoint->rx));
  if (endpoint->cpu.state == PST_CPU_DOWN && !link->failure && link->ep) {
    const struct ucx_header answer = {.kind = UCX_BYE, .flags = UCX_HEADER_ANSWER};
    ucx_am_control(link, &answer);
  }
}

static void step_closing(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (!endpoint->cpu.closing.mode || !endpoint->cpu.dones.outstanding)
    return;
  switch (pst_closing_look(&endpoint->cpu.closing, ucx_now_ns(endpoint->worker->device))) {
  case PST_CLOSING_ABORT:
    link->is_aborted = true;
    ucx_ams_void(link, -ECANCELED);
    if (endpoint->tx.cut.is_open) {
      endpoint->tx.cut.is_open = false;
      ucx_unit_end(&endpoint->tx.sends, endpoint->tx.cut.unit, -ECANCELED);
    }
    ucx_held_fail(endpoint, -ECANCELED);
    break;
  case PST_CLOSING_OVER:
    link->is_aborted = true;
    end_all(endpoint, -ECANCELED);
    break;
  default:
    break;
  }
}

static void step(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  if (endpoint->is_connecting && !link->failure && !link->is_cut)
    step_connecting(endpoint);
  if (endpoint->cpu.state == PST_CPU_UP && !link->is_cut && !link->failure && !link->has_left) {
    ucx_send_step(endpoint);
    ucx_held_step(endpoint);
    ucx_rma_step(endpoint);
    ucx_receive_step(endpoint);
  }
  step_gone(endpoint);
  step_closing(endpoint);
  ucx_units_retire(&endpoint->tx.sends, PST_OP_SEND, &endpoint->cpu.dones);
  ucx_units_retire(&endpoint->tx.writes, PST_OP_WRITE, &endpoint->cpu.dones);
}

/* DISCONNECTED is the last word but for DONEs: a fetch that ends later gives no MESSAGE. */
static bool may_give_messages(const struct pst_cpu_endpoint *cpu)
{
  return cpu->state == PST_CPU_UP || (cpu->state == PST_CPU_DOWN && cpu->owes_disconnected);
}

static uint32_t poll_endpoint(struct pst_endpoint *endpoint, struct pst_completion *out,
                              uint32_t max)
{
  uint32_t n;

  step(endpoint);
  n = pst_cpu_endpoint_poll(&endpoint->cpu, out, max);
  if (may_give_messages(&endpoint->cpu))
    n += ucx_receive_take(endpoint, out + n, max - n);
  if (n < max && pst_dones_is_empty(&endpoint->cpu.dones)) {
    step_gone(endpoint);
    n += pst_cpu_endpoint_poll_end(&endpoint->cpu, out + n, max - n);
  }
  return n;
}

/* Not before it connects: UCX 1.22 crashes where it answers a peer that has come and gone. */
static void progress_link(const struct ucx_link *link)
{
  if (link->ep && !link->failure)
    ucp_worker_progress(link->ucp);
}

static void progress(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    progress_link(worker->endpoints[i]->link);
  ucx_links_progress(worker);
  if (worker->idle_turns++ % POLL_TURNS == 0 || worker->sleep_fd >= 0 || worker->leaving) {
    const uint64_t now_ns = ucx_now_ns(worker->device);
    if (now_ns - worker->ticked_ns >= POLL_TICK_NS)
      ucx_tick(worker, now_ns);
    else if (worker->leaving)
      ucx_links_step(worker, now_ns);
  }
}

int ucx_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  const uint32_t count = worker->endpoint_count;
  uint32_t n = 0, i = 0;

  progress(worker);
  if (worker->turn >= count)
    worker->turn = 0;
  /* An endpoint that closes is replaced by the last one, which then waits for the next poll. */
  for (; i < count && n < max && worker->endpoint_count; i++) {
    const uint32_t at = (worker->turn + i) % worker->endpoint_count;
    struct pst_endpoint *endpoint = worker->endpoints[at];
    n += poll_endpoint(endpoint, completions + n, max - n);
    if (endpoint->cpu.state == PST_CPU_CLOSED)
      ucx_endpoint_free(endpoint);
  }
  worker->turn++;
  return (int)n;
}
