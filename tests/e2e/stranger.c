/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of `penstock serve` that keeps to no rule: it sends the bytes that it is given, and
 * prints what the server answers.
 *
 *     stranger ADDRESS BYTES < LINES
 *
 * It offers one region of BYTES bytes, number 1, for READ and WRITE, or none for 0. A line is
 * a type of message and its numbers; names are written as in a URL, "%00" being NUL:
 *     open NAME             create NAME SIZE FLAGS        list NAME        mkdir NAME
 *     fetch FILE OFFSET LENGTH REGION PLACE
 *     store FILE OFFSET LENGTH REGION PLACE CRC           hole FILE OFFSET LENGTH
 *     check FILE OFFSET LENGTH FLAGS                      commit FILE      close FILE
 *     move OP LENGTH PIECES REGION PLACE                  ping             hello MAJOR
 *     raw HEX               bytes as they are
 *     crc BYTE LENGTH       fills the region with it, prints its CRC32C
 *     flood COUNT           so many pings, whose answers are not waited for
 *     wakes COUNT           so many wake-ups of whoever has a timer with this process, 0: for ever
 *     die                   kills this process, as SIGKILL does
 * Each is answered before the next is said, but for those that begin with '!'.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include "serve/io.h"
#include "serve/wire.h"

#define LINE_BYTES 8192
#define FDS_LOOKED_AT 256

static struct pst_node *node;
static struct pst_peer *peer;
static struct pst_area *area;
static bool joined, taken, answered, flooding;

static void show(const struct pst_node_event *event)
{
  struct serve_message m;
  char why[SERVE_WHY_MAX] = "";

  if (serve_decode(event->bytes, event->length, &m, why) < 0) {
    printf("nonsense: %s\n", why);
  } else if (m.type == SERVE_REFUSE) {
    printf("REFUSE %s %s\n", strerrorname_np((int)m.code), m.text);
  } else if (!flooding) {
    printf("%s file %u length %" PRIu64 " size %" PRIu64 " crc %u flags %u entries %u\n",
           serve_type_name(m.type), m.file, m.length, m.size, m.crc, m.flags, m.entry_count);
  }
  answered = true;
}

/* Until *what is true. Ends the program when the server has left. */
static void wait_for(const bool *what)
{
  struct pst_node_event events[16];

  while (!*what) {
    int n = pst_node_poll(node, events, 16);
    for (int i = 0; i < n; i++) {
      joined |= events[i].kind == PST_NODE_JOINED;
      taken |= events[i].kind == PST_NODE_TAKEN;
      if (events[i].kind == PST_NODE_MESSAGE)
        show(&events[i]);
      if (events[i].kind == PST_NODE_LEFT) {
        printf("LEFT %s %s\n", events[i].status < 0 ? strerrorname_np(-events[i].status) : "0",
               events[i].text);
        exit(0);
      }
    }
    if (n < 0)
      exit(1);
    if (n == 0)
      pst_node_wait(node, NULL);
  }
}

static void say(const void *bytes, uint64_t length)
{
  static const bool never = false;

  answered = false;
  int rc = pst_peer_send(peer, bytes, length);
  if (rc == -ENOTCONN)
    wait_for(&never); /* it is about to be told why */
  if (rc < 0) {
    printf("cannot send: %s\n", strerror(-rc));
    exit(1);
  }
}

/* "%00" and the like. */
static uint32_t unescape(const char *from, uint8_t *to)
{
  uint32_t length = 0;
  unsigned byte;

  for (; *from != '\0'; from++) {
    if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) {
      to[length++] = (uint8_t)byte;
      from += 2;
    } else {
      to[length++] = (uint8_t)*from;
    }
  }
  return length;
}

static void say_raw(const char *hex)
{
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;
  unsigned byte;

  for (; sscanf(hex, "%2x", &byte) == 1 && length < sizeof(bytes); hex += 2)
    bytes[length++] = (uint8_t)byte;
  say(bytes, length);
}

static void fill(const char *numbers)
{
  struct pst_range range = {.struct_size = sizeof(range)};
  unsigned byte = 0;
  size_t length = 0;

  sscanf(numbers, "%u %zu", &byte, &length);
  pst_area_range(area, &range);
  memset(range.host, (int)byte, length);
  printf("crc %u\n", serve_digest_crc32c(range.host, length));
}

static void say_message(const struct serve_message *m)
{
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;

  if (serve_encode(m, bytes, sizeof(bytes), &length) < 0)
    exit(1);
  say(bytes, length);
}

static void flood(const char *count)
{
  const struct serve_message ping = {.type = SERVE_PING};
  uint8_t bytes[64];
  size_t length = 0;

  serve_encode(&ping, bytes, sizeof(bytes), &length);
  flooding = true;
  for (long i = atol(count); i > 0; i--) {
    answered = false;
    if (pst_peer_send(peer, bytes, length) < 0)
      wait_for(&answered);
  }
  flooding = false;
  printf("flooded\n");
}

