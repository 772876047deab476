/* SPDX-License-Identifier: Apache-2.0 */
/* Credits that have come back, and the SENDs by reference that they end. */
#include <assert.h>

#include "send_copy.h"

static void lb_credits_advance(struct pst_endpoint *endpoint)
{
  struct lb_tx *tx = &endpoint->tx;
  uint64_t mask = endpoint->dones.mask;
  while (tx->tail != tx->head && tx->results[tx->tail & mask] != LB_PENDING) {
    int32_t status = tx->results[tx->tail & mask];
    uint64_t from = tx->tail;
    while (tx->tail != tx->head && tx->results[tx->tail & mask] == status)
      tx->tail++;
    pst_dones_push(&endpoint->dones, PST_OP_SEND, status, tx->cookies[(tx->tail - 1) & mask],
                   tx->tail - from);
  }
}

/* Mostly they come back in the order in which they went. Returns how many of the slots, the
 * last of which came back first, are left. */
static uint32_t lb_credits_end_in_order(struct pst_endpoint *endpoint, const uint32_t *slots,
                                        uint32_t n)
{
  struct lb_tx *tx = &endpoint->tx;
  const uint64_t *post_of = tx->post_of, from = tx->tail, head = tx->head;
  uint64_t next = from;
  while (n && next < head && post_of[slots[n - 1]] == next) {
    next++;
    n--;
  }
  if (next == from)
    return n;
  tx->tail = next;
  pst_dones_push(&endpoint->dones, PST_OP_SEND, 0, tx->cookies[(next - 1) & endpoint->dones.mask],
                 next - from);
  return n;
}

/* By reference: what the receiver has released is done. */
static void lb_credits_end_lent(struct pst_endpoint *endpoint, const uint32_t *slots, uint32_t n)
{
  struct lb_tx *tx = &endpoint->tx;
  uint64_t mask = endpoint->dones.mask;
  n = lb_credits_end_in_order(endpoint, slots, n);
  bool returned = tx->tail != tx->head && tx->results[tx->tail & mask] != LB_PENDING;
  while (n--) {
    uint64_t post = tx->post_of[slots[n]];
    if (post < tx->tail || post >= tx->head || tx->results[post & mask] != LB_PENDING)
      continue;
    tx->results[post & mask] = 0;
    returned = true;
  }
  if (returned)
    lb_credits_advance(endpoint);
}

/* Prefetches the slots that the next post writes first. */
static void lb_credits_warm(const struct pst_endpoint *endpoint)
{
  const struct lb_tx *tx = &endpoint->tx;
  const struct lb_link *peer = endpoint->peer;
  uint32_t n = tx->credits < LB_AHEAD ? tx->credits : LB_AHEAD;
  for (uint32_t i = 1; i <= n; i++)
    lb_prefetch_write(peer->slot0 + tx->stack[tx->credits - i] * peer->stride);
}

void lb_tx_reap(struct pst_endpoint *endpoint)
{
  struct lb_tx *tx = &endpoint->tx;
  struct lb_link *peer = endpoint->peer;
  uint64_t head = atomic_load_explicit(&peer->port->free_head, memory_order_acquire);
  uint64_t from = tx->free_tail;
  if (head == from)
    return;
  if (head - from > peer->slots - tx->credits) {
    lb_endpoint_fail(endpoint, -EPROTO, "returned more slots than it has");
    return;
  }
  uint32_t n = (uint32_t)(head - from);
  uint32_t *at = tx->stack + tx->credits + n;
  for (; from != head; from++) {
    uint32_t slot = *(volatile uint32_t *)&peer->free_slots[from & peer->mask];
    if (__builtin_expect(slot >= peer->slots, 0)) {
      lb_endpoint_fail(endpoint, -EPROTO, "returned a slot that it does not have");
      return;
    }
    *--at = slot;
  }
  tx->free_tail = head;
  tx->credits += n;
  assert(tx->credits <= peer->slots);
  if (tx->post_of)
    lb_credits_end_lent(endpoint, at, n);
  else
    lb_credits_warm(endpoint);
}

void lb_tx_settle(struct pst_endpoint *endpoint, int32_t untaken, int32_t held)
{
  struct lb_tx *tx = &endpoint->tx;
  if (tx->tail == tx->head)
    return;
  lb_tx_reap(endpoint);
  struct lb_port *port = endpoint->peer->port;
  uint64_t taken = atomic_fetch_or(&port->claimed, LB_CLAIM_ABORT) & ~LB_CLAIM_ABORT;
  for (uint64_t i = tx->tail; i < tx->head; i++)
    if (tx->results[i & endpoint->dones.mask] == LB_PENDING)
      tx->results[i & endpoint->dones.mask] = i < taken ? held : untaken;
  lb_credits_advance(endpoint);
}
