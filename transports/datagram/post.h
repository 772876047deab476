/* SPDX-License-Identifier: Apache-2.0 */
/* post() of a transport of datagrams: SENDs are the transport's, FLUSH waits for nobody. */
#ifndef DATAGRAM_POST_H
#define DATAGRAM_POST_H

#include "endpoint.h"

/* SENDs, from the first of `n` requests to one of another opcode. Returns how many were taken; *rc:
 * why no more, -EAGAIN or the errno of the first that cannot be. `now_ns` is for
 * dg_sender_header(). The transport pushes DONEs; outstanding ones are counted here. */
typedef uint32_t dg_post_sends(struct dg_endpoint *endpoint, const struct pst_request *requests,
                               uint32_t n, uint64_t now_ns, int *rc);

static inline uint32_t dg_post_flush(struct dg_endpoint *endpoint,
                                     const struct pst_request *request, int *rc)
{
  *rc = request->opcode == PST_OP_FLUSH ? pst_flush_check(request, false) : -EINVAL;
  if (*rc != 0)
    return 0;
  pst_dones_push(&endpoint->cpu.dones, PST_OP_FLUSH, 0, request->cookie, 1);
  return 1;
}

/* All that is legal of one SEND: 0, -EINVAL, -E2BIG, -EMSGSIZE. */
static inline int dg_send_check(const struct dg_endpoint *endpoint,
                                const struct pst_request *request)
{
  if (request->u.send.departure_ns && !endpoint->device->keeps_departures)
    return -EINVAL;
  return pst_timed_send_check(request, PST_CPU_PIECES_MAX, endpoint->message_max, pst_cpu_mr_holds,
                              NULL);
}

__attribute__((always_inline)) static inline int dg_post(struct dg_endpoint *endpoint,
                                                         const struct pst_request *requests,
                                                         uint32_t n, uint32_t *wait,
                                                         dg_post_sends *sends)
{
  const struct dg_device *device = endpoint->device;
  struct pst_dones *dones = &endpoint->cpu.dones;
  uint32_t taken = 0, why = PST_WAIT_NONE;
  int rc = pst_cpu_may_post(&endpoint->cpu);

  if (rc < 0)
    return rc;
  if (!endpoint->sender)
    return n ? -EINVAL : 0;
  uint64_t now_ns = device->framing == DG_FRAMING_RTP ? device->host->clock_ns(device->host) : 0;
  while (taken < n && rc == 0) {
    uint32_t left = pst_dones_room(dones, n - taken);
    if (left == 0) {
      why = PST_WAIT_QUEUE;
      break;
    }
    uint32_t k = requests[taken].opcode == PST_OP_SEND
                     ? sends(endpoint, requests + taken, left, now_ns, &rc)
                     : dg_post_flush(endpoint, requests + taken, &rc);
    taken += k;
    dones->outstanding += k;
  }
  if (rc == -EAGAIN)
    why = PST_WAIT_QUEUE;
  return pst_post_result(taken, n, rc, why, wait);
}

#endif
