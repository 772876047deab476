/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, and the description of an endpoint in words. */
#include <stdio.h>

#include "connection.h"
#include "ops.h"

static void dc_stats_add(struct pst_counter_list *list, const char *name, uint64_t value,
                         uint64_t flags)
{
  pst_counter_add(list, name, NULL, value, flags);
}

static void dc_stats_add_worker(struct pst_counter_list *list, const struct pst_worker *worker)
{
  const struct dc_worker *pool = dc_worker_of(worker);
  uint64_t idle = 0;

  for (const struct dc_initiator *one = pool->free; one; one = one->next_free)
    idle++;
  dc_stats_add(list, "initiators", dc_device_of(worker->device)->initiators, PST_COUNTER_GAUGE);
  dc_stats_add(list, "initiators_free", idle, PST_COUNTER_GAUGE);
  dc_stats_add(list, "endpoints_waiting", pool->waiting, PST_COUNTER_GAUGE);
  dc_stats_add(list, "initiators_reset", pool->resets, 0);
  dc_stats_add(list, "streams_reset", pool->stream_resets, 0);
  dc_stats_add(list, "targets_replaced", pool->targets_made, 0);
  dc_stats_add(list, "probes_missed", pool->probes_missed, 0);
  dc_stats_add(list, "receives_of_nobody", pool->dropped, 0);
  dc_stats_add(list, "completion_queue", (uint64_t)worker->cq->cqe, PST_COUNTER_GAUGE);
  dc_stats_add(list, "completions_reserved", worker->cq_used, PST_COUNTER_GAUGE);
}

static void dc_stats_add_handles(struct pst_counter_list *list, struct dc_device *dc)
{
  pthread_mutex_lock(&dc->handles_lock);
  dc_stats_add(list, "address_handles", dc->handle_count, PST_COUNTER_GAUGE);
  dc_stats_add(list, "address_handles_made", dc->handles_made, 0);
  pthread_mutex_unlock(&dc->handles_lock);
}

int dc_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_list list = {counters, max, 0};

  if (endpoint && endpoint->tx) {
    dc_stats_add(&list, "messages_sent", endpoint->tx->messages, 0);
    dc_stats_add(&list, "bytes_sent", endpoint->tx->bytes, 0);
    dc_stats_add(&list, "credit_messages_received", endpoint->tx->credit_messages, 0);
    dc_stats_add(&list, "credits", endpoint->tx->credits.count, PST_COUNTER_GAUGE);
  }
  if (endpoint && endpoint->rx) {
    dc_stats_add(&list, "messages_received", endpoint->rx->arrived, 0);
    dc_stats_add(&list, "bytes_received", endpoint->rx->bytes, 0);
    dc_stats_add(&list, "credits_granted", endpoint->rx->granted, PST_COUNTER_GAUGE);
  }
  if (!endpoint && worker)
    dc_stats_add_worker(&list, worker);
  if (!endpoint && !worker) {
    const struct vb_counters *now = &device->port_now;
    dc_stats_add_handles(&list, dc_device_of(device));
    vb_counters_read(device->counter_folder, device->counter_host, &device->port_now);
    for (uint32_t i = 0; i < now->count; i++)
      dc_stats_add(&list, now->at[i].name,
                   vb_counters_growth(&device->port_before, now, now->at[i].name), 0);
  }
  return (int)list.count;
}

int dc_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct pst_device *device = endpoint->device;
  const struct dc_endpoint *dc = dc_of(endpoint);
  char peer[VB_GID_TEXT], reason[DC_REASON];
  struct dc_blob own;

  if (size == 0)
    return -EINVAL;
  dc_local_address(dc, &own);
  if (dc->stage == DC_NEW) {
    snprintf(text, size, "%s port %u, DCTs %u, %u, %s, not connected", device->open.info->name,
             device->open.port->number, own.control, own.data, dc_gid_reason(dc, reason));
    return 0;
  }
  vb_gid_address(dc->peer.gid, peer);
  snprintf(text, size,
           "%s port %u, DCTs %u, %u to DCTs %u, %u of %s by %u initiators, MTU %u, hop limit %u, "
           "queues of %u sends, inline %u bytes, %s",
           device->open.info->name, device->open.port->number, own.control, own.data,
           dc->peer.control, dc->peer.data, peer, dc_device_of(device)->initiators,
           vb_mtu_bytes((enum ibv_mtu)dc->home.mtu), device->path.hop_limit, endpoint->sq.size,
           endpoint->sq.max_inline, dc_gid_reason(dc, reason));
  return 0;
}
