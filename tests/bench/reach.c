/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COUNT WRITEs or READs over loopback, one at a time, both ends served by one thread: the function
 * reach_some is what instructions.py counts, and nothing in it depends on the time. How fast it
 * goes is for `penstock bench` to say.
 *
 * usage: bench-reach write|read SIZE COUNT PORT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#define REGION_BYTES (1ul << 20)

struct stream {
  unsigned long size, count, done;
  uint8_t op;
  struct pst_config *config;
  struct pst_session *session;
  struct pst_initiator *initiator;
  struct pst_target *target;
};

static int open_stream(struct stream *stream, unsigned long port)
{
  const struct pst_session_params params = {.struct_size = sizeof(params),
                                            .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  char text[512];

  /* No heartbeat comes between: there would be more of them where a CPU is waited for. */
  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "control: {address: \"127.0.0.1:%lu\", heartbeat: 10 min}\n"
           "transport: loopback\n"
           "streams: [{name: bench, region: %lu B, timeout: 1 h}]\n",
           port, REGION_BYTES);
  if (pst_config_open_text(text, strlen(text), "bench", NULL, 0, &stream->config, &error) < 0 ||
      pst_session_open(stream->config, &params, &stream->session, &error) < 0 ||
      pst_session_start(stream->session, &error) < 0)
    return error.code; /* it has been logged */
  stream->initiator = pst_session_initiator(stream->session, "bench");
  stream->target = pst_session_target(stream->session, "bench");
  return 0;
}

/* One transfer, from its post to its end. */
__attribute__((noinline)) static int reach_some(struct stream *stream)
{
  const struct pst_transfer transfer = {.op = stream->op, .length = stream->size};
  struct pst_transfer_done done;
  int rc = pst_initiator_post(stream->initiator, &transfer, 1);

  while (rc >= 0 && (rc = pst_initiator_poll(stream->initiator, &done, 1)) == 0)
    ;
  if (rc < 0 || done.status < 0)
    return rc < 0 ? rc : done.status;
  stream->done++;
  return 0;
}

static int reach_all(struct stream *stream)
{
  int rc = 0;

  while (rc >= 0 && (pst_initiator_state(stream->initiator) == PST_STATE_WAITING ||
                     pst_target_state(stream->target) == PST_STATE_WAITING)) {
    rc = pst_initiator_poll(stream->initiator, NULL, 0);
    if (rc >= 0)
      rc = pst_target_poll(stream->target);
  }
  while (rc >= 0 && stream->done < stream->count)
    rc = reach_some(stream);
  return rc;
}

/* From here on, how often is looked depends on the control channel. */
static int end_stream(struct stream *stream)
{
  int rc = pst_initiator_finish(stream->initiator);

  while (rc >= 0 && (pst_initiator_state(stream->initiator) < PST_STATE_ENDED ||
                     pst_target_state(stream->target) < PST_STATE_ENDED)) {
    rc = pst_initiator_poll(stream->initiator, NULL, 0);
    int ended = rc >= 0 ? pst_target_poll(stream->target) : 0;
    if (ended == -ENODATA)
      pst_target_finish(stream->target);
    else if (ended < 0)
      rc = ended;
  }
  return rc;
}

int main(int argc, char **argv)
{
  struct stream stream = {.op = PST_OP_WRITE};

  if (argc != 5) {
    fprintf(stderr, "usage: bench-reach write|read SIZE COUNT PORT\n");
    return 2;
  }
  if (strcmp(argv[1], "read") == 0)
    stream.op = PST_OP_READ;
  stream.size = strtoul(argv[2], NULL, 10);
  stream.count = strtoul(argv[3], NULL, 10);
  int rc = open_stream(&stream, strtoul(argv[4], NULL, 10));
  if (rc == 0)
    rc = reach_all(&stream);
  if (rc >= 0)
    rc = end_stream(&stream);
  if (rc < 0)
    fprintf(stderr, "bench-reach: %s\n", strerror(-rc));
  pst_session_close(stream.session);
  pst_config_close(stream.config);
  return rc < 0;
}
