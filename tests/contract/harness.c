/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, workers and limits of the transport that is tried. */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "harness.h"

#include "config/options.h"

#define PARTING_POLLS 32
#define IDLE_POLLS 200

static const struct contract_params defaults = {
    .endpoints = 1, .slots = 64, .message = 2048, .requests = 256, .pieces = 8, .headroom = 32};

static struct pst_options *innermost_options(const struct contract_variant *variant,
                                             const struct contract_image *image)
{
  const struct pst_plugin *innermost = image->inner ? image->inner : image->plugin;
  return contract_options(innermost->described->description, variant->options,
                          variant->option_list);
}

void contract_limits(const struct contract_variant *variant, struct pst_limits *limits)
{
  struct contract_image image;
  struct pst_device *device;
  contract_image_open(variant, false, &image);
  contract_device_open(variant, &image, !variant->apart, false, &device);
  *limits = (struct pst_limits){.struct_size = sizeof(*limits)};
  assert_int_equal(image.ops->limits(device, limits), 0);
  image.ops->close(device);
}

uint64_t contract_capabilities(const struct contract_variant *variant)
{
  struct pst_limits limits;

  contract_limits(variant, &limits);
  return limits.capabilities;
}

int contract_device_try(const struct contract_variant *variant, const struct contract_image *image,
                        bool in_process, bool sleep, struct pst_device **device)
{
  struct pst_plan plan = {.struct_size = sizeof(plan),
                          .flags = (in_process ? PST_PLAN_IN_PROCESS : 0u) |
                                   (sleep ? PST_PLAN_SLEEP : 0u),
                          .workers = 1,
                          .rings = 2,
                          .senders = CONTRACT_ENDPOINTS,
                          .receivers = CONTRACT_ENDPOINTS,
                          .rma = CONTRACT_ENDPOINTS,
                          .requests = 4096,
                          .pieces = 64,
                          .ring_slots = 4096,
                          .message_max = 1 << 20};
  struct pst_options *options = innermost_options(variant, image), *filter = NULL;
  struct pst_open_params inner = {.struct_size = sizeof(inner),
                                  .options = options,
                                  .plan = &plan,
                                  .local_address = variant->local_address};
  struct pst_open_params params = inner;
  if (image->inner) {
    filter = contract_options(image->plugin->described->description, variant->filter_options, NULL);
    params.options = filter;
    params.inner = image->inner_ops;
    params.inner_host = &contract_host;
    params.inner_params = &inner;
  }
  int rc = image->ops->open(&contract_host, &params, device);
  options_free(options);
  options_free(filter);
  return rc;
}

