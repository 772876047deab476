/* SPDX-License-Identifier: Apache-2.0 */
/* Devices with DC, and what all of their workers share. */
#ifndef DC_DEVICE_H
#define DC_DEVICE_H

#include "../verbs/transport.h"
#include "mlx5.h"

struct dc_handle;

#define DC_SEQUENCE_BITS 16u
#define DC_REQUESTS_MAX 2048u
#define DC_REQUESTS 512u  /* of an endpoint, where the plan does not say */
#define DC_PROBES 32u     /* under way at a time */
#define DC_LOG_STREAMS 5u /* a probe each */
_Static_assert(DC_PROBES == 1u << DC_LOG_STREAMS, "each probe has a stream of its own");
#define DC_NUMBERS 65536u      /* of a worker's endpoints, as immediate data name them */
#define DC_CONTROL_RECEIVES 4u /* for the words of one peer */
#define DC_HANDLE_CHAINS 1024u

struct dc_device {
  struct pst_device device;
  struct dc_mlx5 mlx5;
  uint64_t key; /* random, of every target */
  uint32_t initiators, quota;
  uint32_t requests;                /* of a send queue */
  uint8_t rd_atomic;                /* of an initiator, at most */
  uint8_t log_streams, log_errored; /* DCI streams of an initiator; 0: it has none */
  pthread_mutex_t handles_lock;
  struct dc_handle *handles[DC_HANDLE_CHAINS]; /* by the peer's address: handle.c */
  uint64_t handle_count, handles_made;         /* under it, too */
};

/* With the reserve, which are as many again, and the one that probes. */
static inline uint32_t dc_initiators(const struct dc_device *dc)
{
  return 2 * dc->initiators + 1;
}

static inline struct dc_device *dc_device_of(const struct pst_device *device)
{
  return (struct dc_device *)(void *)(uintptr_t)device;
}

/* device.c: the path MTU of its queue pairs. */
enum ibv_mtu dc_mtu(const struct pst_device *device, const struct vb_port_address *where);

#endif
