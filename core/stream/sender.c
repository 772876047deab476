/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending. A message's sequence number also names its slot and its request:
 * both are rings of the same power of two. SENDs of an endpoint are done in post
 * order, so five counters tell everything:
 *     freed <= done of each leg <= posted of each leg <= staged <= submitted <= acquired
 * where staged is submitted, unless sender_staged.c copies.
 * With fan-out each receiver has a leg of its own; a slot is free when the last
 * leg is done with it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/units.h"
#include "session.h"

#define SENDER_FLUSH_COOKIE UINT64_MAX

uint32_t sender_slots(const struct config_stream *config)
{
  uint32_t wanted = config->sender.ring ? config->sender.ring : config->ring;
  uint32_t slots = 2;

  while (slots < wanted && slots < 1u << 30)
    slots <<= 1;
  return slots;
}

static struct pst_sender *leader_of(struct pst_sender *sender)
{
  return sender->leader ? sender->leader : sender;
}

/* ---- Opening --------------------------------------------------------------------- */

static int refuse_alloc(const struct pst_sender *sender, uint64_t length, int rc,
                        struct pst_error *error)
{
  char bytes[UNITS_ABOUT_BYTES];

  if (pst_fail_said(error, PST_EXIT_UNAVAILABLE, rc) == rc)
    return rc;
  units_print_about(length, bytes, sizeof(bytes));
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "stream %s: memory %s cannot allocate %s for the sender's slots: %s; lower "
                  "`ring` or `message`",
                  sender->end.name, sender->memory->plugin->name, bytes, strerror(-rc));
}

static bool sends_from(const struct pst_sender *sender, const struct pst_sender *slots)
{
  const char *share = sender->end.config->sender.share;

  return sender == slots || (share && strcmp(share, slots->end.name) == 0);
}

uint32_t sender_needs(const struct pst_sender *sender)
{
  const struct pst_session *session = sender->end.session;
  uint32_t needs = 0;

  for (uint32_t i = 0; i < session->sender_count; i++)
    if (sends_from(session->senders[i], sender))
      needs |= session->senders[i]->end.lane->device->limits.send_needs;
  return needs;
}

/* A transport that cannot read the slots: its own, or that of a stream which shares them. */
static void say_unmet(const struct pst_sender *sender, char *why, size_t why_size)
{
  const struct pst_session *session = sender->end.session;
  const char *lacks;

  for (uint32_t i = 0; i < session->sender_count && why[0] == 0; i++) {
    const struct pst_sender *leg = session->senders[i];
    const struct session_device *device = leg->end.lane->device;
    if (!sends_from(leg, sender) ||
        setup_region_meets(&sender->region, device->limits.send_needs, &lacks))
      continue;
    snprintf(why, why_size, "transport %s%s%.64s sends from memory with %s, memory %s (%s) has not",
             device->plugin->name, leg == sender ? "" : " of stream ",
             leg == sender ? "" : leg->end.name, lacks, sender->memory->plugin->name,
             sender->region.backing);
  }
}

/* *why says why the transport cannot read it, "" where it may. */
static int alloc_slots(struct pst_sender *sender, const struct pst_limits *limits, char *why,
                       size_t why_size, struct pst_error *error)
{
  const struct pst_memory_ops *memory = sender->memory->plugin->memory;
  enum config_sender_path path = sender->end.config->sender.path;
  struct pst_alloc_params params = {
      .struct_size = sizeof(params),
      .length = sender->stride * sender->slots,
      .alignment = limits->slot_alignment > 4096 ? limits->slot_alignment : 4096,
      .needs = path == CONFIG_SENDER_PATH_STAGED ? 0 : sender_needs(sender),
      .label = sender->end.name};

  sender->region.struct_size = sizeof(sender->region);
  pst_log_clear_error();
  int rc = memory->alloc(sender->memory->memory, &params, &sender->region);
  /* A NIC may reach less of a GPU than there is; staged, it reaches none. */
  if (rc == -ENOMEM && (params.needs & PST_NEED_EXPORT_DMABUF) && path == CONFIG_SENDER_PATH_AUTO) {
    char bytes[UNITS_ABOUT_BYTES];
    units_print_about(params.length, bytes, sizeof(bytes));
    snprintf(why, why_size, "memory %s has no %s that a NIC can reach",
             sender->memory->plugin->name, bytes);
    params.needs = 0;
    rc = memory->alloc(sender->memory->memory, &params, &sender->region);
  }
  if (rc < 0)
    return refuse_alloc(sender, params.length, rc, error);
  sender->has_region = true;
  if (path == CONFIG_SENDER_PATH_STAGED)
    snprintf(why, why_size, "asked for by `sender.path: staged`");
  else
    say_unmet(sender, why, why_size);
  return 0;
}

