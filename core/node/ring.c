/* SPDX-License-Identifier: Apache-2.0 */
/* Rings that messages of peers arrive in. */
#include <string.h>

#include "peer.h"

bool node_ring_is_shared(const struct pst_node *node)
{
  const uint64_t needs = PST_CAP_SHARED_RING | PST_CAP_TWO_SIDED;
  const struct pst_limits *limits = &node->device->limits;

  return (limits->capabilities & needs) == needs &&
         node_slots(node, node->peers_max) <= limits->slots_max;
}

int node_ring_open(struct pst_node *node, struct node_ring *ring, uint32_t peers, uint64_t domain,
                   struct pst_error *error)
{
  const struct pst_limits *limits = &node->device->limits;
  const uint32_t slots = node_slots(node, peers);
  const struct region_params params = {.memory = node->memory,
                                       .device = node->device,
                                       .length = node->ring_stride * slots,
                                       .needs = limits->ring_needs | PST_NEED_CPU_ACCESS,
                                       .label = domain ? "messages of a peer" : "messages of peers",
                                       .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                                       .domain = domain};
  struct region_why why;
  int rc = region_open(&ring->region, &params, &why);

  if (rc < 0)
    return region_fail(error, rc, params.label, &why, "");
  struct pst_ring_params in = {.struct_size = sizeof(in),
                               .slots = slots,
                               .mr = ring->region.mr,
                               .stride = node->ring_stride,
                               .payload_max = node->message_max,
                               .headroom = limits->headroom,
                               .tailroom = limits->tailroom,
                               .endpoints = peers,
                               .endpoint_slots = node->messages};
  pst_log_clear_error();
  rc = node->worker.ops->ring_open(node->worker.handle, &in, &ring->region.path, &ring->ring);
  if (rc >= 0 || pst_fail_said(error, PST_EXIT_UNAVAILABLE, rc) == rc)
    return rc;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "transport %s cannot open a ring of %u slots for %s: %s",
                  node->device->plugin->name, slots, params.label, strerror(-rc));
}

void node_ring_close(struct pst_node *node, struct node_ring *ring)
{
  node->worker.ops->ring_close(node->worker.handle, ring->ring);
  region_close(&ring->region);
}
