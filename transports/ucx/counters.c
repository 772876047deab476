/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of an endpoint. */
#include <penstock/transport-util.h>

#include "device.h"
#include "endpoint.h"
#include "ops.h"
#include "worker.h"

int ucx_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_list list = {counters, max, 0};

  (void)device, (void)worker;
  if (!endpoint)
    return 0;
  if (endpoint->cpu.params.roles & PST_ROLE_SENDER) {
    pst_counter_add(&list, "messages_sent", NULL, endpoint->tx.messages, 0);
    pst_counter_add(&list, "bytes_sent", NULL, endpoint->tx.bytes, 0);
  }
  if (endpoint->cpu.ring) {
    pst_counter_add(&list, "messages_received", NULL, endpoint->rx.messages, 0);
    pst_counter_add(&list, "bytes_received", NULL, endpoint->rx.bytes, 0);
  }
  return (int)list.count;
}
