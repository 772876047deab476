/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: the memory that it shares with the router, its sleep, its rings and their tokens. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

static int share_worker_map(struct pst_worker *worker, int memory_fd)
{
  struct epoll_event event = {.events = EPOLLIN}, hang_up = {.events = EPOLLRDHUP};
  const int seals = fcntl(memory_fd, F_GET_SEALS);
  struct stat file;

  if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(memory_fd, &file) != 0 ||
      file.st_size < PST_SHARE_MEMORY)
    return -EPROTO; /* it could be taken away */
  void *map = mmap(NULL, PST_SHARE_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
  if (map == MAP_FAILED)
    return -errno;
  worker->page = map;
  worker->submit = (struct pst_share_entry *)((char *)map + PST_SHARE_SUBMIT_AT);
  worker->complete = (const struct pst_completion *)((char *)map + PST_SHARE_COMPLETE_AT);
  worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (worker->epoll_fd < 0 ||
      epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->client_event, &event) != 0 ||
      epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->device->fd, &hang_up) != 0)
    return -errno;
  return 0;
}

static void share_worker_free(struct pst_worker *worker)
{
  if (worker->page)
    munmap(worker->page, PST_SHARE_MEMORY);
  const int fds[] = {worker->router_event, worker->client_event, worker->epoll_fd};
  for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
    if (fds[i] >= 0)
      close(fds[i]);
  for (uint32_t i = 0; i < worker->endpoint_room; i++)
    if (worker->endpoints[i])
      share_endpoint_free(worker->endpoints[i]);
  free(worker->rings);
  free(worker->released);
  free(worker);
}

int share_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  const struct pst_share_request request = {.call = PST_SHARE_WORKER_OPEN, .object = index};
  struct share_call call = {.device = device, .request = &request};
  struct pst_worker *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  made->device = device;
  made->router_event = made->client_event = made->epoll_fd = -1;
  int rc = share_call(&call);
  if (rc == 0 && call.reply_fd_count != 3)
    rc = -EPROTO;
  if (rc < 0) {
    share_close_fds(call.reply_fds, call.reply_fd_count);
    share_worker_free(made);
    return rc;
  }
  made->number = call.reply.object;
  made->router_event = call.reply_fds[1];
  made->client_event = call.reply_fds[2];
  rc = share_worker_map(made, call.reply_fds[0]);
  close(call.reply_fds[0]);
  if (rc < 0) {
    share_worker_close(made);
    return PST_REFUSE(device->host, rc, "the router's memory cannot be mapped: %s", strerror(-rc));
  }
  *worker = made;
  return 0;
}

void share_worker_close(struct pst_worker *worker)
{
  const struct pst_share_request request = {.call = PST_SHARE_WORKER_CLOSE,
                                            .worker = worker->number};

  share_ask(worker->device, &request, NULL);
  share_worker_free(worker);
}

/* ---- Sleep
 * ------------------------------------------------------------------------------------------ */

int share_event_fd(struct pst_worker *worker)
{
  return worker->epoll_fd;
}

int share_arm(struct pst_worker *worker)
{
  struct pst_share_page *page = worker->page;

  share_release_flush(worker);
  if (worker->released_count ||
      atomic_load_explicit(&worker->device->is_gone, memory_order_relaxed))
    return -EAGAIN;
  worker->is_armed = true;
  pst_share_sleep(&page->client_sleeps);
  if (pst_share_load(&page->complete_tail) != worker->complete_head ||
      (worker->wants_room && share_submit_room(worker) > PST_SHARE_PIECES))
    return -EAGAIN;
  return 0;
}

/* ---- Rings and tokens
 * ---------------------------------------------------------------------------------- */

static int share_ring_keep(struct pst_worker *worker, struct pst_ring *ring)
{
  const uint32_t place = ring->number & PST_PLACE_MASK;

  if (worker->released_room > UINT32_MAX - ring->slots)
    return -ENOMEM;
  uint64_t *released =
      realloc(worker->released, (worker->released_room + ring->slots) * sizeof(*released));
  if (!released)
    return -ENOMEM;
  worker->released = released;
  worker->released_room += ring->slots;
  if (place >= worker->ring_room) {
    struct pst_ring **rings = realloc(worker->rings, (place + 1) * sizeof(struct pst_ring *));
    if (!rings)
      return -ENOMEM;
    for (uint32_t i = worker->ring_room; i <= place; i++)
      rings[i] = NULL;
    worker->rings = rings;
    worker->ring_room = place + 1;
  }
  worker->rings[place] = ring;
  return 0;
}

