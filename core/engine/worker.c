/* SPDX-License-Identifier: Apache-2.0 */
/* A transport's worker with its endpoints, from opening to EVENT CLOSED. */
#include "worker.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/log.h"

#define CLOSING_BATCH 64
#define CLOSING_NS PST_NS_PER_S
#define CLOSING_WORK_NS (PST_NS_PER_S / 10)
#define CLOSING_MOST_NS (60 * PST_NS_PER_S)

int engine_worker_open(struct engine *engine, struct engine_device *device,
                       const struct engine_events *events, struct engine_worker *worker,
                       struct pst_error *error)
{
  const uint32_t index = device->next_worker;
  struct pst_worker *handle;

  pst_log_clear_error();
  int rc = device->ops->worker_open(device->device, index, &handle);
  if (rc < 0 && pst_fail_said(error, PST_EXIT_UNAVAILABLE, rc) == rc)
    return rc;
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s cannot open worker %u: %s",
                    device->plugin->name, index, strerror(-rc));
  device->next_worker++;
  if (engine_worker_add(engine, device, events, handle, worker) < 0)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory for a worker");
  return 0;
}

int engine_worker_add(struct engine *engine, struct engine_device *device,
                      const struct engine_events *events, struct pst_worker *handle,
                      struct engine_worker *worker)
{
  if (ARRAY_APPEND(engine->workers, engine->worker_count, worker) < 0) {
    device->ops->worker_close(handle);
    return -ENOMEM;
  }
  worker->device = device;
  worker->ops = device->ops;
  worker->handle = handle;
  worker->events = events;
  worker->event_fd =
      device->limits.capabilities & PST_CAP_WAKEUP ? device->ops->event_fd(handle) : -1;
  return 0;
}

/* ---- Events ------------------------------------------------------------------------ */

static void worker_take_lent(struct engine_worker *worker, uint64_t buffer,
                             const struct pst_region *region)
{
  if (buffer == 0 || buffer >= ENGINE_LENT_MAX) {
    pst_log(PST_LOG_ERROR, "%s lends more than %d regions: a bug of that transport",
            worker->device->plugin->name, ENGINE_LENT_MAX - 1);
    return;
  }
  worker->lent[buffer] =
      (struct engine_lent){.region = region, .host = region->host, .length = region->length};
  if (worker->events->lent)
    worker->events->lent(worker, &worker->lent[buffer]);
}

static void worker_forget_lent(struct engine_worker *worker, uint64_t buffer)
{
  if (buffer >= ENGINE_LENT_MAX || !worker->lent[buffer].region)
    return;
  if (worker->events->unlent)
    worker->events->unlent(worker, &worker->lent[buffer]);
  worker->lent[buffer] = (struct engine_lent){0};
}

static struct engine_endpoint *worker_endpoint_of(const struct pst_completion *completion)
{
  return (struct engine_endpoint *)(uintptr_t)completion->endpoint;
}

static void worker_endpoint_closed(struct engine_endpoint *endpoint)
{
  if (endpoint->state == ENGINE_ENDPOINT_CLOSED)
    return;
  assert(endpoint->worker->endpoints > 0);
  endpoint->state = ENGINE_ENDPOINT_CLOSED;
  endpoint->worker->endpoints--;
}

void engine_worker_take_event(struct engine_worker *worker, const struct pst_completion *completion)
{
  struct engine_endpoint *endpoint = worker_endpoint_of(completion);

  switch (completion->code) {
  case PST_EVENT_CONNECTED:
    worker->events->connected(endpoint);
    break;
  case PST_EVENT_DISCONNECTED:
    worker->events->disconnected(endpoint, completion->status);
    break;
  case PST_EVENT_READDRESS:
    worker->events->readdressed(endpoint);
    break;
  case PST_EVENT_CLOSED:
    worker_endpoint_closed(endpoint);
    if (worker->events->closed)
      worker->events->closed(endpoint);
    break;
  case PST_EVENT_LENT:
    worker_take_lent(worker, completion->u.region.buffer, completion->u.region.region);
    break;
  case PST_EVENT_UNLENT:
    worker_forget_lent(worker, completion->u.region.buffer);
    break;
  case PST_EVENT_DEVICE:
    worker->events->device_failed(worker, completion->status);
    break;
  default:
    break;
  }
}

const struct pst_region *engine_lent_find(const struct engine_worker *worker, uint32_t buffer,
                                          const struct pst_region *own, bool is_copied)
{
  const struct pst_region *region = buffer < ENGINE_LENT_MAX ? worker->lent[buffer].region : NULL;
  bool suits;

  if (!region)
    return NULL;
  if (region->kind == own->kind && strcmp(region->device, own->device) == 0)
    suits = true;
  else if (is_copied)
    suits = region->host || (own->device[0] && strcmp(region->device, own->device) == 0);
  else
    suits = own->kind == PST_MEMORY_HOST && region->kind == PST_MEMORY_MAPPED &&
            region->address == (uintptr_t)region->host;
  return suits ? region : NULL;
}