static int open_region(struct pst_sender *sender, const struct pst_limits *limits,
                       struct pst_error *error)
{
  uint64_t step = limits->slot_alignment > CACHE_LINE ? limits->slot_alignment : CACHE_LINE;
  char why[160] = "";
  int rc;

  sender->base = limits->send_headroom;
  sender->stride = round_up(limits->send_headroom + sender->end.config->message, step);
  if (sender->end.config->stride > sender->stride)
    sender->stride = round_up(sender->end.config->stride, step);
  rc = alloc_slots(sender, limits, why, sizeof(why), error);
  if (rc < 0)
    return rc;
  memcpy(sender->end.memory_backing, sender->region.backing, sizeof(sender->end.memory_backing));
  sender->end.memory_kind = sender->region.kind;
  return why[0] ? sender_stage(sender, why, error) : 0;
}

/* *path says why not. */
static int try_register(const struct pst_sender *leader, const struct pst_sender *leg_owner,
                        struct pst_mr **mr, struct pst_path_info *path)
{
  struct session_device *device = leg_owner->end.lane->device;
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_READ,
                                 .region = sender_region(leader),
                                 .length = leader->stride * leader->slots,
                                 .path = path};

  *path = (struct pst_path_info){.struct_size = sizeof(*path)};
  return device->ops->mr_register(device->device, &params, mr);
}

static int fail_register(const struct pst_sender *leader, const struct pst_sender *leg_owner,
                         const struct pst_path_info *path, int rc, struct pst_error *error)
{
  char bytes[UNITS_ABOUT_BYTES];

  units_print_about(leader->stride * leader->slots, bytes, sizeof(bytes));
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "stream %s: transport %s cannot register %s of %smemory %s (%s): %s",
                  leg_owner->end.name, leg_owner->end.lane->device->plugin->name, bytes,
                  leader->staging ? "staging " : "", leader->memory->plugin->name,
                  sender_region(leader)->backing, path->reason[0] ? path->reason : strerror(-rc));
}

/* The leader's transport sends from the slots as they are by now. */
static int fail_leg(const struct pst_sender *leader, const struct pst_sender *leg_owner,
                    const struct pst_path_info *path, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: transport %s cannot send from the slots of stream %s, which it "
                  "shares, in memory %s (%s)%s%s; with `sender: {path: staged}` in stream %s they "
                  "are copied to memory that it reads",
                  leg_owner->end.name, leg_owner->end.lane->device->plugin->name, leader->end.name,
                  leader->memory->plugin->name, leader->region.backing, path->reason[0] ? ": " : "",
                  path->reason, leader->end.name);
}

/* -EOPNOTSUPP alone says that other memory may do. */
static int register_slots(struct pst_sender *sender, struct pst_error *error)
{
  struct pst_path_info path;
  char why[160];
  int rc = try_register(sender, sender, &sender->mr, &path);

  if (rc == -EOPNOTSUPP && !sender->staging) {
    snprintf(why, sizeof(why), "transport %s cannot send from memory %s%s%.80s",
             sender->end.lane->device->plugin->name, sender->memory->plugin->name,
             path.reason[0] ? ": " : "", path.reason);
    rc = sender_stage(sender, why, error);
    if (rc < 0)
      return rc;
    rc = try_register(sender, sender, &sender->mr, &path);
  }
  return rc < 0 ? fail_register(sender, sender, &path, rc, error) : 0;
}

