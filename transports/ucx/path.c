/* SPDX-License-Identifier: Apache-2.0 */
/* How bytes travel: by the lanes that UCX has chosen. */
#include "path.h"

#include <stdio.h>
#include <string.h>

#include <penstock/transport-util.h>

#include "am.h"
#include "described.h"
#include "device.h"
#include "endpoint.h"
#include "lanes.h"
#include "link.h"
#include "mr.h"
#include "ops.h"
#include "ring.h"
#include "worker.h"

/* UCX's own header, and ours, in an active message. */
#define PATH_HEADERS 88u
#define PATH_PART_MIN 1024u
#define PATH_PART_DEFAULT 8192u
#define PATH_PART_TCP 65408u /* one call of the kernel's, and of UCX's receive buffer (64 KiB) */
#define DIRECT_FROM (UINT64_C(1) << 20) /* where RDMA may reach the GPU */

/* A lane by which a peer's device, or the kernel, fetches out of any memory. */
static bool ucx_path_fetches_well(const char *names)
{
  return ucx_lanes_has(names, "cma") || ucx_lanes_has(names, "knem") ||
         ucx_lanes_has(names, "xpmem") || ucx_lanes_has(names, "rc_") ||
         ucx_lanes_has(names, "dc_");
}

/* From where on a rendezvous is faster than parts. Through UCX's own shared memory it never was;
 * over TCP it is not where UCX notices failures. */
static uint64_t ucx_path_whole_from(const char *names)
{
  return ucx_path_fetches_well(names) ? UINT64_C(65536) : UINT64_MAX;
}

static bool ucx_path_reaches_gpu(const char *names)
{
  return ucx_lanes_has(names, "cuda_ipc") || ucx_lanes_has(names, "rc_") ||
         ucx_lanes_has(names, "dc_");
}

static bool ucx_path_is_shared(const char *names)
{
  return !ucx_lanes_has(names, "tcp") && !ucx_lanes_has(names, "rc_") &&
         !ucx_lanes_has(names, "dc_") && !ucx_lanes_has(names, "ud_");
}

static const char *ucx_path_carrier_of(const char *names)
{
  if (ucx_lanes_has(names, "rc_") || ucx_lanes_has(names, "dc_") || ucx_lanes_has(names, "ud_"))
    return "rdma";
  if (ucx_lanes_has(names, "posix") || ucx_lanes_has(names, "sysv") || ucx_lanes_has(names, "self"))
    return "shm";
  return ucx_lanes_has(names, "tcp") ? "tcp" : "";
}

static bool ucx_path_is_of(const char *name, const char *const *kinds)
{
  for (; *kinds; kinds++)
    if (strncmp(name, *kinds, strlen(*kinds)) == 0)
      return true;
  return false;
}

static const char *const rdma[] = {"rc_", "dc_", "ud_", NULL};

