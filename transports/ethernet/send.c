/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From requests to bursts.
 *
 * A driver that holds nothing after a burst has the payload by reference for that long, and its
 * requests are DONE at once. One that holds mbufs gets a *flight* for each request: what the
 * payload's segments share, which DPDK calls back when the last of them is free. Flights end in any
 * order; DONEs are given in the order of posts. A driver that cannot read other memory gets copies.
 * A payload in memory that the CPU does not reach is segments of its own in any case (payload.h).
 */
#include <assert.h>
#include <stdio.h>

#include <rte_mempool.h>

#include "../datagram/post.h"
#include "port.h"

#define PREFETCH 4u /* requests ahead */
_Static_assert(ETH_CONTROL_MAX >= ETH_SEND_HEADROOM + DG_TAG_BYTES + ETH_COPY_MAX,
               "mbufs have room for a copy");

struct eth_flight {
  struct rte_mbuf_ext_shared_info shared;
  uint64_t cookie;
  bool is_over; /* written by whoever frees the last segment */
};

/* ---- Memory under way -------------------------------------------------------------------------
 */

static void eth_send_flight_over(void *address, void *opaque)
{
  struct eth_flight *flight = opaque;

  (void)address;
  if (flight)
    __atomic_store_n(&flight->is_over, true, __ATOMIC_RELEASE);
}

void eth_tx_reap(struct pst_endpoint *endpoint)
{
  struct eth_tx *tx = endpoint->tx;

  if (tx->flight_tail == tx->flight_head)
    return;
  eth_txq_look(endpoint->worker->txq, endpoint->worker->device->port);
  while (tx->flight_tail != tx->flight_head) {
    const struct eth_flight *flight = &tx->flights[tx->flight_tail & tx->flight_mask];
    if (!__atomic_load_n(&flight->is_over, __ATOMIC_ACQUIRE))
      break;
    tx->flight_tail++;
    assert(tx->flight_head - tx->flight_tail <= tx->flight_mask); /* the tail passes no head */
    pst_dones_push(&endpoint->dg.cpu.dones, PST_OP_SEND, 0, flight->cookie, 1);
  }
}

/* An mbuf to send; NULL: none is free. */
static struct rte_mbuf *eth_send_take_mbuf(struct pst_worker *worker)
{
  if (worker->ready_count)
    return worker->ready[--worker->ready_count];
  if (rte_pktmbuf_alloc_bulk(worker->out, worker->ready, ETH_BURST) != 0)
    return rte_pktmbuf_alloc(worker->out);
  worker->ready_count = ETH_BURST - 1;
  return worker->ready[ETH_BURST - 1];
}

/* One that is a whole packet, the `index`th of a burst. A driver that copies frees it in the burst,
 * into a pool that leaves it here. A second reference would do that, too, but a driver takes it off
 * by an atomic operation, which waits until the copy is visible to the peer. NULL: none is free. */
static struct rte_mbuf *eth_send_take_only(struct pst_worker *worker, struct rte_mbuf **kept,
                                           uint32_t index)
{
  struct rte_mbuf *mbuf = kept[index];

  if (!worker->keeper)
    return eth_send_take_mbuf(worker);
  if (!mbuf) {
    if (!(mbuf = kept[index] = eth_send_take_mbuf(worker)))
      return NULL;
    mbuf->pool = worker->keeper;
  }
  assert(rte_mbuf_refcnt_read(mbuf) == 1);
  mbuf->ol_flags &= RTE_MBUF_F_EXTERNAL;
  return mbuf;
}

static void eth_send_drop_kept(struct pst_worker *worker, struct rte_mbuf *kept[ETH_BURST])
{
  for (uint32_t i = 0; i < ETH_BURST; i++)
    if (kept[i])
      kept[i]->pool = worker->out;
  rte_pktmbuf_free_bulk(kept, ETH_BURST);
  memset(kept, 0, ETH_BURST * sizeof(kept[0]));
}

