/* SPDX-License-Identifier: Apache-2.0 */
/* The regions of one-sided streams: allocated, registered, filled and verified. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/units.h"
#include "session.h"

#define REGION_BATCH 128 /* blocks of one fill or verify batch */
#define REGION_PATTERN_SHIFT 24

/* ---- Opening --------------------------------------------------------------------- */

/* What a region has to have for one-sided access alone. */
uint32_t region_needs(const struct pst_limits *limits)
{
  uint32_t spared = limits->capabilities & PST_CAP_DEVICE_RMA ? PST_NEED_CPU_ACCESS : 0u;

  return limits->send_needs & ~spared;
}

static int alloc_region(const struct session_end *end, bool offered, struct session_region *own,
                        struct pst_error *error)
{
  const struct pst_limits *limits = &end->lane->device->limits;
  const struct pst_memory_ops *memory = own->memory->plugin->memory;
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .length = own->length,
                                    .alignment = 4096,
                                    .needs =
                                        region_needs(limits) | (offered ? limits->ring_needs : 0),
                                    .label = end->name};
  const char *lacks;
  char bytes[UNITS_ABOUT_BYTES];

  own->region.struct_size = sizeof(own->region);
  pst_log_clear_error();
  int rc = memory->alloc(own->memory->memory, &params, &own->region);
  if (rc < 0 && pst_fail_said(error, PST_EXIT_UNAVAILABLE, rc) == rc)
    return rc;
  units_print_about(own->length, bytes, sizeof(bytes));
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "stream %s: memory %s cannot allocate %s for the region: %s; lower `region`",
                    end->name, own->memory->plugin->name, bytes, strerror(-rc));
  own->is_there = true;
  if (setup_region_meets(&own->region, region_needs(limits), &lacks))
    return 0;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: transport %s reaches one-sidedly only %s, which memory %s (%s) has "
                  "not, and nothing can be staged there; choose another %s.memory",
                  end->name, end->lane->device->plugin->name, lacks, own->memory->plugin->name,
                  own->region.backing, end->is_sender ? "sender" : "receiver");
}

static int register_region(const struct session_end *end, bool offered, struct session_region *own,
                           struct pst_path_info *path, struct pst_error *error)
{
  struct session_device *device = end->lane->device;
  uint64_t has = device->limits.capabilities;
  uint32_t remote = (has & PST_CAP_READ ? PST_ACCESS_REMOTE_READ : 0u) |
                    (has & PST_CAP_WRITE ? PST_ACCESS_REMOTE_WRITE : 0u) |
                    (has & PST_CAP_ATOMIC ? PST_ACCESS_REMOTE_ATOMIC : 0u);
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                           (offered ? remote : 0u),
                                 .region = &own->region,
                                 .length = own->length,
                                 .path = path,
                                 .domain = offered ? region_domain(own) : 0};

  int rc = device->ops->mr_register(device->device, &params, &own->mr);
  char bytes[UNITS_ABOUT_BYTES];
  if (rc == 0)
    return 0;
  units_print_about(own->length, bytes, sizeof(bytes));
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "stream %s: transport %s cannot register %s of memory %s (%s) for one-sided "
                  "access: %s; nothing can be staged there: choose another %s.memory",
                  end->name, device->plugin->name, bytes, own->memory->plugin->name,
                  own->region.backing, path->reason[0] ? path->reason : strerror(-rc),
                  end->is_sender ? "sender" : "receiver");
}

int region_open_queue(struct session_region *own, const char *what, struct pst_error *error)
{
  const struct pst_memory_ops *memory = own->memory->plugin->memory;
  struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = 16, .pieces = REGION_BATCH};

  if (!(memory->capabilities &
        (PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_CHECKSUM)))
    return 0;
  int rc = memory->queue_open(own->memory->memory, &params, &own->queue);
  if (rc == 0)
    return 0;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "%s: memory %s opens no queue: %s", what,
                  own->memory->plugin->name, strerror(-rc));
}

int region_open(struct session_end *end, const struct config_plugin *memory, bool offered,
                struct session_region *own, struct pst_error *error)
{
  const struct session_device *device = end->lane->device;
  struct pst_path_info path = {.struct_size = sizeof(path)};

