/* SPDX-License-Identifier: Apache-2.0 */
/* From a frame to a MESSAGE: where it landed, or by a copy into a slot. */
#include <stdio.h>
#include <unistd.h>

#include "../datagram/flow_run.h"
#include "header_cache.h"
#include "pool.h"
#include "port.h"
#include "queue.h"

/* Losses of the medium, in flow.h's numbers. */
enum { ETH_LOST_NO_BUFFER = 0 };
static const char *const causes[] = {"no_buffer", NULL};

static inline uint64_t eth_receive_time_of(const struct pst_endpoint *endpoint,
                                           const struct rte_mbuf *mbuf, uint64_t now_ns)
{
  const struct pst_device *device = endpoint->worker->device;

  if (!endpoint->rx->receiver.has_times)
    return now_ns;
  return device->stamps ? eth_time_now() : eth_time_of(device->port, mbuf);
}

static struct dg_arrival eth_receive_arrival_of(const struct pst_endpoint *endpoint,
                                                const struct rte_mbuf *mbuf,
                                                const struct eth_packet *packet, uint64_t now_ns)
{
  const uint8_t *payload = rte_pktmbuf_mtod(mbuf, const uint8_t *) + packet->offset;
  const uint8_t *rest = payload + endpoint->dg.header_bytes;
  uint32_t segments = 1, at;

  if (eth_ring_of(endpoint)->is_split) {
    segments = 2;
    rest = eth_split_place(mbuf->data_len, packet->offset + endpoint->dg.header_bytes, &at)
               ? rte_pktmbuf_mtod(mbuf->next, const uint8_t *) + at
               : NULL;
  }
  return (struct dg_arrival){.source = &packet->from,
                             .header = payload,
                             .rest = rest,
                             .total = packet->length,
                             .readable = mbuf->data_len - packet->offset,
                             .is_cut = mbuf->nb_segs > segments || !rest,
                             .time_ns = eth_receive_time_of(endpoint, mbuf, now_ns)};
}

/* ---- Where it landed ------------------------------------------------------------------------- */

struct landing {
  struct pst_endpoint *endpoint;
  const struct rte_mbuf *mbuf;
  const uint8_t *rest;
  bool is_kept;
};

static struct dg_landed eth_receive_land(void *context)
{
  struct landing *landing = context;
  const struct pst_cpu_ring *ring = landing->endpoint->dg.cpu.ring;
  struct dg_landed landed;

  landed.slot = eth_pool_slot(eth_ring_of(landing->endpoint)->pool, landing->mbuf);
  landed.at = (uint32_t)(landing->rest - pst_cpu_slot(ring, landed.slot));
  landing->is_kept = true;
  return landed;
}

/* Tells the flow what was lost on this side before the frame that comes next. */
static void eth_receive_tell_lost(struct eth_rx *rx)
{
  uint64_t lost = __atomic_load_n(&rx->counts.no_buffer, __ATOMIC_RELAXED);

  if (lost == rx->lost_told)
    return;
  dg_flow_lost(&rx->receiver.flow, ETH_LOST_NO_BUFFER, (uint32_t)(lost - rx->lost_told));
  rx->lost_told = lost;
}

uint32_t eth_rx_take(struct pst_endpoint *endpoint, struct rte_mbuf *mbuf,
                     const struct eth_packet *packet, uint64_t now_ns, struct pst_completion *out,
                     uint32_t max, bool *is_kept)
{
  struct dg_arrival arrival = eth_receive_arrival_of(endpoint, mbuf, packet, now_ns);
  const bool is_split = eth_ring_of(endpoint)->is_split;
  struct landing landing = {
      .endpoint = endpoint, .mbuf = is_split ? mbuf->next : mbuf, .rest = arrival.rest};
  eth_receive_tell_lost(endpoint->rx);
  uint32_t n = dg_receiver_take(&endpoint->rx->receiver, &endpoint->dg.cpu, &arrival,
                                eth_receive_land, &landing, out, max);

  endpoint->rx->counts.frames++;
  *is_kept = landing.is_kept;
  return n;
}

/* ---- A row of frames ---------------------------------------------------------------------------
 */

/* How many frames ahead bytes are prefetched. */
#define PREFETCH 4u

