/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of a one-sided stream that reads and writes; rma.c has the requests.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rma_plain.h"
#include "session.h"

/* Enough that a link of 400 Gbit/s is full of 4 KiB transfers over 80 µs. */
#define INITIATOR_DEPTH 1024
#define INITIATOR_BATCH 32 /* transfers that are checked at a time */
#define INITIATOR_FLUSH_COOKIE UINT64_MAX
#define INITIATOR_CLOSE_NS PST_NS_PER_S

uint32_t initiator_depth(void)
{
  return INITIATOR_DEPTH;
}

/* ---- Opening --------------------------------------------------------------------- */

static void count_ended(void *context, uint32_t at)
{
  struct pst_initiator *initiator = context;
  const struct rma_slot *slot = &initiator->rma.slots[at];

  if (slot->status) {
    stat_add(initiator->failed, 1);
    return;
  }
  stat_add(initiator->done, 1);
  stat_add(initiator->bytes, slot->length);
  initiator->has_read |= slot->op != PST_OP_WRITE && slot->op != PST_OP_FLUSH;
}

/* The transport has refused a request. */
static int refused(void *context, int rc)
{
  struct pst_initiator *initiator = context;

  if (rc == -EINVAL || rc == -EMSGSIZE || rc == -EOPNOTSUPP)
    return rc;
  /* Bounds and rights are right: the target has withdrawn its region. */
  end_gone(&initiator->end, rc == -EACCES || rc == -ENOTCONN ? -ECONNRESET : rc);
  return 0;
}

int initiator_open(struct pst_session *session, struct pst_initiator *initiator,
                   struct pst_error *error)
{
  const struct config_stream *config = initiator->end.config;
  const struct session_lane *lane = initiator->end.lane;
  const struct pst_limits *limits = &lane->device->limits;
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_RMA,
                                       .cookie = (uint64_t)(uintptr_t)&initiator->end,
                                       .options = config->sender.transport.plugin.options,
                                       .label = config->name,
                                       .pieces = 1,
                                       .timeout_ns = config->timeout_ns};

  (void)session;
  initiator->rma = (struct rma){
      .ops = lane->ops,
      .refused = refused,
      .end = count_ended,
      .context = initiator,
      .max = limits->rma_max,
      .operations = rma_operations(limits->capabilities),
      .depth = limits->requests_max < INITIATOR_DEPTH ? limits->requests_max : INITIATOR_DEPTH};
  int rc = region_open(&initiator->end, &config->sender.memory, false, &initiator->own, error);
  initiator->ranges =
      (struct rma_ranges){.mr = initiator->own.mr, .local_length = initiator->own.length};
  if (rc == 0 && rma_open(&initiator->rma) < 0)
    rc = pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", config->name);
  if (rc < 0)
    return rc;
  params.requests = initiator->rma.depth;
  params.mr = initiator->own.mr;
  rc = lane->ops->endpoint_open(lane->worker, &params, &initiator->end.endpoint);
  if (rc < 0)
    return pst_fail(error, refusal_status(rc), rc,
                    "stream %s: transport %s opens no endpoint for one-sided access: %s",
                    config->name, lane->device->plugin->name, strerror(-rc));
  initiator->rma.endpoint = initiator->end.endpoint;
  return 0;
}

static void drop_offer(struct pst_initiator *initiator)
{
  for (uint32_t i = 0; i < initiator->offer.fd_count; i++)
    close(initiator->offer.fds[i]);
  free(initiator->offer.bytes);
  initiator->offer = (struct pst_blob){0};
}

void initiator_close(struct pst_initiator *initiator)
{
  if (!initiator)
    return;
  drop_offer(initiator);
  region_close(&initiator->end, &initiator->own);
  rma_close(&initiator->rma);
  pthread_mutex_destroy(&initiator->end.text_lock);
  free(initiator);
}

/* ---- Meeting the target ----------------------------------------------------------- */

