/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a peer's regions; stream/rma.c has the requests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

#define BATCH 16 /* operations that are checked at a time */

/* ---- Opening ----------------------------------------------------------------------- */

/* What an operation names is in use until it has ended. */
static void unuse(struct pst_peer *peer, uint32_t slot)
{
  struct node_use *use = &peer->uses[slot];

  for (uint32_t i = 0; i < use->area_count; i++)
    peer->areas[(uint64_t)slot * peer->node->pieces + i]->uses--;
  use->area_count = 0;
  if (use->remote)
    remote_unuse(peer, use->remote);
  use->remote = NULL;
}

/* To its device, what was read into an area. */
static int make_visible(const struct pst_peer *peer, uint32_t slot)
{
  const struct node_use *use = &peer->uses[slot];
  uint8_t op = peer->rma.slots[slot].op;
  int rc = 0;

  if (op == PST_OP_WRITE || op == PST_OP_FLUSH)
    return 0;
  for (uint32_t i = 0; i < use->area_count && rc == 0; i++)
    rc = region_flush(&peer->areas[(uint64_t)slot * peer->node->pieces + i]->own);
  return rc < 0 ? -EIO : 0;
}

static void ended(void *context, uint32_t at)
{
  struct pst_peer *peer = context;
  const struct rma_slot *slot = &peer->rma.slots[at];
  struct node_entry *entry = node_tell(peer, PST_NODE_DONE);

  entry->event.op = slot->op;
  entry->event.status = slot->status ? slot->status : make_visible(peer, at);
  entry->event.cookie = slot->cookie;
  entry->event.length = slot->length;
  unuse(peer, at);
}

static int refused(void *context, int rc)
{
  struct pst_peer *peer = context;

  if (rc == -EINVAL || rc == -EMSGSIZE || rc == -EOPNOTSUPP || rc == -EACCES || rc == -E2BIG)
    return rc;
  peer_transport_over(peer, rc == -ENOTCONN ? -ECONNRESET : rc);
  return 0;
}

int operate_open(struct pst_peer *peer)
{
  const struct pst_node *node = peer->node;
  const struct pst_limits *limits = &node->device->limits;

  peer->rma = (struct rma){.ops = node->ops,
                           .refused = refused,
                           .end = ended,
                           .context = peer,
                           .max = limits->rma_max,
                           .operations = rma_operations(limits->capabilities),
                           .depth = node->depth,
                           .pieces = node->pieces,
                           .request_pieces = node->request_pieces};
  peer->uses = calloc(node->depth, sizeof(*peer->uses));
  peer->areas = calloc((uint64_t)node->depth * node->pieces, sizeof(struct pst_area *));
  peer->pieces = calloc((uint64_t)BATCH * node->pieces, sizeof(*peer->pieces));
  if (rma_open(&peer->rma) < 0 || !peer->uses || !peer->areas || !peer->pieces)
    return -ENOMEM;
  return 0;
}

void operate_close(struct pst_peer *peer)
{
  rma_close(&peer->rma);
  free(peer->uses);
  free(peer->areas);
  free(peer->pieces);
}

bool operate_has_room(const struct pst_peer *peer)
{
  return peer->is_connected && peer->rma.free_count > 0 && peer->rma.requests < peer->rma.depth &&
         peer->rma.rest_slot == RMA_NO_SLOT;
}

/* ---- Posting ----------------------------------------------------------------------- */

static int check_area(const struct pst_peer *peer, const struct pst_area *area, uint64_t offset,
                      uint64_t length)
{
  if (!area || area->node != peer->node)
    return -EINVAL;
  return region_has(area->own.length, offset, length) ? 0 : -ERANGE;
}

/* Empty ones are left out; of nothing but those there is one. */
static int check_pieces(const struct pst_peer *peer, const struct pst_operation *o,
                        struct pst_piece *pieces, struct rma_work *work)
{
  uint64_t sum = 0;
  uint16_t n = 0;

  if (o->op != PST_OP_WRITE && o->op != PST_OP_READ)
    return -EINVAL;
  if (o->piece_count > peer->node->pieces)
    return -E2BIG;
  if (o->area || o->offset || !o->pieces)
    return -EINVAL;
  for (uint32_t i = 0; i < o->piece_count; i++) {
    const struct pst_area_piece *piece = &o->pieces[i];
    int rc =
        piece->reserved ? -EINVAL : check_area(peer, piece->area, piece->offset, piece->length);
    if (rc < 0)
      return rc;
    pieces[n] = (struct pst_piece){
        .mr = piece->area->own.mr, .offset = piece->offset, .length = piece->length};
    n += piece->length > 0;
    if (__builtin_add_overflow(sum, piece->length, &sum))
      return -EINVAL;
  }
  work->piece_count = n ? n : 1;
  return sum == o->length ? 0 : -EINVAL;
}

