/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that the description needs, too. */
#ifndef DC_DESCRIBED_H
#define DC_DESCRIBED_H

#include "../verbs/described.h"

#define DC_CAPABILITIES                                                                            \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_SHARED_RING | PST_CAP_WAKEUP | PST_CAP_DYNAMIC |   \
   PST_CAP_TWO_SIDED)

#endif