/* The device's transports of these kinds that are no lane, with blanks between. */
static void ucx_path_list_lost(const struct ucx_link *link, const char *const *kinds, char *lost,
                               size_t size)
{
  char all[sizeof(link->worker->device->transports)], *rest, *name;

  lost[0] = 0;
  pst_text_write(all, sizeof(all), link->worker->device->transports);
  for (name = strtok_r(all, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
    const size_t used = strlen(lost);
    if (ucx_path_is_of(name, kinds) && !ucx_lanes_has(link->lanes, name) &&
        used + strlen(name) + 2 <= size)
      snprintf(lost + used, size - used, "%s%s", used ? " " : "", name);
  }
}

uint64_t ucx_direct_from(const struct pst_device *device)
{
  char all[sizeof(device->transports)], *rest;

  if (device->direct_from)
    return device->direct_from;
  pst_text_write(all, sizeof(all), device->transports);
  for (const char *name = strtok_r(all, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
    if (ucx_path_is_of(name, rdma))
      return DIRECT_FROM;
  return UINT64_MAX;
}

bool ucx_path_stages(const struct pst_device *device, uint64_t length, const char *way,
                     struct pst_path_info *path)
{
  const uint64_t from = ucx_direct_from(device);
  char reason[sizeof(path->reason)];

  if (length >= from)
    return false;
  if (from == UINT64_MAX)
    snprintf(reason, sizeof(reason),
             "without RDMA, messages %s a GPU are faster by Penstock's copy, except between GPUs "
             "of one host: see `direct_from`",
             way);
  else
    snprintf(reason, sizeof(reason),
             "messages of %llu bytes %s a GPU are faster by Penstock's copy; `direct_from` is %llu",
             (unsigned long long)length, way, (unsigned long long)from);
  pst_path_write(path, PST_PATH_NONE, "", "", reason);
  return true;
}

int ucx_path_lost(const struct ucx_link *link, char *text, size_t size)
{
  static const char *const shared[] = {"posix", "sysv", "xpmem", "cma", "knem", NULL};
  const struct pst_device *device = link->worker->device;
  char lost[40];

  text[0] = 0;
  ucx_path_list_lost(link, link->peer.is_here ? shared : rdma, lost, sizeof(lost));
  if (!link->lanes[0] || !lost[0] || (link->peer.is_here && !link->peer.by_ucx) ||
      (!link->peer.is_here && strcmp(ucx_path_carrier_of(link->lanes), "rdma") == 0))
    return 0;
  if (!link->peer.is_here)
    snprintf(text, size,
             "UCX chose %.24s, though RDMA is up here (%s): `ucx_info -d` on both hosts, or "
             "`tls: rc,self`, tells why",
             link->lanes, lost);
  else if (device->peer_failure == UCX_FAILURE_UCX)
    snprintf(text, size,
             "UCX's failure handling excludes shared memory (%s); `peer_failure: auto` allows it",
             lost);
  else
    snprintf(text, size,
             "the peer's UCX has no shared memory, this end has %s; give both ends the same `tls`",
             lost);
  return link->peer.is_here ? PST_LOG_INFO : PST_LOG_WARN;
}

/* Once. */
static void ucx_path_tell_lost(const struct pst_endpoint *endpoint)
{
  char text[UCX_LOST_BYTES];
  const int level = ucx_path_lost(endpoint->link, text, sizeof(text));

  if (level)
    UCX_TELL(endpoint, level, "%s", text);
}

/* Does UCX have puts, gets and atomics that need no software of its own? */
static bool ucx_path_has_own_rma(const char *names)
{
  return ucx_path_is_shared(names) || ucx_lanes_has(names, "rc_") || ucx_lanes_has(names, "dc_");
}

/* Returns whether messages are gathered into one buffer. Answers of UCX's software RMA are
 * gathered, whatever `part` says, since they are of memory that may go. */
static bool ucx_path_gathers(const struct pst_endpoint *endpoint, const char *names)
{
  return (endpoint->link->asked && !ucx_path_has_own_rma(names)) ||
         (strcmp(ucx_path_carrier_of(names), "tcp") == 0 &&
          endpoint->worker->device->batch_bytes <= PATH_PART_TCP);
}

void ucx_path_settle(struct pst_endpoint *endpoint)
{
  const struct pst_device *device = endpoint->worker->device;
  struct ucx_link *link = endpoint->link;
  struct ucx_lanes lanes;
  char said[512];

  ucx_lanes_read(link->ep, &lanes);
  link->part_max = PATH_PART_DEFAULT;
  if (lanes.eager_max > PATH_HEADERS + PATH_PART_MIN && lanes.eager_max < UINT32_MAX)
    link->part_max = lanes.eager_max - PATH_HEADERS;
  if (device->batch_bytes)
    link->part_max = device->batch_bytes;
  if (ucx_path_gathers(endpoint, lanes.names))
    ucx_ams_gather(link, device->batch_bytes && device->batch_bytes < PATH_PART_TCP
                             ? device->batch_bytes
                             : PATH_PART_TCP);
  link->by_messages = link->asked && link->gathered && !ucx_path_has_own_rma(lanes.names);
  link->whole_from = device->rendezvous_from;
  if (!link->whole_from)
    link->whole_from = ucx_path_whole_from(lanes.names);
  link->is_shared = ucx_path_is_shared(lanes.names);
  pst_text_write(link->lanes, sizeof(link->lanes), lanes.names);
  ucx_path_tell_lost(endpoint);
  ucx_describe(endpoint, said, sizeof(said));
  UCX_TELL(endpoint, PST_LOG_DEBUG, "%s", said);
}

int ucx_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  const struct pst_ring *ring = (const struct pst_ring *)endpoint->cpu.ring;
  const struct ucx_link *link = endpoint->link;
  const bool by_cpu = !(ring && !ring->by_cpu) && !endpoint->tx.must_fetch;
  char via[48], reason[UCX_LOST_BYTES];

  ucx_path_lost(link, reason, sizeof(reason));
  if (by_cpu) {
    snprintf(via, sizeof(via), "ucx: %.40s", link->lanes[0] ? link->lanes : "not connected");
    pst_path_write(path, PST_PATH_DIRECT, via, ucx_path_carrier_of(link->lanes), reason);
    return 0;
  }
  if (ucx_path_reaches_gpu(link->lanes)) {
    pst_path_write(path, PST_PATH_DIRECT, "ucx", ucx_path_carrier_of(link->lanes), reason);
    return 0;
  }
  snprintf(reason, sizeof(reason), "no lane of UCX reaches the GPU by itself: it has %.60s",
           link->lanes);
  pst_path_write(path, PST_PATH_STAGED, "ucx-bounce", ucx_path_carrier_of(link->lanes), reason);
  return 0;
}

int ucx_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct pst_device *device = endpoint->worker->device;
  const struct ucx_link *link = endpoint->link;

  snprintf(text, size,
           "UCX lanes %s; failures by %s; parts of %llu bytes, rendezvous from %lld%s%s",
           link->lanes[0] ? link->lanes : "not known yet",
           link->peer.by_ucx ? "UCX (it leaves shared memory out)" : "the peer's process",
           (unsigned long long)link->part_max,
           link->whole_from == UINT64_MAX ? -1LL : (long long)link->whole_from,
           device->environment[0] ? "; environment " : "", device->environment);
  return 0;
}
