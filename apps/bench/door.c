/* SPDX-License-Identifier: Apache-2.0 */
#include "door.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "notice.h"
#include "signals.h"

#define ACCEPTS_A_ROUND 64
#define CLAIM_MS 1000 /* between two processes of one user */
#define ANSWER_MS 10000

/* ---- The server's end ------------------------------------------------------------- */

int door_open(struct door *door, const char *where, uint16_t port, bool insecure,
              struct pst_error *error)
{
  *door = (struct door){.side = {.fd = -1, .folder_fd = -1}, .is_open = insecure};
  for (uint32_t i = 0; i < DOOR_WAITING; i++)
    door->guests[i].fd = -1;
  int result = link_listen(where, port, insecure, &door->listener, error);
  if (result < 0)
    return result;
  result = side_listen(false, &door->side);
  if (result < 0 && !insecure) {
    close(door->listener.fd);
    return notice_fail(error, PST_EXIT_UNAVAILABLE, result,
                       "bench: no side-socket can be made in $XDG_RUNTIME_DIR or /tmp: %s; without "
                       "it no client can show whose it is: free one of these folders, or, where "
                       "all users of the host may take part, say --insecure at both ends",
                       strerror(-result));
  }
  return 0;
}

void door_close(struct door *door)
{
  for (uint32_t i = 0; i < DOOR_WAITING; i++)
    if (door->guests[i].fd >= 0)
      close(door->guests[i].fd);
  if (door->side.fd >= 0)
    side_unlisten(&door->side);
  close(door->listener.fd);
}

static void to_hex(const uint8_t token[WIRE_TOKEN_BYTES], char text[2 * WIRE_TOKEN_BYTES + 1])
{
  for (int i = 0; i < WIRE_TOKEN_BYTES; i++)
    snprintf(text + 2 * i, 3, "%02x", token[i]);
}

static bool from_hex(const char *text, uint8_t token[WIRE_TOKEN_BYTES])
{
  if (strlen(text) != (size_t)2 * WIRE_TOKEN_BYTES)
    return false;
  for (int i = 0; i < WIRE_TOKEN_BYTES; i++) {
    unsigned byte;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1)
      return false;
    token[i] = (uint8_t)byte;
  }
  return true;
}

/* A new connection's first line is short enough for its empty socket. */
static int say_line(int fd, struct json_object *object)
{
  char line[512];
  int length = snprintf(line, sizeof line, "%s\n",
                        json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));

  json_object_put(object);
  return length < (int)sizeof line &&
                 send(fd, line, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == length
             ? 0
             : -ECONNRESET;
}

static int greet_guest(const struct door *door, struct door_guest *guest)
{
  struct json_object *hello = json_object_new_object();
  char text[2 * WIRE_TOKEN_BYTES + 1];

  json_object_object_add(hello, "penstock_bench", json_object_new_int(1));
  if (door->side.fd >= 0 && link_is_local(guest->fd)) {
    to_hex(guest->token, text);
    json_object_object_add(hello, "side", json_object_new_string(door->side.path));
    json_object_object_add(hello, "token", json_object_new_string(text));
  }
  return say_line(guest->fd, hello);
}

static void turn_away(struct door_guest *guest, const char *why)
{
  struct json_object *answer = json_object_new_object();
  char unread[4096];

  json_object_object_add(answer, "error", json_object_new_string(why));
  say_line(guest->fd, answer);
  /* With bytes unread the end would be a reset, which overtakes the line. */
  recv(guest->fd, unread, sizeof unread, MSG_DONTWAIT);
  close(guest->fd);
  guest->fd = -1;
}

static void admit(struct door *door)
{
  for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
    struct door_guest *guest = &door->guests[door->next];
    int fd = accept4(door->listener.fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
      return;
    if (guest->fd >= 0)
      close(guest->fd);
    guest->fd = fd;
    door->next = (door->next + 1) % DOOR_WAITING;
    if (side_random(guest->token, sizeof guest->token) < 0 || greet_guest(door, guest) < 0) {
      close(guest->fd);
      guest->fd = -1;
    }
  }
}

static int let_in(struct door_guest *guest, struct link *link)
{
  int fd = guest->fd;

  guest->fd = -1;
  return link_take(fd, link);
}

/* A process of this user has come to the side-socket. */
static int hear_claim(struct door *door, int side, struct link *link)
{
  struct pollfd event = {.fd = side, .events = POLLIN};
  struct side_claim ours, theirs;

  if (poll(&event, 1, CLAIM_MS) <= 0 || side_receive_claim(side, &theirs) < 0)
    return -EAGAIN;
  for (uint32_t i = 0; i < DOOR_WAITING; i++) {
    struct door_guest *guest = &door->guests[i];

    if (guest->fd < 0 || memcmp(guest->token, theirs.bytes, sizeof guest->token) != 0 ||
        side_claim_make(guest->fd, false, guest->token, &ours) < 0)
      continue;
    if (side_send_claim(side, &ours) == 0 &&
        (door->is_open || memcmp(&ours, &theirs, sizeof ours) == 0))
      return let_in(guest, link);
    turn_away(guest, "a relay lies between; connect without port forwarding, or, where all users "
                     "of the host may take part, say --insecure at both ends");
  }
  return -EAGAIN;
}

