/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues: opened, joined, posted to. */
#include <stdio.h>

#include "connection.h"
#include "domain.h"
#include "qp.h"
#include "queue.h"
#include "shared.h"

#define FIRST_SIZE 1024u

/* ---- One --------------------------------------------------------------------------------- */

void rc_shared_close(struct rc_shared *shared)
{
  if (!shared)
    return;
  struct pst_worker *worker = shared->worker;
  if (shared->ring)
    worker->cq_used -= shared->reserved;
  for (struct rc_shared **at = &worker->shared_due; *at; at = &(*at)->next_due)
    if (*at == shared) {
      *at = shared->next_due;
      break;
    }
  if (shared->srq)
    ibv_destroy_srq(shared->srq);
  if (shared->mr)
    vb_unpin(&worker->device->own.mrs, shared->mr);
  if (shared->has_place)
    pst_places_give(&worker->shared, shared->place);
  free(shared->buffers);
  free(shared->back);
  free(shared);
}

/* All entries are the worker's: to be posted. */
static int open_entries(struct rc_shared *shared)
{
  shared->back = calloc(shared->size, sizeof(*shared->back));
  if (!shared->back)
    return -ENOMEM;
  while (shared->back_count < shared->size) { /* the last is posted first */
    shared->back[shared->back_count] = shared->size - 1 - shared->back_count;
    shared->back_count++;
  }
  if (shared->kind != RC_SHARED_BUFFERS)
    return 0;
  return rc_pages_open(&shared->worker->device->own, NULL, "shared receives",
                       (size_t)shared->size * RC_SHARED_CREDIT_BYTES, &shared->buffers,
                       &shared->mr);
}

/* As many as `size` is, at least `least`. */
static int open_one(struct pst_worker *worker, enum rc_shared_kind kind, uint32_t size,
                    uint32_t least, struct pst_ring *ring, struct rc_shared **shared)
{
  struct rc_shared *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  *made = (struct rc_shared){.worker = worker, .ring = ring, .kind = kind, .size = size};
  /* Slots are registered in their peer's domain, credit buffers once for all peers. */
  int rc = rc_srq_create(ring ? ring->params.mr->domain : &worker->device->own, made, &made->size,
                         least, &made->srq);
  if (rc == 0)
    rc = open_entries(made);
  if (rc == 0)
    rc = pst_places_take(&worker->shared, made, RC_PLACES, &made->place);
  made->has_place = rc == 0;
  made->wr_id = RC_RECEIVE | (uint64_t)made->place << 32 | RC_SHARED_BIT;
  if (rc < 0) {
    rc_shared_close(made);
    return rc;
  }
  rc_receives_open(&made->receives, 0,
                   ring ? (uint32_t)ring->params.payload_max : RC_SHARED_CREDIT_BYTES,
                   ring ? ring->verbs.mr : made->mr);
  *shared = made;
  return 0;
}

void rc_shared_close_all(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->shared.room; i++)
    rc_shared_close(worker->shared.all[i].at);
  free(worker->shared.all);
}

/* ---- Slots of a ring --------------------------------------------------------------------- */

int rc_shared_open_slots(struct pst_ring *ring)
{
  const uint32_t slots = ring->params.slots;
  struct pst_worker *worker = ring->worker;
  int rc = rc_cq_grow(worker, worker->cq_used + slots, "a ring");

  if (rc == 0)
    rc = open_one(worker, RC_SHARED_SLOTS, slots, slots, ring, &ring->shared);
  if (rc < 0)
    return rc;
  worker->cq_used += slots;
  ring->shared->reserved = slots;
  rc = rc_shared_post(ring->shared);
  if (rc < 0)
    RC_LOG(ring->worker->device, PST_LOG_ERROR, "ibv_post_srq_recv of a ring's %u slots: %s",
           ring->params.slots, strerror(-rc));
  return rc;
}

/* ---- Endpoints --------------------------------------------------------------------------- */

static uint32_t size_after(uint64_t sum, uint32_t most, uint32_t wanted)
{
  const uint64_t size = FIRST_SIZE + sum;

  if (size < wanted)
    return wanted;
  return (uint32_t)(size < most ? size : most > wanted ? most : wanted);
}

/* Those of that kind are as large together, so that there are few of them. */
static uint32_t size_of_next(const struct pst_worker *worker, enum rc_shared_kind kind,
                             uint32_t wanted)
{
  uint64_t sum = 0;

  for (uint32_t i = 0; i < worker->shared.room; i++) {
    const struct rc_shared *one = worker->shared.all[i].at;
    sum += one && one->kind == kind ? one->size : 0;
  }
  return size_after(sum, (uint32_t)worker->device->attr.max_srq_wr, wanted);
}

