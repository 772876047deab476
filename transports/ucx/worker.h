/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: the links that one thread progresses, and the descriptors to sleep on. */
#ifndef UCX_WORKER_H
#define UCX_WORKER_H

#include <stdint.h>

#include <penstock/transport-util.h>

/* Links of a worker, and of the keeper behind closed ones, that wait longer, for peers that are
 * seen to live. */
#define UCX_UNTOLD_MAX 64u

struct ucx_link;

struct pst_worker {
  struct pst_device *device;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count, endpoint_room;
  struct ucx_link *leaving;
  uint32_t untold_count; /* of them: peers that live and have no room for the BYE */
  struct pst_places rings;
  uint32_t turn;
  uint32_t idle_turns; /* polls until the clock is looked at */
  int watch_fd;        /* epoll: pidfds of peers */
  int sleep_fd;        /* epoll: watch_fd, timer_fd, event descriptors of UCX; -1 */
  int timer_fd;
  uint64_t ticked_ns;
};

#endif
