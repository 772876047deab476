/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: opened, put to sleep, woken; and what only time tells. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "domain.h"
#include "endpoint.h"
#include "ops.h"
#include "srq.h"

/* While polled, a worker reads the device's events a millisecond after any worker did. It walks
 * over its endpoints where something is due, at most once a millisecond, and otherwise each 10 ms.
 * Each 256th look does both, whatever the clock says. */
#define EVENTS_NS UINT64_C(1000000)
#define DUE_NS UINT64_C(1000000)
#define WALK_NS UINT64_C(10000000)
#define LOOKS_BETWEEN_ALL 256u
#define NOTICES_AT_A_TIME 256u

/* `pins`: the call has memory pinned. */
static int vb_worker_refuse(const struct pst_device *device, const char *call, bool pins)
{
  int code = errno;
  char memlock[160] = "";

  VB_LOG(device, PST_LOG_ERROR,
         "a worker cannot be opened: %s: %s; see the kernel's log (`dmesg`)%s%s", call,
         strerror(code), code == EMFILE ? ", or raise `ulimit -n`" : "",
         pins ? vb_memlock_hint(code, memlock) : "");
  return code ? -code : -EIO;
}

static int vb_worker_set_nonblocking(int fd)
{
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int vb_worker_watch(struct pst_worker *worker, int fd)
{
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  return epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int vb_worker_open_descriptors(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;

  worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  worker->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (worker->epoll_fd < 0 || worker->timer_fd < 0 || worker->wake_fd < 0)
    return vb_worker_refuse(device, "descriptors", false);
  worker->channel = ibv_create_comp_channel(device->open.context);
  if (!worker->channel)
    return vb_worker_refuse(device, "ibv_create_comp_channel", false);
  if (vb_worker_set_nonblocking(worker->channel->fd) < 0 ||
      vb_worker_set_nonblocking(device->open.context->async_fd) < 0 ||
      vb_worker_watch(worker, worker->channel->fd) < 0 ||
      vb_worker_watch(worker, worker->timer_fd) < 0 ||
      vb_worker_watch(worker, worker->wake_fd) < 0 ||
      vb_worker_watch(worker, device->open.context->async_fd) < 0)
    return vb_worker_refuse(device, "epoll_ctl", false);
  return 0;
}

static void vb_worker_join(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;

  pthread_mutex_lock(&device->events);
  worker->next = device->workers;
  device->workers = worker;
  pthread_mutex_unlock(&device->events);
}

static void vb_worker_leave(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;

  pthread_mutex_lock(&device->events);
  struct pst_worker **at = &device->workers;
  while (*at && *at != worker)
    at = &(*at)->next;
  if (*at)
    *at = worker->next;
  pthread_mutex_unlock(&device->events);
}

static int vb_worker_create_cq(struct pst_worker *worker, uint32_t room)
{
  worker->cq = vb_cq_create(worker, room);
  return worker->cq ? 0 : vb_worker_refuse(worker->device, "ibv_create_cq", true);
}

/* Where it cannot grow, it has room for all that is planned. */
static int vb_worker_open_cq(struct pst_worker *worker)
{
  const struct vb_planned planned = worker->device->transport->plan_completions(worker->device);

  int rc = vb_worker_create_cq(worker, planned.first);
  if (rc < 0)
    return rc;
  if (planned.all <= (uint32_t)worker->cq->cqe)
    return 0;
  rc = ibv_resize_cq(worker->cq, worker->cq->cqe);
  if (rc != EOPNOTSUPP && rc != ENOSYS)
    return 0;
  ibv_destroy_cq(worker->cq);
  return vb_worker_create_cq(worker, planned.all);
}

int vb_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  made->device = device;
  made->index = index;
  made->numa_node = VB_NUMA_UNKNOWN;
  made->epoll_fd = made->timer_fd = made->wake_fd = -1;
  made->soonest_ns = made->timer_ns = VB_NEVER;
  struct vb_numa_policy policy;
  vb_numa_prefer(device->numa_node, &policy);
  made->td = ibv_alloc_td(device->open.context, &(struct ibv_td_init_attr){0}); /* if it has any */
  int rc = vb_worker_open_descriptors(made);
  if (rc == 0)
    rc = vb_worker_open_cq(made);
  vb_numa_restore(&policy);
  if (rc == 0)
    rc = device->transport->worker_open(made);
  if (rc < 0) {
    vb_worker_close(made);
    return rc;
  }
  vb_worker_join(made);
  *worker = made;
  return 0;
}

static void vb_worker_close_fd(int fd)
{
  if (fd >= 0)
    close(fd);
}

/* Closes the worker with all endpoints and rings that are left in it. */
void vb_worker_close(struct pst_worker *worker)
{
  if (!worker)
    return;
  vb_worker_leave(worker);
  for (uint32_t i = 0; i < worker->endpoints.room; i++)
    if (worker->endpoints.all[i].at)
      worker->device->transport->free(worker->endpoints.all[i].at);
  for (uint32_t i = 0; i < worker->rings.room; i++)
    vb_ring_close(worker, worker->rings.all[i].at);
  vb_srq_close_all(worker);
  if (worker->scratch_mr)
    vb_unpin(&worker->device->own.mrs, worker->scratch_mr);
  free(worker->scratch);
  if (worker->own)
    worker->device->transport->worker_close(worker);
  vb_thread_domains_close(worker);
  if (worker->cq) {
    ibv_ack_cq_events(worker->cq, worker->events_unacked);
    ibv_destroy_cq(worker->cq);
  }
  vb_worker_close_fd(worker->epoll_fd);
  if (worker->channel)
    ibv_destroy_comp_channel(worker->channel);
  vb_worker_close_fd(worker->timer_fd);
  vb_worker_close_fd(worker->wake_fd);
  free(worker->endpoints.all);
  free(worker->rings.all);
  free(worker);
}

static void vb_worker_drain(int fd)
{
  uint64_t count;

  while (read(fd, &count, sizeof(count)) > 0)
    ;
}

static void vb_worker_look_at_device(struct pst_worker *worker)
{
  if (atomic_load_explicit(&worker->device->is_lost, memory_order_relaxed))
    worker->tells_lost = !worker->has_told_lost;
}

/* A notice does not say whose it is. Each poll looks at some endpoints, until all have been looked
 * at since the last notice. */
static void vb_worker_walk_notices(struct pst_worker *worker)
{
  const uint32_t room = worker->endpoints.room;

  if (worker->notice_room != room)
    worker->notice_left = worker->notice_room = room;
  for (uint32_t i = 0; worker->notice_left && i < NOTICES_AT_A_TIME; i++, worker->notice_left--) {
    worker->notice_at = worker->notice_at + 1 < room ? worker->notice_at + 1 : 0;
    struct pst_endpoint *endpoint = worker->endpoints.all[worker->notice_at].at;
    if (endpoint)
      worker->device->transport->notice(endpoint);
  }
}

void vb_take_notices(struct pst_worker *worker)
{
  uint32_t notices = atomic_load_explicit(&worker->notices, memory_order_acquire);

  if (notices != worker->notices_seen) {
    worker->notices_seen = notices;
    worker->notice_left = worker->notice_room = worker->endpoints.room;
    vb_worker_drain(worker->wake_fd);
    vb_worker_look_at_device(worker);
    vb_srq_notices(worker);
  }
  if (worker->notice_left)
    vb_worker_walk_notices(worker);
}

/* ---- Sleep ------------------------------------------------------------------------------- */

int vb_event_fd(struct pst_worker *worker)
{
  return worker->epoll_fd;
}

void vb_disarm(struct pst_worker *worker)
{
  struct ibv_cq *cq;
  void *context;

  worker->armed = false;
  while (ibv_get_cq_event(worker->channel, &cq, &context) == 0)
    if (++worker->events_unacked == 1024) { /* each acknowledgement takes a lock */
      ibv_ack_cq_events(worker->cq, worker->events_unacked);
      worker->events_unacked = 0;
    }
  vb_worker_drain(worker->wake_fd);
  vb_worker_drain(worker->timer_fd);
}

static void vb_worker_set_timer(struct pst_worker *worker)
{
  uint64_t at = worker->soonest_ns;
  struct itimerspec when = {0};

  if (at == worker->timer_ns)
    return;
  worker->timer_ns = at;
  if (at != VB_NEVER) {
    at = at ? at : 1;
    when.it_value = (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
  }
  timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool vb_worker_has_work(const struct pst_worker *worker)
{
  return worker->pending || worker->told || worker->tells_lost || worker->notice_left ||
         worker->wc_at != worker->wc_count ||
         atomic_load_explicit(&worker->notices, memory_order_acquire) != worker->notices_seen;
}

int vb_arm(struct pst_worker *worker)
{
  worker->armed = true;
  if (vb_worker_has_work(worker) || ibv_req_notify_cq(worker->cq, 0) != 0)
    return -EAGAIN;
  /* Completions between the last poll and the request for an event cause no event: poll again. */
  int n = ibv_poll_cq(worker->cq, VB_POLL_BATCH, worker->wc);
  worker->wc_at = 0;
  worker->wc_count = n > 0 ? (uint32_t)n : 0;
  worker->empties += n == 0;
  vb_look(worker, true);
  if (vb_worker_has_work(worker))
    return -EAGAIN;
  vb_worker_set_timer(worker);
  return 0;
}

/* A system call, and a lock that all workers share: a worker that finds the lock taken leaves the
 * events to its holder. */
static void vb_worker_look_at_events(struct pst_device *device, uint64_t now_ns, bool is_turn)
{
  const uint64_t last_ns = atomic_load_explicit(&device->events_ns, memory_order_relaxed);

  if ((!is_turn && now_ns - last_ns < EVENTS_NS) || pthread_mutex_trylock(&device->events) != 0)
    return;
  atomic_store_explicit(&device->events_ns, now_ns, memory_order_relaxed);
  vb_take_events(device);
  pthread_mutex_unlock(&device->events);
}

/* A thread that nothing pins may be elsewhere by the next look. Nodes that are nearer than 20 are
 * parts of one socket. */
#define NUMA_FAR 20u

static void vb_worker_look_at_numa(struct pst_worker *worker)
{
  const struct pst_device *device = worker->device;
  const int before = worker->numa_node;
  char where[96];

  if (device->numa_node < 0)
    return;
  worker->numa_node = vb_numa_of_thread();
  if (worker->has_told_numa || worker->numa_node != before ||
      !vb_numa_cross(worker->numa_node, device->numa_node))
    return;
  worker->has_told_numa = true;
  const uint32_t distance = vb_numa_distance(VB_NUMA_NODES, worker->numa_node, device->numa_node);
  vb_numa_text(device->numa_node, worker->numa_node, where, sizeof(where));
  VB_LOG(
      device, distance >= NUMA_FAR ? PST_LOG_WARN : PST_LOG_DEBUG,
      "worker %u runs on NUMA node %d, and %s is on %s: each completion comes by the link "
      "between them. Pin it to CPUs of the adapter's node: `cpus`, or `numactl --cpunodebind=%d`",
      worker->index, worker->numa_node, device->open.info->name, where, device->numa_node);
}

static bool vb_worker_is_walk_due(const struct pst_worker *worker, uint64_t now_ns)
{
  return now_ns - worker->walked_ns >= (now_ns < worker->soonest_ns ? WALK_NS : DUE_NS);
}

void vb_look(struct pst_worker *worker, bool at_all)
{
  const uint64_t now = vb_now_ns(worker->device);
  const bool is_turn = ++worker->looks % LOOKS_BETWEEN_ALL == 0;

  worker->has_all = worker->empties != worker->empties_seen;
  worker->empties_seen = worker->empties;
  if (at_all)
    vb_events(worker->device);
  else
    vb_worker_look_at_events(worker->device, now, is_turn);
  if (worker->own)
    worker->device->transport->worker_look(worker);
  vb_worker_look_at_device(worker);
  if (is_turn)
    vb_worker_look_at_numa(worker);
  if (!at_all && !is_turn && !vb_worker_is_walk_due(worker, now))
    return;
  worker->walked_ns = now;
  worker->soonest_ns = VB_NEVER;
  for (uint32_t i = 0; i < worker->endpoints.room; i++)
    if (worker->endpoints.all[i].at)
      worker->device->transport->look(worker->endpoints.all[i].at, now);
}
