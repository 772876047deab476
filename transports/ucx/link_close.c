/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a link towards its peer and towards UCX. */
#include "link_close.h"

#include <sys/epoll.h>

#include <ucp/api/ucp.h>

#include "am.h"
#include "fail.h"
#include "link.h"
#include "remote.h"
#include "rma.h"
#include "stage.h"
#include "wire.h"
#include "worker.h"

void ucx_link_say(struct ucx_link *link, struct ucx_leaving *words)
{
  struct ucx_header bye = {.kind = UCX_BYE, .position = words->sent};

  if (!link->ep || ucx_link_is_lost(link))
    return;
  if (words->bye == UCX_OWED) {
    bye.flags = words->is_aborted ? UCX_HEADER_ABORT : 0;
    if (ucx_am_control(link, &bye))
      words->bye = UCX_SAID;
  }
  if (words->answer == UCX_OWED) {
    bye.flags = UCX_HEADER_ANSWER;
    if (ucx_am_control(link, &bye))
      words->answer = UCX_SAID;
  }
}

bool ucx_link_uses_memory(const struct ucx_link *link)
{
  if (ucx_link_is_cut(link))
    return false;
  for (uint32_t i = 0; link->ams_under_way && i < link->window; i++)
    if (link->ams[i].has_unit && link->ams[i].is_read)
      return true;
  for (uint32_t i = 0; link->ops_under_way && i < link->op_count; i++) {
    const struct ucx_op *op = &link->ops[i];
    if (op->is_taken && !op->by_messages && op->opcode != 0 && op->opcode != PST_OP_FLUSH)
      return true;
  }
  return false;
}

/* UCX refuses to close in mode NONE; there the ucp_worker's end is that of the ucp_ep. */
static void ucx_cut_close_ep(struct ucx_link *link)
{
  const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                     .flags = UCP_EP_CLOSE_FLAG_FORCE};
  ucs_status_ptr_t request;

  if (link->ep && link->peer.by_ucx) {
    request = ucp_ep_close_nbx(link->ep, &force);
    if (UCS_PTR_IS_PTR(request))
      ucp_request_free(request);
  }
  link->ep = NULL;
}

void ucx_link_cut(struct ucx_link *link)
{
  if (link->line != UCX_LINE_CUT)
    ucx_enter_line(link, UCX_LINE_CUT);
  if (link->efd >= 0)
    epoll_ctl(link->worker->sleep_fd, EPOLL_CTL_DEL, link->efd, NULL);
  link->efd = -1;
  ucx_cut_close_ep(link);
  if (!link->ucp)
    return;
  ucx_link_settle(link);
  for (struct pst_remote *remote = link->remotes; remote; remote = remote->next) {
    if (remote->rkey)
      ucp_rkey_destroy(remote->rkey);
    remote->rkey = NULL;
  }
  ucp_worker_destroy(link->ucp);
  link->ucp = NULL;
  link->fetches = link->ops_under_way = 0;
  ucx_ams_reset(link);
}
