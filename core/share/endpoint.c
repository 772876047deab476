/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint of a client's worker: its place in the worker, and its queue of requests. */
#include <errno.h>
#include <stdlib.h>

#include "util/log.h"
#include "worker.h"

/* Limits of the queues of a client together, in places of some 40 bytes. A request takes
 * REQUEST_PLACES, and each of its pieces one. */
#define REQUEST_PLACES 2u
#define ENDPOINT_PLACES 4096u /* for each endpoint that --endpoints allows */
#define PLACES (1u << 18)     /* and these for each client */

int share_endpoint_alloc(struct share_worker *worker, struct share_endpoint **made)
{
  int rc = 0;
  struct share_endpoint *endpoint =
      share_user_alloc(worker->client->user, SHARE_ENDPOINT, sizeof(*endpoint), &rc);

  if (!endpoint)
    return rc;
  endpoint->worker = worker;
  endpoint->next = worker->all;
  worker->all = endpoint;
  worker->endpoint_count++;
  atomic_fetch_add(&worker->client->endpoints, 1);
  atomic_fetch_add(&worker->client->share->endpoints, 1);
  *made = endpoint;
  return 0;
}

void share_endpoint_free(struct share_endpoint *endpoint)
{
  struct share_worker *worker = endpoint->worker;

  for (struct share_endpoint **at = &worker->all; *at; at = &(*at)->next)
    if (*at == endpoint) {
      *at = endpoint->next;
      break;
    }
  for (uint32_t i = 0; i < worker->remotes.room; i++) {
    struct share_remote *remote = worker->remotes.all[i].at;
    if (remote && remote->endpoint == endpoint) {
      pst_places_give(&worker->remotes, remote->number);
      atomic_fetch_sub(&worker->client->remotes, 1);
      share_user_give(worker->client->user, SHARE_REMOTE);
      free(remote);
    }
  }
  share_life_end(endpoint);
  if (endpoint->ring)
    endpoint->ring->endpoints--;
  if (endpoint->number)
    pst_places_give(&worker->endpoints, endpoint->number - 1);
  worker->endpoint_count--;
  atomic_fetch_sub(&worker->client->endpoints, 1);
  share_user_give(worker->client->user, SHARE_ENDPOINT);
  atomic_fetch_sub(&worker->client->share->endpoints, 1);
  atomic_fetch_sub(&worker->client->queued, endpoint->queued);
  free(endpoint->requests);
  free(endpoint->pending);
  free(endpoint->pieces);
  free(endpoint->piece_mrs);
  free(endpoint);
}

/* ---- The queue of requests ------------------------------------------------------------ */

int share_endpoint_make_room(struct share_endpoint *endpoint)
{
  struct share_client *client = endpoint->worker->client;
  char remedy[SHARE_REMEDY_BYTES];
  uint64_t size = 1;

  while (size < endpoint->requests_max)
    size <<= 1;
  if (size > PST_SHARE_REQUESTS || endpoint->pieces_max > PST_SHARE_PIECES)
    return -EINVAL;
  endpoint->mask = (uint32_t)size - 1;
  const uint64_t places = size * (REQUEST_PLACES + endpoint->pieces_max);
  const uint64_t most = PLACES + (uint64_t)client->class->endpoints * ENDPOINT_PLACES;
  if (places > most - atomic_load(&client->queued)) {
    pst_log(PST_LOG_ERROR,
            "the router allows a client %llu requests and pieces in its queues; make `requests` "
            "or `pieces` of its endpoints smaller, or %s",
            (unsigned long long)most, share_class_remedy(client, "endpoints", remedy));
    return -ENOSPC;
  }
  atomic_fetch_add(&client->queued, places);
  endpoint->queued = places;
  endpoint->requests = calloc(size, sizeof(*endpoint->requests));
  endpoint->pending = calloc(size, sizeof(*endpoint->pending));
  if (!endpoint->requests || !endpoint->pending)
    return -ENOMEM;
  if (!endpoint->pieces_max)
    return 0;
  endpoint->pieces = calloc(size * endpoint->pieces_max, sizeof(*endpoint->pieces));
  endpoint->piece_mrs = calloc(size * endpoint->pieces_max, sizeof(struct share_mr *));
  return endpoint->pieces && endpoint->piece_mrs ? 0 : -ENOMEM;
}

void share_endpoint_forget(struct share_endpoint *endpoint, uint32_t at)
{
  struct share_pending *pending = &endpoint->pending[at];

  share_mr_unuse(pending->mr);
  for (uint32_t i = 0; i < pending->pieces; i++)
    share_mr_unuse(endpoint->piece_mrs[(size_t)at * endpoint->pieces_max + i]);
  if (pending->remote)
    pending->remote->uses--;
  *pending = (struct share_pending){.is_done = true};
}

bool share_endpoint_done(struct share_endpoint *endpoint, uint32_t opcode, uint64_t count)
{
  if (count > endpoint->under_way)
    return false;
  for (uint32_t i = endpoint->head; count > 0 && i != endpoint->posted; i++) {
    const uint32_t at = i & endpoint->mask;
    if (endpoint->pending[at].is_done || endpoint->requests[at].opcode != opcode)
      continue;
    share_endpoint_forget(endpoint, at);
    endpoint->under_way--;
    count--;
  }
  while (endpoint->head != endpoint->posted &&
         endpoint->pending[endpoint->head & endpoint->mask].is_done)
    endpoint->head++;
  return count == 0;
}
