/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, and how two of one process find each other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "template.h"

/* What travels over the control channel. Everything in it comes from a peer. */
struct address {
  char magic[8];
  uint64_t process, image; /* of another process, or another load of this plugin: unreachable */
  uint64_t number;
};

static const char magic[8] = "TEMPLAT1";
static struct pst_endpoint *known; /* all of this process, by next_known */
static uint64_t last_number;

uint32_t template_address_bytes(void)
{
  return sizeof(struct address);
}

static bool makes_sense(const struct pst_endpoint_params *params)
{
  const bool sends = params->roles & PST_ROLE_SENDER, receives = params->roles & PST_ROLE_RECEIVER;
  if (params->roles == 0 || params->roles & ~(uint32_t)(PST_ROLE_SENDER | PST_ROLE_RECEIVER))
    return false;
  if (receives ? !params->ring || params->ring->is_taken : params->ring != NULL)
    return false;
  /* Who only receives posts nothing. */
  return params->cookie && (!sends || params->requests) && params->requests <= REQUESTS_MAX &&
         params->pieces <= PIECES_MAX && params->message_max <= MESSAGE_MAX;
}

int template_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                           struct pst_endpoint **endpoint)
{
  if (!makes_sense(params))
    return template_refuse(worker->device, -EINVAL,
                           "an endpoint sends, or receives into a ring of its own, or both");
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  struct owed *owed = calloc(params->requests + 1, sizeof(*owed));
  if (!made || !owed) {
    free(made);
    free(owed);
    return template_refuse(worker->device, -ENOMEM, "no memory for an endpoint");
  }
  made->worker = worker;
  pst_struct_read(&made->params, sizeof(made->params), params);
  made->owed = owed;
  made->next = worker->endpoints;
  worker->endpoints = made;
  if (params->ring)
    params->ring->is_taken = true;
  pthread_mutex_lock(&template_lock);
  made->number = ++last_number;
  made->next_known = known;
  known = made;
  pthread_mutex_unlock(&template_lock);
  *endpoint = made;
  return 0;
}

static struct address address_of(const struct pst_endpoint *endpoint)
{
  struct address address = {.process = (uint64_t)getpid(),
                            .image = (uint64_t)(uintptr_t)&known,
                            .number = endpoint->number};
  memcpy(address.magic, magic, sizeof(magic));
  return address;
}

int template_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  struct address own = address_of(endpoint);
  if (address->capacity < sizeof(own))
    return -ENOSPC;
  memcpy(address->bytes, &own, sizeof(own));
  address->length = sizeof(own);
  address->fd_count = 0;
  return 0;
}

static struct pst_endpoint *find(uint64_t number)
{
  for (struct pst_endpoint *e = known; e; e = e->next_known)
    if (e->number == number && !e->is_closing)
      return e;
  return NULL;
}

static void part(struct pst_endpoint *endpoint, int32_t status)
{
  if (endpoint->is_gone)
    return;
  endpoint->peer = NULL;
  endpoint->is_gone = endpoint->owes_disconnected = true;
  endpoint->status = status;
}

static bool reaches(const struct pst_endpoint *from, const struct pst_endpoint *to)
{
  return from->params.roles & PST_ROLE_SENDER && to->params.ring;
}

static void meet(struct pst_endpoint *endpoint)
{
  struct pst_endpoint *peer = find(endpoint->peer_number);
  if (!peer || peer->is_gone || !(reaches(endpoint, peer) || reaches(peer, endpoint))) {
    part(endpoint, -ECONNRESET);
  } else if (peer->peer_number == endpoint->number) {
    endpoint->peer = peer;
    peer->peer = endpoint;
    endpoint->owes_connected = peer->owes_connected = true;
  }
}

int template_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct address own = address_of(endpoint), far;
  const struct pst_device *device = endpoint->worker->device;
  int rc = 0;
  if (!address || address->length != sizeof(far))
    return template_refuse(device, address ? -EPROTO : -EINVAL, "not an address of this transport");
  memcpy(&far, address->bytes, sizeof(far));
  if (memcmp(far.magic, magic, sizeof(magic)) != 0 || far.number == 0)
    return template_refuse(device, -EPROTO, "not an address of this transport");
  if (far.process != own.process || far.image != own.image)
    return template_refuse(device, -EXDEV,
                           "the peer is another process, out of reach; use `penstock run`");
  pthread_mutex_lock(&template_lock);
  if (endpoint->peer_number) {
    rc = -EALREADY;
  } else {
    endpoint->peer_number = far.number;
    meet(endpoint);
  }
  pthread_mutex_unlock(&template_lock);
  return rc ? template_refuse(device, rc, "this endpoint has a peer already") : 0;
}

int template_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  (void)endpoint;
  template_path(path);
  return 0;
}

/* A SEND is over when post() returns, so that there is nothing to drain. */
int template_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  (void)deadline_ns;
  if (mode != PST_CLOSE_DRAIN && mode != PST_CLOSE_ABORT)
    return template_refuse(endpoint->worker->device, -EINVAL, "an unknown mode of closing");
  if (endpoint->is_closing)
    return template_refuse(endpoint->worker->device, -EALREADY, "this endpoint closes already");
  pthread_mutex_lock(&template_lock);
  endpoint->is_closing = true;
  endpoint->peer = NULL;
  for (struct pst_endpoint *e = known; e; e = e->next_known)
    if (e->peer_number == endpoint->number)
      part(e, 0);
  pthread_mutex_unlock(&template_lock);
  return 0;
}

void template_endpoint_free(struct pst_endpoint *endpoint)
{
  struct pst_endpoint **at = &known;
  while (*at != endpoint)
    at = &(*at)->next_known;
  *at = endpoint->next_known;
  for (at = &endpoint->worker->endpoints; *at != endpoint; at = &(*at)->next)
    ;
  *at = endpoint->next;
  free(endpoint->owed);
  free(endpoint);
}
