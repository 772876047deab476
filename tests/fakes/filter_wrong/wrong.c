/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter that breaks the contract, so that the contract is seen to notice: the
 * environment variable WRONG says how. It wraps one transport a process and hands that
 * one's objects out as its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <penstock/transport.h>

static const struct pst_transport_ops *inner;

/* Both ends of a case are in this process. */
/* All workers share this state, and their threads run at the same time. */
static atomic_uint flushes_held, releases_lost, queued, connects, close_mode;
static atomic_uint_least64_t close_by_ns;
static struct pst_endpoint *_Atomic closes;
static struct pst_worker *_Atomic sender, *_Atomic receiver;
static struct pst_worker *_Atomic drains; /* and nobody has polled since */
static atomic_bool drain_cancels, is_early;
static uint8_t *ring_bytes;

/* SENDs up to now, and those before this thread's last poll. */
static atomic_uint sends;
static _Thread_local unsigned int sends_polled;

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool wrong(const char *how)
{
  const char *wanted = getenv("WRONG");
  return wanted && strcmp(wanted, how) == 0;
}

static int wrong_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host, (void)probe;
  return 0;
}

static int wrong_open(const struct pst_host *host, const struct pst_open_params *params,
                      struct pst_device **device)
{
  (void)host;
  inner = params->inner;
  flushes_held = releases_lost = queued = connects = 0;
  closes = NULL;
  receiver = drains = NULL;
  drain_cancels = is_early = false;
  return inner ? inner->open(params->inner_host, params->inner_params, device) : -EINVAL;
}

static void wrong_close(struct pst_device *device)
{
  if (device)
    inner->close(device);
}

static const struct pst_transport_ops ops;

static int wrong_limits(struct pst_device *device, struct pst_limits *limits)
{
  int rc = inner->limits(device, limits);
  limits->capabilities &= ops.capabilities;
  if (wrong("forgets the upper half of numbers"))
    limits->sequence_bits = 32;
  if (wrong("announces messages without an end"))
    limits->message_max = UINT64_C(1) << 40;
  return rc;
}

static int wrong_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                             struct pst_mr **mr)
{
  struct pst_mr_params other = *params;
  if (wrong("takes any right"))
    other.access &= PST_ACCESS_RING * 2 - 1;
  if (other.access & PST_ACCESS_RING)
    ring_bytes = (uint8_t *)other.region->host + other.offset;
  return inner->mr_register(device, &other, mr);
}

static void wrong_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  inner->mr_deregister(device, mr);
}

static int wrong_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  if (wrong("leaks"))
    (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
  return inner->worker_open(device, index, worker);
}

static void wrong_worker_close(struct pst_worker *worker)
{
  inner->worker_close(worker);
}

/* Arms without looking for completions that arrive meanwhile. */
static int arm_blindly(struct pst_worker *worker)
{
  const unsigned int before = sends;
  int rc = inner->arm(worker);
  return rc == -EAGAIN && before == sends_polled && sends != before ? 0 : rc;
}

static int wrong_arm(struct pst_worker *worker)
{
  if (wrong("looks once before it sleeps"))
    return arm_blindly(worker);
  int rc = inner->arm(worker);
  if (wrong("sleeps through the deadline of a close") && closes && rc == 0)
    return 0;
  return wrong("sleeps") || (wrong("forgets who waits for room") && queued) ? 0 : rc;
}

static int wrong_event_fd(struct pst_worker *worker)
{
  return inner->event_fd(worker);
}

static int wrong_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                           struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_ring_params other = *params;
  if (wrong("ignores the base"))
    other.base = 0;
  if (wrong("sends beyond the peer's slots"))
    other.payload_max = other.stride - other.headroom - other.tailroom;
  int rc = inner->ring_open(worker, &other, path, ring);
  if (rc == 0 && wrong("names a ring path that is none"))
    path->path = 77;
  return rc;
}

static void wrong_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  inner->ring_close(worker, ring);
}

static int wrong_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                               struct pst_endpoint **endpoint)
{
  struct pst_endpoint_params other = *params;
  *(params->ring ? &receiver : &sender) = worker;
  if (wrong("receives where it sends, too") && other.ring)
    other.roles &= ~(uint32_t)PST_ROLE_SENDER;
  int rc = inner->endpoint_open(worker, &other, endpoint);
  if (rc < 0 && wrong("writes what it does not make"))
    *endpoint = (struct pst_endpoint *)worker;
  return rc;
}

static int wrong_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  return inner->endpoint_address(endpoint, address);
}

static int wrong_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  if (wrong("forgets its peer") && ++connects > 2)
    return -EPROTO;
  return inner->endpoint_connect(endpoint, address);
}

static int wrong_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  int rc = inner->endpoint_path(endpoint, path);
  if (wrong("names a path that is none"))
    path->path = 77;
  return rc;
}

