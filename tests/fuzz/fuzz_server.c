/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `penstock serve` itself, over a node and files of server_world.h: the input is what its clients
 * say and do, and when operations, reads and writes end. Each question is answered once, and
 * nothing is touched that none asks for (server_model.h); at the end nothing is left in use, and
 * nothing has a name that was not committed.
 *
 * The input's first byte is how the server is started; then commands, a byte each and its numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "serve/server.h"
#include "server_model.h"
#include "server_world.h"
#include "signals.h"

#define IDLE_NS UINT64_C(1000000000)
#define IN_FLIGHT (2u << 20)
#define LAST_TURNS 400u /* a sum of much takes many */

enum server_command {
  JOIN,
  LEAVE,
  ASK, /* a request, its fields from tables */
  SAY, /* any message, as any type */
  RAW,
  END_IO,
  END_OPERATION,
  OFFER,
  WITHDRAW,
  ROOM,
  VERIFY,
  WAIT,
  TRUNCATE,
  REPLACE,
  COMMANDS,
};

static const char *const names[] = {
    "file",
    "sparse",
    "folder/inner",
    "new",
    "folder/new",
    "folder",
    "link-in",
    "link-out",
    "../secret",
    "",
    "fifo",
    "a/b/c",
    ".file.penstock-part",
    "none",
};
static const uint64_t numbers[] = {
    0,
    1,
    7,
    4095,
    4096,
    4097,
    8192,
    WORLD_FILE_BYTES,
    65536,
    WORLD_SPARSE_BYTES,
    (1u << 20) + 1,
    2u << 20,
    (4u << 20) + 1,
    UINT64_C(1) << 40,
    INT64_MAX,
    UINT64_MAX,
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const unsigned char *input;
static size_t left;
static uint32_t last_turns, last_tag;
static uint64_t clock_now;
static struct server server;
static bool dirty = true; /* the root is not as it was made */
static uint8_t empty_sum[SERVE_SHA256_BYTES];

/* ---- Instead of the program's ------------------------------------------------------ */

int fuzz_clock_gettime(clockid_t id, struct timespec *now);

int fuzz_clock_gettime(clockid_t id, struct timespec *now)
{
  (void)id;
  clock_now += 1000;
  *now = (struct timespec){(time_t)(clock_now / NS_PER_S), (long)(clock_now % NS_PER_S)};
  return 0;
}

void app_log(int level, const char *format, ...)
{
  (void)level, (void)format;
}

int app_log_fail(struct pst_error *error, int exit_status, int code, const char *format, ...)
{
  (void)error, (void)exit_status, (void)format;
  return code;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  (void)argc, (void)argv;
  world_root_open();
  return 0;
}

/* ---- Commands ------------------------------------------------------------------------- */

static uint8_t take_byte(void)
{
  if (left == 0)
    return 0;
  left--;
  return *input++;
}

static uint64_t take_number(void)
{
  uint8_t byte = take_byte();

  return byte < 128 ? numbers[byte % COUNT(numbers)] : byte - 128u;
}

/* Returns the sum of `length` bytes of a region; 0: that is too long. */
static uint32_t crc_of(uint64_t length)
{
  static uint8_t bytes[WORLD_FILE_BYTES * 4];

  memset(bytes, WORLD_READ_BYTE, sizeof(bytes));
  return length <= sizeof(bytes) ? serve_digest_crc32c(bytes, length) : 0;
}

static void fill(struct serve_message *m, uint8_t *name)
{
  const char *word = names[take_byte() % COUNT(names)];
  uint8_t how = take_byte();

  m->file = take_byte() % (SERVER_FILES + 2);
  m->offset = take_number();
  m->length = take_number();
  m->place = take_number();
  m->region = take_byte() % (WORLD_REGIONS + 2);
  m->size = m->length;
  m->iteration = m->cursor = m->offset;
  m->op = how & 1 ? SERVE_OP_READ : SERVE_OP_WRITE;
  m->pieces = 1u + take_byte() % 64u * 9u;
  m->flags = take_byte();
  m->mode = 0644;
  m->crc = how & 2 ? 1 : crc_of(m->length);
  m->has_sha256 = how & 4;
  memcpy(m->sha256, how & 8 ? world_last_sum() : empty_sum, sizeof(m->sha256));
  m->name_length = (uint32_t)strlen(word);
  memcpy(name, word, m->name_length);
  m->name = name;
}

static void ask(struct pst_peer *peer, bool any)
{
  static const uint8_t requests[] = {SERVE_MOVE,  SERVE_OPEN, SERVE_FETCH, SERVE_CREATE,
                                     SERVE_STORE, SERVE_HOLE, SERVE_CHECK, SERVE_COMMIT,
                                     SERVE_CLOSE, SERVE_LIST, SERVE_MKDIR, SERVE_PING};
  static struct serve_message m;
  uint8_t bytes[SERVE_MESSAGE_MAX], name[64], type = take_byte();
  size_t length = 0;

  memset(&m, 0, sizeof(m));
  m.type = any ? type % SERVE_TYPES : requests[type % sizeof(requests)];
  m.tag = any ? WORLD_TAGS : ++last_tag % (WORLD_TAGS - 1) + 1;
  m.major = SERVE_MAJOR;
  m.pieces = 1;
  fill(&m, name);
  m.op = m.op ? m.op : SERVE_OP_WRITE;
  if (m.type == SERVE_HELLO)
    m.flags = 0;
  if (serve_encode(&m, bytes, sizeof(bytes), &length) < 0)
    return;
  dirty |= m.type == SERVE_CREATE || m.type == SERVE_MKDIR;
  if (!any)
    world_expect(peer, m.tag);
  world_say(peer, bytes, length);
}

static void join(void)
{
  static const struct serve_message hello = {
      .type = SERVE_HELLO, .major = SERVE_MAJOR, .program = "0"};
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;
  uint8_t how = take_byte();
  struct pst_peer *peer = world_join();

  if (!peer)
    return;
  if (how & 1)
    world_offer(peer, 1, 65536, PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE);
  REQUIRE(serve_encode(&hello, bytes, sizeof(bytes), &length) == 0);
  if (!(how & 2))
    world_say(peer, bytes, length);
}

static void say_raw(struct pst_peer *peer)
{
  size_t length = take_byte();

  if (length > left)
    length = left;
  world_free(peer);
  world_say(peer, input, length);
  input += length;
  left -= length;
  dirty = true; /* it may be anything */
}

static void change_file(bool replace)
{
  const char *name = names[take_byte() % 3];
  uint64_t size = take_number();

  dirty = true;
  if (replace)
    world_root_remove(name);
  else
    world_root_truncate(name, size);
}

static void of_peer(enum server_command command, struct pst_peer *peer)
{
  static const uint32_t rooms[] = {0, 1, 2, UINT32_MAX};
  uint8_t how = take_byte();

  switch (command) {
  case LEAVE:
    world_leave(peer, how & 1 ? -ECONNRESET : 0);
    break;
  case OFFER:
    world_offer(peer, 1 + how % WORLD_REGIONS, take_number() | 1,
                how & 8 ? PST_ACCESS_REMOTE_READ
                        : PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE);
    break;
  case WITHDRAW:
    world_withdraw(peer, 1 + how % WORLD_REGIONS);
    break;
  default:
    world_room(peer, rooms[how & 3], rooms[how >> 2 & 3]);
    break;
  }
}

static void to_peer(enum server_command command)
{
  struct pst_peer *peer = world_peer(take_byte() % WORLD_PEERS);

  if (!peer || !world_is_there(peer))
    return;
  if (command == ASK || command == SAY)
    ask(peer, command == SAY);
  else if (command == RAW)
    say_raw(peer);
  else
    of_peer(command, peer);
}

static void obey(enum server_command command)
{
  static const int statuses[] = {0, 0, 0, -ECANCELED, -EACCES, -ECONNRESET};
  uint8_t which;

  switch (command) {
  case JOIN:
    join();
    break;
  case END_IO:
    which = take_byte();
    world_io_end(which >> 2, which & 3);
    break;
  case END_OPERATION:
    which = take_byte();
    world_done(which >> 3, statuses[(which & 7) % COUNT(statuses)]);
    break;
  case VERIFY:
    world_verify_fails(take_byte() & 1);
    break;
  case WAIT:
    clock_now += take_byte() * (IDLE_NS / 64);
    break;
  case TRUNCATE:
  case REPLACE:
    change_file(command == REPLACE);
    break;
  default:
    to_peer(command);
    break;
  }
}

/* Room for all, and whatever is under way ends; at last peers whose questions take too long go. */
static bool end_some(void)
{
  struct pst_peer *peer;

  if (last_turns == LAST_TURNS)
    for (uint32_t i = WORLD_PEERS; i > 0; i--)
      if ((peer = world_peer(i - 1)))
        world_leave(peer, 0);
  for (uint32_t i = 0; (peer = world_peer(i)) != NULL; i++)
    world_room(peer, UINT32_MAX, UINT32_MAX);
  last_turns++;
  if (world_io_under_way() == 0 && world_under_way() == 0)
    return false;
  world_io_end(0, WORLD_IO_ENDS);
  world_done(0, 0);
  return true;
}

bool world_turn(void)
{
  if (left == 0)
    return end_some();
  obey(take_byte() % COMMANDS);
  return true;
}

/* ---- The server's life ------------------------------------------------------------------ */

static void require_nothing_left(void)
{
  struct buddy *pool = server.files->pool;

  world_require_answers();
  for (const struct client *client = server.clients; client != NULL; client = client->next)
    REQUIRE(client->closing || client->jobs == 0);
  REQUIRE(server.io_under_way == 0);
  REQUIRE(!server.files->turns.first && !server.posts.first);
  /* All of it is one block. */
  uint64_t whole = serve_buddy_take(pool, IN_FLIGHT);
  REQUIRE(whole != BUDDY_NONE);
  serve_buddy_give(pool, whole);
}

/* The server asks it once a round: after a round with nothing to do all is done. */
bool app_signals_stop(void)
{
  static uint32_t seen;

  if (left > 0 || world_io_under_way() > 0 || world_under_way() > 0 || last_turns < 3) {
    seen = 0;
    return false;
  }
  if (++seen < 4)
    return false;
  seen = 0;
  require_nothing_left();
  world_io_drain(true);
  return true;
}

/* The next descriptor that is free: none was left open. */
static int next_descriptor(void)
{
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

  close(fd);
  return fd;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  const int descriptor = next_descriptor();
  struct server_params params = {.node = {.listen = "", .peers = WORLD_PEERS},
                                 .area = {.memory = "host"},
                                 .root = world_root(),
                                 .in_flight = IN_FLIGHT,
                                 .pieces = SERVER_PIECES,
                                 .file_max = UINT64_MAX,
                                 .request_max = 3u << 20,
                                 .idle_ns = IDLE_NS};
  struct pst_error error = PST_ERROR_INIT;

  if (dirty)
    world_root_make();
  dirty = false;
  input = data;
  left = size;
  last_turns = last_tag = 0;
  clock_now = NS_PER_S;
  uint8_t how = take_byte();
  params.overwrite = how & 1;
  params.read_only = how & 2;
  if (how & 4)
    params.root = NULL;
  serve_digest_sha256_of("", 0, empty_sum);
  world_node_begin();
  model_begin(params.root != NULL, params.read_only, params.request_max);
  world_io_drain(false);
  REQUIRE(serve_server_open(&params, &server, &error) == 0);
  REQUIRE(serve_server_run(&server, -1) == 0);
  serve_server_close(&server);
  world_root_require_outside();
  REQUIRE(next_descriptor() == descriptor);
  return 0;
}
