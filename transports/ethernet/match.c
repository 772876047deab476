/* SPDX-License-Identifier: Apache-2.0 */
/* Which receiver takes a frame where several have one address and UDP port. */
#include "match.h"

static bool eth_match_source_is_same(const struct dg_source *a, const struct dg_source *b)
{
  return a->port == b->port && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

void eth_match_meet(struct eth_match *match, const struct dg_flow_params *wants)
{
  uint8_t kind = ETH_MATCH_FIRST;

  match->wants = *wants;
  if (wants->port_is_fixed && (wants->address_is_fixed || wants->numbered || wants->address_locks))
    kind = ETH_MATCH_KNOWN;
  else if (wants->framing == DG_FRAMING_NONE)
    kind = ETH_MATCH_ANY;
  __atomic_store_n(&match->kind, kind, __ATOMIC_RELEASE);
}

bool eth_match_is_same_source(const struct dg_flow_params *a, const struct dg_flow_params *b)
{
  return a->address_is_fixed == b->address_is_fixed && a->port_is_fixed == b->port_is_fixed &&
         (!a->address_is_fixed || eth_match_source_is_same(&a->source, &b->source));
}

/* ---- One of several ----------------------------------------------------------------------------
 */

/* The datagram for which a match is sought. */
struct question {
  const uint8_t *to;
  const struct dg_source *from;
  const void *queue;
  uint64_t now_ns;
};

static struct eth_match *eth_match_next_at(struct eth_match *match, const struct question *q)
{
  while (match && memcmp(match->at, q->to, sizeof(match->at)) != 0)
    match = match->next;
  return match;
}

/* Knows or follows the sender. */
static struct eth_match *eth_match_find_own(struct eth_match *chain, const struct question *q)
{
  for (struct eth_match *at = eth_match_next_at(chain, q); at;
       at = eth_match_next_at(at->next, q)) {
    const uint8_t kind = __atomic_load_n(&at->kind, __ATOMIC_ACQUIRE);
    const struct dg_source *claim = __atomic_load_n(&at->claim, __ATOMIC_ACQUIRE);

    if (kind == ETH_MATCH_KNOWN && dg_flow_is_source(&at->wants, q->from))
      return at;
    if (kind != ETH_MATCH_FIRST || !claim || !eth_match_source_is_same(claim, q->from))
      continue;
    __atomic_store_n(&at->heard_ns, q->now_ns, __ATOMIC_RELAXED);
    return at;
  }
  return NULL;
}

/* How well a sender that nobody follows suits a receiver; 0: not at all. */
enum rank {
  RANK_QUEUE = 1,    /* its frames come by the receiver's queue */
  RANK_KIN = 1 << 1, /* the receiver follows another one of that address, which may be over */
  RANK_ANY = 2 << 1,
  RANK_FREE = 3 << 1, /* the receiver follows nobody yet */
  RANK_KIND = 3 << 1,
  RANK_NAMED = 1 << 3, /* the receiver's `source` is the sender's address */
};

static uint32_t eth_match_rank_of(const struct eth_match *match, const struct question *q)
{
  const uint8_t kind = __atomic_load_n(&match->kind, __ATOMIC_ACQUIRE);
  uint32_t rank = match->wants.address_is_fixed ? RANK_NAMED : 0;

  if (kind == ETH_MATCH_UNMET || kind == ETH_MATCH_KNOWN ||
      !dg_flow_is_source(&match->wants, q->from))
    return 0;
  if (kind == ETH_MATCH_FIRST && match->claim) /* who has started anew has another port */
    return memcmp(match->claim->address, q->from->address, sizeof(q->from->address)) == 0
               ? rank | RANK_KIN
               : 0;
  rank |= kind == ETH_MATCH_ANY ? RANK_ANY : RANK_FREE;
  return rank | (q->queue && match->queue == q->queue ? RANK_QUEUE : 0);
}

static uint64_t eth_match_heard(const struct eth_match *match)
{
  return __atomic_load_n(&match->heard_ns, __ATOMIC_RELAXED);
}

static uint32_t eth_match_hash_of(const struct dg_source *source)
{
  uint32_t hash = 2166136261u; /* FNV-1a */

  for (uint32_t i = 0; i < sizeof(source->address); i++)
    hash = (hash ^ source->address[i]) * 16777619u;
  hash = (hash ^ (source->port & 0xffu)) * 16777619u;
  hash = (hash ^ source->port >> 8) * 16777619u;
  return hash ^ hash >> 16;
}

/* Finds the first match of the highest rank. Among those that follow a sender, it is the one that
 * has received least. */
static struct eth_match *eth_match_find_best(struct eth_match *chain, const struct question *q,
                                             uint32_t *rank, uint32_t *count)
{
  struct eth_match *best = NULL;

  *rank = *count = 0;
  for (struct eth_match *at = eth_match_next_at(chain, q); at;
       at = eth_match_next_at(at->next, q)) {
    const uint32_t its = eth_match_rank_of(at, q);
    const bool is_higher = its > *rank, is_equal = its && its == *rank;
    if (is_higher ||
        (is_equal && (its & RANK_KIND) == RANK_KIN && eth_match_heard(at) < eth_match_heard(best)))
      best = at;
    *count = is_higher ? 1 : *count + is_equal;
    *rank = is_higher ? its : *rank;
  }
  return best;
}

/* The same one for each frame of a sender. */
static struct eth_match *eth_match_choose_any(struct eth_match *chain, const struct question *q,
                                              uint32_t rank, uint32_t count)
{
  uint32_t left = eth_match_hash_of(q->from) % count;
  struct eth_match *at = eth_match_next_at(chain, q);

  while (eth_match_rank_of(at, q) != rank || left--)
    at = eth_match_next_at(at->next, q);
  return at;
}

static void eth_match_follow(struct eth_match *match, const struct question *q)
{
  struct dg_source *free = &match->claims[match->claim == &match->claims[0]];

  *free = *q->from;
  __atomic_store_n(&match->heard_ns, q->now_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&match->claim, free, __ATOMIC_RELEASE);
}

static struct eth_match *eth_match_give_sender(struct eth_match *chain, const struct question *q)
{
  uint32_t rank, count;
  struct eth_match *best = eth_match_find_best(chain, q, &rank, &count);

  if (!best)
    return eth_match_next_at(chain, q); /* who counts it as another's, or lost */
  if ((rank & RANK_KIND) == RANK_ANY)
    return eth_match_choose_any(chain, q, rank, count);
  if ((rank & RANK_KIND) == RANK_FREE || q->now_ns - eth_match_heard(best) >= DG_SILENCE_MAX_NS)
    eth_match_follow(best, q);
  return best;
}

struct eth_match *eth_match_find(struct eth_match *chain, const uint8_t to[16],
                                 const struct dg_source *from, const void *queue, uint64_t now_ns,
                                 int *lock)
{
  const struct question q = {to, from, queue, now_ns};
  struct eth_match *first = eth_match_next_at(chain, &q), *found;

  if (!first || !eth_match_next_at(first->next, &q))
    return first;
  found = eth_match_find_own(first, &q);
  if (found)
    return found;
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
    while (__atomic_load_n(lock, __ATOMIC_RELAXED))
      ;
  found = eth_match_find_own(first, &q);
  if (!found)
    found = eth_match_give_sender(first, &q);
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
  return found;
}
