/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow rules (rte_flow): what is for a receiver comes by the queue of its ring.
 *
 * Receivers that match the same have one rule, which shares their frames by RSS over the queues of
 * their rings. A receiver of these that knows its sender, once they have met, has a rule for that.
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

static void eth_rules_pattern_add(struct pattern *pattern, enum rte_flow_item_type type,
                                  const void *spec, const void *mask)
{
  pattern->items[pattern->count++] =
      (struct rte_flow_item){.type = type, .spec = spec, .mask = mask};
}

static void eth_rules_add_v4(struct pattern *pattern, const uint8_t to[16], const uint8_t *from)
{
  memcpy(&pattern->v4.hdr.dst_addr, to + 12, 4);
  pattern->v4_mask.hdr.dst_addr = UINT32_MAX;
  if (from) {
    memcpy(&pattern->v4.hdr.src_addr, from + 12, 4);
    pattern->v4_mask.hdr.src_addr = UINT32_MAX;
  }
  eth_rules_pattern_add(pattern, RTE_FLOW_ITEM_TYPE_IPV4, &pattern->v4, &pattern->v4_mask);
}

static void eth_rules_add_v6(struct pattern *pattern, const uint8_t to[16], const uint8_t *from)
{
  memcpy(pattern->v6.hdr.dst_addr, to, 16);
  memset(pattern->v6_mask.hdr.dst_addr, 0xff, 16);
  if (from) {
    memcpy(pattern->v6.hdr.src_addr, from, 16);
    memset(pattern->v6_mask.hdr.src_addr, 0xff, 16);
  }
  eth_rules_pattern_add(pattern, RTE_FLOW_ITEM_TYPE_IPV6, &pattern->v6, &pattern->v6_mask);
}

static void eth_rules_pattern_make(const struct eth_port *port, const struct pst_endpoint *endpoint,
                                   const struct dg_flow_params *flow, struct pattern *pattern)
{
  const uint8_t *from = flow->address_is_fixed ? flow->source.address : NULL;

  memset(pattern, 0, sizeof(*pattern));
  eth_rules_pattern_add(pattern, RTE_FLOW_ITEM_TYPE_ETH, NULL, NULL);
  if (port->vlan != ETH_UNTAGGED) {
    pattern->vlan.tci = rte_cpu_to_be_16(port->vlan);
    pattern->vlan_mask.tci = RTE_BE16(0x0fff);
    eth_rules_pattern_add(pattern, RTE_FLOW_ITEM_TYPE_VLAN, &pattern->vlan, &pattern->vlan_mask);
  }
  if (eth_is_v4(endpoint->match.at))
    eth_rules_add_v4(pattern, endpoint->match.at, from);
  else
    eth_rules_add_v6(pattern, endpoint->match.at, from);
  pattern->udp.hdr.dst_port = rte_cpu_to_be_16(endpoint->udp_port);
  pattern->udp_mask.hdr.dst_port = UINT16_MAX;
  if (flow->port_is_fixed) {
    pattern->udp.hdr.src_port = rte_cpu_to_be_16(flow->source.port);
    pattern->udp_mask.hdr.src_port = UINT16_MAX;
  }
  eth_rules_pattern_add(pattern, RTE_FLOW_ITEM_TYPE_UDP, &pattern->udp, &pattern->udp_mask);
  eth_rules_pattern_add(pattern, RTE_FLOW_ITEM_TYPE_END, NULL, NULL);
}

static int eth_rules_refused(const struct rte_flow_error *error, const char *what,
                             char why[ETH_SIZES_WHY])
{
  const int rc = rte_errno ? -rte_errno : -ENOTSUP;

  snprintf(why, ETH_SIZES_WHY, "%s%s%s (%s)", what, error->message ? ": " : "",
           error->message ? error->message : "", strerror(-rc));
  return rc;
}

/* ---- Receivers that match the same -------------------------------------------------------------
 */

/* The next one of those at its address and UDP port that name the same sender, or none. */
static struct pst_endpoint *eth_rules_next_alike(struct eth_match *from,
                                                 const struct pst_endpoint *endpoint)
{
  for (struct eth_match *at = from; at; at = at->next)
    if (memcmp(at->at, endpoint->match.at, sizeof(at->at)) == 0 &&
        eth_match_is_same_source(&eth_endpoint_of(at)->dg.flow, &endpoint->dg.flow))
      return eth_endpoint_of(at);
  return NULL;
}

