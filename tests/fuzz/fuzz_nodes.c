/* SPDX-License-Identifier: Apache-2.0 */
/* A node's control channel with peers that say anything, in any order: two that come, which pass
 * real descriptors by the Unix socket, and one that is connected to. The node's answers are sent in
 * between. A peer comes once and goes once; regions and their answers come only of one that has
 * joined, within the limits; every descriptor is closed in the end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/messages.h"
#include "control/nodes.h"
#include "require.h"
#include "util/log.h"

#define COMING 2u
#define PEERS (COMING + 1)
#define IDS 8u
#define OFFERS 3u
#define REGIONS 4u /* numbers from 1 on that a peer uses */
#define OPERATIONS_MAX 64u
#define DESCRIPTORS_MAX 256
#define PATIENCE_S 20
#define ANSWER_MS 20

/* Messages that the node has heard of one peer; the control thread's own. */
struct seen {
  bool is_here, has_joined, is_gone;
  bool on_offer[REGIONS + 1], may_go[REGIONS + 1];
  uint32_t offered, answers;
};

static struct seen seen[IDS];
static atomic_uint joined;     /* ids that a region may be offered to, as bits */
static atomic_uint asked[IDS]; /* regions that were */
static struct control *control;
static uint8_t frame[WIRE_FRAME_MAX];
static struct wire_message message;
static const uint8_t *input, *input_end;
static int shared_fd = -1; /* what peers pass */

struct end {
  int fd, side;
  uint64_t fd_id;
};

static uint32_t take(void)
{
  return input < input_end ? *input++ : 0;
}

/* ---- The node ------------------------------------------------------------------------ */

/* Those that come are 1, 3, …; the one that is connected to is 2. */
static struct seen *seen_of(uint64_t id)
{
  REQUIRE(id > 0 && id < IDS);
  REQUIRE(!seen[id].is_gone);
  return &seen[id];
}

static void check_blob(const struct pst_blob *blob)
{
  REQUIRE(blob->fd_count <= WIRE_FDS_MAX && blob->length <= CONTROL_ADDRESS_MAX);
  for (uint32_t i = 0; i < blob->fd_count; i++)
    REQUIRE(fcntl(blob->fds[i], F_GETFD) >= 0);
}

static struct pst_blob own_blob(uint32_t fd_count)
{
  static uint8_t bytes[16];
  return (struct pst_blob){.struct_size = sizeof(struct pst_blob),
                           .bytes = bytes,
                           .length = sizeof(bytes),
                           .fd_count = fd_count,
                           .fds = {shared_fd, shared_fd}};
}

static void answer(enum wire_type type, uint64_t id, uint32_t region, int code, const char *text)
{
  const struct pst_blob address = own_blob(1);
  control_node_say(control,
                   &(struct control_node_message){.type = type,
                                                  .id = id,
                                                  .region = region,
                                                  .code = code,
                                                  .text = text,
                                                  .blob = type == WIRE_WELCOME ? &address : NULL});
}

/* As a node does: one in four is turned away. */
static void on_join(struct seen *s, const struct control_node_message *m)
{
  REQUIRE(m->id % 2 == 1 && !s->is_here && m->peer->text[0]);
  check_blob(m->blob);
  s->is_here = true;
  if (m->blob->length % 4 == 3) {
    answer(WIRE_BYE, m->id, 0, -EBUSY, "not now");
    return;
  }
  s->has_joined = true;
  answer(WIRE_WELCOME, m->id, 0, 0, NULL);
  atomic_fetch_or(&joined, 1u << m->id);
}

static void on_welcome(struct seen *s, const struct control_node_message *m)
{
  REQUIRE(m->id % 2 == 0 && !s->has_joined);
  check_blob(m->blob);
  s->is_here = s->has_joined = true;
  atomic_fetch_or(&joined, 1u << m->id);
}

