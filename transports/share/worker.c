/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: the memory that it shares with the router, its sleep, its rings and their tokens. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker.h"

#define SHARE_NAP_NS 20000000 /* between two looks for a router */

/* Unmaps the worker's memory, and closes its descriptors but for that of its sleep. */
static void share_worker_unmap(struct pst_worker *worker)
{
  if (worker->page)
    munmap(worker->page, PST_SHARE_MEMORY);
  worker->page = NULL;
  if (worker->router_event >= 0)
    close(worker->router_event);
  if (worker->client_event >= 0) {
    epoll_ctl(worker->epoll_fd, EPOLL_CTL_DEL, worker->client_event, NULL);
    close(worker->client_event);
  }
  worker->router_event = worker->client_event = -1;
}

static int share_worker_watch(struct pst_worker *worker)
{
  struct epoll_event event = {.events = EPOLLIN}, hang_up = {.events = EPOLLRDHUP};

  if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->client_event, &event) != 0 ||
      epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->device->fd, &hang_up) != 0)
    return -errno;
  return 0;
}

/* Maps this memory of the router in the place of that of the router before. */
static int share_worker_map(struct pst_worker *worker, const struct share_memory *memory)
{
  const int seals = fcntl(memory->fds[0], F_GET_SEALS);
  struct stat file;

  if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(memory->fds[0], &file) != 0 ||
      file.st_size < PST_SHARE_MEMORY)
    return -EPROTO; /* it could be taken away */
  void *map = mmap(NULL, PST_SHARE_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fds[0], 0);
  if (map == MAP_FAILED)
    return -errno;
  share_worker_unmap(worker);
  worker->page = map;
  worker->submit = (struct pst_share_entry *)((char *)map + PST_SHARE_SUBMIT_AT);
  worker->complete = (const struct pst_completion *)((char *)map + PST_SHARE_COMPLETE_AT);
  worker->submit_tail = worker->submit_head = worker->complete_head = 0;
  worker->router_event = memory->fds[1];
  worker->client_event = memory->fds[2];
  return share_worker_watch(worker);
}

/* Opens the worker at the router. */
static int share_worker_ask_open(struct pst_worker *worker, bool restores,
                                 struct share_memory *memory)
{
  const struct pst_share_request request = {.call = PST_SHARE_WORKER_OPEN, .object = worker->index};
  struct share_call call = {.device = worker->device, .request = &request, .restores = restores};

  int rc = share_call(&call);
  if (rc == 0 && (call.reply_fd_count != 3 || !call.reply.object))
    rc = -EPROTO;
  if (rc < 0) {
    share_close_fds(call.reply_fds, call.reply_fd_count);
    return rc;
  }
  memory->number = call.reply.object;
  memcpy(memory->fds, call.reply_fds, sizeof(memory->fds));
  return 0;
}

/* Takes the memory; its descriptors are the worker's, or closed. */
static int share_worker_take(struct pst_worker *worker, const struct share_memory *memory,
                             uint32_t link)
{
  const struct pst_host *host = worker->device->host;

  worker->link = link;
  worker->number = memory->number;
  const int rc = share_worker_map(worker, memory);
  close(memory->fds[0]);
  if (worker->router_event != memory->fds[1])
    share_close_fds(memory->fds + 1, 2);
  return rc == 0 ? 0
                 : PST_REFUSE(host, rc, "the router's memory cannot be mapped: %s", strerror(-rc));
}

/* Takes the memory that is coming; its number is 0 if there is none. */
static struct share_memory share_worker_coming(struct pst_worker *worker)
{
  struct share_memory memory;

  pthread_mutex_lock(&worker->device->lock);
  memory = worker->coming;
  worker->coming.number = 0;
  pthread_mutex_unlock(&worker->device->lock);
  return memory;
}

int share_worker_reopen(struct pst_worker *worker)
{
  struct share_memory memory = share_worker_coming(worker);

  if (memory.number) /* of a router that has ended again */
    share_close_fds(memory.fds, 3);
  const int rc = share_worker_ask_open(worker, true, &memory);
  if (rc < 0)
    return rc;
  pthread_mutex_lock(&worker->device->lock);
  worker->coming = memory;
  pthread_mutex_unlock(&worker->device->lock);
  return 0;
}

static void share_worker_free(struct pst_worker *worker)
{
  share_worker_unmap(worker);
  if (worker->coming.number)
    share_close_fds(worker->coming.fds, 3);
  if (worker->epoll_fd >= 0)
    close(worker->epoll_fd);
  while (worker->all)
    share_endpoint_free(worker->all);
  share_kept_free(&worker->kept);
  free(worker->rings);
  free(worker->released);
  free(worker);
}

