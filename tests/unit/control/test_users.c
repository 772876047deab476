/* SPDX-License-Identifier: Apache-2.0 */
/* Which user a peer of this host belongs to: what others are refused, and what they cannot hold
 * up. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../lingering.h"
#include "../simulated_clock.h"
#include "harness.h"
#include "util/closer.h"

#define NOBODY 65534

static struct wire_message got, say;

static struct end *receiver_open(const char *stream, void **in)
{
  struct end *receiver = end_new();

  log_clear();
  *in = end_stream(receiver, stream, false, NULL);
  assert_int_equal(end_listen(receiver), 0);
  return receiver;
}

/* Changes the user of this thread alone, by the system call itself. */
static void become(uid_t uid)
{
  assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

/* ---- TCP alone ------------------------------------------------------------------- */

static void test_tcp_alone_is_refused(void **state)
{
  void *in;
  struct end *receiver = receiver_open("a", &in);
  int fd = plain_connect(control_port(receiver->control));

  (void)state;
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_HELLO);
  assert_false(got.has_identity);
  assert_int_equal(got.pid, 0);
  assert_string_equal(got.host, "");
  assert_string_equal(got.library, "");
  hello_of(&say, WIRE_SENDER);
  plain_send(fd, &say);
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_BYE);
  assert_int_equal(got.code, -EACCES);
  assert_non_null(strstr(got.text, "has not shown which user it belongs to"));
  assert_non_null(strstr(got.text, "control.insecure: true"));
  assert_true(plain_closed(fd));
  close(fd);
  assert_int_equal(end_seen(receiver, SEEN_PEER, in), 0);
  assert_int_equal(end_seen(receiver, SEEN_FAIL, in), 0);
  end_close(receiver);
}

/* The token that TCP shows to anybody, with an honest account of another connection. */
static void test_claim_of_another_connection(void **state)
{
  void *in;
  struct end *receiver = receiver_open("a", &in);
  uint16_t port = control_port(receiver->control);
  int fd = plain_connect(port), other = plain_connect(port);
  struct unix_claim claim;
  uint32_t uid;

  (void)state;
  assert_true(plain_receive(fd, &got));
  int side = unix_connect(got.unix_path, false, &uid);
  assert_true(side >= 0);
  assert_int_equal(unix_claim_make(other, true, got.token, &claim), 0);
  assert_int_equal(unix_send_claim(side, &claim), 0);
  assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_BYE);
  assert_non_null(strstr(got.text, "a relay lies between"));
  assert_true(plain_closed(side));
  close(side);
  close(fd);
  close(other);
  end_close(receiver);
}

/* ---- A relay --------------------------------------------------------------------- */

struct relay {
  int listener;
  uint16_t port, to;
  pthread_t thread;
};

/* Whatever comes, until either end closes. */
static void *relay_run(void *argument)
{
  struct relay *relay = argument;
  uint8_t bytes[4096];
  ssize_t n = 1;

  struct pollfd ends[2] = {{.fd = accept(relay->listener, NULL, NULL), .events = POLLIN},
                           {.fd = plain_connect(relay->to), .events = POLLIN}};
  while (n > 0 && poll(ends, 2, -1) > 0)
    for (int i = 0; i < 2 && n > 0; i++)
      if (ends[i].revents) {
        n = read(ends[i].fd, bytes, sizeof(bytes));
        if (n > 0)
          n = send(ends[!i].fd, bytes, (size_t)n, MSG_NOSIGNAL);
      }
  close(ends[0].fd);
  close(ends[1].fd);
  return NULL;
}

/* `insecure`: of the receiver, then of the sender. */
static void relay_once(bool receiver_insecure, bool sender_insecure)
{
  struct end *receiver = end_new(), *sender = end_new();
  void *in = end_stream(receiver, "a", false, NULL), *out = end_stream(sender, "a", true, NULL);
  struct relay relay = {0};

  relay.listener = plain_listen(&relay.port);
  log_clear();
  receiver->params.insecure = receiver_insecure;
  sender->params.insecure = sender_insecure;
  assert_int_equal(end_listen(receiver), 0);
  relay.to = control_port(receiver->control);
  assert_int_equal(pthread_create(&relay.thread, NULL, relay_run, &relay), 0);
  assert_int_equal(end_connect(sender, relay.port), 0);
  if (receiver_insecure && sender_insecure) {
    end_wait(sender, SEEN_PEER, out, 0);
    end_wait(receiver, SEEN_PEER, in, 0);
  } else {
    struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
    assert_int_equal(seen.code, -EACCES);
    assert_non_null(strstr(seen.text, "relay lies between"));
    assert_int_equal(end_seen(receiver, SEEN_PEER, in), 0);
  }
  end_close(sender);
  pthread_join(relay.thread, NULL);
  end_close(receiver);
  close(relay.listener);
}

