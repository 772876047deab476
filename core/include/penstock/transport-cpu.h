/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations, rings and endpoints of a transport that reads and writes memory by the CPU, or has
 * the kernel do so: what goes without a device. transports/udp is built on them.
 *
 * As transport-util.h, it is static inline and no part of the ABI. A plugin's structs begin with
 * these, so that one is the other by a cast.
 */
#ifndef PENSTOCK_TRANSPORT_CPU_H
#define PENSTOCK_TRANSPORT_CPU_H

#include <assert.h>

#include "transport-util.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of a transport that only memory bounds, for the initialiser of a pst_limits. */
#define PST_CPU_SLOTS_MAX (1u << 22)
#define PST_CPU_REQUESTS_MAX (1u << 20)
#define PST_CPU_PIECES_MAX 64u
#define PST_CPU_LIMITS                                                                             \
  .slot_alignment = 1, .slots_min = 1, .slots_max = PST_CPU_SLOTS_MAX, .workers_max = 1024,        \
  .endpoints_max = 4096, .requests_max = PST_CPU_REQUESTS_MAX, .pieces_max = PST_CPU_PIECES_MAX,   \
  .ring_needs = PST_NEED_CPU_ACCESS, .send_needs = PST_NEED_CPU_ACCESS, .page_size = 1

/* A registration: a plugin's pst_mr is one. */
struct pst_cpu_mr {
  uint8_t *base;
  uint64_t length;
  uint32_t access; /* enum pst_access */
};

PST_INLINE struct pst_cpu_mr *pst_cpu_mr_of(struct pst_mr *mr)
{
  return (struct pst_cpu_mr *)mr;
}

/* mr_register of a plugin whose pst_device begins with its `const struct pst_host *`. 0;
 * -EOPNOTSUPP with the reason in params->path: the CPU does not reach the region; -EINVAL, logged;
 * -ENOMEM. */
PST_INLINE int pst_cpu_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                                   struct pst_mr **mr)
{
  const struct pst_host *host = *(const struct pst_host *const *)device;
  struct pst_mr_params in;
  struct pst_region region;
  struct pst_cpu_mr *made;
  int rc;

  pst_struct_read(&in, sizeof(in), params);
  pst_struct_read(&region, sizeof(region), in.region);
  rc = pst_mr_params_check(host, &in, &region, NULL);
  if (rc < 0)
    return rc;
  if (!region.host) {
    pst_path_write(in.path, PST_PATH_NONE, "", "",
                   "it moves bytes by the CPU, and needs memory that the CPU can touch");
    return -EOPNOTSUPP;
  }
  made = (struct pst_cpu_mr *)malloc(sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->base = (uint8_t *)region.host + in.offset;
  made->length = in.length;
  made->access = in.access;
  *mr = (struct pst_mr *)made;
  return 0;
}

PST_INLINE void pst_cpu_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device;
  free(mr);
}

/* A pst_mr_check of such registrations. No bytes are of no memory. */
PST_INLINE bool pst_cpu_mr_holds(const void *context, struct pst_mr *mr, uint64_t offset,
                                 uint64_t length, uint32_t right)
{
  const struct pst_cpu_mr *range = pst_cpu_mr_of(mr);

  (void)context;
  if (!range)
    return length == 0;
  return (range->access & right) && pst_range_holds(range->length, offset, length);
}

/* The bytes of a SEND or WRITE that was checked, of pst_cpu_mr registrations, one behind the other
 * into `to`. */
PST_INLINE void pst_cpu_gather(uint8_t *to, const struct pst_request *request)
{
  struct pst_piece one;
  uint32_t i, count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  for (i = 0; i < count; to += pieces[i++].length)
    if (pieces[i].length)
      memcpy(to, pst_cpu_mr_of(pieces[i].mr)->base + pieces[i].offset, pieces[i].length);
}

/* A ring of params.endpoints at most. A plugin's pst_ring begins with it. */
struct pst_cpu_ring {
  struct pst_ring_params params;
  uint8_t *base;   /* of the mr */
  uint32_t number; /* upper half of its tokens */
  struct pst_slots slots;
  uint32_t endpoints; /* that it has */
};

/* `ring` is all 0, and `rings` the worker's. 0; -EINVAL, logged; -ENOSPC; -ENOMEM. */
PST_INLINE int pst_cpu_ring_open(struct pst_cpu_ring *ring, const struct pst_host *host,
                                 struct pst_places *rings, const struct pst_ring_params *params,
                                 const struct pst_limits *limits)
{
  const struct pst_cpu_mr *mr = pst_cpu_mr_of(params->mr);
  int rc;

  pst_struct_read(&ring->params, sizeof(ring->params), params);
  ring->number = PST_PLACE_NONE;
  rc = pst_ring_params_check(host, &ring->params, mr ? mr->access : 0, mr ? mr->length : 0, limits,
                             NULL);
  if (rc == 0)
    rc = pst_slots_open(&ring->slots, ring->params.slots);
  if (rc == 0)
    rc = pst_places_take(rings, ring, PST_PLACE_MASK, &ring->number);
  if (rc < 0)
    pst_slots_close(&ring->slots);
  else
    ring->base = mr->base;
  return rc;
}

