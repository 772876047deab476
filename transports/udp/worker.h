/* SPDX-License-Identifier: Apache-2.0 */
/* A worker, polled by one thread. */
#ifndef UDP_WORKER_H
#define UDP_WORKER_H

#include <penstock/transport-cpu.h>

struct pst_worker {
  struct pst_device *device;
  int epoll_fd;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  struct pst_places rings;
  uint32_t turn; /* endpoint that the next poll begins with */
  bool armed;
};

#endif