uint64_t rc_shared_most(const struct pst_device *device, uint32_t wanted, uint64_t enough)
{
  uint64_t sum = 0, count = 0;

  for (int i = 0; i < device->attr.max_srq && count < enough; i++) {
    const uint32_t size = size_after(sum, (uint32_t)device->attr.max_srq_wr, wanted);
    count += size / wanted;
    sum += size;
  }
  return count;
}

static int find_room(struct pst_worker *worker, enum rc_shared_kind kind, uint32_t wanted,
                     struct rc_shared **shared)
{
  for (uint32_t i = 0; i < worker->shared.room; i++) {
    struct rc_shared *one = worker->shared.all[i].at;
    if (!one || one->kind != kind || one->size - one->reserved < wanted)
      continue;
    *shared = one;
    return 0;
  }
  return open_one(worker, kind, size_of_next(worker, kind, wanted), wanted, NULL, shared);
}

int rc_shared_join(struct pst_endpoint *endpoint)
{
  const enum rc_shared_kind kind = endpoint->tx ? RC_SHARED_BUFFERS : RC_SHARED_BARE;
  int rc;

  if (endpoint->rx && endpoint->rx->sends) {
    endpoint->shared = endpoint->rx->ring->shared;
    return 0;
  }
  rc = find_room(endpoint->worker, kind, endpoint->lanes[0].rq_size, &endpoint->shared);
  if (rc < 0)
    return rc;
  endpoint->shared->reserved += endpoint->lanes[0].rq_size;
  rc = rc_shared_post(endpoint->shared);
  if (rc < 0)
    RC_LOG(endpoint->device, PST_LOG_ERROR, "%s: ibv_post_srq_recv: %s", endpoint->label,
           strerror(-rc));
  return rc;
}

static struct pst_endpoint **chain_of(struct pst_worker *worker, uint32_t qp_num)
{
  return &worker->by_number[qp_num % RC_NUMBER_CHAINS];
}

void rc_shared_leave(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;

  if (endpoint->shared->kind != RC_SHARED_SLOTS)
    endpoint->shared->reserved -= endpoint->lanes[0].rq_size;
  if (worker->last_numbered == endpoint)
    worker->last_numbered = NULL;
  if (!endpoint->number)
    return;
  struct pst_endpoint **at = chain_of(worker, endpoint->number);
  while (*at && *at != endpoint)
    at = &(*at)->next_numbered;
  if (*at)
    *at = endpoint->next_numbered;
}

void rc_shared_name(struct pst_endpoint *endpoint)
{
  endpoint->number = endpoint->lanes[0].responder->qp_num;
  struct pst_endpoint **at = chain_of(endpoint->worker, endpoint->number);

  endpoint->next_numbered = *at;
  *at = endpoint;
}

struct pst_endpoint *rc_shared_find(struct pst_worker *worker, uint32_t qp_num)
{
  struct pst_endpoint *one = worker->last_numbered;

  if (one && one->number == qp_num)
    return one;
  for (one = *chain_of(worker, qp_num); one && one->number != qp_num; one = one->next_numbered)
    ;
  worker->last_numbered = one;
  return one;
}

/* ---- Posting ----------------------------------------------------------------------------- */

/* `n` of those in `back`, at most RC_POLL_BATCH. 0 or an errno. */
static int post_linked(struct rc_shared *shared, uint32_t n)
{
  struct ibv_recv_wr *wrs = shared->receives.wrs, *next = wrs[n - 1].next, *bad = NULL;
  const struct pst_ring *ring = shared->ring;

  for (uint32_t i = 0; i < n; i++) {
    const uint64_t entry = shared->back[shared->back_count - 1 - i];
    wrs[i].wr_id = shared->wr_id | entry;
    if (ring)
      shared->receives.sges[i].addr = ring->base + entry * ring->params.stride;
    else if (shared->buffers)
      shared->receives.sges[i].addr = (uintptr_t)rc_shared_buffer(shared, entry);
  }
  wrs[n - 1].next = NULL;
  int rc = ibv_post_srq_recv(shared->srq, wrs, &bad);
  wrs[n - 1].next = next;
  if (rc)
    n = bad ? (uint32_t)(bad - wrs) : 0;
  shared->back_count -= n;
  shared->posted += n;
  return rc;
}

int rc_shared_post(struct rc_shared *shared)
{
  int rc = 0;

  while (rc == 0 && shared->posted < shared->reserved && shared->back_count) {
    const uint32_t missing = shared->reserved - shared->posted;
    uint32_t n = missing < shared->back_count ? missing : shared->back_count;
    rc = post_linked(shared, n < RC_POLL_BATCH ? n : RC_POLL_BATCH);
  }
  return -rc;
}

