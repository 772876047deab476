/* SPDX-License-Identifier: Apache-2.0 */
/* Receive slots, shared out among the endpoints of a ring, and their release. */
#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#include "device.h"
#include "mr.h"
#include "rx.h"
#include "shm_port.h"
#include "worker.h"

static int lb_ring_check(struct pst_device *device, const struct pst_ring_params *in)
{
  const struct lb_mr *mr = lb_mr_of(in->mr);
  const char *wrong = in->endpoints > in->slots ? "every endpoint needs a slot of its own" : NULL;
  /* By reference nothing lies in the ring but what is gathered there. */
  bool is_bare = !mr && device->mode == LB_MODE_REFERENCE;
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  lb_limits(device, &limits);
  return pst_ring_params_check(device->host, in,
                               mr        ? mr->access
                               : is_bare ? PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING
                                         : 0,
                               mr ? mr->length : UINT64_MAX, &limits, wrong);
}

int lb_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_device *device = worker->device;
  struct pst_ring_params in;
  LB_TAKE(in, params);
  int rc = lb_ring_check(device, &in);
  if (rc != 0)
    return rc;
  struct lb_mr *mr = lb_mr_of(in.mr);
  if (device->mode == LB_MODE_COPY && !mr->base)
    return -EOPNOTSUPP;
  if (device->shared && (rc = lb_mr_share(mr)) != 0)
    return rc;
  struct pst_ring *made = calloc(1, sizeof(*made));
  if (made)
    made->parts = calloc(in.endpoints, sizeof(struct lb_rx *));
  if (!made || !made->parts) {
    free(made);
    return -ENOMEM;
  }
  made->worker = worker;
  made->params = in;
  made->mr = mr;
  lb_path_fill(path, lb_via_of(device->mode), device->shared);
  *ring = made;
  return 0;
}

void lb_rx_return(struct lb_rx *rx)
{
  if (!rx->buffer_of || rx->tail == rx->claimed)
    return;
  assert(rx->claimed - rx->tail <= lb_rx_credits(rx));
  while (rx->tail != rx->claimed) {
    uint32_t slot = rx->own->desc[rx->tail++ & rx->own->mask].slot;
    rx->own->free_slots[rx->free_head++ & rx->own->mask] = slot;
  }
  atomic_store_explicit(&rx->own->port->free_head, rx->free_head, memory_order_release);
}

bool lb_rx_drained(const struct lb_rx *rx)
{
  const struct lb_port *port = rx->own->port;
  uint64_t head = atomic_load_explicit(&port->desc_head, memory_order_acquire);
  if (rx->buffer_of && (atomic_load(&port->claimed) & LB_CLAIM_ABORT))
    head = rx->claimed;
  return head == rx->tail;
}

static uint32_t lb_ring_unlend(struct lb_rx *rx, struct pst_completion *out, uint32_t max,
                               bool *left)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < rx->buffer_count; i++) {
    struct lb_buffer *buffer = &rx->buffers[i];
    if (!buffer->mr)
      continue;
    if (buffer->out || n == max) {
      *left = true;
      continue;
    }
    out[n++] = (struct pst_completion){
        .kind = PST_COMPLETION_EVENT,
        .code = PST_EVENT_UNLENT,
        .u.region = {NULL, buffer->number},
    };
    lb_mr_unref(buffer->mr);
    buffer->mr = NULL;
  }
  return n;
}

bool lb_worker_may_unlend(const struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->rx.room; i++) {
    const struct lb_rx *rx = worker->rx.all[i].at;
    for (uint32_t k = 0; rx && rx->over && k < rx->buffer_count; k++)
      if (rx->buffers[k].mr && !rx->buffers[k].out)
        return true;
  }
  return false;
}

uint32_t lb_worker_unlend(struct pst_worker *worker, struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;
  bool left = false;
  for (uint32_t i = 0; i < worker->rx.room; i++) {
    struct lb_rx *rx = worker->rx.all[i].at;
    if (rx && rx->over)
      n += lb_ring_unlend(rx, out + n, max - n, &left);
  }
  worker->unlending = left;
  return n;
}

void lb_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  (void)worker;
  for (uint32_t i = 0; i < ring->params.endpoints; i++)
    lb_rx_free(ring->parts[i]);
  free(ring->parts);
  free(ring);
}

static void lb_ring_publish(struct lb_rx *rx)
{
  assert(lb_rx_credits(rx) <= rx->own->slots);
  atomic_store_explicit(&rx->own->port->free_head, rx->free_head, memory_order_release);
  if (!rx->peer)
    return;
  lb_barrier_light(rx->fenced);
  _Atomic uint32_t *armed = &rx->peer->port->armed;
  if (__builtin_expect(atomic_load_explicit(armed, memory_order_relaxed) & LB_ARMED_CREDIT, 0) &&
      atomic_exchange(armed, 0))
    lb_link_wake(rx->peer);
}

/* By reference: of n slots that have come back, whose regions they were of. */
static void lb_ring_count_back(struct lb_rx *rx, const uint64_t *tokens, uint32_t n)
{
  if (rx->buffer_count == 1 && rx->in_slots == 0) { /* mostly there is one, and all are of it */
    assert(rx->buffers[0].out >= n);
    rx->buffers[0].out -= n;
    return;
  }
  for (uint32_t i = 0, run; i < n; i += run) {
    const uint16_t at = rx->buffer_of[pst_token_slot(tokens[i])];
    for (run = 1; i + run < n && rx->buffer_of[pst_token_slot(tokens[i + run])] == at; run++)
      ;
    uint32_t *const out = at == LB_NO_BUFFER ? &rx->in_slots : &rx->buffers[at].out;
    assert(*out >= run);
    *out -= run;
  }
}

/* Up to n tokens of one rx. Returns how many were its own. */
static uint32_t lb_ring_release_some(struct lb_rx *rx, const uint64_t *tokens, uint32_t n)
{
  const uint64_t mask = rx->own->mask;
  const uint32_t slots = rx->own->slots, index = rx->index;
  uint32_t *free_slots = rx->own->free_slots;
  uint8_t *states = rx->states;
  uint64_t head = rx->free_head;
  uint32_t i;
  for (i = 0; i < n; i++) {
    uint32_t slot = pst_token_slot(tokens[i]);
    if (__builtin_expect(pst_token_number(tokens[i]) != index, 0))
      break;
    if (__builtin_expect(slot >= slots || states[slot] != LB_SLOT_HELD, 0))
      break;
    states[slot] = LB_SLOT_PEER;
    free_slots[head++ & mask] = slot;
  }
  rx->free_head = head;
  if (rx->buffer_of)
    lb_ring_count_back(rx, tokens, i);
  return i;
}

int lb_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n;) {
    struct lb_rx *rx = pst_places_find(&worker->rx, pst_token_number(tokens[i]));
    uint32_t released = rx ? lb_ring_release_some(rx, tokens + i, n - i) : 0;
    if (released == 0)
      return PST_REFUSE(worker->device->host, -EINVAL,
                        "release of token %#llx, which is not out: it was never given, or "
                        "released before",
                        (unsigned long long)tokens[i]);
    lb_ring_publish(rx);
    i += released;
  }
  return 0;
}
