/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving half of the hot path. */
#include <assert.h>

#include "endpoint.h"
#include "mr.h"
#include "remote.h"
#include "rx.h"

/* Polls between two looks for dead peers and stale wake-ups, which cost a system
 * call: when messages flow, and when none do. */
#define WATCH_BUSY 1024u
#define WATCH_IDLE 64u
/* Descriptors between asking for one and reading it. */
#define AHEAD 8u
#define REFERENCES_AHEAD 24u /* by reference, where a descriptor is all that there is to do */

/* Members of an rx that lb_poll_take_desc() needs: copied, since for all that the compiler knows,
 * writing a state could change them. */
struct taking {
  const struct lb_desc *descs;
  uint64_t mask, payload_max;
  uint8_t *states;
  uint32_t slots;
};

static inline struct taking lb_poll_taking_of(const struct lb_rx *rx)
{
  const struct lb_link *own = rx->own;
  return (struct taking){own->desc, own->mask, own->payload_max, rx->states, own->slots};
}

/* Takes a descriptor. A peer in another process may have written anything: each value is read once,
 * and a slot must be one that the peer has credit for. False: the descriptor is wrong. */
static inline bool lb_poll_take_desc(const struct taking *taking, uint64_t at, struct lb_desc *desc)
{
  const volatile struct lb_desc *shared = &taking->descs[at & taking->mask];
  desc->slot = shared->slot;
  desc->length = shared->length;
  desc->sequence = shared->sequence;
  desc->meta = shared->meta;
  if (__builtin_expect(desc->slot >= taking->slots || desc->length > taking->payload_max, 0) ||
      __builtin_expect(taking->states[desc->slot] != LB_SLOT_PEER, 0))
    return false;
  taking->states[desc->slot] = LB_SLOT_HELD;
  return true;
}

static inline void lb_poll_give_message(uint32_t index, uint64_t endpoint,
                                        const struct lb_desc *desc, uint64_t offset,
                                        uint32_t buffer, struct pst_completion *out)
{
  *out = (struct pst_completion){
      .kind = PST_COMPLETION_MESSAGE,
      .flags = PST_HAS_SEQUENCE | PST_HAS_META,
      .endpoint = endpoint,
      .u.message = {.token = pst_token(index, desc->slot),
                    .offset = offset,
                    .length = desc->length,
                    .buffer = buffer,
                    .sequence = desc->sequence,
                    .meta = desc->meta},
  };
}

/* Takes messages that the peer has copied into the ring. A count that cannot be fails the
 * endpoint. */
static uint32_t lb_poll_take_copies(struct pst_endpoint *endpoint, struct pst_completion *out,
                                    uint32_t max)
{
  struct lb_rx *rx = endpoint->rx;
  const struct lb_link *own = rx->own;
  uint64_t tail = rx->tail, bytes = 0;
  const uint64_t offset0 = rx->payload_offset, stride = own->stride;
  const uint64_t cookie = endpoint->cookie;
  const uint32_t index = rx->index;
  const struct taking taking = lb_poll_taking_of(rx);
  uint64_t available = atomic_load_explicit(&own->port->desc_head, memory_order_acquire) - tail;
  if (available == 0)
    return 0;
  if (available > own->slots) {
    lb_endpoint_fail(endpoint, -EPROTO, "announced more messages than there are slots");
    return 0;
  }
  uint32_t n = available < max ? (uint32_t)available : max;
  uint32_t i;
  for (i = 0; i < n; i++) {
    struct lb_desc desc;
    /* No further than what has arrived: the sender is writing there. */
    if (i + AHEAD < n)
      __builtin_prefetch(&taking.descs[(tail + i + AHEAD) & taking.mask]);
    if (!lb_poll_take_desc(&taking, tail + i, &desc)) {
      lb_endpoint_fail(endpoint, -EPROTO, "sent a slot or a length that was not its to use");
      break;
    }
    bytes += desc.length;
    lb_poll_give_message(index, cookie, &desc, offset0 + desc.slot * stride, 0, &out[i]);
  }
  rx->tail = tail + i;
  rx->messages += i;
  rx->bytes += bytes;
  return i;
}

/* Takes messages over from the sender, which could still cancel them until now. Returns how many it
 * has published so far. */
