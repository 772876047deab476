/* SPDX-License-Identifier: Apache-2.0 */
/* Rings and endpoints: opened, told, and freed. An endpoint has nothing in hardware but its part of
 * the receives for words. */
#include <stdio.h>

#include "../verbs/domain.h"
#include "../verbs/open.h"
#include "../verbs/srq.h"
#include "connection.h"
#include "ops.h"
#include "probe.h"
#include "ring_share.h"
#include "target.h"

int dc_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                 struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_ring *made;
  int rc = vb_ring_open(worker, params, path, &made);

  if (rc < 0)
    return rc;
  made->idle = made->params.endpoints;
  rc = vb_srq_open_slots(made);
  if (rc == 0)
    rc = dc_target_open(worker, made->shared, "a ring");
  if (rc < 0) {
    vb_ring_close(worker, made);
    return rc;
  }
  *ring = made;
  return 0;
}

static int dc_endpoint_take_number(struct dc_endpoint *dc)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);

  /* A number that was given back is not used again before all others were. */
  for (uint32_t i = 0; i < DC_NUMBERS; i++) {
    const uint32_t number = pool->next_number++ % DC_NUMBERS;
    if (pool->numbers[number])
      continue;
    pool->numbers[number] = &dc->endpoint;
    dc->number = (uint16_t)number;
    dc->has_number = true;
    return 0;
  }
  VB_LOG(dc->endpoint.device, PST_LOG_ERROR, "%s: the worker has %u endpoints already",
         dc->endpoint.label, DC_NUMBERS);
  return -ENOSPC;
}

static int dc_endpoint_open_receiver(struct dc_endpoint *dc, struct pst_ring *ring)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  struct vb_rx *rx = calloc(1, sizeof(*rx));

  if (!rx)
    return -ENOMEM;
  rx->sends = true;
  rx->ring = ring;
  endpoint->rx = rx;
  const int rc = dc_share_begin(dc);
  if (rc < 0) {
    VB_LOG(endpoint->device, PST_LOG_ERROR,
           "%s: its ring has no slot left: others have them, or what they have received is not "
           "released yet",
           endpoint->label);
    endpoint->rx = NULL;
    free(rx);
  }
  return rc;
}

/* Memory of a further target, one that sends as well, with the label and malloc()'s own
 * overhead. */
_Static_assert(sizeof(struct dc_endpoint) + sizeof(struct vb_tx) + sizeof(struct vb_rx) + 56 < 1024,
               "README.md says that a further target takes less than 1 KiB");

static int dc_endpoint_open_sender(struct pst_endpoint *endpoint)
{
  struct vb_tx *tx = calloc(1, sizeof(*tx));

  if (!tx)
    return -ENOMEM;
  endpoint->tx = tx;
  tx->opcode = IBV_WR_SEND_WITH_IMM;
  tx->run_max = 1;
  tx->run_length_min = UINT64_MAX;
  tx->initial = endpoint->device->initial;
  tx->credits = (struct vb_slot_fifo){.at = &dc_of(endpoint)->credit, .max = DC_CREDITS_MAX};
  return 0;
}

static int dc_endpoint_open_words(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  const uint32_t wanted = worker->cq_used + DC_CONTROL_RECEIVES;
  int rc = vb_cq_grow(worker, wanted, endpoint->label);

  if (rc < 0)
    return rc;
  rc = vb_srq_reserve(worker, VB_SRQ_BARE, DC_CONTROL_RECEIVES, endpoint->label, &endpoint->shared);
  if (rc < 0)
    return rc;
  worker->cq_used = wanted;
  endpoint->completions = DC_CONTROL_RECEIVES;
  return dc_target_open(worker, endpoint->shared, endpoint->label);
}

static void dc_endpoint_open_send_queue(struct dc_endpoint *dc)
{
  const struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);
  struct vb_send_queue *sq = &dc->endpoint.sq;

  sq->wr_id = (uint64_t)dc->endpoint.place << 32;
  sq->spread = dc_spread;
  sq->size = sq->requests_max + VB_SPARE_SENDS;
  sq->mask = pool->shape.mask;
  sq->max_inline = pool->shape.max_inline;
  sq->posted_max = sq->requests_max;
}

