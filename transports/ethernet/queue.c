/* SPDX-License-Identifier: Apache-2.0 */
/* From a burst to the receivers of its frames. */
#include "queue.h"

#include "pool.h"
#include "port.h"

/* Returns what the port's link says of the checksums of all frames. */
static uint32_t eth_queue_link_known(const struct eth_port *port)
{
  return port->driver->traits & ETH_VIRTUAL ? ETH_PARTIAL_IS_GOOD : 0;
}

/* For this port, and in its VLAN? */
static bool eth_queue_frame_is_ours(const struct eth_port *port, const struct rte_mbuf *mbuf,
                                    const struct eth_packet *packet)
{
  const uint8_t *to = rte_pktmbuf_mtod(mbuf, const uint8_t *);
  uint32_t vlan = eth_packet_vlan(packet);

  if (mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)
    vlan = mbuf->vlan_tci & 0xfffu;
  return ((to[0] & 1) || memcmp(to, port->mac, ETH_MAC_BYTES) == 0) &&
         vlan == (port->vlan == ETH_UNTAGGED ? 0 : port->vlan);
}

static struct pst_endpoint *eth_queue_find_receiver(const struct eth_rxq *queue,
                                                    const struct eth_packet *packet,
                                                    uint64_t now_ns)
{
  struct eth_table *table = queue->port->table;
  struct eth_match *found =
      eth_match_find(table->chains[packet->to.port], packet->to.address, &packet->from,
                     queue->ring ? queue : NULL, now_ns, &table->lock);

  return found ? eth_endpoint_of(found) : NULL;
}

/* Counts a message that the endpoint lacks, on the thread that polls the queue by which it came. */
static void eth_queue_count_lost(struct pst_endpoint *endpoint)
{
  __atomic_fetch_add(&endpoint->rx->counts.no_buffer, 1, __ATOMIC_RELAXED);
}

/* Into the inbox of an endpoint, perhaps another worker's. A slot does not leave its ring: what
 * lies in one is copied. */
static void eth_queue_put_inbox(struct eth_rxq *queue, struct pst_endpoint *endpoint,
                                struct rte_mbuf *mbuf, const struct eth_packet *packet)
{
  struct rte_mbuf *own = mbuf;

  if (queue->ring) {
    own = rte_pktmbuf_copy(mbuf, queue->port->rxqs[0].own, 0, UINT32_MAX);
    rte_pktmbuf_free(mbuf);
  }
  if (own) {
    memcpy(rte_mbuf_to_priv(own), packet, sizeof(*packet));
    if (rte_ring_mp_enqueue(endpoint->rx->inbox, own) == 0)
      return;
  }
  eth_queue_count_lost(endpoint);
  rte_pktmbuf_free(own);
}

/* Output of a poll. */
struct out {
  struct pst_completion *at;
  uint32_t n, max;
  uint64_t now_ns;
  struct pst_endpoint *endpoint; /* of the last frame, if queue->seen is that one; NULL: none */
};

/* A frame whose payload is in the next segment, a slot; one that ends before the split has none.
 * False: it stays where it is. */
static bool eth_queue_give_split(struct eth_rxq *queue, struct pst_endpoint *endpoint,
                                 struct rte_mbuf *mbuf, const struct eth_packet *packet,
                                 struct out *out)
{
  struct rte_mbuf *payload = mbuf->next ? mbuf->next : eth_pool_take(queue->ring->pool);
  bool is_kept = false;

  if (!payload)
    return false;
  if (!mbuf->next)
    mbuf->nb_segs = 2;
  mbuf->next = payload;
  out->n += eth_rx_take(endpoint, mbuf, packet, out->now_ns, out->at + out->n, out->max - out->n,
                        &is_kept);
  if (is_kept) {
    mbuf->next = NULL;
    mbuf->nb_segs = 1;
    mbuf->pkt_len = mbuf->data_len;
    payload->nb_segs = 1;
    payload->next = NULL;
  }
  rte_pktmbuf_free(mbuf);
  return true;
}

/* False: it stays where it is, until there is a slot or a peer. No endpoint waits for the peer of
 * another with which it shares the ring. */
static bool eth_queue_give(struct eth_rxq *queue, struct pst_endpoint *endpoint,
                           struct rte_mbuf *mbuf, const struct eth_packet *packet, struct out *out)
{
  bool is_kept = false;