static int fail(struct pst_initiator *initiator, int rc, const char *what)
{
  char text[400];

  snprintf(text, sizeof(text), "stream %s: %s: %s", initiator->end.name, what, strerror(-rc));
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(&initiator->end, rc, text);
  return rc;
}

int initiator_offered(struct pst_initiator *initiator, struct session_mail *mail)
{
  if (mail->remote_length == 0)
    return fail(initiator, -EPROTO,
                "the target offers no region; run the same release of Penstock on both ends");
  drop_offer(initiator);
  initiator->offer = mail->remote;
  mail->remote.fd_count = 0;
  initiator->offer.bytes = malloc(mail->remote.length ? mail->remote.length : 1);
  if (!initiator->offer.bytes)
    return fail(initiator, -ENOMEM, "no room for the target's region");
  memcpy(initiator->offer.bytes, mail->remote.bytes, mail->remote.length);
  initiator->ranges.remote_length = mail->remote_length;
  rma_ranges_are(&initiator->ranges, &initiator->rma);
  return 0;
}

int initiator_connected(struct pst_initiator *initiator)
{
  struct session_end *end = &initiator->end;
  int rc = end->lane->ops->remote_open(end->endpoint, &initiator->offer, &initiator->ranges.remote);

  if (rc < 0)
    return fail(initiator, rc,
                "the transport cannot reach the region that the target offers; both ends must be "
                "where it can reach (one host and user for shared memory)");
  drop_offer(initiator);
  return 0;
}

/* ---- What has ended --------------------------------------------------------------- */

void initiator_done(struct pst_initiator *initiator, const struct pst_completion *completion)
{
  struct session_end *end = &initiator->end;

  if (!end->is_sender) /* a target posts nothing */
    return;
  if (completion->code == PST_OP_FLUSH && completion->u.done.cookie == INITIATOR_FLUSH_COOKIE) {
    initiator->rma.requests--;
    initiator->flushed = completion->status == 0;
    if (completion->status < 0)
      end_gone(end, completion->status);
    return;
  }
  if (rma_done(&initiator->rma, completion))
    return;
  pst_log(PST_LOG_ERROR,
          "stream %s: transport %s ends a request that is not under way: a bug of it", end->name,
          end->lane->device->plugin->name);
  end_gone(end, -EIO);
}

/* ---- Posting ------------------------------------------------------------------------ */

static int check_transfer(const struct pst_initiator *initiator, const struct pst_transfer *t,
                          struct rma_work *work)
{
  *work = (struct rma_work){.op = t->op,
                            .flags = t->flags,
                            .cookie = t->cookie,
                            .mr = initiator->own.mr,
                            .local_offset = t->local_offset,
                            .remote = initiator->ranges.remote,
                            .remote_offset = t->remote_offset,
                            .length = t->length,
                            .compare = t->compare,
                            .operand = t->operand};
  if (t->reserved0 || t->reserved1 || t->reserved2)
    return -EINVAL;
  int rc = rma_check(&initiator->rma, work);
  if (rc < 0)
    return rc;
  if (!region_has(initiator->own.length, t->local_offset, t->length) ||
      !region_has(initiator->ranges.remote_length, t->remote_offset, t->length))
    return -ERANGE;
  return 0;
}

/* Up to INITIATOR_BATCH of them; *rc says when the next is to blame. */
static uint32_t post_some(struct pst_initiator *initiator, const struct pst_transfer *transfers,
                          uint32_t n, bool *stop, int *rc)
{
  struct rma_work works[INITIATOR_BATCH];
  uint32_t k = 0;
  int wrong = 0, refused_one = 0;

  while (k < n && k < INITIATOR_BATCH) {
    wrong = check_transfer(initiator, &transfers[k], &works[k]);
    if (wrong < 0)
      break;
    k++;
  }
  uint32_t taken = k ? rma_post(&initiator->rma, works, k, NULL, &refused_one) : 0;
  *stop = taken < k || wrong < 0;
  *rc = taken < k ? refused_one : wrong;
  return taken;
}

/* ---- Progress ------------------------------------------------------------------------- */