static int open_slots(struct pst_session *session, struct pst_sender *sender,
                      struct pst_error *error)
{
  const struct config_stream *config = sender->end.config;
  struct pst_queue_params queue = {.struct_size = sizeof(queue), .batches = 64, .pieces = 65536};
  int rc = setup_memory(session, &config->sender.memory, &sender->memory, error);

  if (rc < 0)
    return rc;
  sender->slots = sender_slots(config);
  sender->slot_mask = sender->slots - 1;
  rc = open_region(sender, &sender->end.lane->device->limits, error);
  if (rc == 0)
    rc = register_slots(sender, error);
  if (rc < 0)
    return rc;
  if (sender->memory->plugin->memory->capabilities & PST_MEMORY_CAP_PATTERN) {
    rc = sender->memory->plugin->memory->queue_open(sender->memory->memory, &queue, &sender->queue);
    if (rc < 0)
      return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "stream %s: memory %s opens no queue: %s",
                      sender->end.name, sender->memory->plugin->name, strerror(-rc));
  }
  sender->requests = aligned_alloc(CACHE_LINE, sizeof(*sender->requests) * sender->slots);
  sender->bytes_to = calloc(sender->slots, sizeof(*sender->bytes_to));
  sender->legs = calloc(1, sizeof(*sender->legs));
  if (!sender->requests || !sender->bytes_to || !sender->legs)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", sender->end.name);
  for (uint32_t i = 0; i < sender->slots; i++)
    sender->requests[i] = (struct pst_request){.opcode = PST_OP_SEND,
                                               .flags = PST_REQUEST_EXCLUSIVE,
                                               .local.mr = sender->mr,
                                               .offset = sender->base + i * sender->stride};
  sender->legs[0] = (struct sender_leg){.owner = sender, .mr = sender->mr};
  sender->leg_count = 1;
  sender->lends = sender->end.lane->device->limits.capabilities & PST_CAP_LEND;
  pace_init(&sender->pace, config->sender.rate_bps, config->sender.burst, config->message);
  pace_chunks(&sender->pace, config->sender.chunk, config->sender.sleep_ns);
  return 0;
}

static int join_leader(struct pst_session *session, struct pst_sender *sender,
                       struct pst_error *error)
{
  struct pst_sender *leader = pst_session_sender(session, sender->end.config->sender.share);
  struct sender_leg *legs;
  int rc;

  if (!leader)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "stream %s: sender.share: stream %s is not among the streams of this run",
                    sender->end.name, sender->end.config->sender.share);
  legs = realloc(leader->legs, (leader->leg_count + 1) * sizeof(*legs));
  if (!legs)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", sender->end.name);
  leader->legs = legs;
  legs[leader->leg_count] = (struct sender_leg){.owner = sender, .mr = leader->mr};
  sender->leader = leader;
  sender->seed = leader->seed;
  if (sender->end.lane->device != leader->end.lane->device) {
    struct pst_path_info path;
    rc = try_register(leader, sender, &sender->mr, &path);
    if (rc == -EOPNOTSUPP && !leader->staging)
      return fail_leg(leader, sender, &path, error);
    if (rc < 0)
      return fail_register(leader, sender, &path, rc, error);
    legs[leader->leg_count].mr = sender->mr;
  }
  leader->leg_count++;
  sender->end.path = leader->end.path;
  for (uint32_t i = 0; i < leader->slots; i++)
    leader->requests[i].flags &= (uint8_t)~PST_REQUEST_EXCLUSIVE;
  sender->end.memory_kind = leader->end.memory_kind;
  memcpy(sender->end.memory_backing, leader->end.memory_backing,
         sizeof(sender->end.memory_backing));
  return 0;
}

/* Streams get patterns of their own, so that a message of another stream does not
 * pass for one of this. FNV-1a. */
uint64_t stream_seed(const struct config_stream *config)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ config->sender.source.seed;

  for (const char *c = config->name; *c; c++)
    hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  return hash;
}

