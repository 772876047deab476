/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that the description knows, too. */
#ifndef RC_DESCRIBED_H
#define RC_DESCRIBED_H

#include <penstock/transport.h>

#define RC_BYTES_MAX (UINT64_C(1) << 30) /* of a message, whatever the port has */
#define RC_SLOTS_MAX (1u << 22)
enum rc_relaxed { RC_RELAXED_AUTO, RC_RELAXED_NEVER, RC_RELAXED_ALWAYS }; /* of the option */
#define RC_CAPABILITIES                                                                            \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_SHARED_RING | PST_CAP_WAKEUP | PST_CAP_DYNAMIC)

#endif
