/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <errno.h>
#include <json-c/json.h>
#include <sched.h>
#include <string.h>

#include "clock.h"
#include "signals.h"

#define BATCH 64
#define LOOK_NS (10 * NS_PER_MS)
#define LOOK_BATCHES 8   /* sent between looks at the clock, at most, */
#define LOOK_ROUNDS 1024 /* or so many rounds that found no room */
/* How often the receiver reads its clock: not for each message where they are small. */
#define STAMP_MESSAGES 256
#define STAMP_BYTES (64 * 1024)
/* A transport that takes a message only by and by has to be asked. */
#define POLL_SENDER_EVERY 8
/* Of its duration: how long a sender goes on for a receiver that is not run. */
#define PATIENCE 10

/* A server speaks before the end only when it has measured enough, or failed. */
static int hear(struct measure_watch *watch)
{
  struct json_object *said = NULL;
  int result = link_receive(watch->link, NS_PER_S, false, &said);

  if (result < 0)
    return result;
  if (!json_object_object_get_ex(said, "enough", NULL)) {
    link_return(watch->link, said); /* it tells why it has failed */
    return -ECONNRESET;
  }
  json_object_put(said);
  watch->enough = true;
  return 0;
}

static int say_enough(struct measure_watch *watch)
{
  watch->enough = true;
  if (watch->enough_here != NULL)
    __atomic_store_n(watch->enough_here, 1, __ATOMIC_RELEASE);
  if (watch->link == NULL)
    return 0;
  struct json_object *said = json_object_new_object();
  json_object_object_add(said, "enough", json_object_new_boolean(true));
  return link_send(watch->link, said);
}

int measure_look(struct measure_watch *watch, uint64_t now)
{
  if (now < watch->next_ns)
    return 0;
  watch->next_ns = now + LOOK_NS;
  if (watch->gone != NULL && __atomic_load_n(watch->gone, __ATOMIC_ACQUIRE) != 0)
    return -ECONNRESET;
  if (watch->link != NULL) {
    int seen = link_look(watch->link);
    int result = seen > 0 && !watch->serves ? hear(watch) : seen;
    if (result < 0)
      return result;
  }
  if (!watch->serves && watch->enough_here != NULL)
    watch->enough = __atomic_load_n(watch->enough_here, __ATOMIC_ACQUIRE) != 0;
  if (!watch->serves && signals_stop())
    watch->stopped = true;
  return 0;
}

/* ---- Beginning and end ----------------------------------------------------------- */

/* Until all that are given (NULL: none) have a peer. Both are driven: each of them may
 * need the other end's, which does the same. Returns how many messages are in *batch. */
static int await(struct pst_sender *sender, struct pst_receiver *receiver, struct pst_batch *batch,
                 struct measure_watch *watch)
{
  uint64_t until_ns = now_ns() + MEASURE_CONNECT_NS;
  int got = 0, result = 0;

  for (;;) {
    bool waits = (sender != NULL && pst_sender_state(sender) == PST_STATE_WAITING) ||
                 (receiver != NULL && pst_receiver_state(receiver) == PST_STATE_WAITING);
    uint64_t now = now_ns();
    if (!waits)
      return got;
    if (sender != NULL)
      result = pst_sender_poll(sender);
    if (result >= 0 && got == 0 && receiver != NULL)
      result = got = pst_receiver_poll(receiver, batch);
    if (result >= 0)
      result = measure_look(watch, now);
    if (result < 0)
      return result;
    if (now >= until_ns)
      return -ETIMEDOUT;
    sched_yield();
  }
}

static bool is_over(enum pst_state state)
{
  return state == PST_STATE_ENDED || state == PST_STATE_FAILED;
}

