/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream as fast as it goes, between two pinned processes or within one. The
 * sender submits what lies in its slots, the receiver reads a cache line of each
 * message; with --verify the sender fills and the receiver checks all of it. The
 * clock is the receiver's and runs from its first message after the warm-up to its
 * last.
 *
 * Prints one JSON object. Within a process one thread serves both ends in turn:
 * the functions send_some and receive_some are what instructions.py counts.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <penstock/penstock.h>

enum { BATCH_MAX = 256 };

struct plan {
  unsigned long size, ring, port, batch;
  unsigned long count; /* messages; 0: by `seconds` */
  double seconds, warm_up;
  int cpus[2]; /* sender, receiver; -1: not pinned */
  bool in_process, verify;
  const char *mode;
};

struct stream {
  const struct plan *plan;
  struct pst_config *config;
  struct pst_session *session;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent;
  double send_until; /* 0: not begun */
  uint64_t received, counted_from;
  double first_at, warm_at, last_at;
  uint64_t lines; /* of what was read, so that it is */
};

static double seconds_now(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void pin(int cpu)
{
  cpu_set_t cpus;

  if (cpu < 0)
    return;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) < 0)
    fprintf(stderr, "bench-stream: CPU %d: %s\n", cpu, strerror(errno));
}

static int open_stream(struct stream *stream, uint32_t roles)
{
  const struct plan *plan = stream->plan;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session_params params = {.struct_size = sizeof(params), .roles = roles};
  char text[512];

  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "control: {address: \"127.0.0.1:%lu\"}\n"
           "transport: {plugin: loopback, options: {mode: %s}}\n"
           "streams: [{name: bench, message: %lu B, ring: %lu}]\n",
           plan->port, plan->mode, plan->size, plan->ring);
  if (pst_config_open_text(text, strlen(text), "bench", NULL, 0, &stream->config, &error) < 0 ||
      pst_session_open(stream->config, &params, &stream->session, &error) < 0 ||
      pst_session_start(stream->session, &error) < 0)
    return error.code; /* it has been logged */
  stream->sender = pst_session_sender(stream->session, "bench");
  stream->receiver = pst_session_receiver(stream->session, "bench");
  return 0;
}

/* ---- Sending ------------------------------------------------------------------- */

static bool is_enough(const struct stream *stream)
{
  const struct plan *plan = stream->plan;

  if (plan->count)
    return stream->sent >= plan->count;
  return stream->send_until > 0 && seconds_now() >= stream->send_until;
}

/* One batch. 1: sent some, 0: no room, -errno. */
__attribute__((noinline)) static int send_some(struct stream *stream)
{
  const struct plan *plan = stream->plan;
  struct pst_slot slots[BATCH_MAX];
  int n = pst_sender_acquire(stream->sender, slots, (uint32_t)plan->batch);

  if (n <= 0)
    return n;
  for (int i = 0; i < n; i++)
    slots[i].length = (uint32_t)plan->size;
  if (plan->verify) {
    int rc = pst_sender_fill(stream->sender, slots, (uint32_t)n);
    if (rc < 0)
      return rc;
  }
  stream->sent += (uint64_t)n;
  int rc = pst_sender_submit(stream->sender, slots, (uint32_t)n);
  return rc < 0 ? rc : 1;
}

static int send_all(struct stream *stream)
{
  const struct plan *plan = stream->plan;
  uint32_t worker = pst_sender_worker(stream->sender);

  while (!is_enough(stream))
    for (int i = 0; i < 64; i++) { /* between looks at the clock */
      int rc = send_some(stream);
      if (rc < 0)
        return rc;
      if (rc == 0)
        pst_session_wait(stream->session, worker, NULL);
      else if (stream->send_until == 0)
        stream->send_until = seconds_now() + plan->warm_up + plan->seconds;
    }
  int rc = pst_sender_finish(stream->sender);
  while (rc == 0 && pst_sender_state(stream->sender) < PST_STATE_ENDED) {
    rc = pst_sender_poll(stream->sender);
    rc = rc < 0 ? rc : 0;
  }
  return rc;
}

/* ---- Receiving ------------------------------------------------------------------- */

static int check_views(struct stream *stream, const struct pst_view *views, uint32_t n)
{
  struct pst_fence *fence;
  int rc = pst_receiver_verify(stream->receiver, views, n, &fence);

  return rc < 0 ? rc : pst_receiver_release_after(stream->receiver, views, n, fence);
}

