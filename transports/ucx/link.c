/* SPDX-License-Identifier: Apache-2.0 */
/* Links: a ucp_worker with one ucp_ep, from endpoint_open to after CLOSED. */
#include "link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-util.h>

#include "am.h"
#include "device.h"
#include "endpoint.h"
#include "fail.h"
#include "link_close.h"
#include "receive.h"
#include "remote.h"
#include "ring.h"
#include "rma_am.h"
#include "slots.h"
#include "stage.h"
#include "status.h"
#include "watch.h"
#include "wire.h"
#include "worker.h"

static void ucx_link_free_remotes(struct ucx_link *link)
{
  while (link->remotes) {
    struct pst_remote *remote = link->remotes;
    link->remotes = remote->next;
    free(remote);
  }
}

/* Slots of messages that UCX fetched when the endpoint closed: UCX writes to none of them any more.
 */
static void ucx_link_give_slots(struct ucx_link *link)
{
  for (uint64_t i = 0; link->ring && link->arrivals && i <= link->arrival_mask; i++)
    if (link->arrivals[i].is_open) {
      ucx_slots_give(link->ring, link->arrivals[i].slot);
      ucx_shares_give(&link->ring->shares);
    }
}

void ucx_link_free(struct ucx_link *link)
{
  ucx_watch_forget(link->worker->watch_fd, link->peer.pidfd);
  ucx_watch_end(link->peer.pidfd);
  ucx_link_cut(link);
  ucx_link_give_slots(link);
  ucx_link_free_remotes(link);
  ucx_ams_close(link);
  ucx_rma_am_close(link);
  free(link->peer.address);
  free(link->arrivals);
  free(link->op_pieces);
  free(link->ops);
  free(link);
}

static void ucx_link_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
  (void)ep;
  ucx_link_fail(arg, status, "the connection");
}

/* Opens the link's UCP worker and its handlers. 0, or -errno after a log. */
static int ucx_link_open_ucp(struct ucx_link *link, const char *label)
{
  struct pst_worker *worker = link->worker;
  /* Requests that a dead peer leaves under way are freed with the worker. UCX 1.22 crashes when it
   * reports such a request as a leak after its endpoint is gone. */
  const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE |
                                                    UCP_WORKER_PARAM_FIELD_FLAGS,
                                      .thread_mode = UCS_THREAD_MODE_SERIALIZED,
                                      .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK};
  const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = UCX_AM_ID,
                                          .cb = link->receive,
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
                      "%s: UCX cannot create a worker: %s; %s", label, ucs_status_string(status),
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
  link->receive = receive;
  link->peer.pidfd = -1;
  link->efd = -1;
  rc = ucx_ams_open(link, with_payload);
  if (rc == 0)
    rc = ucx_link_open_ucp(link, label);
  if (rc < 0) {
    ucx_link_free(link);
    return rc;
  }
  *made = link;
  return 0;
}

static int ucx_link_connect_ep(struct ucx_link *link, enum ucx_line line, const char *label)
{
  const ucp_ep_params_t params = {
      .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                    UCP_EP_PARAM_FIELD_ERR_HANDLER,
      .address = link->peer.address,
      .err_mode = link->peer.by_ucx ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
      .err_handler = {.cb = ucx_link_failed, .arg = link},
  };
  const int sleep_fd = link->worker->sleep_fd;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
  ucs_status_t status;

  if (sleep_fd >= 0 && epoll_ctl(sleep_fd, EPOLL_CTL_ADD, link->efd, &event) != 0)
    return PST_REFUSE(link->worker->device->host, -errno, "%s: epoll takes no more descriptors: %s",
                      label, strerror(errno));
  status = ucp_ep_create(link->ucp, &params, &link->ep);
  if (status == UCS_OK) {
    ucx_enter_line(link, line);
    return 0;
  }
  link->ep = NULL;
  if (sleep_fd >= 0)
    epoll_ctl(sleep_fd, EPOLL_CTL_DEL, link->efd, NULL);
  return PST_REFUSE(link->worker->device->host, ucx_status_errno(status),
                    "%s: UCX cannot connect to the peer: %s; %s", label, ucs_status_string(status),
                    ucx_status_remedy(status));
}

int ucx_link_connect(struct ucx_link *link, const void *address, size_t length)
{
  free(link->peer.address);
  link->peer.address = malloc(length);
  if (!link->peer.address)
    return -ENOMEM;
  memcpy(link->peer.address, address, length);
  return ucx_link_connect_ep(link, UCX_LINE_OPEN, link->endpoint->label);
}

