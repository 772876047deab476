/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two endpoints meet. Nothing of the hardware connects: each makes an address handle to the
 * other and says hello; it is connected once the other's device has answered, and the other's hello
 * has come. On the wire every mistake looks like a peer that is dead, so that all that has to agree
 * is compared here.
 */
#include <endian.h>
#include <stdio.h>

#include "connection.h"
#include "ops.h"

void dc_enter(struct dc_endpoint *dc, enum dc_stage stage)
{
  dc->stage = stage;
  dc->endpoint.is_connected = stage == DC_CONNECTED;
}

static int dc_connect_refuse(const struct dc_endpoint *dc, int rc, const char *why)
{
  VB_LOG(dc->endpoint.device, PST_LOG_ERROR, "%s: the peer's address cannot be used: %s",
         dc->endpoint.label, why);
  return rc;
}

static int dc_connect_check_mtu(const struct dc_endpoint *dc, const struct dc_blob *peer)
{
  char why[200];

  if (peer->mtu == dc->home.mtu)
    return 0;
  snprintf(why, sizeof(why),
           "the path MTU is %u bytes at the peer, and %u here; both ends need the same: set `mtu` "
           "to %u",
           vb_mtu_bytes((enum ibv_mtu)peer->mtu), vb_mtu_bytes((enum ibv_mtu)dc->home.mtu),
           vb_mtu_bytes((enum ibv_mtu)vb_smaller(peer->mtu, dc->home.mtu)));
  return dc_connect_refuse(dc, -EXDEV, why);
}

/* RoCE v2 goes by IP: no packet has an IPv4 and an IPv6 address. */
static int dc_connect_check_families(const struct dc_endpoint *dc, const struct dc_blob *peer)
{
  char theirs[VB_GID_TEXT], reason[DC_REASON], why[512];

  if (dc->home.gid_type != VB_GID_ROCE_V2 ||
      vb_gid_is_ipv4(dc->home.gid) == vb_gid_is_ipv4(peer->gid))
    return 0;
  vb_gid_address(peer->gid, theirs);
  snprintf(why, sizeof(why),
           "its GID is %s, ours is of the other version of IP (%s); set gid_index, or an address "
           "as `device`, so that both are of one",
           theirs, dc_gid_reason(dc, reason));
  return dc_connect_refuse(dc, -EXDEV, why);
}

static int dc_connect_check(const struct dc_endpoint *dc, const struct pst_blob *address,
                            struct dc_blob *peer)
{
  struct dc_blob own;

  dc_local_address(dc, &own);
  if (!dc_blob_read(address->bytes, address->length, peer))
    return dc_connect_refuse(
        dc, -EPROTO, "it is not one of verbs_dc's; both ends need the same transport and version");
  if (peer->is_sender != own.is_receiver || peer->is_receiver != own.is_sender)
    return dc_connect_refuse(dc, -EPROTO,
                             own.is_sender
                                 ? "this end sends, and the peer does not receive, or sends, too"
                                 : "one end sends, and the other does not receive");
  if (peer->is_ethernet != own.is_ethernet)
    return dc_connect_refuse(
        dc, -EXDEV, "one end is on Ethernet (RoCE), the other on InfiniBand; choose other devices");
  if (peer->gid_type != own.gid_type)
    return dc_connect_refuse(
        dc, -EXDEV,
        "one end's GID is RoCE v1, the other's RoCE v2; set gid_index, or an address as "
        "`device`, so that both are v2");
  const int rc = dc_connect_check_mtu(dc, peer);
  return rc < 0 ? rc : dc_connect_check_families(dc, peer);
}

static struct dc_endpoint **dc_connect_chain_of(const struct dc_endpoint *dc)
{
  const struct dc_peer *peer = &dc->peer;
  const uint64_t all = peer->key ^ (uint64_t)peer->control << 16 ^ peer->number;

