/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of a one-sided stream that reads and writes. A transfer that was taken has a
 * slot until it is handed out; it is one request, or several when it is longer than
 * the transport moves at once. One transfer at most is partly posted: those behind it
 * are not taken before the rest of it is.
 *
 * A DONE of WRITEs may cover several, so that these are numbered, and `write_slots`
 * knows whose each is. The cookie of any other request is its slot.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

/* Enough that a link of 400 Gbit/s is full of 4 KiB transfers over 80 µs. */
#define INITIATOR_DEPTH 1024
#define INITIATOR_BATCH 32 /* requests of one post */
#define INITIATOR_NO_SLOT UINT32_MAX
#define INITIATOR_FLUSH_COOKIE UINT64_MAX
#define INITIATOR_CLOSE_NS PST_NS_PER_S

struct initiator_slot {
  uint64_t cookie;
  uint64_t length;
  uint32_t parts; /* requests under way */
  int32_t status; /* the first that was not 0 */
  uint8_t op;
};

uint32_t initiator_depth(void)
{
  return INITIATOR_DEPTH;
}

/* ---- Opening --------------------------------------------------------------------- */

static int open_slots(struct pst_initiator *initiator, struct pst_error *error)
{
  uint32_t size = 1;

  while (size < initiator->depth)
    size <<= 1;
  initiator->mask = size - 1;
  initiator->slots = calloc(initiator->depth, sizeof(*initiator->slots));
  initiator->free_slots = calloc(initiator->depth, sizeof(*initiator->free_slots));
  initiator->ended = calloc(size, sizeof(*initiator->ended));
  initiator->write_slots = calloc(size, sizeof(*initiator->write_slots));
  if (!initiator->slots || !initiator->free_slots || !initiator->ended || !initiator->write_slots)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory",
                    initiator->end.name);
  for (uint32_t i = 0; i < initiator->depth; i++)
    initiator->free_slots[initiator->free_count++] = initiator->depth - 1 - i;
  for (uint32_t i = 0; i < size; i++)
    initiator->write_slots[i] = INITIATOR_NO_SLOT;
  return 0;
}

static uint64_t operations_of(uint64_t capabilities)
{
  uint64_t operations = UINT64_C(1) << PST_OP_FLUSH;

  if (capabilities & PST_CAP_WRITE)
    operations |= UINT64_C(1) << PST_OP_WRITE;
  if (capabilities & PST_CAP_READ)
    operations |= UINT64_C(1) << PST_OP_READ;
  if (capabilities & PST_CAP_ATOMIC)
    operations |= UINT64_C(1) << PST_OP_FETCH_ADD | UINT64_C(1) << PST_OP_COMPARE_SWAP;
  return operations;
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
  initiator->rest_slot = INITIATOR_NO_SLOT;
  initiator->rma_max = limits->rma_max;
  initiator->operations = operations_of(limits->capabilities);
  initiator->depth =
      limits->requests_max < INITIATOR_DEPTH ? limits->requests_max : INITIATOR_DEPTH;
  int rc = region_open(&initiator->end, &config->sender.memory, false, &initiator->own, error);
  if (rc == 0)
    rc = open_slots(initiator, error);
  if (rc < 0)
    return rc;
  params.requests = initiator->depth;
  params.mr = initiator->own.mr;
  rc = lane->ops->endpoint_open(lane->worker, &params, &initiator->end.endpoint);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "stream %s: transport %s opens no endpoint for one-sided access: %s",
                    config->name, lane->device->plugin->name, strerror(-rc));
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
  free(initiator->slots);
  free(initiator->free_slots);
  free(initiator->ended);
  free(initiator->write_slots);
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
  initiator->remote_length = mail->remote_length;
  return 0;
}

int initiator_connected(struct pst_initiator *initiator)
{
  struct session_end *end = &initiator->end;
  int rc = end->lane->ops->remote_open(end->endpoint, &initiator->offer, &initiator->remote);

  if (rc < 0)
    return fail(initiator, rc,
                "the transport cannot reach the region that the target offers; both ends must be "
                "where it can reach (one host and user for shared memory)");
  drop_offer(initiator);
  return 0;
}