static int check_remote(const struct pst_peer *peer, const struct pst_operation *o,
                        struct node_remote **found)
{
  static const uint32_t rights[] = {[PST_OP_WRITE] = PST_ACCESS_REMOTE_WRITE,
                                    [PST_OP_READ] = PST_ACCESS_REMOTE_READ,
                                    [PST_OP_FETCH_ADD] = PST_ACCESS_REMOTE_ATOMIC,
                                    [PST_OP_COMPARE_SWAP] = PST_ACCESS_REMOTE_ATOMIC};
  struct node_remote *remote = remote_find(peer, o->id);

  *found = NULL;
  if (o->op == PST_OP_FLUSH)
    return o->id ? -EINVAL : 0;
  if (!remote || !remote->remote)
    return -ENOENT;
  if (remote->is_withdrawn || !(remote->access & rights[o->op]))
    return -EACCES;
  *found = remote;
  return region_has(remote->length, o->remote_offset, o->length) ? 0 : -ERANGE;
}

static int check(const struct pst_peer *peer, const struct pst_operation *o, struct rma_work *work,
                 struct pst_piece *pieces, struct node_remote **remote)
{
  *work = (struct rma_work){.op = o->op,
                            .flags = o->flags,
                            .piece_count = o->piece_count,
                            .cookie = o->cookie,
                            .pieces = pieces,
                            .local_offset = o->offset,
                            .remote_offset = o->remote_offset,
                            .length = o->length,
                            .compare = o->compare,
                            .operand = o->operand};
  int rc = o->reserved ? -EINVAL : rma_check(&peer->rma, work);
  if (rc == 0)
    rc = check_remote(peer, o, remote);
  if (rc < 0)
    return rc;
  if (*remote)
    work->remote = (*remote)->remote;
  if (o->piece_count)
    return check_pieces(peer, o, pieces, work);
  if (o->op == PST_OP_FLUSH)
    return o->area ? -EINVAL : 0;
  rc = check_area(peer, o->area, o->offset, o->length);
  if (rc == 0)
    work->mr = o->area->own.mr;
  return rc;
}

static void use(struct pst_peer *peer, const struct pst_operation *o, uint32_t slot,
                struct node_remote *remote)
{
  struct pst_area **areas = &peer->areas[(uint64_t)slot * peer->node->pieces];
  struct node_use *use = &peer->uses[slot];

  use->remote = remote;
  if (remote)
    remote->uses++;
  if (o->area)
    areas[use->area_count++] = o->area;
  for (uint32_t i = 0; i < o->piece_count; i++)
    areas[use->area_count++] = o->pieces[i].area;
  for (uint32_t i = 0; i < use->area_count; i++)
    areas[i]->uses++;
}

static uint32_t post_some(struct pst_peer *peer, const struct pst_operation *operations, uint32_t n,
                          bool *stop, int *rc)
{
  struct rma_work works[BATCH];
  struct node_remote *remotes[BATCH];
  uint32_t slots[BATCH];
  uint32_t k = 0;
  int wrong = 0, refused_one = 0;

  for (; k < n && k < BATCH; k++) {
    struct pst_piece *pieces = peer->pieces + (uint64_t)k * peer->node->pieces;
    wrong = check(peer, &operations[k], &works[k], pieces, &remotes[k]);
    if (wrong < 0)
      break;
  }
  uint32_t taken = k ? rma_post(&peer->rma, works, k, slots, &refused_one) : 0;
  for (uint32_t i = 0; i < taken; i++)
    use(peer, &operations[i], slots[i], remotes[i]);
  *stop = taken < k || wrong < 0;
  *rc = taken < k ? refused_one : wrong;
  return taken;
}

int pst_peer_post(struct pst_peer *peer, const struct pst_operation *operations, uint32_t n)
{
  uint32_t taken = 0;
  bool stop = false;
  int rc = 0;

  if (peer->state != NODE_PEER_JOINED || peer->transport_over || peer->control_over)
    return -ENOTCONN;
  while (taken < n && !stop && peer->is_connected)
    taken += post_some(peer, operations + taken, n - taken, &stop, &rc);
  if (taken < n && rc == 0)
    peer->wants_post_room = true;
  return taken ? (int)taken : rc;
}

int pst_peer_cancel(struct pst_peer *peer, uint64_t cookie)
{
  struct rma *rma = &peer->rma;
  int count = 0;

  for (uint32_t i = 0; i < rma->depth; i++)
    if (rma->slots[i].cookie == cookie && (rma->slots[i].parts || i == rma->rest_slot))
      count++;
  if (rma->rest_slot != RMA_NO_SLOT && rma->slots[rma->rest_slot].cookie == cookie)
    rma_end_rest(rma, -ECANCELED);
  return count;
}
