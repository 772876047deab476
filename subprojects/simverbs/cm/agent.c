/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: CM messages between processes, and what time does. */
#include "cm.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The kernel's CMA_CM_RESPONSE_TIMEOUT (20, of 4.096 us) and CMA_MAX_CM_RETRIES; between tries to
 * find a neighbour; an ended connection's number is held as long as its packets may live. */
#define REPEAT_NS UINT64_C(4294967296)
#define TRIES 15
#define NEIGHBOUR_NS UINT64_C(100000000)
#define TIME_WAIT_NS UINT64_C(2147483648)

enum { WAKE = 0, MANUAL_MS = 10, EVENTS = 64 };

struct cm_agent cm = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .ids = {&cm.ids, &cm.ids}, .epoll = -1, .wake = -1};

void cm_wake(void)
{
  eventfd_write(cm.wake, 1);
}

void cm_watch(int fd, const struct cm_id *id)
{
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = id->serial};
  epoll_ctl(cm.epoll, EPOLL_CTL_ADD, fd, &event);
}

void cm_due(struct cm_id *id, enum cm_timer timer, uint64_t in_ns)
{
  id->timer = timer;
  id->due_ns = sim_cm_clock_ns() + in_ns;
  cm_wake();
}

/* ---- out ---- */

struct cm_message *cm_out(struct cm_id *id, enum cm_kind kind)
{
  id->out = (struct cm_message){
      .kind = kind,
      .psn = id->psn,
      .from = id->path.own,
      .to = id->path.peer,
      .from_port = id->own.port,
      .to_port = id->peer_address.port,
      .mtu = id->path.mtu,
      .ack_timeout = id->ack_timeout,
  };
  id->tries = 0;
  return &id->out;
}

static bool cm_agent_is_repeated(enum cm_kind kind)
{
  return kind == CM_REQ || kind == CM_REP || kind == CM_DREQ;
}

/* Nobody will ever answer. */
static void cm_agent_give_up(struct cm_id *id)
{
  id->timer = CM_NO_TIMER;
  if (!cm_agent_is_repeated(id->out.kind))
    return;
  id->state = CM_OVER;
  cm_tell(id, id->out.kind == CM_DREQ ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_UNREACHABLE,
          -ETIMEDOUT, NULL);
}

static void cm_agent_refused(struct cm_id *id)
{
  struct cm_message none = {.kind = CM_REJ, .reason = CM_REJ_SERVICE};
  id->state = CM_OVER;
  cm_tell(id, RDMA_CM_EVENT_REJECTED, CM_REJ_SERVICE, &none);
}