/* ---- What has ended --------------------------------------------------------------- */

static void end_transfer(struct pst_initiator *initiator, uint32_t at)
{
  const struct initiator_slot *slot = &initiator->slots[at];

  initiator->ended[initiator->ended_tail++ & initiator->mask] = at;
  if (slot->status) {
    stat_add(initiator->failed, 1);
    return;
  }
  stat_add(initiator->done, 1);
  stat_add(initiator->bytes, slot->length);
  initiator->has_read |= slot->op != PST_OP_WRITE && slot->op != PST_OP_FLUSH;
}

static void end_part(struct pst_initiator *initiator, uint32_t at, int32_t status)
{
  struct initiator_slot *slot = &initiator->slots[at];

  /* Cancelled because the stream has failed: that is why. */
  if (status == -ECANCELED && initiator->end.state == PST_STATE_FAILED)
    status = initiator->end.error;
  if (slot->status == 0)
    slot->status = status;
  slot->parts--;
  initiator->requests--;
  if (slot->parts == 0 && at != initiator->rest_slot)
    end_transfer(initiator, at);
}

static bool end_writes(struct pst_initiator *initiator, const struct pst_completion *completion)
{
  uint64_t last = completion->u.done.cookie;
  uint64_t count = completion->u.done.count;

  /* By number, so that one covered twice, or never posted, is noticed. */
  if (last >= initiator->writes || count > last + 1 || count > initiator->mask + 1u ||
      initiator->writes - last > initiator->mask + 1u)
    return false;
  for (uint64_t write = last + 1 - count; write <= last; write++) {
    uint32_t *at = &initiator->write_slots[write & initiator->mask];
    uint32_t slot = *at;
    if (slot == INITIATOR_NO_SLOT || initiator->slots[slot].parts == 0)
      return false;
    *at = INITIATOR_NO_SLOT;
    end_part(initiator, slot, completion->status);
  }
  return true;
}

static bool end_others(struct pst_initiator *initiator, const struct pst_completion *completion)
{
  uint64_t at = completion->u.done.cookie;
  uint64_t count = completion->u.done.count;

  if (at >= initiator->depth || initiator->slots[at].op != completion->code ||
      count > initiator->slots[at].parts)
    return false;
  while (count--)
    end_part(initiator, (uint32_t)at, completion->status);
  return true;
}

void initiator_done(struct pst_initiator *initiator, const struct pst_completion *completion)
{
  struct session_end *end = &initiator->end;
  bool known;

  if (!end->is_sender) /* a target posts nothing */
    return;
  if (completion->code == PST_OP_FLUSH && completion->u.done.cookie == INITIATOR_FLUSH_COOKIE) {
    initiator->requests--;
    initiator->flushed = completion->status == 0;
    if (completion->status < 0)
      end_gone(end, completion->status);
    return;
  }
  known = completion->code == PST_OP_WRITE ? end_writes(initiator, completion)
                                           : end_others(initiator, completion);
  if (known)
    return;
  pst_log(PST_LOG_ERROR,
          "stream %s: transport %s ends a request that is not under way: a bug of it", end->name,
          end->lane->device->plugin->name);
  end_gone(end, -EIO);
}

/* ---- Posting ------------------------------------------------------------------------ */

static int check_transfer(const struct pst_initiator *initiator, const struct pst_transfer *t)
{
  bool atomic = t->op == PST_OP_FETCH_ADD || t->op == PST_OP_COMPARE_SWAP;

  if (t->op < PST_OP_WRITE || t->op > PST_OP_FLUSH || (t->flags & ~PST_REQUEST_FENCE) ||
      t->reserved0 || t->reserved1 || t->reserved2)
    return -EINVAL;
  if (!(initiator->operations >> t->op & 1))
    return -EOPNOTSUPP;
  if (t->op == PST_OP_FLUSH && (t->length | t->local_offset | t->remote_offset))
    return -EINVAL;
  if (t->op == PST_OP_READ && t->length == 0)
    return -EINVAL;
  if (atomic && (t->length != 8 || ((t->local_offset | t->remote_offset) & 7)))
    return -EINVAL;
  if ((t->op != PST_OP_COMPARE_SWAP && t->compare) || (!atomic && t->operand))
    return -EINVAL;
  if (!region_has(initiator->own.length, t->local_offset, t->length) ||
      !region_has(initiator->remote_length, t->remote_offset, t->length))
    return -ERANGE;
  return 0;
}