/* Sends BYE by another ucp_worker: the link's own is gone, with all that it had for the peer. */
static void ucx_link_send_herald(struct ucx_link *link, struct ucx_leaving *words)
{
  static const char label[] = "a close";

  words->bye = UCX_OWED;
  if (ucx_link_open_ucp(link, label) == 0 && ucx_link_connect_ep(link, UCX_LINE_HERALD, label) == 0)
    ucx_link_say(link, words);
  else
    ucx_link_cut(link);
}

/* Returns the words that the link owes its peer when its requests end before the link leaves by
 * itself. */
static struct ucx_leaving ucx_link_words_of(const struct ucx_link *link)
{
  if (link->stage.name == UCX_LEAVING)
    return link->stage.leaving;
  return (struct ucx_leaving){.sent = link->endpoint ? link->endpoint->tx.position : 0,
                              .is_aborted = true,
                              .bye = UCX_OWED,
                              .answer = ucx_link_has_left(link) ? UCX_OWED : UCX_NO_WORD};
}

void ucx_link_end_requests(struct ucx_link *link)
{
  const bool is_alone =
      link->peer.by_ucx || !link->ep || ucx_link_is_lost(link) || ucx_link_has_left(link);
  struct ucx_leaving words = ucx_link_words_of(link);
  bool is_told;

  ucx_link_say(link, &words);
  is_told = words.bye == UCX_HEARD ||
            (link->is_shared && words.bye == UCX_SAID && !link->controls_under_way);
  ucx_link_cut(link);
  if (!is_alone && !is_told)
    ucx_link_send_herald(link, &words);
  if (link->stage.name != UCX_LEAVING)
    return;
  if (words.bye == UCX_OWED)
    words.bye = UCX_SAID;
  if (words.answer == UCX_OWED)
    words.answer = UCX_SAID;
  link->stage.leaving = words;
}

/* ---- After CLOSED ------------------------------------------------------------------------ */

/* True for a peer whose process is alive, that has not left, and that has no room for our BYE. */
static bool ucx_link_is_stuck(const struct ucx_link *link)
{
  return link->stage.name == UCX_LEAVING && ucx_link_is_untold(link) && !ucx_link_has_left(link) &&
         link->peer.pidfd >= 0 && !link->peer.has_died;
}

/* The time limit by the clock alone. */
static uint64_t ucx_link_clock_ns(const struct ucx_link *link)
{
  if (link->stage.name == UCX_OVER)
    return 0;
  /* A peer that has left waits for no BYE. */
  if (!ucx_link_is_untold(link) || ucx_link_has_left(link))
    return link->stage.leaving.until_ns;
  return link->stage.leaving.until_ns + link->worker->device->linger_ns;
}

/* Such a peer learns of our end in no other way: there is no time limit while there are few of
 * them. */
static bool ucx_link_waits_for_room(const struct ucx_link *link)
{
  return ucx_link_is_stuck(link) && link->worker->untold_count <= UCX_UNTOLD_MAX;
}

static uint64_t ucx_link_leaves_by_ns(const struct ucx_link *link)
{
  return ucx_link_waits_for_room(link) ? UINT64_MAX : ucx_link_clock_ns(link);
}

static bool ucx_link_is_done_with(const struct ucx_link *link, uint64_t now_ns)
{
  const struct ucx_leaving *leaving = &link->stage.leaving;

  if (link->stage.name == UCX_OVER || !link->ep || now_ns >= ucx_link_leaves_by_ns(link))
    return true;
  /* A peer that has left waits for no answer, either, nor for what it would drop. */
  if (link->is_shared && ucx_link_has_left(link))
    return true;
  if (ucx_link_is_untold(link) || link->ams_under_way)
    return false;
  return link->is_shared || leaving->bye == UCX_HEARD || leaving->answer == UCX_SAID;
}

static void ucx_link_count_untold(struct pst_worker *worker)
{
  worker->untold_count = 0;
  for (const struct ucx_link *link = worker->leaving; link; link = link->next)
    worker->untold_count += ucx_link_is_stuck(link);
}

static void ucx_link_tell_given_up(struct pst_worker *worker)
{
  assert(worker->untold_count > 0);
  worker->untold_count--;
  UCX_LOG(
      worker->device, PST_LOG_WARN,
      "more than %u peers are alive and accept nothing: one of them does not learn that this end "
      "has closed",
      UCX_UNTOLD_MAX);
}

