/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: opened, put to sleep, woken; and what only time tells. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cm.h"
#include "connection.h"
#include "ops.h"
#include "qp.h"
#include "queue.h"
#include "shared.h"

/* While polled, a worker reads the device's events a millisecond after any worker did. It walks
 * over its endpoints where something is due, at most once a millisecond, and otherwise each 10 ms.
 * It does both in each 256th look, whatever the clock says. */
#define EVENTS_NS UINT64_C(1000000)
#define DUE_NS UINT64_C(1000000)
#define WALK_NS UINT64_C(10000000)
#define LOOKS_BETWEEN_ALL 256u

/* `pins`: the call has memory pinned. */
static int refuse(const struct pst_device *device, const char *call, bool pins)
{
  int code = errno;
  char memlock[160] = "";

  RC_LOG(device, PST_LOG_ERROR,
         "a worker cannot be opened: %s: %s; see the kernel's log (`dmesg`)%s%s", call,
         strerror(code), code == EMFILE ? ", or raise `ulimit -n`" : "",
         pins ? vb_memlock_hint(code, memlock) : "");
  return code ? -code : -EIO;
}

static int set_nonblocking(int fd)
{
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int watch(struct pst_worker *worker, int fd)
{
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  return epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int open_descriptors(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;

  worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  worker->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (worker->epoll_fd < 0 || worker->timer_fd < 0 || worker->wake_fd < 0)
    return refuse(device, "descriptors", false);
  worker->channel = ibv_create_comp_channel(device->open.context);
  if (!worker->channel)
    return refuse(device, "ibv_create_comp_channel", false);
  if (set_nonblocking(worker->channel->fd) < 0 ||
      set_nonblocking(device->open.context->async_fd) < 0 ||
      watch(worker, worker->channel->fd) < 0 || watch(worker, worker->timer_fd) < 0 ||
      watch(worker, worker->wake_fd) < 0 || watch(worker, device->open.context->async_fd) < 0)
    return refuse(device, "epoll_ctl", false);
  return 0;
}

static void join(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;

  pthread_mutex_lock(&device->events);
  worker->next = device->workers;
  device->workers = worker;
  pthread_mutex_unlock(&device->events);
}

static void leave(struct pst_worker *worker)
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

static int create_cq(struct pst_worker *worker, uint32_t room)
{
  struct ibv_context *context = worker->device->open.context;
  /* Interrupts of workers that sleep go to different CPUs, as the device's vectors do. */
  const int vectors = context->num_comp_vectors > 0 ? context->num_comp_vectors : 1;

  worker->cq = ibv_create_cq(context, (int)room, NULL, worker->channel,
                             (int)(worker->index % (uint32_t)vectors));
  return worker->cq ? 0 : refuse(worker->device, "ibv_create_cq", true);
}

/* Where it cannot grow, it has room for all that is planned. */
static int open_cq(struct pst_worker *worker)
{
  const struct rc_planned planned = rc_plan_completions(worker->device);

  int rc = create_cq(worker, planned.first);
  if (rc < 0)
    return rc;
  if (planned.all <= (uint32_t)worker->cq->cqe)
    return 0;
  rc = ibv_resize_cq(worker->cq, worker->cq->cqe);
  if (rc != EOPNOTSUPP && rc != ENOSYS)
    return 0;
  ibv_destroy_cq(worker->cq);
  return create_cq(worker, planned.all);
}

int rc_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  made->device = device;
  made->index = index;
  made->numa_node = VB_NUMA_UNKNOWN;
  made->epoll_fd = made->timer_fd = made->wake_fd = -1;
  made->soonest_ns = made->timer_ns = RC_NEVER;
  struct vb_numa_policy policy;
  vb_numa_prefer(device->numa_node, &policy);
  int rc = open_descriptors(made);
  if (rc == 0)
    rc = open_cq(made);
  vb_numa_restore(&policy);
  if (rc == 0 && device->cm)
    rc = device->cm->worker_open(made, index);
  if (rc < 0) {
    rc_worker_close(made);
    return rc;
  }
  join(made);
  *worker = made;
  return 0;
}

static void close_fd(int fd)
{
  if (fd >= 0)
    close(fd);
}

void rc_worker_close(struct pst_worker *worker)
{
  if (!worker)
    return;
  leave(worker);
  for (uint32_t i = 0; i < worker->endpoints.room; i++)
    if (worker->endpoints.all[i].at)
      rc_endpoint_free(worker->endpoints.all[i].at);
  for (uint32_t i = 0; i < worker->rings.room; i++)
    rc_ring_close(worker, worker->rings.all[i].at);
  rc_shared_close_all(worker);
  if (worker->scratch_mr)
    vb_unpin(&worker->device->own.mrs, worker->scratch_mr);
  free(worker->scratch);
  if (worker->cm)
    worker->device->cm->worker_close(worker);
  if (worker->cq) {
    ibv_ack_cq_events(worker->cq, worker->events_unacked);
    ibv_destroy_cq(worker->cq);
  }
  close_fd(worker->epoll_fd);
  if (worker->channel)
    ibv_destroy_comp_channel(worker->channel);
  close_fd(worker->timer_fd);
  close_fd(worker->wake_fd);
  free(worker->endpoints.all);
  free(worker->rings.all);
  free(worker);
}

static void drain(int fd)
{
  uint64_t count;

  while (read(fd, &count, sizeof(count)) > 0)
    ;
}

static void look_at_device(struct pst_worker *worker)
{
  if (atomic_load_explicit(&worker->device->is_lost, memory_order_relaxed))
    worker->tells_lost = !worker->has_told_lost;
}

static void look_at_event(struct pst_endpoint *endpoint)
{
  int event = atomic_exchange(&endpoint->event, 0);
  char why[512];

  if (event && !rc_is_reconnecting(endpoint)) {
    const struct vb_status *what = vb_event(event - 1);
    rc_event_text(event - 1, why, sizeof(why));
    rc_fail(endpoint, what->error ? what->error : -EIO, why);
  }
  if (atomic_load_explicit(&endpoint->device->is_lost, memory_order_relaxed))
    rc_fail(endpoint, -EIO, "the device is lost");
}

void rc_take_notices(struct pst_worker *worker)
{
  uint32_t notices = atomic_load_explicit(&worker->notices, memory_order_acquire);

  if (notices == worker->notices_seen)
    return;
  worker->notices_seen = notices;
  drain(worker->wake_fd);
  look_at_device(worker);
  rc_shared_notices(worker);
  for (uint32_t i = 0; i < worker->endpoints.room; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (!endpoint)
      continue;
    look_at_event(endpoint);
    rc_shared_notice(endpoint);
    if (atomic_load_explicit(&endpoint->setup, memory_order_acquire) != 2)
      continue;
    rc_greet(endpoint);
    rc_pend(endpoint);
  }
}

/* ---- Sleep ------------------------------------------------------------------------------- */

int rc_event_fd(struct pst_worker *worker)
{
  return worker->epoll_fd;
}

void rc_disarm(struct pst_worker *worker)
{
  struct ibv_cq *cq;
  void *context;

  worker->armed = false;
  while (ibv_get_cq_event(worker->channel, &cq, &context) == 0)
    if (++worker->events_unacked == 1024) { /* each acknowledgement takes a lock */
      ibv_ack_cq_events(worker->cq, worker->events_unacked);
      worker->events_unacked = 0;
    }
  drain(worker->wake_fd);
  drain(worker->timer_fd);
}

static void set_timer(struct pst_worker *worker)
{
  uint64_t at = worker->soonest_ns;
  struct itimerspec when = {0};

  if (at == worker->timer_ns)
    return;
  worker->timer_ns = at;
  if (at != RC_NEVER) {
    at = at ? at : 1;
    when.it_value = (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
  }
  timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool has_work(const struct pst_worker *worker)
{
  return worker->pending || worker->told || worker->tells_lost ||
         worker->wc_at != worker->wc_count ||
         atomic_load_explicit(&worker->notices, memory_order_acquire) != worker->notices_seen;
}

int rc_arm(struct pst_worker *worker)
{
  worker->armed = true;
  if (has_work(worker) || ibv_req_notify_cq(worker->cq, 0) != 0)
    return -EAGAIN;
  /* What came between the last poll and the request wakes nobody. */
  int n = ibv_poll_cq(worker->cq, RC_POLL_BATCH, worker->wc);
  worker->wc_at = 0;
  worker->wc_count = n > 0 ? (uint32_t)n : 0;
  worker->empties += n == 0;
  rc_look(worker, true);
  if (has_work(worker))
    return -EAGAIN;
  set_timer(worker);
  return 0;
}

/* ---- What only time tells ---------------------------------------------------------------- */

/* Is the peer there? What it owes an answer to, or else an empty WRITE, tells. */
static void look_at_life(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  const struct pst_device *device = endpoint->device;
  bool owes = endpoint->sq_head != endpoint->sq_done;

  if (endpoint->arrivals != endpoint->heard_arrivals || endpoint->sq_done != endpoint->heard_done ||
      owes != endpoint->owed) {
    endpoint->heard_arrivals = endpoint->arrivals;
    endpoint->heard_done = endpoint->sq_done;
    endpoint->heard_ns = now_ns;
    endpoint->owed = owes;
  }
  uint64_t patience = owes ? endpoint->timeout_ns : device->keepalive_ns;
  if (patience == 0)
    return;
  if (now_ns - endpoint->heard_ns < patience) {
    rc_due(endpoint->worker, endpoint->heard_ns + patience);
    return;
  }
  if (owes && !endpoint->worker->has_all) {
    rc_due(endpoint->worker, now_ns);
    return;
  }
  if (owes) {
    rc_fail(endpoint, -ETIMEDOUT,
            "the peer owes an answer, and neither it nor the device's own error came within the "
            "stream's timeout: peer or path is gone (see hop_limit, GIDs, MTU, routes), and "
            "retry_cnt or timeout make the device try for longer");
    return;
  }
  int rc = rc_queue_own(endpoint, 0, NULL);
  if (rc < 0 && rc != -EAGAIN)
    rc_fail(endpoint, rc, "ibv_post_send of a keepalive");
  endpoint->heard_ns = now_ns;
  endpoint->owed = true;
  rc_due(endpoint->worker, now_ns + (endpoint->timeout_ns ? endpoint->timeout_ns : patience));
}

static void not_connected(struct pst_endpoint *endpoint)
{
  const uint32_t timeout = endpoint->device->path.timeout;
  const uint64_t again_ns = vb_ack_timeout_ns(timeout);
  char why[1280], status[1024] = "";

  if (endpoint->cm && endpoint->device->cm->waits(endpoint, status, sizeof(status)))
    snprintf(why, sizeof(why), "the peer did not connect in time; by then: %s", status);
  else if (endpoint->stage.connecting.hellos_lost) {
    vb_wc_text(IBV_WC_RETRY_EXC_ERR, endpoint->stage.connecting.vendor, endpoint->own.is_ethernet,
               status, sizeof(status));
    snprintf(why, sizeof(why), "the peer did not connect in time; %u hellos ended with %s",
             endpoint->stage.connecting.hellos_lost, status);
  } else {
    if (!endpoint->cm && again_ns >= endpoint->timeout_ns)
      snprintf(status, sizeof(status),
               "`timeout: %u`, with which a hello that came too early is said again after %.1f s, "
               "and this end waits for %.1f s; ",
               timeout, (double)again_ns / 1e9, (double)endpoint->timeout_ns / 1e9);
    snprintf(why, sizeof(why),
             "the peer was not heard in time: it never connected, or its packets do not reach this "
             "end. Check: %s%s; the peer's log",
             status,
             endpoint->own.is_ethernet
                 ? "`hop_limit` and the hop limit of the routes (`ip route get`, both ends); the "
                   "GIDs; MTU; firewall (UDP port 4791)"
                 : "both ports' P_Keys (`pkey_index`); `service_level`; `sminfo`, and `ibtracert` "
                   "between both LIDs; MTU");
  }
  rc_fail(endpoint, -ETIMEDOUT, why);
}

/* Its time for an event that says why is over: one that is there, and was not read yet, is. */
static void no_event_came(struct pst_endpoint *endpoint)
{
  rc_events(endpoint->device);
  look_at_event(endpoint);
  if (endpoint->stage.name != RC_FAILED && !rc_is_reconnecting(endpoint))
    rc_fail(endpoint, -EIO, "the device failed the queue pair, and gave back what was posted");
}

static void look_at(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct pst_worker *worker = endpoint->worker;

  if (!endpoint->closing.mode && !rc_is_over(endpoint) &&
      atomic_load_explicit(&endpoint->device->is_lost, memory_order_relaxed))
    rc_fail(endpoint, -EIO, "the device is lost");

  rc_shared_look(endpoint, now_ns);
  if (endpoint->closing.mode) {
    if (now_ns >= rc_close_due(endpoint))
      rc_pend(endpoint);
    if (now_ns < endpoint->closing.deadline_ns)
      rc_due(worker, now_ns < rc_close_due(endpoint) ? rc_close_due(endpoint)
                                                     : endpoint->closing.deadline_ns);
    return;
  }
  if (rc_is_reconnecting(endpoint)) {
    rc_reconnect_look(endpoint, now_ns);
    return;
  }
  switch (endpoint->stage.name) {
  case RC_SETTING_UP:
  case RC_GREETING:
    if (endpoint->cm)
      endpoint->device->cm->look(endpoint, now_ns);
    if (now_ns >= endpoint->stage.connecting.by_ns && worker->has_all)
      not_connected(endpoint);
    else
      rc_due(worker, endpoint->stage.connecting.by_ns);
    break;
  case RC_CONNECTED:
    if (endpoint->stage.connected.flushed_ns &&
        now_ns >= endpoint->stage.connected.flushed_ns + RC_EVENT_NS)
      no_event_came(endpoint);
    else if (endpoint->stage.connected.flushed_ns)
      rc_due(worker, endpoint->stage.connected.flushed_ns + RC_EVENT_NS);
    else
      look_at_life(endpoint, now_ns);
    break;
  case RC_LEFT:
  case RC_FAILED:
    if (rc_tells_gone(endpoint) && now_ns >= endpoint->over_ns + RC_FLUSH_NS)
      rc_pend(endpoint);
    else if (rc_tells_gone(endpoint))
      rc_due(worker, endpoint->over_ns + RC_FLUSH_NS);
    rc_left_look(endpoint, now_ns);
    break;
  default:
    break;
  }
}

/* A system call, and a lock that all workers share: a worker that finds the lock taken leaves the
 * events to its holder. */
static void look_at_events(struct pst_device *device, uint64_t now_ns, bool is_turn)
{
  const uint64_t last_ns = atomic_load_explicit(&device->events_ns, memory_order_relaxed);

  if ((!is_turn && now_ns - last_ns < EVENTS_NS) || pthread_mutex_trylock(&device->events) != 0)
    return;
  atomic_store_explicit(&device->events_ns, now_ns, memory_order_relaxed);
  rc_take_events(device);
  pthread_mutex_unlock(&device->events);
}

/* A thread that nothing pins may be elsewhere by the next look. Nodes that are nearer than 20 are
 * parts of one socket. */
#define NUMA_FAR 20u

static void look_at_numa(struct pst_worker *worker)
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
  RC_LOG(
      device, distance >= NUMA_FAR ? PST_LOG_WARN : PST_LOG_DEBUG,
      "worker %u runs on NUMA node %d, and %s is on %s: each completion comes by the link "
      "between them. Pin it to CPUs of the adapter's node: `cpus`, or `numactl --cpunodebind=%d`",
      worker->index, worker->numa_node, device->open.info->name, where, device->numa_node);
}

static bool is_walk_due(const struct pst_worker *worker, uint64_t now_ns)
{
  return now_ns - worker->walked_ns >= (now_ns < worker->soonest_ns ? WALK_NS : DUE_NS);
}

void rc_look(struct pst_worker *worker, bool at_all)
{
  const uint64_t now = rc_now_ns(worker->device);
  const bool is_turn = ++worker->looks % LOOKS_BETWEEN_ALL == 0;

  worker->has_all = worker->empties != worker->empties_seen;
  worker->empties_seen = worker->empties;
  if (at_all)
    rc_events(worker->device);
  else
    look_at_events(worker->device, now, is_turn);
  if (worker->cm)
    worker->device->cm->events(worker);
  look_at_device(worker);
  if (is_turn)
    look_at_numa(worker);
  if (!at_all && !is_turn && !is_walk_due(worker, now))
    return;
  worker->walked_ns = now;
  worker->soonest_ns = RC_NEVER;
  for (uint32_t i = 0; i < worker->endpoints.room; i++)
    if (worker->endpoints.all[i].at)
      look_at(worker->endpoints.all[i].at, now);
}
