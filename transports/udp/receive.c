/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the kernel into slots.
 *
 * While nothing is coalesced an entry has one slot. Once the kernel hands over buffers
 * of several datagrams, entries are laid for as many of that size, and the buffer's
 * bytes scatter into the slots by themselves. Datagrams that come otherwise (another
 * size, more of them, fewer free slots) end in the entry's spill and are copied from
 * there, at once or as soon as there is a free slot; none is lost for it.
 */
#include <time.h> /* before errqueue.h, which lacks it */

#include <assert.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <stdio.h>

#include "endpoint.h"
#include "receive.h"

#define DEPTH_LIFE 64u /* entries after which a rarer, deeper buffer is forgotten */

/* Frees the slots of an entry that hold no message. */
static void udp_receive_give_slots(struct udp_rx *rx, const struct udp_entry *entry)
{
  for (uint32_t i = 0; i < entry->laid; i++)
    if (entry->slots[i] != UINT32_MAX)
      pst_slots_give(&rx->ring->cpu.slots, entry->slots[i]);
}

/* Gives a receive vector its slots, which the kernel will fill in order. With segments several
 * slots share a vector. */
static void udp_receive_lay(struct udp_rx *rx, uint32_t header, uint32_t at)
{
  struct udp_entry *entry = &rx->entries[at];
  struct pst_ring *ring = rx->ring;
  uint32_t room = udp_slot_room(ring), parts = 0;
  uint32_t slots = rx->depth < ring->cpu.slots.free_count ? rx->depth : ring->cpu.slots.free_count;

  if (rx->segment < header || rx->segment - header > room)
    slots = 1;
  if (slots > 1)
    room = rx->segment - header;
  for (uint32_t i = 0; i < slots; i++) {
    entry->slots[i] = pst_slots_take(&ring->cpu.slots);
    if (header)
      entry->parts[parts++] = (struct iovec){entry->headers + (size_t)i * header, header};
    entry->parts[parts++] = (struct iovec){pst_cpu_slot(&ring->cpu, entry->slots[i]), room};
  }
  if (entry->spill)
    entry->parts[parts++] = (struct iovec){entry->spill, UDP_SPILL_BYTES};
  entry->laid = slots;
  entry->stride = header + room;
  rx->vector[at].msg_hdr = (struct msghdr){.msg_name = &entry->name,
                                           .msg_namelen = sizeof(entry->name),
                                           .msg_iov = entry->parts,
                                           .msg_iovlen = parts,
                                           .msg_control = entry->control,
                                           .msg_controllen = sizeof(entry->control)};
  rx->laid_slots += slots;
}

static void udp_receive_lay_all(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;

  while (rx->received + rx->laid < UDP_ENTRIES && rx->ring->cpu.slots.free_count &&
         (rx->laid == 0 || rx->laid_slots < UDP_ENTRY_SLOTS_MAX)) {
    udp_receive_lay(rx, endpoint->dg.header_bytes,
                    (rx->first + rx->received + rx->laid) % UDP_ENTRIES);
    rx->laid++;
  }
}

static void udp_receive_read_time(const struct cmsghdr *message, struct udp_entry *entry)
{
  struct scm_timestamping times;

  memcpy(&times, CMSG_DATA(message), sizeof(times));
  entry->by_card = times.ts[2].tv_sec;
  const struct timespec *at = entry->by_card ? &times.ts[2] : &times.ts[0];
  entry->time_ns = (uint64_t)at->tv_sec * 1000000000u + (uint64_t)at->tv_nsec;
}

static void udp_receive_read_control(struct msghdr *header, struct udp_entry *entry)
{
  for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      int size;
      memcpy(&size, CMSG_DATA(c), sizeof(size));
      entry->segment = size > 0 ? (uint32_t)size : 0;
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      memcpy(&entry->drops, CMSG_DATA(c), sizeof(entry->drops));
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPING) {
      udp_receive_read_time(c, entry);
    }
  }
}

