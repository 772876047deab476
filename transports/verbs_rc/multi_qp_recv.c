/* SPDX-License-Identifier: Apache-2.0 */
/* Several queue pairs: what comes in by each of them, told in the order of the messages. */
#include <endian.h>

#include "rc.h"

void rc_lanes_hear(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  const bool is_hello =
      wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM && (be32toh(wc->imm_data) & 15) == RC_HELLO;

  if (endpoint->reconnect.by_ns) {
    if (!is_hello)
      rc_lanes_reconnect_met(endpoint);
    return;
  }
  /* Who says anything else has met this end on all of them. */
  for (uint32_t i = 0; !is_hello && i < endpoint->lane_count; i++)
    endpoint->lanes[i].is_heard = true;
  rc_lane_heard(endpoint, rc_lane_of(endpoint, wc));
}

struct rc_lane *rc_lane_received(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct rc_lane *lane = rc_lane_of(endpoint, wc);

  if (lane == endpoint->lanes)
    endpoint->rq_posted--;
  else
    lane->rq_posted--;
  return lane;
}

bool rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc)
{
  if (!endpoint->rx || lane->arrived_head - lane->arrived_tail > lane->arrived_mask)
    return false;
  lane->arrived[lane->arrived_head++ & lane->arrived_mask] =
      (struct rc_arrival){.length = wc->byte_len, .number = wc->imm_data};
  return true;
}

/* That which the next message comes by, if it is there. */
static struct rc_lane *next_of(const struct pst_endpoint *endpoint)
{
  struct rc_lane *lane = &endpoint->lanes[endpoint->rx->arrived % endpoint->lane_count];

  return lane->arrived_head != lane->arrived_tail ? lane : NULL;
}

bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct rc_out *out)
{
  struct rc_lane *lane;

  if (!endpoint->lanes || !endpoint->rx || endpoint->closing.mode)
    return true;
  while (out->room && (lane = next_of(endpoint)) != NULL) {
    const struct rc_arrival *one = &lane->arrived[lane->arrived_tail++ & lane->arrived_mask];
    const struct ibv_wc wc = {.status = IBV_WC_SUCCESS,
                              .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                              .byte_len = one->length,
                              .imm_data = one->number};
    const uint64_t before = endpoint->rx->arrived;
    rc_arrived(endpoint, &wc, out);
    if (endpoint->rx->arrived == before)
      return true; /* it has failed */
  }
  if (!next_of(endpoint))
    return true;
  rc_pend(endpoint);
  return false;
}
