/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-gpu: one stream within a process, from slots that are filled once into the memory
 * that a configuration names, by its own path, copied or by reference; and how many
 * messages a second have been there, and been released. With `verify`, every byte of
 * every message is checked where it is: a slot has always the message that it was filled
 * with, so that message s is the pattern of s modulo the slots. A stream that assembles
 * frames has its packets counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <penstock/penstock.h>

#define BATCH_MAX 4096u

struct bench {
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint32_t batch;
  bool verify;
  atomic_bool stop;
  uint64_t message, slots, filled;
  uint64_t received;
  struct pst_session *session;
};

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void die(const char *what, const char *why)
{
  fprintf(stderr, "bench-gpu: %s: %s\n", what, why);
  exit(1);
}

static void must(const char *what, int rc)
{
  if (rc < 0)
    die(what, strerror(-rc));
}

static void send_some(struct bench *b)
{
  static struct pst_slot slots[BATCH_MAX];
  int n = pst_sender_acquire(b->sender, slots, b->batch);
  must("acquire", n);
  if (n == 0)
    return;
  for (int i = 0; i < n; i++)
    slots[i].length = (uint32_t)b->message;
  if (b->filled < b->slots) {
    must("fill", pst_sender_fill(b->sender, slots, (uint32_t)n));
    b->filled += (uint32_t)n;
  }
  must("submit", pst_sender_submit(b->sender, slots, (uint32_t)n));
}

static int receive_frames(struct bench *b)
{
  static struct pst_frame frames[BATCH_MAX];
  struct pst_frame_batch batch = {
      .struct_size = sizeof(batch), .capacity = BATCH_MAX, .frames = frames};
  int n = pst_receiver_poll_frames(b->receiver, &batch), packets = 0;
  if (n <= 0)
    return n;
  for (int i = 0; i < n; i++)
    packets += (int)frames[i].present;
  must("release", pst_receiver_release_frames(b->receiver, frames, (uint32_t)n));
  b->received += (uint32_t)packets;
  return packets;
}

static int receive_some(struct bench *b)
{
  if (pst_receiver_frame_packets(b->receiver))
    return receive_frames(b);
  static struct pst_view views[BATCH_MAX];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = b->batch, .views = views};
  struct pst_fence *fence = NULL;
  int n = pst_receiver_poll(b->receiver, &batch);
  if (n <= 0)
    return n;
  if (b->verify) {
    for (int i = 0; i < n; i++)
      views[i].sequence &= b->slots - 1;
    int rc;
    while ((rc = pst_receiver_verify(b->receiver, views, (uint32_t)n, &fence)) == -EAGAIN)
      ;
    must("verify", rc);
  }
  must("release", fence ? pst_receiver_release_after(b->receiver, views, (uint32_t)n, fence)
                        : pst_receiver_release(b->receiver, views, (uint32_t)n));
  b->received += (uint32_t)n;
  return n;
}

/* Both ends on one thread, or the sender on one of its own. */
static void *send_all(void *argument)
{
  struct bench *b = argument;
  while (!atomic_load_explicit(&b->stop, memory_order_relaxed))
    send_some(b);
  must("finish", pst_sender_finish(b->sender));
  while (pst_sender_state(b->sender) < PST_STATE_ENDED)
    must("sender", pst_sender_poll(b->sender));
  return NULL;
}

static void end(struct bench *b, bool together)
{
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  uint64_t give_up = now_ns() + UINT64_C(10000000000);
  bool finished = false;
  atomic_store(&b->stop, true);
  if (together)
    must("finish", pst_sender_finish(b->sender));
  while (pst_receiver_state(b->receiver) < PST_STATE_ENDED && now_ns() < give_up) {
    if (together)
      must("sender", pst_sender_poll(b->sender));
    int rc = receive_some(b);
    if (rc == -ENODATA && !finished)
      finished = pst_receiver_finish(b->receiver) == 0;
    else if (rc != -ENODATA)
      must("receiver", rc);
  }
  if (b->verify)
    must("verified", pst_receiver_verified(b->receiver, &found));
  if (b->verify && (found.checked != b->received || found.corrupted))
    fprintf(stderr, "bench-gpu: %" PRIu64 " checked, %" PRIu64 " corrupted, %" PRIu64 " received\n",
            found.checked, found.corrupted, b->received);
  if (pst_receiver_state(b->receiver) != PST_STATE_ENDED ||
      (b->verify && (found.checked != b->received || found.corrupted)))
    die("the end", "not all of it came, or not as it was sent");
}