static uint64_t lb_poll_claim(struct lb_rx *rx, uint32_t max)
{
  struct lb_port *port = rx->own->port;
  uint64_t head = atomic_load_explicit(&port->desc_head, memory_order_acquire);
  uint64_t claimed = atomic_load_explicit(&port->claimed, memory_order_relaxed);
  while (!(claimed & LB_CLAIM_ABORT) && claimed != head && claimed - rx->tail < max) {
    uint64_t want = head - rx->tail < max ? head : rx->tail + max;
    if (atomic_compare_exchange_weak(&port->claimed, &claimed, want)) {
      rx->claimed = want;
      break;
    }
  }
  return head;
}

/* Index of the region's entry, or -1: there is none yet. */
static int lb_poll_find_buffer(struct lb_rx *rx, const struct lb_mr *mr)
{
  if (rx->last_buffer < rx->buffer_count && rx->buffers[rx->last_buffer].mr == mr)
    return (int)rx->last_buffer;
  for (uint32_t i = 0; i < rx->buffer_count; i++)
    if (rx->buffers[i].mr == mr) {
      rx->last_buffer = i;
      return (int)i;
    }
  return -1;
}

static bool lb_poll_add_buffer(struct pst_endpoint *endpoint, struct lb_mr *mr,
                               struct pst_completion *out)
{
  struct lb_rx *rx = endpoint->rx;
  int at = lb_poll_find_buffer(rx, NULL);
  if (at < 0) {
    if (rx->buffer_count >= LB_NO_BUFFER)
      return false;
    void *grown = realloc(rx->buffers, (rx->buffer_count + 1) * sizeof(*rx->buffers));
    if (!grown)
      return false;
    rx->buffers = grown;
    at = (int)rx->buffer_count++;
  }
  lb_entry_ref(&mr->entry);
  rx->buffers[at] = (struct lb_buffer){mr, ++endpoint->worker->buffer_last, 0};
  *out = (struct pst_completion){
      .kind = PST_COMPLETION_EVENT,
      .code = PST_EVENT_LENT,
      .u.region = {&mr->region, rx->buffers[at].number},
  };
  return true;
}

/* By reference: whose region the messages at hand are of. */
struct lender {
  const struct lb_mr *mr;
  int at;          /* of its entry; LB_NO_BUFFER: they lie in the ring's slots */
  uint32_t number; /* as the host knows it */
  uint32_t taken;  /* tokens that its entry does not count yet */
};

static inline void lb_poll_count_out(struct lb_rx *rx, struct lender *lender)
{
  if (lender->mr)
    rx->buffers[lender->at].out += lender->taken;
  else
    rx->in_slots += lender->taken;
  lender->taken = 0;
}

/* False: the host knows nothing of the region yet. */
static bool lb_poll_change_lender(struct lb_rx *rx, const struct lb_mr *mr, struct lender *lender)
{
  int at = mr ? lb_poll_find_buffer(rx, mr) : LB_NO_BUFFER;
  lb_poll_count_out(rx, lender);
  if (at < 0)
    return false;
  *lender = (struct lender){.mr = mr, .at = at, .number = mr ? rx->buffers[at].number : 0};
  return true;
}

/* Counts the lender's messages at the front of the next n, which lie side by side. `visible` have
 * been published, these among them. */
static __attribute__((noinline)) uint32_t
lb_poll_take_run(struct lb_rx *rx, const struct lender *lender, const struct lb_desc *desc,
                 uint32_t n, uint64_t visible, const struct pst_completion *head,
                 struct pst_completion *out)
{
  const struct lb_link *own = rx->own;
  struct lb_mr *const *const lent = own->lent;
  const struct lb_mr *const mr = lender->mr;
  const struct lb_desc *const first = desc, *const end = desc + n, *const seen = desc + visible;
  const uint64_t payload_max = own->payload_max;
  const uint32_t slots = own->slots, number = lender->number, index = rx->index;
  const uint16_t at = (uint16_t)lender->at;
  uint8_t *const states = rx->states;
  uint16_t *const buffer_of = rx->buffer_of;
  uint64_t bytes = 0;
  for (; desc < end; desc++, out++) {
    const uint32_t slot = desc->slot, length = desc->length;
    if (__builtin_expect(slot >= slots || length > payload_max, 0) ||
        __builtin_expect(lent[slot] != mr || states[slot] != LB_SLOT_PEER, 0))
      break;
    if (desc + REFERENCES_AHEAD < seen)
      __builtin_prefetch(desc + REFERENCES_AHEAD);
    states[slot] = LB_SLOT_HELD;
    buffer_of[slot] = at;
    bytes += length;
    memcpy(out, head, offsetof(struct pst_completion, u));
    out->u.message.token = pst_token(index, slot);
    out->u.message.offset = desc->offset;
    out->u.message.length = length;
    out->u.message.buffer = number;
    memcpy(&out->u.message.sequence, &desc->sequence, sizeof(desc->sequence) + sizeof(desc->meta));
    out->u.message.time_ns = 0;
  }
  rx->bytes += bytes;
  return (uint32_t)(desc - first);
}

