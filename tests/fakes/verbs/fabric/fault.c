/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: planted by the description or by `penstock-simverbs ctl`, consumed here. */
#include "fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t fab_random(void)
{
  static _Atomic uint64_t state = 0x9e3779b97f4a7c15u;
  uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static bool matches(const struct fab_fault *fault, uint32_t device, uint32_t qpn)
{
  if (fault->host && fault->host != fab->device[device].host + 1u)
    return false;
  if (fault->device && fault->device != device + 1)
    return false;
  if (fault->qpn && fault->qpn != qpn)
    return false;
  return true;
}

/* Takes one of what is left; false once there is nothing. */
static bool take(struct fab_fault *fault)
{
  if (atomic_load(&fault->after) > 0 && atomic_fetch_sub(&fault->after, 1) > 0)
    return false;
  int64_t left = atomic_load(&fault->left);
  while (left > 0) {
    if (atomic_compare_exchange_weak(&fault->left, &left, left - 1))
      return true;
  }
  return left < 0;
}

bool fab_fault_hits(enum fab_fault_kind kind, uint32_t device, uint32_t qpn, uint64_t *delay_ns,
                    int *error)
{
  for (unsigned i = 0; i < FAB_FAULTS; i++) {
    struct fab_fault *fault = &fab->fault[i];
    if (atomic_load_explicit(&fault->kind, memory_order_acquire) != (uint32_t)kind ||
        !matches(fault, device, qpn))
      continue;
    if (fault->per_million < 1000000 && fab_random() % 1000000 >= fault->per_million)
      continue;
    if (!take(fault))
      continue;
    if (delay_ns)
      *delay_ns = fault->delay_ns;
    if (error)
      *error = fault->error;
    return true;
  }
  return false;
}

enum fab_fault_kind fab_fault_kind_of(const char *name)
{
  static const char *const names[] = {
      [FAB_FAULT_DROP] = "drop",     [FAB_FAULT_DELAY] = "delay",   [FAB_FAULT_RNR] = "rnr",
      [FAB_FAULT_REG_MR] = "reg-mr", [FAB_FAULT_DMABUF] = "dmabuf",
  };
  for (unsigned i = 1; i < sizeof(names) / sizeof(names[0]); i++) {
    if (!strcmp(names[i], name))
      return i;
  }
  return FAB_FAULT_NONE;
}

int fab_fault_plant(struct fabric *f, enum fab_fault_kind kind, const struct fab_fault *fault)
{
  for (unsigned i = 0; i < FAB_FAULTS; i++) {
    struct fab_fault *to = &f->fault[i];
    if (atomic_load(&to->kind) != FAB_FAULT_NONE && atomic_load(&to->left) != 0)
      continue;
    atomic_store(&to->kind, FAB_FAULT_NONE);
    *to = *fault;
    atomic_store_explicit(&to->kind, kind, memory_order_release);
    return 0;
  }
  return ENOSPC;
}

int fab_errno(const char *text)
{
  char *end;
  long number = strtol(text, &end, 10);
  if (end != text && !*end && number > 0 && number < 4096)
    return (int)number;
  for (int i = 1; i < 134; i++) {
    const char *name = strerrorname_np(i);
    if (name && !strcmp(name, text))
      return i;
  }
  return -1;
}