void contract_device_open(const struct contract_variant *variant,
                          const struct contract_image *image, bool in_process, bool sleep,
                          struct pst_device **device)
{
  const char *before = contract_rule("Open the device that the options name.");
  assert_int_equal(contract_device_try(variant, image, in_process, sleep, device), 0);
  contract_rule(before);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

static uint32_t headroom(const struct contract_side *side, const struct contract_params *params)
{
  return params->headroom < side->limits.headroom ? side->limits.headroom : params->headroom;
}

void contract_ring_open(struct contract_side *side, const struct contract_params *params,
                        struct pst_mr *mr, struct pst_ring **ring)
{
  struct pst_ring_params in = {.struct_size = sizeof(in),
                               .slots = params->slots,
                               .mr = mr,
                               .base = side->stride, /* a ring need not begin its range */
                               .stride = side->stride,
                               .payload_max =
                                   params->payload_max ? params->payload_max : params->message,
                               .headroom = headroom(side, params),
                               .tailroom = side->limits.tailroom,
                               .endpoints = params->endpoints ? params->endpoints : 1};
  side->path.struct_size = sizeof(side->path);
  int rc = side->image.ops->ring_open(side->worker, &in, &side->path, ring);
  if (rc == -EINVAL)
    contract_rule("-EINVAL: alignment, slots or stride break the limits");
  assert_int_equal(rc, 0);
  contract_path_is_known("ring_open", &side->path);
}

int contract_endpoint_try(struct contract_side *side, const struct contract_params *params,
                          struct pst_ring *ring, uint32_t index)
{
  struct pst_endpoint_params endpoint = {
      .struct_size = sizeof(endpoint),
      .roles = (ring ? PST_ROLE_RECEIVER : PST_ROLE_SENDER) | params->roles_more,
      .ring = ring,
      .cookie = index + 1,
      .label = ring ? "receiver" : "sender",
      .options = side->options,
      .requests = smaller(params->requests, side->limits.requests_max),
      .pieces = smaller(params->pieces, side->limits.pieces_max),
      .message_max = ring && params->payload_max ? params->payload_max : params->message,
      .timeout_ns = params->timeout_ns ? params->timeout_ns : contract_deadline_ns,
      .mr = ring ? NULL : side->mr,
      .domain = params->domain,
  };
  side->closed[index] = side->connected[index] = side->departed[index] = false;
  return side->image.ops->endpoint_open(side->worker, &endpoint, &side->endpoints[index]);
}

void contract_endpoint_open(struct contract_side *side, const struct contract_params *params,
                            struct pst_ring *ring, uint32_t index)
{
  int rc = contract_endpoint_try(side, params, ring, index);
  if (rc == -EINVAL)
    contract_rule(
        "-EINVAL: no role or an unknown one, RECEIVER without a ring, cookie 0, a value beyond the limits, or a wrong option as in open()");
  assert_int_equal(rc, 0);
  contract_posted_clear(&side->posted[index]);
}

/* No more than core asks for. */
static uint32_t remote_rights(uint64_t capabilities)
{
  return (capabilities & PST_CAP_READ ? PST_ACCESS_REMOTE_READ : 0u) |
         (capabilities & PST_CAP_WRITE ? PST_ACCESS_REMOTE_WRITE : 0u) |
         (capabilities & PST_CAP_ATOMIC ? PST_ACCESS_REMOTE_ATOMIC : 0u);
}

static void fit(struct contract_params *params, const struct pst_limits *limits)
{
  if (params->message > limits->message_max)
    params->message = limits->message_max;
}

void contract_side_open(const struct contract_variant *of, const struct contract_params *wanted,
                        bool second, bool receiver, struct contract_side *side)
{
  struct contract_params fitted = *wanted, *params = &fitted;
  struct contract_variant own = *of, *variant = &own;
  if (!receiver && of->sender_options)
    own.options = of->sender_options;
  contract_image_open(variant, second, &side->image);
  const struct pst_transport_ops *ops = side->image.ops;
  contract_device_open(variant, &side->image, !variant->apart, params->sleep, &side->device);
  side->options = innermost_options(variant, &side->image);
  side->limits.struct_size = sizeof(side->limits);
  assert_int_equal(ops->limits(side->device, &side->limits), 0);
  fit(params, &side->limits);
  side->message = params->message;
  uint64_t align = side->limits.slot_alignment;
  side->stride = (headroom(side, params) + params->message + side->limits.tailroom + align - 1) /
                 align * align;
  contract_region_make(side->stride * (params->slots + receiver), &side->memory);
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                       remote_rights(side->limits.capabilities) |
                                       (receiver ? PST_ACCESS_RING : 0u),
                             .region = &side->memory.region,
                             .length = side->memory.region.length,
                             .domain = params->domain};
  const char *before = contract_rule("Make a range usable by this device.");
  assert_int_equal(ops->mr_register(side->device, &mr, &side->mr), 0);
  contract_rule("`index` counts from 0 to plan.workers - 1.");
  assert_int_equal(ops->worker_open(side->device, 0, &side->worker), 0);
  contract_rule(before);
  if (receiver)
    contract_ring_open(side, params, params->bare ? NULL : side->mr, &side->ring);
  for (uint32_t i = 0; i < params->endpoints; i++)
    contract_endpoint_open(side, params, side->ring, i);
}

