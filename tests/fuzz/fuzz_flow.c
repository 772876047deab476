/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receiver's control channel with two peers that say anything, in any order: messages of every
 * type, raw bodies, and what the receiver itself says in between. A stream has one peer, one
 * FINISH, one COUNTS and one failure, in this order, whatever comes; every connection ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/messages.h"
#include "require.h"
#include "util/log.h"

#define STREAMS 2u
#define PEERS 2u
#define OPERATIONS_MAX 64u

struct seen {
  uint32_t peers, finishes, counts, fails;
};

static struct seen seen[STREAMS];
static struct control *control;
static const char *const names[STREAMS + 1] = {"a", "b", "c"};
static uint8_t frame[WIRE_FRAME_MAX];
static struct wire_message message;
static const uint8_t *input, *input_end;

static void on_heard(void *context, void *stream, const struct control_stream_message *heard)
{
  struct seen *s = stream;
  (void)context;
  switch (heard->type) {
  case CONTROL_HEARD_PEER:
    REQUIRE(s->peers++ == 0 && s->fails == 0);
    break;
  case CONTROL_HEARD_ADDRESS:
    REQUIRE(s->peers == 1 && s->fails == 0);
    break;
  case CONTROL_HEARD_BEAT:
    REQUIRE(s->peers == 1 && s->fails == 0 && heard->totals->drop_count <= 16);
    break;
  case CONTROL_HEARD_FINISH:
    REQUIRE(s->peers == 1 && s->finishes++ == 0 && s->fails == 0);
    break;
  case CONTROL_HEARD_COUNTS:
    REQUIRE(s->finishes == 1 && s->counts++ == 0 && s->fails == 0);
    break;
  case CONTROL_HEARD_FAIL:
    REQUIRE(heard->code < 0 && heard->text[0] != '\0' && s->fails++ == 0);
    break;
  case CONTROL_HEARD_LAST:
    break;
  }
}

static uint32_t take(void)
{
  return input < input_end ? *input++ : 0;
}

static void fill(uint32_t type)
{
  static const uint8_t address[64];
  memset(&message, 0, sizeof(message));
  message.type = type;
  if (type == WIRE_HELLO) {
    message.major = WIRE_MAJOR;
    message.role = take() % 8;
    message.pid = take();
    snprintf(message.host, sizeof(message.host), "fuzz");
    snprintf(message.library, sizeof(message.library), "0");
    message.has_identity = take() != 255;
  }
  snprintf(message.stream, sizeof(message.stream), "%s", names[take() % (STREAMS + 1)]);
  if (take() % 4 == 0) {
    message.term_count = message.param_count = 1;
    snprintf(message.terms[0].key, sizeof(message.terms[0].key), "k");
    snprintf(message.params[0].key, sizeof(message.params[0].key), "p");
  }
  message.blob = address;
  message.blob_length = take() % (sizeof(address) + 1);
  message.fd_count = take() == 255;
  message.fd_id = message.fd_count;
  message.region_length = take();
  message.region_id = take() % 4;
  message.access = take();
  message.totals.messages = take();
  message.totals.last_sequence = take();
  message.has_totals = take() & 1;
  message.code = -(int)(take() % 120);
  snprintf(message.text, sizeof(message.text), "because");
}

static void say(int fd, uint32_t type)
{
  size_t length = 0;
  fill(type);
  if (wire_encode(&message, frame, sizeof(frame), &length) == 0)
    (void)!send(fd, frame, length, MSG_NOSIGNAL);
}

static void say_raw(int fd)
{
  uint32_t length = take();
  if (length > (size_t)(input_end - input))
    length = (uint32_t)(input_end - input);
  const uint8_t head[WIRE_HEADER_BYTES] = {0, 0, 0, (uint8_t)length};
  (void)!send(fd, head, sizeof(head), MSG_NOSIGNAL);
  (void)!send(fd, input, length, MSG_NOSIGNAL);
  input += length;
}

static int meet(void)
{
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons(control_port(control)),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
  memset(&message, 0, sizeof(message));
  return fd;
}

static void say_hello(int fd)
{
  size_t length = 0;
  message = (struct wire_message){
      .type = WIRE_HELLO, .major = WIRE_MAJOR, .role = WIRE_SENDER, .has_identity = true};
  snprintf(message.host, sizeof(message.host), "fuzz");
  snprintf(message.library, sizeof(message.library), "0");
  REQUIRE(wire_encode(&message, frame, sizeof(frame), &length) == 0);
  (void)!send(fd, frame, length, MSG_NOSIGNAL);
}

/* Makes this side say something, which may be at any time. */
static void speak(void)
{
  const struct control_totals totals = {.messages = take()};
  struct seen *stream = &seen[take() % STREAMS];
  switch (take() % 3) {
  case 0:
    control_beat(control, stream, &totals);
    break;
  case 1:
    control_counts(control, stream, &totals);
    break;
  default:
    control_fail(control, stream, -EIO, "it has failed here", &totals);
  }
}

/* Closes this side and waits until the other has closed: then it has read all bytes. */
static void part(int fd)
{
  char sink[4096];
  shutdown(fd, SHUT_WR);
  while (recv(fd, sink, sizeof(sink), 0) > 0)
    ;
  close(fd);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  const struct control_params params = {.listen = "127.0.0.1:0",
                                        .insecure = true,
                                        .connect_timeout_ns = UINT64_C(60000000000),
                                        .heartbeat_ns = UINT64_C(20000000000),
                                        .peer_timeout_ns = UINT64_C(60000000000)};
  const struct control_callbacks callbacks = {.heard = on_heard};
  static uint8_t address[16];
  struct control_stream streams[STREAMS];
  struct pst_error error = PST_ERROR_INIT;
  int fds[PEERS];
  for (uint32_t i = 0; i < STREAMS; i++)
    streams[i] = (struct control_stream){
        .name = names[i],
        .context = &seen[i],
        .role = &stream_receiver,
        .address = {.struct_size = sizeof(struct pst_blob), .bytes = address, .length = 16}};
  input = data;
  input_end = data + size;
  memset(seen, 0, sizeof(seen));
  REQUIRE(control_open(&params, &callbacks, streams, STREAMS, &control, &error) == 0);
  for (uint32_t i = 0; i < PEERS; i++) {
    fds[i] = meet();
    if (take() != 255)
      say_hello(fds[i]);
  }
  for (uint32_t i = 0; i < OPERATIONS_MAX && input < input_end; i++) {
    uint32_t what = take();
    uint32_t type = (what >> 1) % (WIRE_TYPES + 2);
    if (type == WIRE_TYPES)
      speak();
    else if (type == 0 || type > WIRE_TYPES)
      say_raw(fds[what % PEERS]);
    else
      say(fds[what % PEERS], type);
  }
  for (uint32_t i = 0; i < PEERS; i++)
    part(fds[i]);
  control_close(control);
  return 0;
}
