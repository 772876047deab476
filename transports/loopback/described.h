/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that the description knows, too. */
#ifndef LB_DESCRIBED_H
#define LB_DESCRIBED_H

#include <penstock/memory.h>
#include <penstock/transport.h>

enum lb_mode { LB_MODE_COPY = 0, LB_MODE_REFERENCE = 1 };

#define LB_BYTES_MAX (UINT64_C(1) << 30) /* of a message, and of a READ or WRITE */
#define LB_SLOTS_MAX (1u << 22)
#define LB_CAPABILITIES                                                                            \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_META | PST_CAP_LEND | PST_CAP_SHARED_RING |        \
   PST_CAP_WAKEUP | PST_CAP_DYNAMIC | PST_CAP_DEVICE_RMA | PST_CAP_BARE_RING |                     \
   PST_CAP_DESCRIPTORS)

#endif