static void test_relay(void **state)
{
  (void)state;
  relay_once(false, false);
  relay_once(true, false);
  relay_once(false, true);
  relay_once(true, true);
}

/* ---- Another user ---------------------------------------------------------------- */

static void test_another_user_is_kept_out(void **state)
{
  void *in;
  uint32_t uid = 0;

  (void)state;
  if (geteuid() != 0)
    skip();
  struct end *receiver = receiver_open("a", &in);
  int fd = plain_connect(control_port(receiver->control));
  assert_true(plain_receive(fd, &got));
  become(NOBODY);
  int refused = unix_connect(got.unix_path, false, &uid);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", got.unix_path);
  int side = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  int rc = connect(side, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
  become(0);
  assert_int_equal(refused, -EACCES);
  assert_int_equal(uid, 0);
  assert_int_equal(rc, -EACCES);
  close(side);
  close(fd);
  end_close(receiver);
}

/* One that came past the folder, before it was private say: by its uid. */
static void test_another_user_at_the_socket(void **state)
{
  void *in;
  char folder[WIRE_UNIX_PATH_MAX + 1];

  (void)state;
  if (geteuid() != 0)
    skip();
  struct end *receiver = receiver_open("a", &in);
  int fd = plain_connect(control_port(receiver->control));
  assert_true(plain_receive(fd, &got));
  snprintf(folder, sizeof(folder), "%s", got.unix_path);
  *strrchr(folder, '/') = '\0';
  assert_int_equal(chmod(folder, 0755), 0);
  assert_int_equal(chmod(got.unix_path, 0777), 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", got.unix_path);
  int side = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  become(NOBODY);
  int rc = connect(side, (struct sockaddr *)&address, sizeof(address));
  become(0);
  assert_int_equal(rc, 0);
  log_wait("refused a process of user 65534");
  assert_true(plain_closed(side));
  close(side);
  close(fd);
  end_close(receiver);
}

/* Where both ends let in all users: its claim is answered. */
static void test_another_user_is_let_in(void **state)
{
  struct unix_claim claim, answer;
  uint32_t uid;

  (void)state;
  if (geteuid() != 0)
    skip();
  struct end *receiver = end_new();
  end_stream(receiver, "a", false, NULL);
  receiver->params.insecure = true;
  assert_int_equal(end_listen(receiver), 0);
  int fd = plain_connect(control_port(receiver->control));
  assert_true(plain_receive(fd, &got));
  become(NOBODY);
  int refused = unix_connect(got.unix_path, false, &uid);
  int side = unix_connect(got.unix_path, true, &uid);
  become(0);
  assert_int_equal(refused, -EACCES);
  assert_true(side >= 0);
  assert_int_equal(uid, 0);
  assert_int_equal(unix_claim_make(fd, true, got.token, &claim), 0);
  assert_int_equal(unix_send_claim(side, &claim), 0);
  assert_true(plain_readable(side));
  assert_int_equal(unix_receive_claim(side, &answer), 0);
  assert_memory_equal(&answer, &claim, sizeof(claim));
  close(side);
  close(fd);
  end_close(receiver);
}

/* A listener of another user's, which does all that a receiver does. */
static void test_receiver_of_another_user(void **state)
{
  struct unix_listener theirs;
  uint16_t port;

  (void)state;
  if (geteuid() != 0)
    skip();
  struct end *sender = end_new();
  void *out = end_stream(sender, "a", true, NULL);
  int listener = plain_listen(&port);
  become(NOBODY);
  int rc = unix_listen(false, &theirs);
  become(0);
  assert_int_equal(rc, 0);
  assert_int_equal(end_connect(sender, port), 0);
  int fd = accept(listener, NULL, NULL);
  hello_of(&say, WIRE_RECEIVER);
  snprintf(say.unix_path, sizeof(say.unix_path), "%s", theirs.path);
  say.has_token = true;
  plain_send(fd, &say);
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -EACCES);
  assert_non_null(strstr(seen.text, "belongs to user 65534, this end to user 0"));
  end_close(sender);
  close(fd);
  close(listener);
  unix_unlisten(&theirs);
}

/* ---- A Unix socket that is closed without an answer ------------------------------- */

/* Says HELLO as a receiver does, and closes the Unix socket on whoever comes. */
static int turn_away(int listener, const struct unix_listener *ours)
{
  uint32_t uid;

  assert_true(plain_readable(listener));
  int fd = accept(listener, NULL, NULL);
  assert_true(fd >= 0);
  hello_of(&say, WIRE_RECEIVER);
  snprintf(say.unix_path, sizeof(say.unix_path), "%s", ours->path);
  say.has_token = true;
  plain_send(fd, &say);
  assert_true(plain_readable(ours->fd));
  int side = unix_accept(ours->fd, false, &uid);
  assert_true(side >= 0);
  close(side);
  return fd;
}

/* With the connection, as a receiver does that strangers crowd: it is tried again. Without it,
 * another process has answered. */
static void test_side_socket_closed(void **state)
{
  struct unix_listener ours;
  uint16_t port;
  struct end *sender = end_new();
  void *out = end_stream(sender, "a", true, NULL);
  int listener = plain_listen(&port);

  (void)state;
  assert_int_equal(unix_listen(false, &ours), 0);
  assert_int_equal(end_connect(sender, port), 0);
  close(turn_away(listener, &ours));
  int fd = turn_away(listener, &ours);
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -EACCES);
  assert_non_null(strstr(seen.text, "or another process answers"));
  end_close(sender);
  close(fd);
  close(listener);
  unix_unlisten(&ours);
}

