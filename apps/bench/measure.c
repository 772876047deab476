/* SPDX-License-Identifier: Apache-2.0 */
/* One measurement of messages at one end: warm-up, time, counts. */
#include "measure.h"

#include <errno.h>
#include <json-c/json.h>
#include <sched.h>

#include "clock.h"
#include "hold.h"
#include "signals.h"

#define BATCH 64
#define LOOK_NS (10 * NS_PER_MS)
#define LOOK_BATCHES 8   /* sent between looks at the clock, at most, */
#define LOOK_ROUNDS 1024 /* the clock is also read after this many rounds that found no room */
/* How often the receiver reads its clock: not for each message where they are small. */
#define STAMP_MESSAGES 256
#define STAMP_BYTES (64 * 1024)
/* A transport that takes a message only by and by has to be asked. */
#define POLL_SENDER_EVERY 8
/* The share of its duration for which a sender goes on for a receiver that is not run. */
#define PATIENCE 10

/* Before the end a server speaks only when it has measured enough, or failed, and a client only
 * when it could not open its end. */
static int bench_measure_hear(struct measure *m)
{
  const char *expected = m->serves ? "given_up" : "enough";
  struct json_object *said = NULL;

  if (!json_object_object_get_ex(bench_link_first(m->link), expected, NULL))
    return -ECONNRESET; /* the server sends its reason, which is read later */
  int rc = bench_link_receive(m->link, 0, false, &said);
  json_object_put(said);
  m->enough = true;
  return rc < 0 ? rc : m->serves ? -ECANCELED : 0;
}

static int bench_measure_say_enough(struct measure *m)
{
  __atomic_store_n(&m->enough, true, __ATOMIC_RELEASE);
  return !m->link
             ? 0
             : bench_link_send(m->link, bench_link_object("enough", json_object_new_boolean(true)));
}

int bench_measure_look(struct measure *m, uint64_t now)
{
  if (now < m->next_ns)
    return 0;
  m->next_ns = now + LOOK_NS;
  if (m->other && __atomic_load_n(&m->other->has_ended, __ATOMIC_ACQUIRE))
    return -ECONNRESET;
  if (m->link) {
    int seen = bench_link_look(m->link);
    int rc = seen > 0 ? bench_measure_hear(m) : seen;
    if (rc < 0)
      return rc;
  }
  if (!m->serves && m->other)
    m->enough = __atomic_load_n(&m->other->enough, __ATOMIC_ACQUIRE);
  if (!m->serves && app_signals_stop())
    m->stopped = true;
  return 0;
}

/* ---- Beginning and end ----------------------------------------------------------- */

/* Until all that there are have a peer. Both are driven: each of them may need the other end's,
 * which does the same. Returns how many messages are in *batch. */
static int bench_measure_await(struct measure *m, struct pst_batch *batch)
{
  uint64_t until_ns = app_now_ns() + MEASURE_CONNECT_NS;
  int got = 0, result = 0;

  for (;;) {
    bool waits = (m->sender && pst_sender_state(m->sender) == PST_STATE_WAITING) ||
                 (m->receiver && pst_receiver_state(m->receiver) == PST_STATE_WAITING);
    uint64_t now = app_now_ns();
    if (!waits)
      return got;
    if (m->sender)
      result = pst_sender_poll(m->sender);
    if (result >= 0 && got == 0 && m->receiver)
      result = got = pst_receiver_poll(m->receiver, batch);
    if (result >= 0)
      result = bench_measure_look(m, now);
    if (result < 0)
      return result;
    if (now >= until_ns)
      return -ETIMEDOUT;
    sched_yield();
  }
}

static bool bench_measure_is_over(enum pst_state state)
{
  return state == PST_STATE_ENDED || state == PST_STATE_FAILED;
}

static int bench_measure_await_end(const struct measure *m, uint64_t until_ns)
{
  if (app_now_ns() >= until_ns)
    return -ETIMEDOUT;
  if (m->link && bench_link_look(m->link) < 0)
    return -ECONNRESET;
  sched_yield();
  return 0;
}

