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
#include "shared.h"

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
  const struct rc_places *places = &endpoint->worker->endpoints;

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

/* ---- The queue pair's states, on the host's thread ---------------------------------------- */

struct pair {
  struct ibv_qp *qp;
  uint32_t psn;
  uint32_t peer_qpn, peer_psn;
};

static int to_rtr(struct pst_endpoint *endpoint, const struct pair *pair)
{
  const struct pst_device *device = endpoint->device;
  const struct rc_blob *peer = &endpoint->peer;
  struct vb_peer where = {.is_ethernet = peer->is_ethernet, .lid = peer->lid};
  uint32_t mtu = peer->mtu < device->mtu ? peer->mtu : (uint32_t)device->mtu;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = (enum ibv_mtu)mtu,
                             .dest_qp_num = pair->peer_qpn,
                             .rq_psn = pair->peer_psn,
                             .max_dest_rd_atomic = endpoint->own.rd_atomic,
                             .min_rnr_timer = (uint8_t)device->path.min_rnr_timer};

  memcpy(where.gid, peer->gid, sizeof(where.gid));
  vb_address_vector(&device->path, &where, device->open.port->number, device->open.gid.index,
                    &attr.ah_attr);
  int rc = endpoint->cm ? rc_cm_attributes(endpoint, &attr) : 0;
  return rc ? rc
            : ibv_modify_qp(pair->qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct pst_endpoint *endpoint, const struct pair *pair)
{
  const struct vb_path *path = &endpoint->device->path;
  uint32_t own = (uint32_t)endpoint->device->attr.max_qp_init_rd_atom;
  uint32_t peer = endpoint->peer.rd_atomic;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                             .timeout = (uint8_t)path->timeout,
                             .retry_cnt = (uint8_t)path->retry_cnt,
                             .rnr_retry = (uint8_t)path->rnr_retry,
                             .sq_psn = pair->psn,
                             .max_rd_atomic = (uint8_t)(own < peer ? own : peer)};

  int rc = endpoint->cm ? rc_cm_attributes(endpoint, &attr) : 0;
  return rc ? rc
            : ibv_modify_qp(pair->qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to_reset(struct ibv_qp *qp)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int to_ready(struct pst_endpoint *endpoint, const struct pair *pair)
{
  int rc = to_rtr(endpoint, pair);

  return rc ? rc : to_rts(endpoint, pair);
}

/* Of an endpoint that is split what asks meets what answers, `i` of the peer's. It answers before
 * it asks: the peer may do so as soon as it is asked. */
static int to_ready_both(struct pst_endpoint *endpoint, const struct pair *pair,
                         struct ibv_qp *responder, uint32_t psn, uint32_t i)
{
  const struct rc_blob *peer = &endpoint->peer;
  const struct pair asks = {pair->qp, pair->psn, peer->responders[i].qpn, peer->responders[i].psn};
  const struct pair answers = {responder, psn, pair->peer_qpn, pair->peer_psn};

  if (!endpoint->is_split)
    return to_ready(endpoint, pair);
  int rc = to_ready(endpoint, &answers);
  return rc ? rc : to_ready(endpoint, &asks);
}

static int to_reset_both(struct ibv_qp *qp, struct ibv_qp *responder)
{
  int rc = to_reset(qp);

  return rc == 0 && responder != qp ? to_reset(responder) : rc;
}

static int set_up_first(struct pst_endpoint *endpoint)
{
  const struct pair pair = {endpoint->qp, endpoint->psn, endpoint->peer.qpn, endpoint->peer.psn};
  int rc = 0;

  if (endpoint->is_erred) { /* once more */
    rc = to_reset_both(endpoint->qp, endpoint->responder);
    if (rc == 0)
      rc = -rc_queue_init(endpoint);
  }
  return rc ? rc : to_ready_both(endpoint, &pair, endpoint->responder, endpoint->responder_psn, 0);
}

static int set_up_lane(struct pst_endpoint *endpoint, uint32_t i)
{
  struct rc_lane *lane = &endpoint->lanes[i];
  const struct pair pair = {lane->qp, lane->psn, endpoint->peer.more[i - 1].qpn,
                            endpoint->peer.more[i - 1].psn};
  int rc = 0;

  if (lane->is_erred) {
    rc = to_reset_both(lane->qp, lane->responder);
    if (rc == 0)
      rc = -rc_lane_init(endpoint, lane);
  }
  return rc ? rc : to_ready_both(endpoint, &pair, lane->responder, lane->responder_psn, i);
}

static void set_up(void *arg)
{
  struct pst_endpoint *endpoint = arg;
  struct pst_worker *worker = endpoint->worker;
  int rc = !endpoint->lanes || endpoint->lanes[0].sets_up ? set_up_first(endpoint) : 0;

  for (uint32_t i = 1; rc == 0 && i < endpoint->lane_count; i++)
    if (endpoint->lanes[i].sets_up)
      rc = set_up_lane(endpoint, i);
  if (rc == 0 && endpoint->cm)
    rc = rc_cm_settle(endpoint);
  endpoint->setup_rc = rc;
  atomic_store_explicit(&endpoint->setup, 2, memory_order_release);
  rc_notify(worker);
}

int rc_set_up_soon(struct pst_endpoint *endpoint)
{
  endpoint->state = RC_SETTING_UP;
  endpoint->flushed_ns = 0;
  rc_shared_begin(endpoint);
  atomic_store_explicit(&endpoint->setup, 1, memory_order_relaxed);
  int rc = endpoint->device->host->defer(endpoint->device->host, set_up, endpoint);
  if (rc < 0)
    atomic_store_explicit(&endpoint->setup, 0, memory_order_relaxed);
  return rc;
}

/* ---- The worker's side ------------------------------------------------------------------------
 */

int rc_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct rc_blob peer;

  if (!address)
    return -EINVAL;
  int rc = check(endpoint, address, &peer);
  if (rc < 0)
    return rc;
  if (endpoint->state != RC_NEW || endpoint->close_mode)
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

/* Both ends come to the same answer. */
bool rc_says_hello(const struct pst_endpoint *endpoint)
{
  const struct rc_blob *own = &endpoint->own, *peer = &endpoint->peer;
  int order = memcmp(own->gid, peer->gid, sizeof(own->gid));

  if (endpoint->cm) /* the other one is ready before the kernel tells this one that it is */
    return rc_cm_connects(endpoint);
  return order ? order < 0 : own->qpn < peer->qpn;
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
  if (endpoint->state != RC_SETTING_UP || endpoint->close_mode)
    return;
  if (endpoint->mend.by_ns) {
    rc_mend_greet(endpoint);
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

/* GIDs, MTU, hop limit and queue pairs, for whoever looks for what the ends have agreed on. */
static void tell_connection(struct pst_endpoint *endpoint)
{
  char words[512];

  rc_describe(endpoint, words, sizeof(words));
  RC_LOG(endpoint->device, PST_LOG_DEBUG, "%s: connected: %s", endpoint->label, words);
}

void rc_connected(struct pst_endpoint *endpoint)
{
  /* The peer's hello may be here as soon as the queue pair is in RTR, and is said once. */
  if (endpoint->state == RC_SETTING_UP && !endpoint->mend.by_ns)
    endpoint->is_heard_early = true;
  if (endpoint->state != RC_GREETING || endpoint->mend.by_ns)
    return;
  endpoint->state = RC_CONNECTED;
  endpoint->tell_connected = true;
  tell_connection(endpoint);
  endpoint->heard_ns = rc_now_ns(endpoint->device);
  rc_due(endpoint->worker, 0);
  rc_pend(endpoint);
}