/* The endpoint is closed and its transport has nothing more to say of it. */
void initiator_left(struct pst_initiator *initiator)
{
  initiator->ranges.remote = NULL;
  rma_abandon(&initiator->rma, -ECANCELED);
}

void initiator_leave(struct pst_initiator *initiator)
{
  if (initiator->ranges.remote && initiator->rma.requests == 0)
    initiator->end.lane->ops->remote_close(initiator->end.endpoint, initiator->ranges.remote);
  if (initiator->rma.requests == 0)
    initiator->ranges.remote = NULL;
}

/* The stream has failed: what is under way comes back by closing the endpoint. */
static void reclaim(struct pst_initiator *initiator)
{
  struct session_end *end = &initiator->end;

  /* Cancelled because the stream has failed: that is why. */
  initiator->rma.cancelled = end->error;
  if (initiator->rma.rest_slot != RMA_NO_SLOT)
    rma_end_rest(&initiator->rma, end->error);
  if (initiator->rma.requests)
    end_close_endpoint(end, PST_CLOSE_ABORT, clock_now_ns() + INITIATOR_CLOSE_NS);
  if (end->endpoint_closed)
    initiator_left(initiator);
}

static void finish(struct pst_initiator *initiator)
{
  struct session_end *end = &initiator->end;
  struct pst_request flush = {.opcode = PST_OP_FLUSH,
                              .cookie = INITIATOR_FLUSH_COOKIE,
                              .u.rma.remote = initiator->ranges.remote};
  struct control_totals totals;

  if (end->state != PST_STATE_CONNECTED)
    return;
  if (!initiator->flush_posted && initiator->rma.requests == 0) {
    int rc = rma_request(&initiator->rma, &flush);
    initiator->flush_posted = rc == 1;
    if (rc < 0)
      end_gone(end, rc);
  }
  if (!initiator->flushed)
    return;
  end_stage(end, -1);
  end_state(end, PST_STATE_ENDING);
  count_read(end);
  initiator_totals(initiator, &totals);
  control_finish(end->session->control, end, &totals);
}

static int progress(struct pst_initiator *initiator)
{
  struct session_end *end = &initiator->end;
  int rc;

  thread_progress(end->thread);
  lane_poll(end->lane, NULL, SESSION_POLL_BATCH);
  rc = end->state == PST_STATE_FAILED || end->failing || end->gone_deadline_ns ? end_check(end) : 0;
  if (rc < 0)
    reclaim(initiator);
  else if (rma_push(&initiator->rma) && initiator->finishing)
    finish(initiator);
  return rc;
}

bool initiator_has_news(const struct pst_initiator *initiator)
{
  return initiator->rma.ended_head != initiator->rma.ended_tail;
}

void initiator_totals(const struct pst_initiator *initiator, struct control_totals *totals)
{
  const struct session_end *end = &initiator->end;
  uint64_t now = end->ended_ns ? end->ended_ns : clock_now_ns();

  *totals = (struct control_totals){.messages = initiator->done,
                                    .bytes = initiator->bytes,
                                    .last_sequence = UINT64_MAX,
                                    .running_ns = end->started_ns ? now - end->started_ns : 0};
  memcpy(totals->blocked_ns, end->blocked_ns, sizeof(totals->blocked_ns));
}

/* ---- What applications call ------------------------------------------------------------ */

int pst_initiator_local(const struct pst_initiator *initiator, struct pst_range *range)
{
  region_range(&initiator->own, range);
  return 0;
}

uint64_t pst_initiator_remote_length(const struct pst_initiator *initiator)
{
  return initiator->end.state == PST_STATE_WAITING ? 0 : initiator->ranges.remote_length;
}

uint32_t pst_initiator_depth(const struct pst_initiator *initiator)
{
  return initiator->rma.depth;
}

/* Nothing keeps it from posting, or makes it look at more than what it is to post. */
static inline bool is_free(const struct pst_initiator *initiator)
{
  const struct session_end *end = &initiator->end;

  return end->state == PST_STATE_CONNECTED && initiator->rma.rest_slot == RMA_NO_SLOT &&
         !(end->failing | initiator->finishing) && !end->gone_deadline_ns;
}

