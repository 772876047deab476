/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues: opened, joined, posted to. */
#include <stdio.h>

#include "domain.h"
#include "receives.h"
#include "srq.h"

#define FIRST_SIZE 1024u

/* ---- One --------------------------------------------------------------------------------- */

void vb_srq_close(struct vb_srq *shared)
{
  if (!shared)
    return;
  struct pst_worker *worker = shared->worker;
  if (shared->ring)
    worker->cq_used -= shared->reserved;
  for (struct vb_srq **at = &worker->shared_due; *at; at = &(*at)->next_due)
    if (*at == shared) {
      *at = shared->next_due;
      break;
    }
  if (shared->target)
    ibv_destroy_qp(shared->target);
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

/* Creates a queue of *size receives, at least `least`; *size is then the granted number. 0 or
 * -errno, logged. */
static int vb_srq_create(const struct vb_domain *domain, void *context, uint32_t *size,
                         uint32_t least, struct ibv_srq **srq)
{
  const struct pst_device *device = domain->device;
  struct ibv_srq_init_attr attr = {.srq_context = context, .attr = {.max_wr = *size, .max_sge = 1}};
  struct ibv_srq *made = ibv_create_srq(domain->pd, &attr);
  char memlock[160];

  if (!made) {
    const int code = errno;
    VB_LOG(device, PST_LOG_ERROR,
           "ibv_create_srq of %u receives: %s; the device has at most %d shared receive queues of "
           "%d (`ibv_devinfo -v`: max_srq, max_srq_wr), see `rdma resource`; leave out "
           "`srq`%s",
           *size, strerror(code), device->attr.max_srq, device->attr.max_srq_wr,
           vb_memlock_hint(code, memlock));
    return vb_call_error(code);
  }
  if (attr.attr.max_wr < least || attr.attr.max_sge < 1) {
    ibv_destroy_srq(made);
    VB_LOG(device, PST_LOG_ERROR,
           "ibv_create_srq on %s granted less than was requested: %u of %u receives, of %u pieces, "
           "where %u receives are needed; a smaller `ring`, or leave out `srq`",
           device->open.info->name, attr.attr.max_wr, *size, attr.attr.max_sge, least);
    return -ENOSPC;
  }
  if (attr.attr.max_wr < *size)
    *size = attr.attr.max_wr;
  *srq = made;
  return 0;
}

/* All entries are the worker's: to be posted. */
static int vb_srq_open_entries(struct vb_srq *shared)
{
  shared->back = calloc(shared->size, sizeof(*shared->back));
  if (!shared->back)
    return -ENOMEM;
  while (shared->back_count < shared->size) { /* the last is posted first */
    shared->back[shared->back_count] = shared->size - 1 - shared->back_count;
    shared->back_count++;
  }
  if (shared->kind != VB_SRQ_BUFFERS)
    return 0;
  return vb_domain_pages_open(&shared->worker->device->own, NULL, "shared receives",
                              (size_t)shared->size * VB_SRQ_CREDIT_BYTES, &shared->buffers,
                              &shared->mr);
}

/* As many as `size` is, at least `least`. */
static int vb_srq_open_one(struct pst_worker *worker, enum vb_srq_kind kind, uint32_t size,
                           uint32_t least, struct pst_ring *ring, struct vb_srq **shared)
{
  struct vb_srq *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  *made = (struct vb_srq){.worker = worker, .ring = ring, .kind = kind, .size = size};
  /* Slots are registered in their peer's domain, credit buffers once for all peers. */
  int rc = vb_srq_create(ring ? ring->params.mr->domain : &worker->device->own, made, &made->size,
                         least, &made->srq);
  if (rc == 0)
    rc = vb_srq_open_entries(made);
  if (rc == 0)
    rc = pst_places_take(&worker->shared, made, VB_PLACES, &made->place);
  made->has_place = rc == 0;
  made->wr_id = VB_RECEIVE | (uint64_t)made->place << 32 | VB_SRQ_BIT;
  if (rc < 0) {
    vb_srq_close(made);
    return rc;
  }
  vb_receives_open(&made->receives, 0,
                   ring ? (uint32_t)ring->params.payload_max : VB_SRQ_CREDIT_BYTES,
                   ring ? ring->verbs.mr : made->mr);
  *shared = made;
  return 0;
}

void vb_srq_close_all(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->shared.room; i++)
    vb_srq_close(worker->shared.all[i].at);
  free(worker->shared.all);
}

