/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: open, their addresses, and their end. */
#include "endpoint.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "device.h"
#include "fence_queue.h"
#include "limits.h"
#include "link.h"
#include "mr.h"
#include "ops.h"
#include "receive.h"
#include "ring.h"
#include "rma.h"
#include "rma_am.h"
#include "status.h"
#include "units.h"
#include "wire.h"
#include "worker.h"

static int ucx_endpoint_add_to_worker(struct pst_worker *worker, struct pst_endpoint *endpoint)
{
  if (worker->endpoint_count == worker->endpoint_room) {
    const uint32_t room = worker->endpoint_room ? 2 * worker->endpoint_room : 8;
    struct pst_endpoint **grown = realloc(worker->endpoints, room * sizeof(*grown));
    if (!grown)
      return -ENOMEM;
    worker->endpoints = grown;
    worker->endpoint_room = room;
  }
  worker->endpoints[worker->endpoint_count++] = endpoint;
  return 0;
}

static void ucx_endpoint_take_from_worker(struct pst_worker *worker,
                                          const struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (worker->endpoints[i] == endpoint) {
      worker->endpoints[i] = worker->endpoints[--worker->endpoint_count];
      return;
    }
}

/* Allocates what a sender needs for its requests. On failure the caller frees. */
static int ucx_endpoint_open_tx(struct pst_endpoint *endpoint)
{
  struct ucx_tx *tx = &endpoint->tx;
  const uint32_t requests = endpoint->cpu.params.requests;
  struct ucx_link *link = endpoint->link;
  int rc;

  tx->flushing_end = &tx->flushing;
  rc = ucx_units_open(&tx->sends, requests + 1);
  if (rc == 0)
    rc = ucx_units_open(&tx->writes, requests + 1);
  if (rc == 0)
    rc = ucx_fence_queue_open(tx, requests + 1, endpoint->pieces_max);
  if (rc < 0)
    return rc;
  link->op_count = requests + 2; /* one is a FENCE's */
  link->ops = calloc(link->op_count, sizeof(*link->ops));
  if (!link->ops)
    return -ENOMEM;
  link->op_pieces = calloc((size_t)link->op_count * endpoint->pieces_max, sizeof(*link->op_pieces));
  if (!link->op_pieces)
    return -ENOMEM;
  for (uint32_t i = 0; i < link->op_count; i++) {
    link->ops[i].pieces = link->op_pieces + (size_t)i * endpoint->pieces_max;
    link->ops[i].next = link->free_ops;
    link->free_ops = &link->ops[i];
  }
  return 0;
}

static int ucx_endpoint_open_rx(struct pst_endpoint *endpoint)
{
  struct pst_cpu_ring *ring = endpoint->cpu.ring;
  struct ucx_link *link = endpoint->link;
  struct ucx_share *share = &endpoint->rx.share;
  uint64_t size = 1;

  if (!ring)
    return 0;
  link->ring = (struct pst_ring *)ring;
  ucx_share_begin(&link->ring->shares, share);
  while (size < share->base || size < ring->params.endpoint_slots)
    size <<= 1;
  link->arrivals = calloc(size, sizeof(*link->arrivals));
  link->arrival_mask = size - 1;
  if (link->arrivals)
    return 0;
  ucx_share_end(&link->ring->shares, share, ring->slots.out, 0);
  return -ENOMEM;
}

