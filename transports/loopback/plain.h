/* SPDX-License-Identifier: Apache-2.0 */
/* The SENDs that most are: of one piece, out of the region that the one before was of; and how
 * short ones are copied. */
#ifndef LOOPBACK_PLAIN_H
#define LOOPBACK_PLAIN_H

#include "loopback.h"

#define LB_ALWAYS_INLINE inline __attribute__((always_inline))

/* A move of one is one instruction where the function it is in is compiled for that. */
typedef uint8_t lb_vector32 __attribute__((vector_size(32), aligned(1), may_alias));

static LB_ALWAYS_INLINE void lb_move32(uint8_t *to, const uint8_t *from)
{
  *(lb_vector32 *)to = *(const lb_vector32 *)from;
}

/* In line: for small messages a call costs as much as their copy. False: it is for memcpy(). */
static LB_ALWAYS_INLINE bool lb_copy_short(uint8_t *restrict to, const uint8_t *restrict from,
                                           uint64_t length)
{
  if (length - 32 > 32)
    return false;
  lb_move32(to, from);
  lb_move32(to + length - 32, from + length - 32);
  return true;
}

/* The region that the last request named, and the longest message it may name. */
struct lb_source {
  const struct lb_mr *mr;
  uint64_t longest;
};

static LB_ALWAYS_INLINE bool lb_is_plain(const struct pst_endpoint *endpoint,
                                         const struct pst_request *request,
                                         struct lb_source *source)
{
  const uint64_t flags = pst_request_head_of(0, PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE);
  const struct lb_mr *mr = lb_mr_of(request->local.mr);
  /* Of several pieces, `local` is not an mr. */
  if (__builtin_expect((pst_request_head(request) & ~flags) != pst_request_head_of(PST_OP_SEND, 0),
                       0))
    return false;
  if (__builtin_expect(mr != source->mr, 0)) {
    if (!mr || !mr->base || !(mr->access & PST_ACCESS_LOCAL_READ))
      return false;
    source->mr = mr;
    source->longest = endpoint->tx.message_max < mr->length ? endpoint->tx.message_max : mr->length;
  }
  return __builtin_expect(mr && request->arg.length <= source->longest &&
                              request->offset <= mr->length - request->arg.length &&
                              !request->u.send.departure_ns,
                          1);
}

#endif
