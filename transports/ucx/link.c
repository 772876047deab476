/* SPDX-License-Identifier: Apache-2.0 */
/* Links: a ucp_worker with one ucp_ep, from endpoint_open to after CLOSED. */
#include "link.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "am.h"
#include "fail.h"
#include "status.h"
#include "watch.h"

static void free_remotes(struct ucx_link *link);

static void destroy(void *arg)
{
  struct ucx_link *link = arg;

  if (link->ucp)
    ucx_link_settle(link);
  free_remotes(link);
  if (link->ucp)
    ucp_worker_destroy(link->ucp);
  ucx_watch_end(link->pidfd);
  ucx_ams_close(link);
  free(link->arrivals);
  free(link->ops);
  free(link);
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
  (void)ep;
  ucx_link_fail(arg, status, "the connection");
}

static int open_ucp(struct ucx_link *link, const char *label, ucp_am_recv_callback_t receive)
{
  struct pst_worker *worker = link->worker;
  const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SERIALIZED};
  const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = UCX_AM_ID,
                                          .cb = receive,
                                          .arg = link};
  ucs_status_t status = ucp_worker_create(worker->device->context, &params, &link->ucp);

  if (status != UCS_OK)
    link->ucp = NULL;
  else
    status = ucp_worker_set_am_recv_handler(link->ucp, &handler);
  if (status == UCS_OK && worker->sleep_fd >= 0)
    status = ucp_worker_get_efd(link->ucp, &link->efd);
  if (status != UCS_OK)
    return PST_REFUSE(worker->device->host, ucx_status_errno(status),
                      "%s: UCX opens no worker: %s; %s", label, ucs_status_string(status),
                      ucx_status_remedy(status));
  return 0;
}

int ucx_link_open(struct pst_worker *worker, const char *label, ucp_am_recv_callback_t receive,
                  bool with_payload, struct ucx_link **made)
{
  struct ucx_link *link = calloc(1, sizeof(*link));
  int rc;

  if (!link)
    return -ENOMEM;
  link->worker = worker;
  link->pidfd = -1;
  link->efd = -1;
  rc = ucx_ams_open(link, with_payload);
  if (rc == 0)
    rc = open_ucp(link, label, receive);
  if (rc < 0) {
    destroy(link);
    return rc;
  }
  *made = link;
  return 0;
}

int ucx_link_connect(struct ucx_link *link, const ucp_address_t *address)
{
  const ucp_ep_params_t params = {
      .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                    UCP_EP_PARAM_FIELD_ERR_HANDLER,
      .address = address,
      .err_mode = link->peer_mode ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
      .err_handler = {.cb = failed, .arg = link},
  };
  const int sleep_fd = link->worker->sleep_fd;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
  ucs_status_t status = ucp_ep_create(link->ucp, &params, &link->ep);

  if (status == UCS_OK && sleep_fd >= 0 &&
      epoll_ctl(sleep_fd, EPOLL_CTL_ADD, link->efd, &event) != 0)
    return UCX_REFUSE(link->endpoint, -errno, "epoll takes no more descriptors: %s",
                      strerror(errno));
  if (status == UCS_OK)
    return 0;
  link->ep = NULL;
  return UCX_REFUSE(link->endpoint, ucx_status_errno(status),
                    "UCX makes no connection to the peer: %s; %s", ucs_status_string(status),
                    ucx_status_remedy(status));
}

/* ---- After CLOSED ------------------------------------------------------------------------ */

static void free_remotes(struct ucx_link *link)
{
  while (link->remotes) {
    struct pst_remote *remote = link->remotes;
    link->remotes = remote->next;
    if (remote->rkey)
      ucp_rkey_destroy(remote->rkey);
    free(remote);
  }
}

/* Before destroy(), on the worker's thread. */
static void release(struct ucx_link *link)
{
  const struct pst_worker *worker = link->worker;

  ucx_watch_forget(worker->watch_fd, link->pidfd);
  if (link->efd >= 0)
    epoll_ctl(worker->sleep_fd, EPOLL_CTL_DEL, link->efd, NULL);
  if (link->ep && link->peer_mode) {
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request = ucp_ep_close_nbx(link->ep, &force);
    if (UCS_PTR_IS_PTR(request))
      ucp_request_free(request);
    link->ep = NULL;
  }
}

static bool is_untold(const struct ucx_link *link)
{
  return link->owes_leave || link->controls_under_way;
}

static uint64_t leaves_by_ns(const struct ucx_link *link)
{
  return link->linger_until_ns + (is_untold(link) ? UCX_TELL_NS : 0);
}

static bool is_done_with(const struct ucx_link *link, uint64_t now_ns)
{
  if (!link->ep || !link->is_joined || link->failure || now_ns >= leaves_by_ns(link))
    return true;
  if (is_untold(link) || link->ams_under_way)
    return false;
  return link->is_shared || link->leave_is_known || (link->has_left && !link->owes_answer);
}

static void tell(struct ucx_link *link)
{
  struct ucx_header bye = {.kind = UCX_BYE, .position = link->sent, .meta = link->peer_nonce};

  if (!link->ep || link->failure)
    return;
  if (link->owes_leave) {
    bye.flags = link->is_aborted ? UCX_HEADER_ABORT : 0;
    link->owes_leave = !ucx_am_control(link, &bye);
  }
  if (link->owes_answer) {
    bye.flags = UCX_HEADER_ANSWER;
    link->owes_answer = !ucx_am_control(link, &bye);
  }
}

void ucx_links_step(struct pst_worker *worker, uint64_t now_ns)
{
  struct ucx_link **at = &worker->leaving;

  while (*at) {
    struct ucx_link *link = *at;
    tell(link);
    if (is_done_with(link, now_ns)) {
      *at = link->next;
      release(link);
      destroy(link);
    } else {
      at = &link->next;
    }
  }
}

void ucx_link_leave(struct ucx_link *link)
{
  const uint64_t now_ns = ucx_now_ns(link->worker->device);

  link->endpoint = NULL;
  link->linger_until_ns = now_ns + UCX_LINGER_NS;
  link->next = link->worker->leaving;
  link->worker->leaving = link;
  ucx_links_step(link->worker, now_ns);
}

uint64_t ucx_links_deadline_ns(const struct pst_worker *worker)
{
  uint64_t first = UINT64_MAX;

  for (const struct ucx_link *link = worker->leaving; link; link = link->next)
    if (leaves_by_ns(link) < first)
      first = leaves_by_ns(link);
  return first;
}

static void free_first(struct ucx_link **at)
{
  struct ucx_link *link = *at;

  *at = link->next;
  release(link);
  destroy(link);
}

void ucx_links_free(struct pst_worker *worker)
{
  while (worker->leaving)
    free_first(&worker->leaving);
}

/* What is fetched comes to its end; the link has its peer to tell that it leaves. */
void ucx_links_leave_ring(struct pst_worker *worker, const struct pst_ring *ring)
{
  for (struct ucx_link **at = &worker->leaving; *at;) {
    struct ucx_link *link = *at;
    if (link->ring == ring) {
      ucx_link_settle(link);
      link->ring = NULL;
    }
    if (link->fetches && !link->ring)
      free_first(at);
    else
      at = &link->next;
  }
}
