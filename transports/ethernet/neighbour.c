/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neighbours by requests of our own: whom is asked, what an answer changes, and what others are
 * answered. Times as RFC 4861, section 10, has them.
 */
#include "neighbour.h"

#include <errno.h>
#include <stdlib.h>

#include "claim.h"

#define SECOND_NS UINT64_C(1000000000)
#define RETRY_NS SECOND_NS            /* RETRANS_TIMER */
#define TRIES 3u                      /* MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT */
#define REACHABLE_NS (30 * SECOND_NS) /* REACHABLE_TIME */
#define PAUSE_MAX_NS (60 * SECOND_NS) /* between requests that nobody answers */
/* If two answer one request, the second answer within this time is ignored. */
#define LOCK_NS SECOND_NS
#define ANNOUNCEMENTS 2u /* ANNOUNCE_NUM of RFC 5227, MAX_NEIGHBOR_ADVERTISEMENT less one */
#define ANNOUNCE_NS (2 * SECOND_NS)
#define DEFEND_NS (10 * SECOND_NS) /* DEFEND_INTERVAL of RFC 5227 */
#define EVENT_NS (60 * SECOND_NS)
#define ANSWERS_MAX 16u
#define EVENTS_MAX 16u

struct neighbour {
  uint32_t users; /* 0: free */
  enum eth_neighbour_state state;
  bool has_mac;
  uint8_t address[16];
  uint8_t mac[ETH_MAC_BYTES];
  uint32_t tries;         /* requests since it was last heard */
  uint64_t pause_ns;      /* until the next one, once it is silent */
  uint64_t due_ns;        /* of the next request */
  uint64_t heard_ns;      /* when its MAC was last confirmed */
  uint64_t event_next_ns; /* it is not told of before */
};

struct own {
  uint8_t address[16];
  uint32_t announcements; /* that are owed */
  uint64_t due_ns;
  uint64_t defended_ns; /* 0: never */
  uint64_t event_next_ns;
};

struct answer {
  uint8_t from[16], to[16];
  uint8_t mac[ETH_MAC_BYTES];
};

struct eth_neighbours {
  struct eth_link link;
  uint64_t random;
  struct own own[ETH_OWN_MAX + 1];
  uint32_t own_count;
  struct neighbour all[ETH_NEIGHBOURS_MAX];
  struct answer answers[ANSWERS_MAX];
  uint32_t answers_first, answers_count;
  struct eth_neighbour_event events[EVENTS_MAX];
  uint32_t events_first, events_count;
  struct eth_neighbours_counts counts;
};

/* ---- Life ------------------------------------------------------------------------------- */

static bool eth_neighbour_is_unicast(const uint8_t address[16])
{
  static const uint8_t loopback[16] = {[15] = 1};

  if (eth_is_multicast(address) || eth_is_any(address) || eth_is_same(address, loopback))
    return false;
  return !eth_is_v4(address) || (address[12] != 127 && address[12] < 224 && address[12] != 0);
}