static void close_endpoints(struct contract_side *side)
{
  const struct pst_transport_ops *ops = side->image.ops;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t left = 0;
  const char *before = contract_rule(
      "Begin to close: the remaining DONEs follow, then EVENT CLOSED, by deadline_ns of CLOCK_MONOTONIC at the latest.");
  for (uint32_t i = 0; i < CONTRACT_ENDPOINTS; i++)
    if (side->endpoints[i] && !side->closed[i]) {
      int rc = ops->endpoint_close(side->endpoints[i], PST_CLOSE_ABORT, 0);
      assert_true(rc == 0 || rc == -EALREADY);
      side->closed[i] = true;
      left++;
    }
  while (left) {
    contract_poll(side);
    struct pst_completion closed;
    while (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &closed))
      left--;
    contract_in_time(deadline,
                     "EVENT CLOSED of %u endpoints, closed by ABORT with a deadline that is over",
                     left);
  }
  contract_rule(before);
}

void contract_side_close(struct contract_side *side)
{
  const struct pst_transport_ops *ops = side->image.ops;
  if (!side->device)
    return;
  close_endpoints(side);
  ops->ring_close(side->worker, side->ring);
  contract_side_vanish(side);
}

void contract_side_vanish(struct contract_side *side)
{
  const struct pst_transport_ops *ops = side->image.ops;
  ops->worker_close(side->worker);
  ops->mr_deregister(side->device, side->mr);
  ops->close(side->device);
  contract_region_free(&side->memory);
  options_free(side->options);
  free(side->log);
  for (int i = 0; i < CONTRACT_ENDPOINTS; i++)
    contract_posted_clear(&side->posted[i]);
  side->device = NULL;
}

/* A filter has it, and what it wraps may not. */
static void start(const struct contract_side *side)
{
  const struct pst_transport_ops *ops = side->image.ops;
  int rc = ops->start ? ops->start(side->device) : 0;
  if (rc != -EOPNOTSUPP)
    assert_int_equal(rc, 0);
}

struct contract_pair *contract_pair_open(const struct contract_variant *variant,
                                         const struct contract_params *params)
{
  struct contract_pair *pair = calloc(1, sizeof(*pair));
  assert_non_null(pair);
  pair->variant = variant;
  pair->params = params ? *params : defaults;
  contract_side_open(variant, &pair->params, false, false, &pair->sender);
  fit(&pair->params, &pair->sender.limits);
  contract_side_open(variant, &pair->params, variant->apart, true, &pair->receiver);
  start(&pair->sender);
  start(&pair->receiver);
  return pair;
}

void contract_address(struct contract_side *side, uint32_t index, struct pst_blob *blob)
{
  static _Thread_local uint8_t bytes[2][16384];
  static _Thread_local uint32_t turn;
  *blob = (struct pst_blob){.struct_size = sizeof(*blob),
                            .capacity = side->limits.address_max,
                            .bytes = bytes[turn++ % 2]};
  const char *before = contract_rule("The address that the peer's endpoint_connect takes.");
  assert_true(side->limits.address_max <= sizeof(bytes[0]));
  assert_int_equal(side->image.ops->endpoint_address(side->endpoints[index], blob), 0);
  contract_rule(before);
}

int contract_connect(struct contract_side *side, uint32_t index, const struct pst_blob *blob)
{
  side->connected[index] = false;
  return side->image.ops->endpoint_connect(side->endpoints[index], blob);
}

int contract_connect_one(const struct contract_variant *variant,
                         const struct contract_params *params, const struct pst_blob *blob)
{
  struct contract_side sender = {0};
  contract_side_open(variant, params, false, false, &sender);
  int rc = contract_connect(&sender, 0, blob);
  contract_side_close(&sender);
  return rc;
}

void contract_pair_meet(struct contract_pair *pair)
{
  struct pst_blob blob;
  for (uint32_t i = 0; i < pair->params.endpoints; i++) {
    contract_address(&pair->receiver, i, &blob);
    assert_int_equal(contract_connect(&pair->sender, i, &blob), 0);
    contract_address(&pair->sender, i, &blob);
    assert_int_equal(contract_connect(&pair->receiver, i, &blob), 0);
  }
  for (uint32_t i = 0; i < pair->params.endpoints; i++) {
    contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
    contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  }
}

void contract_pair_connect(struct contract_pair *pair)
{
  const char *before = contract_rule(
      "Begin to connect to a peer by its address. Both sides call it, in any order; it never blocks. EVENT CONNECTED follows, or DISCONNECTED with the status.");
  contract_pair_meet(pair);
  contract_rule(before);
}

