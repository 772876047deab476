/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the ring in which messages land, direct or staged. */
#include "receive_ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

#include "staging.h"

static const struct region_params ring_use = {
    .label = "ring", .use = " for the ring", .lower = "`ring` or `message`"};

struct region_params receive_ring_params(const struct receive_ring *ring,
                                         const struct region_params *use, uint64_t length)
{
  struct region_params params = *use;

  params.memory = ring->memory;
  params.device = ring->lane->device;
  params.length = length;
  params.alignment = engine_device_alignment(ring->lane->device);
  params.access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING;
  params.domain = receive_ring_domain(ring);
  return params;
}

int receive_ring_alloc(const struct receive_ring *ring, struct region_params *wanted,
                       struct region *region, struct region_why *why, struct pst_error *error)
{
  char label[96], remedy[96];

  snprintf(label, sizeof(label), "stream %s, %s", ring->stream->name, wanted->label);
  wanted->label = label;
  int rc = region_alloc(region, wanted, why);
  if (rc == 0 || (rc == -EOPNOTSUPP && !why->is_alloc))
    return rc;
  snprintf(label, sizeof(label), "stream %s", ring->stream->name);
  snprintf(remedy, sizeof(remedy), "; lower %s", wanted->lower);
  return region_fail(error, rc, label, why, remedy);
}

int receive_ring_open_transport(struct receive_ring *ring)
{
  const struct region_params wanted =
      receive_ring_params(ring, &ring_use, ring->stride * ring->slots);
  const struct pst_transport_ops *ops = ring->lane->worker.ops;
  struct region *region = &ring->region;
  struct region_why why;
  int rc = 0;

  ring->path = (struct pst_path_info){.struct_size = sizeof(ring->path)};
  if (region->is_open)
    rc = region_register(region, &wanted, &region->mr, &ring->path, &why);
  if (rc < 0)
    return rc;
  region->device = ring->lane->device;
  struct pst_ring_params opened = {.struct_size = sizeof(opened),
                                   .slots = ring->slots,
                                   .mr = region->mr,
                                   .stride = ring->stride,
                                   .payload_max = ring->stream->message,
                                   .headroom = ring->lane->device->limits.headroom,
                                   .tailroom = ring->lane->device->limits.tailroom,
                                   .endpoints = ring->endpoints};
  return ops->ring_open(ring->lane->worker.handle, &opened, &ring->path, &ring->ring);
}

/* Lent messages lie in the sender's or the driver's host memory: final only when
 * the receiver's memory is host memory too, and no device's. */
static bool ring_lent_would_bounce(const struct receive_ring *ring, struct region_why *why)
{
  const struct pst_region *region = &ring->region.mem;

  if (!(ring->lane->device->limits.capabilities & PST_CAP_LEND) ||
      (region->kind == PST_MEMORY_HOST && region->host))
    return false;
  snprintf(why->text, sizeof(why->text), "transport %s hands over host memory of its own",
           ring->lane->device->plugin->name);
  return true;
}

/* 0: done; 1: not possible, why->text says why, core may stage; -errno: failed. */
static int ring_try_direct(struct receive_ring *ring, struct region_why *why,
                           struct pst_error *error)
{
  struct region_params wanted = receive_ring_params(ring, &ring_use, ring->stride * ring->slots);
  const char *transport = ring->lane->device->plugin->name;

  wanted.needs = ring->lane->device->limits.ring_needs;
  wanted.is_staged_else = ring->stream->receiver.path == CONFIG_PATH_AUTO;
  int rc = receive_ring_alloc(ring, &wanted, &ring->region, why, error);
  if (rc < 0)
    return rc == -EOPNOTSUPP && !why->is_alloc ? 1 : rc;
  if (region_meets(&ring->region, &wanted, why) && !ring_lent_would_bounce(ring, why)) {
    rc = receive_ring_open_transport(ring);
    region_settle_path(&ring->region, &ring->path);
    if (rc < 0 && rc != -EOPNOTSUPP)
      pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
               "stream %s: transport %s cannot open a ring of %u slots: %s", ring->stream->name,
               transport, ring->slots, strerror(-rc));
    if (rc != -EOPNOTSUPP)
      return rc;
    snprintf(why->text, sizeof(why->text), "transport %s cannot receive into memory %s%s%.112s",
             transport, ring->memory->plugin->name, ring->path.reason[0] ? ": " : "",
             ring->path.reason);
  }
  region_close(&ring->region);
  return 1;
}

