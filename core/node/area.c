/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the application's, for operations and offers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/units.h"
#include "node.h"

static int alloc_region(struct pst_area *area, const char *label, struct pst_error *error)
{
  const struct pst_limits *limits = &area->node->device->limits;
  const struct loader_plugin *plugin = area->own.memory->plugin;
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .length = area->own.length,
                                    .alignment = 4096,
                                    .needs = region_needs(limits) | limits->ring_needs,
                                    .label = label};
  const char *lacks;
  char bytes[UNITS_ABOUT_BYTES];

  area->own.region.struct_size = sizeof(area->own.region);
  pst_log_clear_error();
  int rc = plugin->memory->alloc(area->own.memory->memory, &params, &area->own.region);
  if (rc < 0 && pst_fail_said(error, PST_EXIT_UNAVAILABLE, rc) == rc)
    return rc;
  units_print_about(area->own.length, bytes, sizeof(bytes));
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "%s: memory %s cannot allocate %s: %s", label,
                    plugin->name, bytes, strerror(-rc));
  area->own.is_there = true;
  if (setup_region_meets(&area->own.region, region_needs(limits), &lacks))
    return 0;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "%s: transport %s reaches one-sidedly only %s, which memory %s (%s) has not; "
                  "choose another memory",
                  label, area->node->device->plugin->name, lacks, plugin->name,
                  area->own.region.backing);
}

/* For our own operations; each offer has a registration of its own. */
static int register_region(struct pst_area *area, const char *label, struct pst_error *error)
{
  struct pst_node *node = area->node;
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE,
                                 .region = &area->own.region,
                                 .length = area->own.length,
                                 .path = &path};
  int rc = node->ops->mr_register(node->device->device, &params, &area->own.mr);
  char bytes[UNITS_ABOUT_BYTES];

  if (rc == 0)
    return 0;
  units_print_about(area->own.length, bytes, sizeof(bytes));
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "%s: transport %s cannot register %s of memory %s (%s): %s", label,
                  node->device->plugin->name, bytes, area->own.memory->plugin->name,
                  area->own.region.backing, path.reason[0] ? path.reason : strerror(-rc));
}

/* One that has no memory yet. */
static int make_area(struct pst_node *node, uint64_t length, const char *label,
                     struct pst_area **area, struct pst_error *error)
{
  struct pst_area *made = calloc(1, sizeof(*made));

  if (!made)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "%s: out of memory", label);
  made->node = node;
  made->next = node->areas;
  node->areas = made;
  made->own.length = length;
  made->own.seed = NODE_SEED;
  *area = made;
  return 0;
}

/* Its region is there: what else an area has. */
static int finish_area(struct pst_area *area, const char *label, struct pst_error *error)
{
  int rc = register_region(area, label, error);

  return rc < 0 ? rc : region_open_queue(&area->own, label, error);
}

int pst_node_alloc(struct pst_node *node, const struct pst_area_params *given,
                   struct pst_area **area, struct pst_error *error)
{
  struct pst_area_params params = {0};
  struct pst_area *made = NULL;

  if (given->struct_size < sizeof(params) || given->length == 0)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "pst_area_params: a length of 0, or a struct_size of %u under %zu",
                    given->struct_size, sizeof(params));
  memcpy(&params, given, sizeof(params));
  const char *label = params.label ? params.label : "area";
  const struct node_memory_params memory = {.memory = params.memory,
                                            .options = params.memory_options,
                                            .option_count = params.memory_option_count};
  int rc = make_area(node, params.length, label, &made, error);
  if (rc < 0)
    return rc;
  rc = node_memory(node, &memory, label, &made->own.memory, error);
  if (rc == 0)
    rc = alloc_region(made, label, error);
  if (rc == 0)
    rc = finish_area(made, label, error);
  if (rc < 0) {
    pst_area_free(made);
    return rc;
  }
  *area = made;
  return 0;
}

/* What the transport needs of memory that peers reach is asked when it is offered: for operations
 * of our own, less is enough. */