void contract_pair_close(struct contract_pair *pair)
{
  if (!pair)
    return;
  if (pair->sender.device && pair->receiver.device) {
    /* They part as two that poll do: neither has to wait in worker_close for the other's answer. */
    close_endpoints(&pair->sender);
    close_endpoints(&pair->receiver);
    for (int i = 0; i < PARTING_POLLS; i++) {
      contract_poll(&pair->sender);
      contract_poll(&pair->receiver);
    }
  }
  contract_side_close(&pair->sender);
  contract_side_close(&pair->receiver);
  free(pair);
}

struct contract_pair *contract_pair(void **state, const struct contract_params *params)
{
  struct contract_pair *pair = contract_pair_open(*state, params);
  contract_pair_connect(pair);
  return pair;
}

static void make_room(struct contract_side *side)
{
  if (side->log_room - side->logged >= 64)
    return;
  side->log_room = side->log_room * 2 + 256;
  side->log = realloc(side->log, side->log_room * sizeof(*side->log));
  assert_non_null(side->log);
}

void contract_log(struct contract_side *side, const struct pst_completion *completion)
{
  make_room(side);
  side->log[side->logged++] = *completion;
}

static void check_polled(struct contract_side *side, const struct pst_completion *completion)
{
  contract_completion_is_known(completion);
  if (completion->kind == PST_COMPLETION_EVENT && completion->code == PST_EVENT_LENT)
    side->lent[completion->u.region.buffer % 64] = completion->u.region.region;
  /* A case may open more by itself. */
  if (!completion->endpoint || completion->endpoint > CONTRACT_ENDPOINTS)
    return;
  const uint64_t index = completion->endpoint - 1;
  if (completion->kind == PST_COMPLETION_DONE)
    contract_posted_done(&side->posted[index], completion);
  if (completion->kind == PST_COMPLETION_EVENT && completion->code == PST_EVENT_CONNECTED)
    side->connected[index] = true;
  if (completion->kind == PST_COMPLETION_EVENT && completion->code == PST_EVENT_DISCONNECTED)
    side->departed[index] = true;
  if (completion->kind == PST_COMPLETION_MESSAGE && side->departed[index]) {
    contract_rule(
        "DISCONNECTED follows every MESSAGE that arrived whole. Its status is 0 where the peer drained and closed");
    fail_msg("a MESSAGE came behind DISCONNECTED of its endpoint");
  }
}

/* Leaves the CPU to others, for waits on another process, a device's thread or a time. */
static void rest_when_idle(bool idle)
{
  static _Thread_local unsigned polls;
  const struct timespec rest = {.tv_nsec = 20000};

  polls = idle ? polls + 1 : 0;
  if (polls >= IDLE_POLLS)
    nanosleep(&rest, NULL);
}

volatile sig_atomic_t contract_is_to_stop;

int contract_poll(struct contract_side *side)
{
  if (contract_is_to_stop) {
    contract_is_to_stop = 0;
    raise(SIGSTOP);
  }
  make_room(side);
  int n = side->image.ops->poll(side->worker, side->log + side->logged, 64);
  rest_when_idle(n == 0);
  assert_in_range(n, 0, 64);
  for (uint32_t i = side->logged; i < side->logged + (uint32_t)n; i++)
    check_polled(side, &side->log[i]);
  side->logged += (uint32_t)n;
  return n;
}

bool contract_take(struct contract_side *side, uint8_t kind, uint8_t code,
                   struct pst_completion *completion)
{
  for (uint32_t i = 0; i < side->logged; i++) {
    if (side->log[i].kind != kind || side->log[i].code != code)
      continue;
    *completion = side->log[i];
    memmove(side->log + i, side->log + i + 1, (--side->logged - i) * sizeof(*side->log));
    if (kind == PST_COMPLETION_EVENT && code == PST_EVENT_CLOSED &&
        completion->endpoint <= CONTRACT_ENDPOINTS) /* a case may open more by itself */
      side->closed[completion->endpoint - 1] = true;
    return true;
  }
  return false;
}

