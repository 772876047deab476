/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes that a device grants for those that a program asks for: some devices round up, and some
 * grant less and return what they granted. */
#include "objects.h"

static uint32_t sim_grant_size(const struct fab_caps *caps, uint32_t asked, uint32_t most,
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

void sim_grant_qp(const struct fab_caps *caps, struct ibv_qp_cap *cap)
{
  cap->max_send_wr = sim_grant_size(caps, cap->max_send_wr, caps->max_qp_wr, caps->gives_sends);
  cap->max_recv_wr = sim_grant_size(caps, cap->max_recv_wr, caps->max_qp_wr, caps->gives_receives);
  cap->max_send_sge = sim_grant_size(caps, cap->max_send_sge, caps->max_sge, caps->gives_pieces);
  cap->max_recv_sge = sim_grant_size(caps, cap->max_recv_sge, caps->max_sge, caps->gives_pieces);
  cap->max_inline_data =
      sim_grant_size(caps, cap->max_inline_data, caps->max_inline, caps->gives_inline);
}

void sim_grant_srq(const struct fab_caps *caps, struct ibv_srq_attr *attr)
{
  attr->max_wr = sim_grant_size(caps, attr->max_wr, caps->max_srq_wr, caps->gives_shared);
  attr->max_sge = sim_grant_size(caps, attr->max_sge, caps->max_srq_sge, caps->gives_pieces);
}

uint32_t sim_grant_cqe(const struct fab_caps *caps, uint32_t asked)
{
  return asked < caps->gives_cqe ? asked : caps->gives_cqe;
}
