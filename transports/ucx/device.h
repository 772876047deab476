/* SPDX-License-Identifier: Apache-2.0 */
/* A device: a ucp_context, and what is measured of it. */
#ifndef UCX_DEVICE_H
#define UCX_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include <penstock/transport.h>

#include "described.h"
#include "wire.h"

struct ucx_cuda;
struct ucx_linger;

struct pst_device {
  const struct pst_host *host;
  ucp_context_h context;
  ucp_datatype_t gather; /* the datatype whose pack function copies an active message */
  struct ucx_identity identity;
  uint64_t memory_types; /* bits of ucs_memory_type_t that this UCX reaches */
  uint32_t address_max;
  uint32_t remote_max;
  enum ucx_peer_failure peer_failure;
  uint64_t batch_bytes;     /* option; 0: as the lanes take */
  uint64_t rendezvous_from; /* option; 0: as the lanes are best at */
  uint64_t direct_from;
  uint64_t linger_ns; /* behind UCX_LINGER_NS, for a peer that has no room for a BYE */
  bool sleeps;
  bool has_rma;
  bool shares; /* has a transport of shared memory */
  char transports[256];
  char environment[192];     /* UCX's variables that are set, by name */
  struct ucx_linger *keeper; /* of links that outlive their workers; NULL: there was none yet */
  pthread_mutex_t keeper_lock;
  struct pst_mr *mrs; /* registrations, which peers' messages may name */
  pthread_rwlock_t mr_lock;
  struct ucx_cuda *cuda; /* of the first registration of a GPU's memory; NULL: there was none */
};

#define UCX_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

static inline uint64_t ucx_now_ns(const struct pst_device *device)
{
  return device->host->clock_ns(device->host);
}

#endif