/* Both ends agree on the counts, or one has failed. */
static int bench_measure_end_sender(const struct measure *m)
{
  uint64_t until_ns = app_now_ns() + MEASURE_END_NS;
  int rc = pst_sender_finish(m->sender);

  while (rc >= 0 && !bench_measure_is_over(pst_sender_state(m->sender))) {
    rc = pst_sender_poll(m->sender);
    if (rc != 0)
      continue;
    int waited = bench_measure_await_end(m, until_ns);
    if (waited < 0)
      return waited;
  }
  return pst_sender_state(m->sender) == PST_STATE_ENDED ? 0 : -ECONNRESET;
}

static int bench_measure_end_receiver(const struct measure *m)
{
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  uint64_t until_ns = app_now_ns() + MEASURE_END_NS;
  bool finished = false;

  while (!bench_measure_is_over(pst_receiver_state(m->receiver))) {
    int got = pst_receiver_poll(m->receiver, &batch);
    if (got > 0)
      pst_receiver_release(m->receiver, views, (uint32_t)got);
    /* -EBUSY: messages, or checks of them, are still out. */
    if (got == -ENODATA && !finished)
      finished = pst_receiver_finish(m->receiver) == 0;
    else if (got < 0 && got != -ENODATA)
      return got;
    int waited = got > 0 ? 0 : bench_measure_await_end(m, until_ns);
    if (waited < 0)
      return waited;
  }
  return pst_receiver_state(m->receiver) == PST_STATE_ENDED ? 0 : -ECONNRESET;
}

/* ---- Bandwidth ------------------------------------------------------------------- */

static int bench_measure_submit(const struct measure *m, struct pst_slot *slots, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    slots[i].length = (uint32_t)m->c->size;
  int rc = m->c->verify ? pst_sender_fill(m->sender, slots, n) : 0;
  return rc < 0 ? rc : pst_sender_submit(m->sender, slots, n);
}