#define FOR_EACH_ALIKE(port, endpoint, alike)                                                      \
  for (struct pst_endpoint *alike =                                                                \
           eth_rules_next_alike((port)->table->chains[(endpoint)->udp_port], endpoint);            \
       alike; alike = eth_rules_next_alike(alike->match.next, endpoint))

static bool eth_rules_is_alone(const struct eth_port *port, const struct pst_endpoint *endpoint)
{
  for (const struct eth_match *at = port->table->chains[endpoint->udp_port]; at; at = at->next)
    if (at != &endpoint->match && memcmp(at->at, endpoint->match.at, sizeof(at->at)) == 0)
      return false;
  return true;
}

/* The queues of their rings; of a ring without one, the first. */
static uint32_t eth_rules_queues_of(const struct eth_port *port,
                                    const struct pst_endpoint *endpoint,
                                    const struct pst_endpoint *but, uint16_t queues[ETH_QUEUES_MAX])
{
  uint32_t n = 0;

  FOR_EACH_ALIKE(port, endpoint, alike)
  {
    const struct eth_rxq *own = eth_ring_of(alike)->queue;
    const uint16_t index = own ? own->index : 0;
    uint32_t i = 0;
    while (i < n && queues[i] != index)
      i++;
    if (i == n && alike != but && n < ETH_QUEUES_MAX)
      queues[n++] = index;
  }
  return n;
}

/* ---- Rules -------------------------------------------------------------------------------------
 */

/* Returns the priority of an endpoint's rule: where several rules match one frame, the more exact
 * one goes first. */
static uint32_t eth_rules_priority_of(const struct eth_port *port,
                                      const struct pst_endpoint *endpoint,
                                      const struct dg_flow_params *flow)
{
  if (eth_rules_is_alone(port, endpoint))
    return 0;
  return eth_match_is_exact(flow) ? 0 : flow->address_is_fixed ? 1 : 2;
}