/* Opens the parts of the endpoint that its roles ask for. On failure the caller frees. */
static int ucx_endpoint_fill(struct pst_endpoint *endpoint,
                             const struct pst_endpoint_params *params)
{
  struct pst_worker *worker = endpoint->worker;
  const struct pst_device *device = worker->device;
  const char *wrong = NULL;
  int rc;

  if (worker->endpoint_count >= ucx_limits_known()->endpoints_max)
    return PST_REFUSE(device->host, -ENOSPC, "%s: a worker has at most %u endpoints",
                      endpoint->label, ucx_limits_known()->endpoints_max);
  if ((params->roles & PST_ROLE_RMA) && !device->has_rma)
    wrong = "it has the role RMA, and pst_plan.rma is 0";
  rc = pst_cpu_endpoint_open(&endpoint->cpu, device->host, params, ucx_limits_known(), wrong);
  if (rc < 0)
    return rc;
  endpoint->pieces_max = endpoint->cpu.params.pieces ? endpoint->cpu.params.pieces : 1;
  rc =
      ucx_link_open(worker, endpoint->label, ucx_receive,
                    endpoint->cpu.params.roles & (PST_ROLE_SENDER | PST_ROLE_RMA), &endpoint->link);
  if (rc < 0)
    return rc;
  if (endpoint->cpu.params.roles & PST_ROLE_RMA)
    rc = ucx_rma_am_open(endpoint->link);
  if (rc < 0)
    return rc;
  endpoint->link->endpoint = endpoint;
  if (getrandom(&endpoint->link->nonce, sizeof(endpoint->link->nonce), 0) !=
      sizeof(endpoint->link->nonce))
    return -errno;
  rc = ucx_endpoint_open_tx(endpoint);
  return rc < 0 ? rc : ucx_endpoint_open_rx(endpoint);
}

int ucx_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint)
{
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  struct pst_endpoint_params in;
  int rc;

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->worker = worker;
  pst_text_write(made->label, sizeof(made->label), in.label ? in.label : "");
  rc = ucx_endpoint_fill(made, &in);
  if (rc == 0)
    rc = ucx_endpoint_add_to_worker(worker, made);
  if (rc < 0) {
    ucx_endpoint_free(made);
    return rc;
  }
  *endpoint = made;
  return 0;
}

/* The address: a header of this plugin, then UCX's own. -ENOSPC: address->capacity is too small. */
int ucx_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  const struct pst_device *device = endpoint->worker->device;
  const uint32_t roles = endpoint->cpu.params.roles;
  const struct pst_ring *ring = (const struct pst_ring *)endpoint->cpu.ring;
  struct ucx_address head = {
      .magic = UCX_MAGIC, .nonce = endpoint->link->nonce, .identity = device->identity};
  ucp_address_t *own;
  size_t length;
  ucs_status_t status = ucp_worker_get_address(endpoint->link->ucp, &own, &length);

  if (status != UCS_OK)
    return UCX_REFUSE(endpoint, ucx_status_errno(status),
                      "UCX cannot read its worker's address: %s; %s", ucs_status_string(status),
                      ucx_status_remedy(status));
  head.flags = (device->shares ? UCX_ADDRESS_SHARES : 0u) |
               (ring && !ring->by_cpu ? UCX_ADDRESS_FETCHES : 0u) |
               (roles & PST_ROLE_RECEIVER ? UCX_ADDRESS_RECEIVES : 0u) |
               (roles & PST_ROLE_SENDER ? UCX_ADDRESS_SENDS : 0u) |
               (roles & PST_ROLE_RMA ? UCX_ADDRESS_RMA : 0u);
  if (sizeof(head) + length > address->capacity) {
    ucp_worker_release_address(endpoint->link->ucp, own);
    return -ENOSPC;
  }
  memcpy(address->bytes, &head, sizeof(head));
  memcpy((uint8_t *)address->bytes + sizeof(head), own, length);
  head.sum = ucx_blob_sum(address->bytes, sizeof(head) + length, offsetof(struct ucx_address, sum));
  memcpy(address->bytes, &head, sizeof(head));
  address->length = (uint32_t)(sizeof(head) + length);
  address->fd_count = 0;
  ucp_worker_release_address(endpoint->link->ucp, own);
  return 0;
}

/* Frees an endpoint after CLOSED, or before the host has it. The link goes on alone. */
void ucx_endpoint_free(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;

  ucx_endpoint_take_from_worker(endpoint->worker, endpoint);
  if (link) {
    if (link->arrivals)
      ucx_receive_end(endpoint);
    ucx_link_leave(link);
  }
  free(endpoint->tx.sends.at);
  free(endpoint->tx.writes.at);
  ucx_fence_queue_close(&endpoint->tx);
  pst_cpu_endpoint_end(&endpoint->cpu);
  free(endpoint);
}