void ucx_links_step(struct pst_worker *worker, uint64_t now_ns)
{
  struct ucx_link **at = &worker->leaving;

  ucx_link_count_untold(worker);
  while (*at) {
    struct ucx_link *link = *at;
    if (link->stage.name == UCX_LEAVING)
      ucx_link_say(link, &link->stage.leaving);
    if (ucx_link_is_done_with(link, now_ns)) {
      if (ucx_link_is_stuck(link))
        ucx_link_tell_given_up(worker);
      *at = link->next;
      ucx_link_free(link);
    } else {
      at = &link->next;
    }
  }
}

static struct ucx_stage ucx_link_leaving_from(const struct ucx_link *link, uint64_t now_ns)
{
  /* A link that was cut has sent it. */
  const enum ucx_word word = ucx_link_is_cut(link) ? UCX_SAID : UCX_OWED;

  if (!link->ep || ucx_link_is_lost(link))
    return (struct ucx_stage){.name = UCX_OVER};
  return (struct ucx_stage){.name = UCX_LEAVING,
                            .leaving = {.sent = link->endpoint->tx.position,
                                        .until_ns = now_ns + UCX_LINGER_NS,
                                        .is_aborted = link->endpoint->has_cancelled,
                                        .bye = word,
                                        .answer = ucx_link_has_left(link) ? word : UCX_NO_WORD}};
}

void ucx_link_leave(struct ucx_link *link)
{
  const uint64_t now_ns = ucx_now_ns(link->worker->device);
  const struct ucx_stage leaving = ucx_link_leaving_from(link, now_ns);
  const bool is_joined = ucx_link_is_joined(link);

  link->endpoint = NULL;
  ucx_enter(link, leaving);
  link->next = link->worker->leaving;
  link->worker->leaving = link;
  if (!is_joined && leaving.name == UCX_LEAVING) {
    ucx_link_say(link, &link->stage.leaving);
    ucx_link_end(link, -ECANCELED);
  }
  ucx_links_step(link->worker, now_ns);
}

uint64_t ucx_links_deadline_ns(const struct pst_worker *worker)
{
  uint64_t first = UINT64_MAX;

  for (const struct ucx_link *link = worker->leaving; link; link = link->next)
    if (ucx_link_leaves_by_ns(link) < first)
      first = ucx_link_leaves_by_ns(link);
  return first;
}

uint64_t ucx_links_clock_ns(const struct pst_worker *worker)
{
  uint64_t last = 0;

  for (const struct ucx_link *link = worker->leaving; link; link = link->next)
    if (ucx_link_clock_ns(link) > last)
      last = ucx_link_clock_ns(link);
  return last;
}

void ucx_links_progress(struct pst_worker *worker)
{
  for (struct ucx_link *link = worker->leaving; link; link = link->next)
    if (link->ep && !ucx_link_is_lost(link))
      ucp_worker_progress(link->ucp);
}

struct ucx_link *ucx_links_take_waiting(struct pst_worker *worker, uint64_t now_ns)
{
  for (struct ucx_link **at = &worker->leaving; *at; at = &(*at)->next) {
    struct ucx_link *link = *at;
    if (!ucx_link_waits_for_room(link) || now_ns < link->stage.leaving.until_ns)
      continue;
    *at = link->next;
    ucx_watch_forget(worker->watch_fd, link->peer.pidfd);
    if (link->efd >= 0)
      epoll_ctl(worker->sleep_fd, EPOLL_CTL_DEL, link->efd, NULL);
    link->efd = -1;
    return link;
  }
  return NULL;
}

static void ucx_link_free_first(struct ucx_link **at)
{
  struct ucx_link *link = *at;

  *at = link->next;
  ucx_link_free(link);
}

void ucx_links_free(struct pst_worker *worker)
{
  while (worker->leaving)
    ucx_link_free_first(&worker->leaving);
}

/* Lets what is being fetched end. The link still has to tell its peer that it leaves. */
void ucx_links_leave_ring(struct pst_worker *worker, const struct pst_ring *ring)
{
  for (struct ucx_link *link = worker->leaving; link; link = link->next) {
    if (link->ring != ring)
      continue;
    ucx_link_settle(link);
    link->ring = NULL;
    if (link->fetches)
      ucx_link_end_requests(link);
  }
}
