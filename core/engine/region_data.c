/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a region: filled, verified, summed and copied where they lie. */
#include "region_data.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "strided.h"
#include "util/log.h"

#define REGION_BATCH 128 /* blocks of one fill or verify batch */
#define REGION_PATTERN_SHIFT 24

int region_data_open(struct region_data *data, const char *what, struct pst_error *error)
{
  const struct engine_memory *memory = data->region.memory;

  if (!(memory->ops->capabilities &
        (PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_CHECKSUM)))
    return 0;
  int rc = engine_memory_open_queue(memory, 16, REGION_BATCH, &data->queue);
  if (rc == 0)
    return 0;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "%s: memory %s cannot open a queue: %s", what,
                  memory->plugin->name, strerror(-rc));
}

void region_data_close(struct region_data *data)
{
  engine_memory_close_queue(data->region.memory, data->queue);
  data->queue = NULL;
  region_close(&data->region);
}

void region_data_range(const struct region_data *data, struct pst_range *range)
{
  struct pst_range full = {.struct_size = sizeof(full),
                           .memory_kind = data->region.mem.kind,
                           .address = data->region.mem.address,
                           .host = data->region.mem.host,
                           .length = data->region.length};

  pst_struct_write(range, &full, sizeof(full));
}

/* The rest of some parts, cut into blocks of one sequence number each. */
struct region_blocks {
  const struct pst_area_pattern *part, *end;
  uint64_t at; /* in *part */
};

static uint32_t region_data_next_blocks(const struct region_data *data,
                                        struct region_blocks *blocks, struct pst_payload_row *rows)
{
  uint32_t n = 0, messages = 0;

  while (messages < REGION_BATCH && blocks->part < blocks->end) {
    const struct pst_area_pattern *part = blocks->part;
    uint64_t left = part->length - blocks->at;
    uint64_t length = left < PST_RANGE_BLOCK ? left : PST_RANGE_BLOCK;
    if (length == 0) {
      blocks->part++;
      blocks->at = 0;
      continue;
    }
    n = payload_row_add(rows, n, data->region.mem.address + part->offset + blocks->at, length,
                        (part->pattern << REGION_PATTERN_SHIFT) + blocks->at / PST_RANGE_BLOCK);
    messages++;
    blocks->at += length;
  }
  return n;
}

static bool region_data_has_pattern(const struct region_data *data)
{
  return data->queue && (data->region.memory->ops->capabilities & PST_MEMORY_CAP_PATTERN);
}

int region_data_begin(struct region_data *data, bool verify, const struct pst_area_pattern *parts,
                      uint32_t n, uint64_t *ticket)
{
  const struct pst_memory_ops *memory = data->region.memory->ops;
  struct region_blocks blocks = {parts, parts + n, 0};
  struct pst_payload_row rows[REGION_BATCH];
  uint64_t done = 0;

  if (!region_data_has_pattern(data))
    return -EOPNOTSUPP;
  for (uint32_t i = 0; i < n; i++) {
    if (parts[i].reserved)
      return -EINVAL;
    if (!region_has(data->region.length, parts[i].offset, parts[i].length))
      return -ERANGE;
  }
  int rc = verify ? region_flush(&data->region) : 0;
  while (rc == 0 && (n = region_data_next_blocks(data, &blocks, rows)) > 0) {
    while ((rc = verify ? memory->verify_rows(data->queue, data->seed, rows, n, &data->begun)
                        : memory->fill_rows(data->queue, data->seed, rows, n, &data->begun)) ==
               -EAGAIN &&
           (rc = memory->queue_poll(data->queue, &done)) == 0)
      ;
  }
  if (rc == 0)
    *ticket = data->begun;
  return rc;
}

