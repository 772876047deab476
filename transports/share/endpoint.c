/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, and memory of peers that was offered. */
#include "worker.h"

static struct pst_share_request share_endpoint_request(const struct pst_endpoint *endpoint,
                                                       uint32_t call)
{
  return (struct pst_share_request){
      .call = call, .worker = endpoint->worker->number, .object = endpoint->number};
}

void share_endpoint_free(struct pst_endpoint *endpoint)
{
  while (endpoint->remotes) {
    struct pst_remote *remote = endpoint->remotes;
    endpoint->remotes = remote->next;
    free(remote);
  }
  for (uint32_t i = 0; i < SHARE_OPCODES; i++)
    free(endpoint->cookies[i].at);
  for (struct pst_endpoint **at = &endpoint->worker->all; *at; at = &(*at)->next)
    if (*at == endpoint) {
      *at = endpoint->next;
      break;
    }
  share_renew_forget(endpoint);
  share_kept_free(&endpoint->kept);
  share_close_fds(endpoint->fds, endpoint->fd_count);
  free(endpoint);
}

static int share_endpoint_make_cookies(struct pst_endpoint *endpoint)
{
  uint64_t size = 1;

  while (size < endpoint->requests)
    size <<= 1;
  endpoint->mask = (uint32_t)size - 1;
  for (uint32_t i = PST_OP_SEND; i < SHARE_OPCODES && endpoint->requests; i++) {
    const bool posts = i == PST_OP_FLUSH ||
                       (endpoint->roles & (i == PST_OP_SEND ? PST_ROLE_SENDER : PST_ROLE_RMA));
    if (!posts)
      continue;
    endpoint->cookies[i].at = calloc(size, sizeof(uint64_t));
    if (!endpoint->cookies[i].at)
      return -ENOMEM;
  }
  return 0;
}

int share_endpoint_ask_open(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  struct pst_share_request request = {
      .call = PST_SHARE_ENDPOINT_OPEN, .worker = worker->number, .u.endpoint = endpoint->asked};
  struct share_call call = {.device = worker->device, .link = worker->link, .request = &request};

  request.u.endpoint.ring = endpoint->ring ? endpoint->ring->number + 1 : 0;
  request.u.endpoint.mr = endpoint->mr ? endpoint->mr->number : 0;
  share_release_flush(worker); /* first: the endpoint may need the slots that this frees */
  const int rc = share_ask(&call);
  if (rc < 0)
    return rc;
  const uint32_t place = (call.reply.object - 1) & PST_PLACE_MASK;
  if (!call.reply.object || place >= PST_SHARE_ENDPOINTS || worker->endpoints[place])
    return -EPROTO;
  endpoint->number = call.reply.object;
  endpoint->opened++;
  worker->endpoints[place] = endpoint;
  return 0;
}

/* Opens an endpoint here and at the router. */
int share_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *caller,
                        struct pst_endpoint **endpoint)
{
  struct pst_endpoint_params params;

  pst_struct_read(&params, sizeof(params), caller);
  int rc = pst_endpoint_params_check(worker->device->host, &params,
                                     params.ring ? params.ring->payload_max : 0,
                                     &worker->device->limits, NULL);
  struct pst_endpoint *made = rc == 0 ? calloc(1, sizeof(*made)) : NULL;
  if (!made)
    return rc < 0 ? rc : -ENOMEM;
  made->worker = worker;
  made->ring = params.ring;
  made->mr = params.mr;
  made->cookie = params.cookie;
  made->roles = params.roles;
  made->returns = worker->device->reconnect_ns && !(params.roles & PST_ROLE_RMA);
  made->requests = params.requests;
  made->pieces = params.pieces ? params.pieces : 1;
  made->message_max = params.message_max;
  made->asked = (struct pst_share_endpoint){.message_max = params.message_max,
                                            .timeout_ns = params.timeout_ns,
                                            .domain = params.domain,
                                            .roles = params.roles,
                                            .requests = params.requests,
                                            .pieces = params.pieces,
                                            .is_foreign = params.is_foreign};
  if (params.label)
    pst_text_write(made->asked.label, sizeof(made->asked.label), params.label);
  if (!share_is_up(worker)) /* a router may serve again, and no poll has been since */
    share_worker_away(worker);
  rc = share_endpoint_make_cookies(made);
  if (rc == 0)
    rc = share_endpoint_ask_open(made);
  if (rc < 0) {
    share_endpoint_free(made);
    return rc;
  }
  made->next = worker->all;
  worker->all = made;
  *endpoint = made;
  return 0;
}

