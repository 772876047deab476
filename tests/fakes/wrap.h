/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of filters for tests, beside filters/pass.h: a device around another, and
 * endpoints in a list of their worker's. Beside what that one asks for, who includes this has
 * defined `host` of a device, `endpoints` of a worker, and `next` and `cookie` of an endpoint.
 */
#ifndef FAKES_WRAP_H
#define FAKES_WRAP_H

#include "pass.h"

/* A device to be filled in, then opened by wrap_finish(), which frees it where that fails. */
static inline int wrap_begin(const struct pst_host *host, const struct pst_open_params *params,
                             const char *name, struct pst_device **made)
{
  if (!params->inner) {
    host->log(host, PST_LOG_ERROR,
              "%s wraps a transport and was given none; name it under `filters`, not as the plugin "
              "of `transport`",
              name);
    return -EINVAL;
  }
  *made = calloc(1, sizeof(**made));
  if (!*made)
    return -ENOMEM;
  (*made)->host = host;
  (*made)->ops = params->inner;
  return 0;
}

static inline int wrap_finish(const struct pst_open_params *params, struct pst_device *made,
                              struct pst_device **device)
{
  int rc = made->ops->open(params->inner_host, params->inner_params, &made->inner);
  if (rc == 0)
    *device = made;
  else
    free(made);
  return rc;
}

static inline int wrap_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host, (void)probe;
  return 0;
}

static inline void wrap_close(struct pst_device *device)
{
  if (!device)
    return;
  device->ops->close(device->inner);
  free(device);
}

static inline void wrap_worker_close(struct pst_worker *worker)
{
  if (!worker)
    return;
  worker->device->ops->worker_close(worker->inner);
  while (worker->endpoints) {
    struct pst_endpoint *endpoint = worker->endpoints;
    worker->endpoints = endpoint->next;
    free(endpoint);
  }
  free(worker);
}

static inline int wrap_endpoint_open(struct pst_worker *worker,
                                     const struct pst_endpoint_params *params,
                                     struct pst_endpoint **endpoint)
{
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  int rc = worker->device->ops->endpoint_open(worker->inner, params, &made->inner);
  if (rc != 0) {
    free(made);
    return rc;
  }
  made->worker = worker;
  made->cookie = params->cookie;
  made->next = worker->endpoints;
  worker->endpoints = made;
  *endpoint = made;
  return 0;
}

/* Its CLOSED has come. */
static inline void wrap_forget(struct pst_worker *worker, uint64_t cookie)
{
  for (struct pst_endpoint **at = &worker->endpoints; *at; at = &(*at)->next)
    if ((*at)->cookie == cookie) {
      struct pst_endpoint *closed = *at;
      *at = closed->next;
      free(closed);
      return;
    }
}

#endif
