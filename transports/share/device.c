/* SPDX-License-Identifier: Apache-2.0 */
/* The device and registered memory. */
#include <sys/socket.h>
#include <unistd.h>

#include "device.h"

/* The token of the options, if there is one. */
static int share_read_token(struct pst_device *device, const struct pst_options *options,
                            char token[PST_SHARE_TOKEN])
{
  const struct pst_host *host = device->host;

  if (!host->option_is_set(options, "token"))
    return 0;
  const char *path = host->option_string(options, "token");
  const int rc = pst_share_read_token(path, token);
  return rc == 0 ? 0 : PST_REFUSE(host, rc, "token %s: %s", path, pst_share_token_problem(rc));
}

int share_ask_open(struct pst_device *device, bool restores, struct pst_limits *limits)
{
  struct share_call call = {.device = device, .request = &device->open, .restores = restores};

  const int rc = share_ask(&call);
  if (rc < 0)
    return rc;
  *limits = call.reply.u.limits;
  if (!limits->slot_alignment || (limits->slot_alignment & (limits->slot_alignment - 1)) ||
      limits->address_max > UINT32_MAX - sizeof(struct share_hello))
    return share_distrust(device);
  return 0;
}

int share_ask_start(struct pst_device *device, bool restores)
{
  const struct pst_share_request request = {.call = PST_SHARE_START};
  struct share_call call = {.device = device, .request = &request, .restores = restores};
  const int rc = share_ask(&call);

  return rc == -EOPNOTSUPP ? 0 : rc; /* the router's transport has no start() */
}

/* The limits that the host gets. 0, or -errno: the option reconnect does not go with them. */
static int share_take_limits(struct pst_device *device)
{
  struct pst_limits *limits = &device->limits;

  *limits = device->router_limits;
  limits->endpoints_reason[sizeof(limits->endpoints_reason) - 1] = '\0';
  limits->ring_needs |= PST_NEED_EXPORT_FD;
  limits->send_needs |= PST_NEED_EXPORT_FD;
  limits->address_max += (uint32_t)sizeof(struct share_hello);
  if (device->reconnect_ns && !(limits->capabilities & PST_CAP_DYNAMIC))
    return PST_REFUSE(device->host, -EOPNOTSUPP,
                      "the router's transport cannot open endpoints after its start, so no "
                      "connection can be re-established after a restart; leave out the option "
                      "reconnect");
  return 0;
}

/* Connects to the router, and opens a device there. */
int share_open(const struct pst_host *host, const struct pst_open_params *params,
               struct pst_device **device)
{
  struct pst_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  made->host = host;
  made->fd = -1;
  made->router_uid = host->option_is_set(params->options, "router_uid")
                         ? host->option_uint(params->options, "router_uid")
                         : UINT64_MAX;
  made->timeout_ns = host->option_uint(params->options, "timeout");
  made->wait_ns = host->option_uint(params->options, "wait");
  made->reconnect_ns = host->option_uint(params->options, "reconnect");
  made->open.call = PST_SHARE_OPEN;
  pst_text_write(made->socket, sizeof(made->socket),
                 host->option_string(params->options, "socket"));
  pthread_mutex_init(&made->lock, NULL);
  pthread_mutex_init(&made->objects_lock, NULL);
  made->last_link = 1;
  atomic_store(&made->link, 1);
  pst_struct_read(&made->open.u.open.plan, sizeof(made->open.u.open.plan), params->plan);
  if (params->local_address)
    pst_text_write(made->open.u.open.local_address, sizeof(made->open.u.open.local_address),
                   params->local_address);
  int rc = share_read_token(made, params->options, made->open.u.open.token);
  if (rc == 0)
    rc = share_connect(made);
  if (rc == 0)
    rc = share_ask_open(made, false, &made->router_limits);
  if (rc == 0)
    rc = share_take_limits(made);
  if (rc < 0) {
    share_close(made);
    return rc;
  }
  if (!made->reconnect_ns) /* nobody asks for it again */
    memset(made->open.u.open.token, 0, sizeof(made->open.u.open.token));
  *device = made;
  return 0;
}