static int wrong_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  releases_lost = wrong("loses slots at close") ? 2 : 0;
  if (wrong("cancels a FLUSH at DRAIN") && mode == PST_CLOSE_DRAIN && receiver)
    drains = sender;
  if (wrong("sleeps through the deadline of a close") && flushes_held && !closes) {
    closes = endpoint;
    close_mode = mode;
    close_by_ns = deadline_ns;
    return 0;
  }
  return inner->endpoint_close(endpoint, mode, deadline_ns);
}

static int wrong_start(struct pst_device *device)
{
  return inner->start ? inner->start(device) : 0;
}

static int wrong_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob)
{
  return inner->mr_pack(device, mr, blob);
}

static int wrong_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                             struct pst_remote **remote)
{
  return inner->remote_open(endpoint, blob, remote);
}

static void wrong_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  inner->remote_close(endpoint, remote);
}

/* Says of what inner ends by DONEs that it has completed it. */
static int complete_wrongly(struct pst_endpoint *endpoint, const struct pst_request *requests,
                            uint32_t n, uint32_t *wait)
{
  uint32_t why = PST_WAIT_NONE;
  int rc = inner->post(endpoint, requests, n, &why);
  if (rc == -EAGAIN || (rc > 0 && rc < (int)n))
    *wait = why;
  if (rc == (int)n)
    *wait = PST_POST_COMPLETED;
  return rc;
}

static int wrong_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                      uint32_t *wait)
{
  if (wrong("forgets who waits for room") && queued >= 8) {
    *wait = PST_WAIT_QUEUE;
    return -EAGAIN;
  }
  if (wrong("gathers four pieces") && requests->piece_count > 4) {
    struct pst_request fewer = *requests;
    struct pst_piece pieces[64];
    memcpy(pieces, fewer.local.pieces, fewer.piece_count * sizeof(*pieces));
    for (uint32_t i = 4; i < fewer.piece_count; i++)
      pieces[i].offset = pieces[0].offset;
    fewer.local.pieces = pieces;
    return inner->post(endpoint, &fewer, 1, wait);
  }
  if (atomic_exchange(&is_early, false))
    return -ENOTCONN;
  const bool may_complete = *wait == PST_POST_MAY_COMPLETE;
  if (may_complete && wrong("completes a READ that it never did") &&
      requests->opcode == PST_OP_READ) {
    *wait = PST_POST_COMPLETED;
    return 1;
  }
  if ((wrong("completes without being asked") && !may_complete) ||
      (wrong("completes what it ends, too") && may_complete && requests->opcode == PST_OP_FLUSH) ||
      (wrong("completes WRITEs before earlier ones") && may_complete &&
       requests->opcode == PST_OP_WRITE))
    return complete_wrongly(endpoint, requests, n, wait);
  if (wrong("takes a long message alone") && n > 1 && requests->arg.length > 64) {
    const int rc = inner->post(endpoint, requests, 1, wait);
    if (rc == 1 && *wait != PST_POST_COMPLETED)
      *wait = PST_WAIT_QUEUE;
    return rc;
  }
  uint32_t flushes = 0;
  while (wrong("counts no FLUSH") && flushes < n && requests[flushes].opcode == PST_OP_FLUSH)
    flushes++;
  if (flushes == n)
    return (int)n; /* nor ends it */
  int rc = inner->post(endpoint, requests, n, wait);
  if (wrong("counts no FLUSH") && rc > 0 && rc < (int)n && requests[rc].opcode == PST_OP_FLUSH)
    return (int)n;
  sends += rc > 0 ? (unsigned int)rc : 0;
  if (wrong("names a reason that is none") && (rc == -EAGAIN || (rc > 0 && rc < (int)n)))
    *wait = 9;
  if (rc > 0 && wrong("forgets who waits for room"))
    queued += (uint32_t)rc;
  if (rc > 0 && wrong("sleeps through the deadline of a close"))
    for (int i = 0; i < rc; i++)
      flushes_held += requests[i].opcode == PST_OP_FLUSH;
  if (wrong("writes on refusal") && rc < 0 && rc != -EAGAIN)
    *wait = PST_WAIT_NONE;
  return rc;
}