int sender_open(struct pst_session *session, struct pst_sender *sender, struct pst_error *error)
{
  const struct config_stream *config = sender->end.config;
  const struct pst_limits *limits = &sender->end.lane->device->limits;
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_SENDER,
                                       .cookie = (uint64_t)(uintptr_t)&sender->end,
                                       .options = config->sender.transport.plugin.options,
                                       .label = config->name,
                                       .message_max = config->message,
                                       .pieces = 1,
                                       .timeout_ns = config->timeout_ns};
  int rc;

  if (config->message > limits->message_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EMSGSIZE,
                    "stream %s: message: %lu B is more than transport %s carries in one: %lu B",
                    config->name, config->message, sender->end.lane->device->plugin->name,
                    limits->message_max);
  sender->seed = stream_seed(config);
  rc = config->sender.share ? join_leader(session, sender, error)
                            : open_slots(session, sender, error);
  if (rc < 0)
    return rc;
  params.mr = sender->mr ? sender->mr : leader_of(sender)->mr;
  params.requests = leader_of(sender)->slots + 1;
  if (params.requests > limits->requests_max)
    params.requests = limits->requests_max;
  pst_log_clear_error();
  rc = sender->end.lane->ops->endpoint_open(sender->end.lane->worker, &params,
                                            &sender->end.endpoint);
  if (rc < 0 && pst_fail_said(error, refusal_status(rc), rc) == rc)
    return rc;
  if (rc < 0)
    return pst_fail(error, refusal_status(rc), rc, "stream %s: transport %s opens no endpoint: %s",
                    config->name, sender->end.lane->device->plugin->name, strerror(-rc));
  return 0;
}

void sender_close(struct pst_sender *sender)
{
  if (!sender)
    return;
  struct session_lane *lane = sender->end.lane;
  if (sender->queue)
    sender->memory->plugin->memory->queue_close(sender->queue);
  if (sender->mr)
    lane->ops->mr_deregister(lane->device->device, sender->mr);
  sender_unstage(sender);
  if (sender->has_region)
    sender->memory->plugin->memory->free_region(sender->memory->memory, &sender->region);
  free(sender->requests);
  free(sender->bytes_to);
  free(sender->legs);
  pthread_mutex_destroy(&sender->end.text_lock);
  free(sender);
}

/* ---- Posting and reaping ------------------------------------------------------------ */

static struct sender_leg *leg_of(struct pst_sender *sender)
{
  struct pst_sender *leader = leader_of(sender);

  for (uint32_t i = 0; i < leader->leg_count; i++)
    if (leader->legs[i].owner == sender)
      return &leader->legs[i];
  return NULL;
}

static void leg_fail(struct sender_leg *leg, int status)
{
  leg->dead = true;
  end_gone(&leg->owner->end, status);
}

/* A DONE that comes twice would give slots back that are still sent from. */
static void leg_miscounted(struct sender_leg *leg, const struct pst_completion *completion)
{
  struct session_end *end = &leg->owner->end;
  char text[256];

  leg->dead = true;
  snprintf(text, sizeof(text),
           "stream %s: transport %s ends %lu messages up to message %lu, but of %lu that were "
           "posted the next to end is %lu: a bug of the transport",
           end->name, end->lane->device->plugin->name, completion->u.done.count,
           completion->u.done.cookie, leg->posted, leg->done);
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(end, -EIO, text);
}

void sender_done(struct pst_sender *sender, const struct pst_completion *completion)
{
  if (completion->code == PST_OP_FLUSH) {
    if (completion->status == 0)
      sender->flushed = true;
    else
      end_gone(&sender->end, completion->status);
    return;
  }
  struct sender_leg *leg = leg_of(sender);
  /* The cookie is the sequence, and SENDs are covered in post order: each by one DONE. */
  if (__builtin_expect(completion->u.done.cookie + 1 - leg->done != completion->u.done.count ||
                           completion->u.done.cookie >= leg->posted,
                       0) &&
      !leg->dead) {
    leg_miscounted(leg, completion);
    return;
  }
  if (completion->status != -EBUSY) /* else the receiver still reads them */
    leg->done += completion->u.done.count;
  if (completion->status < 0)
    leg_fail(leg, completion->status);
}