/* ---- Peers that hold nobody up ---------------------------------------------------- */

static void on_alarm(int signal)
{
  (void)signal;
}

/* Where this one is the last after all, a signal ends the waiting. */
static void close_briefly(int fd)
{
  const struct sigaction action = {.sa_handler = on_alarm};
  const struct itimerval soon = {.it_interval.tv_usec = 20000, .it_value.tv_usec = 20000};
  const struct itimerval never = {0};

  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &soon, NULL);
  close(fd);
  setitimer(ITIMER_REAL, &never, NULL);
}

/* A connection that has not said HELLO, and one to the Unix socket. */
static int side_open(uint16_t port, bool claims, int *side)
{
  struct unix_claim claim;
  uint32_t uid;
  int fd = plain_connect(port);

  assert_true(plain_receive(fd, &got));
  *side = unix_connect(got.unix_path, false, &uid);
  assert_true(*side >= 0);
  assert_int_equal(unix_claim_make(fd, true, got.token, &claim), 0);
  if (claims)
    assert_int_equal(unix_send_claim(*side, &claim), 0);
  return fd;
}

/* Passes a socket: 0: in place of a claim; 1: beside nonsense behind one; 2: with no frame. The
 * peer that did is dropped. */
static void pass_socket(uint16_t port, int way, int held)
{
  static const char nonsense[16] = "0123456789abcde";
  int side, fd = side_open(port, way > 0, &side);

  assert_true(send_descriptor(side, nonsense, way == 2 ? 8 : sizeof(nonsense), held));
  close_briefly(held);
  if (way == 2)
    close(fd);
  assert_true(plain_closed(side));
  close(side);
  if (way < 2)
    close(fd);
}

/* More than there are threads that close: nobody waits, and all are closed. */
static void test_descriptors_that_linger(void **state)
{
  enum { SOCKETS = 40 };
  const struct control_totals totals = totals_of(3);
  struct end *sender = end_new();
  int others[SOCKETS];
  void *in;

  (void)state;
  struct end *receiver = receiver_open("a", &in);
  uint16_t port = control_port(receiver->control);
  void *out = end_stream(sender, "a", true, NULL);
  assert_int_equal(end_connect(sender, port), 0);
  end_wait(receiver, SEEN_PEER, in, 0);
  const uint32_t before = open_descriptors();
  for (int i = 0; i < SOCKETS; i++)
    pass_socket(port, i % 3, lingering_open(&others[i]));
  descriptors_wait(before + SOCKETS);
  assert_int_equal(control_beat(sender->control, out, &totals), 0);
  end_wait(receiver, SEEN_BEAT, in, 0);
  end_close(sender);
  end_close(receiver);
  for (int i = 0; i < SOCKETS; i++)
    close(others[i]);
}

