/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a receiver's messages land, and which path they take there.
 *
 * Direct: the transport writes into the final memory, and a view's token is the
 * transport's. Staged: it writes into host slots; one copy batch a poll moves
 * messages to final slots, a view's token is the final slot's number, and the
 * transport gets its slots back when the copies have read them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/units.h"
#include "session.h"

/* Copy batches under way. What arrives meanwhile makes the next one larger. */
#define LANDING_COPIES 4

/* Of one copy, where the memory makes it while it is called: some 0.3 ms of the thread's time. */
#define LANDING_SLICE_BYTES (UINT64_C(64) << 10)

static void *zalloc(size_t count, size_t size)
{
  return calloc(count ? count : 1, size);
}

static uint64_t power_of_two(uint64_t n)
{
  uint64_t p = 1;
  while (p < n)
    p <<= 1;
  return p;
}

struct landing_plan {
  const struct config_stream *stream;
  const struct pst_limits *limits;
  uint32_t endpoints;
  struct pst_error *error;
};

static const char *purpose_name(enum pst_alloc_purpose purpose)
{
  return purpose == PST_ALLOC_STAGING ? "staging ring" : "ring";
}

static int try_alloc(const struct landing_plan *plan, struct landing *landing,
                     enum pst_alloc_purpose purpose, uint64_t length, uint32_t needs,
                     struct pst_region *region)
{
  char label[96];
  struct pst_alloc_params params = {
      .struct_size = sizeof(params),
      .purpose = purpose,
      .length = length,
      .alignment = plan->limits->slot_alignment > 4096 ? plan->limits->slot_alignment : 4096,
      .needs = needs,
      .label = label};

  snprintf(label, sizeof(label), "stream %s, %s", plan->stream->name, purpose_name(purpose));
  *region = (struct pst_region){.struct_size = sizeof(*region)};
  pst_log_clear_error();
  return landing->memory->plugin->memory->alloc(landing->memory->memory, &params, region);
}

static int refuse_alloc(const struct landing_plan *plan, const struct landing *landing,
                        enum pst_alloc_purpose purpose, uint64_t length, int code)
{
  char bytes[UNITS_ABOUT_BYTES];

  if (pst_fail_said(plan->error, PST_EXIT_UNAVAILABLE, code) == code)
    return code;
  units_print_about(length, bytes, sizeof(bytes));
  return pst_fail(plan->error, PST_EXIT_UNAVAILABLE, code,
                  "stream %s: memory %s cannot allocate %s for the %s: %s; lower `ring` or "
                  "`message`",
                  plan->stream->name, landing->memory->plugin->name, bytes, purpose_name(purpose),
                  strerror(-code));
}

static int alloc_region(const struct landing_plan *plan, struct landing *landing,
                        enum pst_alloc_purpose purpose, uint64_t length, uint32_t needs,
                        struct pst_region *region)
{
  int rc = try_alloc(plan, landing, purpose, length, needs, region);
  return rc < 0 ? refuse_alloc(plan, landing, purpose, length, rc) : 0;
}

static void free_region(struct landing *landing, struct pst_region *region)
{
  if (region->length)
    landing->memory->plugin->memory->free_region(landing->memory->memory, region);
  *region = (struct pst_region){0};
}

/* Register the ring region, if there is one, and open the ring on it. */
static int open_ring(const struct landing_plan *plan, struct landing *landing)
{
  const struct pst_transport_ops *ops = landing->lane->ops;
  struct pst_device *device = landing->lane->device->device;
  int rc = 0;
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                             .region = &landing->ring_region,
                             .length = landing->stride * landing->slots,
                             .path = &landing->path,
                             .domain = landing_domain(landing)};
  landing->path = (struct pst_path_info){.struct_size = sizeof(landing->path)};
  if (landing->ring_region.length)
    rc = ops->mr_register(device, &mr, &landing->mr);
  if (rc < 0)
    return rc;
  struct pst_ring_params ring = {.struct_size = sizeof(ring),
                                 .slots = landing->slots,
                                 .mr = landing->mr,
                                 .stride = landing->stride,
                                 .payload_max = plan->stream->message,
                                 .headroom = plan->limits->headroom,
                                 .tailroom = plan->limits->tailroom,
                                 .endpoints = plan->endpoints};
  rc = ops->ring_open(landing->lane->worker, &ring, &landing->path, &landing->ring);
  if (rc < 0 && landing->mr) {
    ops->mr_deregister(device, landing->mr);
    landing->mr = NULL;
  }
  return rc;
}

/* Lent messages lie in the sender's or the driver's host memory: final only when
 * the receiver's memory is host memory too. */
