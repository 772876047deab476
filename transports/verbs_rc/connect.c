/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ends meet. Each takes its queue pair to RTS by the other's address, on the host's thread for
 * what may block (the kernel resolves the address); the one with the lower GID and number says
 * hello. A hello to a peer that is not there yet is repeated by the device; when that gives up, the
 * queue pair is reset and begins anew, until timeout_ns is over. Nothing can be lost in that, since
 * nobody has heard it. One end is connected when its hello is answered, the other when it hears it.
 */
#include <stdio.h>

#include "../verbs/request.h"
#include "cm.h"
#include "connection.h"
#include "multi_qp.h"
#include "ops.h"
#include "qp.h"

static int rc_connect_refuse(const struct pst_endpoint *endpoint, int rc, const char *why)
{
  VB_LOG(endpoint->device, PST_LOG_ERROR, "%s: the peer's address cannot be used: %s",
         endpoint->label, why);
  return rc;
}

/* RoCE v2 goes by IP: no packet has an IPv4 and an IPv6 address. */
static int rc_connect_check_families(const struct pst_endpoint *endpoint,
                                     const struct rc_blob *peer)
{
  const struct rc_blob *own = &endpoint->rc->own;
  char theirs[VB_GID_TEXT], why[512];

  if (own->gid_type != VB_GID_ROCE_V2 || vb_gid_is_ipv4(own->gid) == vb_gid_is_ipv4(peer->gid))
    return 0;
  vb_gid_address(peer->gid, theirs);
  snprintf(
      why, sizeof(why),
      "its GID is %s, ours is of the other version of IP (%s); set gid_index, or an address as "
      "`device`, so that both are of one",
      theirs, endpoint->rc->where.reason);
  return rc_connect_refuse(endpoint, -EXDEV, why);
}

/* Compares the peer's address with this end's options. -EPROTO or -EINVAL after a log that names
 * the difference. */
static int rc_connect_check(const struct pst_endpoint *endpoint, const struct pst_blob *address,
                            struct rc_blob *peer)
{
  const struct rc_blob *own = &endpoint->rc->own;
  char qps[96];

  if (!rc_blob_read(address->bytes, address->length, peer))
    return rc_connect_refuse(
        endpoint, -EPROTO,
        "it is not one of verbs_rc's; both ends need the same transport and version");
  snprintf(qps, sizeof(qps), "the peer has `qps: %u`, and this end %u; both need the same",
           peer->lanes, own->lanes);
  const struct {
    bool differs;
    int error;
    const char *why;
  } faults[] = {
      {peer->is_sender != own->is_receiver || peer->is_receiver != own->is_sender, -EPROTO,
       own->is_sender ? "this end sends, and the peer does not receive, or sends, too"
                      : "one end sends, and the other does not receive"},
      {peer->is_cm != own->is_cm, -EPROTO,
       own->is_cm
           ? "the peer has `connection: exchange`, and this end rdma_cm; both need the same"
           : "the peer has `connection: rdma_cm`, and this end exchange; both need the same"},
      {peer->sends != own->sends, -EPROTO,
       own->sends ? "the peer has `operation: write`, and this end send; both need the same"
                  : "the peer has `operation: send`, and this end write; both need the same"},
      {peer->lanes != own->lanes, -EPROTO, qps},
      {peer->is_split != own->is_split, -EPROTO,
       "one end uses a separate queue pair for its answers, and the other does not; both ends "
       "need a domain, or neither"},
      {peer->is_ethernet != own->is_ethernet, -EXDEV,
       "one end is on Ethernet (RoCE), the other on InfiniBand; choose other devices"},
      {peer->gid_type != own->gid_type, -EXDEV,
       "one end's GID is RoCE v1, the other's RoCE v2; set gid_index, or an address as `device`, "
       "so that both are v2"},
  };
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
    if (faults[i].differs)
      return rc_connect_refuse(endpoint, faults[i].error, faults[i].why);
  return rc_connect_check_families(endpoint, peer);
}

/* Warns if only one end has `reconnect`: the connection works until something fails, so this is no
 * reason to refuse it. */
