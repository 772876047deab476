/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that cm.c and cm_listen.c share. */
#ifndef RC_CM_INTERNAL_H
#define RC_CM_INTERNAL_H

#include <endian.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "cm.h"
#include "connection.h"
#include "qp.h"

struct rc_cm_worker {
  struct rdma_event_channel *channel;
  struct rdma_cm_id *listener; /* NULL: nobody needs one */
  uint32_t index;
  uint16_t port; /* that it listens at */
  uint32_t leavers;
};

static inline struct rc_cm_worker *rc_cm_of(const struct pst_worker *worker)
{
  return worker->own;
}

int rc_cm_check(const struct pst_device *device);
int rc_cm_worker_open(struct pst_worker *worker, uint32_t index);
void rc_cm_worker_close(struct pst_worker *worker);
/* The socket address of a RoCE GID. */
struct sockaddr *rc_cm_address(const struct pst_endpoint *endpoint, const uint8_t gid[16],
                               uint16_t port, struct sockaddr_storage *to);
/* The kernel finds a device by the address; it has to be the one that the queue pairs are on. */
bool rc_cm_is_ours(const struct pst_device *device, const struct rdma_cm_id *id);
/* 0 or -errno, logged. */
int rc_cm_listen(struct pst_endpoint *endpoint);

#endif
