/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending. A message's sequence number also names its slot and its request:
 * both are rings of the same power of two. SENDs of an endpoint are done in post
 * order, so five counters tell everything:
 *     freed <= done of each leg <= posted of each leg <= staged <= submitted <= acquired
 * where staged is submitted, unless sender_staging.c copies.
 * With fan-out each receiver has a leg of its own; a slot is free when the last
 * leg is done with it.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/strided.h"
#include "sender.h"
#include "session.h"

#define SENDER_FLUSH_COOKIE UINT64_MAX

/* ---- Posting and reaping ------------------------------------------------------------ */

static void sender_leg_fail(struct sender_leg *leg, int status)
{
  leg->dead = true;
  end_gone(&leg->owner->end, status);
}

/* A DONE that comes twice would give slots back that are still sent from. */
static void sender_leg_miscounted(struct sender_leg *leg, const struct pst_completion *completion)
{
  struct session_end *end = &leg->owner->end;

  leg->dead = true;
  end_fail_logged(end, -EIO,
                  "transport %s reports %lu messages up to message %lu as sent, but of %lu posted "
                  "messages the next to complete is %lu: a bug of the transport",
                  end->device->plugin->name, completion->u.done.count, completion->u.done.cookie,
                  leg->posted, leg->done);
}

static void sender_done(struct session_end *end, const struct pst_completion *completion)
{
  struct pst_sender *sender = (struct pst_sender *)end;

  if (completion->code == PST_OP_FLUSH) {
    if (completion->status == 0)
      sender->flush = SENDER_FLUSH_DONE;
    else
      end_gone(&sender->end, completion->status);
    return;
  }
  struct sender_leg *leg = &sender_leader(sender)->legs[sender->leg];
  /* The cookie is the sequence, and SENDs are covered in post order: each by one DONE. */
  if (__builtin_expect(completion->u.done.cookie + 1 - leg->done != completion->u.done.count ||
                           completion->u.done.cookie >= leg->posted,
                       0) &&
      !leg->dead) {
    sender_leg_miscounted(leg, completion);
    return;
  }
  if (completion->status != -EBUSY) /* else the receiver still reads them */
    leg->done += completion->u.done.count;
  if (completion->status < 0)
    sender_leg_fail(leg, completion->status);
}

static int sender_leg_post_run(struct pst_sender *leader, struct sender_leg *leg, uint32_t run)
{
  struct session_end *end = &leg->owner->end;
  const struct pst_request *requests = &leader->requests[leg->posted & leader->slot_mask];
  struct pst_request copies[64];

  leg->wait = PST_WAIT_NONE;
  if (leg->mr == leader->mr)
    return engine_post(&end->endpoint, requests, run, &leg->wait);
  if (run > 64)
    run = 64;
  memcpy(copies, requests, run * sizeof(*copies));
  for (uint32_t i = 0; i < run; i++)
    copies[i].local.mr = leg->mr;
  return engine_post(&end->endpoint, copies, run, &leg->wait);
}

static void sender_leg_count_posted(const struct pst_sender *leader, struct sender_leg *leg,
                                    uint32_t n)
{
  const uint64_t end = leg->posted + n;
  uint64_t bytes = leader->bytes_submitted;

  if (n == 0)
    return;
  if (end != leader->submitted) /* mostly it is all that there was */
    for (bytes = leg->owner->bytes; leg->posted != end; leg->posted++)
      bytes += leader->requests[leg->posted & leader->slot_mask].arg.length;
  leg->posted = end;
  stat_set(leg->owner->bytes, bytes);
  stat_set(leg->owner->messages, end);
}

/* The transport does not take the next message, or has lost its peer. */
static void sender_leg_refused(const struct pst_sender *leader, struct sender_leg *leg, int rc)
{
  struct session_end *end = &leg->owner->end;

  leg->dead = true;
  if (rc == -EINVAL || rc == -EMSGSIZE || rc == -EOPNOTSUPP)
    end_fail_logged(end, rc, "transport %s refuses a message of %lu B: %s; see its log",
                    end->device->plugin->name,
                    leader->requests[leg->posted & leader->slot_mask].arg.length, strerror(-rc));
  else
    end_gone(end, rc);
}

