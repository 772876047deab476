/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: rows of messages, and of requests that are done. The transport takes the device's
 * other completions. */
#include <assert.h>

#include "ops.h"
#include "poll.h"
#include "receive.h"
#include "srq.h"

/* The clock and events are looked at once in this many polls that brought something, or in a 64th
 * of them that found nothing: a worker that polls rarely sees them, too. */
#define POLLS_BETWEEN_LOOKS 4096u
#define IDLE_POLL 64u
#define BUDGET (8u * VB_POLL_BATCH) /* completions of the device's a poll takes */

/* Before its endpoints say that they have failed: their peers have not. */
static void vb_poll_tell_lost(struct pst_worker *worker, struct vb_out *out)
{
  if (out->room == 0)
    return;
  worker->tells_lost = false;
  worker->has_told_lost = true;
  vb_event_write(out, 0, PST_EVENT_DEVICE, -EIO);
}

static inline bool vb_poll_is_shared(const struct ibv_wc *wc)
{
  return (wc->wr_id & (VB_RECEIVE | VB_SRQ_BIT)) == (VB_RECEIVE | VB_SRQ_BIT);
}

static inline struct pst_endpoint *vb_poll_whose(struct pst_worker *worker, const struct ibv_wc *wc)
{
  const struct vb_transport *transport = worker->device->transport;

  if (vb_poll_is_shared(wc))
    return transport->whose ? transport->whose(worker, wc) : vb_srq_find(worker, wc->qp_num);
  return pst_places_find(&worker->endpoints, (uint32_t)(wc->wr_id >> 32) & PST_PLACE_NUMBERS);
}

/* Takes the successful completions at the front that are of one endpoint's requests, in order; the
 * last of them completes all requests before it. Returns how many. */
static uint32_t vb_poll_sent_in_line(struct pst_endpoint *endpoint, uint32_t most)
{
  struct pst_worker *worker = endpoint->worker;
  const struct ibv_wc *wc = &worker->wc[worker->wc_at];
  const uint64_t whose = wc->wr_id >> 32, done = endpoint->sq.done;
  const uint32_t there = worker->wc_count - worker->wc_at;
  uint64_t index = done;
  uint32_t n = 0;

  if (!endpoint->is_connected || endpoint->lane_count > 1 || endpoint->shared)
    return 0;
  most = there < most ? there : most;
  for (; n < most && wc[n].status == IBV_WC_SUCCESS && wc[n].wr_id >> 32 == whose; n++) {
    const uint64_t at = done + (uint32_t)((uint32_t)wc[n].wr_id - (uint32_t)done);
    if (at < index || at >= endpoint->sq.head)
      break;
    index = at + 1;
  }
  if (n == 0)
    return 0;
  endpoint->sq.done = index;
  vb_pend(endpoint);
  worker->wc_at += n;
  return n;
}

/* True: there are no more. */
static bool vb_poll_take(struct pst_worker *worker, struct vb_out *out)
{
  const struct vb_transport *transport = worker->device->transport;
  bool is_empty = false; /* ibv_poll_cq(3): it gave fewer than it was asked for */

  for (uint32_t budget = BUDGET, n; out->room && budget; budget -= n) {
    n = 1;
    if (worker->wc_at == worker->wc_count) {
      int some = is_empty ? 0 : ibv_poll_cq(worker->cq, VB_POLL_BATCH, worker->wc);
      worker->wc_at = 0;
      worker->wc_count = some > 0 ? (uint32_t)some : 0;
      if (some <= 0)
        return true;
      is_empty = some < (int)VB_POLL_BATCH;
    }
    struct ibv_wc *wc = &worker->wc[worker->wc_at];
    struct pst_endpoint *endpoint = vb_poll_whose(worker, wc);
    if (endpoint && endpoint->is_cut)
      endpoint = NULL;
    if (!endpoint && vb_poll_is_shared(wc))
      vb_srq_give_back(worker, wc);
    if (endpoint) {
      n = wc->wr_id & VB_RECEIVE ? vb_arrived_in_line(endpoint, budget, out)
                                 : vb_poll_sent_in_line(endpoint, budget);
      if (n)
        continue;
      n = 1;
    }
    if (endpoint && !(wc->wr_id & VB_RECEIVE))
      transport->sent(endpoint, wc);
    else if (endpoint && !transport->received(endpoint, wc, out))
      return false;
    worker->wc_at++;
  }
  return false;
}

/* ---- Endpoints with completions ---------------------------------------------------------- */

static int vb_poll_status_of(const struct pst_endpoint *endpoint, uint64_t index)
{
  if (index == endpoint->sq.refused_at && endpoint->sq.first_error)
    return endpoint->sq.first_error;
  return index < endpoint->sq.failed_from ? 0 : endpoint->sq.error;
}