  if (!(device->limits.capabilities & (PST_CAP_WRITE | PST_CAP_READ)) ||
      device->limits.rma_max == 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: transport %s lacks both WRITE and READ, by which alone a `region` "
                    "is reached; choose another transport, or a stream of messages",
                    end->name, device->plugin->name);
  own->length = end->config->region;
  own->seed = stream_seed(end->config);
  int rc = setup_memory(end->session, memory, &own->memory, error);
  if (rc == 0)
    rc = alloc_region(end, offered, own, error);
  if (rc == 0)
    rc = register_region(end, offered, own, &path, error);
  if (rc == 0)
    rc = region_open_queue(own, end->name, error);
  if (rc < 0)
    return rc;
  memcpy(end->path.via, path.via, sizeof(end->path.via));
  memcpy(end->memory_backing, own->region.backing, sizeof(end->memory_backing));
  end->memory_kind = own->region.kind;
  return 0;
}

void region_close(const struct session_end *end, struct session_region *own)
{
  const struct session_lane *lane = end->lane;

  if (own->queue)
    own->memory->plugin->memory->queue_close(own->queue);
  if (own->mr)
    lane->ops->mr_deregister(lane->device->device, own->mr);
  if (own->is_there)
    own->memory->plugin->memory->free_region(own->memory->memory, &own->region);
}

void region_range(const struct session_region *own, struct pst_range *range)
{
  struct pst_range full = {.struct_size = range->struct_size,
                           .memory_kind = own->region.kind,
                           .address = own->region.address,
                           .host = own->region.host,
                           .length = own->length};

  memcpy(range, &full, range->struct_size < sizeof(full) ? range->struct_size : sizeof(full));
}

/* ---- The pattern ------------------------------------------------------------------- */

/* What is left of some parts, cut into blocks of a sequence each. */
struct blocks {
  const struct pst_area_pattern *part, *end;
  uint64_t at; /* in *part */
};

static uint32_t next_blocks(const struct session_region *own, struct blocks *blocks,
                            struct pst_payload *payloads)
{
  uint32_t n = 0;

  while (n < REGION_BATCH && blocks->part < blocks->end) {
    const struct pst_area_pattern *part = blocks->part;
    uint64_t left = part->length - blocks->at;
    uint64_t length = left < PST_RANGE_BLOCK ? left : PST_RANGE_BLOCK;
    if (length == 0) {
      blocks->part++;
      blocks->at = 0;
      continue;
    }
    payloads[n++] = (struct pst_payload){.address = own->region.address + part->offset + blocks->at,
                                         .length = length,
                                         .sequence = (part->pattern << REGION_PATTERN_SHIFT) +
                                                     blocks->at / PST_RANGE_BLOCK};
    blocks->at += length;
  }
  return n;
}

static int await(struct session_region *own, uint64_t ticket)
{
  uint64_t done = 0;
  int rc = 0;

  while (rc == 0 && done < ticket)
    rc = own->memory->plugin->memory->queue_poll(own->queue, &done);
  return rc;
}

static bool has_pattern(const struct session_region *own)
{
  return own->queue && (own->memory->plugin->memory->capabilities & PST_MEMORY_CAP_PATTERN);
}

int region_begin(struct session_region *own, bool verify, const struct pst_area_pattern *parts,
                 uint32_t n, uint64_t *ticket)
{
  const struct pst_memory_ops *memory = own->memory->plugin->memory;
  struct blocks blocks = {parts, parts + n, 0};
  struct pst_payload payloads[REGION_BATCH];
  uint64_t done = 0;

  if (!has_pattern(own))
    return -EOPNOTSUPP;
  for (uint32_t i = 0; i < n; i++) {
    if (parts[i].reserved)
      return -EINVAL;
    if (!region_has(own->length, parts[i].offset, parts[i].length))
      return -ERANGE;
  }
  int rc = verify ? region_flush(own) : 0;
  while (rc == 0 && (n = next_blocks(own, &blocks, payloads)) > 0) {
    while ((rc = verify ? memory->verify_batch(own->queue, own->seed, payloads, n, &own->begun)
                        : memory->fill_batch(own->queue, own->seed, payloads, n, &own->begun)) ==
               -EAGAIN &&
           (rc = memory->queue_poll(own->queue, &done)) == 0)
      ;
  }
  if (rc == 0)
    *ticket = own->begun;
  return rc;
}

