/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: memory of the transport's own, each registered once for many endpoints of a worker. */
#include <penstock/page.h>

#include "domain.h"
#include "slab.h"

#define UNIT 64u      /* bytes */
#define LARGEST 4096u /* units, but for an endpoint that wants more */

struct vb_slab {
  struct vb_slab *next;
  struct vb_domain *domain;
  uint8_t *bytes;
  struct ibv_mr *mr;
  uint32_t size, used; /* units */
  uint64_t *taken;     /* bits */
};

static uint32_t vb_slab_units_of(uint32_t bytes)
{
  return (bytes + UNIT - 1) / UNIT;
}

static void vb_slab_close(struct vb_slab *slab)
{
  if (slab->mr)
    vb_unpin(&slab->domain->mrs, slab->mr);
  free(slab->bytes);
  free(slab->taken);
  free(slab);
}

/* As large as those of the domain together, so that there are few of them, and little is left
 * unused. */
static uint32_t vb_slab_size_of_next(const struct pst_worker *worker,
                                     const struct vb_domain *domain, uint32_t units)
{
  const uint32_t page = (uint32_t)pst_page_size() / UNIT;
  uint32_t sum = 0;

  for (const struct vb_slab *slab = worker->slabs; slab; slab = slab->next)
    sum += slab->domain == domain ? slab->size : 0;
  sum = sum < LARGEST ? sum : LARGEST;
  return ((sum > units ? sum : units) + page - 1) / page * page;
}

static int vb_slab_open(struct pst_worker *worker, struct vb_domain *domain, const char *label,
                        uint32_t units, struct vb_slab **slab)
{
  struct vb_slab *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  made->domain = domain;
  made->size = vb_slab_size_of_next(worker, domain, units);
  made->taken = vb_bits_open(made->size);
  int rc = made->taken ? vb_domain_pages_open(domain, label, "credits", (size_t)made->size * UNIT,
                                              &made->bytes, &made->mr)
                       : -ENOMEM;
  if (rc < 0) {
    vb_slab_close(made);
    return rc;
  }
  made->next = worker->slabs;
  worker->slabs = made;
  *slab = made;
  return 0;
}

/* The first of `units` free units that follow one another; UINT32_MAX: there are none. */
static uint32_t vb_slab_find(const struct vb_slab *slab, uint32_t units)
{
  if (slab->size - slab->used < units)
    return UINT32_MAX;
  for (uint32_t i = 0, n = 0; i < slab->size; i++) {
    n = vb_bits_has(slab->taken, i) ? 0 : n + 1;
    if (n == units)
      return i + 1 - units;
  }
  return UINT32_MAX;
}

int vb_slab_take(struct pst_worker *worker, struct vb_domain *domain, const char *label,
                 uint32_t bytes, uint8_t **at, struct ibv_mr **mr)
{
  const uint32_t units = vb_slab_units_of(bytes);
  struct vb_slab *slab = worker->slabs;
  uint32_t first = UINT32_MAX;

  for (; slab; slab = slab->next)
    if (slab->domain == domain && (first = vb_slab_find(slab, units)) != UINT32_MAX)
      break;
  if (!slab) {
    int rc = vb_slab_open(worker, domain, label, units, &slab);
    if (rc < 0)
      return rc;
    first = 0;
  }
  vb_bits_set(slab->taken, first, units);
  slab->used += units;
  *at = slab->bytes + (size_t)first * UNIT;
  *mr = slab->mr;
  return 0;
}

void vb_slab_give(struct pst_worker *worker, const uint8_t *at, uint32_t bytes)
{
  const uint32_t units = vb_slab_units_of(bytes);
  struct vb_slab **slot = &worker->slabs;

  if (!at)
    return;
  while ((uintptr_t)at - (uintptr_t)(*slot)->bytes >= (size_t)(*slot)->size * UNIT)
    slot = &(*slot)->next;
  struct vb_slab *slab = *slot;
  vb_bits_take(slab->taken, (uint32_t)((at - slab->bytes) / UNIT), units);
  slab->used -= units;
  if (slab->used)
    return;
  *slot = slab->next;
  vb_slab_close(slab);
}
