/* SPDX-License-Identifier: Apache-2.0 */
/* The device, registered memory and counters; the plugin's entry. */
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"

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

int share_open(const struct pst_host *host, const struct pst_open_params *params,
               struct pst_device **device)
{
  struct pst_device *made = calloc(1, sizeof(*made));
  struct pst_share_request request = {.call = PST_SHARE_OPEN};
  struct pst_share_reply reply;

  if (!made)
    return -ENOMEM;
  made->host = host;
  made->fd = -1;
  made->router_uid = host->option_is_set(params->options, "router_uid")
                         ? host->option_uint(params->options, "router_uid")
                         : UINT64_MAX;
  made->timeout_ns = host->option_uint(params->options, "timeout");
  made->wait_ns = host->option_uint(params->options, "wait");
  pst_text_write(made->socket, sizeof(made->socket),
                 host->option_string(params->options, "socket"));
  pthread_mutex_init(&made->lock, NULL);
  pst_struct_read(&request.u.open.plan, sizeof(request.u.open.plan), params->plan);
  if (params->local_address)
    pst_text_write(request.u.open.local_address, sizeof(request.u.open.local_address),
                   params->local_address);
  int rc = share_read_token(made, params->options, request.u.open.token);
  if (rc == 0)
    rc = share_connect(made);
  if (rc == 0)
    rc = share_ask(made, &request, &reply);
  if (rc == 0 && (!reply.u.limits.slot_alignment ||
                  (reply.u.limits.slot_alignment & (reply.u.limits.slot_alignment - 1))))
    rc = share_distrust(made);
  if (rc < 0) {
    share_close(made);
    return rc;
  }
  made->limits = reply.u.limits;
  made->limits.endpoints_reason[sizeof(made->limits.endpoints_reason) - 1] = '\0';
  made->limits.ring_needs |= PST_NEED_EXPORT_FD;
  made->limits.send_needs |= PST_NEED_EXPORT_FD;
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
  const struct pst_share_request request = {.call = PST_SHARE_START};

  return share_ask(device, &request, NULL);
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
                   region->host ? "the memory has no descriptor by which the router can have it; "
                                  "memory host with `backing: memfd` has"
                                : "the memory has no descriptor by which the router can have it; "
                                  "memory cuda with `allocator: vmm` has");
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && rc == -EOPNOTSUPP; i++)
    if (usable & kinds[i])
      rc = share_mr_hand_over(device, params, kinds[i], call, request);
  return rc;
}

int share_mr_register(struct pst_device *device, const struct pst_mr_params *caller,
                      struct pst_mr **mr)
{
  struct pst_mr_params params;
  struct pst_region region;
  struct pst_share_request request = {.call = PST_SHARE_MR_REGISTER};
  struct share_call call = {.device = device, .request = &request};

  pst_struct_read(&params, sizeof(params), caller);
  pst_struct_read(&region, sizeof(region), params.region);
  int rc =
      pst_mr_params_check(device->host, &params, &region, params.length ? NULL : "it has no bytes");
  struct pst_mr *made = rc == 0 ? calloc(1, sizeof(*made)) : NULL;
  if (!made)
    return rc < 0 ? rc : -ENOMEM;
  request.u.mr = (struct pst_share_mr){.length = params.length,
                                       .domain = params.domain,
                                       .send_max = params.send_max,
                                       .access = params.access};
  rc = share_mr_hand_over_any(device, &params, &region, &call, &request);
  if (rc < 0) {
    free(made);
    return rc;
  }
  made->number = call.reply.object;
  made->access = params.access;
  made->length = params.length;
  *mr = made;
  return 0;
}

void share_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  const struct pst_share_request request = {.call = PST_SHARE_MR_DEREGISTER, .object = mr->number};

  share_ask(device, &request, NULL);
  share_close_fds(mr->fds, mr->fd_count);
  free(mr);
}

int share_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob)
{
  const struct pst_share_request request = {.call = PST_SHARE_MR_PACK, .object = mr->number};
  struct share_call call = {.device = device,
                            .request = &request,
                            .reply_bytes = blob->bytes,
                            .reply_room = blob->capacity};

  int rc = share_call(&call);
  if (rc < 0)
    return rc;
  blob->length = call.reply.length;
  share_close_fds(mr->fds, mr->fd_count);
  mr->fd_count = blob->fd_count = call.reply_fd_count;
  for (uint32_t i = 0; i < mr->fd_count; i++)
    mr->fds[i] = blob->fds[i] = call.reply_fds[i];
  return 0;
}

