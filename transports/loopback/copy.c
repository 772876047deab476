/* SPDX-License-Identifier: Apache-2.0 */
/* READs and WRITEs of memory that the CPU cannot touch: submitted as batches to a queue of
 * the memory's own plugin, done when that queue says so. Requests of such an endpoint end in
 * the order in which they were posted, those that the CPU did included. */
#include <assert.h>

#include "endpoint.h"
#include "remote.h"

#define BATCHES 64u
#define PIECES 128u

bool lb_copies_by(const struct pst_device *device, const struct pst_region *region)
{
  const struct pst_memory_ops *ops = NULL;
  if (device->host->struct_size >= offsetof(struct pst_host, region_release) + sizeof(void *))
    ops = device->host->region_memory(device->host, region);
  return ops && (ops->capabilities & PST_MEMORY_CAP_COPY);
}

int lb_copier_open(struct pst_endpoint *endpoint, const struct pst_region *region,
                   struct lb_copier **copier)
{
  const struct pst_device *device = endpoint->worker->device;
  const struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = BATCHES, .pieces = PIECES};
  struct lb_copier *made = endpoint->copiers;
  while (made && made->memory != region->memory)
    made = made->next;
  if (made) {
    *copier = made;
    return 0;
  }
  if (!endpoint->pending)
    endpoint->pending = calloc(endpoint->dones.mask + 1, sizeof(*endpoint->pending));
  made = calloc(1, sizeof(*made));
  if (!made || !endpoint->pending) {
    free(made);
    return -ENOMEM;
  }
  made->memory = region->memory;
  made->ops = device->host->region_memory(device->host, region);
  int rc = made->ops ? made->ops->queue_open(made->memory, &params, &made->queue) : -EOPNOTSUPP;
  if (rc != 0) {
    free(made);
    return rc;
  }
  made->next = endpoint->copiers;
  endpoint->copiers = made;
  *copier = made;
  return 0;
}

static void lb_copy_look(struct lb_copier *copier)
{
  if (!copier->failed && copier->queue && copier->ops->queue_poll(copier->queue, &copier->done) < 0)
    copier->failed = true;
}

static bool lb_copy_has_ended(const struct lb_pending *pending)
{
  const struct lb_copier *copier = pending->copier;
  return !copier || copier->done >= pending->ticket || copier->failed || !copier->queue;
}

static int32_t lb_copy_status_of(const struct pst_endpoint *endpoint,
                                 const struct lb_pending *pending)
{
  const struct lb_copier *copier = pending->copier;
  if (!copier || copier->done >= pending->ticket)
    return lb_lost_status(endpoint) ? -ECONNRESET : 0;
  return copier->failed ? -EIO : -ECANCELED;
}

static void lb_copy_end_first(struct pst_endpoint *endpoint)
{
  struct lb_pending *pending = &endpoint->pending[endpoint->pending_tail++ & endpoint->dones.mask];
  if (pending->gate)
    atomic_fetch_sub(&pending->gate->inside, 1);
  if (pending->copier) {
    assert(pending->copier->pending);
    pending->copier->pending--;
  }
  pst_dones_push(&endpoint->dones, pending->opcode, lb_copy_status_of(endpoint, pending),
                 pending->cookie, 1);
}

void lb_copy_progress(struct pst_endpoint *endpoint)
{
  for (struct lb_copier *copier = endpoint->copiers; copier; copier = copier->next)
    if (copier->pending)
      lb_copy_look(copier);
  while (lb_copy_pending(endpoint) &&
         lb_copy_has_ended(&endpoint->pending[endpoint->pending_tail & endpoint->dones.mask]))
    lb_copy_end_first(endpoint);
}

void lb_copy_end(struct pst_endpoint *endpoint)
{
  for (struct lb_copier *copier = endpoint->copiers; copier; copier = copier->next) {
    lb_copy_look(copier);
    if (copier->queue)
      copier->ops->queue_close(copier->queue); /* waits for the device */
    copier->queue = NULL;
  }
  while (lb_copy_pending(endpoint))
    lb_copy_end_first(endpoint);
}

void lb_copy_free(struct pst_endpoint *endpoint)
{
  while (endpoint->copiers) {
    struct lb_copier *copier = endpoint->copiers;
    endpoint->copiers = copier->next;
    free(copier);
  }
  free(endpoint->pending);
}

static void lb_copy_push(struct pst_endpoint *endpoint, const struct pst_request *request,
                         struct lb_copier *copier, uint64_t ticket, struct lb_gate *gate)
{
  assert(endpoint->pending_head - endpoint->pending_tail < endpoint->dones.requests);
  endpoint->pending[endpoint->pending_head++ & endpoint->dones.mask] =
      (struct lb_pending){.copier = copier,
                          .ticket = ticket,
                          .cookie = request->cookie,
                          .gate = gate,
                          .opcode = request->opcode};
  if (copier)
    copier->pending++;
}

/* Copies of consecutive requests of a post, to one remote. */
struct batch {
  const struct pst_request *first;
  struct pst_remote *remote;
  uint32_t requests, count;
  struct pst_copy_row pieces[PIECES];
};