/* Taken, refused, or not answered, as its length says. */
static void on_region(struct seen *s, const struct control_node_message *m)
{
  REQUIRE(s->has_joined && m->region >= 1 && m->region <= REGIONS);
  REQUIRE(!s->on_offer[m->region]);
  check_blob(m->blob);
  REQUIRE(++s->offered <= OFFERS);
  s->on_offer[m->region] = true;
  s->may_go[m->region] = true;
  if (m->length % 3 == 0) {
    answer(WIRE_TAKEN, m->id, m->region, 0, "");
  } else if (m->length % 3 == 1) {
    s->on_offer[m->region] = false;
    s->offered--;
    answer(WIRE_TAKEN, m->id, m->region, -ENOSPC, "no room");
  }
}

static void on_taken(struct seen *s, const struct control_node_message *m)
{
  REQUIRE(++s->answers <= atomic_load(&asked[m->id]));
  REQUIRE(s->has_joined && m->code <= 0 && strlen(m->text) <= WIRE_TEXT_MAX);
}

static void on_withdraw(struct seen *s, const struct control_node_message *m)
{
  REQUIRE(s->has_joined && m->region >= 1 && m->region <= REGIONS);
  REQUIRE(s->may_go[m->region]);
  s->may_go[m->region] = false;
  /* The offer may have been refused, in a message that crossed this one. */
  if (!s->on_offer[m->region])
    return;
  s->on_offer[m->region] = false;
  s->offered--;
  answer(WIRE_KEEP, m->id, m->region, 0, NULL);
}

static void on_gone(struct seen *s, const struct control_node_message *m)
{
  REQUIRE(m->code <= 0 && m->text[0]);
  REQUIRE(m->id % 2 == 0 || s->is_here);
  s->is_gone = true;
  atomic_fetch_and(&joined, ~(1u << m->id));
}

static void on_message(void *context, const struct control_node_message *m)
{
  struct seen *s = seen_of(m->id);
  (void)context;
  switch (m->type) {
  case WIRE_JOIN:
    on_join(s, m);
    break;
  case WIRE_WELCOME:
    on_welcome(s, m);
    break;
  case WIRE_REGION:
    on_region(s, m);
    break;
  case WIRE_TAKEN:
    on_taken(s, m);
    break;
  case WIRE_WITHDRAW:
    on_withdraw(s, m);
    break;
  case WIRE_READDRESS:
    REQUIRE(s->has_joined);
    check_blob(m->blob);
    break;
  case WIRE_BYE:
    on_gone(s, m);
    break;
  default: /* this node has a transport, over which messages go */
    REQUIRE(false);
  }
}

/* Makes this side say something to a peer that it may have lost by now. */
static void speak(void)
{
  const struct pst_blob blob = own_blob(take() % 3);
  const uint32_t what = take(), number = 1 + what / 8 % REGIONS;
  const uint32_t access = take();
  uint64_t id = 1 + take() % (IDS - 1);
  if (!(atomic_load(&joined) & 1u << id))
    id = 1;
  struct control_node_message said = {
      .id = id, .region = number, .access = access, .length = 4096, .blob = &blob};
  switch (what % 4) {
  case 0:
    atomic_fetch_add(&asked[id], 1);
    said.type = WIRE_REGION;
    control_node_say(control, &said);
    break;
  case 1:
    answer(WIRE_WITHDRAW, id, number, 0, NULL);
    break;
  case 2:
    said.type = WIRE_READDRESS;
    control_node_say(control, &said);
    break;
  default:
    if (what % 8 == 7)
      answer(WIRE_BYE, id, 0, what & 64 ? -EIO : 0, "that is all");
  }
}

/* ---- The peers ----------------------------------------------------------------------- */

