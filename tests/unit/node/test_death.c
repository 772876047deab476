/* SPDX-License-Identifier: Apache-2.0 */
/* A peer in another process is killed in every state; the node goes on. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define AREA (1u << 20)

/* How far the child goes before it is killed. */
enum stage { CONNECTING, JOINED, OFFERED, WRITTEN, SENDING, STAGES };

static void say(int fd, char what)
{
  if (write(fd, &what, 1) != 1)
    _exit(1);
}

/* A process that will be a peer of the node whose port it reads from a pipe. It is made before any
 * node of this one's has a thread: what is forked then may have threads under a sanitizer, too. */
struct kin {
  pid_t pid;
  int port; /* to write to */
  int said; /* to read from */
};

/* No cmocka in here: its failures are this process's alone. */
static void child(enum stage stage, int port_fd, int fd)
{
  uint16_t port;
  struct pst_node_params params = some_params();
  struct pst_area_params area_params = {.struct_size = sizeof(area_params), .length = AREA};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node_event events[8];
  struct pst_node *node;
  struct pst_peer *peer;
  struct pst_area *area;
  uint32_t id;
  char address[64];

  if (read(port_fd, &port, sizeof(port)) != sizeof(port))
    _exit(1);
  snprintf(address, sizeof(address), "127.0.0.1:%u", port);
  if (pst_node_open(&params, &node, &error) < 0 ||
      pst_node_connect(node, address, &peer, &error) < 0 ||
      pst_node_alloc(node, &area_params, &area, &error) < 0)
    _exit(1);
  if (stage == CONNECTING)
    say(fd, 'k');
  for (;;) {
    int n = pst_node_poll(node, events, 8);
    for (int i = 0; i < n; i++) {
      if (events[i].kind == PST_NODE_LEFT)
        _exit(1);
      if (events[i].kind == PST_NODE_JOINED && stage == JOINED)
        say(fd, 'k');
      if (events[i].kind == PST_NODE_JOINED &&
          pst_peer_offer(peer, area, 0, AREA, ALL_ACCESS, &id) < 0)
        _exit(1);
      if (events[i].kind == PST_NODE_TAKEN && stage == OFFERED)
        say(fd, 'k');
      if (events[i].kind == PST_NODE_MESSAGE && stage == WRITTEN)
        say(fd, 'k');
      if (events[i].kind == PST_NODE_MESSAGE && stage == SENDING) {
        while (pst_peer_send(peer, "flood", 6) == 0)
          ;
        say(fd, 'k');
      }
    }
    if (n == 0)
      pst_node_wait(node, NULL);
  }
}

static struct kin kin_open(enum stage stage)
{
  int port[2], said[2];

  assert_int_equal(pipe2(port, O_CLOEXEC), 0);
  assert_int_equal(pipe2(said, O_CLOEXEC), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0)
    child(stage, port[0], said[1]);
  close(port[0]);
  close(said[1]);
  return (struct kin){pid, port[1], said[0]};
}

static void kin_begin(const struct kin *kin, const struct side *server)
{
  uint16_t port = pst_node_port(server->node);

  assert_int_equal(write(kin->port, &port, sizeof(port)), sizeof(port));
}

static void kin_close(const struct kin *kin)
{
  close(kin->port);
  close(kin->said);
}

static void use_region(struct side *server, struct pst_area *mine, uint32_t id, bool *told)
{
  struct pst_operation o = {
      .op = PST_OP_WRITE, .id = id, .cookie = 1, .area = mine, .length = AREA};

  while (pst_peer_post(server->peer, &o, 1) == 1)
    ;
  if (!*told)
    *told = pst_peer_send(server->peer, "go", 3) == 0;
}