void share_close(struct pst_device *device)
{
  if (!device)
    return;
  if (device->fd >= 0)
    close(device->fd);
  while (device->names) {
    struct share_name *name = device->names;
    device->names = name->next;
    free(name);
  }
  share_kept_free(&device->kept);
  pthread_mutex_destroy(&device->objects_lock);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

int share_limits(struct pst_device *device, struct pst_limits *limits)
{
  pst_struct_write(limits, &device->limits, sizeof(device->limits));
  return 0;
}

int share_start(struct pst_device *device)
{
  device->is_started = true;
  return share_ask_start(device, false);
}

/* ---- Registered memory --------------------------------------------------------------------------
 */

/* The descriptors by which the router can have the region: enum pst_export_kind bits. Each of them
 * keeps the memory; a handle of the vendor does not. */
static uint32_t share_mr_export_kinds(const struct pst_device *device,
                                      const struct pst_region *region)
{
  const uint32_t needs = device->limits.ring_needs | device->limits.send_needs;

  if (region->host)
    return region->exports & PST_EXPORT_FD;
  return region->exports & ((needs & PST_NEED_EXPORT_DMABUF ? (uint32_t)PST_EXPORT_DMABUF : 0u) |
                            (uint32_t)PST_EXPORT_VENDOR_FD);
}

/* Registers the range with the router. Its answer's path is in *call. */
static int share_mr_hand_over(struct pst_device *device, const struct pst_mr_params *params,
                              uint32_t kind, struct share_call *call,
                              struct pst_share_request *request)
{
  struct pst_export *from = &request->u.mr.from;

  *from = (struct pst_export){.struct_size = sizeof(*from), .fd = -1};
  int rc = device->host->region_export(device->host, params->region, kind, params->offset,
                                       params->length, from);
  if (rc < 0)
    return rc;
  const int fd = from->fd;
  call->fds = &fd;
  call->fd_count = 1;
  rc = share_call(call);
  if (rc == 0 || rc == -EOPNOTSUPP)
    share_path_write(params->path, &call->reply.u.path);
  share_close_fds(call->reply_fds, call->reply_fd_count);
  close(fd);
  return rc;
}

/* By the first kind that the router's transport takes: an adapter reaches a dma-buf without any
 * driver of the GPU in the router. */
static int share_mr_hand_over_any(struct pst_device *device, const struct pst_mr_params *params,
                                  const struct pst_region *region, struct share_call *call,
                                  struct pst_share_request *request)
{
  static const uint32_t kinds[] = {PST_EXPORT_FD, PST_EXPORT_DMABUF, PST_EXPORT_VENDOR_FD};
  const uint32_t usable = share_mr_export_kinds(device, region);
  int rc = -EOPNOTSUPP;

  if (!usable)
    pst_path_write(params->path, PST_PATH_NONE, "", "",
                   region->host ? "this memory has no descriptor to pass to the router; use memory "
                                  "host with `backing: memfd`"
                                : "this memory has no descriptor to pass to the router; use "
                                  "memory cuda with `allocator: vmm`");
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && rc == -EOPNOTSUPP; i++)
    if (usable & kinds[i])
      rc = share_mr_hand_over(device, params, kinds[i], call, request);
  return rc;
}

/* Registers mr->params with the router, and stores the number. */
static int share_mr_ask(struct pst_device *device, struct pst_mr *mr, struct pst_path_info *path,
                        bool restores)
{
  struct pst_mr_params params = mr->params;
  struct pst_region region;
  struct pst_share_request request = {.call = PST_SHARE_MR_REGISTER};
  struct share_call call = {.device = device, .request = &request, .restores = restores};

  params.path = path;
  pst_struct_read(&region, sizeof(region), params.region);
  request.u.mr = (struct pst_share_mr){.length = params.length,
                                       .domain = params.domain,
                                       .send_max = params.send_max,
                                       .access = params.access};
  const int rc = share_mr_hand_over_any(device, &params, &region, &call, &request);
  if (rc == 0)
    atomic_store_explicit(&mr->number, call.reply.object, memory_order_relaxed);
  return rc;
}

int share_mr_restore(struct pst_device *device, struct pst_mr *mr)
{
  struct pst_path_info path = {.struct_size = sizeof(path)};

  const int rc = share_mr_ask(device, mr, &path, true);
  if (rc == -EOPNOTSUPP)
    return PST_REFUSE(device->host, rc, "the router no longer accepts this program's memory: %s",
                      path.reason);
  return rc;
}

int share_mr_register(struct pst_device *device, const struct pst_mr_params *caller,
                      struct pst_mr **mr)
{
  struct pst_mr_params params;
  struct pst_region region;

  pst_struct_read(&params, sizeof(params), caller);
  pst_struct_read(&region, sizeof(region), params.region);
  int rc =
      pst_mr_params_check(device->host, &params, &region, params.length ? NULL : "it has no bytes");
  struct pst_mr *made = rc == 0 ? calloc(1, sizeof(*made)) : NULL;
  if (!made)
    return rc < 0 ? rc : -ENOMEM;
  made->params = params;
  made->params.path = NULL;
  made->access = params.access;
  made->length = params.length;
  pthread_mutex_lock(&device->objects_lock);
  rc = share_mr_ask(device, made, params.path, false);
  if (rc == 0) {
    made->next = device->mrs;
    device->mrs = made;
  }
  pthread_mutex_unlock(&device->objects_lock);
  if (rc < 0) {
    free(made);
    return rc;
  }
  *mr = made;
  return 0;
}

void share_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  struct pst_mr **at = &device->mrs;

  pthread_mutex_lock(&device->objects_lock);
  while (*at != mr)
    at = &(*at)->next;
  *at = mr->next;
  const struct pst_share_request request = {.call = PST_SHARE_MR_DEREGISTER, .object = mr->number};
  share_ask(&(struct share_call){.device = device, .request = &request});
  pthread_mutex_unlock(&device->objects_lock);
  share_close_fds(mr->fds, mr->fd_count);
  free(mr);
}

int share_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob)
{
  struct pst_share_request request = {.call = PST_SHARE_MR_PACK};
  struct share_call call = {.device = device,
                            .request = &request,
                            .reply_bytes = blob->bytes,
                            .reply_room = blob->capacity};

  pthread_mutex_lock(&device->objects_lock);
  request.object = mr->number;
  int rc = share_call(&call);
  pthread_mutex_unlock(&device->objects_lock);
  if (rc < 0)
    return rc;
  blob->length = call.reply.length;
  share_close_fds(mr->fds, mr->fd_count);
  mr->fd_count = blob->fd_count = call.reply_fd_count;
  for (uint32_t i = 0; i < mr->fd_count; i++)
    mr->fds[i] = blob->fds[i] = call.reply_fds[i];
  return 0;
}