/* What has arrived: how many; -ENODATA: all has; -errno. */
static int take(struct stream *stream)
{
  struct pst_view views[BATCH_MAX];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH_MAX, .views = views};
  int n = pst_receiver_poll(stream->receiver, &batch);

  if (n <= 0)
    return n;
  if (stream->plan->verify) {
    int rc = check_views(stream, views, (uint32_t)n);
    return rc < 0 ? rc : n;
  }
  for (int i = 0; i < n; i++)
    stream->lines += *(const volatile uint8_t *)views[i].host;
  int rc = pst_receiver_release(stream->receiver, views, (uint32_t)n);
  return rc < 0 ? rc : n;
}

__attribute__((noinline)) static int receive_some(struct stream *stream)
{
  return take(stream);
}

static void count(struct stream *stream, uint64_t n)
{
  stream->received += n;
  stream->last_at = seconds_now();
  if (stream->first_at == 0)
    stream->first_at = stream->last_at;
  if (stream->warm_at == 0 && stream->last_at - stream->first_at >= stream->plan->warm_up) {
    stream->warm_at = stream->last_at;
    stream->counted_from = stream->received;
  }
}

static int end_receiving(struct stream *stream)
{
  struct pst_view views[1];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = views};
  int rc;

  /* With --verify the last releases wait for their checks, which polls watch. */
  do {
    pst_receiver_poll(stream->receiver, &batch);
    rc = pst_receiver_finish(stream->receiver);
  } while (rc == -EBUSY);
  while (rc == 0 && pst_receiver_state(stream->receiver) < PST_STATE_ENDED)
    pst_receiver_poll(stream->receiver, &batch);
  return rc;
}

static int receive_all(struct stream *stream)
{
  uint32_t worker = pst_receiver_worker(stream->receiver);
  int n;

  while ((n = receive_some(stream)) >= 0) {
    if (n == 0)
      pst_session_wait(stream->session, worker, NULL);
    else
      count(stream, (uint64_t)n);
  }
  return n == -ENODATA ? end_receiving(stream) : n;
}

static int report(const struct stream *stream)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};

  pst_receiver_stats(stream->receiver, &stats);
  uint64_t messages = stream->received - stream->counted_from;
  double seconds = stream->last_at - (stream->warm_at > 0 ? stream->warm_at : stream->first_at);
  if (stats.state != PST_STATE_ENDED || stats.corrupted ||
      (stream->plan->verify && stats.verified != stats.messages_delivered)) {
    fprintf(stderr, "bench-stream: %lu messages delivered, %lu checked, %lu corrupted: %s\n",
            stats.messages_delivered, stats.verified, stats.corrupted, stats.error_text);
    return 1;
  }
  printf("{\"messages\": %lu, \"seconds\": %.6f, \"messages_per_second\": %.1f, "
         "\"via\": \"%s\", \"carrier\": \"%s\", \"verified\": %lu}\n",
         messages, seconds, seconds > 0 ? (double)messages / seconds : 0.0, stats.path.via,
         stats.path.carrier, stats.verified);
  return 0;
}

static int fail(const char *what, int rc)
{
  fprintf(stderr, "bench-stream: %s: %s\n", what, strerror(-rc));
  return 1;
}

static void close_stream(struct stream *stream)
{
  pst_session_close(stream->session);
  pst_config_close(stream->config);
}

static int run_sender(const struct plan *plan)
{
  struct stream stream = {.plan = plan};

  pin(plan->cpus[0]);
  int rc = open_stream(&stream, PST_SESSION_SENDER);
  if (rc == 0)
    rc = send_all(&stream);
  close_stream(&stream);
  return rc < 0 ? fail("sender", rc) : 0;
}

static int run_receiver(const struct plan *plan)
{
  struct stream stream = {.plan = plan};

  pin(plan->cpus[1]);
  int rc = open_stream(&stream, PST_SESSION_RECEIVER);
  if (rc == 0)
    rc = receive_all(&stream);
  int status = rc < 0 ? fail("receiver", rc) : report(&stream);
  close_stream(&stream);
  return status;
}

static int run_processes(const struct plan *plan)
{
  int status = 0;
  pid_t child = fork();

  if (child < 0)
    return fail("fork", -errno);
  if (child == 0)
    _exit(run_sender(plan));
  int result = run_receiver(plan);
  waitpid(child, &status, 0);
  return result || status ? 1 : 0;
}