  return &dc_worker_of(dc->endpoint.worker)
              ->peers[(all * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (DC_PEER_CHAINS - 1)];
}

/* The number of one that is over may be another's by now. */
static bool dc_connect_is_taken(const struct dc_endpoint *dc)
{
  const struct dc_peer *peer = &dc->peer;

  for (const struct dc_endpoint *other = *dc_connect_chain_of(dc); other; other = other->next_peer)
    if (!dc_is_over(other) && other->peer.number == peer->number &&
        other->peer.control == peer->control && other->peer.key == peer->key &&
        memcmp(other->peer.gid, peer->gid, sizeof(peer->gid)) == 0)
      return true;
  return false;
}

static void dc_connect_join(struct dc_endpoint *dc)
{
  struct dc_endpoint **chain = dc_connect_chain_of(dc);

  dc->next_peer = *chain;
  *chain = dc;
}

void dc_forget_peer(struct dc_endpoint *dc)
{
  struct dc_endpoint **at = dc_connect_chain_of(dc);

  while (*at && *at != dc)
    at = &(*at)->next_peer;
  if (*at)
    *at = dc->next_peer;
}

bool dc_hear_hello(struct dc_endpoint *dc, uint32_t value)
{
  if (dc->stage == DC_NEW) { /* whose it is, connect() finds out */
    dc->early[dc->early_count++ % DC_EARLY] = (uint16_t)(value + 1);
    return true;
  }
  if (value != dc->peer.proof)
    return false;
  dc->is_heard = true;
  return true;
}

static void dc_connect_hear_early(struct dc_endpoint *dc)
{
  for (uint32_t i = 0; i < DC_EARLY; i++)
    if (dc->early[i] && !dc_hear_hello(dc, dc->early[i] - 1u))
      dc_worker_of(dc->endpoint.worker)->dropped++;
}

static void dc_connect_take_peer(struct dc_endpoint *dc, const struct dc_blob *peer)
{
  struct dc_worker *pool = dc_worker_of(dc->endpoint.worker);
  struct vb_tx *tx = dc->endpoint.tx;

  if (peer->rd_atomic && peer->rd_atomic < pool->rd_atomic)
    pool->rd_atomic = peer->rd_atomic;
  if (dc->endpoint.rx)
    dc->endpoint.rx->initial = peer->initial;
  if (!tx)
    return;
  tx->message_max =
      peer->payload_max < dc->endpoint.message_max ? peer->payload_max : dc->endpoint.message_max;
  dc->seen = peer->credits;
  vb_slot_fifo_put(&tx->credits, 0, peer->credits);
}

/* Which request says the first credit that did not come to the target that is lost; VB_NEVER: all
 * came. */
static uint64_t dc_connect_first_missing(const struct vb_send_queue *sq, uint32_t heard)
{
  for (uint64_t at = sq->done; at != sq->head; at++) {
    const struct ibv_send_wr *wr = &sq->wrs[at & sq->mask];
    const uint32_t more = (be32toh(wr->imm_data) - heard) % DC_VALUES;
    if (dc_is_credit(wr) && more && more < DC_VALUES / 2)
      return at;
  }
  return VB_NEVER;
}

/* The peer has replaced one of its targets, and says how many of the requests under way had
 * arrived. Requests to its other target, if that is unchanged, are awaited. */
static void dc_connect_follow(struct dc_endpoint *dc, const struct dc_blob *peer,
                              bool has_moved_data)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  const struct vb_send_queue *sq = &endpoint->sq;
  const uint64_t messages = endpoint->tx ? endpoint->tx->messages : 0;
  uint64_t under_way = 0;

  if (!has_moved_data && dc->stage == DC_CONNECTED) {
    dc->again_at = dc_connect_first_missing(sq, peer->heard);
    dc->moved_at = sq->head;
    return;
  }
  dc_take_sent(dc);
  for (uint64_t i = sq->done; i != sq->head; i++)
    under_way += sq->sent[i & sq->mask].opcode == PST_OP_SEND;
  if (messages - peer->messages > under_way) {
    dc_fail(endpoint, -EPROTO, "the peer has lost messages that its device had acknowledged");
    return;
  }
  dc_post_again(dc, under_way - (messages - peer->messages));
}

/* The address of a peer that it has. */
static int dc_connect_again(struct dc_endpoint *dc, const struct dc_blob *peer)
{
  const struct dc_peer had = dc->peer;
  struct pst_endpoint *endpoint = &dc->endpoint;
  const bool is_it = peer->key == had.key && peer->number == had.number &&
                     memcmp(peer->gid, had.gid, sizeof(had.gid)) == 0;
  const bool has_moved = peer->control != had.control || peer->data != had.data;

  if (endpoint->closing.mode || dc_is_over(dc) || !is_it ||
      (!has_moved && dc->stage != DC_CONNECTED))
    return -EALREADY;
  dc->tells_again |= dc->stage == DC_CONNECTED;
  vb_pend(endpoint);
  if (!has_moved)
    return 0;
  dc_forget_peer(dc);
  dc->peer.control = peer->control;
  dc->peer.data = peer->data;
  dc_connect_join(dc);
  dc->silent_ns = dc->probe_at_ns = 0;
  if (dc->is_waiting && dc->line >= DC_SILENT)
    dc_wait_in(dc, DC_ASKING);
  dc->heard_ns = vb_now_ns(endpoint->device);
  dc_connect_follow(dc, peer, peer->data != had.data);
  return 0;
}