int region_poll(struct session_region *own, uint64_t *done, struct pst_verify_result *found)
{
  const struct pst_memory_ops *memory = own->memory->plugin->memory;
  struct pst_verify_result now = {.struct_size = sizeof(now)};
  uint64_t ended = 0;
  int rc = has_pattern(own) ? memory->queue_poll(own->queue, &ended) : -EOPNOTSUPP;

  if (rc == 0)
    rc = memory->verify_result(own->queue, &now);
  if (rc < 0)
    return rc;
  now.struct_size = found->struct_size;
  memcpy(found, &now, found->struct_size < sizeof(now) ? found->struct_size : sizeof(now));
  *done = ended;
  return 0;
}

int region_fill(struct session_region *own, uint64_t offset, uint64_t length, uint64_t pattern)
{
  const struct pst_area_pattern part = {offset, length, pattern, 0};
  uint64_t ticket = 0;
  int rc = region_begin(own, false, &part, 1, &ticket);

  return rc < 0 ? rc : await(own, ticket);
}

/* Behind all that began before, of which none is counted as this part's. */
int region_verify(struct session_region *own, uint64_t offset, uint64_t length, uint64_t pattern,
                  struct pst_verify_result *result)
{
  const struct pst_area_pattern part = {offset, length, pattern, 0};
  struct pst_verify_result before = {.struct_size = sizeof(before)};
  struct pst_verify_result after = {.struct_size = sizeof(after)};
  uint64_t ticket = 0, done = 0;
  int rc = has_pattern(own) ? await(own, own->begun) : -EOPNOTSUPP;

  if (rc == 0)
    rc = region_poll(own, &done, &before);
  if (rc == 0)
    rc = region_begin(own, true, &part, 1, &ticket);
  if (rc == 0)
    rc = await(own, ticket);
  if (rc == 0)
    rc = region_poll(own, &done, &after);
  if (rc < 0)
    return rc;
  if (result) {
    after.struct_size = result->struct_size;
    memcpy(result, &after,
           result->struct_size < sizeof(after) ? result->struct_size : sizeof(after));
  }
  return after.corrupted > before.corrupted ? -EBADMSG : 0;
}

int region_flush(const struct session_region *own)
{
  const struct pst_memory_ops *memory = own->memory->plugin->memory;

  if (!(memory->capabilities & PST_MEMORY_CAP_FLUSH))
    return 0;
  return memory->flush(own->memory->memory, &own->region);
}

/* The device reads and writes pinned memory at its full speed; what is foreign it bounces. */
int region_copy(struct session_region *own, uint64_t offset, uint64_t length, void *host, bool out)
{
  const struct pst_memory_ops *memory = own->memory->plugin->memory;
  uint64_t at = own->region.address + offset, there = (uint64_t)(uintptr_t)host;
  struct pst_copy piece = {
      .source = out ? at : there, .destination = out ? there : at, .length = length};
  uint64_t ticket = 0, done = 0;
  int rc = out ? region_flush(own) : 0;

  if (!region_has(own->length, offset, length))
    return -ERANGE;
  if (rc < 0 || length == 0)
    return rc;
  if (own->region.host) {
    uint8_t *mine = (uint8_t *)own->region.host + offset;
    memcpy(out ? host : mine, out ? mine : host, length);
    return 0;
  }
  if (!own->queue || !(memory->capabilities & PST_MEMORY_CAP_COPY))
    return -EOPNOTSUPP;
  while ((rc = memory->copy_batch(own->queue, &piece, 1, &ticket)) == -EAGAIN)
    memory->queue_poll(own->queue, &done);
  return rc < 0 ? rc : await(own, ticket);
}

int region_checksum(struct session_region *own, uint64_t offset, uint64_t length, uint32_t *crc32c)
{
  const struct pst_memory_ops *memory = own->memory->plugin->memory;
  struct pst_sum sum = {.address = own->region.address + offset, .length = length};
  uint64_t ticket = 0, done = 0;

  if (!own->queue || !(memory->capabilities & PST_MEMORY_CAP_CHECKSUM))
    return -EOPNOTSUPP;
  if (!region_has(own->length, offset, length))
    return -ERANGE;
  int rc = region_flush(own);
  while (rc == 0 && (rc = memory->sum_batch(own->queue, &sum, 1, &ticket)) == -EAGAIN)
    rc = memory->queue_poll(own->queue, &done);
  if (rc == 0)
    rc = await(own, ticket);
  if (rc == 0)
    *crc32c = sum.crc32c;
  return rc;
}