static int share_ring_ask_close(struct pst_worker *worker, uint32_t number)
{
  const struct pst_share_request request = {
      .call = PST_SHARE_RING_CLOSE, .worker = worker->number, .object = number + 1};

  return share_ask(worker->device, &request, NULL);
}

int share_ring_open(struct pst_worker *worker, const struct pst_ring_params *caller,
                    struct pst_path_info *path, struct pst_ring **ring)
{
  const struct pst_host *host = worker->device->host;
  struct pst_ring_params params;
  struct pst_share_request request = {.call = PST_SHARE_RING_OPEN, .worker = worker->number};
  struct pst_share_reply reply;

  pst_struct_read(&params, sizeof(params), caller);
  int rc = pst_ring_params_check(host, &params, params.mr ? params.mr->access : 0,
                                 params.mr ? params.mr->length : 0, &worker->device->limits,
                                 params.mr ? NULL : "it has no memory");
  struct pst_ring *made = rc == 0 ? calloc(1, sizeof(*made)) : NULL;
  if (!made)
    return rc < 0 ? rc : -ENOMEM;
  made->slots = params.slots;
  made->base = params.base;
  made->length =
      params.stride * (params.slots - 1) + params.headroom + params.payload_max + params.tailroom;
  made->payload_max = params.payload_max;
  made->out = calloc(params.slots, 1);
  request.u.ring = (struct pst_share_ring){.base = params.base,
                                           .stride = params.stride,
                                           .payload_max = params.payload_max,
                                           .slots = params.slots,
                                           .mr = params.mr->number,
                                           .headroom = params.headroom,
                                           .tailroom = params.tailroom,
                                           .endpoints = params.endpoints,
                                           .endpoint_slots = params.endpoint_slots};
  rc = made->out ? share_ask(worker->device, &request, &reply) : -ENOMEM;
  if (rc == 0 || rc == -EOPNOTSUPP)
    share_path_write(path, &reply.u.path);
  if (rc == 0) {
    made->number = reply.object - 1;
    rc = share_ring_keep(worker, made);
    if (rc < 0)
      share_ring_ask_close(worker, made->number);
  }
  if (rc < 0) {
    free(made->out);
    free(made);
    return rc;
  }
  *ring = made;
  return 0;
}

void share_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  uint32_t kept = 0;

  if (!ring)
    return;
  for (uint32_t i = 0; i < worker->released_count; i++)
    if (pst_token_number(worker->released[i]) != ring->number)
      worker->released[kept++] = worker->released[i];
  worker->released_count = kept;
  worker->released_room -= ring->slots;
  worker->rings[ring->number & PST_PLACE_MASK] = NULL;
  share_ring_ask_close(worker, ring->number);
  free(ring->out);
  free(ring);
}

int share_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t number = pst_token_number(tokens[i]), slot = pst_token_slot(tokens[i]);
    const uint32_t place = number & PST_PLACE_MASK;
    struct pst_ring *ring = place < worker->ring_room ? worker->rings[place] : NULL;
    if (!ring || ring->number != number || slot >= ring->slots || !ring->out[slot])
      return PST_REFUSE(worker->device->host, -EINVAL, "release of a token that is not out");
    ring->out[slot] = 0;
    worker->released[worker->released_count++] = tokens[i];
  }
  return 0;
}

void share_release_flush(struct pst_worker *worker)
{
  uint32_t room = worker->released_count ? share_submit_room(worker) : 0, sent = 0;

  for (; room > 0 && sent < worker->released_count; room--) {
    struct pst_share_entry *entry = &worker->submit[worker->submit_tail % PST_SHARE_ENTRIES];
    const uint32_t left = worker->released_count - sent, n = left < 7 ? left : 7;
    entry->kind = PST_SHARE_RELEASE;
    entry->tokens = (uint8_t)n;
    memcpy(entry->u.tokens, worker->released + sent, n * sizeof(uint64_t));
    worker->submit_tail++;
    sent += n;
  }
  if (sent == 0)
    return;
  worker->released_count -= sent;
  memmove(worker->released, worker->released + sent,
          worker->released_count * sizeof(*worker->released));
  share_submit_publish(worker);
}
