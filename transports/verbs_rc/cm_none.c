/* SPDX-License-Identifier: Apache-2.0 */
/* In place of cm.c in a build without librdmacm: the option is refused. */
#include "cm.h"

static int rc_cm_none_check(const struct pst_device *device)
{
  VB_LOG(device, PST_LOG_ERROR,
         "connection: rdma_cm is not in this build: librdmacm was missing (Debian: librdmacm-dev); "
         "`connection: exchange` needs none");
  return -EOPNOTSUPP;
}

const struct rc_cm_ops rc_cm = {.check = rc_cm_none_check};