PST_INLINE void pst_cpu_ring_close(struct pst_cpu_ring *ring, struct pst_places *rings)
{
  if (ring->number != PST_PLACE_NONE)
    pst_places_give(rings, ring->number);
  pst_slots_close(&ring->slots);
}

PST_INLINE uint8_t *pst_cpu_slot(const struct pst_cpu_ring *ring, uint32_t slot)
{
  return ring->base + pst_slot_offset(&ring->params, slot);
}

/* release() of a worker with such rings: 0; -EINVAL, logged. */
PST_INLINE int pst_cpu_release(const struct pst_host *host, const struct pst_places *rings,
                               const uint64_t *tokens, uint32_t n)
{
  uint32_t i;

  for (i = 0; i < n; i++) {
    struct pst_cpu_ring *ring =
        (struct pst_cpu_ring *)pst_places_find(rings, pst_token_number(tokens[i]));
    if (!ring || !pst_slots_release(&ring->slots, pst_token_slot(tokens[i])))
      return PST_REFUSE(host, -EINVAL,
                        "release of token %#llx, which is not out: it was never given, or released "
                        "before; a bug of the host",
                        (unsigned long long)tokens[i]);
  }
  return 0;
}

/* Where an endpoint stands. pst_cpu_enter() alone changes it; transports/udp/README.md draws it. */
enum pst_cpu_state {
  PST_CPU_NEW = 0,     /* it has not met its peer */
  PST_CPU_MEETING = 1, /* nor yet, but the way to the peer is being found */
  PST_CPU_UP = 2,      /* it has */
  PST_CPU_DOWN = 3,    /* the peer is gone, or never came */
  PST_CPU_CLOSED = 4,  /* CLOSED has been given: the plugin frees the endpoint */
};

/* An endpoint: what it tells its host beside messages, in the order that transport.h asks for. A
 * plugin's pst_endpoint begins with it. */
struct pst_cpu_endpoint {
  struct pst_endpoint_params params; /* without options and label, which are not to be kept */
  struct pst_cpu_ring *ring;         /* params.ring, or NULL */
  struct pst_dones dones;
  struct pst_closing closing;
  enum pst_cpu_state state;
  bool owes_connected;
  bool owes_disconnected; /* in DOWN alone */
  int32_t status;         /* of DISCONNECTED */
};

/* To a state that may follow the one it is in. */
PST_INLINE void pst_cpu_enter(struct pst_cpu_endpoint *endpoint, enum pst_cpu_state state)
{
  /* One of NEW, MEETING, UP (itself: READDRESS), DOWN, CLOSED. */
  static const uint8_t successors[] = {
      1u << PST_CPU_MEETING | 1u << PST_CPU_UP | 1u << PST_CPU_DOWN | 1u << PST_CPU_CLOSED,
      1u << PST_CPU_UP | 1u << PST_CPU_DOWN | 1u << PST_CPU_CLOSED,
      1u << PST_CPU_UP | 1u << PST_CPU_DOWN | 1u << PST_CPU_CLOSED,
      1u << PST_CPU_CLOSED,
      0,
  };

  assert(successors[endpoint->state] & 1u << state);
  assert(!endpoint->owes_disconnected);
  (void)successors;
  endpoint->state = state;
}

/* `endpoint` is all 0; `wrong` as for the checks above. 0; -EINVAL, logged; -EOPNOTSUPP; -ENOMEM.
 * pst_cpu_endpoint_end() is legal after any. */
PST_INLINE int pst_cpu_endpoint_open(struct pst_cpu_endpoint *endpoint, const struct pst_host *host,
                                     const struct pst_endpoint_params *params,
                                     const struct pst_limits *limits, const char *wrong)
{
  struct pst_cpu_ring *ring;
  int rc;

  pst_struct_read(&endpoint->params, sizeof(endpoint->params), params);
  ring = (struct pst_cpu_ring *)endpoint->params.ring;
  if (ring && ring->endpoints == ring->params.endpoints)
    wrong = "its ring has as many endpoints as it was opened for";
  rc = pst_endpoint_params_check(host, &endpoint->params, ring ? ring->params.payload_max : 0,
                                 limits, wrong);
  endpoint->params.options = NULL;
  endpoint->params.label = NULL;
  if (rc == 0)
    rc = pst_dones_open(&endpoint->dones, endpoint->params.requests);
  if (rc < 0)
    return rc;
  endpoint->ring = ring;
  if (ring)
    ring->endpoints++;
  return 0;
}