/* ---- Endpoints --------------------------------------------------------------------- */

int engine_endpoint_open(struct engine_endpoint *endpoint, struct engine_worker *worker,
                         struct pst_endpoint_params *params)
{
  params->struct_size = sizeof(*params);
  params->cookie = (uint64_t)(uintptr_t)endpoint;
  pst_log_clear_error();
  int rc = worker->ops->endpoint_open(worker->handle, params, &endpoint->handle);
  if (rc < 0)
    return rc;
  endpoint->worker = worker;
  endpoint->state = ENGINE_ENDPOINT_OPEN;
  worker->endpoints++;
  return 0;
}

int engine_endpoint_address(const struct engine_endpoint *endpoint, struct engine_address *address)
{
  address->blob = (struct pst_blob){.struct_size = sizeof(address->blob),
                                    .capacity = sizeof(address->bytes),
                                    .bytes = address->bytes};
  return endpoint->worker->ops->endpoint_address(endpoint->handle, &address->blob);
}

int engine_endpoint_connect(const struct engine_endpoint *endpoint, const struct pst_blob *address,
                            const char *who, const char *remedy, struct engine_why *why)
{
  const struct engine_worker *worker = endpoint->worker;

  pst_log_clear_error();
  int rc = worker->ops->endpoint_connect(endpoint->handle, address);
  if (rc == 0)
    return 0;
  why->is_logged = pst_log_last_error()[0];
  if (why->is_logged)
    snprintf(why->text, sizeof(why->text), "%s", pst_log_last_error());
  else
    snprintf(why->text, sizeof(why->text), "transport %s cannot reach %s: %s; %s",
             worker->device->plugin->name, who, strerror(-rc), remedy);
  return rc;
}

void engine_endpoint_close(struct engine_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  if (endpoint->state != ENGINE_ENDPOINT_OPEN)
    return;
  endpoint->state = ENGINE_ENDPOINT_CLOSING;
  if (endpoint->worker->ops->endpoint_close(endpoint->handle, mode, deadline_ns) < 0)
    worker_endpoint_closed(endpoint);
}

/* ---- Closing ----------------------------------------------------------------------- */

/* Was there anything? */
static bool worker_poll_closing(struct engine_worker *worker)
{
  struct pst_completion completions[CLOSING_BATCH];
  int n = worker->ops->poll(worker->handle, completions, CLOSING_BATCH);

  for (int i = 0; i < n; i++) {
    const struct pst_completion *completion = &completions[i];
    if (completion->kind == PST_COMPLETION_MESSAGE)
      engine_release(worker, &completion->u.message.token, 1);
    else if (completion->kind != PST_COMPLETION_EVENT)
      continue;
    else if (completion->code == PST_EVENT_CLOSED)
      worker_endpoint_closed(worker_endpoint_of(completion));
    else if (completion->code == PST_EVENT_UNLENT)
      worker_forget_lent(worker, completion->u.region.buffer);
  }
  return n > 0;
}

static uint32_t worker_count_open(const struct engine *engine)
{
  uint32_t open = 0;

  for (uint32_t i = 0; i < engine->worker_count; i++)
    open += engine->workers[i]->endpoints;
  return open;
}

/* A thousand endpoints take an adapter thousands of commands, and one poll seconds: there is a
 * second more after each poll that closes some, or is at work for long; a minute at most. */
bool engine_await_closed(struct engine *engine, uint64_t give_up_ns)
{
  const uint64_t last_ns = clock_now_ns() + CLOSING_MOST_NS;

  for (uint32_t open = worker_count_open(engine);;) {
    const uint64_t began = clock_now_ns();
    bool seen = false;
    for (uint32_t i = 0; i < engine->worker_count; i++)
      seen |= worker_poll_closing(engine->workers[i]);
    const uint32_t left = worker_count_open(engine);
    const uint64_t now = clock_now_ns();
    if (left == 0)
      return true;
    if (now < last_ns && (left < open || now - began > CLOSING_WORK_NS) &&
        give_up_ns < now + CLOSING_NS)
      give_up_ns = now + CLOSING_NS;
    if (now > give_up_ns) {
      pst_log(PST_LOG_WARN,
              "%u endpoints did not close within their deadline: a bug of their transport. What "
              "they use is not freed",
              open);
      return false;
    }
    open = left;
    if (!seen)
      sched_yield();
  }
}

void engine_close_workers(struct engine *engine)
{
  engine_plugins_drain(engine);
  for (uint32_t i = 0; i < engine->worker_count; i++) {
    struct engine_worker *worker = engine->workers[i];
    for (uint32_t buffer = 1; buffer < ENGINE_LENT_MAX; buffer++)
      worker_forget_lent(worker, buffer);
    worker->ops->worker_close(worker->handle);
  }
  free(engine->workers);
  engine->workers = NULL;
  engine->worker_count = 0;
}
