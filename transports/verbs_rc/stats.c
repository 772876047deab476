/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, and the description of an endpoint in words. */
#include <stdio.h>

#include "../verbs/srq.h"
#include "cm.h"
#include "ops.h"

static void rc_stats_add(struct pst_counter_list *list, const char *name, uint64_t value,
                         uint64_t flags)
{
  pst_counter_add(list, name, NULL, value, flags);
}

/* The worker's in all: `receives_missing` are to be posted, and are not. */
static void rc_stats_add_shared(struct pst_counter_list *list, const struct pst_worker *worker)
{
  uint64_t reserved = 0, missing = 0, bytes = 0;

  for (uint32_t i = 0; i < worker->shared.room; i++) {
    const struct vb_srq *one = worker->shared.all[i].at;
    if (!one)
      continue;
    reserved += one->reserved;
    missing += one->reserved > one->posted ? one->reserved - one->posted : 0;
    bytes += one->buffers ? (uint64_t)one->size * VB_SRQ_CREDIT_BYTES : 0;
  }
  rc_stats_add(list, "shared_receives", reserved, PST_COUNTER_GAUGE);
  rc_stats_add(list, "shared_receives_missing", missing, PST_COUNTER_GAUGE);
  rc_stats_add(list, "shared_receive_bytes", bytes, PST_COUNTER_GAUGE);
}

/* Packets to a peer that is absent or gone are sent again on a healthy link, too. */
void rc_tell_slow(struct pst_device *device)
{
  const struct vb_open *open = &device->open;
  char text[1024];

  vb_counters_read(device->counter_folder, device->counter_host, &device->port_now);
  if (device->has_told_slow || atomic_load_explicit(&device->has_lost_peer, memory_order_relaxed) ||
      !vb_counters_slow(&device->port_before, &device->port_now, text, sizeof(text)))
    return;
  device->has_told_slow = true;
  VB_LOG(
      device, PST_LOG_WARN,
      "%s port %u: the link is slow: since it was opened packets were sent again or discarded: %s "
      "(those of other programs included). Check: %s",
      open->info->name, open->port->number, text,
      open->port->is_ethernet
          ? "flow control (PFC) and ECN of the adapters' and the switches' priority, the one "
            "that `traffic_class` or `service_level` names; cables and their errors (`ethtool "
            "-S`)"
          : "cables and their errors (`ibqueryerrors`); routes that others fill");
}

/* Counters of port and host since the device was opened; other programs' traffic is in them,
 * too. */
static void rc_stats_add_port(struct pst_counter_list *list, struct pst_device *device)
{
  const struct vb_counters *now = &device->port_now;

  rc_tell_slow(device);
  for (uint32_t i = 0; i < now->count; i++)
    rc_stats_add(list, now->at[i].name,
                 vb_counters_growth(&device->port_before, now, now->at[i].name), 0);
}

/* Fills in the counters of an endpoint, of its worker or of the device, and returns how many there
 * are. */
int rc_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_list list = {counters, max, 0};

  if (endpoint && endpoint->tx) {
    rc_stats_add(&list, "messages_sent", endpoint->tx->messages, 0);
    rc_stats_add(&list, "bytes_sent", endpoint->tx->bytes, 0);
    rc_stats_add(&list, "runs_sent", endpoint->tx->runs, 0);
    rc_stats_add(&list, "credit_messages_received", endpoint->tx->credit_messages, 0);
    rc_stats_add(&list, "credits", endpoint->tx->credits.count, PST_COUNTER_GAUGE);
  }
  if (endpoint && endpoint->rx) {
    rc_stats_add(&list, "messages_received", endpoint->rx->arrived, 0);
    rc_stats_add(&list, "bytes_received", endpoint->rx->bytes, 0);
    rc_stats_add(&list, "credit_messages_sent", endpoint->rx->credits_sent, 0);
    if (!endpoint->shared)
      rc_stats_add(&list, "receives_posted", endpoint->rc->lanes[0].rq.posted, PST_COUNTER_GAUGE);
  }
  if (endpoint && endpoint->device->reconnect_ns) {
    rc_stats_add(&list, "reconnections", endpoint->rc->reconnect.count, 0);
    rc_stats_add(&list, "messages_repeated", endpoint->rc->reconnect.repeated, 0);
  }
  if (endpoint && endpoint->lane_count > 1)
    rc_stats_add(&list, "queue_pairs", endpoint->lane_count, PST_COUNTER_GAUGE);
  if (!endpoint && !worker)
    rc_stats_add_port(&list, device);
  if (!endpoint && worker) {
    rc_stats_add(&list, "completion_queue", (uint64_t)worker->cq->cqe, PST_COUNTER_GAUGE);
    if (device->numa_node >= 0 && worker->numa_node >= 0) {
      rc_stats_add(&list, "numa_node", (uint64_t)worker->numa_node, PST_COUNTER_GAUGE);
      rc_stats_add(&list, "adapter_numa_node", (uint64_t)device->numa_node, PST_COUNTER_GAUGE);
    }
    rc_stats_add(&list, "completions_reserved", worker->cq_used, PST_COUNTER_GAUGE);
    if (device->shares)
      rc_stats_add_shared(&list, worker);
  }
  return (int)list.count;
}