/* Takes the peer's address and says hello. A second address of the same peer, which has moved, is
 * followed. */
int dc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct dc_endpoint *dc = dc_of(endpoint);
  struct dc_blob peer;

  if (!address)
    return -EINVAL;
  int rc = dc_connect_check(dc, address, &peer);
  if (rc < 0)
    return rc;
  if (dc->stage != DC_NEW)
    return dc_connect_again(dc, &peer);
  if (endpoint->closing.mode)
    return -EALREADY;
  dc->peer = (struct dc_peer){.key = peer.key,
                              .control = peer.control,
                              .data = peer.data,
                              .number = peer.number,
                              .proof = (uint16_t)dc_blob_proof(&peer)};
  memcpy(dc->peer.gid, peer.gid, sizeof(peer.gid));
  rc = dc_handle_take(dc, &peer);
  if (rc < 0)
    return rc;
  const bool taken = dc_connect_is_taken(dc);
  dc_connect_join(dc);
  dc_connect_take_peer(dc, &peer);
  dc_enter(dc, DC_RESOLVING);
  dc_connect_hear_early(dc);
  dc->says |= 1u << DC_HELLO;
  dc->heard_ns = vb_now_ns(endpoint->device);
  if (endpoint->timeout_ns)
    dc->by_ns = dc->heard_ns + endpoint->timeout_ns;
  vb_due(endpoint->worker, dc->by_ns);
  if (taken)
    dc_fail(endpoint, -EADDRINUSE,
            "another endpoint of this process connects to the same receiver already");
  else
    dc_notice(endpoint);
  return 0;
}

static void dc_connect_cannot_be_reached(struct dc_endpoint *dc)
{
  char peer[VB_GID_TEXT], why[256];

  vb_gid_address(dc->peer.gid, peer);
  snprintf(why, sizeof(why),
           "ibv_create_ah to %s: %s; it may not be reachable (`ip route get`, `ip neigh`), or the "
           "port's own GID has changed (`ip addr`, `rdma link`)",
           peer, strerror(dc->handle->error));
  dc_fail(&dc->endpoint, -dc->handle->error, why);
}

void dc_notice(struct pst_endpoint *endpoint)
{
  struct dc_endpoint *dc = dc_of(endpoint);
  const struct dc_worker *pool = dc_worker_of(endpoint->worker);
  const int event = atomic_load_explicit(&pool->queue.event, memory_order_acquire);
  char why[512];

  if (event && !dc_is_over(dc)) {
    vb_event_text(event - 1, why, sizeof(why));
    dc_fail(endpoint, -EIO, why);
  }
  if (!dc_is_over(dc) && atomic_load_explicit(&endpoint->device->is_lost, memory_order_relaxed))
    dc_fail(endpoint, -EIO, "the device is lost");
  if (dc->stage != DC_RESOLVING || endpoint->closing.mode)
    return;
  const int state = atomic_load_explicit(&dc->handle->state, memory_order_acquire);
  if (state == DC_HANDLE_FAILED)
    dc_connect_cannot_be_reached(dc);
  if (state != DC_HANDLE_READY)
    return;
  dc_enter(dc, DC_GREETING);
  vb_pend(endpoint);
}

void dc_answered(struct dc_endpoint *dc, uint64_t index)
{
  dc->endpoint.sq.done = index + 1;
  if (dc->is_answered || index < dc->hello_at)
    return;
  dc->is_answered = true;
  dc_met(dc);
}

void dc_met(struct dc_endpoint *dc)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  char words[512];

  if (dc->stage != DC_GREETING || !dc->is_heard || !dc->is_answered || endpoint->closing.mode)
    return;
  dc_enter(dc, DC_CONNECTED);
  endpoint->tell_connected = true;
  dc_describe(endpoint, words, sizeof(words));
  VB_LOG(endpoint->device, PST_LOG_DEBUG, "%s: connected: %s", endpoint->label, words);
  dc->heard_ns = vb_now_ns(endpoint->device);
  vb_due(endpoint->worker, 0);
  vb_pend(endpoint);
}
