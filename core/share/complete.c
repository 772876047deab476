/* SPDX-License-Identifier: Apache-2.0 */
/* The transport's completions, into the client's ring. */
#include <errno.h>
#include <stdlib.h>

#include "util/log.h"
#include "worker.h"

#define BATCH 64

bool share_complete_has_room(struct share_worker *worker, uint32_t count)
{
  if (PST_SHARE_ENTRIES - (worker->complete_tail - worker->complete_head) >= count)
    return true;
  const uint32_t head = pst_share_load(&worker->page->complete_head);
  if (worker->complete_tail - head > PST_SHARE_ENTRIES ||
      head - worker->complete_head > PST_SHARE_ENTRIES) {
    share_client_expel(worker->client, "its position in the completion ring is impossible");
    return false;
  }
  worker->complete_head = head;
  return PST_SHARE_ENTRIES - (worker->complete_tail - head) >= count;
}

void share_complete_push(struct share_worker *worker, const struct pst_completion *completion)
{
  worker->complete[worker->complete_tail++ % PST_SHARE_ENTRIES] = *completion;
}

void share_complete_push_done(struct share_endpoint *endpoint, uint32_t opcode, int32_t status,
                              uint64_t count)
{
  const struct pst_completion done = {.kind = PST_COMPLETION_DONE,
                                      .code = (uint8_t)opcode,
                                      .status = status,
                                      .endpoint = endpoint->number,
                                      .u.done.count = count};

  share_complete_push(endpoint->worker, &done);
}

void share_complete_push_event(struct share_endpoint *endpoint, uint8_t event, int32_t status)
{
  struct pst_completion completion;

  pst_event_write(&completion, endpoint->number, event, status);
  share_complete_push(endpoint->worker, &completion);
}

void share_complete_publish(struct share_worker *worker)
{
  pst_share_store(&worker->page->complete_tail, worker->complete_tail);
  if (pst_share_must_wake(&worker->page->client_sleeps))
    pst_share_wake(worker->client_event);
}

static void share_complete_message(struct share_endpoint *endpoint, struct pst_completion *message)
{
  struct share_worker *worker = endpoint->worker;
  struct share_ring *ring = endpoint->ring;

  if (!ring || message->u.message.buffer || ring->slots.free_count == 0) {
    pst_log(PST_LOG_ERROR, "transport %s lends messages: a bug of that transport",
            worker->client->share->transport->name);
    worker->ops->release(worker->inner, &message->u.message.token, 1);
    return;
  }
  const uint32_t slot = pst_slots_take(&ring->slots);
  ring->slots.out[slot] = 1;
  ring->tokens[slot] = message->u.message.token;
  message->u.message.token = pst_token(ring->number, slot);
  share_complete_push(worker, message);
  atomic_fetch_add_explicit(&worker->client->share->messages, 1, memory_order_relaxed);
}

static void share_complete_event(struct share_endpoint *endpoint, struct pst_completion *event)
{
  if (event->code == PST_EVENT_CLOSED) {
    endpoint->inner = NULL; /* the requests left end first: share_submit_post() */
    share_endpoint_activate(endpoint);
    return;
  }
  if (event->code == PST_EVENT_DISCONNECTED && event->status == 0 && endpoint->peer &&
      atomic_load(&endpoint->peer->has_died))
    event->status = -ECONNRESET;
  share_complete_push(endpoint->worker, event);
}

static void share_complete_one(struct share_worker *worker, struct pst_completion *completion)
{
  /* NOLINTNEXTLINE(performance-no-int-to-ptr): the cookie that the router gave */
  struct share_endpoint *endpoint = (struct share_endpoint *)(uintptr_t)completion->endpoint;

  if (!endpoint) { /* an event of the worker; messages by reference hold pointers of this process */
    if (completion->kind == PST_COMPLETION_EVENT && completion->code == PST_EVENT_DEVICE)
      share_complete_push(worker, completion);
    return;
  }
  completion->endpoint = endpoint->number;
  if (completion->kind == PST_COMPLETION_MESSAGE)
    share_complete_message(endpoint, completion);
  else if (completion->kind == PST_COMPLETION_EVENT)
    share_complete_event(endpoint, completion);
  else if (share_endpoint_done(endpoint, completion->code, completion->u.done.count))
    share_complete_push(worker, completion);
  else
    pst_log(PST_LOG_ERROR, "transport %s ends requests that it does not have: a bug of it",
            worker->client->share->transport->name);
}

uint32_t share_complete_poll(struct share_worker *worker)
{
  struct pst_completion completions[BATCH];

  if (!share_complete_has_room(worker, BATCH))
    return 0;
  const int n = worker->ops->poll(worker->inner, completions, BATCH);
  for (int i = 0; i < n; i++)
    share_complete_one(worker, &completions[i]);
  return n > 0 ? (uint32_t)n : 0;
}
