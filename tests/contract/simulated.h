/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and questions of tests of verbs_rc to the simulated device that they run on. */
#ifndef CONTRACT_SIMULATED_H
#define CONTRACT_SIMULATED_H

#include "harness.h"

/* The path of `ctl`: set by main(), before all else. */
extern const char *simulated_launcher;

/* `ctl . ACTION` */
void simulated_ctl(const char *action);
/* Adds up the numbers behind `before` in the lines of `ctl . ACTION`. */
uint64_t simulated_said(const char *action, const char *before);
/* With all shared receive queues of the fabric. */
uint64_t simulated_receives_posted(void);

/* A counter of a side's worker, or of an endpoint if it is not NULL. UINT64_MAX: there is none. */
uint64_t simulated_counter(const struct contract_side *side, struct pst_endpoint *endpoint,
                           const char *name);
/* A counter of a side's device. UINT64_MAX: there is none. */
uint64_t simulated_device_counter(const struct contract_side *side, const char *name);

/* Endpoint k of either side connects to the other's, and both have heard of it. */
void simulated_meet(struct contract_side *a, struct contract_side *b, uint32_t k);

#endif
