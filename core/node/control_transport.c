/* SPDX-License-Identifier: Apache-2.0 */
/* The transport of a node that has none: messages alone, over the control connection. A peer's
 * address is the number of its slots, each of which is credit for a message. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control_transport.h"
#include "peer.h"

#define CONTROL_TRANSPORT_SLOTS_MAX 1024u

struct pst_mr {
  uint8_t *base;
};

/* A slot of the ring; its address is the token of the message in it. */
struct control_transport_slot {
  struct pst_ring *ring;
  struct control_transport_slot *next; /* arrived, or free */
  uint32_t index;
  uint32_t length;
};

struct pst_ring {
  struct pst_endpoint *endpoint; /* NULL: closed */
  uint8_t *base;
  uint64_t stride;
  uint64_t payload_max;
  uint32_t count;
  struct control_transport_slot *slots, *free;
};

/* An endpoint's life, and what of it poll() has still to tell: that of an endpoint without a peer's
 * address, CONNECTED, nothing, DISCONNECTED, nothing, and CLOSED, after which it is no more. */
enum control_transport_stage {
  CONTROL_TRANSPORT_OPEN,
  CONTROL_TRANSPORT_MET,
  CONTROL_TRANSPORT_UP,
  CONTROL_TRANSPORT_MET_LOST, /* the peer has gone before CONNECTED was reported: DISCONNECTED comes
                                 behind it */
  CONTROL_TRANSPORT_LOST,     /* behind the messages that have arrived */
  CONTROL_TRANSPORT_OVER,
  CONTROL_TRANSPORT_CLOSING,
};

struct pst_endpoint {
  struct pst_endpoint *next;
  struct pst_worker *worker;
  struct pst_peer *peer;
  struct pst_ring *ring;
  struct control_transport_slot *first, **last; /* arrived, and not polled */
  uint32_t credits;
  uint64_t sent, told; /* requests that are done; those of which a DONE has told */
  enum control_transport_stage stage;
};

struct pst_worker {
  struct pst_node *node;
  struct pst_endpoint *endpoints;
  int event_fd; /* never readable: what comes is mail, which wakes the node */
};

#define BIT(stage) (1u << CONTROL_TRANSPORT_##stage)

static void control_transport_enter(struct pst_endpoint *endpoint,
                                    enum control_transport_stage stage)
{
  static const uint32_t successors[] __attribute__((unused)) = {
      [CONTROL_TRANSPORT_OPEN] = BIT(MET) | BIT(LOST) | BIT(CLOSING),
      [CONTROL_TRANSPORT_MET] = BIT(UP) | BIT(MET_LOST) | BIT(CLOSING),
      [CONTROL_TRANSPORT_UP] = BIT(LOST) | BIT(CLOSING),
      [CONTROL_TRANSPORT_MET_LOST] = BIT(LOST) | BIT(CLOSING),
      [CONTROL_TRANSPORT_LOST] = BIT(OVER) | BIT(CLOSING),
      [CONTROL_TRANSPORT_OVER] = BIT(CLOSING),
      [CONTROL_TRANSPORT_CLOSING] = 0,
  };

  assert(successors[endpoint->stage] & 1u << stage);
  endpoint->stage = stage;
}

void control_transport_limits(struct pst_limits *limits)
{
  *limits = (struct pst_limits){.struct_size = sizeof(*limits),
                                .capabilities = PST_CAP_SEND | PST_CAP_RELIABLE | PST_CAP_DYNAMIC |
                                                PST_CAP_WAKEUP,
                                .message_max = CONTROL_MESSAGE_MAX,
                                .slot_alignment = 1,
                                .slots_min = 1,
                                .slots_max = CONTROL_TRANSPORT_SLOTS_MAX,
                                .workers_max = 1,
                                .endpoints_max = UINT32_MAX,
                                .requests_max = UINT32_MAX,
                                .pieces_max = 1,
                                .page_size = 1,
                                .address_max = sizeof(uint32_t)};
}