/* Where the payload of the next frame of the stream begins; NULL: it is not as expected. */
static inline const uint8_t *eth_receive_take_next(const struct pst_endpoint *endpoint,
                                                   struct dg_run *run, const struct rte_mbuf *mbuf,
                                                   const struct eth_header_cache *seen,
                                                   uint32_t known, uint64_t now_ns,
                                                   struct dg_message *message)
{
  const struct eth_bytes frame = {rte_pktmbuf_mtod(mbuf, const uint8_t *), mbuf->data_len,
                                  mbuf->pkt_len};
  const uint8_t *datagram = frame.bytes + ETH_HEADER_MIN;
  uint32_t length;

  if (mbuf->nb_segs != 1 || mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED ||
      !eth_header_cache_is_next(&frame, eth_rxq_known(known, mbuf->ol_flags), seen, &length) ||
      !dg_run_take(run, datagram, length, eth_receive_time_of(endpoint, mbuf, now_ns), message))
    return NULL;
  return datagram + run->header_bytes;
}

/* Takes frames of one flow as a run, as long as they are in order, and writes their completions.
 * Returns how many it took. */
uint32_t eth_rx_take_row(struct pst_endpoint *endpoint, struct rte_mbuf *const *mbufs, uint32_t n,
                         const struct eth_header_cache *seen, uint32_t known, uint64_t now_ns,
                         struct pst_completion *out)
{
  struct eth_rx *rx = endpoint->rx;
  struct pst_cpu_ring *ring = endpoint->dg.cpu.ring;
  const struct eth_pool *pool = eth_ring_of(endpoint)->pool;
  const uint64_t cookie = endpoint->dg.cpu.params.cookie;
  const uint32_t has_time = rx->receiver.has_times ? PST_HAS_TIME : 0;
  const uint32_t has = has_time | (endpoint->dg.device->framing ? PST_HAS_SEQUENCE : 0u);
  struct dg_message message;
  struct dg_run run;
  uint32_t taken = 0;

  if (__atomic_load_n(&rx->counts.no_buffer, __ATOMIC_RELAXED) != rx->lost_told ||
      !dg_run_begin(&run, &rx->receiver.flow, &seen->packet.from))
    return 0;
  for (; taken < n; taken++) {
    const struct rte_mbuf *mbuf = mbufs[taken];
    const uint32_t slot = eth_pool_slot(pool, mbuf);

    if (taken + PREFETCH < n)
      rte_prefetch0(rte_pktmbuf_mtod(mbufs[taken + PREFETCH], const uint8_t *));
    if (slot == UINT32_MAX) /* a spare */
      break;
    const uint8_t *payload =
        eth_receive_take_next(endpoint, &run, mbuf, seen, known, now_ns, &message);
    if (!payload)
      break;
    ring->slots.out[slot] = 1;
    out[taken] =
        (struct pst_completion){.kind = PST_COMPLETION_MESSAGE,
                                .flags = (uint16_t)(has | (message.has_meta ? PST_HAS_META : 0u) |
                                                    (message.is_marked ? PST_IS_MARKED : 0u)),
                                .endpoint = cookie,
                                .u.message = {.token = pst_token(ring->number, slot),
                                              .offset = (uint64_t)(payload - ring->base),
                                              .length = message.length,
                                              .sequence = message.sequence,
                                              .meta = message.meta,
                                              .time_ns = has_time ? message.time_ns : 0}};
  }
  dg_run_end(&run);
  rx->counts.frames += taken;
  return taken;
}

/* ---- By a copy --------------------------------------------------------------------------------
 */

struct copying {
  struct pst_endpoint *endpoint;
  const struct dg_arrival *arrival;
};

static struct dg_landed eth_receive_copy(void *context)
{
  const struct copying *copying = context;
  struct pst_cpu_ring *ring = copying->endpoint->dg.cpu.ring;
  struct dg_landed landed = {.slot = pst_slots_take(&ring->slots), .at = 0};

  memcpy(pst_cpu_slot(ring, landed.slot), copying->arrival->rest,
         copying->arrival->total - copying->endpoint->dg.header_bytes);
  copying->endpoint->rx->counts.copied++;
  return landed;
}