/* The file is the program's, too: what it does with the messages is passed over here. */
static const struct pst_config_map others[] = {
    {.name = "source", .place = PST_CONFIG_SENDER, .summary = "penstock's", .help = "penstock's"},
    {.name = "count", .place = PST_CONFIG_SENDER, .summary = "penstock's", .help = "penstock's"},
    {.name = "sink", .place = PST_CONFIG_RECEIVER, .summary = "penstock's", .help = "penstock's"},
    {.name = "count", .place = PST_CONFIG_RECEIVER, .summary = "penstock's", .help = "penstock's"},
    {.name = "expect", .place = PST_CONFIG_STREAM, .summary = "penstock's", .help = "penstock's"},
};
static const struct pst_config_program program = {.struct_size = sizeof(program),
                                                  .map_count = sizeof(others) / sizeof(others[0]),
                                                  .maps = others};

static int open_session(struct bench *b, char **argv, int argc)
{
  static const char *sets[64];
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config;
  struct pst_session *session;
  char ring[64], message[64];
  size_t count = 0;
  snprintf(ring, sizeof(ring), "streams.packets.ring=%" PRIu64, b->slots);
  snprintf(message, sizeof(message), "streams.packets.message=%" PRIu64, b->message);
  sets[count++] = ring;
  sets[count++] = message;
  for (int i = 7; i < argc && count < 64; i++)
    sets[count++] = argv[i];
  struct pst_session_params params = {.struct_size = sizeof(params),
                                      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  if (pst_config_program(&program) < 0 ||
      pst_config_open_file(argv[1], sets, count, &config, &error) < 0 ||
      pst_session_open(config, &params, &session, &error) < 0 ||
      pst_session_start(session, &error) < 0) {
    fprintf(stderr, "bench-gpu: %s\n", error.text);
    return error.exit_status;
  }
  pst_config_close(config); /* the session keeps what it needs */
  b->session = session;
  b->sender = pst_session_sender(session, "packets");
  b->receiver = pst_session_receiver(session, "packets");
  return b->sender && b->receiver ? 0 : 2;
}

int main(int argc, char **argv)
{
  if (argc < 7) {
    fprintf(stderr, "Usage: bench-gpu FILE SECONDS BATCH SLOTS BYTES verify|count [KEY=VALUE]…\n"
                    "The file's stream is called packets; KEY=VALUE as for --set.\n");
    return 2;
  }
  struct bench b = {.batch = (uint32_t)atoi(argv[3]),
                    .slots = strtoull(argv[4], NULL, 10),
                    .message = strtoull(argv[5], NULL, 10),
                    .verify = strcmp(argv[6], "verify") == 0};
  uint64_t run_ns = (uint64_t)(atof(argv[2]) * 1e9);
  if (b.batch == 0 || b.batch > BATCH_MAX || b.slots & (b.slots - 1))
    return 2;
  const char *plugins = getenv("PENSTOCK_PLUGINS");
  if (plugins)
    must("plugins", pst_plugin_path_add(plugins));
  int status = open_session(&b, argv, argc);
  if (status)
    return status;
  bool together = pst_sender_thread(b.sender) == pst_receiver_thread(b.receiver);
  pthread_t thread;
  if (!together)
    pthread_create(&thread, NULL, send_all, &b);
  uint64_t start = 0, from = 0, now;
  /* The first rounds fill the slots, and warm what there is to warm. */
  for (;;) {
    if (together)
      send_some(&b);
    int n = receive_some(&b);
    must("receiver", n);
    now = now_ns();
    if (start == 0 && b.received > 4 * b.slots) {
      start = now;
      from = b.received;
    }
    if (start && now - start >= run_ns)
      break;
  }
  double seconds = (double)(now - start) / 1e9, messages = (double)(b.received - from);
  end(&b, together);
  if (!together)
    pthread_join(thread, NULL);
  printf("%s, %s, batches of %u, %" PRIu64 " slots: %.3f M messages/s, %.2f GB/s\n", argv[6],
         together ? "one thread" : "two threads", b.batch, b.slots, messages / seconds / 1e6,
         messages * (double)b.message / seconds / 1e9);
  pst_session_close(b.session);
  return 0;
}