int control_transport_open(struct pst_node *node, struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  made->node = node;
  made->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made->event_fd < 0) {
    int rc = -errno;
    free(made);
    return rc;
  }
  *worker = made;
  return 0;
}

static void control_transport_worker_close(struct pst_worker *worker)
{
  close(worker->event_fd);
  free(worker);
}

static int control_transport_worker_event_fd(struct pst_worker *worker)
{
  return worker->event_fd;
}

/* ---- Memory ------------------------------------------------------------------------ */

static int control_transport_mr_register(struct pst_device *device,
                                         const struct pst_mr_params *params, struct pst_mr **mr)
{
  (void)device;
  *mr = calloc(1, sizeof(**mr));
  if (!*mr)
    return -ENOMEM;
  if (params->region->host)
    (*mr)->base = (uint8_t *)params->region->host + params->offset;
  return 0;
}

static void control_transport_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device;
  free(mr);
}

static int control_transport_ring_open(struct pst_worker *worker,
                                       const struct pst_ring_params *params,
                                       struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_ring *made = calloc(1, sizeof(*made));
  struct control_transport_slot *slots = calloc(params->slots, sizeof(*slots));

  (void)worker;
  (void)path;
  if (!made || !slots) {
    free(made);
    free(slots);
    return -ENOMEM;
  }
  *made = (struct pst_ring){.base = params->mr->base,
                            .stride = params->stride,
                            .payload_max = params->payload_max,
                            .count = params->slots,
                            .slots = slots};
  for (uint32_t i = params->slots; i-- > 0;) {
    slots[i] = (struct control_transport_slot){.ring = made, .next = made->free, .index = i};
    made->free = &slots[i];
  }
  *ring = made;
  return 0;
}

static void control_transport_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  (void)worker;
  if (!ring)
    return;
  free(ring->slots);
  free(ring);
}

/* ---- Endpoints ---------------------------------------------------------------------- */

static int control_transport_endpoint_open(struct pst_worker *worker,
                                           const struct pst_endpoint_params *params,
                                           struct pst_endpoint **endpoint)
{
  struct pst_endpoint *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  made->worker = worker;
  made->peer = (struct pst_peer *)(uintptr_t)params->cookie;
  made->ring = params->ring;
  made->ring->endpoint = made;
  made->last = &made->first;
  made->next = worker->endpoints;
  worker->endpoints = made;
  *endpoint = made;
  return 0;
}

static int control_transport_endpoint_address(struct pst_endpoint *endpoint,
                                              struct pst_blob *address)
{
  const uint32_t slots = htobe32(endpoint->ring->count);

  memcpy(address->bytes, &slots, sizeof(slots));
  address->length = sizeof(slots);
  address->fd_count = 0;
  return 0;
}

static int control_transport_endpoint_connect(struct pst_endpoint *endpoint,
                                              const struct pst_blob *address)
{
  uint32_t slots = 0;

  if (address->length == sizeof(slots))
    memcpy(&slots, address->bytes, sizeof(slots));
  slots = be32toh(slots);
  if (slots == 0 || slots > CONTROL_TRANSPORT_SLOTS_MAX ||
      endpoint->stage != CONTROL_TRANSPORT_OPEN) {
    pst_log(PST_LOG_ERROR,
            "%s: its address does not name 1 to %u slots, or came a second time; take the same "
            "version of Penstock at both ends",
            endpoint->peer->text, CONTROL_TRANSPORT_SLOTS_MAX);
    return -EPROTO;
  }
  endpoint->credits = slots;
  control_transport_enter(endpoint, CONTROL_TRANSPORT_MET);
  return 0;
}

static int control_transport_endpoint_path(struct pst_endpoint *endpoint,
                                           struct pst_path_info *path)
{
  struct pst_path_info info = {.path = PST_PATH_DIRECT};

  (void)endpoint;
  snprintf(info.via, sizeof(info.via), "control");
  snprintf(info.carrier, sizeof(info.carrier), "tcp");
  pst_struct_write(path, &info, sizeof(info));
  return 0;
}