static int take_claim(struct door *door, struct link *link)
{
  uint32_t uid = 0;
  int side = side_accept(door->side.fd, false, &uid);

  if (side < 0)
    return -EAGAIN;
  int result = hear_claim(door, side, link);
  side_discard(side);
  return result;
}

/* Who speaks by TCP has shown nothing; who has hung up goes. */
static int hear_guest(struct door *door, struct door_guest *guest, struct link *link)
{
  char byte;

  if (recv(guest->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) <= 0) {
    close(guest->fd);
    guest->fd = -1;
    return -EAGAIN;
  }
  if (door->is_open)
    return let_in(guest, link);
  turn_away(guest, "no process of its user came to its side-socket; run both ends as one user, or, "
                   "where all users of the host may take part, with --insecure");
  return -EAGAIN;
}

int door_take(struct door *door, int timeout_ms, struct link *link)
{
  struct pollfd events[2 + DOOR_WAITING] = {{.fd = door->listener.fd, .events = POLLIN},
                                            {.fd = door->side.fd, .events = POLLIN}};
  int result = -EAGAIN;

  for (uint32_t i = 0; i < DOOR_WAITING; i++)
    events[2 + i] = (struct pollfd){.fd = door->guests[i].fd, .events = POLLIN};
  if (poll(events, 2 + DOOR_WAITING, timeout_ms) <= 0)
    return -EAGAIN;
  if (events[1].revents != 0)
    result = take_claim(door, link);
  for (uint32_t i = 0; i < DOOR_WAITING && result == -EAGAIN; i++)
    if (events[2 + i].revents != 0 && door->guests[i].fd >= 0)
      result = hear_guest(door, &door->guests[i], link);
  if (result == -EAGAIN && events[0].revents != 0)
    admit(door);
  return result == 0 ? 0 : -EAGAIN;
}

/* ---- The client's end -------------------------------------------------------------- */

/* 0; -EACCES: of user *uid; -EPERM: a relay; -errno. */
static int show(const struct link *link, const char *path, const char *hex, uint32_t *uid)
{
  uint8_t token[WIRE_TOKEN_BYTES];
  struct side_claim ours, theirs;
  int side = from_hex(hex, token) ? side_connect(path, false, uid) : -EPROTO;

  if (side < 0)
    return side;
  struct pollfd event = {.fd = side, .events = POLLIN};
  int result = side_claim_make(link->fd, true, token, &ours);
  if (result == 0)
    result = side_send_claim(side, &ours);
  if (result == 0 && poll(&event, 1, ANSWER_MS) <= 0)
    result = signals_stop() ? -EINTR : -ETIMEDOUT;
  if (result == 0)
    result = side_receive_claim(side, &theirs);
  if (result == 0 && memcmp(&ours, &theirs, sizeof ours) != 0)
    result = -EPERM;
  side_discard(side);
  return result;
}

static int refuse(const struct link *link, int code, uint32_t uid, struct pst_error *error)
{
  static const char allow[] =
      "or, where all users of the host may take part, say --insecure at both ends";

  if (code == -EACCES)
    return notice_fail(error, PST_EXIT_FAILED, code,
                       "bench: the server at %s belongs to user %u, this client to user %u: run "
                       "both as one user, %s",
                       link->peer, uid, (uint32_t)geteuid(), allow);
  if (code == -EPERM)
    return notice_fail(error, PST_EXIT_FAILED, code,
                       "bench: the server at %s is not connected to directly: a relay lies "
                       "between; connect without port forwarding, %s",
                       link->peer, allow);
  return notice_fail(error, PST_EXIT_FAILED, code,
                     "bench: the server at %s does not show whose process it is (%s): run both "
                     "ends as one user on one host, %s",
                     link->peer, strerror(-code), allow);
}

static int no_answer(const struct link *link, int code, struct pst_error *error)
{
  if (code == -EINTR)
    return notice_fail(error, PST_EXIT_FAILED, code,
                       "bench: stopped by %s while it waited for %s to answer", signals_name(),
                       link->peer);
  return notice_fail(error, PST_EXIT_FAILED, code, "bench: %s: %s", link->peer,
                     code == -ETIMEDOUT ? "no answer within 10 s; it serves one client at a time, "
                                          "or is no penstock bench --server"
                                        : "it is no penstock bench --server, or has died");
}

int door_pass(struct link *link, bool insecure, struct pst_error *error)
{
  struct json_object *said = NULL, *path = NULL, *token = NULL;
  int result = link_receive(link, ANSWER_MS * NS_PER_MS, true, &said);
  uint32_t uid = 0;

  if (result < 0)
    return no_answer(link, result, error);
  if (json_object_object_get_ex(said, "side", &path) &&
      json_object_object_get_ex(said, "token", &token) &&
      json_object_is_type(path, json_type_string) && json_object_is_type(token, json_type_string))
    result = show(link, json_object_get_string(path), json_object_get_string(token), &uid);
  else
    result = -ENOENT;
  json_object_put(said);
  if (result == -ETIMEDOUT || result == -EINTR)
    return no_answer(link, result, error);
  return result == 0 || insecure ? 0 : refuse(link, result, uid, error);
}
