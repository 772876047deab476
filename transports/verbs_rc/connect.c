/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ends meet. Each takes its queue pair to RTS by the other's address, on the host's thread for
 * what may block (the kernel resolves the address); one of the two says hello. A hello to a peer
 * that is not there yet is repeated by the device; when that gives up, the queue pair is reset and
 * begins anew, until timeout_ns is over.
 */
#include <stdio.h>

#include "cm.h"
#include "rc.h"

static int refuse(const struct pst_endpoint *endpoint, int rc, const char *why)
{
  RC_LOG(endpoint->device, PST_LOG_ERROR, "%s: the peer's address cannot be used: %s",
         endpoint->label, why);
  return rc;
}

/* RoCE v2 goes by IP: no packet has an IPv4 and an IPv6 address. */
static int check_families(const struct pst_endpoint *endpoint, const struct rc_blob *peer)
{
  const struct rc_blob *own = &endpoint->own;
  char theirs[VB_GID_TEXT], why[512];

  if (own->gid_type != VB_GID_ROCE_V2 || vb_gid_is_ipv4(own->gid) == vb_gid_is_ipv4(peer->gid))
    return 0;
  vb_gid_address(peer->gid, theirs);
  snprintf(
      why, sizeof(why),
      "its GID is %s, ours is of the other version of IP (%s); set gid_index, or an address as "
      "`device`, so that both are of one",
      theirs, endpoint->device->open.gid_reason);
  return refuse(endpoint, -EXDEV, why);
}

static int check(const struct pst_endpoint *endpoint, const struct pst_blob *address,
                 struct rc_blob *peer)
{
  const struct rc_blob *own = &endpoint->own;
  char why[96];

  if (!rc_blob_read(address->bytes, address->length, peer))
    return refuse(endpoint, -EPROTO,
                  "it is not one of verbs_rc's; both ends need the same transport and version");
  if (peer->is_sender != own->is_receiver || peer->is_receiver != own->is_sender)
    return refuse(endpoint, -EPROTO,
                  own->is_sender ? "we send, and it does not receive, or sends too"
                                 : "it sends, and we do not receive, or the other way round");
  if (peer->is_cm != own->is_cm)
    return refuse(endpoint, -EPROTO,
                  own->is_cm
                      ? "it has `connection: exchange`, and we have rdma_cm; both need the same"
                      : "it has `connection: rdma_cm`, and we have exchange; both need the "
                        "same");
  if (peer->sends != own->sends)
    return refuse(endpoint, -EPROTO,
                  own->sends ? "it has `operation: write`, and we have send; both need the same"
                             : "it has `operation: send`, and we have write; both need the same");
  if (peer->lanes != own->lanes) {
    snprintf(why, sizeof(why), "it has `qps: %u`, and we have %u; both need the same", peer->lanes,
             own->lanes);
    return refuse(endpoint, -EPROTO, why);
  }
  if (peer->is_split != own->is_split)
    return refuse(
        endpoint, -EPROTO,
        "one end answers its peer by a queue pair of its own, and the other does not; both "
        "ends need a domain, or neither");
  if (peer->is_ethernet != own->is_ethernet)
    return refuse(endpoint, -EXDEV,
                  "one end is on Ethernet (RoCE), the other on InfiniBand; choose other devices");
  if (peer->gid_type != own->gid_type)
    return refuse(endpoint, -EXDEV,
                  "one end's GID is RoCE v1, the other's RoCE v2; set gid_index, or an address as "
                  "`device`, so that both are v2");
  return check_families(endpoint, peer);
}

/* What works until something fails is no reason to refuse, and is to be known before it does. */
static void check_reconnect(const struct pst_endpoint *endpoint, const struct rc_blob *peer)
{
  if (peer->reconnects != endpoint->own.reconnects)
    RC_LOG(endpoint->device, PST_LOG_WARN,
           "%s: %s; the connection ends the first time it fails; give both ends `reconnect`, or "
           "neither",
           endpoint->label,
           peer->reconnects ? "the peer has `reconnect`, and we have not"
                            : "we have `reconnect`, and the peer has not");
}

/* A second connection to the same queue pair would never be answered. The number of one that is
 * over may be another's by now. */
static bool is_taken(const struct pst_endpoint *endpoint, const struct rc_blob *peer)
{
  const struct pst_places *places = &endpoint->worker->endpoints;

  for (uint32_t i = 0; i < places->room; i++) {
    const struct pst_endpoint *other = places->all[i].at;
    if (other && other != endpoint && other->state != RC_NEW && other->state != RC_OVER &&
        other->peer.qpn == peer->qpn && memcmp(other->peer.gid, peer->gid, sizeof(peer->gid)) == 0)
      return true;
  }
  return false;
}

