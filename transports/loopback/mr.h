/* SPDX-License-Identifier: Apache-2.0 */
/* Registered ranges. */
#ifndef LOOPBACK_MR_H
#define LOOPBACK_MR_H

#include <penstock/transport.h>

#include "access_guard.h"
#include "map.h"
#include "registry.h"

#define LB_REMOTE_ACCESS                                                                           \
  (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)

struct lb_mr {
  struct lb_entry entry;
  struct lb_gate gate; /* for this process */
  struct pst_device *device;
  struct pst_region region; /* a copy: receivers hold it until they have polled UNLENT */
  uint64_t offset;
  uint64_t length;
  uint32_t access;
  uint32_t plain;                   /* bit PST_OP_WRITE, PST_OP_READ: it may be, by the CPU */
  uint8_t *base;                    /* NULL: the CPU cannot touch it */
  struct pst_remote *seated;        /* of this process; access_guard.c's */
  struct lb_gate_page *shared_gate; /* for other processes; NULL: not packed */
  struct lb_map gate_map;
  struct lb_guard *guard; /* of the range, once others have its descriptor */
  int valid_fd;
  struct pst_export out; /* for other processes; kind 0: not shared */
};
/* The export by which others reach a region, or 0. */
uint32_t lb_export_kind(const struct pst_region *region);
/* In words: "cuda-vmm"; device: where it is reached from. */
const char *lb_via(const struct pst_region *region, uint32_t kind, const char *device);
struct pst_mr; /* is a struct lb_mr */
static inline struct lb_mr *lb_mr_of(struct pst_mr *mr)
{
  return (struct lb_mr *)mr;
}
void lb_mr_unref(struct lb_mr *mr);
/* Others will have the descriptor of its region: mr->out, and its guard. */
int lb_mr_share(struct lb_mr *mr);

int lb_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                   struct pst_mr **mr);
void lb_mr_deregister(struct pst_device *device, struct pst_mr *mr);
int lb_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);

#endif
