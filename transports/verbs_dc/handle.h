/* SPDX-License-Identifier: Apache-2.0 */
/* Address handles, which the endpoints to one port share: handle.c. */
#ifndef DC_HANDLE_H
#define DC_HANDLE_H

#include "device.h"

struct dc_endpoint;
struct dc_blob;

/* A way to a peer's port, shared by all endpoints to it. */
struct dc_handle {
  struct pst_device *device;
  struct ibv_ah_attr attr;
  uint8_t gid[16]; /* the port's own then */
  bool is_stale; /* under `handles_lock`: that peer did not answer, its address may be another's */
  struct ibv_ah *ah;
  _Atomic int state; /* enum dc_handle_state */
  int error;         /* errno */
  uint32_t users;    /* under the device's `handles_lock`, as `next` is */
  struct dc_handle *next;
};
enum dc_handle_state { DC_HANDLE_MAKING, DC_HANDLE_READY, DC_HANDLE_FAILED };

/* To the peer, made off this thread: transport->notice() follows. 0 or -ENOMEM. */
int dc_handle_take(struct dc_endpoint *dc, const struct dc_blob *to);
/* That peer did not answer: the next endpoint that connects to its port has the address resolved
 * anew. */
void dc_handle_doubt(struct dc_endpoint *dc);
void dc_handle_give(struct dc_endpoint *dc);
/* Drops a handle that was taken; NULL: nothing happens. */
void dc_handle_drop(struct dc_handle *handle);

#endif
