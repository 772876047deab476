/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a connection, noticed by UCX, by the peer's process, or by the clock. */
#include "fail.h"

#include <errno.h>

#include <ucp/api/ucp.h>

#include "endpoint.h"
#include "link.h"
#include "stage.h"
#include "status.h"

/* A copy by the kernel makes progress in each round. A request without progress in this many rounds
 * needs the peer. */
#define FAIL_IDLE_ROUNDS 256u
/* 32 fetches of 1 GiB each, by pieces of 512 KiB, many times over. */
#define FAIL_ROUNDS_MAX (1u << 20)

void ucx_link_settle(struct ucx_link *link)
{
  uint32_t idle = 0;

  for (uint32_t i = 0;
       i < FAIL_ROUNDS_MAX && idle < FAIL_IDLE_ROUNDS && (link->fetches || link->ops_under_way);
       i++)
    idle = ucp_worker_progress(link->ucp) ? 0 : idle + 1;
}

void ucx_link_end(struct ucx_link *link, int32_t status)
{
  if (link->stage.name == UCX_LEAVING)
    ucx_enter(link, (struct ucx_stage){.name = UCX_OVER});
  else if (!ucx_link_is_lost(link))
    ucx_enter(link, (struct ucx_stage){.name = UCX_LOST, .lost = {status}});
}

void ucx_link_fail(struct ucx_link *link, ucs_status_t status, const char *what)
{
  int32_t code = ucx_status_errno(status);

  const bool has_left = ucx_link_has_left(link);

  if (ucx_link_is_lost(link) || ucx_link_is_cut(link))
    return;
  /* Whatever UCX calls it, the peer is gone; one on this host cannot be cut off. */
  if ((code != -ETIMEDOUT && code != -EHOSTUNREACH) || link->peer.is_here)
    code = -ECONNRESET;
  ucx_link_end(link, code);
  if (link->endpoint && !has_left)
    UCX_TELL(link->endpoint, PST_LOG_INFO, "UCX ended %s: %s (%d); %s", what,
             ucs_status_string(status), (int)status, ucx_status_remedy(status));
}