static void fail_all(struct rc_shared *shared, int status, const char *why)
{
  const struct pst_worker *worker = shared->worker;

  for (uint32_t i = 0; i < worker->endpoints.room; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (endpoint && endpoint->shared == shared)
      rc_fail(endpoint, status, why);
  }
}

void rc_shared_post_due(struct pst_worker *worker)
{
  struct rc_shared *shared;

  while ((shared = worker->shared_due) != NULL) {
    worker->shared_due = shared->next_due;
    shared->is_due = false;
    int rc = rc_shared_post(shared);
    if (rc < 0)
      fail_all(shared, rc, "ibv_post_srq_recv");
  }
}

/* ---- The end of a queue pair ------------------------------------------------------------- */

void rc_shared_begin(struct pst_endpoint *endpoint)
{
  if (!endpoint->shared)
    return;
  atomic_store(&endpoint->last_wqe, false);
  endpoint->has_flushed = false;
  endpoint->last_send = 0;
  endpoint->given_at = 0;
  endpoint->lanes[0].rq_posted = 1;
}

static bool may_have_some(const struct pst_endpoint *endpoint)
{
  return endpoint->shared && endpoint->lanes[0].rq_posted &&
         atomic_load_explicit(&endpoint->setup, memory_order_acquire) == 0;
}

/* soft-RoCE of Linux 6.1 does not tell of the last one. It has its responder flush before its
 * requester: where all sends are back, and one more that is posted in ERR, all receives are, too.
 * An adapter's two halves know nothing of each other. */
static void post_last(struct pst_endpoint *endpoint)
{
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

  if (!endpoint->device->is_soft || !endpoint->lanes[0].is_erred || endpoint->last_send ||
      rc_given_back(endpoint) != endpoint->sq_head || endpoint->lanes[0].own)
    return;
  wr.wr_id =
      rc_wr_id(endpoint, (uint32_t)endpoint->sq_head + RC_LAST + (endpoint->last_sends++ & 0xffff));
  endpoint->last_send = wr.wr_id;
  ibv_post_send(endpoint->lanes[0].responder, &wr, &bad); /* if it cannot, time tells */
}

bool rc_shared_flushed(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  if ((uint32_t)wc->wr_id - (uint32_t)endpoint->sq_done < RC_LAST)
    return false;
  if (wc->wr_id == endpoint->last_send && endpoint->lanes[0].is_erred) {
    endpoint->has_flushed = true;
    rc_pend(endpoint);
  }
  return true;
}

/* Not every device tells. */
static bool takes_no_more(const struct pst_endpoint *endpoint)
{
  return atomic_load(&endpoint->last_wqe) || endpoint->has_flushed ||
         (endpoint->lanes[0].is_erred &&
          rc_now_ns(endpoint->device) >= endpoint->erred_ns + RC_FLUSH_NS);
}

void rc_shared_step(struct pst_endpoint *endpoint)
{
  const uint64_t empties = endpoint->worker->empties;

  if (!may_have_some(endpoint))
    return;
  /* Else its event waits for the next look at the clock, and the end of the connection with it. */
  if (endpoint->lanes[0].is_erred && !atomic_load(&endpoint->last_wqe))
    rc_events(endpoint->device);
  post_last(endpoint);
  if (!endpoint->given_at && takes_no_more(endpoint))
    endpoint->given_at = empties + 1;
  if (!endpoint->given_at)
    return;
  if (empties < endpoint->given_at) {
    rc_pend(endpoint);
    return;
  }
  /* A completion would have said why by now. */
  if (!endpoint->lanes[0].is_erred && endpoint->stage.name == RC_CONNECTED)
    rc_fail(endpoint, -EIO, "the device failed the queue pair, and did not say why");
  endpoint->lanes[0].rq_posted = 0;
}

void rc_shared_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  if (!may_have_some(endpoint) || !endpoint->lanes[0].is_erred)
    return;
  if (now_ns >= endpoint->erred_ns + RC_FLUSH_NS)
    rc_pend(endpoint);
  else
    rc_due(endpoint->worker, endpoint->erred_ns + RC_FLUSH_NS);
}

void rc_shared_notice(struct pst_endpoint *endpoint)
{
  if (endpoint->shared && atomic_load(&endpoint->last_wqe))
    rc_pend(endpoint);
}

void rc_shared_notices(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->shared.room; i++) {
    struct rc_shared *shared = worker->shared.all[i].at;
    const int event = shared ? atomic_exchange(&shared->event, 0) : 0;
    char why[512];
    if (!event)
      continue;
    rc_event_text(event - 1, why, sizeof(why));
    fail_all(shared, -EIO, why);
  }
}