/* Keeps descriptors of addresses, which the host uses as long as the endpoint lives. */
static void share_endpoint_keep_fds(struct pst_endpoint *endpoint, const int *fds, uint32_t count)
{
  uint32_t dropped = 0;

  if (endpoint->fd_count + count > SHARE_KEPT_FDS)
    dropped = endpoint->fd_count + count - SHARE_KEPT_FDS;
  share_close_fds(endpoint->fds, dropped);
  endpoint->fd_count -= dropped;
  memmove(endpoint->fds, endpoint->fds + dropped, endpoint->fd_count * sizeof(int));
  memcpy(endpoint->fds + endpoint->fd_count, fds, count * sizeof(int));
  endpoint->fd_count += count;
}

int share_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  const struct share_hello hello = {
      .epoch = endpoint->epoch, .sent = endpoint->sent, .next = endpoint->next_sequence};
  const struct pst_share_request request =
      share_endpoint_request(endpoint, PST_SHARE_ENDPOINT_ADDRESS);
  struct share_call call = {.device = endpoint->worker->device,
                            .link = share_endpoint_link(endpoint),
                            .request = &request,
                            .reply_bytes = (char *)address->bytes + sizeof(hello)};

  if (address->capacity < sizeof(hello))
    return -ENOSPC;
  call.reply_room = address->capacity - (uint32_t)sizeof(hello);
  int rc = share_call(&call);
  if (rc < 0)
    return rc;
  memcpy(address->bytes, &hello, sizeof(hello));
  address->length = (uint32_t)sizeof(hello) + call.reply.length;
  address->fd_count = call.reply_fd_count;
  for (uint32_t i = 0; i < call.reply_fd_count; i++)
    address->fds[i] = call.reply_fds[i];
  share_endpoint_keep_fds(endpoint, call.reply_fds, call.reply_fd_count);
  return 0;
}

/* Sends a request with a blob. */
static int share_endpoint_ask(struct pst_endpoint *endpoint, uint32_t kind,
                              const struct pst_blob *blob, uint32_t *object)
{
  struct pst_share_request request = share_endpoint_request(endpoint, kind);
  struct share_call call = {.device = endpoint->worker->device,
                            .link = share_endpoint_link(endpoint),
                            .request = &request};

  if (blob) {
    request.flag = 1;
    request.length = blob->length;
    call.bytes = blob->bytes;
    call.fds = blob->fds;
    call.fd_count = blob->fd_count < PST_SHARE_FDS ? blob->fd_count : PST_SHARE_FDS;
  }
  const int rc = share_ask(&call);
  if (rc >= 0 && object)
    *object = call.reply.object;
  return rc;
}

int share_endpoint_ask_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  const int rc = share_endpoint_ask(endpoint, PST_SHARE_ENDPOINT_CONNECT, address, NULL);

  endpoint->is_connecting = rc == 0 && !endpoint->is_connected;
  return rc;
}

int share_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  return share_renew_connect(endpoint, address);
}

int share_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  const struct pst_share_request request =
      share_endpoint_request(endpoint, PST_SHARE_ENDPOINT_PATH);
  struct share_call call = {.device = endpoint->worker->device,
                            .link = share_endpoint_link(endpoint),
                            .request = &request};

  const int rc = share_ask(&call);
  if (rc == 0)
    share_path_write(path, &call.reply.u.path);
  return rc;
}