/* ---- Slots of a ring --------------------------------------------------------------------- */

int vb_srq_open_slots(struct pst_ring *ring)
{
  const uint32_t slots = ring->params.slots;
  struct pst_worker *worker = ring->worker;
  int rc = vb_cq_grow(worker, worker->cq_used + slots, "a ring");

  if (rc == 0)
    rc = vb_srq_open_one(worker, VB_SRQ_SLOTS, slots, slots, ring, &ring->shared);
  if (rc < 0)
    return rc;
  worker->cq_used += slots;
  ring->shared->reserved = slots;
  rc = vb_srq_post(ring->shared);
  if (rc < 0)
    VB_LOG(ring->worker->device, PST_LOG_ERROR, "ibv_post_srq_recv of a ring's %u slots: %s",
           ring->params.slots, strerror(-rc));
  return rc;
}

/* ---- Endpoints --------------------------------------------------------------------------- */

static uint32_t vb_srq_size_after(uint64_t sum, uint32_t most, uint32_t wanted)
{
  const uint64_t size = FIRST_SIZE + sum;

  if (size < wanted)
    return wanted;
  return (uint32_t)(size < most ? size : most > wanted ? most : wanted);
}

/* Returns the size of the next queue of that kind: as large as the others together, so that there
 * are few of them. */
static uint32_t vb_srq_size_of_next(const struct pst_worker *worker, enum vb_srq_kind kind,
                                    uint32_t wanted)
{
  uint64_t sum = 0;

  for (uint32_t i = 0; i < worker->shared.room; i++) {
    const struct vb_srq *one = worker->shared.all[i].at;
    sum += one && one->kind == kind ? one->size : 0;
  }
  return vb_srq_size_after(sum, (uint32_t)worker->device->attr.max_srq_wr, wanted);
}

uint64_t vb_srq_most(const struct pst_device *device, uint32_t wanted, uint64_t enough)
{
  uint64_t sum = 0, count = 0;

  for (int i = 0; i < device->attr.max_srq && count < enough; i++) {
    const uint32_t size = vb_srq_size_after(sum, (uint32_t)device->attr.max_srq_wr, wanted);
    count += size / wanted;
    sum += size;
  }
  return count;
}

static int vb_srq_find_room(struct pst_worker *worker, enum vb_srq_kind kind, uint32_t wanted,
                            struct vb_srq **shared)
{
  for (uint32_t i = 0; i < worker->shared.room; i++) {
    struct vb_srq *one = worker->shared.all[i].at;
    if (!one || one->kind != kind || one->size - one->reserved < wanted)
      continue;
    *shared = one;
    return 0;
  }
  return vb_srq_open_one(worker, kind, vb_srq_size_of_next(worker, kind, wanted), wanted, NULL,
                         shared);
}

int vb_srq_reserve(struct pst_worker *worker, enum vb_srq_kind kind, uint32_t wanted,
                   const char *label, struct vb_srq **shared)
{
  struct vb_srq *found;
  int rc = vb_srq_find_room(worker, kind, wanted, &found);

  if (rc < 0)
    return rc;
  *shared = found;
  found->reserved += wanted;
  rc = vb_srq_post(found);
  if (rc < 0)
    VB_LOG(worker->device, PST_LOG_ERROR, "%s: ibv_post_srq_recv: %s", label, strerror(-rc));
  return rc;
}

int vb_srq_join(struct pst_endpoint *endpoint)
{
  const enum vb_srq_kind kind = endpoint->tx ? VB_SRQ_BUFFERS : VB_SRQ_BARE;

  if (endpoint->rx && endpoint->rx->sends) {
    endpoint->shared = endpoint->rx->ring->shared;
    return 0;
  }
  return vb_srq_reserve(endpoint->worker, kind, endpoint->rq->size, endpoint->label,
                        &endpoint->shared);
}