static int adopt_region(struct pst_area *area, const struct pst_register_params *params,
                        const char *label, struct pst_error *error)
{
  const struct loader_plugin *plugin = area->own.memory->plugin;
  const struct pst_adopt_params adopt = {.struct_size = sizeof(adopt),
                                         .fd = params->fd,
                                         .address = params->address,
                                         .length = params->length,
                                         .fd_offset = params->fd_offset,
                                         .label = label};

  area->own.region.struct_size = sizeof(area->own.region);
  int rc = plugin->memory->adopt_region(area->own.memory->memory, &adopt, &area->own.region);
  area->own.is_there = rc == 0;
  if (rc == -EOPNOTSUPP)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "%s: memory %s takes no memory but its own; pst_node_alloc() gives some", label,
                    plugin->name);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_USAGE, rc, "%s cannot be registered: %s", label,
                    pst_log_last_error()[0] ? pst_log_last_error() : strerror(-rc));
  return 0;
}

int pst_node_register(struct pst_node *node, const struct pst_register_params *given,
                      struct pst_area **area, struct pst_error *error)
{
  struct pst_register_params params = {0};
  struct pst_area *made = NULL;

  if (given->struct_size < sizeof(params) || given->reserved)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "pst_register_params: a struct_size of %u under %zu, or what is reserved is "
                    "not 0",
                    given->struct_size, sizeof(params));
  memcpy(&params, given, sizeof(params));
  const char *label = params.label ? params.label : "area";
  const struct node_memory_params memory = {.memory = params.memory,
                                            .options = params.memory_options,
                                            .option_count = params.memory_option_count};
  int rc = make_area(node, params.length, label, &made, error);
  if (rc < 0)
    return rc;
  rc = node_memory(node, &memory, label, &made->own.memory, error);
  if (rc == 0)
    rc = adopt_region(made, &params, label, error);
  if (rc == 0)
    rc = finish_area(made, label, error);
  if (rc < 0) {
    pst_area_free(made);
    return rc;
  }
  *area = made;
  return 0;
}

int pst_area_free(struct pst_area *area)
{
  if (!area)
    return 0;
  if (area->uses)
    return -EBUSY;
  struct pst_node *node = area->node;
  struct pst_area **at = &node->areas;
  while (*at != area)
    at = &(*at)->next;
  *at = area->next;
  if (area->own.queue)
    area->own.memory->plugin->memory->queue_close(area->own.queue);
  if (area->own.mr)
    node->ops->mr_deregister(node->device->device, area->own.mr);
  if (area->own.is_there)
    area->own.memory->plugin->memory->free_region(area->own.memory->memory, &area->own.region);
  free(area);
  return 0;
}

int pst_area_range(const struct pst_area *area, struct pst_range *range)
{
  region_range(&area->own, range);
  return 0;
}

const char *pst_area_backing(const struct pst_area *area)
{
  return area->own.region.backing;
}

int pst_area_fill(struct pst_area *area, uint64_t offset, uint64_t length, uint64_t pattern)
{
  return region_fill(&area->own, offset, length, pattern);
}

int pst_area_verify(struct pst_area *area, uint64_t offset, uint64_t length, uint64_t pattern,
                    struct pst_verify_result *result)
{
  return region_verify(&area->own, offset, length, pattern, result);
}

int pst_area_fill_begin(struct pst_area *area, const struct pst_area_pattern *parts, uint32_t n,
                        uint64_t *ticket)
{
  return region_begin(&area->own, false, parts, n, ticket);
}

int pst_area_verify_begin(struct pst_area *area, const struct pst_area_pattern *parts, uint32_t n,
                          uint64_t *ticket)
{
  return region_begin(&area->own, true, parts, n, ticket);
}

int pst_area_poll(struct pst_area *area, uint64_t *done, struct pst_verify_result *found)
{
  return region_poll(&area->own, done, found);
}

int pst_area_checksum(struct pst_area *area, uint64_t offset, uint64_t length, uint32_t *crc32c)
{
  return region_checksum(&area->own, offset, length, crc32c);
}

int pst_area_read(struct pst_area *area, uint64_t offset, uint64_t length, void *to)
{
  return region_copy(&area->own, offset, length, to, true);
}

int pst_area_write(struct pst_area *area, uint64_t offset, uint64_t length, const void *from)
{
  return region_copy(&area->own, offset, length, (void *)(uintptr_t)from, false);
}