/* The timers of this process among /proc/self/fd: its own, and those by which it wakes others. */
static uint32_t find_timers(int *fds, uint32_t most)
{
  uint32_t count = 0;
  char path[32], kind[64];

  for (int fd = 3; fd < FDS_LOOKED_AT && count < most; fd++) {
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, kind, sizeof(kind) - 1);
    kind[length > 0 ? length : 0] = '\0';
    if (strcmp(kind, "anon_inode:[timerfd]") == 0)
      fds[count++] = fd;
  }
  return count;
}

static void wake_all(const char *count)
{
  const struct itimerspec past = {.it_value = {.tv_nsec = 1}};
  int fds[16];
  const uint32_t timers = find_timers(fds, 16);
  long left = atol(count);

  printf("waking by %u\n", timers);
  for (uint32_t i = 0; i < timers; i++)
    fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) & ~O_NONBLOCK);
  do {
    for (uint32_t i = 0; i < timers; i++)
      timerfd_settime(fds[i], TFD_TIMER_ABSTIME, &past, NULL);
  } while (left == 0 || --left > 0);
}

static void obey(char *line)
{
  char word[32] = "", name[LINE_BYTES] = "";
  uint8_t bytes[LINE_BYTES];
  uint64_t n[6] = {0};
  int used = 0;

  bool waits = *line != '!';
  line += !waits;
  line[strcspn(line, "\n")] = '\0';
  sscanf(line, "%31s %n", word, &used);
  const char *rest = line + used;
  struct serve_message m = {.major = SERVE_MAJOR, .pieces = 1, .op = 1, .tag = 1};
  for (uint32_t type = 1; serve_type_name(type)[0] != 'u'; type++) {
    if (strcasecmp(serve_type_name(type), word) == 0)
      m.type = type;
  }
  if (strcmp(word, "raw") == 0) {
    say_raw(rest);
  } else if (strcmp(word, "crc") == 0) {
    fill(rest);
    return;
  } else if (strcmp(word, "die") == 0) {
    kill(getpid(), SIGKILL);
  } else if (strcmp(word, "wakes") == 0) {
    wake_all(rest);
    return;
  } else if (strcmp(word, "flood") == 0) {
    flood(rest);
    return;
  } else if (m.type == SERVE_OPEN || m.type == SERVE_CREATE || m.type == SERVE_LIST ||
             m.type == SERVE_MKDIR) {
    sscanf(rest, "%8191s %" SCNu64 " %" SCNu64, name, &m.size, &n[0]);
    m.flags = (uint32_t)n[0];
    m.mode = 0644;
    m.name = bytes;
    m.name_length = unescape(strcmp(name, "-") == 0 ? "" : name, bytes);
    say_message(&m);
  } else {
    sscanf(rest, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &n[0],
           &n[1], &n[2], &n[3], &n[4], &n[5]);
    if (m.type == SERVE_HELLO)
      m.major = (uint32_t)n[0];
    m.file = (uint32_t)n[0];
    m.offset = n[1];
    m.length = n[2];
    m.region = n[3];
    m.place = n[4];
    m.crc = (uint32_t)n[5];
    if (m.type == SERVE_CHECK)
      m.flags = (uint32_t)n[3];
    if (m.type == SERVE_MOVE) {
      m.op = (uint32_t)n[0];
      m.length = n[1];
      m.pieces = (uint32_t)n[2];
    }
    say_message(&m);
  }
  if (waits)
    wait_for(&answered);
}

int main(int argc, char **argv)
{
  const struct pst_node_params params = {.struct_size = sizeof(params)};
  struct pst_area_params memory = {.struct_size = sizeof(memory)};
  struct pst_error error = PST_ERROR_INIT;
  char line[LINE_BYTES];
  uint32_t id = 0;

  if (argc != 3 || pst_node_open(&params, &node, &error) < 0 ||
      pst_node_connect(node, argv[1], &peer, &error) < 0)
    return 1;
  setvbuf(stdout, NULL, _IOLBF, 0);
  wait_for(&joined);
  memory.length = strtoull(argv[2], NULL, 10);
  if (memory.length > 0) {
    if (pst_node_alloc(node, &memory, &area, &error) < 0 ||
        pst_peer_offer(peer, area, 0, memory.length,
                       PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE, &id) < 0)
      return 1;
    wait_for(&taken);
  }
  while (fgets(line, sizeof(line), stdin))
    obey(line);
  pst_peer_close(peer, 0, NULL);
  answered = false;
  wait_for(&answered);
}
