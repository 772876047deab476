/* SPDX-License-Identifier: Apache-2.0 */
/* Completion and asynchronous events on their way to the program. */
#include "objects.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

struct node {
  struct sim_list link;
  struct ibv_async_event event;
};

int sim_events_open(struct sim_events *events)
{
  events->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (events->fd < 0)
    return errno;
  pthread_mutex_init(&events->lock, NULL);
  sim_list_init(&events->list);
  return 0;
}

void sim_events_close(struct sim_events *events)
{
  while (events->list.next != &events->list) {
    struct node *node = sim_container_of(events->list.next, struct node, link);
    sim_list_del(&node->link);
    free(node);
  }
  close(events->fd);
  pthread_mutex_destroy(&events->lock);
}

void sim_events_push(struct sim_events *events, const struct ibv_async_event *event)
{
  struct node *node = malloc(sizeof(*node));
  if (!node) {
    fab_log(1, "out of memory for an event: it is lost");
    return;
  }
  node->event = *event;
  pthread_mutex_lock(&events->lock);
  sim_list_add(&events->list, &node->link);
  if (eventfd_write(events->fd, 1))
    fab_log(1, "an event's descriptor cannot be written: the program has closed it");
  pthread_mutex_unlock(&events->lock);
}

static void sim_events_count_given(const struct ibv_async_event *event)
{
  switch (event->event_type) {
  case IBV_EVENT_CQ_ERR:
    sim_cq_of(event->element.cq)->async_given++;
    break;
  case IBV_EVENT_SRQ_ERR:
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    sim_srq_of(event->element.srq)->async_given++;
    break;
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    sim_qp_of(event->element.qp)->async_given++;
    break;
  default:
    break;
  }
}

int sim_events_next(struct sim_events *events, struct ibv_async_event *event)
{
  for (;;) {
    eventfd_t one;
    if (eventfd_read(events->fd, &one)) /* EINTR, too: ibv_get_cq_event(3) is a read(2) */
      return errno;
    pthread_mutex_lock(&events->lock);
    struct sim_list *first = events->list.next;
    if (first != &events->list) {
      struct node *node = sim_container_of(first, struct node, link);
      sim_list_del(first);
      *event = node->event;
      if (event->event_type == SIM_EVENT_COMPLETION)
        sim_cq_of(event->element.cq)->events_given++;
      else
        sim_events_count_given(event);
      pthread_mutex_unlock(&events->lock);
      free(node);
      return 0;
    }
    pthread_mutex_unlock(&events->lock);
  }
}

/* One off the descriptor, if nobody has taken it. */
static void sim_events_take_back(int fd)
{
  eventfd_t one;
  struct iovec to = {&one, sizeof(one)};
  if (preadv2(fd, &to, 1, -1, RWF_NOWAIT) < 0)
    return;
}

void sim_events_forget(struct sim_events *events, const void *object)
{
  pthread_mutex_lock(&events->lock);
  struct sim_list *at = events->list.next;
  while (at != &events->list) {
    struct node *node = sim_container_of(at, struct node, link);
    at = at->next;
    if ((const void *)node->event.element.cq != object)
      continue;
    sim_list_del(&node->link);
    free(node);
    sim_events_take_back(events->fd);
  }
  pthread_mutex_unlock(&events->lock);
}

void sim_await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
                    uint32_t given)
{
  pthread_mutex_lock(mutex);
  while (*completed != given)
    pthread_cond_wait(cond, mutex);
  pthread_mutex_unlock(mutex);
}

int sim_async_next(struct sim_context *context, struct ibv_async_event *event)
{
  return sim_events_next(&context->async, event);
}

static void sim_events_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond,
                                   uint32_t *completed)
{
  pthread_mutex_lock(mutex);
  ++*completed;
  pthread_cond_signal(cond);
  pthread_mutex_unlock(mutex);
}

void sim_async_ack(const struct ibv_async_event *event)
{
  struct ibv_cq *cq = event->element.cq;
  struct ibv_qp *qp = event->element.qp;
  struct ibv_srq *srq = event->element.srq;
  switch (event->event_type) {
  case IBV_EVENT_CQ_ERR:
    sim_events_acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
    break;
  case IBV_EVENT_SRQ_ERR:
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    sim_events_acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
    break;
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    sim_events_acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
    break;
  default:
    break;
  }
}

struct sim_channel *sim_channel_create(struct sim_context *context)
{
  struct sim_channel *channel = calloc(1, sizeof(*channel));
  if (!channel)
    return sim_fail(ENOMEM);
  int error = sim_events_open(&channel->events);
  if (error) {
    free(channel);
    return sim_fail(error);
  }
  channel->channel.context = &context->verbs.context;
  channel->channel.fd = channel->events.fd;
  sim_alive(&context->channels, 1);
  return channel;
}

int sim_channel_destroy(struct sim_channel *channel)
{
  struct sim_context *context = sim_context_of(channel->channel.context);
  pthread_mutex_lock(&sim_self.lock);
  bool busy = channel->channel.refcnt;
  if (!busy)
    context->channels--;
  pthread_mutex_unlock(&sim_self.lock);
  if (busy)
    return EBUSY;
  sim_events_close(&channel->events);
  free(channel);
  return 0;
}

int sim_channel_next(struct sim_channel *channel, struct sim_cq **cq)
{
  struct ibv_async_event event;
  int error = sim_events_next(&channel->events, &event);
  if (!error)
    *cq = sim_cq_of(event.element.cq);
  return error;
}
