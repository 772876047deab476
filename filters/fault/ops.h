/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that are not the inner transport's as they are. */
#ifndef FAULT_OPS_H
#define FAULT_OPS_H

#include <penstock/transport.h>

int fault_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                      struct pst_mr **mr);
void fault_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int fault_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                        struct pst_endpoint **endpoint);
int fault_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns);
int fault_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
               uint32_t *wait);
int fault_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int fault_arm(struct pst_worker *worker);
int fault_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max);

#endif