/* Returns how many were posted. */
static uint32_t sender_leg_push(struct pst_sender *leader, struct sender_leg *leg)
{
  uint32_t pushed = 0;

  while (leg->posted < leader->staged && !leg->dead) {
    uint64_t run = leader->slots - (leg->posted & leader->slot_mask);
    if (run > leader->staged - leg->posted)
      run = leader->staged - leg->posted;
    int rc = sender_leg_post_run(leader, leg, (uint32_t)run);
    if (rc < 0) {
      if (rc != -EAGAIN)
        sender_leg_refused(leader, leg, rc);
      break;
    }
    sender_leg_count_posted(leader, leg, (uint32_t)rc);
    pushed += (uint32_t)rc;
    if ((uint64_t)rc < run && leg->wait)
      break;
  }
  return pushed;
}

static void sender_leg_finish(struct pst_sender *leader, struct sender_leg *leg)
{
  struct pst_sender *owner = leg->owner;
  struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = SENDER_FLUSH_COOKIE};
  uint32_t wait = PST_WAIT_NONE;

  if (leg->dead || leg->posted < leader->submitted || owner->end.state != PST_STATE_CONNECTED)
    return;
  if (owner->flush == SENDER_FLUSH_NONE) {
    int rc = engine_post(&owner->end.endpoint, &flush, 1, &wait);
    if (rc == 1)
      owner->flush = SENDER_FLUSH_POSTED;
    else if (rc != -EAGAIN && rc < 0)
      sender_leg_fail(leg, rc);
  }
  if (owner->flush == SENDER_FLUSH_DONE) {
    end_stage(&owner->end, -1);
    end_state(&owner->end, PST_STATE_ENDING);
    end_read_counters(&owner->end);
    owner->end.peer_ops->tell(&owner->end, control_finish);
  }
}

/* A leg that has failed must not hold the others up: its receiver, which may live
 * on, is left, so that what was posted comes back. */
static void sender_leg_check(const struct pst_sender *leader, struct sender_leg *leg)
{
  struct session_end *end = &leg->owner->end;

  if (end_check(end) == 0)
    return;
  leg->dead = true;
  if (leader->leg_count > 1 && leg->done < leg->posted)
    engine_endpoint_close(&end->endpoint, PST_CLOSE_ABORT, clock_now_ns() + PST_NS_PER_S);
}

static void sender_fail_legs(struct pst_sender *leader, int code, const char *text)
{
  for (uint32_t i = 0; i < leader->leg_count; i++)
    end_fail(&leader->legs[i].owner->end, code, text);
}

static void sender_copy_slots(struct pst_sender *leader)
{
  char text[160];
  int rc = sender_copy(leader);

  if (rc == 0 || leader->end.state == PST_STATE_FAILED)
    return;
  snprintf(text, sizeof(text), "stream %s: copying messages out of memory %s failed: %s",
           leader->end.name, leader->memory->plugin->name, strerror(-rc));
  sender_fail_legs(leader, rc, text);
}

/* Copies submitted slots where staging needs it, posts them on each leg, and frees the slots that
 * all legs are done with. Returns how many it posted. */
static uint32_t sender_push(struct pst_sender *leader)
{
  uint32_t pushed = 0;
  uint64_t freed = UINT64_MAX;

  if (leader->staging)
    sender_copy_slots(leader);
  else
    leader->staged = leader->submitted;
  for (uint32_t i = 0; i < leader->leg_count; i++) {
    struct sender_leg *leg = &leader->legs[i];
    sender_leg_check(leader, leg);
    pushed += sender_leg_push(leader, leg);
    /* Nobody can submit any more once the leader has failed: the others end with what
     * there was. */
    if (leader->finishing || leader->end.state == PST_STATE_FAILED)
      sender_leg_finish(leader, leg);
    if (leg->dead && leg->done == leg->posted)
      continue;
    assert(leg->done <= leg->posted && leg->posted <= leader->staged);
    if (leg->done < freed)
      freed = leg->done;
  }
  leader->freed = freed == UINT64_MAX ? leader->submitted : freed;
  assert(leader->freed <= leader->submitted && leader->staged <= leader->submitted &&
         leader->submitted <= leader->acquired &&
         leader->acquired - leader->freed <= leader->slots);
  return pushed;
}