/* Both ends agree on the counts, or one has failed. */
static int end_sender(struct pst_sender *sender, const struct measure_watch *watch)
{
  uint64_t until_ns = now_ns() + MEASURE_END_NS;
  int result = pst_sender_finish(sender);

  while (result >= 0 && !is_over(pst_sender_state(sender))) {
    result = pst_sender_poll(sender);
    if (result != 0)
      continue;
    if (now_ns() >= until_ns)
      return -ETIMEDOUT;
    if (watch->link != NULL && link_look(watch->link) < 0)
      return -ECONNRESET;
    sched_yield();
  }
  return pst_sender_state(sender) == PST_STATE_ENDED ? 0 : -ECONNRESET;
}

static int end_receiver(struct pst_receiver *receiver, const struct measure_watch *watch)
{
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof batch, .capacity = BATCH, .views = views};
  uint64_t until_ns = now_ns() + MEASURE_END_NS;
  bool finished = false;

  while (!is_over(pst_receiver_state(receiver))) {
    int got = pst_receiver_poll(receiver, &batch);
    if (got > 0)
      pst_receiver_release(receiver, views, (uint32_t)got);
    /* -EBUSY: messages, or checks of them, are still out. */
    if (got == -ENODATA && !finished)
      finished = pst_receiver_finish(receiver) == 0;
    else if (got < 0 && got != -ENODATA)
      return got;
    if (got > 0)
      continue;
    if (now_ns() >= until_ns)
      return -ETIMEDOUT;
    if (watch->link != NULL && link_look(watch->link) < 0)
      return -ECONNRESET;
    sched_yield();
  }
  return pst_receiver_state(receiver) == PST_STATE_ENDED ? 0 : -ECONNRESET;
}

/* ---- Bandwidth ------------------------------------------------------------------- */

static int submit(struct pst_sender *sender, struct pst_slot *slots, uint32_t n,
                  const struct bench_case *c)
{
  for (uint32_t i = 0; i < n; i++)
    slots[i].length = (uint32_t)c->size;
  if (c->verify) {
    int result = pst_sender_fill(sender, slots, n);
    if (result < 0)
      return result;
  }
  return pst_sender_submit(sender, slots, n);
}

int measure_source(struct pst_sender *sender, const struct bench_case *c,
                   struct measure_watch *watch)
{
  struct pst_slot slots[BATCH];
  int result = await(sender, NULL, NULL, watch);
  uint64_t until_ns = now_ns() + PATIENCE * (c->warmup_ns + c->duration_ns) + MEASURE_END_NS;

  while (result >= 0) {
    uint64_t now = now_ns();
    result = measure_look(watch, now);
    if (result < 0 || watch->enough || watch->stopped || now >= until_ns)
      break;
    /* The clock is read once for some batches: it costs as much as a small message, and as many
     * polls that find nothing where it is a device. */
    for (uint32_t i = 0, step; i < LOOK_ROUNDS && result >= 0; i += step) {
      result = pst_sender_acquire(sender, slots, BATCH);
      step = result > 0 ? LOOK_ROUNDS / LOOK_BATCHES : 1;
      if (result == 0)
        result = pst_sender_poll(sender);
      else if (result > 0)
        result = submit(sender, slots, (uint32_t)result, c);
    }
  }
  if (result >= 0)
    result = end_sender(sender, watch);
  return result;
}

/* The receiver's clock. */
struct stamps {
  uint64_t first_ns; /* of the first message at all */
  uint64_t begin_ns, begin_messages, begin_bytes;
  uint64_t end_ns, end_messages, end_bytes;
  uint64_t seen_messages, seen_bytes; /* when the clock was last read */
  uint64_t messages, bytes;           /* so far */
  bool running;                       /* the warm-up is over */
  bool enough;                        /* and so is the duration, with messages in it */
};