static int post_run(struct pst_sender *leader, struct sender_leg *leg, uint32_t run)
{
  struct session_end *end = &leg->owner->end;
  const struct pst_request *requests = &leader->requests[leg->posted & leader->slot_mask];
  struct pst_request copies[64];

  leg->wait = PST_WAIT_NONE;
  if (leg->mr == leader->mr)
    return end->lane->ops->post(end->endpoint, requests, run, &leg->wait);
  if (run > 64)
    run = 64;
  memcpy(copies, requests, run * sizeof(*copies));
  for (uint32_t i = 0; i < run; i++)
    copies[i].local.mr = leg->mr;
  return end->lane->ops->post(end->endpoint, copies, run, &leg->wait);
}

static void count_posted(const struct pst_sender *leader, struct sender_leg *leg, uint32_t n)
{
  if (n == 0)
    return;
  leg->posted += n;
  stat_set(leg->owner->bytes, leader->bytes_to[(leg->posted - 1) & leader->slot_mask]);
  stat_set(leg->owner->messages, leg->posted);
}

/* The transport does not take the next message, or has lost its peer. */
static void refused(const struct pst_sender *leader, struct sender_leg *leg, int rc)
{
  struct session_end *end = &leg->owner->end;
  char text[256];

  leg->dead = true;
  if (rc != -EINVAL && rc != -EMSGSIZE && rc != -EOPNOTSUPP) {
    end_gone(end, rc);
    return;
  }
  snprintf(text, sizeof(text),
           "stream %s: transport %s refuses a message of %lu B: %s; see its log", end->name,
           end->lane->device->plugin->name,
           leader->requests[leg->posted & leader->slot_mask].arg.length, strerror(-rc));
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(end, rc, text);
}

/* Returns how many were posted. */
static uint32_t push_leg(struct pst_sender *leader, struct sender_leg *leg)
{
  uint32_t pushed = 0;

  while (leg->posted < leader->staged && !leg->dead) {
    uint64_t run = leader->slots - (leg->posted & leader->slot_mask);
    if (run > leader->staged - leg->posted)
      run = leader->staged - leg->posted;
    int rc = post_run(leader, leg, (uint32_t)run);
    if (rc < 0) {
      if (rc != -EAGAIN)
        refused(leader, leg, rc);
      break;
    }
    count_posted(leader, leg, (uint32_t)rc);
    pushed += (uint32_t)rc;
    if ((uint64_t)rc < run && leg->wait)
      break;
  }
  return pushed;
}

static void finish_leg(struct pst_sender *leader, struct sender_leg *leg)
{
  struct pst_sender *owner = leg->owner;
  struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = SENDER_FLUSH_COOKIE};
  struct control_totals totals;
  uint32_t wait;

  if (leg->dead || leg->posted < leader->submitted || owner->end.state != PST_STATE_CONNECTED)
    return;
  if (!owner->flush_posted) {
    int rc = owner->end.lane->ops->post(owner->end.endpoint, &flush, 1, &wait);
    if (rc == 1)
      owner->flush_posted = true;
    else if (rc != -EAGAIN && rc < 0)
      leg_fail(leg, rc);
  }
  if (owner->flushed) {
    end_stage(&owner->end, -1);
    end_state(&owner->end, PST_STATE_ENDING);
    count_read(&owner->end);
    if (owner->end.is_foreign) {
      end_state(&owner->end, PST_STATE_ENDED);
      return;
    }
    sender_totals(owner, &totals);
    control_finish(owner->end.session->control, &owner->end, &totals);
  }
}

/* A leg that has failed must not hold the others up: its receiver, which may live
 * on, is left, so that what was posted comes back. */
static void check_leg(const struct pst_sender *leader, struct sender_leg *leg)
{
  struct session_end *end = &leg->owner->end;

  if (end_check(end) == 0)
    return;
  leg->dead = true;
  if (leader->leg_count > 1 && leg->done < leg->posted && !end->endpoint_closing)
    end_close_endpoint(end, PST_CLOSE_ABORT, clock_now_ns() + PST_NS_PER_S);
}

