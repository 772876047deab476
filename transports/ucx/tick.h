/* SPDX-License-Identifier: Apache-2.0 */
/* What goes by the clock: peers that died or owe an answer for too long, links that leave. */
#ifndef UCX_TICK_H
#define UCX_TICK_H

#include <stdint.h>

struct pst_worker;

void ucx_tick(struct pst_worker *worker, uint64_t now_ns);

#endif