PST_INLINE void pst_cpu_endpoint_end(struct pst_cpu_endpoint *endpoint)
{
  pst_dones_close(&endpoint->dones);
  if (endpoint->ring)
    endpoint->ring->endpoints--;
}

/* Notes that the endpoint has met its peer, or met it again under another address. */
PST_INLINE void pst_cpu_endpoint_up(struct pst_cpu_endpoint *endpoint)
{
  pst_cpu_enter(endpoint, PST_CPU_UP);
  endpoint->owes_connected = true;
}

/* The peer is gone: `status` is DISCONNECTED's. Only the first call counts. */
PST_INLINE void pst_cpu_endpoint_down(struct pst_cpu_endpoint *endpoint, int32_t status)
{
  if (endpoint->state >= PST_CPU_DOWN)
    return;
  pst_cpu_enter(endpoint, PST_CPU_DOWN);
  endpoint->owes_disconnected = true;
  endpoint->status = status;
}

/* endpoint_close of a plugin. */
PST_INLINE int pst_cpu_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode,
                                      uint64_t deadline_ns)
{
  return pst_closing_begin(&((struct pst_cpu_endpoint *)endpoint)->closing, mode, deadline_ns);
}

/* May post() take requests? 0; -ENOTCONN: not yet, or no more; -ECONNRESET. */
PST_INLINE int pst_cpu_may_post(const struct pst_cpu_endpoint *endpoint)
{
  if (endpoint->state < PST_CPU_UP || endpoint->owes_connected || endpoint->closing.mode)
    return -ENOTCONN;
  return endpoint->state == PST_CPU_UP ? 0 : -ECONNRESET;
}

/* All of a SEND or FLUSH; another request is -EINVAL. `message_max`: what the peer's slots have
 * room for, beside this end's own bound. */
PST_INLINE int pst_cpu_request_check(const struct pst_cpu_endpoint *endpoint,
                                     const struct pst_request *request, uint32_t pieces_max,
                                     uint64_t message_max)
{
  if (request->opcode == PST_OP_FLUSH)
    return pst_flush_check(request, false);
  if (request->opcode != PST_OP_SEND || !(endpoint->params.roles & PST_ROLE_SENDER))
    return -EINVAL;
  if (endpoint->params.message_max && endpoint->params.message_max < message_max)
    message_max = endpoint->params.message_max;
  return pst_send_check(request, pieces_max, message_max, pst_cpu_mr_holds, NULL);
}

/* Writes the completions that precede messages in poll(): CONNECTED and DONEs. Returns how many
 * completions. */
PST_INLINE uint32_t pst_cpu_endpoint_poll(struct pst_cpu_endpoint *endpoint,
                                          struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;

  if (endpoint->owes_connected && max) {
    endpoint->owes_connected = false;
    pst_event_write(&out[n++], endpoint->params.cookie, PST_EVENT_CONNECTED, 0);
  }
  return n + pst_dones_take(&endpoint->dones, endpoint->params.cookie, out + n, max - n);
}

/* And behind them, where no message is left: DISCONNECTED; CLOSED, once it closes and nothing is
 * outstanding. Returns how many. */
PST_INLINE uint32_t pst_cpu_endpoint_poll_end(struct pst_cpu_endpoint *endpoint,
                                              struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;

  assert(!endpoint->owes_disconnected || endpoint->state == PST_CPU_DOWN);
  if (endpoint->owes_disconnected && max) {
    endpoint->owes_disconnected = false;
    pst_event_write(&out[n++], endpoint->params.cookie, PST_EVENT_DISCONNECTED, endpoint->status);
  }
  if (endpoint->closing.mode && !endpoint->dones.outstanding && n < max) {
    pst_cpu_enter(endpoint, PST_CPU_CLOSED);
    pst_event_write(&out[n++], endpoint->params.cookie, PST_EVENT_CLOSED, 0);
  }
  return n;
}

/* Has poll() any of these to give? */
PST_INLINE bool pst_cpu_endpoint_is_pending(const struct pst_cpu_endpoint *endpoint)
{
  return endpoint->owes_connected || endpoint->owes_disconnected || endpoint->closing.mode ||
         !pst_dones_is_empty(&endpoint->dones);
}

/* A MESSAGE of `length` bytes in a slot of its ring. When it is given, its token is out:
 * slots.out[slot] becomes 1. */
PST_INLINE void pst_cpu_message_write(struct pst_completion *out,
                                      const struct pst_cpu_endpoint *endpoint, uint32_t slot,
                                      uint32_t length)
{
  memset(out, 0, sizeof(*out));
  out->kind = PST_COMPLETION_MESSAGE;
  out->endpoint = endpoint->params.cookie;
  out->u.message.token = pst_token(endpoint->ring->number, slot);
  out->u.message.offset = pst_slot_offset(&endpoint->ring->params, slot);
  out->u.message.length = length;
}

#ifdef __cplusplus
}
#endif
#endif