static bool lent_would_bounce(const struct landing_plan *plan, const struct landing *landing)
{
  return (plan->limits->capabilities & PST_CAP_LEND) && landing->ring_region.host == NULL;
}

/* 0: done; 1: not possible, *why says why, core may stage; -errno: failed. */
static int try_direct(const struct landing_plan *plan, struct landing *landing, char *why,
                      size_t why_size)
{
  const uint64_t length = landing->stride * landing->slots;
  const uint32_t needs = plan->limits->ring_needs;
  const char *lacks;
  int rc = try_alloc(plan, landing, PST_ALLOC_NORMAL, length, needs, &landing->ring_region);
  /* A NIC may reach less of a GPU than there is; staged, it reaches none. */
  if (rc == -ENOMEM && (needs & PST_NEED_EXPORT_DMABUF) &&
      plan->stream->receiver.path == CONFIG_PATH_AUTO) {
    char bytes[UNITS_ABOUT_BYTES];
    units_print_about(length, bytes, sizeof(bytes));
    snprintf(why, why_size, "memory %s has no %s that a NIC can reach",
             landing->memory->plugin->name, bytes);
    return 1;
  }
  if (rc < 0)
    return refuse_alloc(plan, landing, PST_ALLOC_NORMAL, length, rc);
  if (!setup_region_meets(&landing->ring_region, plan->limits->ring_needs, &lacks)) {
    snprintf(why, why_size, "transport %s needs %s, memory %s (%s) has not",
             landing->lane->device->plugin->name, lacks, landing->memory->plugin->name,
             landing->ring_region.backing);
    goto bounce;
  }
  if (lent_would_bounce(plan, landing)) {
    snprintf(why, why_size, "transport %s hands over host memory of its own",
             landing->lane->device->plugin->name);
    goto bounce;
  }
  rc = open_ring(plan, landing);
  if (rc == -EOPNOTSUPP) {
    snprintf(why, why_size, "transport %s cannot receive into memory %s%s%.112s",
             landing->lane->device->plugin->name, landing->memory->plugin->name,
             landing->path.reason[0] ? ": " : "", landing->path.reason);
    goto bounce;
  }
  if (rc < 0)
    pst_fail(plan->error, PST_EXIT_UNAVAILABLE, rc,
             "stream %s: transport %s opens no ring of %u slots: %s", plan->stream->name,
             landing->lane->device->plugin->name, landing->slots, strerror(-rc));
  return rc;

bounce:
  free_region(landing, &landing->ring_region);
  return 1;
}

static int alloc_staging_state(struct landing *landing)
{
  landing->copy_capacity = LANDING_COPIES;
  landing->token_mask = power_of_two(landing->slots) - 1;
  landing->copies = zalloc(landing->copy_capacity, sizeof(*landing->copies));
  landing->copy_tokens = zalloc(landing->token_mask + 1, sizeof(uint64_t));
  landing->final_mask = (uint32_t)landing->token_mask;
  landing->final_free = zalloc(landing->token_mask + 1, sizeof(uint32_t));
  int rc = copy_rows_open(&landing->rows, landing->memory->plugin->memory, SESSION_DEVICE_BATCH);
  if (rc < 0 || !landing->copies || !landing->copy_tokens || !landing->final_free)
    return -ENOMEM;
  for (uint32_t i = 0; i < landing->slots; i++)
    landing->final_free[landing->final_tail++] = i;
  return 0;
}

/* What the transport writes, or nothing where it lends all that is sent. */
static int alloc_staging(const struct landing_plan *plan, struct landing *landing)
{
  const char *lacks;

  if (plan->limits->capabilities & PST_CAP_BARE_RING)
    return 0;
  int rc = alloc_region(plan, landing, PST_ALLOC_STAGING, landing->stride * landing->slots,
                        plan->limits->ring_needs, &landing->ring_region);
  if (rc == 0 && !setup_region_meets(&landing->ring_region, plan->limits->ring_needs, &lacks))
    rc = pst_fail(plan->error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: transport %s needs %s, which the staging memory of %s lacks too",
                  plan->stream->name, landing->lane->device->plugin->name, lacks,
                  landing->memory->plugin->name);
  return rc;
}

