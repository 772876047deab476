/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the application's, for operations and offers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peer_rma.h"

/* Returns the memory needs of the node's own operations; rings of messages, which peers reach, may
 * need more. */
static uint32_t area_needs(const struct pst_limits *limits)
{
  const uint32_t spared = limits->capabilities & PST_CAP_DEVICE_RMA ? PST_NEED_CPU_ACCESS : 0u;

  return limits->send_needs & ~spared;
}

/* Makes the region of area_open(), from pst_area_params or from pst_register_params. */
typedef int area_make(struct pst_area *area, struct engine_memory *memory, const void *params,
                      const char *label, struct pst_error *error);

static int area_alloc(struct pst_area *area, struct engine_memory *memory, const void *params,
                      const char *label, struct pst_error *error)
{
  const struct pst_area_params *asked = params;
  const struct pst_limits *limits = &area->node->device->limits;
  struct region_params region = {.memory = memory,
                                 .device = area->node->device,
                                 .length = asked->length,
                                 .needs = area_needs(limits) | limits->ring_needs,
                                 .label = label,
                                 .lower = asked->lower,
                                 .does = "reaches one-sidedly only"};
  struct region_why why;
  int rc = region_alloc(&area->own.region, &region, &why);

  if (rc < 0)
    return region_fail(error, rc, label, &why, "");
  region.needs = area_needs(limits);
  return region_meets(&area->own.region, &region, &why)
             ? 0
             : region_fail(error, -EOPNOTSUPP, label, &why, "; choose another memory");
}

/* Registers the application's memory. The transport's needs for memory that peers reach are checked
 * when the area is offered: the node's own operations need less. */
static int area_adopt(struct pst_area *area, struct engine_memory *memory, const void *given,
                      const char *label, struct pst_error *error)
{
  const struct pst_register_params *params = given;
  const struct loader_plugin *plugin = memory->plugin;
  const struct pst_adopt_params adopt = {.struct_size = sizeof(adopt),
                                         .fd = params->fd,
                                         .address = params->address,
                                         .length = params->length,
                                         .fd_offset = params->fd_offset,
                                         .label = label};

  area->own.region = (struct region){.memory = memory,
                                     .mem = {.struct_size = sizeof(area->own.region.mem)},
                                     .length = params->length};
  pst_log_clear_error();
  int rc = plugin->memory->adopt_region(memory->memory, &adopt, &area->own.region.mem);
  area->own.region.is_open = rc == 0;
  if (rc == -EOPNOTSUPP && !pst_log_last_error()[0])
    return pst_fail(
        error, PST_EXIT_UNAVAILABLE, rc,
        "%s: memory %s registers only memory that it has allocated; use pst_node_alloc()", label,
        plugin->name);
  if (rc < 0)
    return pst_fail(error, rc == -EOPNOTSUPP ? PST_EXIT_UNAVAILABLE : PST_EXIT_USAGE, rc,
                    "%s cannot be registered: %s", label,
                    pst_log_last_error()[0] ? pst_log_last_error() : strerror(-rc));
  return 0;
}

static int area_register_for(struct pst_area *area, uint32_t access, const char *label,
                             struct pst_mr **mr, struct pst_error *error)
{
  const struct region_params params = {.device = area->node->device,
                                       .length = area->own.region.length,
                                       .access =
                                           PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE | access};
  struct region_why why;
  int rc = region_register(&area->own.region, &params, mr, &area->own.region.path, &why);

  return rc < 0 ? region_fail(error, rc, label, &why, "") : 0;
}

/* For our own operations; each offer has a registration of its own. */
static int area_register(struct pst_area *area, uint32_t access, const char *label,
                         struct pst_error *error)
{
  struct pst_node *node = area->node;
  struct pst_mr *trial = NULL;
  int rc = access ? area_register_for(area, access, label, &trial, error) : 0;

  if (trial)
    node->worker.ops->mr_deregister(node->device->device, trial);
  area->own.region.device = node->device;
  return rc < 0 ? rc : area_register_for(area, 0, label, &area->own.region.mr, error);
}

/* Allocates an area by the plugin `name` and its options. access: what the area will be offered
 * for. */
static int area_open(struct pst_node *node, const char *name, const struct pst_setting *options,
                     uint32_t option_count, const char *label, area_make *make, const void *params,
                     uint32_t access, struct pst_area **area, struct pst_error *error)
{
  struct pst_area *made = calloc(1, sizeof(*made));
  struct engine_memory *memory;

  if (!made)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "%s: out of memory", label);
  made->node = node;
  made->next = node->areas;
  node->areas = made;
  made->own.seed = NODE_SEED;
  int rc = node_memory(node, name, options, option_count, label, &memory, error);
  if (rc == 0)
    rc = make(made, memory, params, label, error);
  if (rc == 0) {
    node->has_flush |= (memory->plugin->memory->capabilities & PST_MEMORY_CAP_FLUSH) != 0;
    rc = area_register(made, access, label, error);
  }
  if (rc == 0)
    rc = region_data_open(&made->own, label, error);
  if (rc < 0)
    pst_area_free(made);
  else
    *area = made;
  return rc;
}