static int ring_check_path(const struct receive_ring *ring, struct pst_error *error)
{
  static const uint32_t wanted[] = {[CONFIG_PATH_DIRECT] = PST_PATH_DIRECT,
                                    [CONFIG_PATH_MAPPED] = PST_PATH_MAPPED,
                                    [CONFIG_PATH_STAGED] = PST_PATH_STAGED};
  static const char *const names[] = {"none", "direct", "mapped", "staged"};
  enum config_path path = ring->stream->receiver.path;

  if (path == CONFIG_PATH_AUTO || ring->path.path == wanted[path])
    return 0;
  return pst_fail(
      error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
      "stream %s: `path: %s` asked for, but here it is %s%s%s; `path: auto` takes what is possible",
      ring->stream->name, names[wanted[path]], names[ring->path.path],
      ring->path.reason[0] ? ": " : "", ring->path.reason);
}

static int ring_open_path(struct receive_ring *ring, struct pst_error *error)
{
  struct region_why why = {.text = "asked for by `path: staged`"};
  enum config_path path = ring->stream->receiver.path;
  int rc = 1;

  if (ring->why)
    snprintf(why.text, sizeof(why.text), "%s", ring->why);
  else if (path != CONFIG_PATH_STAGED)
    rc = ring_try_direct(ring, &why, error);
  if (rc == 1 && (path == CONFIG_PATH_AUTO || path == CONFIG_PATH_STAGED))
    rc = ring_staged_open(ring, why.text, error);
  else if (rc == 1)
    rc = pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: `path: %s` is not possible: %s; `path: auto` stages",
                  ring->stream->name, path == CONFIG_PATH_DIRECT ? "direct" : "mapped", why.text);
  return rc < 0 ? rc : ring_check_path(ring, error);
}

static int ring_plan_slots(struct receive_ring *ring, struct pst_error *error)
{
  const struct pst_limits *limits = &ring->lane->device->limits;
  uint64_t step = limits->slot_alignment > CACHE_LINE ? limits->slot_alignment : CACHE_LINE;

  if (ring->stream->ring_by_link && ring->slots > limits->slots_max)
    ring->slots = ring->stream->ring;
  if (ring->slots < limits->slots_min * ring->endpoints || ring->slots > limits->slots_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ERANGE,
                    "stream %s: ring: %u slots; transport %s takes %u to %u", ring->stream->name,
                    ring->slots, ring->lane->device->plugin->name,
                    limits->slots_min * ring->endpoints, limits->slots_max);
  ring->stride = region_round_up(limits->headroom + ring->stream->message + limits->tailroom, step);
  if (ring->stream->stride > ring->stride)
    ring->stride = region_round_up(ring->stream->stride, step);
  return 0;
}

int receive_ring_open(struct engine *engine, const struct receive_ring *wanted,
                      struct receive_ring **ring, struct pst_error *error)
{
  struct receive_ring *made = calloc(1, sizeof(*made));

  if (!made)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  *made = *wanted;
  made->users = 1;
  if (!made->final.length)
    made->final = ring_use;
  made->ops = &ring_direct_ops;
  made->views = &made->region.mem;
  *ring = made;
  int rc = engine_memory_open(engine, &made->stream->receiver.memory, &made->memory, error);
  if (rc == 0)
    rc = ring_plan_slots(made, error);
  return rc < 0 ? rc : ring_open_path(made, error);
}

void receive_ring_close_ring(struct receive_ring *ring)
{
  staging_close_queue(ring->staging);
  if (ring->ring)
    ring->lane->worker.ops->ring_close(ring->lane->worker.handle, ring->ring);
  ring->ring = NULL;
}

void receive_ring_close(struct receive_ring *ring)
{
  if (!ring || --ring->users > 0)
    return;
  region_close(&ring->region);
  staging_close(ring->staging);
  free(ring);
}