static void fill(uint32_t type)
{
  static const uint8_t bytes[64];
  memset(&message, 0, sizeof(message));
  message.type = type;
  if (type == WIRE_HELLO) {
    message.major = WIRE_MAJOR;
    message.role = take() % 8;
    message.has_identity = take() != 255;
    snprintf(message.host, sizeof(message.host), "fuzz");
    snprintf(message.library, sizeof(message.library), "0");
  }
  snprintf(message.stream, sizeof(message.stream), "a");
  message.term_count = message.param_count = take() % 8 == 7;
  snprintf(message.terms[0].key, sizeof(message.terms[0].key), "k");
  snprintf(message.params[0].key, sizeof(message.params[0].key), "p");
  message.blob = bytes;
  message.blob_length = take() % (sizeof(bytes) + 1);
  message.region_id = 1 + take() % REGIONS;
  message.access = take();
  if (type == WIRE_REGION) {
    message.region_length = 1 + take();
    message.blob_length = 8;
  }
  message.code = -(int)(take() % 120);
  snprintf(message.text, sizeof(message.text), "because");
}

static void say_frame(struct end *end)
{
  size_t length = 0;
  if (wire_encode(&message, frame, sizeof(frame), &length) == 0)
    (void)!send(end->fd, frame, length, MSG_NOSIGNAL);
}

/* Descriptors go ahead, as many as the frame says, or not. */
static void pass(struct end *end, uint32_t how)
{
  struct unix_fds batch = {.count = how % 4};
  message.fd_count = batch.count;
  message.fd_id = ++end->fd_id;
  batch.id = message.fd_id + (how & 64 ? 1 : 0);
  batch.count += how & 128 ? 1 : 0;
  for (uint32_t i = 0; i < batch.count; i++)
    batch.fds[i] = shared_fd;
  if (batch.count > 0 && end->side >= 0)
    unix_send_fds(end->side, &batch);
}