int pst_node_alloc(struct pst_node *node, const struct pst_area_params *given,
                   struct pst_area **area, struct pst_error *error)
{
  struct pst_area_params params = {0};

  if (given->struct_size < sizeof(params) || given->length == 0 || given->reserved ||
      (given->access & ~(uint32_t)NODE_REMOTE_ACCESS))
    return pst_fail(
        error, PST_EXIT_USAGE, -EINVAL,
        "pst_area_params: a length of 0, a struct_size of %u under %zu, an `access` that is not a "
        "peer's, or a reserved field is not 0",
        given->struct_size, sizeof(params));
  memcpy(&params, given, sizeof(params));
  return area_open(node, params.memory, params.memory_options, params.memory_option_count,
                   params.label ? params.label : "area", area_alloc, &params, params.access, area,
                   error);
}

int pst_node_register(struct pst_node *node, const struct pst_register_params *given,
                      struct pst_area **area, struct pst_error *error)
{
  struct pst_register_params params = {0};

  if (given->struct_size < sizeof(params) || given->reserved)
    return pst_fail(
        error, PST_EXIT_USAGE, -EINVAL,
        "pst_register_params: a struct_size of %u under %zu, or a reserved field is not 0",
        given->struct_size, sizeof(params));
  memcpy(&params, given, sizeof(params));
  return area_open(node, params.memory, params.memory_options, params.memory_option_count,
                   params.label ? params.label : "area", area_adopt, &params, 0, area, error);
}

static bool area_is_in_use(const struct pst_area *area)
{
  for (const struct pst_peer *peer = area->node->peers; peer; peer = peer->next)
    if (peer_rma_names(peer, area, NULL))
      return true;
  return area->uses;
}

int area_flush_offered(const struct pst_node *node)
{
  const struct engine_memory *flushed = NULL;
  int rc = 0;

  for (const struct pst_area *area = node->areas; area && rc == 0; area = area->next) {
    if (area->uses == 0 || area->own.region.memory == flushed)
      continue;
    rc = region_flush(&area->own.region);
    flushed = area->own.region.memory;
  }
  return rc;
}

int pst_area_free(struct pst_area *area)
{
  if (!area)
    return 0;
  if (area_is_in_use(area))
    return -EBUSY;
  struct pst_node *node = area->node;
  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    operate_forget_run(peer);
  struct pst_area **at = &node->areas;
  while (*at != area)
    at = &(*at)->next;
  *at = area->next;
  region_data_close(&area->own);
  free(area);
  return 0;
}

int pst_area_range(const struct pst_area *area, struct pst_range *range)
{
  region_data_range(&area->own, range);
  return 0;
}

int pst_area_path(const struct pst_area *area, struct pst_path_info *path)
{
  pst_struct_write(path, &area->own.region.path, sizeof(area->own.region.path));
  return 0;
}

const char *pst_area_backing(const struct pst_area *area)
{
  return area->own.region.mem.backing;
}

int pst_area_fill(struct pst_area *area, uint64_t offset, uint64_t length, uint64_t pattern)
{
  return region_data_fill(&area->own, offset, length, pattern);
}

int pst_area_verify(struct pst_area *area, uint64_t offset, uint64_t length, uint64_t pattern,
                    struct pst_verify_result *result)
{
  return region_data_verify(&area->own, offset, length, pattern, result);
}

int pst_area_fill_begin(struct pst_area *area, const struct pst_area_pattern *parts, uint32_t n,
                        uint64_t *ticket)
{
  return region_data_begin(&area->own, false, parts, n, ticket);
}

int pst_area_verify_begin(struct pst_area *area, const struct pst_area_pattern *parts, uint32_t n,
                          uint64_t *ticket)
{
  return region_data_begin(&area->own, true, parts, n, ticket);
}

int pst_area_poll(struct pst_area *area, uint64_t *done, struct pst_verify_result *found)
{
  return region_data_poll(&area->own, done, found);
}

int pst_area_checksum(struct pst_area *area, uint64_t offset, uint64_t length, uint32_t *crc32c)
{
  return region_data_checksum(&area->own, offset, length, crc32c);
}

int pst_area_read(struct pst_area *area, uint64_t offset, uint64_t length, void *to)
{
  return region_data_copy(&area->own, offset, length, to, true);
}

int pst_area_write(struct pst_area *area, uint64_t offset, uint64_t length, const void *from)
{
  return region_data_copy(&area->own, offset, length, (void *)(uintptr_t)from, false);
}
