/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of peers that wait for an initiator: probe.c. */
#ifndef DC_PROBE_H
#define DC_PROBE_H

#include "endpoint.h"

/* As long as some wait, this has to be called every few milliseconds. */
#define DC_PROBE_LOOK_NS UINT64_C(4000000)
void dc_probe_look(struct pst_worker *worker);
/* A completion of its probe, else nothing happens. */
void dc_probe_sent(struct dc_endpoint *dc, const struct ibv_wc *wc);
/* Forgets an endpoint that goes. Its address handle stays as long as its probe is under way. */
void dc_probe_forget(struct dc_endpoint *dc);
/* The prober is no more. */
void dc_probe_close(struct dc_worker *pool);

#endif
