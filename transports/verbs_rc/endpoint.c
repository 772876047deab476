/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opened, told, and freed. */
#include <stdio.h>

#include "../verbs/domain.h"
#include "../verbs/open.h"
#include "../verbs/srq.h"
#include "cm.h"
#include "connection.h"
#include "multi_qp.h"
#include "ops.h"
#include "qp.h"

/* As many slots as the address has room for go with it; the others as credit. */
static void rc_endpoint_grant_with_address(struct vb_rx *rx, struct rc_blob *own)
{
  if (rx->sends) { /* how many; the receives are posted */
    own->runs[own->run_count++] = (struct vb_run){0, rx->ungranted};
    rx->before = rx->granted = rx->ungranted;
    rx->ungranted = 0;
    return;
  }
  while (rx->back.count && own->run_count < RC_BLOB_RUNS) {
    const struct vb_slot_run some = vb_slot_fifo_move(&rx->back, &rx->own->line);
    own->runs[own->run_count++] = (struct vb_run){some.first, some.count};
    rx->before += some.count;
  }
}

/* A queue pair's receives are used in order, so that those for credit, which a sender needs, and
 * those for messages cannot be told apart where both come as SENDs. */
static bool rc_endpoint_is_sending(const struct pst_endpoint *endpoint)
{
  return endpoint->device->sends && !(endpoint->tx && endpoint->rx);
}

/* Slots that SENDs come into are no endpoint's, or all are some endpoint's. */
static int rc_endpoint_share_slots(const struct pst_endpoint *endpoint, struct pst_ring *ring)
{
  if (endpoint->rx->sends == (ring->shared != NULL))
    return 0;
  if (ring->open_count == 0 && !ring->shared)
    return vb_srq_open_slots(ring);
  VB_LOG(
      endpoint->device, PST_LOG_ERROR,
      "%s: endpoints that send as well and endpoints that only receive cannot have one ring with "
      "`operation: send` and `srq`",
      endpoint->label);
  return -EINVAL;
}

struct receiver {
  struct vb_rx rx; /* first: free(endpoint->rx) */
  struct vb_own_slots own;
  uint64_t first_of[VB_CONTROL_RECEIVES];
};

static int rc_endpoint_open_receiver(struct pst_endpoint *endpoint, struct pst_ring *ring)
{
  struct receiver *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  struct vb_rx *rx = &made->rx;
  rx->own = &made->own;
  rx->own->first_of = made->first_of;
  endpoint->rx = rx;
  if (ring->free_count == 0) {
    VB_LOG(endpoint->device, PST_LOG_ERROR,
           "%s: its ring has no slot left: others have them, or what they have received is not "
           "released yet",
           endpoint->label);
    return -ENOSPC;
  }
  rx->sends = rc_endpoint_is_sending(endpoint);
  int rc = endpoint->device->shares ? rc_endpoint_share_slots(endpoint, ring) : 0;
  if (rc == 0)
    rc = vb_ring_share(ring, endpoint);
  rx->own->turn = rc_turn(rx->share, endpoint->lane_count);
  return rc;
}

/* A run fills what lies between slots, too: that has to be nobody's. It brings what lies behind
 * messages in the sender's slots, which of a node are those of messages to all its peers. */
static bool rc_endpoint_offers_runs(const struct pst_endpoint *endpoint)
{
  const struct pst_ring_params *ring = endpoint->rx ? &endpoint->rx->ring->params : NULL;

  return endpoint->device->runs && !rc_endpoint_is_sending(endpoint) &&
         !(endpoint->tx && endpoint->rx) &&
         (!ring || (ring->headroom == 0 && ring->tailroom == 0 &&
                    ring->stride - ring->payload_max < RC_RUN_GAP));
}

/* Writes what this end announces: its port, path and limits. */
static void rc_endpoint_describe_self(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->device;
  struct rc_blob *own = &endpoint->rc->own;
  const enum ibv_mtu mtu = endpoint->rc->where.mtu;
  const uint32_t requested = device->path.mtu;

  *own = (struct rc_blob){
      .is_ethernet = device->open.port->is_ethernet,
      .gid_type = (uint8_t)endpoint->rc->where.gid.type,
      .mtu = (uint8_t)(requested && vb_mtu_of(requested) < mtu ? vb_mtu_of(requested) : mtu),
      .rd_atomic = (uint8_t)(device->attr.max_qp_rd_atom < 16 ? device->attr.max_qp_rd_atom : 16),
      .lid = endpoint->rc->where.lid,
      .is_sender = endpoint->tx != NULL,
      .is_receiver = endpoint->rx != NULL,
      .is_rma = endpoint->roles & PST_ROLE_RMA,
      .sends = rc_endpoint_is_sending(endpoint),
      .reconnects = device->reconnect_ns > 0,
      .has_runs = rc_endpoint_offers_runs(endpoint),
      .is_split = endpoint->rc->is_split};
  memcpy(own->gid, endpoint->rc->where.gid.raw, sizeof(own->gid));
  if (device->has_ece)
    own->ece = vb_ece_of(endpoint->rc->lanes[0].qp);
  own->lanes = (uint8_t)endpoint->lane_count;
  for (uint32_t i = 0; i < endpoint->lane_count; i++) {
    const struct rc_lane *lane = &endpoint->rc->lanes[i];
    own->qps[i] = (struct rc_qp_address){lane->qp->qp_num, lane->psn};
    if (endpoint->rc->is_split)
      own->responders[i] = (struct rc_qp_address){lane->rq.qp->qp_num, lane->responder_psn};
  }
  endpoint->hellos_are_writes = own->sends && endpoint->tx;
  if (endpoint->tx) {
    own->initial = endpoint->tx->initial = device->initial;
    own->control_receives = endpoint->credit_depth;
    own->control_bytes = endpoint->credit_bytes;
  }
  if (!endpoint->rx)
    return;
  const struct pst_ring *ring = endpoint->rx->ring;
  if (!own->sends) {
    own->address = ring->base;
    own->rkey = ring->verbs.mr->rkey;
  }
  own->stride = ring->params.stride;
  own->payload_max = ring->params.payload_max;
  own->slots = ring->params.slots;
  own->share = endpoint->rx->share;
  rc_endpoint_grant_with_address(endpoint->rx, own);
}

