/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a client that concern a worker, its rings and its endpoints. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/log.h"
#include "worker.h"

static int share_call_expel(struct share_worker *worker, const char *rule)
{
  share_client_expel(worker->client, rule);
  return -EPROTO;
}

static struct share_endpoint *share_call_endpoint(struct share_worker *worker, uint32_t number)
{
  struct share_endpoint *endpoint = number ? pst_places_find(&worker->endpoints, number - 1) : NULL;

  return endpoint && endpoint->inner ? endpoint : NULL;
}

/* ---- Rings ---------------------------------------------------------------------------- */

static void share_ring_free(struct share_worker *worker, struct share_ring *ring)
{
  if (ring->ring)
    worker->ops->ring_close(worker->inner, ring->ring);
  if (ring->number != PST_PLACE_NONE)
    pst_places_give(&worker->rings, ring->number);
  pst_slots_close(&ring->slots);
  share_mr_unuse(ring->mr);
  atomic_fetch_sub(&worker->client->rings, 1);
  atomic_fetch_sub(&worker->client->slots, ring->slots_asked);
  share_user_give(worker->client->user, SHARE_RING);
  free(ring->tokens);
  free(ring);
}

static int share_ring_check_limits(const struct share_client *client, uint32_t slots)
{
  const uint32_t most = client->class->endpoints;
  char remedy[SHARE_REMEDY_BYTES];

  if (atomic_load(&client->rings) >= most) {
    pst_log(PST_LOG_ERROR, "the router allows a client %u rings, as many as endpoints; %s", most,
            share_class_remedy(client, "endpoints", remedy));
    return -ENOSPC;
  }
  if (slots > SHARE_SLOTS_MAX - atomic_load(&client->slots)) {
    pst_log(PST_LOG_ERROR,
            "the router allows a client %u slots of all its rings; make the rings smaller",
            SHARE_SLOTS_MAX);
    return -ENOSPC;
  }
  return 0;
}

/* Opens the transport's ring. On failure share_ring_free() undoes what was done. */
static int share_ring_fill(struct share_worker *worker, const struct pst_share_ring *asked,
                           struct share_ring *ring, struct pst_path_info *path)
{
  const struct pst_limits *limits = &worker->client->limits;

  ring->mr = share_mr_use(worker->client, asked->mr);
  if (!ring->mr)
    return share_call_expel(worker, "it opened a ring in memory that is not registered");
  const struct pst_ring_params params = {.struct_size = sizeof(params),
                                         .slots = asked->slots,
                                         .mr = ring->mr->mr,
                                         .base = asked->base,
                                         .stride = asked->stride,
                                         .payload_max = asked->payload_max,
                                         .headroom = asked->headroom,
                                         .tailroom = asked->tailroom,
                                         .endpoints = asked->endpoints,
                                         .endpoint_slots = asked->endpoint_slots};
  int rc = pst_ring_params_check(worker->client->share->transport->host, &params, ring->mr->access,
                                 ring->mr->length, limits, NULL);
  if (rc == 0)
    rc = pst_slots_open(&ring->slots, asked->slots);
  ring->tokens = rc == 0 ? calloc(asked->slots, sizeof(*ring->tokens)) : NULL;
  if (!ring->tokens)
    return rc < 0 ? rc : -ENOMEM;
  rc = pst_places_take(&worker->rings, ring, PST_PLACE_MASK, &ring->number);
  if (rc < 0)
    return rc;
  path->struct_size = sizeof(*path);
  return worker->ops->ring_open(worker->inner, &params, path, &ring->ring);
}

static int share_ring_open(struct share_worker *worker, struct share_command *command)
{
  const uint32_t slots = command->request->u.ring.slots;

  int rc = share_ring_check_limits(worker->client, slots);
  struct share_ring *ring =
      rc == 0 ? share_user_alloc(worker->client->user, SHARE_RING, sizeof(*ring), &rc) : NULL;
  if (!ring)
    return rc;
  ring->number = PST_PLACE_NONE;
  ring->slots_asked = slots;
  atomic_fetch_add(&worker->client->rings, 1);
  atomic_fetch_add(&worker->client->slots, slots);
  rc = share_ring_fill(worker, &command->request->u.ring, ring, &command->reply->u.path);
  if (rc < 0) {
    ring->ring = NULL;
    share_ring_free(worker, ring);
    return rc;
  }
  command->reply->object = ring->number + 1;
  return 0;
}

