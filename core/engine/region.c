/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a transport reaches: allocated, checked and registered. */
#include "region.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/log.h"
#include "util/units.h"

#define REGION_ACCESS_REMOTE                                                                       \
  (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)

bool region_lacks(const struct pst_region *mem, uint32_t needs, const char **lacks)
{
  const uint32_t shared =
      PST_EXPORT_FD | (mem->host ? 0u : (uint32_t)PST_EXPORT_DMABUF | PST_EXPORT_VENDOR_FD);

  if ((needs & PST_NEED_CPU_ACCESS) && !mem->host)
    *lacks = "memory that the CPU can touch";
  else if ((needs & PST_NEED_EXPORT_FD) && !(mem->exports & shared))
    *lacks = "memory that can be shared by a file descriptor";
  else if ((needs & PST_NEED_PINNED) && !(mem->flags & PST_REGION_PINNED))
    *lacks = "pinned memory";
  else
    return false;
  return true;
}

int region_alloc(struct region *region, const struct region_params *params, struct region_why *why)
{
  const struct loader_plugin *plugin = params->memory->plugin;
  const struct pst_alloc_params alloc = {.struct_size = sizeof(alloc),
                                         .purpose = params->purpose,
                                         .length = params->length,
                                         .alignment = params->alignment ? params->alignment
                                                                        : pst_page_size(),
                                         .needs = params->needs,
                                         .label = params->label,
                                         .lower = params->lower};
  char bytes[UNITS_ABOUT_BYTES];

  *region = (struct region){.memory = params->memory,
                            .mem = {.struct_size = sizeof(region->mem)},
                            .length = params->length,
                            .path = {.struct_size = sizeof(region->path)}};
  pst_log_clear_error();
  int rc = params->memory->ops->alloc(params->memory->memory, &alloc, &region->mem);
  region->is_open = rc == 0;
  if (rc == 0)
    return 0;
  units_print_about(params->length, bytes, sizeof(bytes));
  /* A NIC may reach less of a GPU than there is. */
  if (rc == -ENOMEM && (params->needs & PST_NEED_EXPORT_DMABUF) && params->is_staged_else) {
    why->is_alloc = false;
    snprintf(why->text, sizeof(why->text), "memory %s has no %s that a NIC can reach", plugin->name,
             bytes);
    return -EOPNOTSUPP;
  }
  why->is_alloc = true;
  snprintf(why->text, sizeof(why->text), "memory %s cannot allocate %s%s: %s", plugin->name, bytes,
           params->use ? params->use : "", strerror(-rc));
  return rc;
}

bool region_meets(const struct region *region, const struct region_params *params,
                  struct region_why *why)
{
  const char *lacks;

  if (!region_lacks(&region->mem, params->needs, &lacks))
    return true;
  why->is_alloc = false;
  snprintf(why->text, sizeof(why->text), "transport %s %s %s, which memory %s (%s) is not",
           params->device->plugin->name, params->does ? params->does : "needs", lacks,
           region->memory->plugin->name, region->mem.backing);
  return false;
}

int region_register(const struct region *region, const struct region_params *params,
                    struct pst_mr **mr, struct pst_path_info *path, struct region_why *why)
{
  const struct engine_device *device = params->device;
  const struct pst_mr_params mr_params = {.struct_size = sizeof(mr_params),
                                          .access = params->access,
                                          .region = &region->mem,
                                          .offset = params->offset,
                                          .length = params->length,
                                          .path = path,
                                          .domain = params->domain,
                                          .send_max = params->send_max};
  char bytes[UNITS_ABOUT_BYTES];

  assert(region->is_open && region_has(region->length, params->offset, params->length));
  *path = (struct pst_path_info){.struct_size = sizeof(*path)};
  int rc = device->ops->mr_register(device->device, &mr_params, mr);
  region_settle_path(region, path);
  if (rc == 0)
    return 0;
  units_print_about(params->length, bytes, sizeof(bytes));
  why->is_alloc = false;
  snprintf(why->text, sizeof(why->text),
           "transport %s cannot register %s of %smemory %s (%.64s)%s: %.160s", device->plugin->name,
           bytes, params->purpose == PST_ALLOC_STAGING ? "staging " : "",
           region->memory->plugin->name, region->mem.backing,
           params->access & REGION_ACCESS_REMOTE ? " for other nodes" : "",
           path->reason[0] ? path->reason : strerror(-rc));
  return rc;
}

int region_open(struct region *region, const struct region_params *params, struct region_why *why)
{
  int rc = region_alloc(region, params, why);

  if (rc < 0)
    return rc;
  if (!region_meets(region, params, why))
    return -EOPNOTSUPP;
  if (params->access == 0)
    return 0;
  rc = region_register(region, params, &region->mr, &region->path, why);
  if (rc == 0)
    region->device = params->device;
  return rc;
}

void region_close(struct region *region)
{
  if (region->mr)
    region->device->ops->mr_deregister(region->device->device, region->mr);
  if (region->is_open)
    region->memory->ops->free_region(region->memory->memory, &region->mem);
  *region = (struct region){0};
}

int region_fail(struct pst_error *error, int code, const char *name, const struct region_why *why,
                const char *remedy)
{
  if (why->is_alloc && pst_fail_said(error, PST_EXIT_UNAVAILABLE, code) == code)
    return code;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, code, "%s: %s%s", name, why->text, remedy);
}

int region_flush(const struct region *region)
{
  const struct pst_memory_ops *ops = region->memory->ops;

  if (!(ops->capabilities & PST_MEMORY_CAP_FLUSH))
    return 0;
  return ops->flush(region->memory->memory, &region->mem);
}