  if (eth_ring_of(endpoint) != queue->ring) {
    if (queue->headers || eth_ring_of(endpoint)->is_split) {
      eth_queue_count_lost(endpoint); /* the CPU cannot copy it */
      rte_pktmbuf_free(mbuf);
    } else {
      eth_queue_put_inbox(queue, endpoint, mbuf, packet);
    }
    return true;
  }
  if (!dg_is_connected(&endpoint->dg) && queue->receivers > 1)
    eth_queue_count_lost(endpoint);
  if (endpoint->dg.cpu.closing.mode || (!dg_is_connected(&endpoint->dg) && queue->receivers > 1)) {
    rte_pktmbuf_free(mbuf);
    return true;
  }
  if (!dg_is_connected(&endpoint->dg) || out->n == out->max)
    return false;
  if (queue->headers)
    return eth_queue_give_split(queue, endpoint, mbuf, packet, out);
  struct eth_pool *pool = queue->ring->pool;
  if (eth_pool_slot(pool, mbuf) == UINT32_MAX && !(mbuf = eth_pool_swap(pool, mbuf)))
    return false;
  out->n += eth_rx_take(endpoint, mbuf, packet, out->now_ns, out->at + out->n, out->max - out->n,
                        &is_kept);
  if (!is_kept)
    rte_pktmbuf_free(mbuf);
  return true;
}

/* False: it stays where it is. */
static bool eth_queue_dispatch(struct eth_rxq *queue, struct pst_worker *worker,
                               struct rte_mbuf *mbuf, struct out *out)
{
  const struct eth_port *port = queue->port;
  const struct eth_bytes frame = {rte_pktmbuf_mtod(mbuf, const uint8_t *), mbuf->data_len,
                                  mbuf->pkt_len};
  struct eth_packet *packet = &queue->seen.packet;
  bool is_same;
  enum eth_verdict verdict = eth_parse_next(
      &frame, eth_rxq_known(eth_queue_link_known(port), mbuf->ol_flags), &queue->seen, &is_same);

  /* The endpoint of the last frame's addresses gets this frame, too. A tag may have been taken
   * off. */
  if (is_same && out->endpoint && !(mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED))
    return eth_queue_give(queue, out->endpoint, mbuf, packet, out);
  out->endpoint = NULL;
  if (verdict == ETH_IS_UDP && eth_queue_frame_is_ours(port, mbuf, packet)) {
    struct pst_endpoint *endpoint = eth_queue_find_receiver(queue, packet, out->now_ns);
    if (!(mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED))
      out->endpoint = endpoint;
    if (endpoint)
      return eth_queue_give(queue, endpoint, mbuf, packet, out);
    queue->not_ours++;
  } else if (verdict < ETH_IS_OTHER && eth_queue_frame_is_ours(port, mbuf, packet)) {
    eth_port_control(worker, &frame, packet);
  } else if (verdict < ETH_TRUNCATED) {
    queue->other++;
  } else {
    queue->damaged++;
  }
  rte_pktmbuf_free(mbuf);
  return true;
}

/* Gives the frames that follow the last frame and are like it, where its receiver takes them in its
 * ring's slots. */
static void eth_queue_give_row(struct eth_rxq *queue, struct out *out)
{
  struct pst_endpoint *endpoint = out->endpoint;
  uint32_t n = RTE_MIN(queue->count - queue->at, out->max - out->n);

  if (!endpoint || eth_ring_of(endpoint) != queue->ring || queue->headers ||
      endpoint->dg.cpu.closing.mode || !dg_is_connected(&endpoint->dg))
    return;
  n = eth_rx_take_row(endpoint, queue->batch + queue->at, n, &queue->seen,
                      eth_queue_link_known(queue->port), out->now_ns, out->at + out->n);
  queue->at += n;
  out->n += n;
}

/* False: nothing more is to be had now. A queue of one receiver leaves in the device what its inbox
 * has no room for. */
static bool eth_queue_refill(struct eth_rxq *queue)
{
  if (queue->only && queue->only->rx->inbox &&
      rte_ring_free_count(queue->only->rx->inbox) < ETH_BURST)
    return false;
  queue->at = queue->count = 0;
  if (!eth_port_is_running(queue->port) || queue->is_over)
    return false;
  queue->count = rte_eth_rx_burst(queue->port->id, queue->index, queue->batch, ETH_BURST);
  return queue->count > 0;
}

uint32_t eth_rxq_poll(struct eth_rxq *queue, struct pst_worker *worker, struct pst_completion *out,
                      uint32_t max)
{
  const struct pst_host *host = queue->port->host;
  struct out to = {.at = out, .max = max};
  uint32_t bursts = 0;

  if (queue->is_shared && !rte_spinlock_trylock(&queue->lock))
    return 0;
  while (to.n < max && (queue->at < queue->count || (bursts++ < 8 && eth_queue_refill(queue)))) {
    if (!to.now_ns)
      to.now_ns = host->clock_ns(host);
    eth_queue_give_row(queue, &to);
    if (queue->at == queue->count || to.n == max)
      continue;
    if (!eth_queue_dispatch(queue, worker, queue->batch[queue->at], &to))
      break;
    queue->at++;
  }
  if (queue->is_shared)
    rte_spinlock_unlock(&queue->lock);
  return to.n;
}
