/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring's slots are cut into parts, one for each endpoint that shares it. A part is one
 * endpoint's until it has closed, all its tokens are back, and its peer writes no more; then
 * the next one may have it. Each part in use has a place in the worker's table.
 */
#include <poll.h>

#include "endpoint.h"
#include "mr.h"
#include "rx.h"

/* May the endpoint's peer be writing into its slots? Within the process it was waited for. */
static bool lb_part_peer_writes(const struct lb_rx *rx)
{
  struct pollfd process = {.fd = rx->process_fd, .events = POLLIN};
  if (!rx->peer || rx->peer->in_process || rx->process_fd < 0 ||
      lb_link_is(rx->peer, LB_STATE_CLOSED))
    return false;
  return poll(&process, 1, 0) == 0;
}

static bool lb_part_is_free(const struct lb_rx *rx)
{
  if (!rx)
    return true;
  if (rx->endpoint || memchr(rx->states, LB_SLOT_HELD, rx->own->slots) || lb_part_peer_writes(rx))
    return false;
  for (uint32_t i = 0; i < rx->buffer_count; i++)
    if (rx->buffers[i].mr)
      return false;
  return true;
}

static int lb_part_find(const struct pst_ring *ring, uint32_t *part)
{
  for (uint32_t i = 0; i < ring->params.endpoints; i++)
    if (lb_part_is_free(ring->parts[i])) {
      *part = i;
      return 0;
    }
  return PST_REFUSE(ring->worker->device->host, -ENOSPC,
                    "no slots for another endpoint of this ring: those of one that has closed are "
                    "still in use; release its messages, and let its peer close");
}

/* 0 or -errno; lb_rx_free() is legal after either. */
static int lb_part_rx_fill(struct lb_rx *rx, bool shared, bool reference)
{
  const struct pst_ring *ring = rx->ring;
  const struct pst_ring_params *params = &ring->params;
  uint32_t first = (uint32_t)((uint64_t)rx->part * params->slots / params->endpoints);
  uint32_t end = (uint32_t)(((uint64_t)rx->part + 1) * params->slots / params->endpoints);
  uint32_t slots = end - first;
  rx->payload_offset = pst_slot_offset(params, first);
  rx->states = calloc(slots, 1);
  if (reference)
    rx->buffer_of = malloc(slots * sizeof(*rx->buffer_of));
  if (!rx->states || (reference && !rx->buffer_of))
    return -ENOMEM;
  rx->own = lb_link_new(slots, shared, reference);
  if (!rx->own)
    return -errno;
  rx->own->slot0 = ring->mr && ring->mr->base ? ring->mr->base + rx->payload_offset : NULL;
  rx->own->stride = params->stride;
  rx->own->payload_max = params->payload_max;
  for (uint32_t i = 0; i < slots; i++)
    rx->own->free_slots[i] = slots - 1 - i; /* the sender takes the last one first */
  rx->free_head = slots;
  atomic_store_explicit(&rx->own->port->free_head, slots, memory_order_release);
  return 0;
}

int lb_rx_open(struct pst_ring *ring, struct lb_rx **rx)
{
  struct pst_worker *worker = ring->worker;
  const struct pst_device *device = worker->device;
  uint32_t part;
  if (ring->mr && lb_guard_hit(ring->mr->guard))
    return PST_REFUSE(device->host, -EFAULT,
                      "no other endpoint for this ring: a peer has taken pages of its memory away");
  int rc = lb_part_find(ring, &part);
  if (rc != 0)
    return rc;
  struct lb_rx *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  lb_rx_free(ring->parts[part]);
  ring->parts[part] = made;
  made->ring = ring;
  made->part = part;
  made->index = PST_PLACE_NONE;
  made->process_fd = -1;
  rc = lb_part_rx_fill(made, device->shared, device->mode == LB_MODE_REFERENCE);
  if (rc == 0)
    rc = pst_places_take(&worker->rx, made, LB_PLACES, &made->index);
  if (rc != 0) {
    lb_rx_free(made);
    return rc;
  }
  *rx = made;
  return 0;
}

void lb_rx_free(struct lb_rx *rx)
{
  if (!rx)
    return;
  struct pst_worker *worker = rx->ring->worker;
  if (pst_places_find(&worker->rx, rx->index) == rx)
    pst_places_give(&worker->rx, rx->index);
  rx->ring->parts[rx->part] = NULL;
  if (rx->own)
    atomic_fetch_or(&rx->own->port->state, LB_STATE_CLOSED | LB_STATE_VOID);
  if (rx->peer)
    lb_link_wake(rx->peer);
  if (rx->endpoint)
    rx->endpoint->rx = NULL;
  lb_fd_close(rx->process_fd);
  for (uint32_t i = 0; i < rx->buffer_count; i++)
    lb_mr_unref(rx->buffers[i].mr);
  lb_link_unref(rx->own);
  lb_link_unref(rx->peer);
  free(rx->states);
  free(rx->buffer_of);
  free(rx->buffers);
  free(rx);
}