static int share_ring_close(struct share_worker *worker, uint32_t number)
{
  struct share_ring *ring = number ? pst_places_find(&worker->rings, number - 1) : NULL;

  if (!ring || ring->endpoints)
    return share_call_expel(worker, "it closed a ring that is not open, or has endpoints");
  share_ring_free(worker, ring);
  return 0;
}

/* ---- Endpoints -------------------------------------------------------------------------- */

/* Opens the transport's endpoint. On failure share_endpoint_free() undoes what was done. */
static int share_endpoint_fill(struct share_endpoint *endpoint,
                               const struct pst_share_endpoint *asked)
{
  struct share_worker *worker = endpoint->worker;
  const struct pst_host *host = worker->client->share->transport->host;
  struct share_mr *mr = NULL;
  uint32_t number;

  if (asked->ring) {
    endpoint->ring = pst_places_find(&worker->rings, asked->ring - 1);
    if (!endpoint->ring)
      return share_call_expel(worker, "it opened an endpoint with a ring that is not open");
    endpoint->ring->endpoints++;
  }
  snprintf(endpoint->label, sizeof(endpoint->label), "%.*s", (int)sizeof(asked->label) - 1,
           asked->label);
  endpoint->requests_max = asked->requests;
  endpoint->pieces_max = asked->pieces ? asked->pieces : 1;
  int rc = pst_places_take(&worker->endpoints, endpoint, PST_SHARE_ENDPOINTS, &number);
  if (rc < 0)
    return rc;
  endpoint->number = number + 1;
  __atomic_store_n(&worker->page->waits[number & PST_PLACE_MASK], PST_WAIT_QUEUE, __ATOMIC_RELAXED);
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = asked->roles,
                                       .ring = endpoint->ring ? endpoint->ring->ring : NULL,
                                       .cookie = (uint64_t)(uintptr_t)endpoint,
                                       .options = worker->client->share->options,
                                       .label = endpoint->label,
                                       .requests = asked->requests,
                                       .pieces = asked->pieces,
                                       .message_max = asked->message_max,
                                       .timeout_ns = asked->timeout_ns,
                                       .domain = asked->domain,
                                       .is_foreign = asked->is_foreign};
  /* The ring's slots are checked when the ring is opened; the transport checks the message. */
  rc = pst_endpoint_params_check(host, &params, UINT64_MAX, &worker->client->limits, NULL);
  if (rc == 0)
    rc = share_endpoint_make_room(endpoint);
  if (rc < 0)
    return rc;
  if (asked->mr) {
    mr = share_mr_use(worker->client, asked->mr);
    if (!mr)
      return share_call_expel(worker, "it opened an endpoint for memory that is not registered");
    params.mr = mr->mr;
  }
  rc = worker->ops->endpoint_open(worker->inner, &params, &endpoint->inner);
  share_mr_unuse(mr);
  return rc;
}

static int share_endpoint_open(struct share_worker *worker, struct share_command *command)
{
  struct share_client *client = worker->client;
  struct share_endpoint *endpoint;
  char remedy[SHARE_REMEDY_BYTES];

  if (atomic_load(&client->endpoints) >= client->class->endpoints ||
      worker->endpoint_count >= PST_SHARE_ENDPOINTS) {
    pst_log(PST_LOG_ERROR, "the router allows a client %u endpoints, %u of them a worker; %s",
            client->class->endpoints, PST_SHARE_ENDPOINTS,
            share_class_remedy(client, "endpoints", remedy));
    return -ENOSPC;
  }
  int rc = share_endpoint_alloc(worker, &endpoint);
  if (rc < 0)
    return rc;
  rc = share_endpoint_fill(endpoint, &command->request->u.endpoint);
  if (rc < 0) {
    share_endpoint_free(endpoint);
    return rc;
  }
  command->reply->object = endpoint->number;
  return 0;
}