/* Until the ends are connected nothing is counted, by anybody. */
static int turn_until_connected(struct stream *stream)
{
  while (pst_sender_state(stream->sender) == PST_STATE_WAITING ||
         pst_receiver_state(stream->receiver) == PST_STATE_WAITING) {
    struct pst_view view;
    struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
    int rc = pst_sender_poll(stream->sender);
    if (rc >= 0)
      rc = pst_receiver_poll(stream->receiver, &batch);
    if (rc < 0)
      return rc;
    pst_session_wait(stream->session, 0, NULL);
  }
  return 0;
}

static int turn(struct stream *stream)
{
  const struct plan *plan = stream->plan;
  int rc = turn_until_connected(stream);

  stream->send_until = seconds_now() + plan->warm_up + plan->seconds;
  while (rc >= 0 && !is_enough(stream))
    for (int i = 0; rc >= 0 && i < 64; i++) {
      rc = send_some(stream);
      if (rc >= 0)
        rc = receive_some(stream);
      if (rc > 0)
        count(stream, (uint64_t)rc);
    }
  /* From here on, how often is looked depends on the control channel. */
  if (rc >= 0)
    rc = pst_sender_finish(stream->sender);
  while (rc >= 0) {
    pst_sender_poll(stream->sender);
    rc = take(stream);
    if (rc > 0)
      count(stream, (uint64_t)rc);
  }
  if (rc != -ENODATA)
    return rc;
  while ((rc = pst_receiver_finish(stream->receiver)) == -EBUSY)
    take(stream);
  while (rc == 0 && (pst_receiver_state(stream->receiver) < PST_STATE_ENDED ||
                     pst_sender_state(stream->sender) < PST_STATE_ENDED)) {
    pst_sender_poll(stream->sender);
    take(stream);
  }
  return rc;
}

static int run_in_process(const struct plan *plan)
{
  struct stream stream = {.plan = plan};

  pin(plan->cpus[0]);
  int rc = open_stream(&stream, PST_SESSION_SENDER | PST_SESSION_RECEIVER);
  if (rc == 0)
    rc = turn(&stream);
  int status = rc < 0 ? fail("stream", rc) : report(&stream);
  close_stream(&stream);
  return status;
}

static int usage(void)
{
  fprintf(stderr,
          "usage: bench-stream --size BYTES --ring SLOTS --port PORT [--seconds S | --count "
          "N] [--warm-up S] [--cpus SENDER,RECEIVER] [--batch N] [--in-process] "
          "[--mode copy|reference] [--verify]\n");
  return 2;
}

int main(int argc, char **argv)
{
  static const struct option options[] = {
      {"size", required_argument, NULL, 's'},  {"ring", required_argument, NULL, 'r'},
      {"port", required_argument, NULL, 'p'},  {"seconds", required_argument, NULL, 't'},
      {"count", required_argument, NULL, 'n'}, {"warm-up", required_argument, NULL, 'w'},
      {"cpus", required_argument, NULL, 'c'},  {"batch", required_argument, NULL, 'b'},
      {"in-process", no_argument, NULL, 'i'},  {"mode", required_argument, NULL, 'm'},
      {"verify", no_argument, NULL, 'v'},      {NULL, 0, NULL, 0},
  };
  struct plan plan = {
      .batch = 32, .seconds = 0.5, .warm_up = 0.1, .cpus = {-1, -1}, .mode = "copy"};
  int option;

  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    switch (option) {
    case 's':
      plan.size = strtoul(optarg, NULL, 10);
      break;
    case 'r':
      plan.ring = strtoul(optarg, NULL, 10);
      break;
    case 'p':
      plan.port = strtoul(optarg, NULL, 10);
      break;
    case 't':
      plan.seconds = strtod(optarg, NULL);
      break;
    case 'n':
      plan.count = strtoul(optarg, NULL, 10);
      break;
    case 'w':
      plan.warm_up = strtod(optarg, NULL);
      break;
    case 'b':
      plan.batch = strtoul(optarg, NULL, 10);
      break;
    case 'i':
      plan.in_process = true;
      break;
    case 'm':
      plan.mode = optarg;
      break;
    case 'v':
      plan.verify = true;
      break;
    case 'c':
      if (sscanf(optarg, "%d,%d", &plan.cpus[0], &plan.cpus[1]) != 2)
        return usage();
      break;
    default:
      return usage();
    }
  }
  if (optind != argc || !plan.size || !plan.ring || !plan.port || !plan.batch ||
      plan.batch > BATCH_MAX)
    return usage();
  return plan.in_process ? run_in_process(&plan) : run_processes(&plan);
}