static bool eth_neighbour_is_link_local(const uint8_t address[16])
{
  return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

static struct own *eth_neighbour_own_find(struct eth_neighbours *n, const uint8_t address[16])
{
  for (uint32_t i = 0; i < n->own_count; i++)
    if (eth_is_same(n->own[i].address, address))
      return &n->own[i];
  return NULL;
}

static void eth_neighbour_own_add(struct eth_neighbours *n, const uint8_t address[16],
                                  uint64_t now_ns)
{
  struct own *own = &n->own[n->own_count];

  if (eth_neighbour_own_find(n, address))
    return;
  memcpy(own->address, address, 16);
  own->announcements = ANNOUNCEMENTS;
  own->due_ns = now_ns;
  n->own_count++;
}

int eth_neighbours_open(const struct eth_neighbours_params *params, uint64_t now_ns,
                        struct eth_neighbours **neighbours)
{
  struct eth_neighbours *n;
  uint8_t link_local[16];
  bool has_v6 = false;

  if (params->own_count > ETH_OWN_MAX)
    return -EINVAL;
  for (uint32_t i = 0; i < params->own_count; i++) {
    if (!eth_neighbour_is_unicast(params->own[i]))
      return -EINVAL;
    has_v6 |= !eth_is_v4(params->own[i]);
  }
  n = calloc(1, sizeof(*n));
  if (!n)
    return -ENOMEM;
  memcpy(n->link.mac, params->mac, ETH_MAC_BYTES);
  n->link.vlan = params->vlan;
  n->random = params->seed;
  for (uint32_t i = 0; i < params->own_count; i++)
    eth_neighbour_own_add(n, params->own[i], now_ns);
  eth_link_local(params->mac, link_local);
  if (has_v6)
    eth_neighbour_own_add(n, link_local, now_ns);
  *neighbours = n;
  return 0;
}

void eth_neighbours_close(struct eth_neighbours *neighbours)
{
  free(neighbours);
}

/* Returns the own address that a request for `address` comes from: of its family, and of its scope
 * if there is one. */
static const uint8_t *eth_neighbour_own_for(const struct eth_neighbours *n,
                                            const uint8_t address[16])
{
  const uint8_t *found = NULL;

  for (uint32_t i = 0; i < n->own_count; i++) {
    const uint8_t *own = n->own[i].address;
    if (eth_is_v4(own) != eth_is_v4(address))
      continue;
    if (!found || (eth_neighbour_is_link_local(own) == eth_neighbour_is_link_local(address) &&
                   eth_neighbour_is_link_local(found) != eth_neighbour_is_link_local(address)))
      found = own;
  }
  return found;
}

int eth_neighbours_ask(struct eth_neighbours *n, const uint8_t address[16], uint64_t now_ns,
                       uint32_t *index)
{
  struct neighbour *free_one = NULL, *one;

  if (!eth_neighbour_is_unicast(address) || eth_neighbour_own_find(n, address))
    return -EINVAL;
  if (!eth_neighbour_own_for(n, address))
    return -EADDRNOTAVAIL;
  for (one = n->all; one < n->all + ETH_NEIGHBOURS_MAX; one++) {
    if (one->users && eth_is_same(one->address, address))
      break;
    if (!one->users && !free_one)
      free_one = one;
  }
  if (one == n->all + ETH_NEIGHBOURS_MAX) {
    if (!free_one)
      return -ENOSPC;
    one = free_one;
    *one = (struct neighbour){.due_ns = now_ns};
    memcpy(one->address, address, 16);
  }
  one->users++;
  *index = (uint32_t)(one - n->all);
  return 0;
}

void eth_neighbours_forget(struct eth_neighbours *n, uint32_t index)
{
  if (index < ETH_NEIGHBOURS_MAX && n->all[index].users)
    n->all[index].users--;
}

enum eth_neighbour_state eth_neighbours_look(const struct eth_neighbours *n, uint32_t index,
                                             uint8_t mac[ETH_MAC_BYTES])
{
  const struct neighbour *one = &n->all[index];

  if (one->has_mac)
    memcpy(mac, one->mac, ETH_MAC_BYTES);
  return one->state;
}

/* ---- Frames that arrive ------------------------------------------------------------------- */

static void eth_neighbour_tell(struct eth_neighbours *n, uint32_t kind, const uint8_t address[16],
                               const uint8_t *mac, const uint8_t *before, uint64_t *next_ns,
                               uint64_t now_ns)
{
  struct eth_neighbour_event *event;

  if (now_ns < *next_ns || n->events_count == EVENTS_MAX)
    return;
  event = &n->events[(n->events_first + n->events_count++) % EVENTS_MAX];
  *next_ns = now_ns + EVENT_NS;
  event->kind = kind;
  memcpy(event->address, address, 16);
  memcpy(event->mac, mac, ETH_MAC_BYTES);
  memcpy(event->before, before, ETH_MAC_BYTES);
}

static void eth_neighbour_hear(struct eth_neighbours *n, struct neighbour *one, const uint8_t *mac,
                               uint64_t now_ns)
{
  memcpy(one->mac, mac, ETH_MAC_BYTES);
  one->has_mac = true;
  one->state = ETH_NEIGHBOUR_KNOWN;
  one->tries = 0;
  one->pause_ns = 0;
  one->heard_ns = now_ns;
  one->due_ns = now_ns + REACHABLE_NS / 2 + eth_random_below(&n->random, REACHABLE_NS);
}

static void eth_neighbour_heard_of(struct eth_neighbours *n, struct neighbour *one,
                                   const struct eth_claim *claim, uint64_t now_ns)
{
  if (!one->has_mac || memcmp(one->mac, claim->mac, ETH_MAC_BYTES) == 0) {
    eth_neighbour_hear(n, one, claim->mac, now_ns);
    return;
  }
  if (now_ns - one->heard_ns < LOCK_NS) {
    eth_neighbour_tell(n, ETH_NEIGHBOUR_TWO, one->address, claim->mac, one->mac,
                       &one->event_next_ns, now_ns);
    return;
  }
  if (!claim->overrides) { /* RFC 4861, section 7.2.5: the known one is asked */
    one->due_ns = now_ns;
    return;
  }
  eth_neighbour_tell(n, ETH_NEIGHBOUR_MOVED, one->address, claim->mac, one->mac,
                     &one->event_next_ns, now_ns);
  eth_neighbour_hear(n, one, claim->mac, now_ns);
}

static void eth_neighbour_answer(struct eth_neighbours *n, const struct eth_claim *claim)
{
  struct answer *made;

  if (n->answers_count == ANSWERS_MAX) {
    n->counts.unsent++;
    return;
  }
  made = &n->answers[(n->answers_first + n->answers_count++) % ANSWERS_MAX];
  memcpy(made->from, claim->target, 16);
  memcpy(made->to, claim->reply_to, 16);
  memcpy(made->mac, claim->reply_mac, ETH_MAC_BYTES);
}

/* Another host claims an address of ours: we announce the address again, every ten seconds at most.
 */
static void eth_neighbour_defend(struct eth_neighbours *n, struct own *own, const uint8_t *mac,
                                 uint64_t now_ns)
{
  eth_neighbour_tell(n, ETH_NEIGHBOUR_OURS, own->address, mac, n->link.mac, &own->event_next_ns,
                     now_ns);
  if (own->defended_ns && now_ns - own->defended_ns < DEFEND_NS)
    return;
  own->defended_ns = now_ns;
  own->due_ns = now_ns;
  if (!own->announcements)
    own->announcements = 1;
}

bool eth_neighbours_take(struct eth_neighbours *n, const struct eth_bytes *frame,
                         const struct eth_packet *packet, uint64_t now_ns)
{
  struct eth_claim claim;
  const enum eth_claim_verdict verdict = eth_claim_read(frame, packet, &claim);
  struct own *own;

  n->counts.refused += verdict == ETH_CLAIM_REFUSED;
  if (verdict != ETH_CLAIM_TAKEN)
    return verdict != ETH_CLAIM_NONE;
  if (memcmp(claim.mac, n->link.mac, ETH_MAC_BYTES) == 0)
    return true; /* our own, which some links give back */
  n->counts.taken++;
  if (claim.has_sender) {
    for (struct neighbour *one = n->all; one < n->all + ETH_NEIGHBOURS_MAX; one++)
      if (one->users && eth_is_same(one->address, claim.sender))
        eth_neighbour_heard_of(n, one, &claim, now_ns);
    if ((own = eth_neighbour_own_find(n, claim.sender)))
      eth_neighbour_defend(n, own, claim.mac, now_ns);
  }
  if (claim.asks && eth_neighbour_own_find(n, claim.target) &&
      !eth_neighbour_own_find(n, claim.reply_to))
    eth_neighbour_answer(n, &claim);
  return true;
}

/* ---- Frames that are sent ----------------------------------------------------------------- */

/* An advertisement, or a solicitation, with the option that has our MAC. */
static uint32_t eth_neighbour_write_nd(const struct eth_neighbours *n, uint8_t type, uint8_t flags,
                                       const uint8_t target[16], const struct eth_icmpv6 *packet,
                                       uint8_t *frame)
{
  uint8_t message[32] = {type, [4] = flags, [24] = type == ETH_ND_SOLICITATION ? 1 : 2, [25] = 1};
  struct eth_icmpv6 made = *packet;

  memcpy(message + 8, target, 16);
  memcpy(message + 26, n->link.mac, ETH_MAC_BYTES);
  made.hop_limit = 255;
  made.message = message;
  made.length = sizeof(message);
  return eth_icmpv6_write(frame, &n->link, &made);
}

static uint32_t eth_neighbour_write_request(const struct eth_neighbours *n,
                                            const struct neighbour *one, bool to_all,
                                            uint8_t *frame)
{
  const uint8_t *own = eth_neighbour_own_for(n, one->address), *mac = to_all ? NULL : one->mac;
  struct eth_icmpv6 packet = {.mac_to = mac, .from = own, .to = one->address};
  uint8_t group[16];

  if (eth_is_v4(one->address))
    return eth_arp_write(frame, &n->link, mac, ETH_ARP_REQUEST, own, one->address, NULL);
  eth_solicited_node(one->address, group);
  if (to_all)
    packet.to = group;
  return eth_neighbour_write_nd(n, ETH_ND_SOLICITATION, 0, one->address, &packet, frame);
}

/* Three requests a second apart, to the MAC that is known or to all; then to all, less and less
 * often. */
static uint32_t eth_neighbour_request(struct eth_neighbours *n, struct neighbour *one,
                                      uint64_t now_ns, uint8_t *frame)
{
  const bool is_over = one->tries >= TRIES;

  if (is_over) {
    one->state = one->has_mac ? ETH_NEIGHBOUR_SILENT : ETH_NEIGHBOUR_UNANSWERED;
    one->pause_ns = one->pause_ns ? 2 * one->pause_ns : 2 * RETRY_NS;
    if (one->pause_ns > PAUSE_MAX_NS)
      one->pause_ns = PAUSE_MAX_NS;
  }
  one->due_ns = now_ns + (is_over ? one->pause_ns : RETRY_NS);
  one->tries += !is_over;
  n->counts.asked++;
  return eth_neighbour_write_request(n, one, is_over || !one->has_mac, frame);
}

static uint32_t eth_neighbour_announce(struct eth_neighbours *n, struct own *own, uint64_t now_ns,
                                       uint8_t *frame)
{
  enum { OVERRIDE = 0x20 };
  static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};
  const struct eth_icmpv6 packet = {.from = own->address, .to = all_nodes};

  own->announcements--;
  own->due_ns = now_ns + ANNOUNCE_NS;
  if (eth_is_v4(own->address))
    return eth_arp_write(frame, &n->link, NULL, ETH_ARP_REQUEST, own->address, own->address, NULL);
  return eth_neighbour_write_nd(n, ETH_ND_ADVERTISEMENT, OVERRIDE, own->address, &packet, frame);
}

