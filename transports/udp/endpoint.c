/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opened, and freed. */
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "address.h"
#include "endpoint.h"
#include "ops.h"
#include "receive.h"
#include "send.h"
#include "socket.h"

/* A receiver without a device is bound where its peers find the control channel: nobody else's
 * datagrams then fill its buffer. With `control` on a loopback address of the other family it is
 * bound to that of its own. */
static void udp_endpoint_find_listener(struct pst_endpoint *endpoint)
{
  const struct pst_device *device = endpoint->worker->device;
  const union dg_address *listens = &device->listens;

  if (!(endpoint->dg.cpu.params.roles & PST_ROLE_RECEIVER) || device->name[0] ||
      listens->any.sa_family == AF_UNSPEC)
    return;
  if (listens->any.sa_family == endpoint->dg.family)
    endpoint->dg.local = *listens;
  else if (dg_address_is_loopback(listens))
    dg_address_set_loopback(&endpoint->dg.local, endpoint->dg.family);
}

/* Where it is bound, and which family all its addresses are of. */
static int udp_endpoint_find_local(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->worker->device;
  struct udp_device_name name;
  int rc = udp_device_find(device, device->name, dg_endpoint_family(&endpoint->dg), &name);

  if (rc < 0)
    return rc;
  dg_endpoint_place(&endpoint->dg, name.is_set ? &name.address : NULL, name.index);
  udp_endpoint_find_listener(endpoint);
  return dg_endpoint_check(&endpoint->dg);
}

static int udp_endpoint_open_parts(struct pst_endpoint *endpoint,
                                   const struct pst_endpoint_params *in)
{
  struct pst_worker *worker = endpoint->worker;
  struct pst_limits limits = {.struct_size = sizeof(limits)};

  udp_limits(worker->device, &limits);
  int rc = dg_endpoint_open(&endpoint->dg, &worker->device->dg, &worker->rings, &limits, in);
  if (rc == 0)
    rc = udp_endpoint_find_local(endpoint);
  if (rc < 0)
    return rc;
  rc = in->ring ? udp_rx_open(endpoint, in->ring) : udp_tx_open(endpoint, in->options);
  if (rc == 0)
    rc = udp_socket_open(endpoint, in->options);
  if (rc == 0 && in->ring)
    rc = udp_rx_spill(endpoint);
  return rc;
}

static int udp_endpoint_join_worker(struct pst_worker *worker, struct pst_endpoint *endpoint)
{
  struct epoll_event event = {.data.ptr = endpoint};

  struct pst_endpoint **grown =
      realloc(worker->endpoints, (worker->endpoint_count + 1) * sizeof(struct pst_endpoint *));

  if (!grown)
    return -ENOMEM;
  worker->endpoints = grown;
  if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, endpoint->fd, &event) != 0)
    return -errno;
  worker->endpoints[worker->endpoint_count++] = endpoint;
  return 0;
}

int udp_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint)
{
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  struct pst_endpoint_params in;

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->worker = worker;
  made->fd = -1;
  int rc = udp_endpoint_open_parts(made, &in);
  if (rc == 0 && (rc = udp_endpoint_join_worker(worker, made)) != 0)
    UDP_TELL(made, PST_LOG_ERROR, "the socket cannot be watched: %s", strerror(-rc));
  if (rc < 0) {
    udp_endpoint_free(made);
    return rc;
  }
  *endpoint = made;
  return 0;
}

void udp_endpoint_free(struct pst_endpoint *endpoint)
{
  udp_rx_close(endpoint);
  udp_tx_close(endpoint);
  if (endpoint->fd >= 0)
    close(endpoint->fd);
  pst_cpu_endpoint_end(&endpoint->dg.cpu);
  free(endpoint);
}

int udp_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  (void)endpoint;
  udp_path_fill(path);
  return 0;
}