static bool is_cut(const struct pst_initiator *initiator, const struct pst_transfer *t)
{
  return t->length > initiator->rma_max;
}

/* A request for the first `length` bytes of a transfer. */
static void make_request(struct pst_initiator *initiator, const struct pst_transfer *t,
                         uint64_t length, uint32_t slot, uint64_t write,
                         struct pst_request *request)
{
  *request = (struct pst_request){.opcode = t->op,
                                  .flags = t->flags,
                                  .local.mr = initiator->own.mr,
                                  .offset = t->local_offset,
                                  .arg.length = length,
                                  .cookie = slot};
  switch (t->op) {
  case PST_OP_WRITE:
    initiator->write_slots[write & initiator->mask] = slot;
    request->cookie = write;
    request->u.rma.remote = initiator->remote;
    request->u.rma.offset = t->remote_offset;
    break;
  case PST_OP_READ:
    request->u.rma.remote = initiator->remote;
    request->u.rma.offset = t->remote_offset;
    break;
  case PST_OP_FLUSH:
    request->local.mr = NULL;
    request->u.rma.remote = initiator->remote;
    break;
  default:
    request->arg.compare = t->compare;
    request->u.atomic.remote = initiator->remote;
    request->u.atomic.offset = t->remote_offset;
    request->u.atomic.operand = t->operand;
    break;
  }
}

/* Returns how many were taken, 0 also when the peer is going; -errno: the transport
 * refuses the first. */
static int post_requests(struct pst_initiator *initiator, const struct pst_request *requests,
                         uint32_t n)
{
  struct session_end *end = &initiator->end;
  uint32_t wait, taken;
  int rc = end->lane->ops->post(end->endpoint, requests, n, &wait);

  taken = rc > 0 ? (uint32_t)rc : 0;
  for (uint32_t i = 0; i < n; i++) {
    if (requests[i].opcode != PST_OP_WRITE)
      continue;
    if (i < taken)
      initiator->writes++;
    else
      initiator->write_slots[requests[i].cookie & initiator->mask] = INITIATOR_NO_SLOT;
  }
  initiator->requests += taken;
  if (rc >= 0 || rc == -EAGAIN)
    return (int)taken;
  if (rc == -EINVAL || rc == -EMSGSIZE || rc == -EOPNOTSUPP)
    return rc;
  /* Bounds and rights are right: the target has withdrawn its region. */
  end_gone(end, rc == -EACCES || rc == -ENOTCONN ? -ECONNRESET : rc);
  return 0;
}

static void take_slot(struct pst_initiator *initiator, const struct pst_transfer *t, uint32_t slot,
                      uint32_t parts)
{
  initiator->slots[slot] = (struct initiator_slot){
      .cookie = t->cookie, .length = t->length, .parts = parts, .op = t->op};
}

/* Those at the front that are one request each. Returns how many were taken; *stop: go on
 * to no more, *rc says when the next is to blame. */
static uint32_t post_whole(struct pst_initiator *initiator, const struct pst_transfer *transfers,
                           uint32_t n, int *rc, bool *stop)
{
  struct pst_request requests[INITIATOR_BATCH];
  uint64_t write = initiator->writes;
  uint32_t room = initiator->depth - initiator->requests;
  uint32_t k = 0;
  int taken;

  if (room > initiator->free_count)
    room = initiator->free_count;
  if (room > INITIATOR_BATCH)
    room = INITIATOR_BATCH;
  *stop = room == 0;
  for (; k < n && k < room; k++) {
    const struct pst_transfer *t = &transfers[k];
    uint32_t slot = initiator->free_slots[initiator->free_count - 1 - k];
    *rc = check_transfer(initiator, t);
    if (*rc < 0 || is_cut(initiator, t))
      break;
    take_slot(initiator, t, slot, 1);
    make_request(initiator, t, t->length, slot, write, &requests[k]);
    write += t->op == PST_OP_WRITE;
  }
  *stop |= *rc < 0;
  if (k == 0)
    return 0;
  taken = post_requests(initiator, requests, k);
  *stop |= taken < (int)k;
  if (taken < 0) {
    *rc = taken;
    return 0;
  }
  if ((uint32_t)taken < k)
    *rc = 0; /* the one to blame is not next yet */
  initiator->free_count -= (uint32_t)taken;
  return (uint32_t)taken;
}