int share_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));
  struct share_memory memory;

  if (!made)
    return -ENOMEM;
  made->device = device;
  made->index = index;
  made->router_event = made->client_event = -1;
  made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  pthread_mutex_lock(&device->objects_lock);
  made->next = device->workers;
  device->workers = made;
  int rc = made->epoll_fd < 0 ? -errno : share_worker_ask_open(made, false, &memory);
  if (rc == 0)
    rc = share_worker_take(made, &memory, atomic_load(&device->last_link));
  pthread_mutex_unlock(&device->objects_lock);
  if (rc < 0) {
    share_worker_close(made);
    return rc;
  }
  *worker = made;
  return 0;
}

void share_worker_close(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;
  struct pst_worker **at = &device->workers;
  const struct pst_share_request request = {.call = PST_SHARE_WORKER_CLOSE,
                                            .worker = worker->number};

  pthread_mutex_lock(&device->objects_lock);
  while (*at != worker)
    at = &(*at)->next;
  *at = worker->next;
  pthread_mutex_unlock(&device->objects_lock);
  if (worker->number)
    share_ask(&(struct share_call){.device = device, .link = worker->link, .request = &request});
  share_worker_free(worker);
}

uint32_t share_submit_room(struct pst_worker *worker)
{
  if (worker->submit_tail - worker->submit_head > PST_SHARE_ENTRIES / 2)
    worker->submit_head = pst_share_load(&worker->page->submit_head);
  return PST_SHARE_ENTRIES - (worker->submit_tail - worker->submit_head);
}

void share_submit_publish(struct pst_worker *worker)
{
  pst_share_store(&worker->page->submit_tail, worker->submit_tail);
  if (pst_share_must_wake(&worker->page->router_sleeps))
    pst_share_wake(worker->router_event);
}

/* ---- Sleep
 * ------------------------------------------------------------------------------------------ */

int share_event_fd(struct pst_worker *worker)
{
  return worker->epoll_fd;
}

/* Without a router, and while an endpoint waits for its peer, time alone wakes. */
static int share_arm_timer(struct pst_worker *worker)
{
  const struct itimerspec soon = {.it_value.tv_nsec = SHARE_NAP_NS};

  worker->is_armed = true;
  return timerfd_settime(worker->client_event, 0, &soon, NULL) == 0 ? 0 : -EAGAIN;
}

int share_arm(struct pst_worker *worker)
{
  struct pst_share_page *page = worker->page;

  share_release_flush(worker);
  if (atomic_load(&worker->device->state) == SHARE_ENDED)
    return -EAGAIN;
  if (!share_is_up(worker))
    return share_arm_timer(worker);
  if (worker->released_count)
    return -EAGAIN;
  worker->is_armed = true;
  pst_share_sleep(&page->client_sleeps);
  if (pst_share_load(&page->complete_tail) != worker->complete_head ||
      (worker->wants_room && share_submit_room(worker) > PST_SHARE_PIECES))
    return -EAGAIN;
  return worker->is_unsettled ? share_arm_timer(worker) : 0;
}

/* ---- Rings and tokens
 * ---------------------------------------------------------------------------------- */

/* Makes room for the tokens of the ring, and for its number. */
static int share_ring_place(struct pst_worker *worker, struct pst_ring *ring)
{
  const uint32_t place = ring->number & PST_PLACE_MASK;

  if (place >= worker->ring_room) {
    struct pst_ring **rings = realloc(worker->rings, (place + 1) * sizeof(struct pst_ring *));
    if (!rings)
      return -ENOMEM;
    for (uint32_t i = worker->ring_room; i <= place; i++)
      rings[i] = NULL;
    worker->rings = rings;
    worker->ring_room = place + 1;
  }
  if (worker->rings[place])
    return -EPROTO;
  worker->rings[place] = ring;
  return 0;
}

static int share_ring_ask_close(struct pst_worker *worker, uint32_t number)
{
  const struct pst_share_request request = {
      .call = PST_SHARE_RING_CLOSE, .worker = worker->number, .object = number + 1};

  return share_ask(
      &(struct share_call){.device = worker->device, .link = worker->link, .request = &request});
}

/* Opens the ring at the router. The path may be NULL. */
static int share_ring_ask_open(struct pst_worker *worker, struct pst_ring *ring,
                               struct pst_path_info *path)
{
  struct pst_share_request request = {
      .call = PST_SHARE_RING_OPEN, .worker = worker->number, .u.ring = ring->asked};
  struct share_call call = {.device = worker->device, .link = worker->link, .request = &request};