void cm_send(struct cm_id *id)
{
  bool passes = sim_cm_passes(&id->path);
  if (passes && id->out.kind == CM_REQ && id->socket < 0) {
    int error = cm_name_call(id);
    if (error && error != EAGAIN) {
      cm_agent_refused(id);
      return;
    }
    passes = !error;
  }
  /* A peer that is gone is noticed by reading. */
  if (passes && (send(id->socket, &id->out, sizeof(id->out), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
                 errno != EAGAIN))
    return;
  if (id->tries++ < TRIES)
    cm_due(id, CM_REPEATS, REPEAT_NS);
  else
    cm_agent_give_up(id);
}

/* ---- in ---- */

/* The request of a socket that was accepted: an id of the listener's program. */
static bool cm_agent_take_request(struct cm_id *id, const struct cm_message *message)
{
  struct cm_id *listener = id->listener;
  id->path.peer = message->from;
  if (!listener || listener->waiting >= listener->backlog || sim_cm_own(&message->to, &id->path)) {
    cm_id_end(id);
    cm_id_free(id);
    return false;
  }
  id->own = (struct cm_address){.gid = message->to, .port = message->to_port};
  id->peer_address = (struct cm_address){.gid = message->from, .port = message->from_port};
  id->state = CM_REQ_RCVD;
  id->peer = *message;
  id->has_peer = true;
  id->ack_timeout = message->ack_timeout;
  id->retry_count = message->retry_count;
  id->responder_resources = message->initiator_depth;
  id->initiator_depth = message->responder_resources;
  listener->waiting++;
  cm_tell(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, message);
  return true;
}

static void cm_agent_end_connection(struct cm_id *id, enum cm_state state)
{
  id->state = state;
  cm_tell(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
  cm_due(id, CM_TIME_WAIT, TIME_WAIT_NS);
}

static bool cm_agent_take(struct cm_id *id, const struct cm_message *message)
{
  const enum cm_state state = id->state;
  switch (message->kind) {
  case CM_REQ:
    return state != CM_ACCEPTED || cm_agent_take_request(id, message);
  case CM_REP:
    if (state != CM_REQ_SENT)
      break;
    id->peer = *message;
    id->has_peer = true;
    id->responder_resources = message->initiator_depth;
    id->initiator_depth = message->responder_resources;
    id->state = CM_REP_RCVD;
    cm_tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, message);
    break;
  case CM_REJ:
    if (state != CM_REQ_SENT && state != CM_REP_RCVD && state != CM_REP_SENT)
      break;
    id->state = CM_OVER;
    cm_tell(id, RDMA_CM_EVENT_REJECTED, (int)message->reason, message);
    break;
  case CM_RTU:
    if (state != CM_REP_SENT)
      break;
    id->state = CM_ESTABLISHED;
    cm_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    break;
  case CM_DREQ:
    if (state == CM_ESTABLISHED || state == CM_REP_SENT || state == CM_REP_RCVD ||
        state == CM_DREQ_SENT)
      cm_agent_end_connection(id, state == CM_DREQ_SENT ? CM_OVER : CM_DREQ_RCVD);
    break;
  case CM_DREP:
    if (state == CM_DREQ_SENT)
      cm_agent_end_connection(id, CM_OVER);
    break;
  default:
    break;
  }
  return true;
}

/* The peer's id is gone: its program destroyed it, or ended. */
static bool cm_agent_hear_the_end(struct cm_id *id)
{
  if (id->state == CM_ACCEPTED) {
    cm_id_end(id);
    cm_id_free(id);
    return false;
  }
  if (!sim_cm_passes(&id->path) && id->tries++ < TRIES) {
    cm_due(id, CM_HEARS_THE_END, REPEAT_NS);
    return true;
  }
  struct cm_message none = {.kind = CM_REJ};
  switch (id->state) {
  case CM_REQ_SENT:
  case CM_REP_RCVD:
    none.reason = CM_REJ_CONSUMER;
    break;
  case CM_REP_SENT:
    none.reason = CM_REJ_TIMEOUT;
    break;
  case CM_ESTABLISHED:
  case CM_DREQ_SENT:
    none.kind = id->state == CM_DREQ_SENT ? CM_DREP : CM_DREQ;
    break;
  case CM_REQ_RCVD: /* a program hears nothing of a request that it has not answered */
    id->state = CM_OVER;
    return true;
  default:
    return true;
  }
  return cm_agent_take(id, &none);
}

static bool cm_agent_take_all(struct cm_id *id)
{
  struct cm_message message;
  while (id->socket >= 0) {
    ssize_t n = recv(id->socket, &message, sizeof(message), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return true;
    if (n == sizeof(message)) {
      if (!cm_agent_take(id, &message))
        return false;
      continue;
    }
    close(id->socket);
    id->socket = -1;
    id->tries = 0;
    return cm_agent_hear_the_end(id);
  }
  return true;
}

static void cm_agent_accept_all(struct cm_id *listener)
{
  for (;;) {
    int fd = accept4(listener->name, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
      return;
    struct cm_id *id = cm_is_own(fd) ? cm_id_make(listener->id.channel, listener->id.context,
                                                  listener->id.ps, listener->id.qp_type)
                                     : NULL;
    if (!id) {
      close(fd);
      continue;
    }
    id->socket = fd;
    id->listener = listener;
    id->state = CM_ACCEPTED;
    cm_watch(fd, id);
  }
}

/* ---- time ---- */

void cm_resolved(struct cm_id *id)
{
  int error = sim_cm_to(&id->peer_address.gid, &id->path);
  const bool is_over = sim_cm_clock_ns() >= id->give_up_ns;
  if (error == ETIMEDOUT && !is_over) {
    cm_due(id, CM_RESOLVES, NEIGHBOUR_NS);
    return;
  }
  id->state = error ? CM_BOUND : CM_ADDR_RESOLVED;
  id->timer = CM_NO_TIMER;
  cm_tell(id, error ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -error, NULL);
}

static void cm_agent_run_timer(struct cm_id *id)
{
  const enum cm_timer timer = id->timer;
  id->timer = CM_NO_TIMER;
  if (timer == CM_RESOLVES)
    cm_resolved(id);
  else if (timer == CM_REPEATS)
    cm_send(id);
  else if (timer == CM_HEARS_THE_END)
    cm_agent_hear_the_end(id);
  else if (timer == CM_TIME_WAIT)
    cm_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
}

/* Does what is due; milliseconds until something else is. */
static int cm_agent_run_timers(void)
{
  uint64_t next = UINT64_MAX;
  struct sim_list *at;
  sim_list_each(at, &cm.ids)
  {
    struct cm_id *id = sim_container_of(at, struct cm_id, link);
    if (id->timer && !sim_cm_real_ns(id->due_ns))
      cm_agent_run_timer(id);
    if (id->timer && id->due_ns < next)
      next = id->due_ns;
  }
  if (next == UINT64_MAX)
    return -1;
  uint64_t ns = sim_cm_real_ns(next);
  return ns == UINT64_MAX ? MANUAL_MS : ns / 1000000 < 1000 ? (int)(ns / 1000000) + 1 : 1000;
}

/* ---- the thread ---- */

static void cm_agent_serve(uint64_t serial)
{
  struct sim_list *at;
  eventfd_t count;
  if (serial == WAKE)
    eventfd_read(cm.wake, &count);
  sim_list_each(at, &cm.ids)
  {
    struct cm_id *id = sim_container_of(at, struct cm_id, link);
    if (id->serial != serial)
      continue;
    if (cm_agent_take_all(id) && id->state == CM_LISTENING)
      cm_agent_accept_all(id);
    return;
  }
}

static void *cm_agent_run(void *unused)
{
  struct epoll_event events[EVENTS];
  pthread_mutex_lock(&cm.lock);
  while (!cm.ends) {
    int wait = cm_agent_run_timers();
    pthread_mutex_unlock(&cm.lock);
    int n = epoll_wait(cm.epoll, events, EVENTS, wait);
    pthread_mutex_lock(&cm.lock);
    for (int i = 0; i < n && !cm.ends; i++)
      cm_agent_serve(events[i].data.u64);
  }
  pthread_mutex_unlock(&cm.lock);
  return unused;
}

static void cm_agent_before_fork(void)
{
  pthread_mutex_lock(&cm.lock);
}

static void cm_agent_in_parent(void)
{
  pthread_mutex_unlock(&cm.lock);
}

/* A child has no agent and must not hold its parent's sockets open. The ids are the parent's. */
static void cm_agent_in_child(void)
{
  struct sim_list *at;
  sim_list_each(at, &cm.ids)
  {
    struct cm_id *id = sim_container_of(at, struct cm_id, link);
    if (id->name >= 0)
      close(id->name);
    if (id->socket >= 0)
      close(id->socket);
  }
  if (cm.runs) {
    close(cm.epoll);
    close(cm.wake);
  }
  pthread_mutex_init(&cm.lock, NULL);
  sim_list_init(&cm.ids);
  cm.runs = false;
}

int cm_start(void)
{
  static bool forks;
  if (cm.runs)
    return 0;
  if (!forks)
    pthread_atfork(cm_agent_before_fork, cm_agent_in_parent, cm_agent_in_child);
  forks = true;
  cm.epoll = epoll_create1(EPOLL_CLOEXEC);
  cm.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE};
  int error = cm.epoll < 0 || cm.wake < 0 || epoll_ctl(cm.epoll, EPOLL_CTL_ADD, cm.wake, &event)
                  ? errno
                  : 0;
  sigset_t all, before;
  sigfillset(&all);
  if (!error) {
    /* Signals are the program's threads'. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&cm.thread, NULL, cm_agent_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  if (error) {
    close(cm.epoll);
    close(cm.wake);
    return error;
  }
  cm.runs = true;
  return 0;
}

/* Before libibverbs leaves the fabric. */
static __attribute__((destructor)) void cm_agent_leave(void)
{
  pthread_mutex_lock(&cm.lock);
  bool runs = cm.runs;
  cm.ends = true;
  if (runs)
    cm_wake();
  pthread_mutex_unlock(&cm.lock);
  if (!runs)
    return;
  pthread_join(cm.thread, NULL);
  cm_devices_close();
}