/* "QP 17", "QPs 17, 18", "QPs 17, 18 (answers: 19, 20)" */
static void rc_stats_name_queue_pairs(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct rc_lane *lanes = endpoint->rc->lanes;
  const bool is_split = endpoint->rc->is_split;

  snprintf(text, size, "QP%s", endpoint->lane_count > 1 || is_split ? "s" : "");
  for (uint32_t i = 0; i < endpoint->lane_count; i++)
    vb_text_add(text, size, "%s %u", i ? "," : "", lanes[i].qp->qp_num);
  for (uint32_t i = 0; is_split && i < endpoint->lane_count; i++)
    vb_text_add(text, size, "%s %u", i ? "," : " (answers:", lanes[i].rq.qp->qp_num);
  vb_text_add(text, size, "%s", is_split ? ")" : "");
}

/* "264 sends (511 given)": as it was asked for, and as the device has it, where that is more. */
static void rc_stats_add_size(char *text, size_t size, const char *what, uint32_t asked,
                              uint32_t given)
{
  vb_text_add(text, size, "%u %s", asked, what);
  if (given > asked)
    vb_text_add(text, size, " (%u given)", given);
}

/* The queues of the first queue pair: "queues of 264 sends and 64 receives, inline 128 bytes" */
static void rc_stats_size_queues(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct ibv_qp_cap *given = &endpoint->rc->given;

  snprintf(text, size, "queues of ");
  rc_stats_add_size(text, size, "sends", endpoint->sq.size, given->max_send_wr);
  vb_text_add(text, size, " and ");
  if (endpoint->shared)
    vb_text_add(text, size, "shared receives");
  else
    rc_stats_add_size(text, size, "receives", endpoint->rc->lanes[0].rq.size, given->max_recv_wr);
  vb_text_add(text, size, ", inline %u bytes", endpoint->sq.max_inline);
}

/* ", 512 slots, 30 us of 200 Gbit/s": how long the sender may go on while no slot comes back. */
static void rc_stats_time_slots(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const uint32_t mbps = endpoint->device->open.port->mbps;

  if (!endpoint->rx || mbps == 0)
    return;
  const uint64_t bits = 8 * endpoint->rx->ring->params.payload_max * endpoint->rx->share;
  vb_text_add(text, size, ", %u slots, %llu us of %g Gbit/s", endpoint->rx->share,
              (unsigned long long)((bits + mbps / 2) / mbps), mbps / 1000.0);
}

/* Says how many packets a message takes, if one packet of a larger MTU could hold the message. The
 * netdev's MTU has to be that of the path and 60 bytes more, for RoCE v2's headers. */
static void rc_stats_count_packets(const struct pst_endpoint *endpoint, uint32_t mtu_bytes,
                                   char *text, size_t size)
{
  const uint64_t bytes = endpoint->tx ? endpoint->tx->message_max : 0;

  text[0] = '\0';
  if (bytes > mtu_bytes && bytes <= 4096)
    snprintf(text, size, " (%u packets a message)",
             (uint32_t)((bytes + mtu_bytes - 1) / mtu_bytes));
}

/* Writes device, queue pairs and route of the connection as text. */
int rc_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct pst_device *device = endpoint->device;
  char peer[VB_GID_TEXT], route[96], own[224], queues[224], packets[48];

  if (size == 0)
    return -EINVAL;
  rc_stats_name_queue_pairs(endpoint, own, sizeof(own));
  if (endpoint->rc->stage.name == RC_NEW) {
    snprintf(text, size, "%s port %u, %s, %s, not connected", device->open.info->name,
             device->open.port->number, own, endpoint->rc->where.reason);
    return 0;
  }
  const uint32_t mtu =
      vb_mtu_bytes((enum ibv_mtu)vb_smaller(endpoint->rc->peer.mtu, endpoint->rc->own.mtu));
  rc_stats_count_packets(endpoint, mtu, packets, sizeof(packets));
  vb_gid_address(endpoint->rc->peer.gid, peer);
  snprintf(route, sizeof(route), "hop limit %u", device->path.hop_limit);
  if (endpoint->rc->cm)
    device->cm->describe(endpoint, route, sizeof(route));
  const uint32_t ece = vb_ece_common(endpoint->rc->own.ece, endpoint->rc->peer.ece).options;
  if (ece)
    vb_text_add(route, sizeof(route), ", ECE 0x%x", ece);
  rc_stats_size_queues(endpoint, queues, sizeof(queues));
  rc_stats_time_slots(endpoint, queues, sizeof(queues));
  snprintf(text, size, "%s port %u, %s to QP %u of %s, MTU %u%s, %s, %s%s, %s",
           device->open.info->name, device->open.port->number, own, endpoint->rc->peer.qps[0].qpn,
           peer, mtu, packets, route, endpoint->rc->own.sends ? "messages by SEND, " : "", queues,
           endpoint->rc->where.reason);
  return 0;
}
