/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for any device. */
#ifndef UCX_LIMITS_H
#define UCX_LIMITS_H

#include <penstock/transport.h>

/* What holds for any device; addresses and keys are measured at open. */
const struct pst_limits *ucx_limits_known(void);

#endif
