/* SPDX-License-Identifier: Apache-2.0 */
/* Regions and parts of them, registered with a protection domain. */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include <infiniband/verbs.h>
#include <penstock/memory.h>
#include <penstock/transport.h>
#include <stdint.h>

struct vb_mr {
  struct ibv_mr *mr;
  uint64_t address; /* of its first byte, for local use and as the peer's remote address */
  uint32_t path;    /* enum pst_path */
  char via[48];
};

/*
 * Register [offset, offset + length) of a region with `access` (enum ibv_access_flags). Host
 * memory: ibv_reg_mr(). Of a device, in this order: a dma-buf of the range, ibv_reg_mr() of its
 * address (nvidia-peermem), its host mapping. Each refusal is kept with its reason.
 * 0; -EOPNOTSUPP: no way into this memory, `reason` says which were tried, nothing is logged;
 * -ENOMEM and others of host memory, logged with the remedy.
 */
int vb_mr_register(const struct pst_host *host, struct ibv_pd *pd, const struct pst_region *region,
                   uint64_t offset, uint64_t length, int access, struct vb_mr *out,
                   char reason[160]);
void vb_mr_close(struct vb_mr *mr);
/* Why ibv_reg_mr() failed, with the remedy. */
void vb_mr_refusal(int error, uint64_t length, char *text, size_t size);

#endif