static int sender_progress(struct pst_sender *sender)
{
  struct pst_sender *leader = sender_leader(sender);
  struct session_lane *polled = NULL;

  /* The legs of a fan-out may have transports of their own. */
  for (uint32_t i = 0; i < leader->leg_count; i++) {
    struct session_lane *lane = leader->legs[i].owner->end.lane;
    if (lane != polled)
      lane_progress(lane);
    polled = lane;
  }
  return (int)sender_push(leader);
}

static void sender_totals(const struct session_end *end, struct control_totals *totals)
{
  const struct pst_sender *sender = (const struct pst_sender *)end;
  uint64_t now = end->ended_ns ? end->ended_ns : clock_now_ns();

  *totals = (struct control_totals){.messages = sender->messages,
                                    .bytes = sender->bytes,
                                    .last_sequence = sender->messages - 1,
                                    .stopped = sender_stopped(sender),
                                    .running_ns = end->started_ns ? now - end->started_ns : 0};
  end_blocked(sender->leader ? &sender->leader->end : end, end->ended_ns, totals->blocked_ns);
  loss_of_sender(sender, totals->drops, &totals->drop_count);
}

/* ---- Calls of applications ------------------------------------------------------------- */

/* Why nothing can be acquired now. */
static int sender_blocked_stage(const struct pst_sender *sender)
{
  for (uint32_t i = 0; i < sender->leg_count; i++) {
    const struct sender_leg *leg = &sender->legs[i];
    if (!leg->dead && leg->done == sender->freed && leg->posted == sender->staged &&
        sender_is_staging(sender))
      return PST_STAGE_STAGING;
    if (!leg->dead && leg->done == sender->freed && leg->posted < sender->submitted)
      return leg->wait == PST_WAIT_CREDIT ? PST_STAGE_CREDIT : PST_STAGE_TRANSPORT;
  }
  /* DONE of what is lent waits for the receiver's release. */
  return sender->end.device->limits.capabilities & PST_CAP_LEND ? PST_STAGE_CREDIT
                                                                : PST_STAGE_TRANSPORT;
}

static bool sender_all_connected(const struct pst_sender *sender)
{
  for (uint32_t i = 0; i < sender->leg_count; i++)
    if (!sender->legs[i].dead && sender->legs[i].owner->end.state == PST_STATE_WAITING)
      return false;
  return true;
}

/* Two numbers, which are stored, and counted up, at once. */
typedef uint64_t sender_pair __attribute__((vector_size(16)));
_Static_assert(offsetof(struct pst_slot, host) == offsetof(struct pst_slot, address) + 8 &&
                   offsetof(struct pst_slot, capacity) == sizeof(sender_pair) &&
                   offsetof(struct pst_slot, meta) == sizeof(sender_pair) + 8,
               "address and host; capacity, length and meta");

static inline __attribute__((always_inline)) void
sender_fill_slot(struct pst_slot *slot, sender_pair at, sender_pair rest, uint64_t sequence)
{
  memcpy(&slot->address, &at, sizeof(at));
  memcpy(&slot->capacity, &rest, sizeof(rest));
  slot->sequence = sequence;
}

static inline __attribute__((always_inline)) sender_pair
sender_fill_four(struct pst_slot *slots, sender_pair at, sender_pair step, sender_pair rest,
                 uint64_t sequence)
{
  sender_fill_slot(&slots[0], at, rest, sequence);
  sender_fill_slot(&slots[1], at += step, rest, sequence + 1);
  sender_fill_slot(&slots[2], at += step, rest, sequence + 2);
  sender_fill_slot(&slots[3], at += step, rest, sequence + 3);
  return at + step;
}

