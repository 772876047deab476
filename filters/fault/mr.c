/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations. For those that may be sent from, the CPU's address is kept. */
#include <errno.h>
#include <stdlib.h>

#include <penstock/transport-util.h>

#include "device.h"
#include "ops.h"

static struct fault_mr *fault_mr_free_entry(struct pst_device *device)
{
  struct fault_mr *entry = atomic_load_explicit(&device->mrs, memory_order_relaxed);
  for (; entry; entry = entry->next)
    if (!atomic_load_explicit(&entry->mr, memory_order_relaxed))
      return entry;
  entry = calloc(1, sizeof(*entry));
  if (!entry)
    return NULL;
  entry->next = atomic_load_explicit(&device->mrs, memory_order_relaxed);
  atomic_store_explicit(&device->mrs, entry, memory_order_release);
  return entry;
}

const struct fault_mr *fault_mr_find(struct pst_device *device, const struct pst_mr *mr)
{
  const struct fault_mr *entry = atomic_load_explicit(&device->mrs, memory_order_acquire);
  while (entry && atomic_load_explicit(&entry->mr, memory_order_acquire) != mr)
    entry = entry->next;
  return entry;
}

int fault_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                      struct pst_mr **mr)
{
  bool sends = (params->access & PST_ACCESS_LOCAL_READ) && !(params->access & PST_ACCESS_RING);
  if (!device->plan.corrupt || !sends)
    return device->ops->mr_register(device->inner, params, mr);
  if (!params->region->host)
    return PST_REFUSE(device->host, -EINVAL,
                      "corrupt_ppm needs payloads that the CPU can read, and this memory (%s) has "
                      "no host mapping; set corrupt_ppm to 0 or send from other memory",
                      params->region->backing);
  struct fault_mr *entry = fault_mr_free_entry(device);
  struct pst_mr *made = NULL;
  if (!entry)
    return -ENOMEM;
  int rc = device->ops->mr_register(device->inner, params, &made);
  if (rc != 0)
    return rc;
  entry->host = (const uint8_t *)params->region->host + params->offset;
  entry->length = params->length;
  atomic_store_explicit(&entry->mr, made, memory_order_release);
  *mr = made;
  return 0;
}

void fault_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  struct fault_mr *entry = atomic_load_explicit(&device->mrs, memory_order_relaxed);
  for (; mr && entry; entry = entry->next)
    if (atomic_load_explicit(&entry->mr, memory_order_relaxed) == mr)
      atomic_store_explicit(&entry->mr, NULL, memory_order_release);
  device->ops->mr_deregister(device->inner, mr);
}

void fault_mrs_free(struct pst_device *device)
{
  struct fault_mr *entry = atomic_load(&device->mrs);
  while (entry) {
    struct fault_mr *next = entry->next;
    free(entry);
    entry = next;
  }
}
