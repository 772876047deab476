/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the endpoints of a ring share its slots.
 *
 * A slot is an endpoint's from the time at which its peer may send for the slot until the host has
 * given the slot back. One is kept for each endpoint that has none, come or not.
 */
#ifndef UCX_RING_SHARE_H
#define UCX_RING_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct ucx_share {
  uint64_t granted;  /* slots, ever: the position of the first SEND that the peer must not make */
  uint64_t released; /* of them, ever */
  uint64_t base;     /* what it has while it can */
};

struct ucx_shares {
  uint32_t slots;
  uint32_t endpoints;         /* of the ring, at most */
  uint32_t endpoint_slots;    /* of one of them, at most; 0: its base */
  uint32_t come;              /* endpoints that are there */
  uint32_t idle;              /* endpoints, come or not, that have no slot */
  uint64_t bases;             /* of those that are there, together */
  uint64_t granted, released; /* of all, ever */
  struct ucx_share nobody;    /* has slots that are out behind their endpoint's end */
  struct ucx_share **owners;  /* by slot, of those that are out */
};

/* 0 or -ENOMEM. */
int ucx_shares_open(struct ucx_shares *shares, uint32_t slots, uint32_t endpoints,
                    uint32_t endpoint_slots);
void ucx_shares_close(struct ucx_shares *shares);

/* An endpoint comes: what it has of its own is granted, as far as it is free. */
void ucx_share_begin(struct ucx_shares *shares, struct ucx_share *share);
/* Ends an endpoint's share of the ring. `out` marks slots whose messages the host has; `fetched`
 * more are written to, and ucx_shares_give() gives each of them back. All others are free. */
void ucx_share_end(struct ucx_shares *shares, struct ucx_share *share, const uint8_t *out,
                   uint32_t fetched);
/* How many more slots the peer is to be granted now; the last `unused` of its grants are not used
 * yet. They are not granted one by one while the peer has others to go on with. An endpoint that
 * uses all that it has gets as many again, up to endpoint_slots. */
uint64_t ucx_share_more(const struct ucx_shares *shares, const struct ucx_share *share,
                        uint64_t unused);
/* Tell the peer that it may send for `count` slots more. */
void ucx_share_grant(struct ucx_shares *shares, struct ucx_share *share, uint64_t count);

/* The host gets a message in this slot. */
static inline void ucx_share_take(struct ucx_shares *shares, struct ucx_share *share, uint32_t slot)
{
  shares->owners[slot] = share;
}
static inline void ucx_shares_give(struct ucx_shares *shares)
{
  shares->released++;
}
/* The host has given it back. */
static inline void ucx_share_release(struct ucx_shares *shares, uint32_t slot)
{
  struct ucx_share *share = shares->owners[slot];

  shares->released++;
  if (++share->released == share->granted)
    shares->idle++;
}

#endif