int share_endpoint_ask_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  struct pst_share_request request = share_endpoint_request(endpoint, PST_SHARE_ENDPOINT_CLOSE);
  struct share_call call = {.device = endpoint->worker->device,
                            .link = share_endpoint_link(endpoint),
                            .request = &request};

  request.u.close.mode = mode;
  request.u.close.deadline_ns = deadline_ns;
  return share_ask(&call);
}

int share_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  if (mode != PST_CLOSE_DRAIN && mode != PST_CLOSE_ABORT)
    return -EINVAL;
  if (endpoint->is_closing)
    return -EALREADY;
  endpoint->is_closing = true;
  endpoint->worker->is_unsettled = true;
  if (endpoint->is_renewing)
    return 0; /* the router closes it already */
  const int rc = share_endpoint_ask_close(endpoint, mode, deadline_ns);
  return rc == -ENOTCONN ? 0 : rc; /* if the router is gone, CLOSED comes from here */
}

bool share_endpoint_done(struct pst_endpoint *endpoint, struct pst_completion *done)
{
  if (done->code >= SHARE_OPCODES)
    return false;
  struct share_cookies *cookies = &endpoint->cookies[done->code];
  if (done->u.done.count == 0 || done->u.done.count > cookies->tail - cookies->head)
    return false;
  cookies->head += (uint32_t)done->u.done.count;
  endpoint->outstanding -= (uint32_t)done->u.done.count;
  done->u.done.cookie = cookies->at[(cookies->head - 1) & endpoint->mask];
  return true;
}

uint32_t share_endpoint_end(struct pst_endpoint *endpoint, uint32_t opcode, int status,
                            struct pst_completion *out, uint32_t max)
{
  const bool runs = opcode == PST_OP_SEND || opcode == PST_OP_WRITE;
  uint32_t n = 0;

  for (uint32_t left; n < max && (left = share_outstanding(endpoint, opcode)) > 0; n++) {
    out[n] = (struct pst_completion){.kind = PST_COMPLETION_DONE,
                                     .code = (uint8_t)opcode,
                                     .status = status,
                                     .endpoint = endpoint->cookie};
    out[n].u.done.count = runs ? left : 1;
    share_endpoint_done(endpoint, &out[n]);
  }
  return n;
}

int share_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct pst_share_request request = share_endpoint_request(endpoint, PST_SHARE_DESCRIBE);
  struct share_call call = {.device = endpoint->worker->device,
                            .link = share_endpoint_link(endpoint),
                            .request = &request,
                            .reply_bytes = text,
                            .reply_room = (uint32_t)(size < 4096 ? size : 4096),
                            .is_cut = true};

  const int rc = share_ask(&call);
  if (rc >= 0 && call.reply.length)
    text[call.reply.length - 1] = '\0';
  return rc;
}

/* ---- Peers' ranges
 * ---------------------------------------------------------------------------------- */

int share_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                      struct pst_remote **remote)
{
  struct pst_remote *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  int rc = share_endpoint_ask(endpoint, PST_SHARE_REMOTE_OPEN, blob, &made->number);
  if (rc < 0) {
    free(made);
    return rc;
  }
  made->endpoint = endpoint;
  made->next = endpoint->remotes;
  endpoint->remotes = made;
  *remote = made;
  return 0;
}

void share_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  struct pst_share_request request = share_endpoint_request(endpoint, PST_SHARE_REMOTE_CLOSE);

  request.remote = remote->number;
  share_ask(&(struct share_call){.device = endpoint->worker->device,
                                 .link = share_endpoint_link(endpoint),
                                 .request = &request});
  for (struct pst_remote **at = &endpoint->remotes; *at; at = &(*at)->next)
    if (*at == remote) {
      *at = remote->next;
      break;
    }
  free(remote);
}
