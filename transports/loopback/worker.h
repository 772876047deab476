/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: what one thread polls. */
#ifndef LOOPBACK_WORKER_H
#define LOOPBACK_WORKER_H

#include <penstock/transport-util.h>

#include "map.h"

#define LB_PLACES (UINT32_C(1) << 14) /* of rx of one worker */

struct pst_worker {
  struct pst_device *device;
  int epoll_fd;
  int timer_fd;      /* wakes for the deadline of a peer that is to connect, and to look again */
  uint64_t timer_ns; /* that it is set to; 0: none */
  uint64_t again_ns; /* the last arm() looks again after this time; 0: something has come since */
  bool armed;
  uint32_t guard_hits; /* lb_guard_hits when it was last looked at */
  uint32_t idle;       /* polls that brought nothing, one after the other */
  uint32_t polls;
  uint32_t next;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  uint32_t closed; /* endpoints freed in this poll */
  struct pst_places rx;
  uint32_t buffer_last; /* number of the last lent region */
  bool unlending;       /* some rx is over and has regions to give up */
  uint64_t wakeups;
};

/* Fail endpoints whose memory a peer has taken away. */
void lb_worker_lost(struct pst_worker *worker);
static inline bool lb_worker_is_hit(const struct pst_worker *worker)
{
  return atomic_load_explicit(&lb_guard_hits, memory_order_relaxed) != worker->guard_hits;
}
void lb_worker_watch(struct pst_worker *worker);
/* A peer's process; or, without an endpoint, what wakes the worker. */
int lb_worker_watch_fd(struct pst_worker *worker, int fd, struct pst_endpoint *endpoint);
void lb_worker_unwatch_fd(struct pst_worker *worker, int fd); /* -1 is legal */
/* UNLENT for regions that no token is out of, of every rx that is over. */
uint32_t lb_worker_unlend(struct pst_worker *worker, struct pst_completion *out, uint32_t max);
bool lb_worker_may_unlend(const struct pst_worker *worker);

int lb_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker);
void lb_worker_close(struct pst_worker *worker);
int lb_arm(struct pst_worker *worker);
int lb_event_fd(struct pst_worker *worker);
int lb_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max);
int lb_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n);

#endif
