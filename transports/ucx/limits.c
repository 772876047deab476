/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the device. */
#include "limits.h"

#include <penstock/transport-cpu.h>

#include "described.h"
#include "device.h"
#include "ops.h"

static const struct pst_limits known = {
    .capabilities = UCX_CAPABILITIES,
    .sequence_bits = 64,
    .message_max = UCX_MESSAGE_MAX,
    .rma_max = UCX_MESSAGE_MAX,
    /* No needs of memory: mr_register says whether this UCX reaches a GPU, and why not. */
    .slot_alignment = 1,
    .slots_min = 1,
    .page_size = 1,
    .pieces_max = PST_CPU_PIECES_MAX,
    .slots_max = UCX_SLOTS_MAX,
    .requests_max = UCX_REQUESTS_MAX,
    .workers_max = 256,
    .endpoints_max = 1024,
    .endpoints_reason = "each endpoint has a ucp_worker of its own: about 10 descriptors and 4 MiB",
};

const struct pst_limits *ucx_limits_known(void)
{
  return &known;
}

int ucx_limits(struct pst_device *device, struct pst_limits *limits)
{
  struct pst_limits made = known;

  made.address_max = device->address_max;
  made.remote_max = device->remote_max;
  pst_struct_write(limits, &made, sizeof(made));
  return 0;
}