static int rc_endpoint_open_parts(struct pst_endpoint *endpoint,
                                  const struct pst_endpoint_params *in)
{
  int rc = pst_places_take(&endpoint->worker->endpoints, endpoint, VB_PLACES, &endpoint->place);

  if (rc < 0)
    return rc;
  endpoint->has_place = true;
  endpoint->sq.wr_id = (uint64_t)endpoint->place << 32;
  if (in->ring || (in->roles & PST_ROLE_SENDER))
    endpoint->lane_count = endpoint->device->qps;
  if (in->roles & PST_ROLE_SENDER)
    rc = (endpoint->tx = calloc(1, sizeof(*endpoint->tx))) ? 0 : -ENOMEM;
  if (rc == 0 && in->ring)
    rc = rc_endpoint_open_receiver(endpoint, in->ring);
  if (rc == 0)
    rc = rc_queue_open(endpoint, in->pieces);
  if (rc == 0)
    rc_endpoint_describe_self(endpoint);
  if (rc == 0 && endpoint->device->cm)
    rc = endpoint->device->cm->open(endpoint);
  return rc;
}

/* Memory that the peer may reach lies in the peer's domain. Memory that the endpoint sends from, or
 * reads into, is shared by many peers: an endpoint that has both has a queue pair in either. */
static int rc_endpoint_open_domain(struct pst_endpoint *endpoint,
                                   const struct pst_endpoint_params *in)
{
  struct pst_device *device = endpoint->device;

  const bool is_reached = in->ring || (in->roles & PST_ROLE_RMA);
  int rc = vb_domain_take(device, is_reached ? in->domain : 0, &endpoint->domain);
  if (rc < 0)
    return rc;
  endpoint->rc->is_split = is_reached && in->domain && in->requests;
  endpoint->local = endpoint->rc->is_split ? &device->own : endpoint->domain;
  if (!in->ring || in->ring->params.mr->domain == endpoint->domain)
    return 0;
  VB_LOG(device, PST_LOG_ERROR, "%s: endpoint refused: its ring belongs to another domain",
         endpoint->label);
  return -EINVAL;
}

/* In one allocation. */
struct whole {
  struct pst_endpoint endpoint;
  struct rc_connection rc;
  struct vb_receives receives;
  struct vb_credit_buffers buffers;
};

/* Opens the endpoint and its queue pairs. On failure nothing is left. */
int rc_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint)
{
  struct pst_endpoint_params in;

  pst_struct_read(&in, sizeof(in), params);
  int rc = vb_endpoint_check(worker, &in);
  if (rc < 0)
    return rc;
  struct pst_endpoint *made = vb_endpoint_alloc(worker, &in, sizeof(struct whole));
  if (!made)
    return -ENOMEM;
  struct whole *whole = (struct whole *)(void *)made;
  made->rc = &whole->rc;
  made->rq = &made->rc->lanes[0].rq;
  made->receives = &whole->receives;
  made->buffers = &whole->buffers;
  made->rc->stage.connecting.by_ns = VB_NEVER;
  struct vb_numa_policy policy;
  vb_numa_prefer(worker->device->numa_node, &policy);
  rc = vb_device_place(worker->device, &made->rc->where);
  if (rc == 0)
    rc = rc_endpoint_open_domain(made, &in);
  if (rc == 0)
    rc = rc_endpoint_open_parts(made, &in);
  vb_numa_restore(&policy);
  if (rc < 0) {
    rc_endpoint_free(made);
    return rc;
  }
  *endpoint = made;
  return 0;
}

void rc_endpoint_free(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;

  /* The peer writes no more before its slots become another's. */
  rc_queue_close(endpoint);
  if (endpoint->rc->cm)
    endpoint->device->cm->close(endpoint);
  if (endpoint->rx && endpoint->rx->ring)
    vb_ring_unshare(endpoint->rx->ring, endpoint);
  if (endpoint->has_place)
    pst_places_give(&worker->endpoints, endpoint->place);
  vb_forget_room(endpoint);
  vb_unpend(endpoint);
  rc_counter_baseline_end(endpoint);
  if (endpoint->tx)
    free(endpoint->tx->credits.at);
  while (endpoint->remotes)
    vb_remote_close(endpoint, endpoint->remotes);
  vb_domain_give(endpoint->domain);
  free(endpoint->rx);
  free(endpoint->tx);
  free((struct whole *)(void *)endpoint);
}

int rc_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  uint8_t bytes[RC_BLOB_BYTES];

  rc_blob_write(&endpoint->rc->own, bytes);
  return pst_blob_write(address, bytes, sizeof(bytes));
}

int rc_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  /* One that reads and writes receives messages beside that: its bytes are in what it names. */
  bool is_rma = endpoint->mostly && (endpoint->roles & PST_ROLE_RMA);
  const struct vb_mr *mr = endpoint->rx && !is_rma ? &endpoint->rx->ring->verbs
                           : endpoint->mostly      ? &endpoint->mostly->verbs
                                                   : NULL;

  pst_path_write(path, mr ? mr->path : PST_PATH_DIRECT, mr ? mr->via : "dma",
                 endpoint->device->carrier, "");
  return 0;
}