/* ---- Counters
 * --------------------------------------------------------------------------------------- */

/* Keeps a copy of a name; NULL: it is "", or memory ran out. Call with the lock. */
static const char *share_name_of(struct pst_device *device, const char *text)
{
  struct share_name *name;

  if (!*text)
    return NULL;
  for (name = device->names; name; name = name->next)
    if (strcmp(name->text, text) == 0)
      return name->text;
  name = malloc(sizeof(*name) + strlen(text) + 1);
  if (!name)
    return NULL;
  memcpy(name->text, text, strlen(text) + 1);
  name->next = device->names;
  device->names = name;
  return name->text;
}

int share_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_value values[PST_SHARE_COUNTERS_MAX];
  const struct pst_share_request request = {.call = PST_SHARE_COUNTERS,
                                            .worker = endpoint ? endpoint->worker->number
                                                      : worker ? worker->number
                                                               : 0,
                                            .object = endpoint ? endpoint->number : 0,
                                            .flag = endpoint ? PST_SHARE_OF_ENDPOINT
                                                    : worker ? PST_SHARE_OF_WORKER
                                                             : PST_SHARE_OF_DEVICE};
  struct share_call call = {
      .device = device, .request = &request, .reply_bytes = values, .reply_room = sizeof(values)};

  int rc = share_call(&call);
  share_close_fds(call.reply_fds, call.reply_fd_count);
  const uint32_t count = rc > 0 ? call.reply.length / (uint32_t)sizeof(values[0]) : 0;
  pthread_mutex_lock(&device->lock);
  for (uint32_t i = 0; i < count && i < max; i++) {
    values[i].name[sizeof(values[i].name) - 1] = '\0';
    values[i].cause[sizeof(values[i].cause) - 1] = '\0';
    const char *name = share_name_of(device, values[i].name);
    counters[i] = (struct pst_counter){.name = name ? name : "",
                                       .cause = share_name_of(device, values[i].cause),
                                       .value = values[i].value,
                                       .flags = values[i].flags};
  }
  pthread_mutex_unlock(&device->lock);
  return (int)count;
}

/* ---- The entry ------------------------------------------------------------------------- */

static int share_probe(const struct pst_host *host, struct pst_probe *probe)
{
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const int rc = fd < 0 ? -errno : 0;

  (void)host;
  if (rc < 0) {
    pst_text_write(probe->reason, sizeof(probe->reason), "no Unix socket can be opened");
    pst_text_write(probe->remedy, sizeof(probe->remedy),
                   "allow socket(AF_UNIX, SOCK_SEQPACKET) in the sandbox");
    return rc;
  }
  close(fd);
  return 0;
}

/* Capabilities that a client can have; the router's transport decides which of these it has. */
#define SHARE_CAPABILITIES                                                                         \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_META | PST_CAP_TIME | PST_CAP_SHARED_RING |        \
   PST_CAP_WAKEUP | PST_CAP_DYNAMIC | PST_CAP_DEVICE_RMA | PST_CAP_DESCRIPTORS |                   \
   PST_CAP_DEPARTURE | PST_CAP_TWO_SIDED | PST_CAP_QUEUES)

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = SHARE_CAPABILITIES,
    .open = share_open,
    .close = share_close,
    .limits = share_limits,
    .mr_register = share_mr_register,
    .mr_deregister = share_mr_deregister,
    .mr_pack = share_mr_pack,
    .remote_open = share_remote_open,
    .remote_close = share_remote_close,
    .worker_open = share_worker_open,
    .worker_close = share_worker_close,
    .arm = share_arm,
    .event_fd = share_event_fd,
    .ring_open = share_ring_open,
    .ring_close = share_ring_close,
    .endpoint_open = share_endpoint_open,
    .endpoint_address = share_endpoint_address,
    .endpoint_connect = share_endpoint_connect,
    .endpoint_path = share_endpoint_path,
    .post = share_post,
    .poll = share_poll,
    .release = share_release,
    .counters = share_counters,
    .describe = share_describe,
    .start = share_start,
    .endpoint_close = share_endpoint_close,
};

PST_PLUGIN(share_probe, &ops);