/* Returns the blob that came with the request. */
static struct pst_blob share_call_blob(const struct share_command *command)
{
  struct pst_blob blob = {.struct_size = sizeof(blob),
                          .length = command->request->length,
                          .capacity = command->request->length,
                          .fd_count = command->fd_count,
                          .bytes = (void *)(uintptr_t)command->bytes};

  for (uint32_t i = 0; i < command->fd_count; i++)
    blob.fds[i] = command->fds[i];
  return blob;
}

static int share_endpoint_address(struct share_endpoint *endpoint, struct share_command *command)
{
  struct pst_blob blob = {
      .struct_size = sizeof(blob), .capacity = PST_SHARE_BYTES, .bytes = command->reply_bytes};

  int rc = endpoint->worker->ops->endpoint_address(endpoint->inner, &blob);
  if (rc < 0)
    return rc;
  share_life_address(endpoint, blob.bytes, blob.length);
  return share_command_add_blob(command, &blob);
}

static int share_endpoint_connect(struct share_endpoint *endpoint,
                                  const struct share_command *command)
{
  const struct pst_blob blob = share_call_blob(command);

  share_life_connect(endpoint, blob.bytes, blob.length);
  return endpoint->worker->ops->endpoint_connect(endpoint->inner,
                                                 command->request->flag ? &blob : NULL);
}

static int share_endpoint_close(struct share_endpoint *endpoint,
                                const struct share_command *command)
{
  const uint32_t mode = command->request->u.close.mode;

  if (mode != PST_CLOSE_DRAIN && mode != PST_CLOSE_ABORT)
    return -EINVAL;
  if (endpoint->close_mode)
    return -EALREADY;
  endpoint->close_mode = mode;
  endpoint->deadline_ns = command->request->u.close.deadline_ns;
  share_endpoint_activate(endpoint);
  return 0;
}

/* Opens a range of a peer for its endpoint, and counts it as one of the client's regions. */
static int share_remote_open(struct share_endpoint *endpoint, struct share_command *command)
{
  struct share_worker *worker = endpoint->worker;
  const struct pst_blob blob = share_call_blob(command);
  struct share_client *client = worker->client;
  char remedy[SHARE_REMEDY_BYTES];

  if (atomic_load(&client->remotes) >= client->class->regions) {
    pst_log(PST_LOG_ERROR, "the router allows a client %u ranges of its peers; %s",
            client->class->regions, share_class_remedy(client, "regions", remedy));
    return -ENOSPC;
  }
  int rc = 0;
  struct share_remote *remote = share_user_alloc(client->user, SHARE_REMOTE, sizeof(*remote), &rc);
  if (!remote)
    return rc;
  remote->endpoint = endpoint;
  rc = pst_places_take(&worker->remotes, remote, PST_PLACE_MASK, &remote->number);
  if (rc == 0) {
    rc = worker->ops->remote_open(endpoint->inner, &blob, &remote->remote);
    if (rc < 0)
      pst_places_give(&worker->remotes, remote->number);
  }
  if (rc < 0) {
    share_user_give(client->user, SHARE_REMOTE);
    free(remote);
    return rc;
  }
  atomic_fetch_add(&client->remotes, 1);
  command->reply->object = remote->number + 1;
  return 0;
}

static int share_remote_close(struct share_endpoint *endpoint, uint32_t number)
{
  struct share_worker *worker = endpoint->worker;
  struct share_remote *remote = number ? pst_places_find(&worker->remotes, number - 1) : NULL;

  if (!remote || remote->endpoint != endpoint || remote->uses)
    return share_call_expel(worker, "it closed a peer's range that is not open, or in use");
  worker->ops->remote_close(endpoint->inner, remote->remote);
  pst_places_give(&worker->remotes, remote->number);
  atomic_fetch_sub(&worker->client->remotes, 1);
  share_user_give(worker->client->user, SHARE_REMOTE);
  free(remote);
  return 0;
}

static int share_call_describe(struct share_endpoint *endpoint, struct share_command *command)
{
  char *text = command->reply_bytes;

  text[0] = '\0';
  int rc = endpoint->worker->ops->describe(endpoint->inner, text, 4096);
  if (rc < 0)
    return rc;
  command->reply->length = (uint32_t)strlen(text) + 1;
  return rc;
}

/* ---- All calls ------------------------------------------------------------------------------ */