static void end_rest(struct pst_initiator *initiator, int status)
{
  uint32_t at = initiator->rest_slot;
  struct initiator_slot *slot = &initiator->slots[at];

  initiator->rest_slot = INITIATOR_NO_SLOT;
  if (slot->status == 0)
    slot->status = status;
  if (slot->parts == 0)
    end_transfer(initiator, at);
}

/* Post on what is left of a transfer that is cut. Returns how many requests were
 * taken, or why the transport refuses it. */
static int post_rest(struct pst_initiator *initiator)
{
  struct pst_transfer *rest = &initiator->rest;
  struct pst_request requests[INITIATOR_BATCH];
  int all = 0;

  while (rest->length && initiator->requests < initiator->depth) {
    uint64_t write = initiator->writes;
    struct pst_transfer ahead = *rest;
    uint32_t room = initiator->depth - initiator->requests;
    uint32_t k = 0;
    for (; k < INITIATOR_BATCH && k < room && ahead.length; k++) {
      uint64_t length = ahead.length < initiator->rma_max ? ahead.length : initiator->rma_max;
      make_request(initiator, &ahead, length, initiator->rest_slot, write, &requests[k]);
      write += ahead.op == PST_OP_WRITE;
      ahead.local_offset += length;
      ahead.remote_offset += length;
      ahead.length -= length;
    }
    int taken = post_requests(initiator, requests, k);
    if (taken < 0)
      return taken;
    for (int i = 0; i < taken; i++) {
      rest->local_offset += requests[i].arg.length;
      rest->remote_offset += requests[i].arg.length;
      rest->length -= requests[i].arg.length;
    }
    initiator->slots[initiator->rest_slot].parts += (uint32_t)taken;
    all += taken;
    if (taken < (int)k)
      break;
  }
  return all;
}

/* Returns whether nothing of it is left. */
static bool push_rest(struct pst_initiator *initiator)
{
  if (initiator->rest_slot == INITIATOR_NO_SLOT)
    return true;
  int rc = post_rest(initiator);
  if (rc < 0)
    end_rest(initiator, rc);
  else if (initiator->rest.length == 0)
    end_rest(initiator, 0);
  return initiator->rest_slot == INITIATOR_NO_SLOT;
}

/* One that is longer than a request. Returns 1 when it was taken. */
static uint32_t post_cut(struct pst_initiator *initiator, const struct pst_transfer *t, int *rc)
{
  *rc = check_transfer(initiator, t);
  if (*rc < 0 || initiator->free_count == 0)
    return 0;
  uint32_t slot = initiator->free_slots[initiator->free_count - 1];
  take_slot(initiator, t, slot, 0);
  initiator->rest = *t;
  initiator->rest_slot = slot;
  int taken = post_rest(initiator);
  if (taken <= 0) {
    *rc = taken;
    initiator->rest_slot = INITIATOR_NO_SLOT;
    return 0;
  }
  initiator->free_count--;
  if (initiator->rest.length == 0)
    end_rest(initiator, 0);
  return 1;
}

/* ---- Progress ------------------------------------------------------------------------- */

/* The endpoint is closed and its transport has nothing more to say of it. */
void initiator_left(struct pst_initiator *initiator)
{
  initiator->remote = NULL;
  if (initiator->rest_slot != INITIATOR_NO_SLOT)
    end_rest(initiator, -ECANCELED);
  for (uint32_t i = 0; initiator->slots && i < initiator->depth && initiator->requests; i++)
    while (initiator->slots[i].parts)
      end_part(initiator, i, -ECANCELED);
}