/* Prints the completions that came instead, which may tell why. */
static void tell_instead(const struct contract_side *side, const char *whose)
{
  char name[64];
  for (uint32_t i = 0; i < side->logged && i < 8; i++)
    print_error("[  ERROR   ] --- %s poll gave instead: %s, status %d (%s)\n", whose,
                contract_name_of(side->log[i].kind, side->log[i].code, name, sizeof(name)),
                side->log[i].status, strerror(-side->log[i].status));
}

static bool has_departed(const struct contract_side *side)
{
  bool has = false;
  for (int i = 0; i < CONTRACT_ENDPOINTS; i++)
    has |= side->departed[i];
  return has;
}

static void await_ends(const struct contract_side *side, const struct contract_side *far,
                       uint8_t kind, uint8_t code, uint64_t deadline)
{
  char name[64];
  if (contract_now_ns() < deadline)
    return;
  tell_instead(side, "its");
  if (far)
    tell_instead(far, "its peer's");
  if (kind == PST_COMPLETION_MESSAGE && (side->limits.capabilities & PST_CAP_RELIABLE) &&
      !has_departed(side) && !(far && has_departed(far)))
    contract_rule("an accepted SEND arrives once, or the endpoint fails");
  contract_in_time(deadline, "%s, though %s polled",
                   contract_name_of(kind, code, name, sizeof(name)),
                   far ? "both sides were" : "its side was");
}

struct pst_completion contract_await(struct contract_side *side, struct contract_side *far,
                                     uint8_t kind, uint8_t code)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion completion;
  while (!contract_take(side, kind, code, &completion)) {
    int n = contract_poll(side);
    if (far)
      n += contract_poll(far);
    if (n == 0)
      sched_yield();
    await_ends(side, far, kind, code, deadline);
  }
  return completion;
}

void contract_await_done(struct contract_side *side, struct contract_side *far, uint8_t opcode,
                         uint64_t count, int32_t status)
{
  uint64_t covered = 0;
  while (covered < count) {
    const char *before = contract_rule("Exactly one DONE covers each request that post() took");
    struct pst_completion done = contract_await(side, far, PST_COMPLETION_DONE, opcode);
    contract_rule(before); /* what its status must be, the case says */
    assert_int_equal(done.status, status);
    if (done.u.done.count != 1 &&
        (done.u.done.count == 0 || (opcode != PST_OP_SEND && opcode != PST_OP_WRITE))) {
      contract_rule("requests covered, at least 1; READ, atomics, FLUSH: 1");
      fail_msg("a DONE covers %" PRIu64 " requests", done.u.done.count);
    }
    covered += done.u.done.count;
  }
  if (covered != count) {
    contract_rule("Exactly one DONE covers each request that post() took");
    fail_msg("DONEs covered %" PRIu64 " requests, but only %" PRIu64 " were outstanding", covered,
             count);
  }
}

struct pst_request contract_send(const struct contract_side *side, uint64_t offset, uint64_t length,
                                 uint64_t sequence)
{
  return (struct pst_request){.opcode = PST_OP_SEND,
                              .local.mr = side->mr,
                              .offset = offset,
                              .arg.length = length,
                              .cookie = sequence,
                              .u.send = {.sequence = sequence, .meta = ~sequence}};
}

uint32_t contract_post_all(struct contract_pair *pair, uint32_t index,
                           const struct pst_request *requests, uint32_t n)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t taken = 0, wait = PST_WAIT_NONE;
  while (taken < n) {
    int rc = contract_post(&pair->sender, index, requests + taken, n - taken, &wait);
    if (rc != -EAGAIN)
      assert_in_range(rc, 1, n - taken);
    taken += rc > 0 ? (uint32_t)rc : 0;
    if (taken == n || wait == PST_WAIT_CREDIT)
      break;
    assert_int_equal(wait, PST_WAIT_QUEUE);
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
    contract_in_time(deadline, "post to take %u requests: %u were taken, and *wait is QUEUE", n,
                     taken);
  }
  return taken;
}

void contract_post_one(struct contract_pair *pair, const struct pst_request *request)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t wait = PST_WAIT_NONE;
  int rc;
  while ((rc = contract_post(&pair->sender, 0, request, 1, &wait)) == -EAGAIN) {
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
    contract_in_time(
        deadline,
        "post to take a request: it went on saying -EAGAIN (*wait is %u) while both sides were polled",
        wait);
  }
  assert_int_equal(rc, 1);
}

