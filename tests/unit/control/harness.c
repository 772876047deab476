/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of control. */
#include "harness.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../simulated_clock.h"

#define WAIT_S 60

static struct timespec deadline(void)
{
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_sec += WAIT_S;
  return t;
}

/* ---- Callbacks ------------------------------------------------------------------ */

static void keep(struct end *end, const struct seen *seen)
{
  pthread_mutex_lock(&end->mutex);
  if (end->count == end->capacity) {
    end->capacity = end->capacity ? 2 * end->capacity : 64;
    end->seen = realloc(end->seen, end->capacity * sizeof(*end->seen));
  }
  end->seen[end->count++] = *seen;
  pthread_cond_broadcast(&end->more);
  pthread_mutex_unlock(&end->mutex);
}

static void keep_address(struct seen *seen, const struct pst_blob *address)
{
  seen->address_length = address->length;
  memcpy(seen->address, address->bytes,
         address->length < ADDRESS_KEPT ? address->length : ADDRESS_KEPT);
  seen->fd_count = address->fd_count;
  for (uint32_t i = 0; i < address->fd_count; i++)
    seen->fds[i] = fcntl(address->fds[i], F_DUPFD_CLOEXEC, 3);
}

static void keep_peer(struct seen *seen, const struct control_peer *peer)
{
  seen->param_count = peer->param_count;
  snprintf(seen->text, sizeof(seen->text), "%s", peer->text);
  if (peer->param_count > 0) {
    snprintf(seen->param[0], sizeof(seen->param[0]), "%s", peer->params[0].key);
    snprintf(seen->param[1], sizeof(seen->param[1]), "%s", peer->params[0].value);
  }
}

static void on_heard(void *context, void *stream, const struct control_stream_message *message)
{
  static const enum seen_kind kinds[] = {
      [CONTROL_HEARD_PEER] = SEEN_PEER,     [CONTROL_HEARD_ADDRESS] = SEEN_ADDRESS,
      [CONTROL_HEARD_BEAT] = SEEN_BEAT,     [CONTROL_HEARD_FINISH] = SEEN_FINISH,
      [CONTROL_HEARD_COUNTS] = SEEN_COUNTS, [CONTROL_HEARD_FAIL] = SEEN_FAIL};
  struct seen seen = {.stream = stream, .code = message->code, .has_totals = message->totals};

  if (message->type == CONTROL_HEARD_LAST)
    return;
  seen.kind = kinds[message->type];
  if (message->text)
    snprintf(seen.text, sizeof(seen.text), "%s", message->text);
  if (message->peer)
    keep_peer(&seen, message->peer);
  if (message->address)
    keep_address(&seen, message->address);
  if (message->totals)
    seen.totals = *message->totals;
  keep(context, &seen);
}

/* ---- Ends ----------------------------------------------------------------------- */

struct end *end_new(void)
{
  struct end *end = calloc(1, sizeof(*end));

  assert_non_null(end);
  pthread_mutex_init(&end->mutex, NULL);
  pthread_cond_init(&end->more, NULL);
  end->params.connect_timeout_ns = MS(30000);
  end->params.heartbeat_ns = MS(50);
  end->params.peer_timeout_ns = MS(30000);
  end->limits = control_default_limits;
  end->params.limits = &end->limits;
  end->error = (struct pst_error)PST_ERROR_INIT;
  return end;
}

void *end_stream(struct end *end, const char *name, bool is_sender, const char *terms)
{
  struct control_stream *s = &end->streams[end->stream_count];
  struct control_pair *pair = end->terms[end->stream_count++];

  s->name = name;
  s->context = s;
  s->role = is_sender ? &stream_sender : &stream_receiver;
  s->address = (struct pst_blob){.struct_size = sizeof(s->address),
                                 .length = (uint32_t)strlen(name),
                                 .capacity = (uint32_t)strlen(name),
                                 .bytes = (void *)(uintptr_t)name,
                                 .fds = {-1, -1, -1, -1}};
  if (terms) {
    const char *equals = strchr(terms, '=');
    memcpy(pair->key, terms, (size_t)(equals - terms));
    snprintf(pair->value, sizeof(pair->value), "%s", equals + 1);
    s->terms = pair;
    s->term_count = 1;
  }
  return s;
}

