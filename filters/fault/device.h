/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and workers around those of the transport inside. */
#ifndef FAULT_DEVICE_H
#define FAULT_DEVICE_H

#include "mr.h"
#include "plan.h"
#include "pool.h"

struct pst_device {
  const struct pst_host *host;
  const struct pst_transport_ops *ops;
  struct pst_device *inner;
  struct fault_plan plan;
  uint32_t requests_max; /* the inner transport's */
  _Atomic(struct fault_mr *) mrs;
  struct fault_pool pool;
};

struct pst_worker {
  struct pst_device *device;
  struct pst_worker *inner;
  struct pst_endpoint *endpoints;
};

#endif
