/* SPDX-License-Identifier: Apache-2.0 */
/* Timed work: peers that died or owe an answer for too long, links that leave. */
#ifndef UCX_TIMERS_H
#define UCX_TIMERS_H

#include <stdint.h>

struct pst_worker;

void ucx_timers_poll(struct pst_worker *worker, uint64_t now_ns);

#endif