/* To one that looks for duplicates, and has no address yet, by way of all. */
static uint32_t eth_neighbour_reply(struct eth_neighbours *n, const struct answer *made,
                                    uint8_t *frame)
{
  enum { SOLICITED = 0x40, OVERRIDE = 0x20 };
  static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};
  const bool is_probe = eth_is_any(made->to);
  const struct eth_icmpv6 packet = {.mac_to = is_probe ? NULL : made->mac,
                                    .from = made->from,
                                    .to = is_probe ? all_nodes : made->to};

  n->answers_first = (n->answers_first + 1) % ANSWERS_MAX;
  n->answers_count--;
  n->counts.answered++;
  if (eth_is_v4(made->from))
    return eth_arp_write(frame, &n->link, made->mac, ETH_ARP_REPLY, made->from, made->to,
                         made->mac);
  return eth_neighbour_write_nd(n, ETH_ND_ADVERTISEMENT,
                                (uint8_t)(OVERRIDE | (is_probe ? 0 : SOLICITED)), made->from,
                                &packet, frame);
}

uint32_t eth_neighbours_next(struct eth_neighbours *n, uint64_t now_ns,
                             uint8_t frame[ETH_CONTROL_MAX])
{
  if (n->answers_count)
    return eth_neighbour_reply(n, &n->answers[n->answers_first], frame);
  for (uint32_t i = 0; i < n->own_count; i++)
    if (n->own[i].announcements && n->own[i].due_ns <= now_ns)
      return eth_neighbour_announce(n, &n->own[i], now_ns, frame);
  for (struct neighbour *one = n->all; one < n->all + ETH_NEIGHBOURS_MAX; one++)
    if (one->users && one->due_ns <= now_ns)
      return eth_neighbour_request(n, one, now_ns, frame);
  return 0;
}