/* Whether all threads that close are held up for good: what is closed now waits for one. */
static bool no_thread_closes(void)
{
  int ends[2];

  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  closer_close(ends[1]);
  struct pollfd closed = {.fd = ends[0], .events = POLLIN};
  while (poll(&closed, 1, 10) == 0 && !closer_is_behind()) {
  }
  close(ends[0]);
  return !closed.revents;
}

/* Closes that no option ends. No more descriptors come in, what needs none goes on, and all is as
 * before once the closes end. */
static void test_closes_that_are_held_up(void **state)
{
  enum { SOCKETS_MAX = 100 };
  const struct control_totals totals = totals_of(3);
  struct end *receiver = end_new(), *sender = end_new(), *later = end_new();
  int others[SOCKETS_MAX], count = 0, side, other;
  void *in = end_stream(receiver, "a", false, NULL), *more = end_stream(receiver, "b", false, NULL);
  void *out = end_stream(sender, "a", true, NULL);

  (void)state;
  log_clear();
  receiver->limits.notice_ns = MS(50);
  assert_int_equal(end_listen(receiver), 0);
  uint16_t port = control_port(receiver->control);
  assert_int_equal(end_connect(sender, port), 0);
  end_wait(receiver, SEEN_PEER, in, 0);
  int fd = side_open(port, true, &side);
  for (; !no_thread_closes(); count++) {
    assert_true(count < SOCKETS_MAX);
    pass_socket(port, count % 3, lingering_in_a_socket(&others[count]));
  }

  assert_true(send_descriptor(side, "12345678", 8, fd));
  assert_true(plain_receive(fd, &got));
  while (got.type == WIRE_HELLO || got.type == WIRE_KEEP)
    assert_true(plain_receive(fd, &got));
  assert_int_equal(got.type, WIRE_BYE);
  assert_non_null(strstr(got.text, "accepts no descriptors"));
  int late = side_open(port, true, &other);
  log_wait("refusing connections to the Unix socket");
  assert_int_equal(control_beat(sender->control, out, &totals), 0);
  end_wait(receiver, SEEN_BEAT, in, 0);

  for (int i = 0; i < count; i++)
    close(others[i]);
  end_stream(later, "b", true, NULL);
  assert_int_equal(end_connect(later, port), 0);
  end_wait(receiver, SEEN_PEER, more, 0);
  assert_false(closer_is_behind());
  const int ours[] = {fd, side, late, other};
  for (int i = 0; i < 4; i++)
    close(ours[i]);
  end_close(sender);
  end_close(later);
  end_close(receiver);
}

/* As many as like to: the oldest goes, and one that says its claim is heard. */
static void test_unix_connections_make_room(void **state)
{
  enum { CONNECTIONS = 200 };
  struct end *sender = end_new();
  int others[CONNECTIONS];
  uint32_t uid;
  void *in;

  (void)state;
  struct end *receiver = receiver_open("a", &in);
  uint16_t port = control_port(receiver->control);
  int fd = plain_connect(port);
  assert_true(plain_receive(fd, &got));
  for (int i = 0; i < CONNECTIONS; i++)
    assert_true((others[i] = unix_connect(got.unix_path, false, &uid)) >= 0);
  end_stream(sender, "a", true, NULL);
  assert_int_equal(end_connect(sender, port), 0);
  end_wait(receiver, SEEN_PEER, in, 0);
  assert_true(plain_closed(others[0]));
  for (int i = 0; i < CONNECTIONS; i++)
    close(others[i]);
  close(fd);
  end_close(sender);
  end_close(receiver);
}

/* ---- The folder ------------------------------------------------------------------- */

static void folder_of(const struct unix_listener *listener, char folder[WIRE_UNIX_PATH_MAX + 1])
{
  snprintf(folder, WIRE_UNIX_PATH_MAX + 1, "%s", listener->path);
  *strrchr(folder, '/') = '\0';
}