static void killed_at(enum stage stage)
{
  struct pst_node_params params = some_params();
  uint64_t deadline = now_ns() + DEADLINE_NS;
  bool dead = false, told = false, left = false;
  uint32_t id = 0;
  struct side server;
  int status;
  char what;
  const struct kin kin = kin_open(stage);

  assert_int_equal(fcntl(kin.said, F_SETFL, O_NONBLOCK), 0);
  params.listen = "127.0.0.1:0";
  params.connect_timeout_ns = 2000000000;
  side_open(&server, &params);
  struct pst_area *mine = area_of(&server, AREA);
  kin_begin(&kin, &server);
  while (!left && !(stage == CONNECTING && dead && server.logged == 0 && now_ns() > deadline)) {
    struct pst_node_event event;
    char text[256];
    if (!dead && read(kin.said, &what, 1) == 1) {
      kill(kin.pid, SIGKILL);
      dead = true;
      /* The client may have died before it connected. */
      if (stage == CONNECTING)
        deadline = now_ns() + 300000000;
    }
    side_poll(&server);
    if (side_take(&server, PST_NODE_JOINED, &event, text))
      server.peer = event.peer;
    if (side_take(&server, PST_NODE_OFFERED, &event, text))
      id = event.id;
    while (side_take(&server, PST_NODE_DONE, &event, text) ||
           side_take(&server, PST_NODE_ROOM, &event, text) ||
           side_take(&server, PST_NODE_MESSAGE, &event, text))
      ;
    left = side_take(&server, PST_NODE_LEFT, &event, text);
    if (left)
      assert_true(event.status == -ECONNRESET || event.status == -ETIMEDOUT);
    else if (id && stage >= WRITTEN)
      use_region(&server, mine, id, &told);
    if (stage != CONNECTING || !dead)
      assert_true(now_ns() < deadline);
  }
  assert_int_equal(waitpid(kin.pid, &status, 0), kin.pid);
  assert_true(dead && WIFSIGNALED(status));
  /* Nothing of it is left in use, and the next one is served. */
  side_turn(&server);
  assert_int_equal(pst_area_free(mine), 0);
  struct side client;
  params = some_params();
  side_open(&client, &params);
  server.logged = 0;
  connect_sides(&server, &client);
  side_close(&client);
  side_close(&server);
  kin_close(&kin);
}

static void killed_while_connecting(void **state)
{
  (void)state;
  for (int i = 0; i < 5; i++)
    killed_at(CONNECTING);
}

static void killed_once_joined(void **state)
{
  (void)state;
  killed_at(JOINED);
}

static void killed_with_a_region_on_offer(void **state)
{
  (void)state;
  killed_at(OFFERED);
}

static void killed_while_its_region_is_written(void **state)
{
  (void)state;
  for (int i = 0; i < 5; i++)
    killed_at(WRITTEN);
}

static void killed_while_it_sends(void **state)
{
  (void)state;
  killed_at(SENDING);
}

/* Stopped, not dead: nothing of it is heard any more. */
static void stopped_peer_times_out(void **state)
{
  struct pst_node_params params = some_params();
  struct side server;
  struct pst_node_event event;
  const struct kin kin = kin_open(OFFERED);
  int status;
  char what;

  (void)state;
  params.listen = "127.0.0.1:0";
  params.peer_timeout_ns = 600000000;
  side_open(&server, &params);
  kin_begin(&kin, &server);
  await(&server, NULL, PST_NODE_OFFERED);
  assert_int_equal(read(kin.said, &what, 1), 1);
  assert_int_equal(kill(kin.pid, SIGSTOP), 0);
  event = await(&server, NULL, PST_NODE_LEFT);
  assert_int_equal(event.status, -ETIMEDOUT);
  kill(kin.pid, SIGKILL);
  assert_int_equal(waitpid(kin.pid, &status, 0), kin.pid);
  side_close(&server);
  kin_close(&kin);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(killed_while_connecting),
      cmocka_unit_test(killed_once_joined),
      cmocka_unit_test(killed_with_a_region_on_offer),
      cmocka_unit_test(killed_while_its_region_is_written),
      cmocka_unit_test(killed_while_it_sends),
      cmocka_unit_test(stopped_peer_times_out),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
