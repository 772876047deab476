/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COUNT messages through loopback or another transport, both ends served in turn by one thread: the
 * functions send_some and receive_some are what instructions.py counts, and nothing in them depends
 * on the time. How fast it goes is for `penstock bench` to say.
 *
 * usage: bench-turn SIZE SLOTS COUNT PORT [TRANSPORT [staged]]
 * staged: by way of staging slots, and every byte verified where it is then.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

enum { BATCH = 32, ROOM = 256 };

struct stream {
  unsigned long size, count;
  bool staged;
  struct pst_config *config;
  struct pst_session *session;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent, received;
  uint64_t lines; /* of what was read, so that it is */
};

static int open_stream(struct stream *stream, unsigned long slots, unsigned long port,
                       const char *transport)
{
  const struct pst_session_params params = {.struct_size = sizeof(params),
                                            .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  char text[512];

  /* No heartbeat comes between: there would be more of them where a CPU is waited for. */
  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "control: {address: \"127.0.0.1:%lu\", heartbeat: 10 min}\n"
           "transport: %s\n"
           "streams: [{name: bench, message: %lu B, ring: %lu, timeout: 1 h, "
           "receiver: {path: %s}}]\n",
           port, transport, stream->size, slots, stream->staged ? "staged" : "auto");
  if (pst_config_open_text(text, strlen(text), "bench", NULL, 0, &stream->config, &error) < 0 ||
      pst_session_open(stream->config, &params, &stream->session, &error) < 0 ||
      pst_session_start(stream->session, &error) < 0)
    return error.code; /* it has been logged */
  stream->sender = pst_session_sender(stream->session, "bench");
  stream->receiver = pst_session_receiver(stream->session, "bench");
  return 0;
}

/* One batch. 1: sent some, 0: no room, -errno. */
__attribute__((noinline)) static int send_some(struct stream *stream)
{
  struct pst_slot slots[ROOM];
  int n = pst_sender_acquire(stream->sender, slots, BATCH);

  if (n <= 0)
    return n;
  for (int i = 0; i < n; i++)
    slots[i].length = (uint32_t)stream->size;
  stream->sent += (uint64_t)n;
  int rc = stream->staged ? pst_sender_fill(stream->sender, slots, (uint32_t)n) : 0;
  if (rc == 0)
    rc = pst_sender_submit(stream->sender, slots, (uint32_t)n);
  return rc < 0 ? rc : 1;
}

/* Takes the messages that have arrived: how many; -ENODATA: all have; -errno. */
static int take(struct stream *stream)
{
  struct pst_view views[ROOM];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = ROOM, .views = views};
  int n = pst_receiver_poll(stream->receiver, &batch);

  if (n <= 0)
    return n;
  struct pst_fence *fence = NULL;
  int rc = 0;
  if (stream->staged)
    rc = pst_receiver_verify(stream->receiver, views, (uint32_t)n, &fence);
  for (int i = 0; i < n && !stream->staged; i++)
    stream->lines += *(const volatile uint8_t *)views[i].host;
  stream->received += (uint64_t)n;
  if (rc == 0)
    rc = pst_receiver_release_after(stream->receiver, views, (uint32_t)n, fence);
  return rc < 0 ? rc : n;
}

__attribute__((noinline)) static int receive_some(struct stream *stream)
{
  return take(stream);
}

/* Until the ends are connected nothing is counted. */
static int turn_until_connected(struct stream *stream)
{
  while (pst_sender_state(stream->sender) == PST_STATE_WAITING ||
         pst_receiver_state(stream->receiver) == PST_STATE_WAITING) {
    int rc = pst_sender_poll(stream->sender);
    if (rc >= 0)
      rc = take(stream);
    if (rc < 0)
      return rc;
  }
  return 0;
}

/* From here on, how often is looked depends on the control channel. */
static int end_stream(struct stream *stream)
{
  int rc = pst_sender_finish(stream->sender);

  while (rc >= 0) {
    pst_sender_poll(stream->sender);
    rc = take(stream);
  }
  if (rc != -ENODATA)
    return rc;
  rc = pst_receiver_finish(stream->receiver);
  while (rc == 0 && (pst_receiver_state(stream->receiver) < PST_STATE_ENDED ||
                     pst_sender_state(stream->sender) < PST_STATE_ENDED)) {
    pst_sender_poll(stream->sender);
    take(stream);
  }
  return rc;
}

static int turn(struct stream *stream)
{
  int rc = turn_until_connected(stream);

  while (rc >= 0 && stream->sent < stream->count)
    for (int i = 0; rc >= 0 && i < 64; i++) {
      rc = send_some(stream);
      if (rc >= 0)
        rc = receive_some(stream);
    }
  return rc < 0 ? rc : end_stream(stream);
}

int main(int argc, char **argv)
{
  struct stream stream = {.size = 0};

  if (argc < 5 || argc > 7) {
    fprintf(stderr, "usage: bench-turn SIZE SLOTS COUNT PORT [TRANSPORT [staged]]\n");
    return 2;
  }
  stream.size = strtoul(argv[1], NULL, 10);
  stream.count = strtoul(argv[3], NULL, 10);
  stream.staged = argc == 7;
  int rc = open_stream(&stream, strtoul(argv[2], NULL, 10), strtoul(argv[4], NULL, 10),
                       argc > 5 ? argv[5] : "{plugin: loopback, options: {mode: copy}}");
  if (rc == 0)
    rc = turn(&stream);
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  if (rc == 0 && stream.staged)
    rc = pst_receiver_verified(stream.receiver, &found);
  if (rc == 0 && stream.staged && (found.checked != stream.received || found.corrupted))
    rc = -EBADMSG;
  if (rc < 0)
    fprintf(stderr, "bench-turn: %s\n", strerror(-rc));
  else if (stream.received != stream.sent)
    fprintf(stderr, "bench-turn: %lu messages sent, %lu received\n", stream.sent, stream.received);
  pst_session_close(stream.session);
  pst_config_close(stream.config);
  return rc < 0 || stream.received != stream.sent;
}
