/* SPDX-License-Identifier: Apache-2.0 */
/* Enhanced connection establishment: options that both ends have. */
#include "ece.h"

#include <dlfcn.h>
#include <stddef.h>

/* struct ibv_ece of rdma-core 29, which headers before it have not. */
struct words {
  uint32_t vendor, options, comp_mask;
};
typedef int on_qp(struct ibv_qp *, struct words *);

/* Looked up, so that this runs with an rdma-core that lacks them. */
static on_qp *vb_ece_find(const char *name)
{
  on_qp *found = NULL;

  *(void **)&found = dlsym(RTLD_DEFAULT, name);
  return found;
}

struct vb_ece vb_ece_of(struct ibv_qp *qp)
{
  on_qp *query = vb_ece_find("ibv_query_ece");
  struct words words = {0};

  if (!query || query(qp, &words) != 0)
    return (struct vb_ece){0};
  return (struct vb_ece){words.vendor, words.options};
}

struct vb_ece vb_ece_common(struct vb_ece own, struct vb_ece peer)
{
  if (own.vendor != peer.vendor)
    return (struct vb_ece){0};
  return (struct vb_ece){own.vendor, own.options & peer.options};
}

int vb_ece_set(struct ibv_qp *qp, struct vb_ece ece)
{
  struct words words = {.vendor = ece.vendor, .options = ece.options};

  return ece.options ? vb_ece_find("ibv_set_ece")(qp, &words) : 0;
}