void initiator_leave(struct pst_initiator *initiator)
{
  if (initiator->remote && initiator->requests == 0)
    initiator->end.lane->ops->remote_close(initiator->end.endpoint, initiator->remote);
  if (initiator->requests == 0)
    initiator->remote = NULL;
}

/* The stream has failed: what is under way comes back by closing the endpoint. */
static void reclaim(struct pst_initiator *initiator)
{
  struct session_end *end = &initiator->end;

  if (initiator->rest_slot != INITIATOR_NO_SLOT)
    end_rest(initiator, end->error);
  if (initiator->requests)
    end_close_endpoint(end, PST_CLOSE_ABORT, clock_now_ns() + INITIATOR_CLOSE_NS);
  if (end->endpoint_closed)
    initiator_left(initiator);
}

static void finish(struct pst_initiator *initiator)
{
  struct session_end *end = &initiator->end;
  struct pst_request flush = {
      .opcode = PST_OP_FLUSH, .cookie = INITIATOR_FLUSH_COOKIE, .u.rma.remote = initiator->remote};
  struct control_totals totals;

  if (end->state != PST_STATE_CONNECTED)
    return;
  if (!initiator->flush_posted && initiator->requests == 0) {
    int rc = post_requests(initiator, &flush, 1);
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
  rc = end_check(end);
  if (rc < 0)
    reclaim(initiator);
  else if (push_rest(initiator) && initiator->finishing)
    finish(initiator);
  return rc;
}

bool initiator_has_news(const struct pst_initiator *initiator)
{
  return initiator->ended_head != initiator->ended_tail;
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
  return initiator->end.state == PST_STATE_WAITING ? 0 : initiator->remote_length;
}

uint32_t pst_initiator_depth(const struct pst_initiator *initiator)
{
  return initiator->depth;
}

int pst_initiator_post(struct pst_initiator *initiator, const struct pst_transfer *transfers,
                       uint32_t n)
{
  struct session_end *end = &initiator->end;
  uint32_t taken = 0;
  bool stop = false;
  int rc = 0;

  /* One look at mail, and at what has ended where that is what room waits for. */
  if (end->state != PST_STATE_CONNECTED || initiator->free_count < n ||
      initiator->rest_slot != INITIATOR_NO_SLOT || end->failing || end->gone_deadline_ns)
    rc = progress(initiator);
  else
    thread_progress(end->thread);
  if (rc < 0)
    return rc;
  if (initiator->finishing)
    return -EPIPE;
  if (end->state != PST_STATE_CONNECTED || end->gone_deadline_ns)
    return 0;
  if (initiator->rest_slot != INITIATOR_NO_SLOT)
    return 0;
  while (taken < n && !stop) {
    if (is_cut(initiator, &transfers[taken])) {
      uint32_t one = post_cut(initiator, &transfers[taken], &rc);
      taken += one;
      stop = one == 0 || initiator->rest_slot != INITIATOR_NO_SLOT;
    } else {
      taken += post_whole(initiator, transfers + taken, n - taken, &rc, &stop);
    }
  }
  stat_add(initiator->posted, taken);
  end_stage(end, taken < n ? PST_STAGE_TRANSPORT : -1);
  if (taken == 0)
    return rc;
  end->thread->idle_since_ns = 0;
  return (int)taken;
}

int pst_initiator_poll(struct pst_initiator *initiator, struct pst_transfer_done *completed,
                       uint32_t max)
{
  uint32_t n = 0;
  int rc = progress(initiator);

  while (n < max && initiator->ended_head != initiator->ended_tail) {
    uint32_t at = initiator->ended[initiator->ended_head++ & initiator->mask];
    const struct initiator_slot *slot = &initiator->slots[at];
    completed[n++] = (struct pst_transfer_done){
        .cookie = slot->cookie, .length = slot->length, .status = slot->status, .op = slot->op};
    initiator->free_slots[initiator->free_count++] = at;
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
  return initiator->free_count == initiator->depth ? rc : 0;
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