/* Takes a message that lies in the ring's own slot. */
static uint32_t lb_poll_take_gathered(struct lb_rx *rx, const struct taking *taking, uint64_t at,
                                      uint64_t endpoint, struct pst_completion *out)
{
  struct lb_desc desc;
  if (!lb_poll_take_desc(taking, at, &desc))
    return 0;
  rx->buffer_of[desc.slot] = LB_NO_BUFFER;
  rx->bytes += desc.length;
  lb_poll_give_message(rx->index, endpoint, &desc, rx->payload_offset + desc.slot * rx->own->stride,
                       0, out);
  return 1;
}

/* The sender is of this process: what it has published it does not touch again. */
static uint32_t lb_poll_take_references(struct pst_endpoint *endpoint, struct pst_completion *out,
                                        uint32_t max)
{
  struct lb_rx *rx = endpoint->rx;
  const struct lb_link *own = rx->own;
  const struct taking taking = lb_poll_taking_of(rx);
  const struct pst_completion head = {.kind = PST_COMPLETION_MESSAGE,
                                      .flags = PST_HAS_SEQUENCE | PST_HAS_META,
                                      .endpoint = endpoint->cookie};
  struct lender lender = {.at = LB_NO_BUFFER};
  const uint64_t first = rx->tail;
  uint64_t tail = first;
  uint32_t n = 0, taken;
  const uint64_t published = lb_poll_claim(rx, max);
  const uint64_t claimed = rx->claimed;
  for (; n < max && tail != claimed; tail += taken, n += taken) {
    const struct lb_desc *desc = &taking.descs[tail & taking.mask];
    struct lb_mr *mr = own->lent[desc->slot];
    if (mr != lender.mr && !lb_poll_change_lender(rx, mr, &lender)) {
      if (!lb_poll_add_buffer(endpoint, mr, &out[n]))
        break; /* out of memory: later, perhaps */
      n++;
      if (n == max || !lb_poll_change_lender(rx, mr, &lender))
        break;
    }
    const uint64_t row = taking.mask + 1 - (tail & taking.mask);
    const uint64_t run = claimed - tail < max - n ? claimed - tail : max - n;
    taken = mr ? lb_poll_take_run(rx, &lender, desc, (uint32_t)(run < row ? run : row),
                                  published - tail < row ? published - tail : row, &head, &out[n])
               : lb_poll_take_gathered(rx, &taking, tail, endpoint->cookie, &out[n]);
    if (taken == 0) {
      lb_endpoint_fail(endpoint, -EPROTO, "sent a slot that was not its to use");
      break;
    }
    lender.taken += taken;
  }
  lb_poll_count_out(rx, &lender);
  rx->tail = tail;
  rx->messages += tail - first;
  assert(rx->endpoint == endpoint && rx->claimed - tail <= own->slots);
  return n;
}

/* Connected or gone, with nothing to look at but DONEs. */
static inline bool lb_poll_is_quiet(const struct pst_endpoint *endpoint)
{
  const struct lb_tx *tx = &endpoint->tx;
  const struct lb_rx *rx = endpoint->rx;
  const enum lb_stage_name stage = endpoint->stage.name;
  uint64_t news = (tx->head ^ tx->tail) | (endpoint->pending_head ^ endpoint->pending_tail);
  if ((stage != LB_CONNECTED && stage != LB_GONE) || tx->blocked || news)
    return false;
  if (rx && (rx->buffer_of ||
             atomic_load_explicit(&rx->own->port->desc_head, memory_order_acquire) != rx->tail))
    return false;
  return !lb_has_changed(endpoint);
}