/* Fills eight at a time while there are as many, which saves a quarter of the instructions. */
static void sender_fill_slots(struct pst_sender *sender, struct pst_slot *slots, uint32_t n)
{
  const struct pst_slot model = {.capacity = (uint32_t)sender->end.config->message};
  char *host = sender->region.mem.host;
  uint64_t sequence = sender->acquired, stride = sender->stride;
  const sender_pair step = {stride, host ? stride : 0};
  sender_pair rest;

  memcpy(&rest, &model.capacity, sizeof(rest));
  sender->acquired += n;
  while (n) {
    const uint64_t first = sequence & sender->slot_mask, left = sender->slots - first;
    const uint32_t row = (uint32_t)(n < left ? n : left);
    const uint64_t offset = sender->base + first * stride;
    sender_pair at = {sender->region.mem.address + offset, host ? (uintptr_t)host + offset : 0};
    const struct pst_slot *const end = slots + row, *const eights = slots + row / 8 * 8;
    for (; slots != eights; slots += 8, sequence += 8) {
      at = sender_fill_four(slots, at, step, rest, sequence);
      at = sender_fill_four(slots + 4, at, step, rest, sequence + 4);
    }
    for (; slots != end; slots++, sequence++, at += step)
      sender_fill_slot(slots, at, rest, sequence);
    n -= row;
  }
}

/* n of 0: there is nothing to send. */
static inline int sender_acquire(struct pst_sender *sender, struct pst_slot *slots, uint32_t n)
{
  uint64_t free_slots;
  uint32_t wanted;
  bool is_connected;
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
  is_connected = sender_all_connected(sender);
  free_slots = sender->slots - (sender->acquired - sender->freed);
  /* Poll first: lost messages free their slots, and report the cause only when polled. */
  if (free_slots < n || free_slots < sender->slots / 2 || sender_is_staging(sender) ||
      sender->end.trouble.kind != END_SOUND || !is_connected) {
    sender_progress(sender);
    is_connected = sender_all_connected(sender);
    free_slots = sender->slots - (sender->acquired - sender->freed);
  }
  if (!is_connected)
    return 0;
  if (free_slots == 0) {
    end_stage(&sender->end, sender_blocked_stage(sender));
    return 0;
  }
  if (n > free_slots)
    n = (uint32_t)free_slots;
  wanted = n;
  if (sender->rate.is_on)
    n = rate_limit_allow(&sender->rate, clock_now_ns(), sender->end.config->message, n);
  sender->paced = n == 0 && wanted > 0;
  if (sender->is_held && sender->rate.lost_ns > 0)
    end_stage_shorten(&sender->end, PST_STAGE_RATE, (uint64_t)sender->rate.lost_ns);
  sender->rate.lost_ns = 0;
  /* Held back at all, it goes at the rate, whatever else the thread does meanwhile. */
  sender->is_held = n < wanted;
  end_stage(&sender->end, sender->is_held ? PST_STAGE_RATE : PST_STAGE_SOURCE);
  if (n == 0) {
    sender_progress(sender); /* what is left unpolled keeps the thread from sleeping */
    return 0;
  }
  sender->end.thread->idle_since_ns = 0;
  sender_fill_slots(sender, slots, n);
  return (int)n;
}

int pst_sender_acquire(struct pst_sender *sender, struct pst_slot *slots, uint32_t n)
{
  return n == 0 ? -EINVAL : sender_acquire(sender, slots, n);
}

int pst_sender_idle(struct pst_sender *sender)
{
  return sender_acquire(sender, NULL, 0);
}

/* When each of the messages from `sequence` on is to leave: one after the other, from the line's
 * next free time on. */
static void sender_set_departures(struct pst_sender *sender, uint64_t sequence, uint64_t end)
{
  const double line_ns = (double)rate_limit_line_ns(&sender->rate);
  uint64_t bytes = 0;

  for (; sequence < end; sequence++) {
    struct pst_request *request = &sender->requests[sequence & sender->slot_mask];
    request->u.send.departure_ns = (uint64_t)(line_ns + (double)bytes * sender->rate.ns_per_byte);
    bytes += request->arg.length;
  }
}

/* One message's request. False: the slot is out of sequence, or its message is too long. */
static inline __attribute__((always_inline)) bool
sender_take_slot(struct pst_request *request, const struct pst_slot *slot, uint64_t sequence,
                 uint64_t message, uint64_t *bytes)
{
  const uint64_t length = slot->length;

  if (slot->sequence != sequence || length > message)
    return false;
  *bytes += length;
  request->arg.length = length;
  request->cookie = sequence;
  request->u.send.sequence = sequence;
  request->u.send.meta = slot->meta;
  return true;
}