  request.u.ring.mr = ring->mr->number;
  int rc = share_ask(&call);
  if (rc == 0 || rc == -EOPNOTSUPP)
    share_path_write(path, &call.reply.u.path);
  if (rc < 0)
    return rc;
  ring->number = call.reply.object - 1;
  rc = share_ring_place(worker, ring);
  if (rc < 0) {
    share_ring_ask_close(worker, ring->number);
    ring->number = SHARE_NO_RING;
  }
  return rc;
}

/* The tokens of all rings together fit into `released`. */
static int share_ring_make_room(struct pst_worker *worker, uint32_t slots)
{
  if (worker->released_room > UINT32_MAX - slots)
    return -ENOMEM;
  uint64_t *released =
      realloc(worker->released, (worker->released_room + slots) * sizeof(*released));
  if (!released)
    return -ENOMEM;
  worker->released = released;
  worker->released_room += slots;
  return 0;
}

/* Opens a ring here and at the router. */
int share_ring_open(struct pst_worker *worker, const struct pst_ring_params *caller,
                    struct pst_path_info *path, struct pst_ring **ring)
{
  const struct pst_host *host = worker->device->host;
  struct pst_ring_params params;

  pst_struct_read(&params, sizeof(params), caller);
  int rc = pst_ring_params_check(host, &params, params.mr ? params.mr->access : 0,
                                 params.mr ? params.mr->length : 0, &worker->device->limits,
                                 params.mr ? NULL : "it has no memory");
  struct pst_ring *made = rc == 0 ? calloc(1, sizeof(*made)) : NULL;
  if (!made)
    return rc < 0 ? rc : -ENOMEM;
  made->mr = params.mr;
  made->slots = params.slots;
  made->base = params.base;
  made->length =
      params.stride * (params.slots - 1) + params.headroom + params.payload_max + params.tailroom;
  made->payload_max = params.payload_max;
  made->out = calloc(params.slots, 1);
  made->asked = (struct pst_share_ring){.base = params.base,
                                        .stride = params.stride,
                                        .payload_max = params.payload_max,
                                        .slots = params.slots,
                                        .headroom = params.headroom,
                                        .tailroom = params.tailroom,
                                        .endpoints = params.endpoints,
                                        .endpoint_slots = params.endpoint_slots};
  rc = made->out ? share_ring_make_room(worker, made->slots) : -ENOMEM;
  if (rc == 0) {
    rc = share_ring_ask_open(worker, made, path);
    if (rc < 0)
      worker->released_room -= made->slots;
  }
  if (rc < 0) {
    free(made->out);
    free(made);
    return rc;
  }
  made->next = worker->all_rings;
  worker->all_rings = made;
  *ring = made;
  return 0;
}

void share_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  struct pst_ring **at = &worker->all_rings;
  uint32_t kept = 0;

  if (!ring)
    return;
  for (uint32_t i = 0; i < worker->released_count; i++)
    if (pst_token_number(worker->released[i]) != ring->number)
      worker->released[kept++] = worker->released[i];
  worker->released_count = kept;
  worker->released_room -= ring->slots;
  if (ring->number != SHARE_NO_RING) {
    worker->rings[ring->number & PST_PLACE_MASK] = NULL;
    share_ring_ask_close(worker, ring->number);
  }
  while (*at != ring)
    at = &(*at)->next;
  *at = ring->next;
  free(ring->out);
  free(ring);
}

bool share_worker_has_messages(const struct pst_worker *worker)
{
  for (const struct pst_ring *ring = worker->all_rings; ring; ring = ring->next)
    if (memchr(ring->out, 1, ring->slots))
      return true;
  return false;
}

int share_worker_restore(struct pst_worker *worker)
{
  const uint32_t link = atomic_load(&worker->device->link);
  const struct share_memory memory = share_worker_coming(worker);

  int rc = memory.number ? share_worker_take(worker, &memory, link) : -ENOTCONN;
  if (worker->rings)
    memset(worker->rings, 0, worker->ring_room * sizeof(struct pst_ring *));
  worker->released_count = 0;
  for (struct pst_ring *ring = worker->all_rings; ring; ring = ring->next) {
    ring->number = SHARE_NO_RING;
    if (rc == 0)
      rc = share_ring_ask_open(worker, ring, NULL);
  }
  return rc;
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
  if (worker->released_count && !share_is_up(worker))
    worker->released_count = 0; /* a new router has all slots */
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
