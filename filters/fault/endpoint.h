/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint around one of the transport inside, whose cookie is the address of ours. */
#ifndef FAULT_ENDPOINT_H
#define FAULT_ENDPOINT_H

#include "device.h"
#include "engine.h"

struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_endpoint *inner; /* NULL: closed inside */
  struct pst_endpoint *next;
  struct fault_engine *engine; /* of a sender; NULL: everything passes as it is */
  uint64_t cookie;
};

#include "pass.h"

static inline uint64_t fault_now(const struct pst_endpoint *endpoint)
{
  const struct pst_host *host = endpoint->worker->device->host;
  return host->clock_ns(host);
}

/* Take it off its worker's list too. */
void fault_endpoint_forget(struct pst_endpoint *endpoint);
void fault_endpoint_free(struct pst_endpoint *endpoint);
/* Cut it off, before the message of that number. */
void fault_kill(struct pst_endpoint *endpoint, uint64_t sequence);
/* The host has closed: close inside once nothing is held. */
void fault_close_progress(struct pst_endpoint *endpoint);

#endif
