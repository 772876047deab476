// SPDX-License-Identifier: Apache-2.0
// Completion channels and asynchronous events.
#include "front.h"

#include <errno.h>

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
  struct sim_channel *channel = sim_channel_create(sim_context_of(context));

  return channel ? &channel->channel : NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
  return sim_channel_destroy(sim_channel_of(channel));
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
  struct sim_cq *found;
  int error = sim_channel_next(sim_channel_of(channel), &found);

  if (error)
    return SIM_FAIL(error, -1);
  *cq = &found->cq;
  *cq_context = found->cq.cq_context;
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += nevents;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
  int error = sim_async_next(sim_context_of(context), event);

  return error ? SIM_FAIL(error, -1) : 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
  sim_async_ack(event);
}