static struct rte_flow *eth_rules_create(const struct eth_port *port,
                                         const struct pst_endpoint *endpoint,
                                         const struct dg_flow_params *flow, const uint16_t *queues,
                                         uint32_t count, struct rte_flow_error *error)
{
  const struct rte_flow_attr incoming = {.ingress = 1,
                                         .priority = eth_rules_priority_of(port, endpoint, flow)};
  const bool is_v4 = eth_is_v4(endpoint->match.at);
  const struct rte_flow_action_queue queue = {.index = queues[0]};
  const struct rte_flow_action_rss rss = {.func = RTE_ETH_HASH_FUNCTION_DEFAULT,
                                          .types = is_v4 ? RTE_ETH_RSS_NONFRAG_IPV4_UDP
                                                         : RTE_ETH_RSS_NONFRAG_IPV6_UDP,
                                          .queue_num = count,
                                          .queue = queues};
  const struct rte_flow_action actions[] = {
      count > 1 ? (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &rss}
                : (struct rte_flow_action){.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
      {.type = RTE_FLOW_ACTION_TYPE_END},
  };
  struct pattern pattern;

  eth_rules_pattern_make(port, endpoint, flow, &pattern);
  rte_errno = 0;
  return rte_flow_create(port->id, &incoming, pattern.items, actions, error);
}

/* One for all that match the same, kept by `endpoint`, without the queue of `but`: several queues
 * share by RSS. Without RSS the first queue has all, and payloads are copied. */
static int eth_rules_add_rule(struct eth_port *port, struct pst_endpoint *endpoint,
                              const struct pst_endpoint *but, char why[ETH_SIZES_WHY])
{
  static const uint16_t first[1] = {0};
  struct rte_flow_error error = {.message = NULL};
  uint16_t queues[ETH_QUEUES_MAX] = {0};
  const uint32_t count = eth_rules_queues_of(port, endpoint, but, queues);

  endpoint->rx->rule = eth_rules_create(port, endpoint, &endpoint->dg.flow, queues, count, &error);
  if (!endpoint->rx->rule && count > 1) {
    eth_rules_refused(&error, "the driver refuses RSS", why);
    ETH_PORT_LOG(port, PST_LOG_INFO, "%s; frames of UDP port %u come by its first queue", why,
                 endpoint->udp_port);
    endpoint->rx->rule = eth_rules_create(port, endpoint, &endpoint->dg.flow, first, 1, &error);
  }
  return endpoint->rx->rule ? 0 : eth_rules_refused(&error, "the driver refuses a flow rule", why);
}

static bool eth_rules_has_rule(const struct eth_port *port, const struct pst_endpoint *endpoint)
{
  FOR_EACH_ALIKE(port, endpoint, alike)
  if (alike->rx->rule)
    return true;
  return false;
}

int eth_port_isolate(struct eth_port *port, bool on, char why[ETH_SIZES_WHY])
{
  struct rte_flow_error error = {.message = NULL};

  rte_errno = 0;
  return rte_flow_isolate(port->id, on, &error) == 0
             ? 0
             : eth_rules_refused(&error, "the driver does not leave the rest to the kernel", why);
}

static void eth_rules_destroy(struct eth_port *port, struct rte_flow **rule)
{
  struct rte_flow_error error = {.message = NULL};

  if (*rule && rte_flow_destroy(port->id, *rule, &error) != 0)
    ETH_PORT_LOG(port, PST_LOG_DEBUG, "a flow rule cannot be removed: %s",
                 error.message ? error.message : strerror(rte_errno));
  *rule = NULL;
}

static void eth_rules_drop(struct eth_port *port)
{
  ETH_FOR_EACH_WORKER(port, worker)
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (worker->endpoints[i]->rx)
      eth_rules_destroy(port, &worker->endpoints[i]->rx->rule);
}

int eth_port_add_rules(struct eth_port *port, char why[ETH_SIZES_WHY])
{
  int rc = 0;

  ETH_FOR_EACH_WORKER(port, worker)
  for (uint32_t i = 0; rc == 0 && i < worker->endpoint_count; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    /* Without one the kernel would have the frames of a ring that has no queue. */
    if (endpoint->rx && (eth_ring_of(endpoint)->queue || port->has_kernel) &&
        !eth_rules_has_rule(port, endpoint))
      rc = eth_rules_add_rule(port, endpoint, NULL, why);
  }
  if (rc < 0)
    eth_rules_drop(port);
  return rc;
}

void eth_port_add_own_rule(struct eth_port *port, struct pst_endpoint *endpoint)
{
  const struct dg_flow_params *wants = &endpoint->match.wants;
  const struct eth_rxq *own = eth_ring_of(endpoint)->queue;
  struct rte_flow_error error = {.message = NULL};

  if (!endpoint->rx->is_started || !port->by_rules || !own || !eth_match_is_exact(wants) ||
      eth_match_is_exact(&endpoint->dg.flow))
    return;
  rte_spinlock_lock(&port->control_lock);
  if (!eth_rules_is_alone(port, endpoint))
    endpoint->rx->own_rule = eth_rules_create(port, endpoint, wants, &own->index, 1, &error);
  rte_spinlock_unlock(&port->control_lock);
  if (error.message)
    DG_TELL(&endpoint->dg, PST_LOG_INFO,
            "the driver refuses a flow rule for the sender (%s): messages from another queue are "
            "copied",
            error.message);
}

void eth_port_drop_rule(struct eth_port *port, struct pst_endpoint *endpoint)
{
  struct pst_endpoint *heir = NULL;
  char why[ETH_SIZES_WHY];
  bool had = false;

  eth_rules_destroy(port, &endpoint->rx->own_rule);
  FOR_EACH_ALIKE(port, endpoint, alike)
  {
    had |= alike->rx->rule != NULL;
    eth_rules_destroy(port, &alike->rx->rule);
    if (alike != endpoint)
      heir = alike;
  }
  if (had && heir && eth_rules_add_rule(port, heir, endpoint, why) < 0)
    ETH_PORT_LOG(port, PST_LOG_WARN, "%s, once one of several receivers of UDP port %u has left",
                 why, endpoint->udp_port);
}
