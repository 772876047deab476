/* SPDX-License-Identifier: Apache-2.0 */
/* How the endpoints of a ring share its slots. */
#include "ring_share.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <penstock/transport-util.h>

int ucx_shares_open(struct ucx_shares *shares, uint32_t slots, uint32_t endpoints,
                    uint32_t endpoint_slots)
{
  *shares = (struct ucx_shares){.slots = slots,
                                .endpoints = endpoints,
                                .endpoint_slots = endpoint_slots,
                                .idle = endpoints,
                                .nobody = {.granted = UINT64_MAX}};
  shares->owners = calloc(slots, sizeof(*shares->owners));
  return shares->owners ? 0 : -ENOMEM;
}

void ucx_shares_close(struct ucx_shares *shares)
{
  free(shares->owners);
}

static uint64_t ucx_share_slots_of(const struct ucx_share *share)
{
  assert(share->granted >= share->released);
  return share->granted - share->released;
}

/* Slots that an endpoint may be granted: one is kept for each of the others that have none. */
static uint64_t ucx_share_room_for(const struct ucx_shares *shares, const struct ucx_share *share)
{
  const uint64_t others = shares->idle - (ucx_share_slots_of(share) == 0);
  const uint64_t taken = shares->granted - shares->released + others;

  return taken < shares->slots ? shares->slots - taken : 0;
}

static uint64_t ucx_share_smaller(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

void ucx_share_grant(struct ucx_shares *shares, struct ucx_share *share, uint64_t count)
{
  assert(count <= ucx_share_room_for(shares, share));
  if (ucx_share_slots_of(share) == 0 && count)
    shares->idle--;
  share->granted += count;
  shares->granted += count;
}

/* An equal share; where endpoints may grow, as much as any may have if that is there for all, else
 * one slot. */
static uint64_t ucx_share_base_of_next(const struct ucx_shares *shares)
{
  if (!shares->endpoint_slots)
    return pst_slots_share((uint32_t)(shares->slots - shares->bases),
                           shares->endpoints - shares->come);
  if (shares->endpoint_slots <= shares->slots / shares->endpoints)
    return shares->endpoint_slots;
  return 1;
}

void ucx_share_begin(struct ucx_shares *shares, struct ucx_share *share)
{
  assert(shares->come < shares->endpoints);
  *share = (struct ucx_share){.base = ucx_share_base_of_next(shares)};
  shares->come++;
  shares->bases += share->base;
  ucx_share_grant(shares, share, ucx_share_smaller(share->base, ucx_share_room_for(shares, share)));
}

void ucx_share_end(struct ucx_shares *shares, struct ucx_share *share, const uint8_t *out,
                   uint32_t fetched)
{
  uint64_t kept = fetched;

  for (uint32_t slot = 0; slot < shares->slots; slot++)
    if (shares->owners[slot] == share) {
      shares->owners[slot] = &shares->nobody;
      kept += out[slot] != 0;
    }
  assert(kept <= ucx_share_slots_of(share));
  if (ucx_share_slots_of(share))
    shares->idle++;
  shares->released += ucx_share_slots_of(share) - kept;
  shares->come--;
  shares->bases -= share->base;
}

uint64_t ucx_share_more(const struct ucx_shares *shares, const struct ucx_share *share,
                        uint64_t unused)
{
  const uint64_t has = ucx_share_slots_of(share);
  uint64_t more;

  if (has < share->base) {
    more = share->base - has;
    if (more < share->base / 4 && unused > share->base / 2)
      return 0;
  } else {
    if (has >= shares->endpoint_slots || unused > has / 2)
      return 0;
    more = ucx_share_smaller(shares->endpoint_slots - has, has ? has : 1);
  }
  return ucx_share_smaller(more, ucx_share_room_for(shares, share));
}