int region_data_poll(struct region_data *data, uint64_t *done, struct pst_verify_result *found)
{
  const struct pst_memory_ops *memory = data->region.memory->ops;
  struct pst_verify_result now = {.struct_size = sizeof(now)};
  uint64_t ended = 0;
  int rc = region_data_has_pattern(data) ? memory->queue_poll(data->queue, &ended) : -EOPNOTSUPP;

  if (rc == 0)
    rc = memory->verify_result(data->queue, &now);
  if (rc < 0)
    return rc;
  pst_struct_write(found, &now, sizeof(now));
  *done = ended;
  return 0;
}

int region_data_fill(struct region_data *data, uint64_t offset, uint64_t length, uint64_t pattern)
{
  const struct pst_area_pattern part = {offset, length, pattern, 0};
  uint64_t ticket = 0;
  int rc = region_data_begin(data, false, &part, 1, &ticket);

  return rc < 0 ? rc : engine_memory_await(data->region.memory, data->queue, ticket);
}

/* Verifies behind all checks that began before, none of which counts as this part's. */
int region_data_verify(struct region_data *data, uint64_t offset, uint64_t length, uint64_t pattern,
                       struct pst_verify_result *result)
{
  const struct pst_area_pattern part = {offset, length, pattern, 0};
  struct pst_verify_result before = {.struct_size = sizeof(before)};
  struct pst_verify_result after = {.struct_size = sizeof(after)};
  uint64_t ticket = 0, done = 0;
  int rc = region_data_has_pattern(data)
               ? engine_memory_await(data->region.memory, data->queue, data->begun)
               : -EOPNOTSUPP;

  if (rc == 0)
    rc = region_data_poll(data, &done, &before);
  if (rc == 0)
    rc = region_data_begin(data, true, &part, 1, &ticket);
  if (rc == 0)
    rc = engine_memory_await(data->region.memory, data->queue, ticket);
  if (rc == 0)
    rc = region_data_poll(data, &done, &after);
  if (rc < 0)
    return rc;
  if (result)
    pst_struct_write(result, &after, sizeof(after));
  return after.corrupted > before.corrupted ? -EBADMSG : 0;
}

/* The device reads and writes pinned memory at its full speed. For other memory it uses a bounce
 * buffer. */
int region_data_copy(struct region_data *data, uint64_t offset, uint64_t length, void *host,
                     bool out)
{
  const struct engine_memory *memory = data->region.memory;
  uint64_t at = data->region.mem.address + offset, there = (uint64_t)(uintptr_t)host;
  struct pst_copy_row piece = {
      .source = out ? at : there, .destination = out ? there : at, .length = length, .count = 1};
  int rc = out ? region_flush(&data->region) : 0;

  if (!region_has(data->region.length, offset, length))
    return -ERANGE;
  if (rc < 0 || length == 0)
    return rc;
  if (data->region.mem.host) {
    uint8_t *mine = (uint8_t *)data->region.mem.host + offset;
    memcpy(out ? host : mine, out ? mine : host, length);
    return 0;
  }
  if (!data->queue || !(memory->ops->capabilities & PST_MEMORY_CAP_COPY))
    return -EOPNOTSUPP;
  return engine_memory_copy(memory, data->queue, &piece);
}

int region_data_checksum(struct region_data *data, uint64_t offset, uint64_t length,
                         uint32_t *crc32c)
{
  const struct pst_memory_ops *memory = data->region.memory->ops;
  const uint64_t address = data->region.mem.address + offset;
  uint64_t ticket = 0, done = 0;
  uint32_t sum = 0;

  if (!data->queue || !(memory->capabilities & PST_MEMORY_CAP_CHECKSUM))
    return -EOPNOTSUPP;
  if (!region_has(data->region.length, offset, length))
    return -ERANGE;
  int rc = region_flush(&data->region);
  while (rc == 0 &&
         (rc = memory->sum_range(data->queue, address, length, &sum, &ticket)) == -EAGAIN)
    rc = memory->queue_poll(data->queue, &done);
  if (rc == 0)
    rc = engine_memory_await(data->region.memory, data->queue, ticket);
  if (rc == 0)
    *crc32c = sum;
  return rc;
}
