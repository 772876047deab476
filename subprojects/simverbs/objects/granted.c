/* SPDX-License-Identifier: Apache-2.0 */
/* What a device makes of the sizes that it is asked for: some round up, and some give less than
 * they were asked for and say so in what they return. */
#include "objects.h"

static uint32_t sim_given_give(const struct fab_caps *caps, uint32_t asked, uint32_t most,
                               uint32_t gives)
{
  uint64_t size = asked;

  if (caps->rounds_up && asked) {
    for (size = 1; size < asked;)
      size *= 2;
    size = size < most ? size : most;
  }
  return size < gives ? (uint32_t)size : gives;
}

void sim_give_qp(const struct fab_caps *caps, struct ibv_qp_cap *cap)
{
  cap->max_send_wr = sim_given_give(caps, cap->max_send_wr, caps->max_qp_wr, caps->gives_sends);
  cap->max_recv_wr = sim_given_give(caps, cap->max_recv_wr, caps->max_qp_wr, caps->gives_receives);
  cap->max_send_sge = sim_given_give(caps, cap->max_send_sge, caps->max_sge, caps->gives_pieces);
  cap->max_recv_sge = sim_given_give(caps, cap->max_recv_sge, caps->max_sge, caps->gives_pieces);
  cap->max_inline_data =
      sim_given_give(caps, cap->max_inline_data, caps->max_inline, caps->gives_inline);
}

void sim_give_srq(const struct fab_caps *caps, struct ibv_srq_attr *attr)
{
  attr->max_wr = sim_given_give(caps, attr->max_wr, caps->max_srq_wr, caps->gives_shared);
  attr->max_sge = sim_given_give(caps, attr->max_sge, caps->max_srq_sge, caps->gives_pieces);
}

uint32_t sim_give_cqe(const struct fab_caps *caps, uint32_t asked)
{
  return asked < caps->gives_cqe ? asked : caps->gives_cqe;
}