void eth_tx_drop_mbufs(struct pst_worker *worker)
{
  rte_pktmbuf_free_bulk(worker->ready, worker->ready_count);
  worker->ready_count = 0;
  eth_send_drop_kept(worker, worker->whole);
  eth_send_drop_kept(worker, worker->copies);
}

/* ---- A message's mbufs ------------------------------------------------------------------------
 */

static uint64_t eth_send_piece_sum(const struct pst_piece *pieces, uint32_t count, uint64_t sum)
{
  uint64_t bytes = 0;

  for (uint32_t i = 0; i < count; bytes += pieces[i++].length) {
    if (!pieces[i].length)
      continue;
    uint64_t one =
        eth_sum(pst_cpu_mr_of(pieces[i].mr)->base + pieces[i].offset, pieces[i].length, 0);
    sum += bytes & 1 ? eth_sum_odd(one) : one;
  }
  return sum;
}

/* Writes the tag over the framing's header and the payload, which the CPU reads:
 * eth_payload_judge(). */
static void eth_send_sign(struct pst_endpoint *endpoint, const struct pst_piece *pieces,
                          uint32_t count, uint8_t *framing)
{
  struct iovec parts[PST_CPU_PIECES_MAX];
  uint32_t used = 0;

  assert(count <= PST_CPU_PIECES_MAX); /* dg_send_check() */
  for (uint32_t i = 0; i < count; i++)
    if (pieces[i].length)
      parts[used++] = (struct iovec){pst_cpu_mr_of(pieces[i].mr)->base + pieces[i].offset,
                                     (size_t)pieces[i].length};
  dg_tag_sign(endpoint->tx->sender.tag, framing, endpoint->dg.header_bytes - DG_TAG_BYTES, parts,
              used);
}

/* All headers, those of the framing included, at `to`. */
static void eth_send_write_headers(struct pst_endpoint *endpoint, const struct pst_request *request,
                                   uint64_t now_ns, uint8_t *to)
{
  struct eth_tx *tx = endpoint->tx;
  const uint32_t header = endpoint->dg.header_bytes;
  uint8_t *framing = to + tx->template.length;
  uint64_t sum = 0;
  uint32_t bytes = 0, count;
  struct pst_piece one;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  if (tx->sender.sums)
    for (uint32_t i = 0; i < count; i++)
      if (pieces[i].length)
        bytes +=
            dg_byte_sum(pst_cpu_mr_of(pieces[i].mr)->base + pieces[i].offset, pieces[i].length);
  if (header)
    dg_sender_header(&tx->sender, request->u.send.sequence, bytes,
                     request->u.send.departure_ns ? request->u.send.departure_ns : now_ns, framing);
  if (tx->sender.tag)
    eth_send_sign(endpoint, pieces, count, framing);
  if (tx->template.udp_checksum == ETH_CHECKSUM_SOFTWARE)
    sum = eth_send_piece_sum(pieces, count, eth_sum(framing, header, 0));
  eth_template_write(&tx->template, to, header + (uint32_t)request->arg.length, tx->identifier++,
                     sum);
}