static int take_peer(struct pst_endpoint *endpoint)
{
  const struct rc_blob *peer = &endpoint->peer;
  struct rc_tx *tx = endpoint->tx;

  if (endpoint->rx) {
    uint32_t receives = peer->control_receives;
    endpoint->rx->control_receives =
        receives < endpoint->credit_depth ? receives : endpoint->credit_depth;
    uint32_t bytes = peer->control_bytes;
    bytes = bytes < endpoint->credit_bytes ? bytes : endpoint->credit_bytes;
    if (!endpoint->credit_mr && bytes > endpoint->max_inline)
      bytes = endpoint->max_inline;
    endpoint->rx->runs_max = bytes / (uint32_t)sizeof(struct rc_run);
    endpoint->rx->initial = peer->initial;
  }
  if (!tx)
    return 0;
  tx->address = peer->address;
  tx->rkey = peer->rkey;
  tx->stride = peer->stride;
  tx->message_max =
      peer->payload_max < endpoint->message_max ? peer->payload_max : endpoint->message_max;
  tx->slots = peer->slots;
  tx->opcode = peer->sends ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
  int rc = rc_fifo_open(&tx->credits, peer->share);
  for (uint32_t i = 0; rc == 0 && i < peer->run_count; i++)
    for (uint32_t k = 0; k < peer->runs[i].count; k++)
      rc_fifo_put(&tx->credits, peer->runs[i].first + k);
  return rc;
}

int rc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct rc_blob peer;

  if (!address)
    return -EINVAL;
  int rc = check(endpoint, address, &peer);
  if (rc < 0)
    return rc;
  if (endpoint->state != RC_NEW || endpoint->closing.mode)
    return -EALREADY;
  check_reconnect(endpoint, &peer);
  bool taken = is_taken(endpoint, &peer);
  endpoint->peer = peer;
  if ((rc = take_peer(endpoint)) < 0)
    return rc;
  endpoint->heard_ns = rc_now_ns(endpoint->device);
  if ((rc = rc_since_begin(endpoint, endpoint->heard_ns)) < 0)
    return rc;
  if (endpoint->timeout_ns)
    endpoint->connect_by_ns = endpoint->heard_ns + endpoint->timeout_ns;
  rc_due(endpoint->worker, endpoint->connect_by_ns);
  if (taken) {
    rc_fail(endpoint, -EADDRINUSE,
            "another endpoint of this process connects to the same receiver already");
    return 0;
  }
  if (!endpoint->cm)
    return rc_set_up_soon(endpoint);
  rc_cm_connect(endpoint);
  return 0;
}

void rc_greet(struct pst_endpoint *endpoint)
{
  const bool is_first = !endpoint->lanes || endpoint->lanes[0].sets_up;
  char why[256];

  atomic_store_explicit(&endpoint->setup, 0, memory_order_relaxed);
  if (is_first)
    endpoint->is_erred = false;
  rc_lanes_are_up(endpoint);
  if (endpoint->is_failed)
    rc_queue_error(endpoint);
  if (endpoint->state != RC_SETTING_UP || endpoint->closing.mode)
    return;
  if (endpoint->reconnect.by_ns) {
    rc_reconnect_greet(endpoint);
    return;
  }
  if (endpoint->setup_rc != 0) {
    snprintf(why, sizeof(why),
             "the queue pair cannot be set up: %s; the peer's GID may not be reachable (`ip route "
             "get`, `ip neigh`), its subnet another",
             strerror(endpoint->setup_rc));
    rc_fail(endpoint, -endpoint->setup_rc, why);
    return;
  }
  endpoint->state = RC_GREETING;
  if (endpoint->is_heard_early)
    rc_connected(endpoint);
  int rc = rc_lanes_greet(endpoint);
  if (rc == 0 && is_first && rc_says_hello(endpoint))
    rc = rc_queue_own(endpoint, RC_HELLO, NULL, 0, 0, 0);
  if (rc < 0)
    rc_fail(endpoint, rc, "ibv_post_send of the hello");
}

void rc_greet_again(struct pst_endpoint *endpoint, bool is_first)
{
  if (is_first)
    endpoint->sq_told = endpoint->sq_done = endpoint->sq_head;
  if (is_first && endpoint->lanes)
    endpoint->lanes[0].sets_up = true;
  int rc = rc_set_up_soon(endpoint);
  if (rc < 0)
    rc_fail(endpoint, rc, "no memory to connect with");
}
