/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that hold for any device. */
#ifndef UCX_LIMITS_H
#define UCX_LIMITS_H

#include <penstock/transport.h>

/* Returns the limits that hold for any device; addresses and keys are measured at open. */
const struct pst_limits *ucx_limits_known(void);

#endif
