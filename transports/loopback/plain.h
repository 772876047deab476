/* SPDX-License-Identifier: Apache-2.0 */
/* The SENDs that most are: of one piece, out of the region that the one before was of. */
#ifndef LOOPBACK_PLAIN_H
#define LOOPBACK_PLAIN_H

#include "loopback.h"

#define LB_ALWAYS_INLINE inline __attribute__((always_inline))

/* Opcode, flags, number of pieces and what is reserved, in one load. */
static LB_ALWAYS_INLINE uint64_t lb_kind_of(const struct pst_request *request)
{
  uint64_t kind;
  memcpy(&kind, request, sizeof(kind));
  return kind;
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
  static const struct pst_request sends = {.opcode = PST_OP_SEND};
  static const struct pst_request flags = {.flags = PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE};
  const struct lb_mr *mr = lb_mr_of(request->local.mr);
  /* Of several pieces, `local` is not an mr. */
  if (__builtin_expect((lb_kind_of(request) & ~lb_kind_of(&flags)) != lb_kind_of(&sends), 0))
    return false;
  if (__builtin_expect(mr != source->mr, 0)) {
    if (!mr || !mr->base || !(mr->access & PST_ACCESS_LOCAL_READ))
      return false;
    source->mr = mr;
    source->longest = endpoint->tx.message_max < mr->length ? endpoint->tx.message_max : mr->length;
  }
  return __builtin_expect(mr && request->arg.length <= source->longest &&
                              request->offset <= mr->length - request->arg.length &&
                              !request->u.send.reserved,
                          1);
}

#endif