static uint32_t eth_receive_copy_in(struct pst_endpoint *endpoint, struct pst_completion *out,
                                    uint32_t max)
{
  const struct pst_host *host = endpoint->dg.device->host;
  struct eth_rx *rx = endpoint->rx;
  struct pst_slots *slots = &endpoint->dg.cpu.ring->slots;
  struct rte_mbuf *mbufs[ETH_BURST];
  uint64_t now_ns = 0;
  uint32_t n = 0, taken = 0;
  void *object;

  while (n < max && slots->free_count && taken < ETH_BURST &&
         rte_ring_sc_dequeue(rx->inbox, &object) == 0) {
    struct rte_mbuf *mbuf = mbufs[taken++] = object;
    if (endpoint->dg.cpu.closing.mode)
      continue;
    if (!now_ns)
      now_ns = host->clock_ns(host);
    struct dg_arrival arrival =
        eth_receive_arrival_of(endpoint, mbuf, rte_mbuf_to_priv(mbuf), now_ns);
    struct copying copying = {endpoint, &arrival};
    eth_receive_tell_lost(rx);
    n += dg_receiver_take(&rx->receiver, &endpoint->dg.cpu, &arrival, eth_receive_copy, &copying,
                          out + n, max - n);
    rx->counts.frames++;
  }
  rte_pktmbuf_free_bulk(mbufs, taken);
  return n;
}

/* Moves frames that came by another queue than the ring's into slots of its pool. */
static uint32_t eth_receive_move_in(struct pst_endpoint *endpoint, struct pst_completion *out,
                                    uint32_t max)
{
  const struct pst_host *host = endpoint->dg.device->host;
  struct eth_pool *pool = eth_ring_of(endpoint)->pool;
  struct rte_ring *inbox = endpoint->rx->inbox;
  uint64_t now_ns = 0;
  uint32_t n = 0;
  void *object;

  for (uint32_t taken = 0; n < max && taken < ETH_BURST; taken++) {
    if (rte_ring_empty(inbox) || !eth_pool_has_slot(pool) ||
        rte_ring_sc_dequeue(inbox, &object) != 0)
      break;
    if (endpoint->dg.cpu.closing.mode) {
      rte_pktmbuf_free(object);
      continue;
    }
    struct eth_packet packet = *(const struct eth_packet *)rte_mbuf_to_priv(object);
    struct rte_mbuf *mbuf = eth_pool_swap(pool, object);
    bool is_kept;
    if (!now_ns)
      now_ns = host->clock_ns(host);
    n += eth_rx_take(endpoint, mbuf, &packet, now_ns, out + n, max - n, &is_kept);
    endpoint->rx->counts.copied++;
    if (!is_kept)
      rte_pktmbuf_free(mbuf);
  }
  return n;
}

uint32_t eth_rx_copy(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max)
{
  return eth_ring_of(endpoint)->pool ? eth_receive_move_in(endpoint, out, max)
                                     : eth_receive_copy_in(endpoint, out, max);
}

/* ---- Opened and closed ------------------------------------------------------------------------
 */

int eth_rx_open(struct pst_endpoint *endpoint)
{
  struct eth_rx *rx = calloc(1, sizeof(*rx));

  if (!rx)
    return -ENOMEM;
  rx->joined_fd = -1;
  rx->receiver.causes = causes;
  rx->receiver.has_times = endpoint->worker->device->stamps ||
                           endpoint->worker->device->port->times.unit != ETH_TIMES_NONE;
  endpoint->rx = rx;
  endpoint->dg.receiver = &rx->receiver;
  return 0;
}

int eth_rx_start(struct pst_endpoint *endpoint, bool has_inbox)
{
  char name[RTE_RING_NAMESIZE];

  if (!has_inbox)
    return 0;
  eth_name_make(name, sizeof(name));
  endpoint->rx->inbox = rte_ring_create(name, ETH_INBOX, SOCKET_ID_ANY, RING_F_EXACT_SZ);
  return endpoint->rx->inbox ? 0 : -ENOMEM;
}

void eth_rx_close(struct pst_endpoint *endpoint)
{
  struct eth_rx *rx = endpoint->rx;
  void *object;

  if (!rx)
    return;
  if (endpoint->dg.cpu.ring)
    dg_receiver_end(&rx->receiver, endpoint->dg.cpu.ring);
  while (rx->inbox && rte_ring_sc_dequeue(rx->inbox, &object) == 0)
    rte_pktmbuf_free(object);
  rte_ring_free(rx->inbox);
  if (rx->joined_fd >= 0)
    close(rx->joined_fd);
  free(rx);
  endpoint->rx = NULL;
}