/* May the messages that lie in its ring be handed over? */
static inline bool lb_poll_takes(const struct pst_endpoint *endpoint)
{
  const int status = lb_lost_status(endpoint);
  return endpoint->rx && endpoint->stage.name < LB_SHUT && status != -EPROTO && status != -EFAULT;
}

static __attribute__((noinline)) uint32_t lb_poll_endpoint(struct pst_endpoint *endpoint,
                                                           struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;
  if (__builtin_expect(!lb_was_connected(endpoint) || lb_is_connecting(endpoint), 0))
    n += lb_endpoint_progress(endpoint, out, max);
  if (endpoint->stage.name == LB_FREED || !lb_was_connected(endpoint))
    return n;
  if (endpoint->tx.blocked)
    lb_tx_reap(endpoint);
  if (endpoint->tx.tail != endpoint->tx.head) {
    lb_tx_reap(endpoint);
    if (endpoint->stage.name == LB_GONE && lb_link_is(endpoint->peer, LB_STATE_VOID))
      lb_tx_settle(endpoint, -ECONNRESET, -ECONNRESET);
  }
  if (__builtin_expect(lb_copy_pending(endpoint), 0))
    lb_copy_progress(endpoint);
  n += pst_dones_take(&endpoint->dones, endpoint->cookie, out + n, max - n);
  if (lb_poll_takes(endpoint))
    n += endpoint->rx->buffer_of ? lb_poll_take_references(endpoint, out + n, max - n)
                                 : lb_poll_take_copies(endpoint, out + n, max - n);
  if (__builtin_expect(lb_has_changed(endpoint), 0) && n < max)
    n += lb_endpoint_progress(endpoint, out + n, max - n);
  return n;
}

static void lb_poll_disarm(struct pst_worker *worker)
{
  worker->armed = false;
  worker->wakeups++;
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    atomic_store_explicit(&worker->endpoints[i]->own->port->armed, 0, memory_order_relaxed);
}

static void lb_poll_compact(struct pst_worker *worker)
{
  uint32_t kept = 0;
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    if (worker->endpoints[i]->stage.name == LB_FREED)
      lb_endpoint_free(worker->endpoints[i]);
    else
      worker->endpoints[kept++] = worker->endpoints[i];
  }
  assert(worker->endpoint_count - kept == worker->closed);
  worker->endpoint_count = kept;
  worker->closed = 0;
}

static uint32_t lb_poll_endpoints(struct pst_worker *worker, struct pst_completion *out,
                                  uint32_t max)
{
  uint32_t n = 0, count = worker->endpoint_count;
  if (worker->next >= count)
    worker->next = 0;
  for (uint32_t i = 0, at = worker->next; i < count && n < max; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[at];
    if (!lb_poll_is_quiet(endpoint))
      n += lb_poll_endpoint(endpoint, out + n, max - n);
    else if (!pst_dones_is_empty(&endpoint->dones))
      n += pst_dones_take(&endpoint->dones, endpoint->cookie, out + n, max - n);
    at = at + 1 < count ? at + 1 : 0;
  }
  return n;
}

int lb_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  bool woken = worker->armed;
  if (__builtin_expect(woken, 0)) {
    lb_poll_disarm(worker);
  } else if (++worker->polls % WATCH_BUSY == 0 || worker->idle >= WATCH_IDLE) {
    worker->idle = 0;
    lb_worker_watch(worker);
  }
  if (__builtin_expect(lb_worker_is_hit(worker), 0))
    lb_worker_lost(worker);
  uint32_t n = lb_poll_endpoints(worker, completions, max);
  /* Messages come first, without a system call: the next arm() consumes their wake-ups. A wake-up
   * without a message may mean that a peer has died. */
  if (__builtin_expect(woken && n == 0, 0)) {
    lb_worker_watch(worker);
    n = lb_poll_endpoints(worker, completions, max);
  }
  if (__builtin_expect(worker->unlending, 0))
    n += lb_worker_unlend(worker, completions + n, max - n);
  worker->next++;
  worker->idle = n ? 0 : worker->idle + 1;
  if (n)
    worker->again_ns = 0;
  if (worker->closed)
    lb_poll_compact(worker);
  return (int)n;
}
