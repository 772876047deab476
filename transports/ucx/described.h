/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of this plugin that need no UCX. The description is built of this file alone. */
#ifndef UCX_DESCRIBED_H
#define UCX_DESCRIBED_H

#include <penstock/transport-cpu.h>

#define UCX_MESSAGE_MAX (UINT64_C(1) << 30)
#define UCX_SLOTS_MAX (1u << 20)
#define UCX_REQUESTS_MAX (1u << 16)
#define UCX_CAPABILITIES                                                                           \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_META | PST_CAP_SHARED_RING | PST_CAP_WAKEUP |      \
   PST_CAP_DYNAMIC | PST_CAP_TWO_SIDED)

/* Option `peer_failure`. */
enum ucx_peer_failure { UCX_FAILURE_AUTO = 0, UCX_FAILURE_UCX = 1, UCX_FAILURE_OWN = 2 };

#endif