static void stamp(struct stamps *stamps, const struct bench_case *c)
{
  uint64_t now = now_ns();

  stamps->seen_messages = stamps->messages;
  stamps->seen_bytes = stamps->bytes;
  if (stamps->first_ns == 0)
    stamps->first_ns = now;
  if (!stamps->running && now - stamps->first_ns >= c->warmup_ns) {
    stamps->running = true;
    stamps->begin_ns = now;
    stamps->begin_messages = stamps->messages;
    stamps->begin_bytes = stamps->bytes;
  }
  /* What is emptied out of the ring when the sender has stopped is no rate of both. */
  stamps->enough |= stamps->running && now - stamps->begin_ns > c->duration_ns &&
                    stamps->end_messages > stamps->begin_messages;
  if (stamps->enough)
    return;
  stamps->end_ns = now;
  stamps->end_messages = stamps->messages;
  stamps->end_bytes = stamps->bytes;
}

static bool stamp_is_due(const struct stamps *stamps)
{
  return stamps->messages - stamps->seen_messages >= STAMP_MESSAGES ||
         stamps->bytes - stamps->seen_bytes >= STAMP_BYTES || stamps->first_ns == 0;
}

static void stamps_total(const struct stamps *stamps, struct measure_taken *taken)
{
  taken->delivered = stamps->messages;
  if (!stamps->running)
    return;
  taken->messages = stamps->end_messages - stamps->begin_messages;
  taken->bytes = stamps->end_bytes - stamps->begin_bytes;
  taken->ns = stamps->end_ns - stamps->begin_ns;
}

/* A cache line of each. Where they are far, the loads overlap. */
static void touch(const struct pst_view *views, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (views[i].length > 0)
      (void)*(const volatile unsigned char *)views[i].host;
}

static int take(struct pst_receiver *receiver, const struct bench_case *c, struct pst_batch *batch,
                uint32_t n, struct measure_taken *taken)
{
  struct pst_fence *fence = NULL;

  if (c->verify) {
    int result;
    while ((result = pst_receiver_verify(receiver, batch->views, n, &fence)) == -EAGAIN)
      ; /* it is the checks that are measured */
    if (result < 0) {
      pst_receiver_release_after(receiver, batch->views, n, fence);
      return result;
    }
  } else if (c->touch && batch->views[0].host != NULL) {
    if (batch->ready != NULL) {
      int result = pst_receiver_fence_wait(receiver, batch->ready, NULL);
      if (result < 0)
        return result;
    }
    touch(batch->views, n);
    taken->touched = true;
  }
  return fence != NULL ? pst_receiver_release_after(receiver, batch->views, n, fence)
                       : pst_receiver_release(receiver, batch->views, n);
}

static void note_verified(struct pst_receiver *receiver, const struct bench_case *c,
                          struct measure_taken *taken)
{
  struct pst_verify_result found = {.struct_size = sizeof found};

  if (c->verify && pst_receiver_verified(receiver, &found) == 0) {
    taken->verified = found.checked;
    taken->corrupted = found.corrupted;
  }
}

int measure_sink(struct pst_receiver *receiver, const struct bench_case *c,
                 struct measure_watch *watch, struct measure_taken *taken)
{
  struct pst_view views[2 * BATCH];
  struct pst_batch batch = {.struct_size = sizeof batch, .capacity = 2 * BATCH, .views = views};
  struct stamps stamps = {0};
  uint32_t idle = 0;
  int got = await(NULL, receiver, &batch, watch);

  while (got >= 0) {
    for (int i = 0; i < got; i++)
      stamps.bytes += views[i].length;
    stamps.messages += (uint64_t)got;
    if (got > 0) {
      idle = 0;
      int result = take(receiver, c, &batch, (uint32_t)got, taken);
      if (result < 0) {
        got = result;
        break;
      }
    }
    if (stamp_is_due(&stamps) ? got > 0 : got == 0 && stamps.messages > stamps.seen_messages)
      stamp(&stamps, c);
    if (stamps.enough && !watch->enough && (got = say_enough(watch)) < 0)
      break;
    if (got == 0 && ++idle % 4096 == 0 && (got = measure_look(watch, now_ns())) < 0)
      break;
    got = pst_receiver_poll(receiver, &batch);
  }
  stamps_total(&stamps, taken);
  if (got == -ENODATA)
    got = end_receiver(receiver, watch);
  note_verified(receiver, c, taken);
  return got;
}