static struct pst_endpoint **vb_srq_chain_of(struct pst_worker *worker, uint32_t qp_num)
{
  return &worker->by_number[qp_num % VB_NUMBER_CHAINS];
}

void vb_srq_leave(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;

  if (endpoint->shared->kind != VB_SRQ_SLOTS)
    endpoint->shared->reserved -= endpoint->rq->size;
  if (worker->last_numbered == endpoint)
    worker->last_numbered = NULL;
  if (!endpoint->number)
    return;
  struct pst_endpoint **at = vb_srq_chain_of(worker, endpoint->number);
  while (*at && *at != endpoint)
    at = &(*at)->next_numbered;
  if (*at)
    *at = endpoint->next_numbered;
}

void vb_srq_name(struct pst_endpoint *endpoint)
{
  endpoint->number = endpoint->rq->qp->qp_num;
  struct pst_endpoint **at = vb_srq_chain_of(endpoint->worker, endpoint->number);

  endpoint->next_numbered = *at;
  *at = endpoint;
}

struct pst_endpoint *vb_srq_find(struct pst_worker *worker, uint32_t qp_num)
{
  struct pst_endpoint *one = worker->last_numbered;

  if (one && one->number == qp_num)
    return one;
  for (one = *vb_srq_chain_of(worker, qp_num); one && one->number != qp_num;
       one = one->next_numbered)
    ;
  worker->last_numbered = one;
  return one;
}

/* ---- Posting ----------------------------------------------------------------------------- */

/* `n` of those in `back`, at most VB_POLL_BATCH. 0 or an errno. */
static int vb_srq_post_linked(struct vb_srq *shared, uint32_t n)
{
  struct ibv_recv_wr *wrs = shared->receives.wrs, *next = wrs[n - 1].next, *bad = NULL;
  const struct pst_ring *ring = shared->ring;

  for (uint32_t i = 0; i < n; i++) {
    const uint64_t entry = shared->back[shared->back_count - 1 - i];
    wrs[i].wr_id = shared->wr_id | entry;
    if (ring)
      shared->receives.sges[i].addr = ring->base + entry * ring->params.stride;
    else if (shared->buffers)
      shared->receives.sges[i].addr = (uintptr_t)vb_srq_buffer(shared, entry);
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

int vb_srq_post(struct vb_srq *shared)
{
  int rc = 0;

  while (rc == 0 && shared->posted < shared->reserved && shared->back_count) {
    const uint32_t missing = shared->reserved - shared->posted;
    uint32_t n = missing < shared->back_count ? missing : shared->back_count;
    rc = vb_srq_post_linked(shared, n < VB_POLL_BATCH ? n : VB_POLL_BATCH);
  }
  return -rc;
}

static void vb_srq_fail_all(struct vb_srq *shared, int status, const char *why)
{
  const struct pst_worker *worker = shared->worker;

  for (uint32_t i = 0; i < worker->endpoints.room; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (endpoint &&
        (endpoint->shared == shared || (endpoint->rx && endpoint->rx->ring->shared == shared)))
      vb_fail(endpoint, status, why);
  }
}

void vb_srq_post_due(struct pst_worker *worker)
{
  struct vb_srq *shared;

  while ((shared = worker->shared_due)) {
    worker->shared_due = shared->next_due;
    shared->is_due = false;
    int rc = vb_srq_post(shared);
    if (rc < 0)
      vb_srq_fail_all(shared, rc, "ibv_post_srq_recv");
  }
}

void vb_srq_notices(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->shared.room; i++) {
    struct vb_srq *shared = worker->shared.all[i].at;
    const int event = shared ? atomic_exchange(&shared->event, 0) : 0;
    char why[512];
    if (!event)
      continue;
    vb_event_text(event - 1, why, sizeof(why));
    vb_srq_fail_all(shared, -EIO, why);
  }
}