static void fail_legs(struct pst_sender *leader, int code, const char *text)
{
  for (uint32_t i = 0; i < leader->leg_count; i++)
    end_fail(&leader->legs[i].owner->end, code, text);
}

static void copy_slots(struct pst_sender *leader)
{
  char text[160];
  int rc = sender_copy(leader);

  if (rc == 0 || leader->end.state == PST_STATE_FAILED)
    return;
  snprintf(text, sizeof(text), "stream %s: copying messages out of memory %s failed: %s",
           leader->end.name, leader->memory->plugin->name, strerror(-rc));
  fail_legs(leader, rc, text);
}

static uint32_t push(struct pst_sender *leader)
{
  uint32_t pushed = 0;
  uint64_t freed = UINT64_MAX;

  if (leader->staging)
    copy_slots(leader);
  else
    leader->staged = leader->submitted;
  for (uint32_t i = 0; i < leader->leg_count; i++) {
    struct sender_leg *leg = &leader->legs[i];
    check_leg(leader, leg);
    pushed += push_leg(leader, leg);
    /* Nobody can submit any more once the leader has failed: the others end with what
     * there was. */
    if (leader->finishing || leader->end.state == PST_STATE_FAILED)
      finish_leg(leader, leg);
    if (leg->dead && leg->done == leg->posted)
      continue;
    if (leg->done < freed)
      freed = leg->done;
  }
  leader->freed = freed == UINT64_MAX ? leader->submitted : freed;
  return pushed;
}

int sender_progress(struct pst_sender *sender)
{
  struct pst_sender *leader = leader_of(sender);
  struct session_lane *polled = NULL;

  /* The legs of a fan-out may have transports of their own. */
  for (uint32_t i = 0; i < leader->leg_count; i++) {
    struct session_lane *lane = leader->legs[i].owner->end.lane;
    if (lane != polled)
      lane_poll(lane, NULL, SESSION_POLL_BATCH);
    polled = lane;
  }
  return (int)push(leader);
}

/* A fan-out's others stop as the one does whose slots they send. */
uint32_t sender_stopped(const struct pst_sender *sender)
{
  const struct pst_sender *owner = sender->leader ? sender->leader : sender;

  return stat_get(owner->stopped);
}

void sender_totals(const struct pst_sender *sender, struct control_totals *totals)
{
  const struct session_end *end = &sender->end;
  uint64_t now = end->ended_ns ? end->ended_ns : clock_now_ns();

  *totals = (struct control_totals){.messages = sender->messages,
                                    .bytes = sender->bytes,
                                    .last_sequence = sender->messages - 1,
                                    .stopped = sender_stopped(sender),
                                    .running_ns = end->started_ns ? now - end->started_ns : 0};
  memcpy(totals->blocked_ns, sender->leader ? sender->leader->end.blocked_ns : end->blocked_ns,
         sizeof(totals->blocked_ns));
  count_own_drops(end, totals->drops, &totals->drop_count);
}

/* ---- What applications call ------------------------------------------------------------ */

/* Why nothing can be acquired now. */
static int blocked_stage(const struct pst_sender *sender)
{
  for (uint32_t i = 0; i < sender->leg_count; i++) {
    const struct sender_leg *leg = &sender->legs[i];
    if (!leg->dead && leg->done == sender->freed && leg->posted == sender->staged &&
        sender_is_staging(sender))
      return PST_STAGE_STAGING;
    if (!leg->dead && leg->done == sender->freed && leg->posted < sender->submitted)
      return leg->wait == PST_WAIT_CREDIT ? PST_STAGE_CREDIT : PST_STAGE_TRANSPORT;
  }
  return sender->lends ? PST_STAGE_CREDIT : PST_STAGE_TRANSPORT;
}

static bool all_connected(const struct pst_sender *sender)
{
  for (uint32_t i = 0; i < sender->leg_count; i++)
    if (!sender->legs[i].dead && sender->legs[i].owner->end.state == PST_STATE_WAITING)
      return false;
  return true;
}