static int open_staged(const struct landing_plan *plan, struct landing *landing, const char *why)
{
  const struct pst_memory_ops *memory = landing->memory->plugin->memory;
  struct pst_queue_params queue = {.struct_size = sizeof(queue),
                                   .batches = LANDING_COPIES,
                                   .pieces = frames_pieces(plan->stream)};
  uint64_t length = frames_length(plan->stream);
  int rc;

  if (!(memory->capabilities & PST_MEMORY_CAP_COPY))
    return pst_fail(plan->error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: %s, and memory %s cannot copy, so it cannot be staged either",
                    plan->stream->name, why, landing->memory->plugin->name);
  landing->staged = true;
  landing->final_stride = round_up(plan->stream->message, CACHE_LINE);
  if (plan->stream->stride > landing->final_stride)
    landing->final_stride = round_up(plan->stream->stride, CACHE_LINE);
  if (length == 0)
    length = landing->final_stride * landing->slots;
  rc = alloc_region(plan, landing, PST_ALLOC_NORMAL, length, 0, &landing->final_region);
  if (rc == 0)
    rc = alloc_staging(plan, landing);
  if (rc < 0)
    return rc;
  rc = open_ring(plan, landing);
  if (rc == 0)
    rc = memory->queue_open(landing->memory->memory, &queue, &landing->queue);
  if (rc == 0)
    rc = alloc_staging_state(landing);
  if (rc < 0)
    return pst_fail(plan->error, PST_EXIT_UNAVAILABLE, rc, "stream %s: no staged path: %s",
                    plan->stream->name, strerror(-rc));
  landing->path.path = PST_PATH_STAGED;
  snprintf(landing->path.via, sizeof(landing->path.via), "copy");
  snprintf(landing->path.reason, sizeof(landing->path.reason), "%.159s", why);
  return 0;
}

static int check_path(const struct landing_plan *plan, const struct landing *landing)
{
  static const uint32_t wanted[] = {[CONFIG_PATH_DIRECT] = PST_PATH_DIRECT,
                                    [CONFIG_PATH_MAPPED] = PST_PATH_MAPPED,
                                    [CONFIG_PATH_STAGED] = PST_PATH_STAGED};
  static const char *const names[] = {"none", "direct", "mapped", "staged"};
  enum config_path path = plan->stream->receiver.path;

  if (path == CONFIG_PATH_AUTO || landing->path.path == wanted[path])
    return 0;
  return pst_fail(plan->error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: `path: %s` asked for, but here it is %s%s%s; `path: auto` takes what "
                  "there is",
                  plan->stream->name, names[wanted[path]], names[landing->path.path],
                  landing->path.reason[0] ? ": " : "", landing->path.reason);
}

static int open_path(const struct landing_plan *plan, struct landing *landing)
{
  char why[160] = "asked for by `path: staged`";
  enum config_path path = plan->stream->receiver.path;
  bool assembles = plan->stream->receiver.assemble.packets;
  int rc = 1;

  if (assembles)
    snprintf(why, sizeof(why), "`assemble` copies each payload to its place in a frame");
  else if (path != CONFIG_PATH_STAGED)
    rc = try_direct(plan, landing, why, sizeof(why));
  if (rc == 1 && (path == CONFIG_PATH_AUTO || path == CONFIG_PATH_STAGED))
    rc = open_staged(plan, landing, why);
  else if (rc == 1)
    rc = pst_fail(plan->error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: `path: %s` is not possible: %s; `path: auto` stages",
                  plan->stream->name, path == CONFIG_PATH_DIRECT ? "direct" : "mapped", why);
  return rc < 0 ? rc : check_path(plan, landing);
}

static int plan_slots(const struct landing_plan *plan, struct landing *landing)
{
  const struct pst_limits *limits = plan->limits;
  uint64_t step = limits->slot_alignment > CACHE_LINE ? limits->slot_alignment : CACHE_LINE;

  if (plan->stream->message > limits->message_max)
    return pst_fail(plan->error, PST_EXIT_UNAVAILABLE, -EMSGSIZE,
                    "stream %s: message: %lu B is more than transport %s carries in one: %lu B",
                    plan->stream->name, plan->stream->message, landing->lane->device->plugin->name,
                    limits->message_max);
  landing->slots = plan->stream->ring;
  if (landing->slots < limits->slots_min * plan->endpoints || landing->slots > limits->slots_max)
    return pst_fail(plan->error, PST_EXIT_UNAVAILABLE, -ERANGE,
                    "stream %s: ring: %u slots; transport %s takes %u to %u", plan->stream->name,
                    landing->slots, landing->lane->device->plugin->name,
                    limits->slots_min * plan->endpoints, limits->slots_max);
  landing->stride = round_up(limits->headroom + plan->stream->message + limits->tailroom, step);
  if (plan->stream->stride > landing->stride)
    landing->stride = round_up(plan->stream->stride, step);
  return 0;
}