static inline int count_posted(struct pst_initiator *initiator, uint32_t taken, bool all)
{
  struct session_end *end = &initiator->end;

  stat_add(initiator->posted, taken);
  if (!all || end->stage >= 0)
    end_stage(end, all ? -1 : PST_STAGE_TRANSPORT);
  if (taken)
    end->thread->idle_since_ns = 0;
  return (int)taken;
}

static __attribute__((noinline)) int post(struct pst_initiator *initiator,
                                          const struct pst_transfer *transfers, uint32_t n)
{
  uint32_t taken = 0;
  bool stop = false;
  int rc = 0;

  if (initiator->finishing)
    return -EPIPE;
  if (!is_free(initiator))
    return 0;
  while (taken < n && !stop) {
    uint32_t plain = rma_post_plain(&initiator->rma, &initiator->ranges, transfers + taken,
                                    n - taken, &rc, &stop);
    taken += plain;
    if (plain == 0 && !stop)
      taken += post_some(initiator, transfers + taken, n - taken, &stop, &rc);
  }
  count_posted(initiator, taken, taken == n);
  return taken ? (int)taken : rc;
}

int pst_initiator_post(struct pst_initiator *initiator, const struct pst_transfer *transfers,
                       uint32_t n)
{
  struct session_thread *thread = initiator->end.thread;

  /* One look at mail, and at what has ended where that is what room waits for. */
  if (!is_free(initiator) || initiator->rma.free_count < n) {
    int rc = progress(initiator);
    if (rc < 0)
      return rc;
  } else if (thread_is_due(thread)) {
    thread_progress_now(thread);
  } else if (n == 1 && rma_post_one(&initiator->rma, &initiator->ranges, transfers)) {
    return count_posted(initiator, 1, true);
  }
  return post(initiator, transfers, n);
}

int pst_initiator_poll(struct pst_initiator *initiator, struct pst_transfer_done *completed,
                       uint32_t max)
{
  uint32_t n = 0, at;
  int rc = progress(initiator);

  while (n < max && (at = rma_take_ended(&initiator->rma)) != RMA_NO_SLOT) {
    const struct rma_slot *slot = &initiator->rma.slots[at];
    completed[n++] = (struct pst_transfer_done){
        .cookie = slot->cookie, .length = slot->length, .status = slot->status, .op = slot->op};
  }
  if (initiator->has_read && n) {
    initiator->has_read = false;
    if (region_flush(&initiator->own) < 0)
      end_fail(&initiator->end, -EIO, "making what was read visible in the own region failed");
  }
  if (n) {
    initiator->end.thread->idle_since_ns = 0;
    return (int)n;
  }
  return initiator->rma.free_count == initiator->rma.depth ? rc : 0;
}

int pst_initiator_finish(struct pst_initiator *initiator)
{
  initiator->finishing = true;
  end_stage(&initiator->end, -1);
  return end_check(&initiator->end);
}

int pst_initiator_abort(struct pst_initiator *initiator, int code, const char *text)
{
  end_fail(&initiator->end, code, text);
  reclaim(initiator);
  return 0;
}

enum pst_state pst_initiator_state(const struct pst_initiator *initiator)
{
  return (enum pst_state)__atomic_load_n(&initiator->end.state, __ATOMIC_ACQUIRE);
}

uint32_t pst_initiator_worker(const struct pst_initiator *initiator)
{
  return initiator->end.thread->index;
}

int pst_initiator_fill(struct pst_initiator *initiator, uint64_t offset, uint64_t length,
                       uint64_t pattern)
{
  return region_fill(&initiator->own, offset, length, pattern);
}

int pst_initiator_verify(struct pst_initiator *initiator, uint64_t offset, uint64_t length,
                         uint64_t pattern, struct pst_verify_result *result)
{
  return region_verify(&initiator->own, offset, length, pattern, result);
}