static inline __attribute__((always_inline)) bool
sender_take_four(struct pst_request *requests, const struct pst_slot *slots, uint64_t sequence,
                 uint64_t message, uint64_t *bytes)
{
  return sender_take_slot(&requests[0], &slots[0], sequence, message, bytes) &&
         sender_take_slot(&requests[1], &slots[1], sequence + 1, message, bytes) &&
         sender_take_slot(&requests[2], &slots[2], sequence + 2, message, bytes) &&
         sender_take_slot(&requests[3], &slots[3], sequence + 3, message, bytes);
}

/* Fills the requests of n slots that follow one another, eight at a time while there are as many:
 * that saves a quarter of the instructions. Returns the sum of their bytes; UINT64_MAX: a slot is
 * out of sequence, or its message is too long. */
static __attribute__((noinline)) uint64_t sender_take_row(struct pst_request *request,
                                                          const struct pst_slot *slots, uint32_t n,
                                                          uint64_t sequence, uint64_t message)
{
  const struct pst_slot *const end = slots + n, *const eights = slots + n / 8 * 8;
  uint64_t bytes = 0;

  for (; slots != eights; slots += 8, request += 8, sequence += 8)
    if (!sender_take_four(request, slots, sequence, message, &bytes) ||
        !sender_take_four(request + 4, slots + 4, sequence + 4, message, &bytes))
      return UINT64_MAX;
  for (; slots != end; slots++, request++, sequence++)
    if (!sender_take_slot(request, slots, sequence, message, &bytes))
      return UINT64_MAX;
  return bytes;
}

int pst_sender_submit(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n)
{
  const uint64_t message = sender->end.config->message;
  uint64_t sequence = sender->submitted, bytes = sender->bytes_submitted;

  if (sender->leader || n > sender->acquired - sequence)
    return -EINVAL;
  if (sender->end.state == PST_STATE_FAILED)
    return sender->end.error;
  for (uint32_t row; n; n -= row, slots += row, sequence += row) {
    const uint64_t first = sequence & sender->slot_mask, left = sender->slots - first;
    row = n < left ? n : (uint32_t)left;
    const uint64_t some = sender_take_row(&sender->requests[first], slots, row, sequence, message);
    if (some == UINT64_MAX)
      return -EINVAL;
    bytes += some;
  }
  if (sender->departs)
    sender_set_departures(sender, sender->submitted, sequence);
  sender->submitted = sequence;
  if (sender->rate.is_on)
    rate_limit_spend(&sender->rate, bytes - sender->bytes_submitted);
  if (sender->rate.chunk && sender->submitted == sender->acquired)
    rate_limit_sent(&sender->rate, clock_now_ns());
  sender->bytes_submitted = bytes;
  if (!sender->is_held)
    end_stage(&sender->end, -1);
  sender_push(sender);
  return end_check(&sender->end);
}

/* The row that starts with the first of n slots. Returns how many slots it has. */
static uint32_t sender_payload_row(const struct pst_sender *sender, const struct pst_slot *slots,
                                   uint32_t n, struct pst_payload_row *row)
{
  const uint64_t stride = sender->stride, length = slots->length;
  uint64_t address = slots->address, sequence = slots->sequence;
  const struct pst_slot *slot = slots;

  do {
    slot++;
    address += stride;
    sequence++;
  } while (slot < slots + n && slot->length == length && slot->sequence == sequence &&
           slot->address == address);
  *row = (struct pst_payload_row){.address = slots->address,
                                  .length = length,
                                  .sequence = slots->sequence,
                                  .stride = stride,
                                  .count = (uint32_t)(slot - slots)};
  return row->count;
}