static void tamper(struct pst_worker *worker, struct pst_completion *one)
{
  if (one->kind == PST_COMPLETION_DONE && wrong("miscounts"))
    one->u.done.count++;
  if (one->kind == PST_COMPLETION_DONE && one->code == PST_OP_WRITE &&
      wrong("ends WRITEs out of order"))
    one->u.done.cookie--;
  if (one->kind == PST_COMPLETION_EVENT && one->code == PST_EVENT_DISCONNECTED &&
      wrong("mistells departures"))
    one->status = one->status ? 0 : -ECONNRESET;
  if (one->kind == PST_COMPLETION_EVENT && one->code == PST_EVENT_CONNECTED)
    is_early = wrong("tells CONNECTED too early");
  if (one->kind == PST_COMPLETION_EVENT && one->code == PST_EVENT_CONNECTED &&
      wrong("gives an event that is none"))
    one->code = 77;
  if (one->kind == PST_COMPLETION_EVENT && one->code == PST_EVENT_DISCONNECTED &&
      wrong("gives a positive status"))
    one->status = ECONNRESET;
  if (one->kind == PST_COMPLETION_DONE && one->code == PST_OP_FLUSH && drain_cancels)
    one->status = -ECANCELED;
  if (one->kind != PST_COMPLETION_MESSAGE)
    return;
  queued -= queued > 0;
  if (wrong("sets a flag that is none"))
    one->flags |= 1u << 15;
  if (wrong("forgets the upper half of numbers"))
    one->u.message.sequence = (uint32_t)one->u.message.sequence;
  if (wrong("is off by one at 2^32") && one->u.message.sequence == UINT64_C(1) << 32)
    one->u.message.sequence--;
  unsigned int number;
  if (getenv("WRONG") && sscanf(getenv("WRONG"), "says 0 instead of %u", &number) == 1 &&
      one->u.message.sequence == number)
    one->u.message.sequence = 0;
  if (wrong("damages long messages") && one->u.message.length > 16384)
    ring_bytes[one->u.message.offset + 16384] ^= 1;
  if (one->u.message.length == 777 && wrong("mismeasures"))
    one->u.message.length++;
  if (wrong("reuses slots"))
    inner->release(worker, &one->u.message.token, 1);
}

/* The departure goes before the messages that came before it. */
static void depart_first(struct pst_completion *completions, int n)
{
  for (int i = n - 1; i > 0; i--)
    if (completions[i].kind == PST_COMPLETION_EVENT &&
        completions[i].code == PST_EVENT_DISCONNECTED) {
      const struct pst_completion departure = completions[i];
      memmove(completions + 1, completions, (size_t)i * sizeof(*completions));
      completions[0] = departure;
      return;
    }
}

static bool is_lost(const struct pst_completion *one)
{
  return one->kind == PST_COMPLETION_MESSAGE &&
         ((wrong("loses empty messages") && one->u.message.length == 0) ||
          (wrong("loses a message") && one->u.message.sequence == 2999) ||
          (wrong("loses messages") && one->u.message.sequence % 1000 == 999));
}

static int lose(struct pst_worker *worker, struct pst_completion *completions, int n)
{
  int kept = 0;
  for (int i = 0; i < n; i++)
    if (is_lost(&completions[i]))
      inner->release(worker, &completions[i].u.message.token, 1);
    else
      completions[kept++] = completions[i];
  return kept;
}

static int wrong_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  const struct timespec nap = {.tv_nsec = 3000000};
  if (wrong("naps in poll"))
    nanosleep(&nap, NULL);
  if (closes && now_ns() >= close_by_ns) {
    struct pst_endpoint *now = closes;
    closes = NULL;
    flushes_held = 0;
    inner->endpoint_close(now, close_mode, close_by_ns);
  }
  /* As of a transport whose peer answers a FLUSH when it polls. */
  drain_cancels |= worker == drains;
  drains = NULL;
  sends_polled = sends;
  int n = lose(worker, completions, inner->poll(worker, completions, max));
  if (wrong("tells departures first"))
    depart_first(completions, n);
  for (int i = 0; i < n; i++)
    tamper(worker, &completions[i]);
  if (wrong("reorders"))
    for (int i = 1; i < n; i++)
      if (completions[i].kind == PST_COMPLETION_MESSAGE &&
          completions[i - 1].kind == PST_COMPLETION_MESSAGE) {
        struct pst_completion one = completions[i];
        completions[i] = completions[i - 1];
        completions[i - 1] = one;
      }
  return n;
}

static int wrong_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  if (releases_lost) {
    releases_lost--;
    return 0;
  }
  int rc = inner->release(worker, tokens, n);
  return wrong("reuses slots") || wrong("takes any token") ? 0 : rc;
}

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(ops),
    .capabilities = PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_SEND |
                    PST_CAP_RELIABLE | PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_META |
                    PST_CAP_LEND | PST_CAP_SHARED_RING | PST_CAP_WAKEUP | PST_CAP_DYNAMIC,
    .open = wrong_open,
    .close = wrong_close,
    .limits = wrong_limits,
    .mr_register = wrong_mr_register,
    .mr_deregister = wrong_mr_deregister,
    .mr_pack = wrong_mr_pack,
    .remote_open = wrong_remote_open,
    .remote_close = wrong_remote_close,
    .worker_open = wrong_worker_open,
    .worker_close = wrong_worker_close,
    .arm = wrong_arm,
    .event_fd = wrong_event_fd,
    .ring_open = wrong_ring_open,
    .ring_close = wrong_ring_close,
    .endpoint_open = wrong_endpoint_open,
    .endpoint_address = wrong_endpoint_address,
    .endpoint_connect = wrong_endpoint_connect,
    .endpoint_path = wrong_endpoint_path,
    .endpoint_close = wrong_endpoint_close,
    .post = wrong_post,
    .poll = wrong_poll,
    .release = wrong_release,
    .start = wrong_start,
};

PST_PLUGIN(wrong_probe, &ops);
