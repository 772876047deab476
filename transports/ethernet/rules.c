/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow rules (rte_flow): what is for a receiver comes by the queue of its ring.
 *
 * A rule matches what is known when the port starts: VLAN, destination address, UDP, destination
 * port, and the source where the option `source` names it. The receiver judges each frame in any
 * case, so that a rule that takes too much does no harm, nor does one that is missing: by another
 * queue frames are copied.
 */
#include <stdio.h>

#include <rte_errno.h>
#include <rte_flow.h>

#include "port.h"

/* Headers of one pattern, each with its mask. */
struct pattern {
  struct rte_flow_item items[5];
  uint32_t count;
  struct rte_flow_item_vlan vlan, vlan_mask;
  struct rte_flow_item_ipv4 v4, v4_mask;
  struct rte_flow_item_ipv6 v6, v6_mask;
  struct rte_flow_item_udp udp, udp_mask;
};

static void pattern_add(struct pattern *pattern, enum rte_flow_item_type type, const void *spec,
                        const void *mask)
{
  pattern->items[pattern->count++] =
      (struct rte_flow_item){.type = type, .spec = spec, .mask = mask};
}

static void add_v4(struct pattern *pattern, const uint8_t to[16], const uint8_t *from)
{
  memcpy(&pattern->v4.hdr.dst_addr, to + 12, 4);
  pattern->v4_mask.hdr.dst_addr = UINT32_MAX;
  if (from) {
    memcpy(&pattern->v4.hdr.src_addr, from + 12, 4);
    pattern->v4_mask.hdr.src_addr = UINT32_MAX;
  }
  pattern_add(pattern, RTE_FLOW_ITEM_TYPE_IPV4, &pattern->v4, &pattern->v4_mask);
}

static void add_v6(struct pattern *pattern, const uint8_t to[16], const uint8_t *from)
{
  memcpy(pattern->v6.hdr.dst_addr, to, 16);
  memset(pattern->v6_mask.hdr.dst_addr, 0xff, 16);
  if (from) {
    memcpy(pattern->v6.hdr.src_addr, from, 16);
    memset(pattern->v6_mask.hdr.src_addr, 0xff, 16);
  }
  pattern_add(pattern, RTE_FLOW_ITEM_TYPE_IPV6, &pattern->v6, &pattern->v6_mask);
}

static void pattern_make(const struct eth_port *port, const struct pst_endpoint *endpoint,
                         struct pattern *pattern)
{
  const struct dg_flow_params *flow = &endpoint->dg.flow;
  const uint8_t *from = flow->address_is_fixed ? flow->source.address : NULL;

  memset(pattern, 0, sizeof(*pattern));
  pattern_add(pattern, RTE_FLOW_ITEM_TYPE_ETH, NULL, NULL);
  if (port->vlan != ETH_UNTAGGED) {
    pattern->vlan.tci = rte_cpu_to_be_16(port->vlan);
    pattern->vlan_mask.tci = RTE_BE16(0x0fff);
    pattern_add(pattern, RTE_FLOW_ITEM_TYPE_VLAN, &pattern->vlan, &pattern->vlan_mask);
  }
  if (eth_is_v4(endpoint->at))
    add_v4(pattern, endpoint->at, from);
  else
    add_v6(pattern, endpoint->at, from);
  pattern->udp.hdr.dst_port = rte_cpu_to_be_16(endpoint->udp_port);
  pattern->udp_mask.hdr.dst_port = UINT16_MAX;
  if (flow->port_is_fixed) {
    pattern->udp.hdr.src_port = rte_cpu_to_be_16(flow->source.port);
    pattern->udp_mask.hdr.src_port = UINT16_MAX;
  }
  pattern_add(pattern, RTE_FLOW_ITEM_TYPE_UDP, &pattern->udp, &pattern->udp_mask);
  pattern_add(pattern, RTE_FLOW_ITEM_TYPE_END, NULL, NULL);
}

static int refused(const struct rte_flow_error *error, const char *what, char why[ETH_SIZES_WHY])
{
  const int rc = rte_errno ? -rte_errno : -ENOTSUP;

  snprintf(why, ETH_SIZES_WHY, "%s%s%s (%s)", what, error->message ? ": " : "",
           error->message ? error->message : "", strerror(-rc));
  return rc;
}

static int add_rule(struct eth_port *port, struct pst_endpoint *endpoint, char why[ETH_SIZES_WHY])
{
  static const struct rte_flow_attr incoming = {.ingress = 1};
  const struct eth_rxq *own = eth_ring_of(endpoint)->queue;
  const struct rte_flow_action_queue queue = {.index = own ? own->index : 0};
  const struct rte_flow_action actions[] = {
      {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
      {.type = RTE_FLOW_ACTION_TYPE_END},
  };
  struct rte_flow_error error = {.message = NULL};
  struct pattern pattern;

  pattern_make(port, endpoint, &pattern);
  rte_errno = 0;
  endpoint->rx->rule = rte_flow_create(port->id, &incoming, pattern.items, actions, &error);
  return endpoint->rx->rule ? 0 : refused(&error, "the driver refuses a flow rule", why);
}

int eth_port_isolate(struct eth_port *port, bool on, char why[ETH_SIZES_WHY])
{
  struct rte_flow_error error = {.message = NULL};

  rte_errno = 0;
  return rte_flow_isolate(port->id, on, &error) == 0
             ? 0
             : refused(&error, "the driver does not leave the rest to the kernel", why);
}

int eth_port_add_rules(struct eth_port *port, char why[ETH_SIZES_WHY])
{
  int rc = 0;

  ETH_FOR_EACH_WORKER(port, worker)
  for (uint32_t i = 0; rc == 0 && i < worker->endpoint_count; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    /* Without one the kernel would have the frames of a ring that has no queue. */
    if (endpoint->rx && (eth_ring_of(endpoint)->queue || port->has_kernel))
      rc = add_rule(port, endpoint, why);
  }
  if (rc < 0)
    eth_port_drop_rules(port);
  return rc;
}

void eth_port_drop_rule(struct eth_port *port, struct pst_endpoint *endpoint)
{
  struct rte_flow_error error = {.message = NULL};

  if (endpoint->rx->rule && rte_flow_destroy(port->id, endpoint->rx->rule, &error) != 0)
    ETH_PORT_LOG(port, PST_LOG_DEBUG, "a flow rule is not taken away: %s",
                 error.message ? error.message : strerror(rte_errno));
  endpoint->rx->rule = NULL;
}

void eth_port_drop_rules(struct eth_port *port)
{
  ETH_FOR_EACH_WORKER(port, worker)
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (worker->endpoints[i]->rx)
      eth_port_drop_rule(port, worker->endpoints[i]);
}