uint64_t eth_neighbours_due(const struct eth_neighbours *n)
{
  uint64_t due = n->answers_count ? 0 : UINT64_MAX;

  for (uint32_t i = 0; i < n->own_count; i++)
    if (n->own[i].announcements && n->own[i].due_ns < due)
      due = n->own[i].due_ns;
  for (const struct neighbour *one = n->all; one < n->all + ETH_NEIGHBOURS_MAX; one++)
    if (one->users && one->due_ns < due)
      due = one->due_ns;
  return due;
}

/* ---- Queries and events --------------------------------------------------------------------- */

bool eth_neighbours_event(struct eth_neighbours *n, struct eth_neighbour_event *event)
{
  if (!n->events_count)
    return false;
  *event = n->events[n->events_first];
  n->events_first = (n->events_first + 1) % EVENTS_MAX;
  n->events_count--;
  return true;
}

void eth_neighbours_counts(const struct eth_neighbours *n, struct eth_neighbours_counts *counts)
{
  *counts = n->counts;
}

const uint8_t *eth_next_hop(const uint8_t own[16], uint32_t prefix, const uint8_t *gateway,
                            const uint8_t to[16])
{
  const uint32_t bits = eth_is_v4(own) ? 96 + prefix : prefix, whole = bits / 8, rest = bits % 8;

  if (memcmp(own, to, whole) == 0 && (!rest || !((own[whole] ^ to[whole]) >> (8 - rest))))
    return to;
  if (!eth_is_v4(to) && eth_neighbour_is_link_local(to))
    return to;
  return gateway;
}