/* Takes the endpoint's place, number and target. On failure the caller frees. */
static int dc_endpoint_open_parts(struct dc_endpoint *dc, const struct pst_endpoint_params *in)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  struct pst_worker *worker = endpoint->worker;
  struct vb_port_address where;
  int rc = pst_places_take(&worker->endpoints, endpoint, VB_PLACES, &endpoint->place);

  if (rc < 0)
    return rc;
  endpoint->has_place = true;
  rc = vb_device_place(worker->device, &where);
  if (rc == 0)
    rc = dc_endpoint_take_number(dc);
  if (rc == 0 && (in->roles & PST_ROLE_SENDER))
    rc = dc_endpoint_open_sender(endpoint);
  if (rc == 0 && in->ring)
    rc = dc_endpoint_open_receiver(dc, in->ring);
  if (rc == 0)
    rc = dc_endpoint_open_words(endpoint);
  if (rc < 0)
    return rc;
  dc_endpoint_open_send_queue(dc);
  dc->home = (struct dc_opened_address){.gid_index = where.gid.index,
                                        .lid = where.lid,
                                        .gid_type = (uint8_t)where.gid.type,
                                        .mtu = (uint8_t)dc_mtu(worker->device, &where)};
  memcpy(dc->home.gid, where.gid.raw, sizeof(dc->home.gid));
  return 0;
}

/* Opens an endpoint. It has no queue pair of its own: initiators are lent from the worker's
 * pool. */
int dc_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint)
{
  struct pst_endpoint_params in;

  pst_struct_read(&in, sizeof(in), params);
  int rc = vb_endpoint_check(worker, &in);
  if (rc < 0)
    return rc;
  struct pst_endpoint *made = vb_endpoint_alloc(worker, &in, sizeof(struct dc_endpoint));
  if (!made)
    return -ENOMEM;
  struct dc_endpoint *dc = dc_of(made);
  made->pieces_max = in.pieces ? in.pieces : 1;
  made->domain = made->local = &worker->device->own;
  made->receive_buffers = 1; /* no row of poll.c's: dc_received() takes them */
  dc->by_ns = dc->hello_at = dc->again_at = VB_NEVER;
  dc->credits_at[0] = dc->credits_at[1] = VB_NEVER;
  rc = dc_endpoint_open_parts(dc, &in);
  if (rc < 0) {
    dc_endpoint_free(made);
    return rc;
  }
  *endpoint = made;
  return 0;
}

/* Frees the endpoint, and returns its initiator and its number. */
void dc_endpoint_free(struct pst_endpoint *endpoint)
{
  struct dc_endpoint *dc = dc_of(endpoint);
  struct pst_worker *worker = endpoint->worker;

  if (dc->has_number)
    dc_worker_of(worker)->numbers[dc->number] = NULL;
  dc_forget_peer(dc);
  dc_abandon(dc);
  dc_probe_forget(dc);
  dc->was_handed = false;
  dc_give(dc);
  dc_handle_give(dc);
  if (endpoint->rx) {
    dc_share_end(dc);
    endpoint->rx->ring->last = NULL;
  }
  if (endpoint->completions)
    endpoint->shared->reserved -= DC_CONTROL_RECEIVES;
  worker->cq_used -= endpoint->completions;
  if (endpoint->has_place)
    pst_places_give(&worker->endpoints, endpoint->place);
  vb_forget_room(endpoint);
  vb_unpend(endpoint);
  while (endpoint->remotes)
    vb_remote_close(endpoint, endpoint->remotes);
  free(endpoint->rx);
  free(endpoint->tx);
  free(dc);
}

int dc_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  uint8_t bytes[DC_BLOB_BYTES];
  struct dc_blob own;

  dc_local_address(dc_of(endpoint), &own);
  dc_blob_write(&own, bytes);
  return pst_blob_write(address, bytes, sizeof(bytes));
}

int dc_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  /* One that reads and writes receives messages beside that: its bytes are in what it names. */
  const bool is_rma = endpoint->mostly && (endpoint->roles & PST_ROLE_RMA);
  const struct vb_mr *mr = endpoint->rx && !is_rma ? &endpoint->rx->ring->verbs
                           : endpoint->mostly      ? &endpoint->mostly->verbs
                                                   : NULL;

  pst_path_write(path, mr ? mr->path : PST_PATH_DIRECT, mr ? mr->via : "dma",
                 endpoint->device->carrier, "");
  return 0;
}
