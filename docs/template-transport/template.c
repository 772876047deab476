/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest transport: messages within one process. A SEND is copied into the peer's slot, and
 * done, when post() returns. One lock, taken once a call, guards all that both ends touch. */
#include <pthread.h>
#include <unistd.h>

#include <penstock/transport-cpu.h>

struct pst_device {
  const struct pst_host *host;
};

struct pst_worker {
  const struct pst_host *host;
  struct pst_places rings;
};

struct pst_ring {
  struct pst_cpu_ring cpu;
  struct pst_completion *arrived; /* MESSAGEs, a queue of its slots */
  uint32_t first, waiting;
};

/* The endpoint's address, as it travels over the control channel. Everything in it comes from a
 * peer. */
struct address {
  char magic[8];
  uint64_t process, image; /* process, and load of this plugin; a peer of another: -EXDEV */
  uint64_t number;
};

struct pst_endpoint {
  struct pst_cpu_endpoint cpu;
  struct pst_worker *worker;
  struct address own;
  uint32_t number, peer_number;
};

static const struct pst_limits limits = {
    PST_CPU_LIMITS,
    .capabilities = PST_CAP_SEND | PST_CAP_RELIABLE | PST_CAP_ORDERED | PST_CAP_SEQUENCE |
                    PST_CAP_META | PST_CAP_DYNAMIC,
    .sequence_bits = 64, .message_max = UINT64_C(1) << 30, .address_max = sizeof(struct address)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pst_places endpoints; /* of this process */

static int probe(const struct pst_host *host, struct pst_probe *found)
{
  (void)host;
  found->device(found->context, "", "this process");
  return 0;
}

static int device_open(const struct pst_host *host, const struct pst_open_params *params,
                       struct pst_device **device)
{
  (void)params;
  struct pst_device *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->host = host;
  *device = made;
  return 0;
}

static void device_close(struct pst_device *device)
{
  free(device);
}

static int device_limits(struct pst_device *device, struct pst_limits *out)
{
  (void)device;
  pst_struct_write(out, &limits, sizeof(limits));
  return 0;
}

static int worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  (void)index;
  struct pst_worker *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->host = device->host;
  *worker = made;
  return 0;
}

static void worker_close(struct pst_worker *worker)
{
  free(worker->rings.all);
  free(worker);
}

static void ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  pst_cpu_ring_close(&ring->cpu, &worker->rings);
  free(ring->arrived);
  free(ring);
}

static int ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                     struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_ring *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  int rc = pst_cpu_ring_open(&made->cpu, worker->host, &worker->rings, params, &limits);
  if (rc == 0 && !(made->arrived = calloc(params->slots, sizeof(*made->arrived))))
    rc = -ENOMEM;
  if (rc < 0) {
    ring_close(worker, made);
    return rc;
  }
  pst_path_write(path, PST_PATH_DIRECT, "memcpy", "memory", "");
  *ring = made;
  return 0;
}

static int release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  pthread_mutex_lock(&lock);
  const int rc = pst_cpu_release(worker->host, &worker->rings, tokens, n);
  pthread_mutex_unlock(&lock);
  return rc;
}

static int endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                         struct pst_endpoint **endpoint)
{
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->worker = worker;
  made->peer_number = PST_PLACE_NONE;
  pthread_mutex_lock(&lock);
  int rc = pst_cpu_endpoint_open(&made->cpu, worker->host, params, &limits, NULL);
  if (rc == 0)
    rc = pst_places_take(&endpoints, made, limits.endpoints_max, &made->number);
  pthread_mutex_unlock(&lock);
  if (rc < 0) {
    pst_cpu_endpoint_end(&made->cpu);
    free(made);
    return rc;
  }
  made->own = (struct address){"TEMPLAT", (uint64_t)getpid(), (uintptr_t)&endpoints, made->number};
  *endpoint = made;
  return 0;
}

static int endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  return pst_blob_write(address, &endpoint->own, sizeof(endpoint->own));
}

static int endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  const struct pst_host *host = endpoint->worker->host;
  struct address far;
  if (!address || endpoint->peer_number != PST_PLACE_NONE)
    return PST_REFUSE(host, address ? -EALREADY : -EINVAL, "an endpoint has one peer, by address");
  if (!pst_blob_read(address, &far, sizeof(far)) || memcmp(far.magic, endpoint->own.magic, 8) != 0)
    return PST_REFUSE(host, -EPROTO, "what the peer sent is not an address of this transport");
  if (far.process != endpoint->own.process || far.image != endpoint->own.image)
    return PST_REFUSE(host, -EXDEV, "the peer is in another process; use `penstock run`");
  pthread_mutex_lock(&lock);
  endpoint->peer_number = (uint32_t)far.number & PST_PLACE_NUMBERS;
  pthread_mutex_unlock(&lock);
  return 0;
}

static int endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  (void)endpoint;
  pst_path_write(path, PST_PATH_DIRECT, "memcpy", "memory", "");
  return 0;
}

