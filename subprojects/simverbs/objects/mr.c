/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions and windows. */
#include "front/refused.h"
#include "objects.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint32_t known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                     IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                     IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;

static int sim_mr_check_access(uint32_t access)
{
  if (access & IBV_ACCESS_ON_DEMAND)
    return sim_refused("IBV_ACCESS_ON_DEMAND");
  if (access & ~known_access)
    return EINVAL;
  if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
      !(access & IBV_ACCESS_LOCAL_WRITE))
    return EINVAL;
  return 0;
}

/* Pages are pinned at registration: each must be there, and writable if the region is to be. */
static int sim_mr_check_mapped(uint64_t address, uint64_t length, bool writable)
{
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps)
    return errno;
  uint64_t at = address, end = address + length;
  char line[512];
  while (at < end && fgets(line, sizeof(line), maps)) {
    uint64_t from, to;
    char rights[8];
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, rights) != 3 || to <= at)
      continue;
    if (from > at || rights[0] != 'r' || (writable && rights[1] != 'w'))
      break;
    at = to;
  }
  fclose(maps);
  return at < end ? EFAULT : 0;
}

/* A dma-buf stands for memory that this process may not have mapped at all. */
static int sim_mr_map_dmabuf(const struct sim_mr_init *init, void **mapped, size_t *mapped_len,
                             uint64_t *address)
{
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  if ((init->iova ^ init->fd_offset) & (page - 1))
    return EINVAL;
  /* A dma-buf keeps its size. A memfd in its place needs a seal for that, else another process that
   * has the memfd could kill this one by SIGBUS. */
  int seals = fcntl(init->fd, F_GET_SEALS);
  if (seals >= 0 && !(seals & F_SEAL_SHRINK))
    return EINVAL;
  struct stat st;
  if (fstat(init->fd, &st))
    return EBADF;
  /* A memfd stands in for a dma-buf that begins at its file position (tests/fakes/cuda). */
  off_t position = S_ISREG(st.st_mode) ? lseek(init->fd, 0, SEEK_CUR) : 0;
  uint64_t begin = position > 0 ? (uint64_t)position : 0;
  if ((begin & (page - 1)) || init->fd_offset + init->length < init->length ||
      (S_ISREG(st.st_mode) && begin + init->fd_offset + init->length > (uint64_t)st.st_size))
    return EINVAL;
  uint64_t skip = init->fd_offset & (page - 1);
  int rights = init->access & IBV_ACCESS_LOCAL_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
  void *at = mmap(NULL, init->length + skip, rights, MAP_SHARED, init->fd,
                  (off_t)(begin + init->fd_offset - skip));
  if (at == MAP_FAILED)
    return errno;
  *mapped = at;
  *mapped_len = init->length + skip;
  *address = (uintptr_t)at + skip;
  return 0;
}

static int sim_mr_resolve(struct ibv_context *context, const struct sim_mr_init *init,
                          void **mapped, size_t *mapped_len, uint64_t *address)
{
  int error = sim_mr_check_access(init->access);
  uint32_t device = sim_device_number(context);
  if (!error && init->dmabuf && !fab->device[device].caps.dmabuf)
    error = EOPNOTSUPP;
  if (!error && init->dmabuf)
    fab_fault_hits(FAB_FAULT_DMABUF, device, 0, NULL, &error);
  if (!error)
    fab_fault_hits(FAB_FAULT_REG_MR, device, 0, NULL, &error);
  if (!error && (!init->length || init->addr + init->length < init->addr ||
                 init->iova + init->length < init->iova))
    error = EINVAL;
  if (error)
    return error;
  *mapped = NULL;
  *mapped_len = 0;
  *address = init->addr;
  if (init->dmabuf)
    return sim_mr_map_dmabuf(init, mapped, mapped_len, address);
  return sim_mr_check_mapped(init->addr, init->length, init->access & IBV_ACCESS_LOCAL_WRITE);
}

/* A key that nobody has had: the entry's index between a generation and a variant that both go
 * on. */
static uint32_t sim_mr_next_key(uint32_t index, uint32_t last)
{
  uint32_t generation = ((last >> (8 + FAB_MR_BITS)) + 1) & ((1u << (24 - FAB_MR_BITS)) - 1);
  uint32_t variant = (last + 1) & 0xff;
  return generation << (8 + FAB_MR_BITS) | index << 8 | variant;
}

static int sim_mr_take(struct ibv_context *context, struct fab_mr *content, uint32_t *index)
{
  struct fab_device *device = sim_fab_device(context);
  uint32_t max = content->is_window ? device->caps.max_mw : device->caps.max_mr;
  if (!fab_count(device, FAB_KIND_MR, max))
    return ENOMEM;
  fab_lock(&fab->lock);
  int64_t i = fab_entry(FAB_KIND_MR);
  if (i >= 0) {
    struct fab_mr *mr = &fab->mr[i];
    content->owner = (uint16_t)fab_slot;
    content->device = (uint16_t)sim_device_number(context);
    size_t from = offsetof(struct fab_mr, owner);
    memcpy((char *)mr + from, (char *)content + from, sizeof(*mr) - from);
    mr->last_key = sim_mr_next_key((uint32_t)i, mr->last_key);
    atomic_store_explicit(&mr->number, mr->last_key, memory_order_release);
    *index = (uint32_t)i;
  }
  fab_unlock(&fab->lock);
  if (i < 0)
    fab_uncount(device, FAB_KIND_MR);
  return i < 0 ? ENOMEM : 0;
}

static void sim_mr_enlist(unsigned *count, struct sim_list *list, struct sim_list *link)
{
  pthread_mutex_lock(&sim_self.lock);
  ++*count;
  sim_list_add(list, link);
  pthread_mutex_unlock(&sim_self.lock);
}

