/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views as DLPack tensors. The consumer deletes a tensor at any time and on any thread,
 * but a view is released on its own thread alone. So deleted tensors go to a list, which the next
 * poll takes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/dlpack.h>

#include "receiver.h"

struct tensor {
  struct DLManagedTensorVersioned managed;
  struct tensors *home;
  struct tensor *next;
  void *native;
  int64_t shape[2], strides[2];
  uint32_t count;
  struct pst_view views[];
};

/* State of a receiver's tensors, which lives as long as the receiver and all of its tensors. */
struct tensors {
  atomic_uint users;
  atomic_bool closed;               /* nobody polls any more */
  _Atomic(struct tensor *) deleted; /* and not taken back yet */
  struct tensor *waiting; /* of these, the receiver's thread's: too many wait for fences */
};

/* Deleted tensors that one poll takes. Each order of work takes one of the memory's few fences in a
 * poll, however many tensors were on it. */
#define TENSORS_RELEASES 256

static void dlpack_leave(struct tensors *home)
{
  if (atomic_fetch_sub(&home->users, 1) == 1)
    free(home);
}

static void dlpack_drop_list(struct tensor *tensor)
{
  struct tensor *next;

  for (; tensor; tensor = next) {
    next = tensor->next;
    free(tensor);
  }
}

static void dlpack_delete(struct DLManagedTensorVersioned *managed)
{
  struct tensor *tensor = managed->manager_ctx;
  struct tensors *home = tensor->home;

  tensor->next = atomic_load(&home->deleted);
  while (!atomic_compare_exchange_weak(&home->deleted, &tensor->next, tensor))
    ;
  if (atomic_load(&home->closed))
    dlpack_drop_list(atomic_exchange(&home->deleted, NULL));
  dlpack_leave(home);
}

uint32_t pst_view_rows(const struct pst_view *views, uint32_t n)
{
  const uint64_t stride = n > 1 ? views[1].address - views[0].address : 0;
  uint32_t rows = n ? 1 : 0;

  /* Backwards is a huge number here. */
  if (n > 1 && (stride < views[0].length || stride > (uint64_t)INT64_MAX))
    return 1;
  while (rows < n && views[rows].length == views[0].length &&
         views[rows].address == views[rows - 1].address + stride)
    rows++;
  return rows;
}

static int32_t dlpack_device_type(const struct pst_receiver *receiver)
{
  switch (receiver->end.memory_kind) {
  case PST_MEMORY_CUDA:
    return kDLCUDA;
  case PST_MEMORY_MAPPED:
    return kDLCUDAHost;
  default:
    return kDLCPU;
  }
}

static bool dlpack_is_lent(const struct pst_receiver *receiver)
{
  return !receiver->ring->ops->copies &&
         (receiver->end.lane->device->limits.capabilities & PST_CAP_LEND);
}

static void dlpack_describe(const struct pst_receiver *receiver, struct tensor *tensor,
                            int32_t device_id)
{
  const struct pst_view *views = tensor->views;
  int32_t type = dlpack_device_type(receiver);

  tensor->shape[0] = tensor->count;
  tensor->shape[1] = views->length;
  tensor->strides[0] =
      tensor->count > 1 ? (int64_t)(views[1].address - views->address) : views->length;
  tensor->strides[1] = 1;
  tensor->managed = (struct DLManagedTensorVersioned){
      .version = {1, 0},
      .manager_ctx = tensor,
      .deleter = dlpack_delete,
      .flags = dlpack_is_lent(receiver) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
      .dl_tensor = {.data = (void *)(uintptr_t)views->address, /* kDLCPU: it is the host's */
                    .device = {type, type == kDLCPU ? 0 : device_id},
                    .ndim = 2,
                    .dtype = {kDLUInt, 8, 1},
                    .shape = tensor->shape,
                    .strides = tensor->strides},
  };
}

/* All those on the first one's order of work, behind one fence. */
static int dlpack_take_back_some(struct pst_receiver *receiver, struct tensor **list)
{
  void *native = (*list)->native;
  struct pst_fence *fence = NULL;
  bool begun = false;
  int rc = native ? pst_receiver_fence(receiver, native, &fence) : 0;

  while (*list && rc == 0) {
    struct tensor *tensor = *list;
    if (tensor->native != native) {
      list = &tensor->next;
      continue;
    }
    if (fence && begun)
      rc = receiver_release_more(receiver, tensor->views, tensor->count);
    else
      rc = pst_receiver_release_after(receiver, tensor->views, tensor->count, fence);
    begun = true;
    if (rc == 0) {
      *list = tensor->next;
      free(tensor);
    }
  }
  return rc;
}

static int dlpack_take_back(struct pst_receiver *receiver)
{
  struct tensors *home = receiver->client_data;
  struct tensor **last = &home->waiting;
  int rc = 0;

  if (atomic_load_explicit(&home->deleted, memory_order_relaxed)) {
    while (*last)
      last = &(*last)->next;
    *last = atomic_exchange(&home->deleted, NULL);
  }
  while (rc == 0 && home->waiting && fifo_count(&receiver->releases) < TENSORS_RELEASES)
    rc = dlpack_take_back_some(receiver, &home->waiting);
  return rc;
}

/* Views come back without the thread's being woken. */
static uint64_t dlpack_due_ns(const struct pst_receiver *receiver, uint64_t now)
{
  const struct tensors *home = receiver->client_data;
  const bool is_out = atomic_load(&home->users) > 1 || atomic_load(&home->deleted) || home->waiting;

  return is_out ? now + ENGINE_NAP_NS : 0;
}

static void dlpack_close(struct pst_receiver *receiver)
{
  struct tensors *home = receiver->client_data;

  atomic_store(&home->closed, true);
  dlpack_drop_list(atomic_exchange(&home->deleted, NULL));
  dlpack_drop_list(home->waiting);
  dlpack_leave(home);
}

static const struct receiver_client_ops tensors_client_ops = {
    .progress = dlpack_take_back, .due_ns = dlpack_due_ns, .close = dlpack_close};

static struct tensors *dlpack_home_of(struct pst_receiver *receiver)
{
  struct tensors *home = receiver->client_data;

  if (home)
    return home;
  home = receiver->client_data = calloc(1, sizeof(*home));
  if (home) {
    atomic_init(&home->users, 1);
    stat_set(receiver->client, &tensors_client_ops);
  }
  return home;
}

int pst_receiver_dlpack(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                        void *native, int32_t device_id, struct DLManagedTensorVersioned **tensor)
{
  if (receiver_is_taken(receiver) || n == 0 || pst_view_rows(views, n) < n)
    return -EINVAL;
  struct tensors *home = dlpack_home_of(receiver);
  struct tensor *made = malloc(sizeof(*made) + n * sizeof(*views));
  if (!home || !made) {
    free(made);
    return -ENOMEM;
  }
  int rc = pst_receiver_fence_wait(receiver, receiver->ready, native);
  if (rc < 0) {
    free(made);
    return rc;
  }
  made->home = home;
  made->native = native;
  made->count = n;
  memcpy(made->views, views, n * sizeof(*views));
  dlpack_describe(receiver, made, device_id);
  atomic_fetch_add(&home->users, 1);
  *tensor = &made->managed;
  return 0;
}