/* The first of these slots, and how many of them lie in a row from there. */
static uint32_t row_of(const struct pst_sender *sender, uint64_t sequence, uint64_t n,
                       uint64_t *first)
{
  *first = sequence & sender->slot_mask;
  return (uint32_t)(n < sender->slots - *first ? n : sender->slots - *first);
}

static void fill_slots(struct pst_sender *sender, struct pst_slot *slots, uint32_t n)
{
  char *host = sender->region.host;
  uint64_t sequence = sender->acquired, stride = sender->stride, first;
  uint32_t capacity = (uint32_t)sender->end.config->message;

  sender->acquired += n;
  while (n) {
    uint32_t row = row_of(sender, sequence, n, &first);
    uint64_t offset = sender->base + first * stride;
    for (const struct pst_slot *end = slots + row; slots < end; slots++, offset += stride) {
      slots->address = sender->region.address + offset;
      slots->host = host ? host + offset : NULL;
      slots->capacity = capacity;
      slots->length = 0;
      slots->meta = 0;
      slots->sequence = sequence++;
    }
    n -= row;
  }
}

int pst_sender_acquire(struct pst_sender *sender, struct pst_slot *slots, uint32_t n)
{
  uint64_t free_slots;
  uint32_t wanted;
  int rc;

  if (sender->leader)
    return -EINVAL;
  sender->paced = false;
  thread_progress(sender->end.thread);
  rc = end_check(&sender->end);
  if (rc < 0)
    return rc;
  if (sender->finishing)
    return -EPIPE;
  free_slots = sender->slots - (sender->acquired - sender->freed);
  /* What is lost frees its slots, and says why only when it is polled. */
  if (free_slots < n || free_slots < sender->slots / 2 || sender_is_staging(sender) ||
      sender->end.gone_deadline_ns || !all_connected(sender)) {
    sender_progress(sender);
    free_slots = sender->slots - (sender->acquired - sender->freed);
  }
  if (!all_connected(sender))
    return 0;
  if (free_slots == 0) {
    end_stage(&sender->end, blocked_stage(sender));
    return 0;
  }
  if (n > free_slots)
    n = (uint32_t)free_slots;
  wanted = n;
  if (sender->pace.is_on)
    n = pace_allow(&sender->pace, clock_now_ns(), sender->end.config->message, n);
  sender->paced = n == 0 && wanted > 0;
  if (sender->is_held && sender->pace.lost_ns > 0)
    end_stage_shorten(&sender->end, PST_STAGE_RATE, (uint64_t)sender->pace.lost_ns);
  sender->pace.lost_ns = 0;
  /* Held back at all, it goes at the rate, whatever else the thread does meanwhile. */
  sender->is_held = n < wanted;
  end_stage(&sender->end, sender->is_held ? PST_STAGE_RATE : PST_STAGE_SOURCE);
  if (n == 0) {
    sender_progress(sender); /* what is left unpolled keeps the thread from sleeping */
    return 0;
  }
  sender->end.thread->idle_since_ns = 0;
  fill_slots(sender, slots, n);
  return (int)n;
}

int pst_sender_submit(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n)
{
  uint64_t message = sender->end.config->message, sequence = sender->submitted;
  uint64_t bytes = sender->bytes_submitted;

  if (sender->leader || n > sender->acquired - sequence)
    return -EINVAL;
  if (sender->end.state == PST_STATE_FAILED)
    return sender->end.error;
  for (uint32_t i = 0; i < n; i++, sequence++) {
    struct pst_request *request = &sender->requests[sequence & sender->slot_mask];
    uint64_t length = slots[i].length;
    if (slots[i].sequence != sequence || length > message)
      return -EINVAL;
    bytes += length;
    request->arg.length = length;
    request->cookie = sequence;
    request->u.send.sequence = sequence;
    request->u.send.meta = slots[i].meta;
    sender->bytes_to[sequence & sender->slot_mask] = bytes;
  }
  sender->submitted = sequence;
  if (sender->pace.is_on)
    pace_spend(&sender->pace, bytes - sender->bytes_submitted);
  if (sender->pace.chunk && sender->submitted == sender->acquired)
    pace_sent(&sender->pace, clock_now_ns());
  sender->bytes_submitted = bytes;
  if (!sender->is_held)
    end_stage(&sender->end, -1);
  push(sender);
  return end_check(&sender->end);
}