static uint64_t vb_poll_sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Where those end that are done as the one at `index` is. */
static uint64_t vb_poll_alike_until(const struct pst_endpoint *endpoint, uint64_t index)
{
  const uint64_t refused = endpoint->sq.refused_at, failed = endpoint->sq.failed_from;

  if (index == refused)
    return index + 1;
  const uint64_t end =
      refused > index ? vb_poll_sooner(endpoint->sq.done, refused) : endpoint->sq.done;
  return index < failed ? vb_poll_sooner(end, failed) : end;
}

void vb_tell_done(struct pst_endpoint *endpoint, struct vb_out *out)
{
  const struct vb_sent *sent = endpoint->sq.sent;
  const uint32_t mask = endpoint->sq.mask;

  assert(endpoint->sq.told <= endpoint->sq.done && endpoint->sq.done <= endpoint->sq.head);
  while (endpoint->sq.told != endpoint->sq.done) {
    const uint64_t first = endpoint->sq.told;
    const uint8_t opcode = sent[first & mask].opcode;
    uint64_t next = first + 1;
    if (opcode && out->room == 0)
      return;
    if (opcode == PST_OP_SEND || opcode == PST_OP_WRITE) {
      const uint64_t end = vb_poll_alike_until(endpoint, first);
      if (first >= endpoint->sq.alike_from)
        next = end;
      while (next != end && sent[next & mask].opcode == opcode)
        next++;
    }
    endpoint->sq.told = next;
    if (opcode == 0)
      continue;
    const struct vb_sent *last = &sent[(next - 1) & mask];
    const uint32_t told = endpoint->sq.posted_max - endpoint->sq.requests_max;
    const uint32_t count = last->upto - told;
    assert(count && count <= endpoint->sq.posted - told);
    endpoint->sq.posted_max += count;
    *out->at++ = (struct pst_completion){.kind = PST_COMPLETION_DONE,
                                         .code = opcode,
                                         .status = vb_poll_status_of(endpoint, first),
                                         .endpoint = endpoint->cookie,
                                         .u.done = {last->cookie, count}};
    out->room--;
  }
}

void vb_tell_room(struct pst_endpoint *endpoint)
{
  if (endpoint->want == VB_WANT_NOTHING || endpoint->want == VB_WANT_TOLD ||
      !endpoint->is_connected || vb_send_queue_free(&endpoint->sq) == 0 ||
      (endpoint->wants_rma_done && endpoint->sq.done < endpoint->rma_before) ||
      (endpoint->want == VB_WANT_CREDIT && endpoint->tx->credits.count == 0))
    return;
  endpoint->want = VB_WANT_TOLD;
  endpoint->worker->told++;
}

/* An endpoint of requests alone, with nothing to tell but those that are done. */
static inline bool vb_poll_only_requests(const struct pst_endpoint *endpoint)
{
  return endpoint->is_connected && !endpoint->rx && !endpoint->shared &&
         endpoint->lane_count == 1 && !endpoint->closing.mode && !endpoint->tell_connected &&
         endpoint->want == VB_WANT_NOTHING;
}

/* vb_poll_work() of such a one. */
static void vb_poll_tell_requests(struct pst_endpoint *endpoint, struct vb_out *out)
{
  vb_tell_done(endpoint, out);
  if (endpoint->sq.told != endpoint->sq.done)
    vb_pend(endpoint);
}

static void vb_poll_work(struct pst_worker *worker, struct vb_out *out)
{
  struct pst_endpoint *list = worker->pending;

  worker->pending = NULL;
  while (list) {
    struct pst_endpoint *endpoint = list;
    list = endpoint->next_pending;
    endpoint->is_pending = false;
    if (vb_poll_only_requests(endpoint))
      vb_poll_tell_requests(endpoint, out);
    else
      worker->device->transport->work(endpoint, out);
  }
}

int vb_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  struct vb_out out = {completions, max};
  bool woken = worker->armed;

  if (woken)
    vb_disarm(worker);
  vb_take_notices(worker);
  if (__builtin_expect(worker->tells_lost, 0))
    vb_poll_tell_lost(worker, &out);
  if (worker->pending)
    vb_poll_work(worker, &out);
  if (vb_poll_take(worker, &out)) {
    worker->empties++;
    if (worker->own)
      worker->device->transport->worker_empty(worker);
  }
  if (worker->pending)
    vb_poll_work(worker, &out);
  if (worker->shared_due)
    vb_srq_post_due(worker);
  worker->calls += out.room == max ? IDLE_POLL : 1;
  if (woken || worker->calls >= POLLS_BETWEEN_LOOKS) {
    worker->calls = 0;
    vb_look(worker, woken);
  }
  return (int)(max - out.room);
}