static void sim_mr_delist(unsigned *count, struct sim_list *link)
{
  pthread_mutex_lock(&sim_self.lock);
  --*count;
  sim_list_del(link);
  pthread_mutex_unlock(&sim_self.lock);
}

struct sim_mr *sim_mr_reg(struct sim_pd *pd, const struct sim_mr_init *init)
{
  struct ibv_context *context = pd->pd.context;
  struct sim_mr *mr = calloc(1, sizeof(*mr));
  if (!mr)
    return sim_fail(ENOMEM);
  struct fab_mr content = {
      .pd = pd->id, .access = init->access, .iova = init->iova, .length = init->length, .valid = 1};
  int error = sim_mr_resolve(context, init, &mr->mapped, &mr->mapped_len, &content.address);
  if (!error)
    error = sim_mr_take(context, &content, &mr->index);
  if (error) {
    if (mr->mapped)
      munmap(mr->mapped, mr->mapped_len);
    free(mr);
    return sim_fail(error);
  }
  uint32_t key = fab->mr[mr->index].number;
  mr->mr = (struct ibv_mr){.context = context,
                           .pd = &pd->pd,
                           .addr = (void *)(uintptr_t)(init->dmabuf ? init->iova : init->addr),
                           .length = init->length,
                           .handle = mr->index,
                           .lkey = key,
                           .rkey = key};
  sim_alive(&pd->users, 1);
  sim_mr_enlist(&sim_context_of(context)->mrs, &sim_context_of(context)->regions, &mr->link);
  return mr;
}

int sim_mr_rereg(struct sim_mr *mr, int flags, struct sim_pd *pd, const struct sim_mr_init *init)
{
  if (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED))
    return EINVAL;
  struct fab_mr *entry = &fab->mr[mr->index];
  struct sim_mr_init all = *init;
  if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
    all.access = entry->access;
  if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
    all.addr = entry->address;
    all.length = entry->length;
    all.iova = entry->iova;
  }
  void *mapped;
  size_t mapped_len;
  uint64_t address;
  all.dmabuf = false;
  int error = sim_mr_resolve(mr->mr.context, &all, &mapped, &mapped_len, &address);
  if (error)
    return error;
  fab_lock(&entry->lock);
  if (entry->windows) {
    fab_unlock(&entry->lock);
    return EBUSY;
  }
  entry->access = all.access;
  entry->address = address;
  entry->length = all.length;
  entry->iova = all.iova;
  if (flags & IBV_REREG_MR_CHANGE_PD)
    entry->pd = pd->id;
  fab_unlock(&entry->lock);
  if (flags & IBV_REREG_MR_CHANGE_PD) {
    sim_alive(&sim_pd_of(mr->mr.pd)->users, -1);
    sim_alive(&pd->users, 1);
    mr->mr.pd = &pd->pd;
  }
  mr->mr.addr = (void *)(uintptr_t)all.addr;
  mr->mr.length = all.length;
  return 0;
}

/* Waits for what is being moved, as hardware's deregistration does. */
static int sim_mr_give(struct ibv_context *context, uint32_t index)
{
  struct fab_mr *entry = &fab->mr[index];
  fab_lock(&entry->lock);
  bool busy = entry->windows;
  if (!busy)
    atomic_store(&entry->number, 0);
  fab_unlock(&entry->lock);
  if (busy)
    return EBUSY;
  fab_uncount(sim_fab_device(context), FAB_KIND_MR);
  return 0;
}

int sim_mr_dereg(struct sim_mr *mr)
{
  int error = sim_mr_give(mr->mr.context, mr->index);
  if (error)
    return error;
  sim_alive(&sim_pd_of(mr->mr.pd)->users, -1);
  sim_mr_delist(&sim_context_of(mr->mr.context)->mrs, &mr->link);
  if (mr->mapped)
    munmap(mr->mapped, mr->mapped_len);
  free(mr);
  return 0;
}

struct sim_mw *sim_mw_alloc(struct sim_pd *pd, enum ibv_mw_type type)
{
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
    return sim_fail(EINVAL);
  struct sim_mw *mw = calloc(1, sizeof(*mw));
  if (!mw)
    return sim_fail(ENOMEM);
  struct fab_mr content = {.pd = pd->id, .is_window = (uint8_t)type};
  int error = sim_mr_take(pd->pd.context, &content, &mw->index);
  if (error) {
    free(mw);
    return sim_fail(error);
  }
  mw->mw = (struct ibv_mw){.context = pd->pd.context,
                           .pd = &pd->pd,
                           .rkey = fab->mr[mw->index].number,
                           .handle = mw->index,
                           .type = type};
  sim_alive(&pd->users, 1);
  sim_mr_enlist(&sim_context_of(pd->pd.context)->mws, &sim_context_of(pd->pd.context)->windows,
                &mw->link);
  return mw;
}

void sim_mw_unbind(struct fab_mr *window)
{
  fab_lock(&window->lock);
  uint32_t of = window->window_of;
  window->window_of = 0;
  window->valid = 0;
  fab_unlock(&window->lock);
  if (!of)
    return;
  struct fab_mr *mr = &fab->mr[of - 1];
  fab_lock(&mr->lock);
  mr->windows--;
  fab_unlock(&mr->lock);
}

int sim_mw_free(struct sim_mw *mw)
{
  sim_mw_unbind(&fab->mr[mw->index]);
  int error = sim_mr_give(mw->mw.context, mw->index);
  if (error)
    return error;
  sim_alive(&sim_pd_of(mw->mw.pd)->users, -1);
  sim_mr_delist(&sim_context_of(mw->mw.context)->mws, &mw->link);
  free(mw);
  return 0;
}
