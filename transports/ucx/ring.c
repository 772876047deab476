/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: slots that messages of several endpoints arrive in. */
#include "ring.h"

#include <errno.h>
#include <stdlib.h>

#include <penstock/transport-cpu.h>

#include "device.h"
#include "limits.h"
#include "link.h"
#include "mr.h"
#include "ops.h"
#include "path.h"
#include "slots.h"
#include "worker.h"

int ucx_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring)
{
  const struct pst_device *device = worker->device;
  struct pst_ring *made = calloc(1, sizeof(*made));
  int rc;

  if (!made)
    return -ENOMEM;
  rc = pst_cpu_ring_open(&made->cpu, device->host, &worker->rings, params, ucx_limits_known());
  if (rc < 0) {
    free(made);
    return rc;
  }
  if (made->cpu.params.endpoints > made->cpu.params.slots) {
    ucx_ring_close(worker, made);
    return PST_REFUSE(device->host, -EINVAL, "ring: every endpoint needs a slot of its own");
  }
  rc = ucx_shares_open(&made->shares, made->cpu.params.slots, made->cpu.params.endpoints,
                       made->cpu.params.endpoint_slots);
  if (rc < 0) {
    ucx_ring_close(worker, made);
    return rc;
  }
  made->by_cpu = ((const struct pst_mr *)made->cpu.params.mr)->by_cpu;
  if (((const struct pst_mr *)made->cpu.params.mr)->is_pinned)
    ucx_slots_turn(made);
  if (!made->by_cpu && ucx_path_stages(device, made->cpu.params.payload_max, "into", path)) {
    ucx_ring_close(worker, made);
    return -EOPNOTSUPP;
  }
  pst_path_write(path, PST_PATH_DIRECT, made->by_cpu ? "memcpy" : "ucx", "", "");
  *ring = made;
  return 0;
}

void ucx_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  ucx_links_leave_ring(worker, ring);
  ucx_shares_close(&ring->shares);
  pst_cpu_ring_close(&ring->cpu, &worker->rings);
  free(ring);
}

int ucx_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    struct pst_ring *ring = pst_places_find(&worker->rings, pst_token_number(tokens[i]));
    if (!ring || !ucx_slots_release(ring, pst_token_slot(tokens[i])))
      return PST_REFUSE(worker->device->host, -EINVAL,
                        "release of token %#llx, which is not out: it was never given, or released "
                        "before; a bug of the host",
                        (unsigned long long)tokens[i]);
    ucx_share_release(&ring->shares, pst_token_slot(tokens[i]));
  }
  return 0;
}