/* ---- Latency --------------------------------------------------------------------- */

static int send_one(struct pst_sender *sender, const struct bench_case *c,
                    struct measure_watch *watch)
{
  struct pst_slot slot;
  int got = pst_sender_acquire(sender, &slot, 1);

  for (uint32_t idle = 0; got == 0; got = pst_sender_acquire(sender, &slot, 1)) {
    got = pst_sender_poll(sender);
    if (got >= 0 && ++idle % 4096 == 0)
      got = measure_look(watch, now_ns());
    if (got < 0)
      return got;
  }
  return got < 0 ? got : submit(sender, &slot, 1, c);
}

/* 1: it came, perhaps before (`got`), and went back to the ring; -ENODATA: none will
 * come. */
static int await_one(struct pst_receiver *receiver, struct pst_sender *sender,
                     const struct bench_case *c, struct pst_batch *batch, int got,
                     struct measure_watch *watch, struct measure_taken *taken)
{
  for (uint32_t idle = 0; got == 0; idle++) {
    if (idle % POLL_SENDER_EVERY == POLL_SENDER_EVERY - 1 && (got = pst_sender_poll(sender)) < 0)
      return got;
    if (idle % 4096 == 4095 && (got = measure_look(watch, now_ns())) < 0)
      return got;
    got = pst_receiver_poll(receiver, batch);
  }
  if (got == 1) {
    int result = take(receiver, c, batch, 1, taken);
    if (result < 0)
      return result;
  }
  return got;
}

/* A reply that is lost would be waited for for ever; transports that lose are not
 * asked for one. */
int measure_ping(struct pst_sender *sender, struct pst_receiver *receiver,
                 const struct bench_case *c, struct measure_watch *watch, struct histogram *times,
                 struct measure_taken *taken)
{
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof batch, .capacity = 1, .views = &view};
  int result = await(sender, receiver, &batch, watch), early = result;

  uint64_t start_ns = now_ns(), begin_ns = start_ns, end_ns;
  while (result >= 0) {
    result = send_one(sender, c, watch);
    if (result >= 0)
      result = await_one(receiver, sender, c, &batch, early, watch, taken);
    early = 0;
    if (result < 0)
      break;
    end_ns = now_ns();
    taken->delivered++;
    if (begin_ns - start_ns >= c->warmup_ns) {
      histogram_add(times, end_ns - begin_ns);
      taken->messages++;
      taken->ns += end_ns - begin_ns;
    }
    /* One at least, however long the machine was busy with others. */
    if (end_ns - start_ns >= c->warmup_ns + c->duration_ns && taken->messages > 0)
      break;
    if (end_ns >= watch->next_ns) {
      result = measure_look(watch, end_ns);
      if (watch->stopped)
        break;
      end_ns = now_ns();
    }
    begin_ns = end_ns;
  }
  taken->bytes = taken->messages * c->size;
  if (result >= 0)
    result = end_sender(sender, watch);
  if (result >= 0)
    result = end_receiver(receiver, watch);
  note_verified(receiver, c, taken);
  return result;
}

int measure_pong(struct pst_receiver *receiver, struct pst_sender *sender,
                 const struct bench_case *c, struct measure_watch *watch,
                 struct measure_taken *taken)
{
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof batch, .capacity = 1, .views = &view};
  int result = await(sender, receiver, &batch, watch), early = result;

  while (result >= 0) {
    result = await_one(receiver, sender, c, &batch, early, watch, taken);
    early = 0;
    if (result < 0)
      break;
    taken->delivered++;
    result = send_one(sender, c, watch);
  }
  if (result == -ENODATA)
    result = end_receiver(receiver, watch);
  if (result >= 0)
    result = end_sender(sender, watch);
  note_verified(receiver, c, taken);
  return result;
}