int pst_sender_fill(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n)
{
  const struct engine_memory *memory = sender->memory;
  struct pst_payload_row rows[SESSION_POLL_BATCH];
  uint64_t ticket = 0, done;
  int rc;

  if (!sender->queue)
    return -EOPNOTSUPP;
  while (n) {
    uint32_t run = n < SESSION_POLL_BATCH ? n : SESSION_POLL_BATCH;
    uint32_t count = 0;
    for (uint32_t i = 0; i < run; count++)
      i += sender_payload_row(sender, slots + i, run - i, &rows[count]);
    while ((rc = memory->ops->fill_rows(sender->queue, sender->seed, rows, count, &ticket)) ==
           -EAGAIN)
      memory->ops->queue_poll(sender->queue, &done);
    /* The transport reads the slots as soon as they are submitted. */
    if (rc == 0)
      rc = engine_memory_await(memory, sender->queue, ticket);
    if (rc < 0)
      return rc;
    slots += run;
    n -= run;
  }
  return 0;
}

int pst_sender_abort(struct pst_sender *sender, int code, const char *text)
{
  sender_fail_legs(sender, code, text); /* the source of a fan-out is everybody's */
  if (sender->leader)
    end_fail(&sender->end, code, text);
  return 0;
}

int pst_sender_poll(struct pst_sender *sender)
{
  struct pst_sender *leader = sender_leader(sender);
  int rc, moved;

  thread_progress(sender->end.thread);
  moved = sender_progress(sender);
  rc = end_check(&sender->end);
  if (rc < 0)
    return rc;
  if (leader->finishing && sender->flush == SENDER_FLUSH_NONE &&
      sender->end.state == PST_STATE_CONNECTED)
    end_stage(&sender->end, sender_blocked_stage(leader));
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
  sender_push(sender);
  return end_check(&sender->end);
}

enum pst_state pst_sender_state(const struct pst_sender *sender)
{
  return (enum pst_state)__atomic_load_n(&sender->end.state, __ATOMIC_ACQUIRE);
}

uint32_t pst_sender_thread(const struct pst_sender *sender)
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

/* ---- Operations of struct end_ops --------------------------------------------------- */

static uint32_t sender_params(const struct session_end *end, struct control_pair *params)
{
  const struct pst_sender *sender = (const struct pst_sender *)end;
  char text[32];
  uint32_t count = 0;

  if (sender->leader)
    sender = sender->leader;
  if (sender->has_pattern) {
    snprintf(text, sizeof(text), "%lu", sender->seed);
    control_pair_add(params, &count, CONTROL_PARAMS_MAX, "pattern.seed", text);
  }
  for (uint32_t i = 0; i < sender->param_count; i++)
    control_pair_add(params, &count, CONTROL_PARAMS_MAX, sender->params[i].key,
                     sender->params[i].value);
  return count;
}

/* Answers the receiver's counts, which have come, with this end's. */
static void sender_answer_counts(struct session_end *end)
{
  end_stage(end, -1);
  control_tell(end, control_counts);
}

static void sender_configure(struct session_end *end)
{
  end->transport = &end->config->sender.transport;
  end->share = end->config->sender.share;
}

static uint32_t sender_worst_path(const struct config_stream *config, const char **key)
{
  *key = "sender.path: direct";
  return config->sender.path == CONFIG_SENDER_PATH_DIRECT ? PST_PATH_MAPPED : PST_PATH_STAGED;
}

static void sender_connected(struct session_end *end)
{
  stat_set(end->started_ns, clock_now_ns());
}

static uint64_t sender_due_ns(const struct session_end *end, uint64_t now)
{
  const struct pst_sender *sender = (const struct pst_sender *)end;
  uint64_t due = sender->paced ? rate_limit_next_ns(&sender->rate) : 0;

  if (sender->paced && due <= now) /* it came due since the acquire */
    return now;
  if (sender_is_staging(sender) && (due == 0 || due > now + ENGINE_NAP_NS))
    due = now + ENGINE_NAP_NS;
  return due;
}

const struct end_ops sender_ops = {.role = "sender",
                                   .peer_role = "receiver",
                                   .endpoint_role = PST_ROLE_SENDER,
                                   .control_role = &stream_sender,
                                   .is_second = true,
                                   .size = sizeof(struct pst_sender),
                                   .configure = sender_configure,
                                   .worst_path = sender_worst_path,
                                   .plan = sender_plan,
                                   .open = sender_open,
                                   .close = sender_close,
                                   .done = sender_done,
                                   .connected = sender_connected,
                                   .counts = sender_answer_counts,
                                   .params = sender_params,
                                   .totals = sender_totals,
                                   .due_ns = sender_due_ns};