uint8_t *contract_payload(const struct contract_side *side, const struct pst_completion *message)
{
  const struct pst_region *region = &side->memory.region;
  if (message->u.message.buffer)
    region = side->lent[message->u.message.buffer % 64];
  assert_non_null(region);
  assert_true(message->u.message.offset + message->u.message.length <= region->length);
  return (uint8_t *)region->host + message->u.message.offset;
}

void contract_release(struct contract_side *side, const struct pst_completion *message)
{
  assert_int_equal(side->image.ops->release(side->worker, &message->u.message.token, 1), 0);
}

enum { PATTERN_BLOCK = 256 };

/* The pattern's bytes [from, from + PATTERN_BLOCK), from a multiple of that. */
static void pattern(uint8_t block[PATTERN_BLOCK], uint64_t seed, uint64_t from)
{
  uint16_t base =
      (uint16_t)(seed * UINT64_C(0x9e3779b97f4a7c15) + from * 131 + from / PATTERN_BLOCK);
  for (uint16_t i = 0; i < PATTERN_BLOCK; i++)
    block[i] = (uint8_t)((uint16_t)(base + i * 131) >> 8);
}

static uint64_t pattern_part(uint64_t from, uint64_t length)
{
  return length - from < PATTERN_BLOCK ? length - from : PATTERN_BLOCK;
}

void contract_fill(uint8_t *at, uint64_t length, uint64_t seed)
{
  uint8_t block[PATTERN_BLOCK];
  for (uint64_t i = 0; i < length; i += PATTERN_BLOCK) {
    pattern(block, seed, i);
    memcpy(at + i, block, pattern_part(i, length));
  }
}

bool contract_verify(const uint8_t *at, uint64_t length, uint64_t seed)
{
  uint8_t block[PATTERN_BLOCK];
  for (uint64_t i = 0; i < length; i += PATTERN_BLOCK) {
    pattern(block, seed, i);
    if (memcmp(at + i, block, pattern_part(i, length)) != 0)
      return false;
  }
  return true;
}

/* The seeds of a stream's messages lie close together. */
static void bytes_tell_whose(const uint8_t *at, uint64_t length, uint64_t seed)
{
  for (uint64_t i = 1; i <= 4096 && length > 8; i++)
    for (uint64_t other = seed - i;; other = seed + i) {
      if (contract_verify(at, 8, other) && contract_verify(at, length, other))
        print_error("[  ERROR   ] --- they are the bytes of number %" PRIu64 "\n", other);
      if (other == seed + i)
        break;
    }
}

void contract_bytes_are(const uint8_t *at, uint64_t length, uint64_t seed)
{
  uint64_t first = 0, wrong = 0;
  uint8_t block[PATTERN_BLOCK], expected = 0;
  if (contract_verify(at, length, seed))
    return;
  for (uint64_t i = 0; i < length; i++) {
    if (i % PATTERN_BLOCK == 0)
      pattern(block, seed, i);
    if (at[i] != block[i % PATTERN_BLOCK]) {
      expected = wrong ? expected : block[i % PATTERN_BLOCK];
      first = wrong ? first : i;
      wrong++;
    }
  }
  bytes_tell_whose(at, length, seed);
  fail_msg("of the %" PRIu64 " bytes of number %" PRIu64 ", %" PRIu64
           " are wrong, the first at %" PRIu64 ": 0x%02x, not 0x%02x",
           length, seed, wrong, first, at[first], expected);
}

/* Begins a case: what the one before it logged, or left the clock at, is none of its own. */
static int case_setup(void **state)
{
  contract_host_clock(contract_now_ns);
  contract_complaints();
  return contract_watch(state);
}

int contract_run(const char *group, struct CMUnitTest *cases, size_t count,
                 const struct contract_variant *variant)
{
  char name[96];
  for (size_t i = 0; i < count; i++) {
    cases[i].initial_state = (void *)(uintptr_t)variant;
    cases[i].setup_func = case_setup;
  }
  snprintf(name, sizeof(name), "%s: %s", variant->name, group);
  return contract_group(name, cases, count, NULL);
}