static int share_call_of_endpoint(struct share_worker *worker, struct share_command *command)
{
  const struct pst_share_request *request = command->request;
  struct share_endpoint *endpoint = share_call_endpoint(worker, request->object);

  if (!endpoint)
    return request->call == PST_SHARE_ENDPOINT_CLOSE ? -EALREADY : -ENOTCONN;
  switch (request->call) {
  case PST_SHARE_ENDPOINT_ADDRESS:
    return share_endpoint_address(endpoint, command);
  case PST_SHARE_ENDPOINT_CONNECT:
    return share_endpoint_connect(endpoint, command);
  case PST_SHARE_ENDPOINT_PATH:
    command->reply->u.path = (struct pst_path_info){.struct_size = sizeof(struct pst_path_info)};
    return worker->ops->endpoint_path(endpoint->inner, &command->reply->u.path);
  case PST_SHARE_ENDPOINT_CLOSE:
    return share_endpoint_close(endpoint, command);
  case PST_SHARE_REMOTE_OPEN:
    return share_remote_open(endpoint, command);
  case PST_SHARE_REMOTE_CLOSE:
    return share_remote_close(endpoint, request->remote);
  case PST_SHARE_COUNTERS:
    return share_command_add_counters(command, worker->client, worker->inner, endpoint->inner);
  default:
    return share_call_describe(endpoint, command);
  }
}

void share_call_run(struct share_worker *worker, struct share_command *command)
{
  const struct pst_share_request *request = command->request;
  struct pst_share_reply *reply = command->reply;

  pst_log_clear_error();
  switch (request->call) {
  case PST_SHARE_RING_OPEN:
    reply->status = share_ring_open(worker, command);
    break;
  case PST_SHARE_RING_CLOSE:
    reply->status = share_ring_close(worker, request->object);
    break;
  case PST_SHARE_ENDPOINT_OPEN:
    reply->status = share_endpoint_open(worker, command);
    break;
  case PST_SHARE_COUNTERS:
    reply->status = request->flag == PST_SHARE_OF_WORKER
                        ? share_command_add_counters(command, worker->client, worker->inner, NULL)
                        : share_call_of_endpoint(worker, command);
    break;
  default:
    reply->status = share_call_of_endpoint(worker, command);
  }
  if (reply->status < 0)
    pst_text_write(reply->text, sizeof(reply->text), pst_log_last_error());
}

/* Closes what a client has left open: its peers get DISCONNECTED. */
void share_call_close_all(struct share_worker *worker)
{
  const uint64_t deadline = clock_now_ns() + SHARE_CLOSING_NS;

  for (struct share_endpoint *endpoint = worker->all, *next; endpoint; endpoint = next) {
    next = endpoint->next;
    if (!endpoint->inner)
      share_endpoint_free(endpoint);
    else if (!endpoint->is_closing) {
      endpoint->is_closing = true;
      if (endpoint->life)
        atomic_store(&endpoint->life->has_died, true);
      worker->ops->endpoint_close(endpoint->inner, PST_CLOSE_ABORT, deadline);
    }
  }
  while (worker->all && clock_now_ns() < deadline + SHARE_CLOSING_NS) {
    struct pst_completion completion;
    if (worker->ops->poll(worker->inner, &completion, 1) < 1) {
      sched_yield();
      continue;
    }
    if (completion.kind == PST_COMPLETION_MESSAGE)
      worker->ops->release(worker->inner, &completion.u.message.token, 1);
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the cookie that the router gave */
    struct share_endpoint *endpoint = (struct share_endpoint *)(uintptr_t)completion.endpoint;
    if (completion.kind == PST_COMPLETION_EVENT && completion.code == PST_EVENT_CLOSED) {
      endpoint->inner = NULL;
      share_endpoint_free(endpoint);
    }
  }
  if (worker->all)
    pst_log(PST_LOG_ERROR, "transport %s has not closed an endpoint in %u s",
            worker->client->share->transport->name, 2u);
  for (uint32_t i = 0; i < worker->rings.room; i++)
    if (worker->rings.all[i].at) {
      struct share_ring *ring = worker->rings.all[i].at;
      if (!ring->endpoints)
        share_ring_free(worker, ring);
    }
}