int end_open(struct end *end)
{
  const struct control_callbacks callbacks = {.context = end, .heard = on_heard};

  int rc = control_open(&end->params, &callbacks, end->streams, end->stream_count, &end->control,
                        &end->error);
  if (rc == 0)
    simulated_clock_meet();
  return rc;
}

int end_listen(struct end *end)
{
  if (!end->params.listen)
    end->params.listen = "127.0.0.1:0";
  return end_open(end);
}

int end_connect(struct end *end, uint16_t port)
{
  char text[32];

  snprintf(text, sizeof(text), "127.0.0.1:%u", port);
  end->params.connect = text;
  return end_open(end);
}

void end_close(struct end *end)
{
  simulated_clock_lend(true);
  control_close(end->control);
  simulated_clock_lend(false);
  for (uint32_t i = 0; i < end->count; i++) {
    for (uint32_t k = 0; k < end->seen[i].fd_count; k++)
      close(end->seen[i].fds[k]);
  }
  pthread_cond_destroy(&end->more);
  pthread_mutex_destroy(&end->mutex);
  free(end->seen);
  free(end);
}

/* For what a condition stands for; not beyond the deadline. The clock moves on if nothing has
 * happened since `turn`. Returns whether it is worth while to look again. */
static bool wait_for(pthread_cond_t *more, pthread_mutex_t *mutex, const struct timespec *until,
                     uint64_t turn)
{
  struct timespec now;

  if (!simulated_clock_runs())
    return pthread_cond_timedwait(more, mutex, until) == 0;
  pthread_mutex_unlock(mutex);
  simulated_clock_move(turn, UINT64_MAX);
  pthread_mutex_lock(mutex);
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec < until->tv_sec;
}

static bool find(struct end *end, enum seen_kind kind, void *stream, uint32_t nth, struct seen *out)
{
  for (uint32_t i = 0; i < end->count; i++) {
    const struct seen *s = &end->seen[i];
    if (s->kind != kind || (stream && s->stream != stream) || nth-- > 0)
      continue;
    *out = *s;
    return true;
  }
  return false;
}

struct seen end_wait(struct end *end, enum seen_kind kind, void *stream, uint32_t nth)
{
  struct timespec until = deadline();
  uint64_t turn = simulated_clock_turn();
  struct seen seen;
  bool found;

  pthread_mutex_lock(&end->mutex);
  while (!(found = find(end, kind, stream, nth, &seen)) &&
         wait_for(&end->more, &end->mutex, &until, turn))
    turn = simulated_clock_turn();
  uint32_t count = end->count;
  pthread_mutex_unlock(&end->mutex);
  if (!found)
    fail_msg("callback %d did not come; %u others did", kind, count);
  return seen;
}

uint32_t end_seen(struct end *end, enum seen_kind kind, void *stream)
{
  struct seen ignored;
  uint32_t n = 0;

  pthread_mutex_lock(&end->mutex);
  while (find(end, kind, stream, n, &ignored))
    n++;
  pthread_mutex_unlock(&end->mutex);
  return n;
}

/* ---- Log --------------------------------------------------------------------------- */

#define LINES 256u

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t more;
  char lines[LINES][1024]; /* the last of them */
  uint64_t count;
} logged = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void on_line(void *context, int level, const char *line)
{
  (void)context;
  (void)level;
  if (getenv("CONTROL_TEST_VERBOSE"))
    fprintf(stderr, "  | %s\n", line);
  pthread_mutex_lock(&logged.mutex);
  snprintf(logged.lines[logged.count++ % LINES], sizeof(logged.lines[0]), "%s", line);
  pthread_cond_broadcast(&logged.more);
  pthread_mutex_unlock(&logged.mutex);
}

void log_watch(void)
{
  pst_log_set(on_line, NULL, PST_LOG_DEBUG);
}

void log_clear(void)
{
  pthread_mutex_lock(&logged.mutex);
  logged.count = 0;
  pthread_mutex_unlock(&logged.mutex);
}

static uint32_t count_lines(const char *part)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < logged.count && i < LINES; i++)
    n += strstr(logged.lines[i], part) != NULL;
  return n;
}

uint32_t log_count(const char *part)
{
  pthread_mutex_lock(&logged.mutex);
  uint32_t n = count_lines(part);
  pthread_mutex_unlock(&logged.mutex);
  return n;
}

bool log_has(const char *part)
{
  return log_count(part) > 0;
}

