/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_cm's channel and listener of a worker. */
#include <fcntl.h>
#include <sys/epoll.h>

#include "cm_internal.h"

#define BACKLOG 1024 /* the kernel's own limit on it by default */

int rc_cm_check(const struct pst_device *device)
{
  if (device->open.port->is_ethernet)
    return 0;
  VB_LOG(device, PST_LOG_ERROR,
         "%s port %u is InfiniBand: connection: rdma_cm is made for RoCE, whose GIDs are IP "
         "addresses; take `connection: exchange`",
         device->open.info->name, device->open.port->number);
  return -EOPNOTSUPP;
}

int rc_cm_worker_open(struct pst_worker *worker, uint32_t index)
{
  struct pst_device *device = worker->device;
  struct rc_cm_worker *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  worker->own = made;
  made->index = index;
  made->channel = rdma_create_event_channel();
  struct epoll_event event = {.events = EPOLLIN, .data.fd = made->channel ? made->channel->fd : -1};
  if (made->channel && fcntl(made->channel->fd, F_SETFL, O_NONBLOCK) == 0 &&
      epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, made->channel->fd, &event) == 0)
    return 0;
  const int code = errno;
  VB_LOG(device, PST_LOG_ERROR,
         "connection: rdma_cm: no channel to the kernel's connection manager: %s; load its module "
         "(`modprobe rdma_ucm`), hand /dev/infiniband/rdma_cm to the container, or take "
         "`connection: exchange`",
         strerror(code));
  return vb_call_error(code);
}

void rc_cm_worker_close(struct pst_worker *worker)
{
  struct rc_cm_worker *cm = worker->own;

  if (cm->listener)
    rdma_destroy_id(cm->listener);
  if (cm->channel)
    rdma_destroy_event_channel(cm->channel);
  free(cm);
  worker->own = NULL;
}

struct sockaddr *rc_cm_address(const struct pst_endpoint *endpoint, const uint8_t gid[16],
                               uint16_t port, struct sockaddr_storage *to)
{
  struct sockaddr_in *v4 = (struct sockaddr_in *)to;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

  memset(to, 0, sizeof(*to));
  if (vb_gid_is_ipv4(gid)) {
    v4->sin_family = AF_INET;
    v4->sin_port = htobe16(port);
    memcpy(&v4->sin_addr, gid + 12, 4);
    return (struct sockaddr *)to;
  }
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htobe16(port);
  memcpy(&v6->sin6_addr, gid, 16);
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
    v6->sin6_scope_id = endpoint->rc->where.gid.netdev;
  return (struct sockaddr *)to;
}

bool rc_cm_is_ours(const struct pst_device *device, const struct rdma_cm_id *id)
{
  return id->verbs && id->port_num == device->open.port->number &&
         strcmp(ibv_get_device_name(id->verbs->device), device->open.info->name) == 0;
}

static int rc_cm_listen_refuse_listening(const struct pst_endpoint *endpoint, uint16_t port,
                                         int error)
{
  const struct pst_device *device = endpoint->device;
  char address[VB_GID_TEXT];

  vb_gid_address(endpoint->rc->where.gid.raw, address);
  if (error == EADDRINUSE)
    VB_LOG(device, PST_LOG_ERROR,
           "%s: port %u of %s is in use by another listener of rdma_cm (`rdma resource show cm_id` "
           "names its process): set `cm_port` to another, or to 0 for any that is free",
           endpoint->label, port, address);
  else
    VB_LOG(
        device, PST_LOG_ERROR,
        "%s: rdma_cm cannot listen at %s, port %u: %s; check that the address is up on %s's netdev "
        "(`ip addr`, `rdma link`)",
        endpoint->label, address, port, strerror(error), device->open.info->name);
  return -error;
}

int rc_cm_listen(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->device;
  struct rc_cm_worker *cm = endpoint->worker->own;
  uint32_t port = device->cm_port ? device->cm_port + cm->index : 0;
  struct sockaddr_storage own;
  struct rdma_cm_id *id;

  if (port > UINT16_MAX)
    return rc_cm_listen_refuse_listening(endpoint, device->cm_port, ERANGE);
  if (rdma_create_id(cm->channel, &id, NULL, RDMA_PS_TCP) != 0)
    return rc_cm_listen_refuse_listening(endpoint, (uint16_t)port, errno);
  int error = 0;
  if (rdma_bind_addr(
          id, rc_cm_address(endpoint, endpoint->rc->where.gid.raw, (uint16_t)port, &own)) != 0)
    error = errno;
  else if (!rc_cm_is_ours(device, id))
    error = EXDEV;
  else if (rdma_listen(id, BACKLOG) != 0)
    error = errno;
  if (error) {
    rdma_destroy_id(id);
    return rc_cm_listen_refuse_listening(endpoint, (uint16_t)port, error);
  }
  cm->listener = id;
  cm->port = be16toh(rdma_get_src_port(id));
  return 0;
}
