/* SPDX-License-Identifier: Apache-2.0 */
/* The copying of SENDs, for each instruction set. AVX-512 is no faster here: the copy
 * waits for caches. */
#include "send_copy.h"

/* Messages are published to the receiver after this many messages or bytes. Often enough that the
 * receiver begins while a long post still copies, and gives slots back in time; seldom, since the
 * stores behind one of the index wait until its line is back. */
#define PUBLISH_MESSAGES 32u
#define PUBLISH_BYTES 65536u
/* Longer ones are memcpy's. */
#define COPY_MAX 2048u

static LB_ALWAYS_INLINE void lb_send_move64(uint8_t *to, const uint8_t *from)
{
  lb_move32(to, from);
  lb_move32(to + 32, from + 32);
}

static LB_ALWAYS_INLINE void lb_send_copy(uint8_t *restrict to, const uint8_t *restrict from,
                                          uint64_t length)
{
  if (length > 64 && length <= COPY_MAX) {
    for (uint64_t at = 0; at + 64 < length; at += 64)
      lb_send_move64(to + at, from + at);
    lb_send_move64(to + length - 64, from + length - 64);
  } else if (!lb_copy_short(to, from, length)) {
    memcpy(to, from, length);
  }
}

/* Prefetches the credits, which are read when this post is done. */
static LB_ALWAYS_INLINE void lb_send_ask_for_credits(const struct pst_endpoint *endpoint)
{
  const struct lb_link *peer = endpoint->peer;
  const uint64_t tail = endpoint->tx.free_tail, line = LB_CACHE_LINE / sizeof(*peer->free_slots);
  __builtin_prefetch(&peer->port->free_head);
  __builtin_prefetch(&peer->free_slots[tail & peer->mask]);
  __builtin_prefetch(&peer->free_slots[(tail + line) & peer->mask]);
}

/* Copies messages of host memory into the peer's slots, as long as each is ordinary. Returns how
 * many it sent. */
static LB_ALWAYS_INLINE uint32_t lb_send_plain_run(struct pst_endpoint *endpoint,
                                                   const struct pst_request *requests, uint32_t n)
{
  struct lb_tx *tx = &endpoint->tx;
  struct lb_desc *desc = endpoint->peer->desc;
  uint8_t *slot0 = endpoint->peer->slot0;
  const uint64_t stride = endpoint->peer->stride, mask = endpoint->peer->mask;
  const uint32_t *top = tx->stack + tx->credits, *bottom = tx->stack + LB_AHEAD;
  const struct pst_request *request = requests, *end = requests + n;
  const struct pst_request *last = n > LB_AHEAD ? end - LB_AHEAD : requests;
  struct lb_source source = {0};
  uint64_t head = tx->head, bytes = 0;
  bool plain = true;
  while (request < end && plain) {
    const uint64_t first = head, bytes_end = bytes + PUBLISH_BYTES;
    const struct pst_request *run_end = end;
    if (end - request > PUBLISH_MESSAGES)
      run_end = request + PUBLISH_MESSAGES;
    for (; request < run_end && bytes < bytes_end; request++) {
      if (!(plain = lb_is_plain(endpoint, request, &source)))
        break;
      if (top > bottom)
        lb_prefetch_write(slot0 + top[-1 - (int)LB_AHEAD] * stride);
      lb_prefetch_write(&desc[(head + LB_AHEAD) & mask]);
      if (request == last)
        lb_send_ask_for_credits(endpoint);
      uint32_t slot = *--top;
      lb_send_copy(slot0 + slot * stride, source.mr->base + request->offset, request->arg.length);
      lb_desc_write(&desc[head++ & mask], slot, request);
      bytes += request->arg.length;
    }
    if (head != first)
      lb_tx_publish(endpoint, head);
  }
  uint32_t sent = (uint32_t)(request - requests);
  tx->credits -= sent;
  tx->head = head;
  tx->bytes += bytes;
  return sent;
}

static uint32_t lb_send_portable(struct pst_endpoint *endpoint, const struct pst_request *requests,
                                 uint32_t n)
{
  return lb_send_plain_run(endpoint, requests, n);
}

#if defined(__x86_64__)
/* No target_clones: its resolver runs before TSan is up. */
__attribute__((target("avx2"))) static uint32_t
lb_send_avx2(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n)
{
  return lb_send_plain_run(endpoint, requests, n);
}
#endif

lb_send_fn *lb_send_plain(void)
{
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return lb_send_avx2;
#endif
  return lb_send_portable;
}