static int bench_measure_source(struct measure *m)
{
  const struct bench_case *c = m->c;
  struct pst_sender *sender = m->sender;
  struct pst_slot slots[BATCH];
  int rc = bench_measure_await(m, NULL);
  uint64_t until_ns = app_now_ns() + PATIENCE * (c->warmup_ns + c->duration_ns) + MEASURE_END_NS;

  while (rc >= 0) {
    uint64_t now = app_now_ns();
    rc = bench_measure_look(m, now);
    if (rc < 0 || m->enough || m->stopped || now >= until_ns)
      break;
    /* The clock is read once for some batches: it costs as much as a small message, and as many
     * polls that find nothing where it is a device. */
    for (uint32_t i = 0, step; i < LOOK_ROUNDS && rc >= 0; i += step) {
      rc = pst_sender_acquire(sender, slots, BATCH);
      step = rc > 0 ? LOOK_ROUNDS / LOOK_BATCHES : 1;
      if (rc == 0)
        rc = pst_sender_poll(sender);
      else if (rc > 0)
        rc = bench_measure_submit(m, slots, (uint32_t)rc);
    }
  }
  return rc < 0 ? rc : bench_measure_end_sender(m);
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

static void bench_measure_stamp(struct stamps *stamps, const struct bench_case *c)
{
  uint64_t now = app_now_ns();

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
  /* Messages that are taken from the ring after the sender has stopped do not count for the rate of
   * both. */
  stamps->enough |= stamps->running && now - stamps->begin_ns > c->duration_ns &&
                    stamps->end_messages > stamps->begin_messages;
  if (stamps->enough)
    return;
  stamps->end_ns = now;
  stamps->end_messages = stamps->messages;
  stamps->end_bytes = stamps->bytes;
}

static bool bench_measure_stamp_is_due(const struct stamps *stamps)
{
  return stamps->messages - stamps->seen_messages >= STAMP_MESSAGES ||
         stamps->bytes - stamps->seen_bytes >= STAMP_BYTES || stamps->first_ns == 0;
}

static void bench_measure_stamps_total(const struct stamps *stamps, struct measure_taken *taken)
{
  taken->delivered = stamps->messages;
  if (!stamps->running)
    return;
  taken->messages = stamps->end_messages - stamps->begin_messages;
  taken->bytes = stamps->end_bytes - stamps->begin_bytes;
  taken->ns = stamps->end_ns - stamps->begin_ns;
}

/* A cache line of each. Where they are far, the loads overlap. */
static void bench_measure_touch(const struct pst_view *views, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (views[i].length > 0)
      (void)*(const volatile unsigned char *)views[i].host;
}

static int bench_measure_take(struct measure *m, struct hold *hold, struct pst_batch *batch,
                              uint32_t n)
{
  struct pst_receiver *receiver = m->receiver;
  struct pst_fence *fence = NULL;

  if (m->c->verify) {
    int rc;
    while ((rc = pst_receiver_verify(receiver, batch->views, n, &fence)) == -EAGAIN)
      ; /* it is the checks that are measured */
    if (rc < 0) {
      pst_receiver_release_after(receiver, batch->views, n, fence);
      return rc;
    }
  } else if (m->c->touch && batch->views[0].host) {
    if (batch->ready) {
      int rc = pst_receiver_fence_wait(receiver, batch->ready, NULL);
      if (rc < 0)
        return rc;
    }
    bench_measure_touch(batch->views, n);
    m->taken.touched = true;
  }
  if (hold)
    return bench_hold_keep(hold, batch->views, n, fence);
  return fence ? pst_receiver_release_after(receiver, batch->views, n, fence)
               : pst_receiver_release(receiver, batch->views, n);
}

static void bench_measure_note_verified(struct measure *m)
{
  struct pst_verify_result found = {.struct_size = sizeof(found)};

  if (m->c->verify && pst_receiver_verified(m->receiver, &found) == 0) {
    m->taken.verified = found.checked;
    m->taken.corrupted = found.corrupted;
  }
}

/* The receiving end of a measurement, until the stream has ended. 0, or the -errno that ended
 * it. */
static int bench_measure_sink(struct measure *m)
{
  struct pst_receiver *receiver = m->receiver;
  struct pst_view views[2 * BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 2 * BATCH, .views = views};
  struct stamps stamps = {0};
  struct hold *hold = NULL;
  uint32_t idle = 0;
  int got = bench_measure_await(m, &batch);

  if (got >= 0 && m->c->hold_ns > 0 &&
      !(hold = bench_hold_open(receiver, m->c->hold_ns, m->c->ring, 2 * BATCH)))
    got = -ENOMEM;
  while (got >= 0) {
    for (int i = 0; i < got; i++)
      stamps.bytes += views[i].length;
    stamps.messages += (uint64_t)got;
    if (got > 0) {
      idle = 0;
      int rc = bench_measure_take(m, hold, &batch, (uint32_t)got);
      if (rc < 0) {
        got = rc;
        break;
      }
    }
    if (bench_measure_stamp_is_due(&stamps) ? got > 0
                                            : got == 0 && stamps.messages > stamps.seen_messages)
      bench_measure_stamp(&stamps, m->c);
    if (stamps.enough && !m->enough && (got = bench_measure_say_enough(m)) < 0)
      break;
    if (got == 0 && ++idle % 4096 == 0 && (got = bench_measure_look(m, app_now_ns())) < 0)
      break;
    if (hold && (got = bench_hold_look(hold)) < 0)
      break;
    got = pst_receiver_poll(receiver, &batch);
  }
  bench_hold_close(hold);
  bench_measure_stamps_total(&stamps, &m->taken);
  if (got == -ENODATA)
    got = bench_measure_end_receiver(m);
  bench_measure_note_verified(m);
  return got;
}

/* ---- Latency --------------------------------------------------------------------- */

static int bench_measure_send_one(struct measure *m)
{
  struct pst_slot slot;
  int got = pst_sender_acquire(m->sender, &slot, 1);

  for (uint32_t idle = 0; got == 0; got = pst_sender_acquire(m->sender, &slot, 1)) {
    got = pst_sender_poll(m->sender);
    if (got >= 0 && ++idle % 4096 == 0)
      got = bench_measure_look(m, app_now_ns());
    if (got < 0)
      return got;
  }
  return got < 0 ? got : bench_measure_submit(m, &slot, 1);
}

/* 1: it came, perhaps before (`got`), and went back to the ring; -ENODATA: none will
 * come. */
static int bench_measure_await_one(struct measure *m, struct pst_batch *batch, int got)
{
  for (uint32_t idle = 0; got == 0; idle++) {
    if (idle % POLL_SENDER_EVERY == POLL_SENDER_EVERY - 1 && (got = pst_sender_poll(m->sender)) < 0)
      return got;
    if (idle % 4096 == 4095 && (got = bench_measure_look(m, app_now_ns())) < 0)
      return got;
    got = pst_receiver_poll(m->receiver, batch);
  }
  int rc = got == 1 ? bench_measure_take(m, NULL, batch, 1) : 0;
  return rc < 0 ? rc : got;
}

/* Send one, wait for it to come back, time it. The wait for a lost reply would never end;
 * transports that lose are not asked for one. */
static int bench_measure_ping(struct measure *m)
{
  const struct bench_case *c = m->c;
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
  int rc = bench_measure_await(m, &batch), early = rc;

  uint64_t start_ns = app_now_ns(), begin_ns = start_ns, end_ns;
  while (rc >= 0) {
    rc = bench_measure_send_one(m);
    if (rc >= 0)
      rc = bench_measure_await_one(m, &batch, early);
    early = 0;
    if (rc < 0)
      break;
    end_ns = app_now_ns();
    m->taken.delivered++;
    if (begin_ns - start_ns >= c->warmup_ns) {
      bench_histogram_add(m->times, end_ns - begin_ns);
      m->taken.messages++;
      m->taken.ns += end_ns - begin_ns;
    }
    /* One at least, however long the machine was busy with others. */
    if (end_ns - start_ns >= c->warmup_ns + c->duration_ns && m->taken.messages > 0)
      break;
    if (end_ns >= m->next_ns) {
      rc = bench_measure_look(m, end_ns);
      if (m->stopped)
        break;
      end_ns = app_now_ns();
    }
    begin_ns = end_ns;
  }
  m->taken.bytes = m->taken.messages * c->size;
  if (rc >= 0)
    rc = bench_measure_end_sender(m);
  if (rc >= 0)
    rc = bench_measure_end_receiver(m);
  bench_measure_note_verified(m);
  return rc;
}

static int bench_measure_pong(struct measure *m)
{
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
  int rc = bench_measure_await(m, &batch), early = rc;

  while (rc >= 0) {
    rc = bench_measure_await_one(m, &batch, early);
    early = 0;
    if (rc < 0)
      break;
    m->taken.delivered++;
    rc = bench_measure_send_one(m);
  }
  if (rc == -ENODATA)
    rc = bench_measure_end_receiver(m);
  if (rc >= 0)
    rc = bench_measure_end_sender(m);
  bench_measure_note_verified(m);
  return rc;
}

void bench_measure_run(struct measure *m)
{
  if (m->region)
    m->result = m->serves ? bench_onesided_offer(m) : bench_onesided_initiate(m);
  else if (m->c->measure == MEASURE_BANDWIDTH)
    m->result = m->serves ? bench_measure_sink(m) : bench_measure_source(m);
  else
    m->result = m->serves ? bench_measure_pong(m) : bench_measure_ping(m);
  if (m->result < 0)
    __atomic_store_n(&m->has_ended, true, __ATOMIC_RELEASE);
}
