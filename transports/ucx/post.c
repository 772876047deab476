/* SPDX-License-Identifier: Apache-2.0 */
/* post(): what can start starts; what is behind a FENCE waits in a queue of the endpoint's. */
#include <errno.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "cuda.h"
#include "endpoint.h"
#include "fence_queue.h"
#include "link.h"
#include "ops.h"
#include "rma.h"
#include "send.h"
#include "stage.h"
#include "worker.h"

static int ucx_post_judge(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  return request->opcode == PST_OP_SEND ? ucx_send_check(endpoint, request)
                                        : ucx_rma_check(endpoint, request);
}

/* Start or hold the first of n, and perhaps some behind it. Returns how many. */
static uint32_t ucx_post_take(struct pst_endpoint *endpoint, const struct pst_request *requests,
                              uint32_t n, uint32_t *why)
{
  if (ucx_fence_queue_must(endpoint, requests))
    return ucx_fence_queue_add(endpoint, requests, why);
  if (requests->opcode == PST_OP_SEND)
    return ucx_send_start(endpoint, requests, n, why);
  if (!ucx_rma_may_start(endpoint, requests, why))
    return 0;
  ucx_rma_start(endpoint, requests);
  return 1;
}

int ucx_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait)
{
  const uint32_t room = pst_dones_room(&endpoint->cpu.dones, n);
  uint32_t taken = 0, why = PST_WAIT_NONE;
  int rc = pst_cpu_may_post(&endpoint->cpu);

  if (rc == 0 && endpoint->link->stage.name > UCX_LEFT)
    rc = -ECONNRESET;
  if (rc < 0)
    return rc;
  while (taken < room && rc == 0 && why == PST_WAIT_NONE) {
    rc = ucx_post_judge(endpoint, &requests[taken]);
    if (rc < 0)
      break;
    uint32_t more = ucx_post_take(endpoint, &requests[taken], room - taken, &why);
    endpoint->cpu.dones.outstanding += more;
    taken += more;
  }
  if (room < n && taken == room && rc == 0) {
    why = PST_WAIT_QUEUE;
    if (taken == 0 && (rc = ucx_post_judge(endpoint, requests)) == 0)
      rc = -EAGAIN;
  }
  /* UCX keeps what it cannot send at once, and looks again in its progress alone. */
  if (endpoint->link->ams_under_way) {
    const struct ucx_cuda *cuda = ucx_cuda_enter(endpoint->worker->device);
    ucp_worker_progress(endpoint->link->ucp);
    ucx_cuda_leave(cuda);
  }
  endpoint->waits_for = why;
  return pst_post_result(taken, n, rc, why, wait);
}