/* The kernel begins to stamp a moment after the first socket asks for stamps. */
static uint64_t udp_receive_time_now(void)
{
  struct timespec now;

  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The network card should have stamped; if it did not, the kernel's time is taken. */
static void udp_receive_count_stamps(struct pst_endpoint *endpoint, const struct udp_entry *entry)
{
  struct udp_rx *rx = endpoint->rx;

  if (entry->by_card || endpoint->worker->device->timestamps != UDP_TIME_HARDWARE)
    return;
  if (rx->software_stamps == 0)
    UDP_TELL(endpoint, PST_LOG_WARN,
             "timestamps: the network card stamped no arrival, the kernel's stamps are taken; "
             "`hwstamp_ctl -i INTERFACE -r 1` (SIOCSHWTSTAMP) switches the card's on, where "
             "`ethtool -T INTERFACE` lists hardware-receive");
  rx->software_stamps += entry->count;
}

/* Learns how datagrams are coalesced, which decides how the next entries are laid. */
static void udp_receive_learn(struct udp_rx *rx, const struct udp_entry *entry)
{
  uint32_t count = entry->count < UDP_SEGMENTS_MAX ? entry->count : UDP_SEGMENTS_MAX;

  if (entry->count > rx->dg.flow.unit_max)
    rx->dg.flow.unit_max = entry->count;
  if (entry->count > 1)
    rx->segment = entry->segment;
  if (count > rx->peak)
    rx->peak = count;
  if (count > rx->depth)
    rx->depth = count;
  if (++rx->peak_age < DEPTH_LIFE)
    return;
  rx->depth = rx->peak;
  rx->peak = 1;
  rx->peak_age = 0;
}

/* All bytes in one piece, in the spill. */
static void udp_receive_straighten(struct pst_endpoint *endpoint, struct udp_entry *entry)
{
  uint32_t header = endpoint->dg.header_bytes, done = 0;
  uint32_t spilled = entry->laid * entry->stride;

  assert(entry->spill && entry->total <= UDP_SPILL_BYTES);
  if (entry->total > spilled)
    memmove(entry->spill + spilled, entry->spill, entry->total - spilled);
  for (uint32_t i = 0; i < entry->laid && done < entry->total; i++) {
    uint32_t left = entry->total - done;
    uint32_t first = left < header ? left : header;
    uint32_t rest = left - first < entry->stride - header ? left - first : entry->stride - header;
    memcpy(entry->spill + done, entry->headers + (size_t)i * header, first);
    memcpy(entry->spill + done + first, pst_cpu_slot(&endpoint->rx->ring->cpu, entry->slots[i]),
           rest);
    done += first + rest;
  }
  entry->is_straight = false;
}

/* Reads how the kernel has filled a vector: its length, segment, address and time. */
static void udp_receive_open_entry(struct pst_endpoint *endpoint, struct udp_entry *entry,
                                   struct mmsghdr *vector, uint64_t now_ns)
{
  struct udp_rx *rx = endpoint->rx;

  entry->total = vector->msg_len;
  entry->segment = 0;
  entry->drops = rx->drops_seen;
  entry->time_ns = now_ns;
  entry->next = entry->given = 0;
  entry->is_cut = vector->msg_hdr.msg_flags & MSG_TRUNC;
  entry->is_straight = true;
  entry->by_card = false;
  udp_receive_read_control(&vector->msg_hdr, entry);
  if (!entry->time_ns)
    entry->time_ns = udp_receive_time_now();
  if (entry->segment == 0 || entry->segment >= entry->total) {
    entry->segment = entry->total;
    entry->count = 1;
  } else {
    entry->count = (entry->total + entry->segment - 1) / entry->segment;
  }
  udp_receive_learn(rx, entry);
  udp_receive_count_stamps(endpoint, entry);
  if (entry->count == 1 ? entry->total <= entry->stride : entry->segment == entry->stride)
    return;
  /* A single datagram that is longer than a slot. */
  if (entry->count == 1 && entry->total > endpoint->dg.header_bytes + udp_slot_room(rx->ring))
    entry->is_cut = true;
  else
    udp_receive_straighten(endpoint, entry);
}

static void udp_receive_close_entry(struct udp_rx *rx, struct udp_entry *entry)
{
  udp_receive_give_slots(rx, entry);
  rx->first = (rx->first + 1) % UDP_ENTRIES;
  rx->received--;
}

struct piece {
  const uint8_t *header;
  const uint8_t *rest;
  uint32_t total;
  uint32_t in_slot; /* index in the entry; UINT32_MAX: it is in the spill */
};

static struct piece udp_receive_piece_of(const struct pst_endpoint *endpoint,
                                         const struct udp_entry *entry)
{
  uint32_t header = endpoint->dg.header_bytes, at = entry->next;
  uint32_t begin = at * entry->segment;
  struct piece piece = {.total = entry->total - begin < entry->segment ? entry->total - begin
                                                                       : entry->segment,
                        .in_slot = UINT32_MAX};

  if (entry->is_straight && at < entry->laid) {
    piece.header = entry->headers + (size_t)at * header;
    piece.rest = pst_cpu_slot(&endpoint->rx->ring->cpu, entry->slots[at]);
    piece.in_slot = at;
    return piece;
  }
  if (entry->is_straight)
    begin -= entry->laid * entry->stride;
  piece.header = entry->spill + begin;
  piece.rest = piece.header + header;
  return piece;
}

/* Slots of the last entry that is ready and has not come are free again. */
static void udp_receive_take_back(struct udp_rx *rx)
{
  struct udp_entry *entry = &rx->entries[(rx->first + rx->received + --rx->laid) % UDP_ENTRIES];

  udp_receive_give_slots(rx, entry);
  assert(rx->laid_slots >= entry->laid && (rx->laid || rx->laid_slots == entry->laid));
  rx->laid_slots -= entry->laid;
}

/* A slot for a datagram out of the spill. */
static bool udp_receive_has_slot(struct udp_rx *rx, const struct udp_entry *entry)
{
  if (!entry->is_straight && entry->given < entry->laid)
    return true;
  if (!rx->ring->cpu.slots.free_count && rx->laid)
    udp_receive_take_back(rx);
  return rx->ring->cpu.slots.free_count;
}

static uint32_t udp_receive_take_slot(struct udp_rx *rx, struct udp_entry *entry)
{
  if (!entry->is_straight && entry->given < entry->laid) {
    uint32_t slot = entry->slots[entry->given];
    entry->slots[entry->given++] = UINT32_MAX;
    return slot;
  }
  return pst_slots_take(&rx->ring->cpu.slots);
}

struct landing {
  struct udp_rx *rx;
  struct udp_entry *entry;
  struct piece piece;
  uint32_t header; /* bytes */
};

/* The payload is in a slot after this. */
static struct dg_landed udp_receive_settle(void *context)
{
  struct landing *landing = context;
  struct udp_rx *rx = landing->rx;
  const struct piece *piece = &landing->piece;
  struct dg_landed landed = {0};

  if (piece->in_slot != UINT32_MAX) {
    landed.slot = landing->entry->slots[piece->in_slot];
    assert(landed.slot != UINT32_MAX); /* a slot holds one message */
    landing->entry->slots[piece->in_slot] = UINT32_MAX;
    return landed;
  }
  landed.slot = udp_receive_take_slot(rx, landing->entry);
  memcpy(pst_cpu_slot(&rx->ring->cpu, landed.slot), piece->rest, piece->total - landing->header);
  rx->copied++;
  return landed;
}

/* One datagram of the entry, into up to two completions; the second may be parked. */
static uint32_t udp_receive_take_one(struct pst_endpoint *endpoint, struct udp_entry *entry,
                                     const struct dg_source *source, struct pst_completion *out,
                                     uint32_t max)
{
  struct udp_rx *rx = endpoint->rx;
  struct landing landing = {rx, entry, udp_receive_piece_of(endpoint, entry),
                            endpoint->dg.header_bytes};
  const struct piece *piece = &landing.piece;
  const struct dg_arrival arrival = {.source = source,
                                     .header = piece->header,
                                     .rest = piece->rest,
                                     .total = piece->total,
                                     .readable = piece->total,
                                     .is_cut = entry->is_cut,
                                     .time_ns = entry->time_ns};

  entry->next++;
  return dg_receiver_take(&rx->dg, &endpoint->dg.cpu, &arrival, udp_receive_settle, &landing, out,
                          max);
}

/* Counts the datagrams that the kernel dropped before the entry came. Their cause is the ring if it
 * was without a slot since the last such count. */
static void udp_receive_tell_drops(struct udp_rx *rx, const struct udp_entry *entry)
{
  if (entry->drops == rx->drops_seen)
    return;
  dg_flow_lost(&rx->dg.flow, rx->starved ? UDP_LOST_NO_BUFFER : UDP_LOST_KERNEL,
               entry->drops - rx->drops_seen);
  rx->drops_seen = entry->drops;
  rx->starved = false;
}

static uint32_t udp_receive_take_entry(struct pst_endpoint *endpoint, struct udp_entry *entry,
                                       struct pst_completion *out, uint32_t max)
{
  struct udp_rx *rx = endpoint->rx;
  struct dg_source source;
  uint32_t n = 0;

  dg_address_source(&entry->name, &source);
  while (entry->next < entry->count && n < max && !rx->dg.is_parked) {
    bool in_slot = entry->is_straight && entry->next < entry->laid;
    if (!in_slot && !udp_receive_has_slot(rx, entry)) {
      rx->starved = true;
      return n;
    }
    udp_receive_tell_drops(rx, entry);
    n += udp_receive_take_one(endpoint, entry, &source, out + n, max - n);
  }
  return n;
}

/* False: nothing more there now. */
static bool udp_receive_batch(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;
  const struct pst_host *host = endpoint->worker->device->dg.host;

  udp_receive_lay_all(endpoint);
  if (rx->laid == 0) {
    rx->starved = true;
    return false;
  }
  uint32_t at = (rx->first + rx->received) % UDP_ENTRIES;
  uint32_t room = rx->laid < UDP_ENTRIES - at ? rx->laid : UDP_ENTRIES - at;
  int n = recvmmsg(endpoint->fd, &rx->vector[at], room, MSG_DONTWAIT, NULL);
  if (n <= 0) {
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      endpoint->has_error = true;
    /* Nothing waits any more, and nothing was dropped meanwhile. */
    else if (rx->starved && udp_socket_drops(endpoint) == rx->drops_seen)
      rx->starved = false;
    return false;
  }
  uint64_t now = endpoint->worker->device->timestamps == UDP_TIME_OFF ? host->clock_ns(host) : 0;
  for (int i = 0; i < n; i++)
    rx->laid_slots -= rx->entries[at + (uint32_t)i].laid;
  rx->received += (uint32_t)n;
  rx->laid -= (uint32_t)n;
  for (int i = 0; i < n; i++)
    udp_receive_open_entry(endpoint, &rx->entries[at + (uint32_t)i], &rx->vector[at + (uint32_t)i],
                           now);
  return true;
}

uint32_t udp_rx_poll(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max)
{
  struct udp_rx *rx = endpoint->rx;
  uint32_t n = dg_receiver_poll(&rx->dg, out, max);

  while (n < max && !endpoint->dg.cpu.closing.mode) {
    if (rx->received == 0 && !udp_receive_batch(endpoint))
      break;
    struct udp_entry *entry = &rx->entries[rx->first];
    n += udp_receive_take_entry(endpoint, entry, out + n, max - n);
    if (entry->next < entry->count)
      break;
    udp_receive_close_entry(rx, entry);
  }
  return n;
}

bool udp_rx_has_room(const struct pst_endpoint *endpoint)
{
  return endpoint->rx->laid || endpoint->rx->ring->cpu.slots.free_count;
}

bool udp_rx_pending(const struct pst_endpoint *endpoint)
{
  const struct udp_rx *rx = endpoint->rx;

  return rx->dg.is_parked ||
         (rx->received && (rx->ring->cpu.slots.free_count || rx->entries[rx->first].is_straight));
}

static const char *const causes[] = {[UDP_LOST_KERNEL] = "kernel",
                                     [UDP_LOST_NO_BUFFER] = "no_buffer",
                                     [UDP_LOST_CHECKSUM] = "udp_checksum",
                                     NULL};

int udp_rx_open(struct pst_endpoint *endpoint, struct pst_ring *ring)
{
  struct udp_rx *rx = calloc(1, sizeof(*rx));

  if (!rx)
    return -ENOMEM;
  endpoint->rx = rx;
  endpoint->dg.receiver = &rx->dg;
  rx->dg.causes = causes;
  rx->dg.has_times = endpoint->worker->device->timestamps != UDP_TIME_OFF;
  rx->ring = ring;
  rx->depth = rx->peak = 1;
  return 0;
}

/* Only where buffers of several datagrams may come; untouched, it costs nothing. */
int udp_rx_spill(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;

  if (!rx->gro)
    return 0;
  rx->spill = calloc(UDP_ENTRIES, UDP_SPILL_BYTES);
  if (!rx->spill)
    return -ENOMEM;
  for (uint32_t i = 0; i < UDP_ENTRIES; i++)
    rx->entries[i].spill = rx->spill + (size_t)i * UDP_SPILL_BYTES;
  return 0;
}

void udp_rx_close(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;

  if (!rx)
    return;
  for (uint32_t i = 0; i < rx->received + rx->laid; i++)
    udp_receive_give_slots(rx, &rx->entries[(rx->first + i) % UDP_ENTRIES]);
  dg_receiver_end(&rx->dg, &rx->ring->cpu);
  free(rx->spill);
  free(rx);
}