int landing_open(struct pst_session *session, struct pst_receiver *receiver,
                 struct pst_error *error)
{
  struct landing_plan plan = {.stream = receiver->end.config,
                              .limits = &receiver->end.lane->device->limits,
                              .endpoints =
                                  1 + session_stream_find(session, receiver->end.name)->sharers,
                              .error = error};
  struct landing *landing = zalloc(1, sizeof(*landing));
  int rc;

  if (!landing)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  landing->users = 1;
  landing->slice = UINT32_MAX;
  landing->lane = receiver->end.lane;
  receiver->landing = landing;
  rc = setup_memory(session, &plan.stream->receiver.memory, &landing->memory, error);
  if (rc == 0)
    rc = plan_slots(&plan, landing);
  if (rc == 0)
    rc = open_path(&plan, landing);
  return rc;
}

void landing_close_ring(struct landing *landing)
{
  if (landing->queue)
    landing->memory->plugin->memory->queue_close(landing->queue);
  if (landing->ring)
    landing->lane->ops->ring_close(landing->lane->worker, landing->ring);
  landing->queue = NULL;
  landing->ring = NULL;
}

void landing_close(struct landing *landing)
{
  if (!landing || --landing->users > 0)
    return;
  if (landing->mr)
    landing->lane->ops->mr_deregister(landing->lane->device->device, landing->mr);
  if (landing->memory) {
    free_region(landing, &landing->ring_region);
    free_region(landing, &landing->final_region);
  }
  free(landing->copies);
  free(landing->copy_tokens);
  free(landing->final_free);
  copy_rows_close(&landing->rows);
  free(landing);
}

/* ---- The way of messages ------------------------------------------------------ */

const struct pst_region *landing_lent(const struct landing *landing, uint32_t buffer)
{
  return buffer < SESSION_LENT_MAX ? landing->lane->lent[buffer].region : NULL;
}

uint32_t landing_room(const struct landing *landing)
{
  uint64_t tokens = landing->token_mask + 1 - (landing->token_tail - landing->token_head);

  if (landing->deferred || landing->copy_tail - landing->copy_head == landing->copy_capacity)
    return 0;
  /* Final slots may be given back before their copies are done, and a transport
   * that lends has more tokens than the ring has slots. */
  uint32_t slots = landing->final_tail - landing->final_head;
  uint32_t left = landing->placed < landing->slice ? landing->slice - landing->placed : 0;
  if (tokens < slots)
    slots = (uint32_t)tokens;
  return slots < left ? slots : left;
}

void landing_slice(struct landing *landing, uint64_t message)
{
  uint64_t messages = LANDING_SLICE_BYTES / message;

  landing->slice = messages < SESSION_POLL_BATCH ? (uint32_t)messages : SESSION_POLL_BATCH;
  if (landing->slice == 0)
    landing->slice = 1;
}

void landing_note(struct landing *landing, const struct pst_view *views, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    landing->copy_tokens[landing->token_tail++ & landing->token_mask] = views[i].token;
  landing->placed += n;
}

/* Hand the queue a copy. -EAGAIN: it has no room before one that is under way is done. */
static int queue_copy(struct landing *landing, struct copy_rows *rows)
{
  const struct pst_memory_ops *memory = landing->memory->plugin->memory;
  struct landing_batch *batch = &landing->copies[landing->copy_tail % landing->copy_capacity];
  int rc = copy_rows_submit(rows, memory, landing->queue, &batch->ticket);

  if (rc == -EAGAIN && landing->copy_head == landing->copy_tail) {
    pst_log(PST_LOG_ERROR, "memory %s takes no copy while none is under way: a bug of it",
            landing->memory->plugin->name);
    rc = -EPROTO;
  }
  if (rc == 0)
    landing->copy_tail++;
  if (rc != -EAGAIN)
    rows->count = 0;
  return rc;
}

int landing_copy(struct landing *landing, struct copy_rows *rows)
{
  struct landing_batch *batch = &landing->copies[landing->copy_tail % landing->copy_capacity];
  uint32_t n = landing->placed;

  landing->placed = 0;
  *batch = (struct landing_batch){.ticket = landing->done_ticket, .count = n};
  if (rows->count == 0) {
    landing->copy_tail++;
    return 0;
  }
  int rc = queue_copy(landing, rows);
  if (rc == -EAGAIN)
    landing->deferred = rows;
  else if (rc < 0)
    landing->token_tail -= n;
  return rc;
}

bool landing_is_deferred(const struct landing *landing)
{
  return landing->deferred != NULL;
}

static int copy_deferred(struct landing *landing)
{
  int rc = queue_copy(landing, landing->deferred);

  if (rc == 0)
    landing->deferred = NULL;
  return rc == -EAGAIN ? 0 : rc;
}