static void eth_send_mark_offloads(const struct pst_endpoint *endpoint, struct rte_mbuf *mbuf)
{
  const struct eth_template *template = &endpoint->tx->template;

  mbuf->l2_len = template->ip_at;
  mbuf->l3_len = (uint16_t)(template->udp_at - template->ip_at);
  if (template->is_v4 && !template->sums_ip)
    mbuf->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
  if (template->udp_checksum == ETH_CHECKSUM_OFFLOAD)
    mbuf->ol_flags |=
        RTE_MBUF_F_TX_UDP_CKSUM | (template->is_v4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
}

/* Makes a segment that refers to memory of another owner. */
static void eth_send_refer(struct rte_mbuf *mbuf, uint8_t *at, uint32_t length,
                           struct rte_mbuf_ext_shared_info *shared)
{
  rte_pktmbuf_attach_extbuf(mbuf, at, (rte_iova_t)(uintptr_t)at, (uint16_t)length, shared);
  mbuf->data_off = 0;
  mbuf->data_len = (uint16_t)length;
}

static struct rte_mbuf *eth_send_make_copy(struct pst_endpoint *endpoint,
                                           const struct pst_request *request, uint32_t index,
                                           uint64_t now_ns)
{
  const uint32_t headers = endpoint->tx->template.length + endpoint->dg.header_bytes;
  struct rte_mbuf *mbuf = eth_send_take_only(endpoint->worker, endpoint->worker->copies, index);

  if (!mbuf)
    return NULL;
  eth_send_write_headers(endpoint, request, now_ns, rte_pktmbuf_mtod(mbuf, uint8_t *));
  pst_cpu_gather(rte_pktmbuf_mtod(mbuf, uint8_t *) + headers, request);
  mbuf->data_len = (uint16_t)(headers + request->arg.length);
  mbuf->pkt_len = mbuf->data_len;
  return mbuf;
}

/* The header in the headroom of the payload: one segment. */
static struct rte_mbuf *eth_send_make_whole(struct pst_endpoint *endpoint,
                                            const struct pst_request *request, uint32_t index,
                                            uint64_t now_ns,
                                            struct rte_mbuf_ext_shared_info *shared)
{
  const uint32_t headers = endpoint->tx->template.length + endpoint->dg.header_bytes;
  struct rte_mbuf *mbuf = eth_send_take_only(endpoint->worker, endpoint->worker->whole, index);
  uint8_t *at = pst_cpu_mr_of(request->local.mr)->base + request->offset - headers;

  if (!mbuf)
    return NULL;
  rte_mbuf_ext_refcnt_set(shared, 1);
  eth_send_write_headers(endpoint, request, now_ns, at);
  eth_send_refer(mbuf, at, headers + (uint32_t)request->arg.length, shared);
  mbuf->pkt_len = mbuf->data_len;
  return mbuf;
}

/* A segment of headers, and one for each piece. */
static struct rte_mbuf *eth_send_make_chain(struct pst_endpoint *endpoint,
                                            const struct pst_request *request, uint64_t now_ns,
                                            struct rte_mbuf_ext_shared_info *shared)
{
  const uint32_t headers = endpoint->tx->template.length + endpoint->dg.header_bytes;
  struct rte_mbuf *mbuf = eth_send_take_mbuf(endpoint->worker), *last = mbuf;
  struct pst_piece one;
  uint32_t count, segments = 0;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  if (!mbuf)
    return NULL;
  eth_send_write_headers(endpoint, request, now_ns, rte_pktmbuf_mtod(mbuf, uint8_t *));
  mbuf->data_len = (uint16_t)headers;
  mbuf->pkt_len = headers + (uint32_t)request->arg.length;
  for (uint32_t i = 0; i < count; i++) {
    if (!pieces[i].length)
      continue;
    struct rte_mbuf *segment = eth_send_take_mbuf(endpoint->worker);
    if (!segment) {
      rte_mbuf_ext_refcnt_set(shared, (uint16_t)(segments + 1)); /* nobody is called back */
      rte_pktmbuf_free(mbuf);
      return NULL;
    }
    rte_mbuf_ext_refcnt_set(shared, (uint16_t)++segments);
    eth_send_refer(segment, pst_cpu_mr_of(pieces[i].mr)->base + pieces[i].offset,
                   (uint32_t)pieces[i].length, shared);
    last->next = segment;
    last = segment;
    mbuf->nb_segs++;
  }
  return mbuf;
}

/* Does a byte of it lie where the CPU does not reach? */
static bool eth_send_is_unreachable(const struct pst_request *request)
{
  struct pst_piece one;
  uint32_t count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  for (uint32_t i = 0; i < count; i++)
    if (pieces[i].length && pieces[i].mr->is_device)
      return true;
  return false;
}

/* Nobody reads the payload but the card. */
static struct rte_mbuf *eth_send_make_unread(struct pst_endpoint *endpoint,
                                             const struct pst_request *request, uint64_t now_ns,
                                             struct rte_mbuf_ext_shared_info *shared)
{
  const uint64_t flag = endpoint->worker->device->port->no_inline;
  struct rte_mbuf *mbuf;

  assert(!endpoint->tx->sender.sums && !endpoint->tx->sender.tag); /* eth_payload_judge() */
  assert(endpoint->tx->template.udp_checksum != ETH_CHECKSUM_SOFTWARE);
  mbuf = eth_send_make_chain(endpoint, request, now_ns, shared);
  for (struct rte_mbuf *segment = mbuf; segment; segment = segment->next)
    segment->ol_flags |= flag;
  return mbuf;
}

/* Returns whether the driver copies the payload in any case. */
static bool eth_send_is_small(const struct eth_port *port, const struct pst_request *request)
{
  return request->arg.length <= ETH_COPY_MAX && port->driver->traits & ETH_DONE_AT_ONCE;
}

/* The header of a later request is written there, whose line no cache has by then. */
static void eth_send_prefetch_header(const struct pst_request *request)
{
  if (request->opcode == PST_OP_SEND && !request->piece_count && request->local.mr)
    __builtin_prefetch(
        (const void *)((uintptr_t)pst_cpu_mr_of(request->local.mr)->base + request->offset - 1), 1);
}

static bool eth_send_goes_whole(const struct pst_endpoint *endpoint,
                                const struct pst_request *request)
{
  return (request->flags & PST_REQUEST_EXCLUSIVE) && !request->piece_count && request->arg.length &&
         request->offset >= endpoint->tx->template.length + endpoint->dg.header_bytes;
}

static uint32_t eth_send_segments_of(const struct pst_request *request)
{
  return request->piece_count ? request->piece_count : 1u;
}

/* NULL: no mbuf is free. */
static struct rte_mbuf *eth_send_make(struct pst_endpoint *endpoint,
                                      const struct pst_request *request, uint32_t index,
                                      uint64_t now_ns)
{
  const struct eth_port *port = endpoint->worker->device->port;
  struct eth_tx *tx = endpoint->tx;
  struct rte_mbuf_ext_shared_info *shared = &endpoint->worker->shared[index];
  struct eth_flight *flight = NULL;
  struct rte_mbuf *mbuf;

  if (tx->flights) {
    /* No more than `requests` are out, and there are flights for so many. */
    assert(tx->flight_head + index - tx->flight_tail <= tx->flight_mask);
    flight = &tx->flights[(tx->flight_head + index) & tx->flight_mask];
    shared = &flight->shared;
    flight->cookie = request->cookie;
    flight->is_over = !request->arg.length || !port->reads_by_reference;
  }
  shared->free_cb = eth_send_flight_over;
  shared->fcb_opaque = flight;
  if (port->no_inline && eth_send_is_unreachable(request))
    mbuf = eth_send_make_unread(endpoint, request, now_ns, shared);
  else if (!port->reads_by_reference || eth_send_is_small(port, request))
    mbuf = eth_send_make_copy(endpoint, request, index, now_ns);
  else if (eth_send_goes_whole(endpoint, request))
    mbuf = eth_send_make_whole(endpoint, request, index, now_ns, shared);
  else if (port->driver->traits & ETH_ONE_SEGMENT ||
           eth_send_segments_of(request) >= port->segments_max)
    mbuf = eth_send_make_copy(endpoint, request, index, now_ns);
  else
    mbuf = eth_send_make_chain(endpoint, request, now_ns, shared);
  if (mbuf && flight && !RTE_MBUF_HAS_EXTBUF(mbuf) && mbuf->nb_segs == 1)
    flight->is_over = true; /* a copy */
  if (mbuf)
    eth_send_mark_offloads(endpoint, mbuf);
  if (mbuf && request->u.send.departure_ns && port->times.departs &&
      !endpoint->worker->device->holds_back)
    eth_time_departure(port, mbuf, request->u.send.departure_ns);
  return mbuf;
}

/* ---- Bursts ------------------------------------------------------------------------------------
 */

/* The queue took nothing: 0 for a while, and then all of it is dropped, until it takes again. */
static uint32_t eth_send_give_up(struct pst_endpoint *endpoint, uint32_t n)
{
  const struct pst_host *host = endpoint->dg.device->host;
  struct eth_tx *tx = endpoint->tx;
  const uint64_t now_ns = host->clock_ns(host);

  if (!tx->full_since_ns)
    tx->full_since_ns = now_ns;
  if (now_ns - tx->full_since_ns < endpoint->worker->device->patience_ns)
    return 0;
  if (!tx->told_full)
    DG_TELL(&endpoint->dg, PST_LOG_WARN,
            "the queue of port %s stays full (the link is %s): messages are dropped and counted as "
            "device_full; is the peer there, and does it receive?",
            endpoint->worker->device->port->identity,
            endpoint->worker->device->port->is_up ? "up" : "down");
  tx->told_full = true;
  tx->device_full += n;
  return n;
}

/* DONE, or under way. */
static void eth_send_account(struct pst_endpoint *endpoint, const struct pst_request *requests,
                             uint32_t n, bool is_sent)
{
  struct eth_tx *tx = endpoint->tx;

  if (n == 0)
    return;
  for (uint32_t i = 0; is_sent && i < n; i++)
    tx->bytes += requests[i].arg.length;
  if (is_sent)
    tx->messages += n;
  if (!tx->flights) {
    pst_dones_push(&endpoint->dg.cpu.dones, PST_OP_SEND, 0, requests[n - 1].cookie, n);
    return;
  }
  for (uint32_t i = 0; !is_sent && i < n; i++)
    tx->flights[(tx->flight_head + i) & tx->flight_mask].is_over = true;
  tx->flight_head += n;
}

/* As many SENDs as one burst has. Returns how many requests were taken; *rc: why no more. */
static uint32_t eth_send_some(struct pst_endpoint *endpoint, const struct pst_request *requests,
                              uint32_t n, uint64_t now_ns, int *rc)
{
  struct pst_worker *worker = endpoint->worker;
  struct eth_port *port = worker->device->port;
  struct rte_mbuf *mbufs[ETH_BURST];
  /* A queue that was full is asked with one: what it does not take was made for nothing. */
  const uint32_t most = endpoint->tx->was_full ? 1 : ETH_BURST;
  uint32_t made = 0, sent = 0;
  int wrong = 0;

  for (; made < n && made < most && requests[made].opcode == PST_OP_SEND; made++) {
    if (made + PREFETCH < n)
      eth_send_prefetch_header(&requests[made + PREFETCH]);
    wrong = dg_send_check(&endpoint->dg, &requests[made]);
    if (!wrong && port->no_inline && eth_send_segments_of(&requests[made]) >= port->segments_max)
      wrong = -E2BIG; /* than limits.pieces_max, and perhaps the CPU cannot copy it */
    if (wrong || !(mbufs[made] = eth_send_make(endpoint, &requests[made], made, now_ns)))
      break;
  }
  if (made == 0) { /* no mbuf is free: the device has them all */
    uint32_t given_up = wrong ? 0 : eth_send_give_up(endpoint, 1);
    eth_send_account(endpoint, requests, given_up, false);
    *rc = wrong ? wrong : given_up ? 0 : -EAGAIN;
    return given_up;
  }
  sent = eth_txq_burst(worker->txq, port, mbufs, made);
  eth_send_account(endpoint, requests, sent, true);
  endpoint->tx->was_full = sent < made;
  if (sent)
    endpoint->tx->full_since_ns = 0;
  if (sent == made)
    return made;
  for (uint32_t i = sent; i < made; i++)
    rte_pktmbuf_free(mbufs[i]);
  uint32_t dropped = sent ? 0 : eth_send_give_up(endpoint, made);
  eth_send_account(endpoint, requests, dropped, false);
  if (!dropped) {
    *rc = -EAGAIN;
    rte_pause(); /* the peer may share this CPU's core */
  }
  return sent + dropped;
}

/* How many of the SENDs at the front of `n` requests are due to depart. */
static uint32_t eth_send_count_due(const struct dg_endpoint *dg, const struct pst_request *requests,
                                   uint32_t n)
{
  const uint64_t now_ns = dg->device->host->clock_ns(dg->device->host);
  uint32_t due = 0;

  while (due < n && requests[due].opcode == PST_OP_SEND &&
         requests[due].u.send.departure_ns <= now_ns)
    due++;
  return due;
}

static uint32_t eth_send_post_sends(struct dg_endpoint *dg, const struct pst_request *requests,
                                    uint32_t n, uint64_t now_ns, int *rc)
{
  struct pst_endpoint *endpoint = (struct pst_endpoint *)dg;
  const uint32_t due =
      endpoint->worker->device->holds_back ? eth_send_count_due(dg, requests, n) : n;
  uint32_t taken = 0;

  while (taken < due && requests[taken].opcode == PST_OP_SEND && *rc == 0)
    taken += eth_send_some(endpoint, requests + taken, due - taken, now_ns, rc);
  if (taken == due && due < n && requests[due].opcode == PST_OP_SEND && *rc == 0)
    *rc = -EAGAIN;
  return taken;
}

int eth_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait)
{
  return dg_post(&endpoint->dg, requests, n, wait, eth_send_post_sends);
}