static bool hear(int fd, void *bytes, size_t length)
{
  return recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

/* The node's next frame. */
static bool hear_frame(const struct end *end)
{
  char why[WIRE_WHY_MAX];
  uint8_t head[WIRE_HEADER_BYTES];
  if (!hear(end->fd, head, sizeof(head)))
    return false;
  const uint32_t length = (uint32_t)head[2] << 8 | head[3];
  REQUIRE(head[0] == 0 && head[1] == 0);
  return hear(end->fd, frame, length) && wire_decode(frame, length, &message, why) == 0;
}

/* Reads frames until the answer to JOIN: the node ignores messages behind JOIN until it has
 * answered. There may be no answer. */
static void hear_welcome(const struct end *end)
{
  struct pollfd wait = {.fd = end->fd, .events = POLLIN};
  while (poll(&wait, 1, ANSWER_MS) == 1 && hear_frame(end))
    if (message.type == WIRE_WELCOME || message.type == WIRE_BYE)
      return;
}

static void say(struct end *end, uint32_t type)
{
  fill(type);
  pass(end, take());
  say_frame(end);
  if (type == WIRE_JOIN)
    hear_welcome(end);
}

static void say_raw(struct end *end)
{
  uint32_t length = take();
  const bool by_side = length & 1;
  if (length > (size_t)(input_end - input))
    length = (uint32_t)(input_end - input);
  const uint8_t head[WIRE_HEADER_BYTES] = {0, 0, 0, (uint8_t)length};
  if (by_side && end->side >= 0) {
    (void)!send(end->side, input, length, MSG_NOSIGNAL);
  } else {
    (void)!send(end->fd, head, sizeof(head), MSG_NOSIGNAL);
    (void)!send(end->fd, input, length, MSG_NOSIGNAL);
  }
  input += length;
}

static void say_hello(struct end *end)
{
  memset(&message, 0, sizeof(message));
  message.type = WIRE_HELLO;
  message.major = WIRE_MAJOR;
  message.role = WIRE_NODE;
  message.has_identity = true;
  snprintf(message.host, sizeof(message.host), "fuzz");
  snprintf(message.library, sizeof(message.library), "0");
  say_frame(end);
}

/* By the Unix socket, until the node has answered there, or will not. */
static void claim(struct end *end)
{
  struct unix_claim own, answer;
  uint32_t uid = 0;
  if (!hear_frame(end) || !message.has_token)
    return;
  end->side = unix_connect(message.unix_path, false, &uid);
  if (end->side < 0)
    return;
  struct pollfd wait = {.fd = end->side, .events = POLLIN};
  if (unix_claim_make(end->fd, true, message.token, &own) < 0 ||
      unix_send_claim(end->side, &own) < 0 || poll(&wait, 1, PATIENCE_S * 1000) != 1 ||
      unix_receive_claim(end->side, &answer) < 0) {
    close(end->side);
    end->side = -1;
  }
}

static int new_socket(void)
{
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  return fd;
}

static struct end come(void)
{
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons(control_port(control)),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct end end = {.fd = new_socket(), .side = -1};
  const uint32_t how = take();
  REQUIRE(connect(end.fd, (struct sockaddr *)&to, sizeof(to)) == 0);
  if (how % 4 != 0)
    claim(&end);
  if (how != 255)
    say_hello(&end);
  return end;
}

/* The node connects to this one. */
static struct end be_found(void)
{
  const struct pst_blob address = own_blob(1);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(at);
  struct pst_error error = PST_ERROR_INIT;
  struct end end = {.side = -1};
  char target[32];
  int listener = new_socket();
  REQUIRE(bind(listener, (struct sockaddr *)&at, length) == 0 && listen(listener, 1) == 0);
  REQUIRE(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
  snprintf(target, sizeof(target), "127.0.0.1:%u", ntohs(at.sin_port));
  REQUIRE(control_node_connect(control, 2, target, true, &address, &error) == 0);
  end.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  REQUIRE(end.fd >= 0);
  close(listener);
  say_hello(&end); /* the first has no Unix socket; the second its identity */
  say_hello(&end);
  return end;
}

/* Until the node has closed its end: then it has heard all that was said. */
static void close_behind_it(int fd)
{
  char sink[4096];
  shutdown(fd, SHUT_WR);
  while (recv(fd, sink, sizeof(sink), 0) > 0)
    ;
  close(fd);
}

static void part(struct end *end)
{
  close_behind_it(end->fd);
  if (end->side >= 0)
    close_behind_it(end->side);
}

/* A thread closes the descriptors that peers passed. The last of them hangs up the pipe. */
static void await_closed(int fd)
{
  struct pollfd wait = {.fd = fd};
  REQUIRE(poll(&wait, 1, PATIENCE_S / 2 * 1000) == 1 && wait.revents & POLLHUP);
}

static void run(void)
{
  const struct control_node_params params = {.listen = "127.0.0.1:0",
                                             .insecure = true,
                                             .peers_max = 4,
                                             .offers_max = OFFERS,
                                             .join_timeout_ns = UINT64_C(60000000000),
                                             .peer_timeout_ns = UINT64_C(60000000000),
                                             .heard = on_message};
  struct pst_error error = PST_ERROR_INIT;
  struct end ends[PEERS];
  memset(seen, 0, sizeof(seen));
  memset(asked, 0, sizeof(asked));
  atomic_store(&joined, 0);
  REQUIRE(control_node_open(&params, &control, &error) == 0);
  for (uint32_t i = 0; i < COMING; i++)
    ends[i] = come();
  ends[COMING] = be_found();
  for (uint32_t i = 0; i < OPERATIONS_MAX && input < input_end; i++) {
    const uint32_t what = take(), type = what / 4 % (WIRE_TYPES + 3);
    struct end *end = &ends[what % 4 % PEERS];
    if (type > WIRE_TYPES)
      speak();
    else if (type == 0 || type == WIRE_TYPES)
      say_raw(end);
    else
      say(end, type);
  }
  for (uint32_t i = 0; i < PEERS; i++)
    part(&ends[i]);
  control_close(control);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  const struct rlimit limit = {DESCRIPTORS_MAX, DESCRIPTORS_MAX}; /* what is left uses it up */
  (void)argc, (void)argv;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  shared_fd = ends[1];
  input = data;
  input_end = data + size;
  run();
  close(shared_fd);
  await_closed(ends[0]);
  close(ends[0]);
  return 0;
}