int pst_sender_fill(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n)
{
  const struct pst_memory_ops *memory;
  struct pst_payload payloads[SESSION_POLL_BATCH];
  uint64_t ticket;
  int rc;

  if (!sender->queue)
    return -EOPNOTSUPP;
  memory = sender->memory->plugin->memory;
  while (n) {
    uint32_t run = n < SESSION_POLL_BATCH ? n : SESSION_POLL_BATCH;
    for (uint32_t i = 0; i < run; i++)
      payloads[i] = (struct pst_payload){
          .address = slots[i].address, .length = slots[i].length, .sequence = slots[i].sequence};
    uint64_t done = 0;
    while ((rc = memory->fill_batch(sender->queue, sender->seed, payloads, run, &ticket)) ==
           -EAGAIN)
      memory->queue_poll(sender->queue, &done);
    /* The transport reads the slots as soon as they are submitted. */
    while (rc == 0 && done < ticket)
      rc = memory->queue_poll(sender->queue, &done);
    if (rc < 0)
      return rc;
    slots += run;
    n -= run;
  }
  return 0;
}

int pst_sender_abort(struct pst_sender *sender, int code, const char *text)
{
  fail_legs(sender, code, text); /* the source of a fan-out is everybody's */
  if (sender->leader)
    end_fail(&sender->end, code, text);
  return 0;
}

int pst_sender_poll(struct pst_sender *sender)
{
  struct pst_sender *leader = leader_of(sender);
  int rc, moved;

  thread_progress(sender->end.thread);
  moved = sender_progress(sender);
  rc = end_check(&sender->end);
  if (rc < 0)
    return rc;
  if (leader->finishing && !sender->flush_posted && sender->end.state == PST_STATE_CONNECTED)
    end_stage(&sender->end, blocked_stage(leader));
  return moved;
}

int pst_sender_finish(struct pst_sender *sender)
{
  return pst_sender_stop(sender, PST_STOP_SOURCE_END);
}

int pst_sender_stop(struct pst_sender *sender, uint32_t why)
{
  if ((why & ~PST_STOP_SHORT) >= PST_STOPS)
    return -EINVAL;
  if (sender->leader)
    return 0;
  if (sender->acquired != sender->submitted)
    return -EINVAL;
  sender->finishing = true;
  if (stat_get(sender->stopped) == PST_STOP_UNKNOWN)
    stat_set(sender->stopped, why);
  sender->paced = false;
  end_stage(&sender->end, -1);
  push(sender);
  return end_check(&sender->end);
}

enum pst_state pst_sender_state(const struct pst_sender *sender)
{
  return (enum pst_state)__atomic_load_n(&sender->end.state, __ATOMIC_ACQUIRE);
}

uint32_t pst_sender_worker(const struct pst_sender *sender)
{
  return sender->end.thread->index;
}

int pst_sender_param_set(struct pst_sender *sender, const char *key, const char *value)
{
  struct control_pair *pair = NULL;

  if (sender->end.session->is_started)
    return -EALREADY;
  if (sender->leader)
    return -EINVAL;
  if (strlen(key) > CONTROL_KEY_MAX || strlen(value) > CONTROL_VALUE_MAX)
    return -EINVAL;
  for (uint32_t i = 0; i < sender->param_count && !pair; i++)
    if (strcmp(sender->params[i].key, key) == 0)
      pair = &sender->params[i];
  if (!pair) {
    if (sender->param_count == SENDER_PARAMS_MAX)
      return -ENOSPC;
    pair = &sender->params[sender->param_count++];
  }
  snprintf(pair->key, sizeof(pair->key), "%s", key);
  snprintf(pair->value, sizeof(pair->value), "%s", value);
  return 0;
}
