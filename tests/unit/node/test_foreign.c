/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of another process offers, as its own, the key of a region that is another peer's and
 * really in use. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "between.h"

#define AREA 65536u

static struct between thief_way, owner_way;

/* A process that joins the node at the address that it reads, and does nothing, or offers
 * a region. It is made before this one has threads. */
struct other {
  pid_t pid;
  int address; /* to write to */
};

/* No cmocka in here. */
static void other_main(int address_fd, bool offers)
{
  struct pst_node_params params = open_params();
  struct pst_area_params area_params = {.struct_size = sizeof(area_params), .length = AREA};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node_event events[8];
  struct pst_node *node;
  struct pst_peer *peer;
  struct pst_area *area;
  char address[64];
  uint32_t id;

  if (read(address_fd, address, sizeof(address)) != sizeof(address) ||
      pst_node_open(&params, &node, &error) < 0 ||
      pst_node_connect(node, address, &peer, &error) < 0 ||
      pst_node_alloc(node, &area_params, &area, &error) < 0)
    _exit(1);
  for (;;) {
    int n = pst_node_poll(node, events, 8);
    for (int i = 0; i < n; i++)
      if (events[i].kind == PST_NODE_LEFT ||
          (events[i].kind == PST_NODE_JOINED && offers &&
           pst_peer_offer(peer, area, 0, AREA, ALL_ACCESS, &id) < 0))
        _exit(1);
    if (n == 0)
      pst_node_wait(node, NULL);
  }
}

static struct other other_open(bool offers)
{
  int address[2];

  assert_int_equal(pipe2(address, O_CLOEXEC), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0)
    other_main(address[0], offers);
  close(address[0]);
  return (struct other){pid, address[1]};
}

static void other_begin(const struct other *other, const struct between *between)
{
  assert_int_equal(write(other->address, between->address, sizeof(between->address)),
                   sizeof(between->address));
}

static void other_close(const struct other *other)
{
  int status;

  kill(other->pid, SIGKILL);
  assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
  close(other->address);
}

/* An event of this side's; the other one's, where it is here, goes on too. */
static struct pst_node_event until(struct side *side, struct side *other, uint16_t port,
                                   uint8_t kind)
{
  struct side *const sides[] = {side, other};
  uint64_t deadline = now_ns() + DEADLINE_NS;
  struct pst_node_event event;
  char text[256];

  while (!side_take(side, kind, &event, text)) {
    between_pass(&owner_way, port);
    between_pass(&thief_way, port);
    const int fds[] = {owner_way.up.from, owner_way.down.from, thief_way.up.from,
                       thief_way.down.from};
    sides_sleep(sides, other ? 2 : 1, fds, 4, 0);
    side_turn(side);
    if (other)
      side_turn(other);
    if (now_ns() > deadline)
      fail_msg("no event of kind %u", kind);
  }
  return event;
}

static void offer_as_own(const struct between *overheard)
{
  static struct wire_message said;

  assert_true(overheard->key_bytes > 0 && overheard->key_length == AREA);
  memset(&said, 0, sizeof(said));
  said.type = WIRE_REGION;
  said.region_id = 1;
  said.access = ALL_ACCESS;
  said.blob = overheard->key;
  said.blob_length = overheard->key_bytes;
  said.region_length = overheard->key_length;
  between_add(&thief_way, &said);
}

static void use(struct side *server, struct side *here, uint32_t id, struct pst_area *mine)
{
  struct pst_operation o = {.op = PST_OP_WRITE, .id = id, .area = mine, .length = AREA};

  assert_int_equal(pst_peer_post(server->peer, &o, 1), 1);
  assert_int_equal(until(server, here, pst_node_port(server->node), PST_NODE_DONE).status, 0);
}

/* owner: in this process, as the server is, whose memory any part of it could reach; or in one of
 * its own. */
static void stolen(bool owner_is_here)
{
  const struct other thief = other_open(false);
  const struct other elsewhere = owner_is_here ? (struct other){0, -1} : other_open(true);
  struct pst_node_params params = open_params();
  struct pst_error error = PST_ERROR_INIT;
  static struct side server, owner;
  struct side *here = owner_is_here ? &owner : NULL;
  struct pst_area *theirs = NULL;
  struct pst_node_event event;
  char text[256];
  uint32_t id;

  params.listen = "127.0.0.1:0";
  side_open(&server, &params);
  const uint16_t port = pst_node_port(server.node);
  params.listen = NULL;
  between_listen(&owner_way);
  between_listen(&thief_way);
  if (owner_is_here) {
    side_open(&owner, &params);
    assert_int_equal(pst_node_connect(owner.node, owner_way.address, &owner.peer, &error), 0);
    theirs = area_of(&owner, AREA);
  } else {
    other_begin(&elsewhere, &owner_way);
  }
  server.peer = until(&server, here, port, PST_NODE_JOINED).peer;
  if (owner_is_here) {
    until(&owner, &server, port, PST_NODE_JOINED);
    assert_int_equal(pst_peer_offer(owner.peer, theirs, 0, AREA, ALL_ACCESS, &id), 0);
  }
  id = until(&server, here, port, PST_NODE_OFFERED).id;
  struct pst_area *mine = area_of(&server, AREA);
  assert_int_equal(pst_area_fill(mine, 0, AREA, 1), 0);
  use(&server, here, id, mine);
  other_begin(&thief, &thief_way);
  event = until(&server, here, port, PST_NODE_JOINED);
  struct pst_peer *who = event.peer;
  assert_ptr_not_equal(who, server.peer);
  offer_as_own(&owner_way);
  /* It is refused: which the thief's honest half has not asked for, and leaves. */
  event = until(&server, here, port, PST_NODE_LEFT);
  assert_ptr_equal(event.peer, who);
  assert_false(side_take(&server, PST_NODE_OFFERED, &event, text));
  use(&server, here, id, mine);
  /* Nobody would pass on what an end says last, for which the other waits a second. */
  between_hang_up(&owner_way);
  between_hang_up(&thief_way);
  if (owner_is_here) {
    assert_int_equal(pst_area_verify(theirs, 0, AREA, 1, NULL), 0);
    side_close(&owner);
  } else {
    other_close(&elsewhere);
  }
  side_close(&server);
  close(owner_way.listener);
  close(thief_way.listener);
  other_close(&thief);
}

static void of_a_peer_within_the_server(void **state)
{
  (void)state;
  stolen(true);
}

static void of_a_peer_elsewhere(void **state)
{
  (void)state;
  stolen(false);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_a_peer_elsewhere),
      cmocka_unit_test(of_a_peer_within_the_server),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