static void rc_connect_check_reconnect(const struct pst_endpoint *endpoint,
                                       const struct rc_blob *peer)
{
  if (peer->reconnects != endpoint->rc->own.reconnects)
    VB_LOG(endpoint->device, PST_LOG_WARN,
           "%s: %s; the connection ends the first time it fails; give both ends `reconnect`, or "
           "neither",
           endpoint->label,
           peer->reconnects ? "the peer has `reconnect`, and this end does not"
                            : "this end has `reconnect`, and the peer does not");
}

/* A second connection to the same queue pair would never be answered. The number of one that is
 * over may be another's by now. */
static bool rc_connect_is_taken(const struct pst_endpoint *endpoint, const struct rc_blob *peer)
{
  const struct pst_places *places = &endpoint->worker->endpoints;

  for (uint32_t i = 0; i < places->room; i++) {
    const struct pst_endpoint *other = places->all[i].at;
    if (other && other != endpoint && other->rc->stage.name != RC_NEW && !rc_is_over(other) &&
        other->rc->peer.qps[0].qpn == peer->qps[0].qpn &&
        memcmp(other->rc->peer.gid, peer->gid, sizeof(peer->gid)) == 0)
      return true;
  }
  return false;
}

/* Sizes credit messages by what the peer can take, and fills in what it has announced. */
static int rc_connect_take_peer(struct pst_endpoint *endpoint)
{
  const struct rc_blob *peer = &endpoint->rc->peer;
  struct vb_tx *tx = endpoint->tx;

  if (endpoint->rx) {
    uint32_t receives = peer->control_receives;
    endpoint->rx->own->control_receives =
        receives < endpoint->credit_depth ? receives : endpoint->credit_depth;
    uint32_t bytes = peer->control_bytes;
    bytes = bytes < endpoint->credit_bytes ? bytes : endpoint->credit_bytes;
    if (!endpoint->buffers->credit_mr && bytes > endpoint->sq.max_inline)
      bytes = endpoint->sq.max_inline;
    endpoint->rx->own->runs_max = bytes / (uint32_t)sizeof(struct vb_run);
    endpoint->rx->initial = peer->initial;
    endpoint->rx->has_runs = endpoint->rc->own.has_runs && peer->has_runs;
  }
  if (!tx)
    return 0;
  tx->address = peer->address;
  tx->rkey = peer->rkey;
  tx->stride = peer->stride;
  tx->message_max =
      peer->payload_max < endpoint->message_max ? peer->payload_max : endpoint->message_max;
  tx->slots = peer->slots;
  tx->turn = rc_turn(peer->share, endpoint->lane_count);
  tx->run_max = endpoint->rc->own.has_runs && peer->has_runs ? vb_run_max(peer->stride) : 1;
  tx->run_length_min = tx->run_max > 1 ? peer->stride - peer->stride / 8 : UINT64_MAX;
  tx->opcode = peer->sends ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
  int rc = vb_slot_fifo_open(&tx->credits, peer->share);
  for (uint32_t i = 0; rc == 0 && i < peer->run_count; i++)
    vb_slot_fifo_put(&tx->credits, peer->runs[i].first, peer->runs[i].count);
  return rc;
}

/* Connects to the peer of this address. -EALREADY: it has a peer, or is closing. */
int rc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct rc_blob peer;

  if (!address)
    return -EINVAL;
  int rc = rc_connect_check(endpoint, address, &peer);
  if (rc < 0)
    return rc;
  if (endpoint->rc->stage.name != RC_NEW || endpoint->closing.mode)
    return -EALREADY;
  rc_connect_check_reconnect(endpoint, &peer);
  bool taken = rc_connect_is_taken(endpoint, &peer);
  endpoint->rc->peer = peer;
  if ((rc = rc_connect_take_peer(endpoint)) < 0)
    return rc;
  endpoint->rc->heard_ns = vb_now_ns(endpoint->device);
  if ((rc = rc_counter_baseline_begin(endpoint, endpoint->rc->heard_ns)) < 0)
    return rc;
  if (endpoint->timeout_ns)
    endpoint->rc->stage.connecting.by_ns = endpoint->rc->heard_ns + endpoint->timeout_ns;
  vb_due(endpoint->worker, endpoint->rc->stage.connecting.by_ns);
  if (taken) {
    rc_fail(endpoint, -EADDRINUSE,
            "another endpoint of this process connects to the same receiver already");
    return 0;
  }
  if (!endpoint->rc->cm)
    return rc_set_up_soon(endpoint);
  endpoint->device->cm->connect(endpoint);
  return 0;
}