void eth_send_control(struct pst_worker *worker, const uint8_t *frame, uint32_t length)
{
  struct rte_mbuf *mbuf = worker->out ? rte_pktmbuf_alloc(worker->out) : NULL;
  uint32_t padded = length + eth_padding(length);

  if (!mbuf)
    return;
  if (rte_pktmbuf_tailroom(mbuf) < padded) {
    rte_pktmbuf_free(mbuf);
    return;
  }
  memset(rte_pktmbuf_mtod(mbuf, uint8_t *), 0, padded);
  memcpy(rte_pktmbuf_mtod(mbuf, uint8_t *), frame, length);
  mbuf->data_len = (uint16_t)padded;
  mbuf->pkt_len = padded;
  if (eth_txq_burst(worker->txq, worker->device->port, &mbuf, 1) == 0)
    rte_pktmbuf_free(mbuf);
}

/* ---- Opened and closed -------------------------------------------------------------------------
 */

int eth_tx_open(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  const struct pst_host *host = endpoint->dg.device->host;
  struct eth_tx *tx = calloc(1, sizeof(*tx));
  uint64_t ttl = host->option_uint(options, "ttl");

  if (!tx)
    return -ENOMEM;
  endpoint->tx = tx;
  endpoint->dg.sender = &tx->sender;
  tx->hop_limit =
      ttl ? (uint8_t)ttl
      : endpoint->dg.to.any.sa_family != AF_UNSPEC && dg_address_is_multicast(&endpoint->dg.to)
          ? 1
          : 64;
  tx->traffic_class = (uint8_t)(host->option_uint(options, "dscp") << 2);
  tx->has_mac = eth_mac_read(host->option_string(options, "to_mac"), tx->mac);
  return dg_sender_open(&tx->sender, endpoint->dg.device, options);
}

int eth_tx_start(struct pst_endpoint *endpoint)
{
  const struct eth_port *port = endpoint->worker->device->port;
  struct eth_tx *tx = endpoint->tx;
  uint32_t room = ETH_BURST;

  if (port->driver->traits & ETH_DONE_AT_ONCE || !port->reads_by_reference)
    return 0;
  while (room < endpoint->dg.cpu.params.requests)
    room <<= 1;
  tx->flights = calloc(room, sizeof(*tx->flights));
  tx->flight_mask = room - 1;
  return tx->flights ? 0 : -ENOMEM;
}

void eth_tx_close(struct pst_endpoint *endpoint)
{
  if (!endpoint->tx)
    return;
  eth_peer_forget(endpoint);
  dg_sender_close(&endpoint->tx->sender);
  free(endpoint->tx->flights);
  free(endpoint->tx);
  endpoint->tx = NULL;
}