static int control_transport_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode,
                                            uint64_t deadline_ns)
{
  (void)mode;
  (void)deadline_ns;
  control_transport_enter(endpoint, CONTROL_TRANSPORT_CLOSING);
  return 0;
}

static void control_transport_forget(struct pst_endpoint *endpoint)
{
  struct pst_endpoint **at = &endpoint->worker->endpoints;

  while (*at != endpoint)
    at = &(*at)->next;
  *at = endpoint->next;
  endpoint->ring->endpoint = NULL;
  free(endpoint);
}

/* ---- Messages ----------------------------------------------------------------------- */

static int control_transport_post(struct pst_endpoint *endpoint, const struct pst_request *requests,
                                  uint32_t n, uint32_t *wait)
{
  const struct pst_peer *peer = endpoint->peer;
  uint32_t taken = 0;
  int rc = 0;

  while (taken < n && endpoint->credits && endpoint->stage <= CONTROL_TRANSPORT_UP && rc == 0) {
    const struct pst_request *request = &requests[taken];
    const struct pst_blob bytes = {.struct_size = sizeof(bytes),
                                   .length = (uint32_t)request->arg.length,
                                   .bytes = request->local.mr->base + request->offset};
    rc = control_node_say(
        peer->node->control,
        &(struct control_node_message){.type = WIRE_MESSAGE, .id = peer->id, .blob = &bytes});
    if (rc < 0)
      break;
    endpoint->credits--;
    endpoint->sent++;
    taken++;
  }
  *wait = PST_WAIT_CREDIT;
  if (taken)
    return (int)taken;
  return endpoint->stage > CONTROL_TRANSPORT_UP ? -ENOTCONN : rc < 0 ? rc : -EAGAIN;
}

int control_transport_arrived(struct pst_endpoint *endpoint, const void *bytes, uint32_t length)
{
  struct pst_ring *ring = endpoint->ring;
  struct control_transport_slot *slot = ring->free;

  if (!slot || length > ring->payload_max)
    return -EPROTO;
  ring->free = slot->next;
  slot->next = NULL;
  slot->length = length;
  if (length)
    memcpy(ring->base + slot->index * ring->stride, bytes, length);
  *endpoint->last = slot;
  endpoint->last = &slot->next;
  return 0;
}

void control_transport_room(struct pst_endpoint *endpoint, uint32_t count)
{
  endpoint->credits = count < CONTROL_TRANSPORT_SLOTS_MAX - endpoint->credits
                          ? endpoint->credits + count
                          : CONTROL_TRANSPORT_SLOTS_MAX;
}

void control_transport_over(struct pst_endpoint *endpoint)
{
  if (endpoint->stage <= CONTROL_TRANSPORT_UP)
    control_transport_enter(endpoint, endpoint->stage == CONTROL_TRANSPORT_MET
                                          ? CONTROL_TRANSPORT_MET_LOST
                                          : CONTROL_TRANSPORT_LOST);
}

static int control_transport_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    struct control_transport_slot *slot = (struct control_transport_slot *)(uintptr_t)tokens[i];
    struct pst_ring *ring = slot->ring;
    slot->next = ring->free;
    ring->free = slot;
    if (ring->endpoint)
      control_node_say(worker->node->control,
                       &(struct control_node_message){
                           .type = WIRE_ROOM, .id = ring->endpoint->peer->id, .count = 1});
  }
  return 0;
}

static bool control_transport_has_news(const struct pst_endpoint *endpoint)
{
  const uint32_t tells = BIT(MET) | BIT(MET_LOST) | BIT(LOST) | BIT(CLOSING);

  return endpoint->first || endpoint->sent != endpoint->told || (tells & 1u << endpoint->stage);
}

static int control_transport_arm(struct pst_worker *worker)
{
  for (const struct pst_endpoint *endpoint = worker->endpoints; endpoint; endpoint = endpoint->next)
    if (control_transport_has_news(endpoint))
      return -EAGAIN;
  return 0;
}