/* Both ends come to the same answer. */
bool rc_says_hello(const struct pst_endpoint *endpoint)
{
  const struct rc_blob *own = &endpoint->rc->own, *peer = &endpoint->rc->peer;
  int order = memcmp(own->gid, peer->gid, sizeof(own->gid));

  /* With rdma_cm the end that connects begins: the other one is ready before the kernel tells this
   * end so. */
  if (endpoint->rc->cm && own->is_sender != own->is_receiver)
    return own->is_sender;
  return order ? order < 0 : own->qps[0].qpn < peer->qps[0].qpn;
}

/* The peer has heard this end. */
static void rc_connect_connected(struct pst_endpoint *endpoint)
{
  char words[512];

  /* The peer's hello may be here as soon as the queue pair is in RTR, and is sent once. */
  if (endpoint->rc->stage.name == RC_SETTING_UP)
    endpoint->rc->stage.connecting.is_heard_early = true;
  if (endpoint->rc->stage.name != RC_GREETING)
    return;
  rc_enter(endpoint, RC_CONNECTED);
  endpoint->tell_connected = true;
  rc_describe(endpoint, words, sizeof(words));
  VB_LOG(endpoint->device, PST_LOG_DEBUG, "%s: connected: %s", endpoint->label, words);
  endpoint->rc->heard_ns = vb_now_ns(endpoint->device);
  vb_due(endpoint->worker, 0);
  vb_pend(endpoint);
}

void rc_lane_heard(struct pst_endpoint *endpoint, struct rc_lane *heard)
{
  if (heard->peer == RC_PEER_SILENT)
    heard->peer = RC_PEER_HEARD;
  for (const struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->peer == RC_PEER_SILENT)
      return;
  rc_connect_connected(endpoint);
}

static int rc_connect_say_hellos(struct pst_endpoint *endpoint)
{
  const bool says = rc_says_hello(endpoint);
  int rc = 0;

  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++) {
    if (lane->sets_up && says && rc == 0)
      rc = rc_lane_say(endpoint, lane, VB_HELLO);
    lane->sets_up = false;
  }
  return rc;
}

void rc_greet(struct pst_endpoint *endpoint)
{
  char why[256];

  atomic_store_explicit(&endpoint->rc->setup, 0, memory_order_relaxed);
  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->sets_up)
      lane->is_erred = lane->greets_again = false;
  if (endpoint->rc->stage.name == RC_FAILED)
    rc_queue_error(endpoint);
  if (endpoint->rc->stage.name == RC_SETTING_UP_AGAIN)
    rc_reconnect_greet(endpoint);
  if (endpoint->rc->stage.name != RC_SETTING_UP || endpoint->closing.mode)
    return;
  if (endpoint->rc->setup_rc != 0) {
    snprintf(
        why, sizeof(why), "the queue pair cannot be set up: %s; %s",
        strerror(endpoint->rc->setup_rc),
        endpoint->rc->setup_rc == EADDRNOTAVAIL
            ? "the port's GID has changed since the peer got its address (`ip addr`, `rdma link`)"
            : "the peer's GID may not be reachable (`ip route get`, `ip neigh`), its subnet "
              "another");
    rc_fail(endpoint, -endpoint->rc->setup_rc, why);
    return;
  }
  rc_enter(endpoint, RC_GREETING);
  if (endpoint->rc->stage.connecting.is_heard_early)
    rc_connect_connected(endpoint);
  int rc = rc_connect_say_hellos(endpoint);
  if (rc < 0)
    rc_fail(endpoint, rc, "ibv_post_send of the hello");
}

void rc_greet_again(struct pst_endpoint *endpoint)
{
  bool again = false;

  if (endpoint->closing.mode || endpoint->rc->stage.name == RC_FAILED ||
      atomic_load_explicit(&endpoint->rc->setup, memory_order_acquire) != 0)
    return;
  for (struct rc_lane *lane = endpoint->rc->lanes; lane < rc_lanes_end(endpoint); lane++)
    if (lane->greets_again && rc_lane_is_empty(lane))
      lane->sets_up = again = true;
  if (again)
    rc_set_up_again(endpoint);
}