int landing_fence(struct landing *landing, struct pst_fence **ready)
{
  const struct pst_memory_ops *memory = landing->memory->plugin->memory;

  *ready = NULL;
  if (!(memory->capabilities & PST_MEMORY_CAP_FENCE))
    return 0;
  return memory->fence_record(landing->memory->memory, landing->queue, NULL, ready);
}

/* n messages into final slots that lie side by side, from `slot` on. */
static void place_row(struct landing *landing, struct pst_view *view, uint32_t n, uint32_t slot,
                      uint64_t *tokens)
{
  const uint64_t stride = landing->final_stride;
  const uintptr_t base = (uintptr_t)landing->final_region.host;
  const uint64_t step = base ? stride : 0; /* where the CPU cannot read, `host` stays NULL */
  uint64_t to = landing->final_region.address + slot * stride;
  uintptr_t host = base + slot * step;

  copy_rows_add_views(&landing->rows, view, n, to, stride);
  for (const struct pst_view *const end = view + n; view < end; view++) {
    *tokens++ = view->token;
    view->address = to;
    view->host = (const void *)host;
    view->token = slot++;
    to += stride;
    host += step;
  }
}

/* How many of n numbers, from the first on, follow each other. */
static uint32_t consecutive(const uint32_t *numbers, uint32_t n)
{
  uint32_t next = *numbers, count = 0;

  while (count < n && numbers[count] == next)
    count++, next++;
  return count;
}

void landing_place(struct landing *landing, struct pst_view *views, uint32_t n)
{
  landing->placed += n;
  while (n) {
    uint64_t token = landing->token_tail & landing->token_mask;
    const uint32_t *slots = &landing->final_free[landing->final_head & landing->final_mask];
    uint32_t run = landing->final_mask + 1 - (landing->final_head & landing->final_mask);
    if (run > n)
      run = n;
    if (run > landing->token_mask + 1 - token)
      run = (uint32_t)(landing->token_mask + 1 - token);
    run = consecutive(slots, run);
    place_row(landing, views, run, *slots, &landing->copy_tokens[token]);
    landing->final_head += run;
    landing->token_tail += run;
    views += run;
    n -= run;
  }
}

int landing_submit(struct landing *landing, struct pst_fence **ready)
{
  uint32_t count = landing->rows.count, n = landing->placed;

  *ready = NULL;
  int rc = landing_copy(landing, &landing->rows);
  if (rc < 0) {
    if (rc != -EAGAIN)
      landing->final_head -= n;
    return rc;
  }
  return count ? landing_fence(landing, ready) : 0;
}

int landing_reap(struct landing *landing)
{
  int rc;

  if (landing->copy_head == landing->copy_tail && !landing->deferred)
    return 0;
  rc = landing->memory->plugin->memory->queue_poll(landing->queue, &landing->done_ticket);
  if (rc < 0)
    return rc;
  while (landing->copy_head != landing->copy_tail) {
    struct landing_batch *batch = &landing->copies[landing->copy_head % landing->copy_capacity];
    if (batch->ticket > landing->done_ticket)
      break;
    while (batch->count) {
      uint64_t at = landing->token_head & landing->token_mask;
      uint64_t run = landing->token_mask + 1 - at;
      if (run > batch->count)
        run = batch->count;
      landing->lane->ops->release(landing->lane->worker, &landing->copy_tokens[at], (uint32_t)run);
      landing->token_head += run;
      batch->count -= (uint32_t)run;
    }
    landing->copy_head++;
  }
  return landing->deferred ? copy_deferred(landing) : 0;
}

void landing_give_tokens(struct landing *landing, const uint64_t *tokens, uint32_t n)
{
  if (!landing->staged) {
    landing->lane->ops->release(landing->lane->worker, tokens, n);
    return;
  }
  for (uint32_t i = 0; i < n; i++)
    landing->final_free[landing->final_tail++ & landing->final_mask] = (uint32_t)tokens[i];
}

void landing_give_back(struct landing *landing, const struct pst_view *views, uint32_t n)
{
  uint64_t tokens[SESSION_POLL_BATCH];

  if (landing->staged) {
    for (uint32_t i = 0; i < n; i++)
      landing->final_free[landing->final_tail++ & landing->final_mask] = (uint32_t)views[i].token;
    return;
  }
  while (n) {
    uint32_t run = n < SESSION_POLL_BATCH ? n : SESSION_POLL_BATCH;
    for (uint32_t i = 0; i < run; i++)
      tokens[i] = views[i].token;
    landing_give_tokens(landing, tokens, run);
    views += run;
    n -= run;
  }
}
