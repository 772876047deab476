/* SPDX-License-Identifier: Apache-2.0 */
/* Room in the fabric: pages for rings, entries for objects. Each carries its owner, so that what a
 * killed process had, or was about to have, is found again. */
#include "fabric.h"

static uint32_t fab_alloc_pages_of(size_t bytes)
{
  return (uint32_t)((bytes + FAB_PAGE - 1) / FAB_PAGE);
}

/* A run of free pages in [from, to); 0 if there is none: page 0 is the header's. */
static uint32_t fab_alloc_find_run(uint32_t from, uint32_t to, uint32_t count)
{
  uint32_t run = 0;
  for (uint32_t page = from; page < to; page++) {
    run = fab->page_owner[page] ? 0 : run + 1;
    if (run == count)
      return page - count + 1;
  }
  return 0;
}

uint64_t fab_block_alloc(size_t bytes)
{
  uint32_t count = fab_alloc_pages_of(bytes);
  fab_lock(&fab->lock);
  uint32_t first_free = fab_alloc_pages_of(sizeof(struct fabric));
  uint32_t from = fab->page_cursor < first_free ? first_free : fab->page_cursor;
  uint32_t page = fab_alloc_find_run(from, FAB_PAGES, count);
  if (!page)
    page = fab_alloc_find_run(first_free, FAB_PAGES, count);
  for (uint32_t i = 0; page && i < count; i++)
    fab->page_owner[page + i] = (uint16_t)(fab_slot + 1);
  if (page)
    fab->page_cursor = page + count;
  fab_unlock(&fab->lock);
  if (!page)
    return 0;
  uint64_t offset = (uint64_t)page * FAB_PAGE;
  if (!fab_back(offset, (uint64_t)count * FAB_PAGE)) {
    fab_block_free(offset, bytes);
    return 0;
  }
  return offset;
}

void fab_block_free(uint64_t offset, size_t bytes)
{
  if (!offset)
    return;
  fab_lock(&fab->lock);
  uint32_t page = (uint32_t)(offset / FAB_PAGE);
  for (uint32_t i = 0; i < fab_alloc_pages_of(bytes); i++)
    fab->page_owner[page + i] = 0;
  if (page < fab->page_cursor)
    fab->page_cursor = page;
  fab_unlock(&fab->lock);
}

static bool fab_alloc_is_free(enum fab_kind kind, uint32_t i)
{
  switch (kind) {
  case FAB_KIND_PD:
    return !fab->pd[i].number;
  case FAB_KIND_MR:
    return !fab->mr[i].number;
  case FAB_KIND_CQ:
    return !fab->cq[i].number;
  case FAB_KIND_SRQ:
    return !fab->srq[i].number;
  default:
    return !fab->qp[i].number;
  }
}

static pthread_mutex_t *fab_alloc_lock_of(enum fab_kind kind, uint32_t i)
{
  switch (kind) {
  case FAB_KIND_MR:
    return &fab->mr[i].lock;
  case FAB_KIND_CQ:
    return &fab->cq[i].lock;
  case FAB_KIND_SRQ:
    return &fab->srq[i].lock;
  case FAB_KIND_QP:
    return &fab->qp[i].lock;
  default:
    return NULL;
  }
}

/* Has room behind an entry that was never used: not even looking at it may fail. */
static bool fab_alloc_back_entry(enum fab_kind kind, uint32_t i)
{
  static const struct {
    size_t table, size;
  } of[FAB_KINDS] = {
      [FAB_KIND_PD] = {offsetof(struct fabric, pd), sizeof(struct fab_pd)},
      [FAB_KIND_MR] = {offsetof(struct fabric, mr), sizeof(struct fab_mr)},
      [FAB_KIND_CQ] = {offsetof(struct fabric, cq), sizeof(struct fab_cq)},
      [FAB_KIND_SRQ] = {offsetof(struct fabric, srq), sizeof(struct fab_srq)},
      [FAB_KIND_QP] = {offsetof(struct fabric, qp), sizeof(struct fab_qp)},
  };
  return fab_back(of[kind].table + i * of[kind].size, of[kind].size);
}

int64_t fab_entry(enum fab_kind kind)
{
  static const uint32_t sizes[FAB_KINDS] = {
      [FAB_KIND_PD] = FAB_QPS,   [FAB_KIND_MR] = FAB_MRS, [FAB_KIND_CQ] = FAB_CQS,
      [FAB_KIND_SRQ] = FAB_SRQS, [FAB_KIND_QP] = FAB_QPS,
  };
  /* Numbers begin at 64, as hardware keeps the first for itself. */
  static const uint32_t first = 64;
  uint32_t size = sizes[kind];
  for (uint32_t tried = 0; tried < size; tried++) {
    uint32_t i = fab->cursor[kind];
    if (i < first || i >= size)
      i = first;
    fab->cursor[kind] = i + 1;
    if (i >= fab->high[kind]) {
      if (!fab_alloc_back_entry(kind, i)) {
        fab->cursor[kind] = first; /* what is given back is found again */
        return -1;
      }
      /* A lock is made once: somebody may be about to take it for the entry's last user. */
      if (fab_alloc_lock_of(kind, i))
        fab_lock_init(fab_alloc_lock_of(kind, i));
      fab->high[kind] = i + 1;
      return i;
    }
    if (fab_alloc_is_free(kind, i))
      return i;
  }
  return -1;
}

bool fab_count(struct fab_device *device, enum fab_kind kind, uint32_t max)
{
  if (atomic_fetch_add(&device->objects[kind], 1) < max)
    return true;
  fab_uncount(device, kind);
  return false;
}

void fab_uncount(struct fab_device *device, enum fab_kind kind)
{
  atomic_fetch_sub(&device->objects[kind], 1);
}