static struct pst_completion control_transport_event_of(const struct pst_endpoint *endpoint,
                                                        uint8_t code, int status)
{
  return (struct pst_completion){.kind = PST_COMPLETION_EVENT,
                                 .code = code,
                                 .status = status,
                                 .endpoint = (uint64_t)(uintptr_t)endpoint->peer};
}

/* The next of what there is to say, in the order of its coming. False: it was the last, and the
 * endpoint is no more. */
static bool control_transport_take_next(struct pst_endpoint *endpoint, struct pst_completion *next)
{
  if (endpoint->stage == CONTROL_TRANSPORT_MET || endpoint->stage == CONTROL_TRANSPORT_MET_LOST) {
    control_transport_enter(endpoint, endpoint->stage == CONTROL_TRANSPORT_MET
                                          ? CONTROL_TRANSPORT_UP
                                          : CONTROL_TRANSPORT_LOST);
    *next = control_transport_event_of(endpoint, PST_EVENT_CONNECTED, 0);
    return true;
  }
  if (endpoint->sent != endpoint->told) {
    const uint64_t count = endpoint->sent - endpoint->told;
    endpoint->told = endpoint->sent;
    *next = (struct pst_completion){.kind = PST_COMPLETION_DONE,
                                    .code = PST_OP_SEND,
                                    .endpoint = (uint64_t)(uintptr_t)endpoint->peer,
                                    .u.done = {.cookie = endpoint->sent - 1, .count = count}};
    return true;
  }
  if (endpoint->first && endpoint->stage != CONTROL_TRANSPORT_CLOSING) {
    struct control_transport_slot *slot = endpoint->first;
    endpoint->first = slot->next;
    if (!endpoint->first)
      endpoint->last = &endpoint->first;
    *next = (struct pst_completion){.kind = PST_COMPLETION_MESSAGE,
                                    .endpoint = (uint64_t)(uintptr_t)endpoint->peer,
                                    .u.message = {.token = (uint64_t)(uintptr_t)slot,
                                                  .offset = slot->index * slot->ring->stride,
                                                  .length = slot->length}};
    return true;
  }
  if (endpoint->stage == CONTROL_TRANSPORT_LOST) {
    control_transport_enter(endpoint, CONTROL_TRANSPORT_OVER);
    *next = control_transport_event_of(endpoint, PST_EVENT_DISCONNECTED, -ECONNRESET);
    return true;
  }
  assert(endpoint->stage == CONTROL_TRANSPORT_CLOSING);
  *next = control_transport_event_of(endpoint, PST_EVENT_CLOSED, 0);
  control_transport_forget(endpoint);
  return false;
}

static int control_transport_poll_worker(struct pst_worker *worker,
                                         struct pst_completion *completions, uint32_t max)
{
  struct pst_endpoint *next;
  uint32_t n = 0;

  for (struct pst_endpoint *endpoint = worker->endpoints; endpoint && n < max; endpoint = next) {
    next = endpoint->next;
    bool is_there = true;
    while (n < max && is_there && control_transport_has_news(endpoint))
      is_there = control_transport_take_next(endpoint, &completions[n++]);
  }
  return (int)n;
}

const struct pst_transport_ops control_transport_ops = {
    .struct_size = sizeof(control_transport_ops),
    .mr_register = control_transport_mr_register,
    .mr_deregister = control_transport_mr_deregister,
    .worker_close = control_transport_worker_close,
    .arm = control_transport_arm,
    .event_fd = control_transport_worker_event_fd,
    .ring_open = control_transport_ring_open,
    .ring_close = control_transport_ring_close,
    .endpoint_open = control_transport_endpoint_open,
    .endpoint_address = control_transport_endpoint_address,
    .endpoint_connect = control_transport_endpoint_connect,
    .endpoint_path = control_transport_endpoint_path,
    .endpoint_close = control_transport_endpoint_close,
    .post = control_transport_post,
    .poll = control_transport_poll_worker,
    .release = control_transport_release};
