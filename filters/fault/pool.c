/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of our own for corrupted copies. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <penstock/page.h>
#include <penstock/transport-util.h>

#include "device.h"

static int fault_pool_map(struct fault_pool *pool, uint64_t length, uint64_t page_size)
{
  void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return -errno;
  pool->region = (struct pst_region){.struct_size = sizeof(pool->region),
                                     .kind = PST_MEMORY_HOST,
                                     .address = (uint64_t)(uintptr_t)map,
                                     .host = map,
                                     .length = length,
                                     .page_size = page_size,
                                     .backing = "copies of the filter fault"};
  return 0;
}

int fault_pool_open(struct pst_device *device, const struct pst_plan *plan,
                    const struct pst_limits *limits)
{
  const uint64_t page = pst_page_size();
  struct fault_pool *pool = &device->pool;
  uint64_t align = limits->slot_alignment > 64 ? limits->slot_alignment : 64;
  struct pst_path_info path = {.struct_size = sizeof(path)};
  if (!device->plan.corrupt || !plan->senders)
    return 0;
  pool->stride = (plan->message_max + align - 1) / align * align;
  pool->parts = plan->senders;
  uint64_t length = (pool->stride * FAULT_COPIES * pool->parts + page - 1) / page * page;
  int rc = length ? fault_pool_map(pool, length, page) : -EINVAL;
  if (rc == 0) {
    struct pst_mr_params params = {.struct_size = sizeof(params),
                                   .access = PST_ACCESS_LOCAL_READ,
                                   .region = &pool->region,
                                   .length = length,
                                   .path = &path};
    rc = device->ops->mr_register(device->inner, &params, &pool->mr);
  }
  return rc == 0 ? 0
                 : PST_REFUSE(device->host, rc,
                              "corrupt_ppm needs %llu bytes of host memory for its copies, "
                              "registered with the transport, which answers: %s%s%s; set "
                              "corrupt_ppm to 0",
                              (unsigned long long)length, strerror(-rc), path.reason[0] ? ": " : "",
                              path.reason);
}

void fault_pool_close(struct pst_device *device)
{
  if (device->pool.mr)
    device->ops->mr_deregister(device->inner, device->pool.mr);
  if (device->pool.region.host)
    munmap(device->pool.region.host, device->pool.region.length);
}

int fault_part_take(struct pst_device *device, uint32_t *part)
{
  if (!device->plan.corrupt)
    return 0;
  uint32_t taken = atomic_fetch_add(&device->pool.parts_used, 1);
  if (taken >= device->pool.parts) {
    atomic_fetch_sub(&device->pool.parts_used, 1);
    return PST_REFUSE(device->host, -ENOSPC,
                      "corrupt_ppm has copies for the %u senders of the plan only",
                      device->pool.parts);
  }
  *part = taken;
  return 0;
}

void fault_part_untake(struct pst_device *device, uint32_t part)
{
  uint32_t expected = part + 1;
  if (device->plan.corrupt)
    atomic_compare_exchange_strong(&device->pool.parts_used, &expected, part);
}

static bool fault_pool_copy_piece(struct pst_device *device, uint8_t *to,
                                  const struct pst_piece *piece)
{
  const struct fault_mr *entry = piece->mr ? fault_mr_find(device, piece->mr) : NULL;
  if (piece->length == 0)
    return true;
  if (!entry || !pst_range_holds(entry->length, piece->offset, piece->length))
    return false;
  memcpy(to, entry->host + piece->offset, piece->length);
  return true;
}

static bool fault_pool_gather(struct pst_device *device, uint8_t *to,
                              const struct pst_request *request)
{
  uint64_t left = request->arg.length;
  struct pst_piece one;
  uint32_t count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);
  for (uint32_t i = 0; i < count; i++) {
    const struct pst_piece *piece = &pieces[i];
    if (piece->length > left || !fault_pool_copy_piece(device, to, piece))
      return false;
    to += piece->length;
    left -= piece->length;
  }
  return left == 0;
}

bool fault_corrupt(struct pst_device *device, uint32_t part, uint16_t copy,
                   const struct pst_request *request, struct pst_request *corrupted)
{
  const struct fault_pool *pool = &device->pool;
  uint64_t length = request->arg.length;
  uint64_t offset = (part * FAULT_COPIES + copy - 1u) * pool->stride;
  uint8_t *to = (uint8_t *)pool->region.host + offset;
  if (!fault_pool_gather(device, to, request))
    return false;
  uint64_t bit = fault_mix(fault_draw(&device->plan, request->u.send.sequence)) % (length * 8);
  to[bit / 8] ^= (uint8_t)(1u << bit % 8);
  *corrupted = *request;
  /* Nobody has asked the transport whether it wants room before the payload. */
  corrupted->flags &= (uint8_t)~PST_REQUEST_EXCLUSIVE;
  corrupted->piece_count = 0;
  corrupted->local.mr = pool->mr;
  corrupted->offset = offset;
  return true;
}