/* Returns the peer or NULL. UP: both ends have named each other. DOWN: the peer has gone. */
static struct pst_endpoint *look_at_peer(struct pst_endpoint *endpoint)
{
  struct pst_endpoint *peer = pst_places_find(&endpoints, endpoint->peer_number);
  if (endpoint->peer_number == PST_PLACE_NONE || (peer && peer->peer_number == PST_PLACE_NONE))
    return NULL;
  if (!peer || peer->peer_number != endpoint->number ||
      !(endpoint->cpu.params.roles & PST_ROLE_SENDER ? peer : endpoint)->cpu.ring)
    pst_cpu_endpoint_down(&endpoint->cpu, endpoint->cpu.state == PST_CPU_UP ? 0 : -ECONNRESET);
  else if (endpoint->cpu.state == PST_CPU_NEW)
    pst_cpu_endpoint_up(&endpoint->cpu);
  return peer;
}

/* Returns 0 when the request is done, -EAGAIN with *why, or the error of a refused request. */
static int post_one(struct pst_endpoint *endpoint, struct pst_endpoint *peer,
                    const struct pst_request *request, uint32_t *why)
{
  struct pst_ring *ring = peer->cpu.params.ring;
  const int rc = pst_cpu_request_check(&endpoint->cpu, request, limits.pieces_max,
                                       ring ? ring->cpu.params.payload_max : 0);
  const bool is_message = request->opcode == PST_OP_SEND;
  if (rc < 0)
    return rc;
  *why = !pst_dones_room(&endpoint->cpu.dones, 1)        ? PST_WAIT_QUEUE
         : is_message && ring->cpu.slots.free_count == 0 ? PST_WAIT_CREDIT
                                                         : PST_WAIT_NONE;
  if (*why)
    return -EAGAIN;
  pst_dones_add(&endpoint->cpu.dones, request);
  if (!is_message)
    return 0;
  const uint32_t slot = pst_slots_take(&ring->cpu.slots);
  const uint32_t last = (ring->first + ring->waiting++) % ring->cpu.slots.count;
  struct pst_completion *message = &ring->arrived[last];
  pst_cpu_gather(pst_cpu_slot(&ring->cpu, slot), request);
  pst_cpu_message_write(message, &peer->cpu, slot, (uint32_t)request->arg.length);
  message->flags = PST_HAS_SEQUENCE | PST_HAS_META;
  message->u.message.sequence = request->u.send.sequence;
  message->u.message.meta = request->u.send.meta;
  return 0;
}

static int post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                uint32_t *wait)
{
  uint32_t taken, why = PST_WAIT_NONE;
  pthread_mutex_lock(&lock);
  struct pst_endpoint *peer = look_at_peer(endpoint);
  int rc = pst_cpu_may_post(&endpoint->cpu);
  for (taken = 0; taken < n && rc == 0; taken += rc == 0)
    rc = post_one(endpoint, peer, &requests[taken], &why);
  pthread_mutex_unlock(&lock);
  return pst_post_result(taken, n, rc, why, wait);
}

static int poll(struct pst_worker *worker, struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < endpoints.room && n < max; i++) {
    struct pst_endpoint *one = endpoints.all[i].at;
    if (!one || one->worker != worker)
      continue;
    look_at_peer(one);
    n += pst_cpu_endpoint_poll(&one->cpu, out + n, max - n);
    struct pst_ring *ring = one->cpu.params.ring;
    for (; ring && ring->waiting && n < max; ring->waiting--) {
      out[n] = ring->arrived[ring->first];
      ring->cpu.slots.out[pst_token_slot(out[n++].u.message.token)] = 1;
      ring->first = (ring->first + 1) % ring->cpu.slots.count;
    }
    n += pst_cpu_endpoint_poll_end(&one->cpu, out + n, max - n);
    if (one->cpu.state == PST_CPU_CLOSED) {
      pst_places_give(&endpoints, one->number);
      pst_cpu_endpoint_end(&one->cpu);
      free(one);
    }
  }
  pthread_mutex_unlock(&lock);
  return (int)n;
}

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities = PST_CAP_SEND | PST_CAP_RELIABLE | PST_CAP_ORDERED | PST_CAP_SEQUENCE |
                    PST_CAP_META | PST_CAP_DYNAMIC,
    .open = device_open,
    .close = device_close,
    .limits = device_limits,
    .mr_register = pst_cpu_mr_register,
    .mr_deregister = pst_cpu_mr_deregister,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .ring_open = ring_open,
    .ring_close = ring_close,
    .endpoint_open = endpoint_open,
    .endpoint_address = endpoint_address,
    .endpoint_connect = endpoint_connect,
    .endpoint_path = endpoint_path,
    .endpoint_close = pst_cpu_endpoint_close,
    .post = post,
    .poll = poll,
    .release = release,
};

PST_PLUGIN(probe, &ops);