void log_wait(const char *part)
{
  struct timespec until = deadline();
  uint64_t turn = simulated_clock_turn();

  pthread_mutex_lock(&logged.mutex);
  while (count_lines(part) == 0 && wait_for(&logged.more, &logged.mutex, &until, turn))
    turn = simulated_clock_turn();
  bool found = count_lines(part) > 0;
  pthread_mutex_unlock(&logged.mutex);
  if (!found)
    fail_msg("no line with '%s'", part);
}

/* ---- Plain sockets -------------------------------------------------------------------- */

uint32_t open_descriptors(void)
{
  DIR *folder = opendir("/proc/self/fd");
  uint32_t n = 0;

  assert_non_null(folder);
  while (readdir(folder))
    n++;
  closedir(folder);
  return n;
}

void descriptors_wait(uint32_t most)
{
  struct timespec until = deadline(), now;

  do {
    if (open_descriptors() <= most)
      return;
    sched_yield();
    clock_gettime(CLOCK_REALTIME, &now);
  } while (now.tv_sec < until.tv_sec);
  fail_msg("%u descriptors are open, %u were", open_descriptors(), most);
}

int plain_listen(uint16_t *port)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof(address);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(listen(fd, 8), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

uint16_t unused_port(void)
{
  uint16_t port;

  close(plain_listen(&port));
  return port;
}

int plain_connect(uint16_t port)
{
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  return fd;
}

bool plain_readable(int fd)
{
  struct pollfd wait = {.fd = fd, .events = POLLIN};
  struct timespec until = deadline(), now;
  uint64_t turn;

  if (!simulated_clock_runs())
    return poll(&wait, 1, WAIT_S * 1000) == 1;
  do {
    turn = simulated_clock_turn();
    if (poll(&wait, 1, 0) == 1)
      return true;
    simulated_clock_move(turn, UINT64_MAX);
    clock_gettime(CLOCK_REALTIME, &now);
  } while (now.tv_sec < until.tv_sec);
  return false;
}

bool plain_closed(int fd)
{
  uint8_t bytes[4096];

  while (plain_readable(fd)) {
    if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
      return true;
  }
  return false;
}

static uint8_t frame[WIRE_FRAME_MAX];

void plain_send(int fd, const struct wire_message *message)
{
  size_t length;

  assert_int_equal(wire_encode(message, frame, sizeof(frame), &length), 0);
  assert_int_equal(send(fd, frame, length, MSG_NOSIGNAL), length);
}

static bool receive_all(int fd, uint8_t *bytes, size_t length)
{
  for (size_t at = 0; at < length;) {
    ssize_t n = plain_readable(fd) ? recv(fd, bytes + at, length - at, 0) : -1;
    if (n <= 0)
      return false;
    at += (size_t)n;
  }
  return true;
}

bool plain_receive(int fd, struct wire_message *message)
{
  char why[WIRE_WHY_MAX];
  uint8_t header[4];

  if (!receive_all(fd, header, sizeof(header)))
    return false;
  size_t length =
      (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
  assert_true(length <= WIRE_BODY_MAX);
  if (!receive_all(fd, frame, length))
    return false;
  assert_int_equal(wire_decode(frame, length, message, why), 0);
  message->blob = NULL;
  return true;
}

void hello_of(struct wire_message *message, uint32_t role)
{
  memset(message, 0, sizeof(*message));
  message->type = WIRE_HELLO;
  message->major = WIRE_MAJOR;
  message->minor = WIRE_MINOR;
  message->role = role;
  message->has_identity = true;
  message->pid = 4711;
  snprintf(message->host, sizeof(message->host), "elsewhere");
  snprintf(message->library, sizeof(message->library), "0.0.1");
}

int plain_sender(uint16_t port, struct wire_message *hello)
{
  static struct wire_message ours;
  int fd = plain_connect(port);

  assert_true(plain_receive(fd, hello));
  assert_int_equal(hello->type, WIRE_HELLO);
  hello_of(&ours, WIRE_SENDER);
  plain_send(fd, &ours);
  assert_true(plain_receive(fd, &ours));
  assert_true(ours.type == WIRE_HELLO && ours.has_identity);
  return fd;
}

struct control_totals totals_of(uint64_t messages)
{
  struct control_totals totals;

  wire_totals_unknown(&totals);
  totals.messages = messages;
  totals.bytes = messages * 100;
  return totals;
}