static void lb_copy_add(struct batch *batch, const struct pst_request *request)
{
  struct pst_remote *remote = request->u.rma.remote;
  uint64_t far = remote->address + request->u.rma.offset;
  const bool reading = request->opcode == PST_OP_READ;
  struct pst_piece one;
  uint32_t count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);
  if (batch->requests++ == 0) {
    batch->first = request;
    batch->remote = remote;
  }
  for (uint32_t i = 0; i < count; far += pieces[i++].length) {
    if (!pieces[i].length)
      continue;
    const struct lb_mr *mr = lb_mr_of(pieces[i].mr);
    const uint64_t near = mr->region.address + mr->offset + pieces[i].offset;
    batch->pieces[batch->count++] = (struct pst_copy_row){.source = reading ? far : near,
                                                          .destination = reading ? near : far,
                                                          .length = pieces[i].length,
                                                          .count = 1};
  }
}

/* Under way counts as inside of the peer's memory: its owner waits for us when it
 * deregisters. */
static int lb_copy_submit(struct pst_endpoint *endpoint, struct batch *batch, uint32_t *why)
{
  struct pst_remote *remote = batch->remote;
  struct lb_copier *copier = remote->copier;
  uint64_t ticket;
  if (!lb_gate_enter(remote->gate))
    return -EACCES;
  int rc = copier->ops->copy_rows(copier->queue, batch->pieces, batch->count, &ticket);
  if (rc == -EAGAIN) {
    lb_copy_look(copier);
    rc = copier->ops->copy_rows(copier->queue, batch->pieces, batch->count, &ticket);
  }
  if (rc != 0) {
    atomic_fetch_sub(&remote->gate->inside, 1);
    *why = rc == -EAGAIN ? PST_WAIT_QUEUE : *why;
    return rc == -EAGAIN ? 0 : rc;
  }
  for (uint32_t i = 0; i < batch->requests; i++)
    lb_copy_push(endpoint, &batch->first[i], copier, ticket,
                 i + 1 == batch->requests ? remote->gate : NULL);
  batch->requests = batch->count = 0;
  return 0;
}

/* All earlier copies before all later ones, on the device. */
static int lb_copy_fence(const struct lb_copier *copier)
{
  const struct pst_memory_ops *ops = copier->ops;
  struct pst_fence *mark = NULL;
  if (!(ops->capabilities & PST_MEMORY_CAP_FENCE))
    return 0;
  int rc = ops->fence_record(copier->memory, copier->queue, NULL, &mark);
  if (rc == 0 && mark) {
    rc = ops->fence_wait(copier->memory, mark, copier->queue, NULL);
    ops->fence_release(copier->memory, mark);
  }
  return rc;
}

/* May a request with FENCE go now, as far as others are concerned than `copier`? */
static bool lb_copy_others_are_done(struct pst_endpoint *endpoint, const struct lb_copier *copier)
{
  lb_copy_progress(endpoint);
  for (const struct lb_copier *other = endpoint->copiers; other; other = other->next)
    if (other != copier && other->pending)
      return false;
  return true;
}

/* Posts a request that needs no copier. */
static int lb_copy_by_cpu(struct pst_endpoint *endpoint, const struct pst_request *request,
                          uint32_t *why)
{
  struct lb_peer_access passage = {0};
  if ((request->flags & PST_REQUEST_FENCE) && request->opcode != PST_OP_FLUSH &&
      !lb_copy_others_are_done(endpoint, NULL)) {
    *why = PST_WAIT_QUEUE;
    return 0;
  }
  int rc = lb_rma_execute(endpoint, request, &passage);
  lb_rma_leave(&passage);
  if (rc == 0)
    lb_copy_push(endpoint, request, NULL, 0, NULL);
  return rc;
}

static bool lb_copy_joins(const struct batch *batch, const struct pst_request *request)
{
  return batch->requests == 0 ||
         (batch->remote == request->u.rma.remote && batch->first->opcode == request->opcode &&
          batch->count + (request->piece_count ? request->piece_count : 1u) <= PIECES &&
          !(request->flags & PST_REQUEST_FENCE));
}

static int lb_copy_by(struct pst_endpoint *endpoint, const struct pst_request *request,
                      struct batch *batch, uint32_t *why)
{
  const struct lb_copier *copier = request->u.rma.remote->copier;
  if (request->flags & PST_REQUEST_FENCE) {
    if (!lb_copy_others_are_done(endpoint, copier)) {
      *why = PST_WAIT_QUEUE;
      return 0;
    }
    int rc = lb_copy_fence(copier);
    if (rc != 0)
      return rc;
  }
  lb_copy_add(batch, request);
  return 0;
}

uint32_t lb_copy_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                      uint32_t *why, int *rc)
{
  const uint64_t began = endpoint->pending_head;
  struct batch batch;
  batch.requests = batch.count = 0;
  for (uint32_t i = 0; i < n && requests[i].opcode != PST_OP_SEND; i++) {
    bool copies = false;
    int code = lb_rma_check(endpoint, &requests[i], &copies);
    if (batch.requests && (code || !copies || !lb_copy_joins(&batch, &requests[i])))
      *rc = lb_copy_submit(endpoint, &batch, why);
    if (*rc == 0 && *why == PST_WAIT_NONE)
      *rc = code     ? code
            : copies ? lb_copy_by(endpoint, &requests[i], &batch, why)
                     : lb_copy_by_cpu(endpoint, &requests[i], why);
    if (*rc != 0 || *why != PST_WAIT_NONE)
      break;
  }
  if (batch.requests && *rc == 0 && *why == PST_WAIT_NONE)
    *rc = lb_copy_submit(endpoint, &batch, why);
  uint32_t taken = (uint32_t)(endpoint->pending_head - began);
  lb_copy_progress(endpoint);
  return taken;
}