static void test_folder_is_private_and_goes(void **state)
{
  struct unix_listener listener;
  char folder[WIRE_UNIX_PATH_MAX + 1];
  struct stat is;

  (void)state;
  assert_int_equal(unix_listen(false, &listener), 0);
  folder_of(&listener, folder);
  assert_int_equal(stat(folder, &is), 0);
  assert_int_equal(is.st_mode & 07777, 0700);
  assert_int_equal(is.st_uid, geteuid());
  unix_unlisten(&listener);
  assert_int_equal(stat(folder, &is), -1);
}

/* The next start removes the folder of a killed process, and leaves those of others. */
static void test_folders_of_the_dead(void **state)
{
  struct unix_listener dead, alive, next;
  char dead_folder[WIRE_UNIX_PATH_MAX + 1], alive_folder[WIRE_UNIX_PATH_MAX + 1];
  char other[] = "/tmp/penstock-other-XXXXXX"; /* private and empty, and no Unix socket's */
  struct stat is;

  (void)state;
  assert_non_null(mkdtemp(other));
  assert_int_equal(unix_listen(false, &alive), 0);
  assert_int_equal(unix_listen(false, &dead), 0);
  folder_of(&alive, alive_folder);
  folder_of(&dead, dead_folder);
  close(dead.fd);
  close(dead.folder_fd);
  assert_int_equal(stat(dead.path, &is), 0);
  assert_int_equal(unix_listen(false, &next), 0);
  assert_int_equal(stat(dead_folder, &is), -1);
  assert_int_equal(stat(alive_folder, &is), 0);
  assert_int_equal(rmdir(other), 0);
  unix_unlisten(&next);
  unix_unlisten(&alive);
}

static void test_folder_lies_in_the_runtime_folder(void **state)
{
  char runtime[] = "/tmp/control-users-XXXXXX";
  struct unix_listener listener;

  (void)state;
  assert_non_null(mkdtemp(runtime));
  setenv("XDG_RUNTIME_DIR", runtime, 1);
  assert_int_equal(unix_listen(false, &listener), 0);
  assert_int_equal(strncmp(listener.path, runtime, strlen(runtime)), 0);
  unix_unlisten(&listener);
  /* Others could rename what lies in it. */
  assert_int_equal(chmod(runtime, 0770), 0);
  assert_int_equal(unix_listen(false, &listener), 0);
  assert_int_equal(strncmp(listener.path, "/tmp/penstock-unix-", 19), 0);
  unix_unlisten(&listener);
  unsetenv("XDG_RUNTIME_DIR");
  assert_int_equal(rmdir(runtime), 0);
}

/* A peer names the path: nothing is connected to but a Unix socket in a private folder of ours. */
static void test_paths_that_are_none(void **state)
{
  static const struct {
    const char *path;
    int rc;
  } table[] = {
      {"", -EINVAL},
      {"penstock-x/s", -EINVAL},
      {"/run/user/0/bus", -EINVAL},
      {"/s", -EINVAL},
      {"/tmp/s", -EINVAL},
      {"/tmp/penstock-unix-none/s", -ENOENT},
      {"/tmp/penstock-unix-none/../s", -EINVAL},
  };
  uint32_t uid;

  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    assert_int_equal(unix_connect(table[i].path, false, &uid), table[i].rc);
}

static int setup(void **state)
{
  (void)state;
  log_watch();
  unsetenv("XDG_RUNTIME_DIR");
  return 0;
}

#define TIMED(test)                                                                                \
  cmocka_unit_test_setup_teardown(test, simulated_clock_begin, simulated_clock_end)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tcp_alone_is_refused),
      cmocka_unit_test(test_claim_of_another_connection),
      cmocka_unit_test(test_relay),
      cmocka_unit_test(test_another_user_is_kept_out),
      cmocka_unit_test(test_another_user_at_the_socket),
      cmocka_unit_test(test_another_user_is_let_in),
      TIMED(test_receiver_of_another_user),
      cmocka_unit_test(test_descriptors_that_linger),
      cmocka_unit_test(test_closes_that_are_held_up),
      TIMED(test_side_socket_closed),
      cmocka_unit_test(test_unix_connections_make_room),
      cmocka_unit_test(test_folder_is_private_and_goes),
      cmocka_unit_test(test_folders_of_the_dead),
      cmocka_unit_test(test_folder_lies_in_the_runtime_folder),
      cmocka_unit_test(test_paths_that_are_none),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
