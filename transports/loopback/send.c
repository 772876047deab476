/* SPDX-License-Identifier: Apache-2.0 */
/* The copying of SENDs, for each instruction set. AVX-512 is no faster here: the copy
 * waits for caches. */
#include "loopback.h"

/* Shown to the receiver after so many messages or bytes: often enough for it to
 * begin while a long post still copies, and to give slots back in time; seldom
 * enough for the line of the index not to travel with each message. */
#define PUBLISH_MESSAGES 16u
#define PUBLISH_BYTES 32768u
/* Messages between asking for a line and writing to it. */
#define AHEAD 8u
/* Longer ones are memcpy's. */
#define COPY_MAX 2048u

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Opcode, flags, number of pieces and what is reserved, in one load. */
static ALWAYS_INLINE uint64_t kind_of(const struct pst_request *request)
{
  uint64_t kind;
  memcpy(&kind, request, sizeof(kind));
  return kind;
}

/* A move of one is one instruction where the function it is in is compiled for that. */
typedef uint8_t vector32 __attribute__((vector_size(32), aligned(1), may_alias));

static ALWAYS_INLINE void move32(uint8_t *to, const uint8_t *from)
{
  *(vector32 *)to = *(const vector32 *)from;
}

static ALWAYS_INLINE void move64(uint8_t *to, const uint8_t *from)
{
  move32(to, from);
  move32(to + 32, from + 32);
}

/* In line: for small messages a call costs as much as their copy. */
static ALWAYS_INLINE void copy(uint8_t *restrict to, const uint8_t *restrict from, uint64_t length)
{
  if (length < 32 || length > COPY_MAX) {
    memcpy(to, from, length);
  } else if (length <= 64) {
    move32(to, from);
    move32(to + length - 32, from + length - 32);
  } else {
    for (uint64_t at = 0; at + 64 < length; at += 64)
      move64(to + at, from + at);
    move64(to + length - 64, from + length - 64);
  }
}

static ALWAYS_INLINE uint32_t send_plain(struct pst_endpoint *endpoint,
                                         const struct pst_request *requests, uint32_t n)
{
  static const struct pst_request sends = {.opcode = PST_OP_SEND};
  static const struct pst_request flags = {.flags = PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE};
  struct lb_tx *tx = &endpoint->tx;
  struct lb_desc *desc = endpoint->peer->desc;
  uint8_t *slot0 = endpoint->peer->slot0;
  const uint64_t stride = endpoint->peer->stride, mask = endpoint->peer->mask;
  const uint64_t max = tx->message_max, ignored = kind_of(&flags), wanted = kind_of(&sends);
  const uint32_t *top = tx->stack + tx->credits, *bottom = tx->stack + AHEAD;
  const struct lb_mr *mr = NULL;
  const uint8_t *base = NULL;
  uint64_t mr_length = 0, bytes = 0, head = tx->head, shown = 0, shown_bytes = 0;
  uint32_t i;
  for (i = 0; i < n; i++) {
    const struct pst_request *request = &requests[i];
    const uint64_t length = request->arg.length;
    /* Of several pieces, `local` is not an mr. */
    if (__builtin_expect((kind_of(request) & ~ignored) != wanted, 0))
      break;
    if (__builtin_expect(lb_mr_of(request->local.mr) != mr, 0)) {
      mr = lb_mr_of(request->local.mr);
      if (!mr || !mr->base || !(mr->access & PST_ACCESS_LOCAL_READ))
        break;
      base = mr->base;
      mr_length = mr->length;
    }
    if (__builtin_expect(!mr || length > max || length > mr_length ||
                             request->offset > mr_length - length || request->u.send.reserved,
                         0))
      break;
    if (top > bottom)
      lb_prefetch_write(slot0 + top[-1 - (int)AHEAD] * stride);
    lb_prefetch_write(&desc[(head + AHEAD) & mask]);
    uint32_t slot = *--top;
    copy(slot0 + slot * stride, base + request->offset, length);
    lb_desc_write(&desc[head++ & mask], slot, request);
    bytes += length;
    if (++shown == PUBLISH_MESSAGES || bytes - shown_bytes >= PUBLISH_BYTES) {
      lb_tx_publish(endpoint, head);
      shown = 0;
      shown_bytes = bytes;
    }
  }
  if (shown)
    lb_tx_publish(endpoint, head);
  tx->credits -= i;
  tx->head = head;
  tx->bytes += bytes;
  return i;
}

static uint32_t send_portable(struct pst_endpoint *endpoint, const struct pst_request *requests,
                              uint32_t n)
{
  return send_plain(endpoint, requests, n);
}

#if defined(__x86_64__)
/* No target_clones: its resolver runs before TSan is up. */
__attribute__((target("avx2"))) static uint32_t
send_avx2(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n)
{
  return send_plain(endpoint, requests, n);
}
#endif

lb_send_fn *lb_send_plain(void)
{
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return send_avx2;
#endif
  return send_portable;
}
