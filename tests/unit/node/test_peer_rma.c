/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: what is refused, what a transport lacks, memory that copies itself, and that each one
 * ends once. */
#include "support.h"

#define AREA 1048576u

static struct pst_node_params with_narrow(const struct pst_setting *options, uint32_t count)
{
  static struct pst_filter_params filter;
  struct pst_node_params params = some_params();

  filter = (struct pst_filter_params){"narrow", options, count, 0};
  params.filters = &filter;
  params.filter_count = 1;
  return params;
}

/* A pair of which the server reaches a region of the client's. */
struct reach {
  struct pair pair;
  struct pst_area *mine, *theirs;
  uint32_t id;
};

static void reach_open(struct reach *reach, const struct pst_node_params *server)
{
  pair_open(&reach->pair, server, NULL);
  reach->theirs = area_of(&reach->pair.client, AREA);
  reach->mine = area_of(&reach->pair.server, AREA);
  reach->id = offer(&reach->pair.client, &reach->pair.server, reach->theirs, ALL_ACCESS);
}

/* Whatever was posted before it, and whether or not it could go the short way. */
static void bounds_and_fields_are_checked(void **state)
{
  static const struct pst_setting cut[] = {{"rma_max", "4 KiB"}};
  static const struct {
    uint8_t op;
    uint64_t near, far, length;
    int rc;
  } bad[] = {
      {PST_OP_WRITE, AREA, 0, 1, -ERANGE},
      {PST_OP_WRITE, 0, AREA, 1, -ERANGE},
      {PST_OP_WRITE, AREA - 7, 0, 8, -ERANGE},
      {PST_OP_READ, 0, AREA - 7, 8, -ERANGE},
      {PST_OP_WRITE, UINT64_MAX, 0, 1, -ERANGE},
      {PST_OP_WRITE, 0, UINT64_MAX - 3, 8, -ERANGE},
      {PST_OP_READ, 8, 0, UINT64_MAX, -ERANGE},
      {PST_OP_READ, 0, 0, UINT64_MAX - 7, -ERANGE},
      {PST_OP_READ, 0, 0, AREA + 1, -ERANGE},
      {PST_OP_READ, 0, 0, 0, -EINVAL},
      {PST_OP_FLUSH, 0, 0, 1, -EINVAL},
      {PST_OP_FLUSH, 0, 8, 0, -EINVAL},
      {PST_OP_FETCH_ADD, 0, 0, 4, -EINVAL},
      {PST_OP_FETCH_ADD, 0, 4, 8, -EINVAL},
      {PST_OP_FETCH_ADD, 4, 0, 8, -EINVAL},
      {PST_OP_COMPARE_SWAP, 0, AREA, 8, -ERANGE},
      {PST_OP_FETCH_ADD, UINT64_MAX - 7, 0, 8, -ERANGE},
      {PST_OP_SEND, 0, 0, 8, -EINVAL},
      {7, 0, 0, 8, -EINVAL},
      {33, 0, 0, 8, -EINVAL},
      {0, 0, 0, 8, -EINVAL},
  };

  (void)state;
  for (uint32_t k = 0; k < 2; k++) {
    const struct pst_node_params params = with_narrow(cut, k);
    struct reach reach;
    reach_open(&reach, &params);
    struct side *side = &reach.pair.server;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
      const bool is_flush = bad[i].op == PST_OP_FLUSH;
      struct pst_operation o[2] = {
          make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, AREA - 8, 8),
          make_operation(bad[i].op, is_flush ? 0 : reach.id, is_flush ? NULL : reach.mine,
                         bad[i].near, bad[i].far, bad[i].length)};
      if (pst_peer_post(side->peer, &o[1], 1) != bad[i].rc)
        fail_msg("operation %zu is not refused by %d", i, bad[i].rc);
      /* Posted behind a good operation: only the good one is taken. */
      assert_int_equal(pst_peer_post(side->peer, o, 2), 1);
      assert_int_equal(await(side, NULL, PST_NODE_DONE).cookie, o[0].cookie);
    }
    struct pst_operation o = make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, 0, 8);
    o.flags = PST_REQUEST_EXCLUSIVE;
    assert_int_equal(pst_peer_post(side->peer, &o, 1), -EINVAL);
    o.flags = 0;
    o.operand = 1;
    assert_int_equal(pst_peer_post(side->peer, &o, 1), -EINVAL);
    o.operand = 0;
    o.reserved = 1;
    assert_int_equal(pst_peer_post(side->peer, &o, 1), -EINVAL);
    o.reserved = 0;
    o.id++;
    assert_int_equal(pst_peer_post(side->peer, &o, 1), -ENOENT);
    o.id--;
    o.area = reach.theirs;
    assert_int_equal(pst_peer_post(side->peer, &o, 1), -EINVAL);
    o = make_operation(PST_OP_WRITE, reach.id, reach.mine, AREA, AREA, 0);
    assert_int_equal(run_operation(side, &o).status, 0);
    assert_int_equal(pst_area_fill(reach.mine, 1, AREA, 0), -ERANGE);
    assert_int_equal(pst_area_verify(reach.theirs, UINT64_MAX, 2, 0, NULL), -ERANGE);
    pair_close(&reach.pair);
  }
}

static struct pst_area *area_in(struct side *side, const char *memory)
{
  const struct pst_area_params params = {
      .struct_size = sizeof(params), .memory = memory, .length = AREA};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area;

  if (pst_node_alloc(side->node, &params, &area, &error) < 0)
    fail_msg("%s", error.text);
  return area;
}

/* A node that has connected to itself: side->peer posts; returns the peer that offers. */
static struct pst_peer *meet_itself(struct side *side)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_peer *other = NULL;
  char address[64];

  snprintf(address, sizeof(address), "127.0.0.1:%u", pst_node_port(side->node));
  assert_int_equal(pst_node_connect(side->node, address, &side->peer, &error), 0);
  for (int i = 0; i < 2; i++) {
    struct pst_node_event event = await(side, NULL, PST_NODE_JOINED);
    if (event.peer != side->peer)
      other = event.peer;
  }
  assert_non_null(other);
  return other;
}

/* Memory that the CPU cannot touch, at either end or both: copied by its plugin, later. */
static void memory_that_copies_itself(void **state)
{
  static const struct pst_setting cut[] = {{"rma_max", "64 KiB"}};
  static const struct {
    const char *near, *far;
    uint32_t cut;
  } memories[] = {
      {"late", "late", 0}, {"late", "host", 0}, {"host", "late", 0}, {"host", "late", 1}};
  static struct side side;

  (void)state;
  for (size_t i = 0; i < sizeof(memories) / sizeof(*memories); i++) {
    struct pst_node_params params = with_narrow(cut, memories[i].cut);
    uint32_t id;
    params.in_process = 1;
    params.listen = "127.0.0.1:0";
    side_open(&side, &params);
    /* Before they meet, as penstock.h says. */
    struct pst_area *mine = area_in(&side, memories[i].near);
    struct pst_area *theirs = area_in(&side, memories[i].far);
    struct pst_peer *owner = meet_itself(&side);
    assert_int_equal(pst_peer_offer(owner, theirs, 0, AREA,
                                    PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE, &id),
                     0);
    await(&side, NULL, PST_NODE_OFFERED);
    struct pst_operation o = make_operation(PST_OP_WRITE, id, mine, 4096, 100000, 300001);
    assert_int_equal(pst_area_fill(mine, 4096, 300001, 5), 0);
    assert_int_equal(run_operation(&side, &o).status, 0);
    o = make_operation(PST_OP_FLUSH, 0, NULL, 0, 0, 0);
    assert_int_equal(run_operation(&side, &o).status, 0);
    assert_int_equal(pst_area_verify(theirs, 100000, 300001, 5, NULL), 0);
    assert_int_equal(pst_area_verify(theirs, 100000, 300001, 6, NULL), -EBADMSG);
    assert_int_equal(pst_area_fill(theirs, 500000, 200000, 9), 0);
    o = make_operation(PST_OP_READ, id, mine, 800000, 500000, 200000);
    assert_int_equal(run_operation(&side, &o).status, 0);
    assert_int_equal(pst_area_verify(mine, 800000, 200000, 9, NULL), 0);
    side_close(&side);
  }
}

static void what_a_transport_lacks_is_reported(void **state)
{
  static const struct pst_setting writes_only[] = {{"read", "false"}, {"atomic", "false"}};
  static const struct pst_setting neither[] = {{"read", "false"}, {"write", "false"}};
  static const struct pst_setting no_device[] = {{"device", "false"}};
  struct pst_node_params params = with_narrow(writes_only, 2);
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node *node = NULL;
  struct pst_area *area = NULL;
  struct pair pair;
  uint32_t id;

  (void)state;
  pair_open(&pair, &params, NULL);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  struct pst_operation o = make_operation(PST_OP_READ, id, mine, 0, 0, 8);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -EOPNOTSUPP);
  o = make_operation(PST_OP_FETCH_ADD, id, mine, 0, 0, 8);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -EOPNOTSUPP);
  o = make_operation(PST_OP_WRITE, id, mine, 0, 0, 8);
  assert_int_equal(run_operation(&pair.server, &o).status, 0);
  /* Behind it, by the short way. */
  o = make_operation(PST_OP_READ, id, mine, 0, 0, 8);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -EOPNOTSUPP);
  pair_close(&pair);

  params = with_narrow(neither, 2);
  assert_int_equal(pst_node_open(&params, &node, &error), -EOPNOTSUPP);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  assert_non_null(strstr(error.text, "lacks READ and WRITE"));
  assert_null(node);

  params = with_narrow(no_device, 1);
  params.in_process = 1;
  assert_int_equal(pst_node_open(&params, &node, &error), 0);
  const struct pst_area_params late = {
      .struct_size = sizeof(late), .memory = "late", .length = AREA, .label = "the store"};
  error = (struct pst_error)PST_ERROR_INIT;
  assert_int_equal(pst_node_alloc(node, &late, &area, &error), -EOPNOTSUPP);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  assert_non_null(strstr(error.text, "the store: transport loopback reaches"));
  assert_non_null(strstr(error.text, "choose another memory"));
  assert_null(area);
  pst_node_close(node);
}

static struct pst_operation some_operation(const struct reach *reach, uint64_t number,
                                           uint64_t *random)
{
  static const uint8_t ops[] = {PST_OP_WRITE, PST_OP_WRITE, PST_OP_READ, PST_OP_FLUSH,
                                PST_OP_FETCH_ADD};
  const uint8_t op = ops[number * 7 / 3 % 5];
  const bool is_flush = op == PST_OP_FLUSH;
  struct pst_operation o =
      make_operation(op, is_flush ? 0 : reach->id, is_flush ? NULL : reach->mine, 0,
                     is_flush ? 0 : 8, is_flush ? 0 : 8);

  *random = *random * UINT64_C(6364136223846793005) + 1;
  if (op == PST_OP_WRITE || op == PST_OP_READ)
    o.length = 1 + (*random >> 33) % 2000;
  o.cookie = number;
  return o;
}

/* All of them many times over, out of order and cut: each ends once. */
static void each_ends_once(void **state)
{
  static const struct pst_setting options[][3] = {
      {{NULL, NULL}},
      {{"rma_max", "300"}, {"late", "2"}},
      {{"rma_max", "700"}, {"late", "4"}, {"requests", "41"}}};
  static const uint32_t counts[] = {0, 2, 3};
  static uint8_t seen[20000];

  (void)state;
  for (size_t k = 0; k < 3; k++) {
    struct pst_node_params params = with_narrow(options[k], counts[k]);
    struct reach reach;
    uint64_t posted = 0, ended = 0, random = 1, deadline = now_ns() + DEADLINE_NS;
    params.depth = 64;
    reach_open(&reach, &params);
    memset(seen, 0, sizeof(seen));
    while (ended < sizeof(seen)) {
      struct pst_operation batch[50];
      struct pst_node_event events[20];
      uint64_t again = random;
      uint32_t n = 0;
      for (; n < 50 && posted + n < sizeof(seen); n++)
        batch[n] = some_operation(&reach, posted + n, &random);
      int rc = pst_peer_post(reach.pair.server.peer, batch, n);
      assert_true(rc >= 0);
      if (rc == 0)
        random = again;
      posted += (uint64_t)rc;
      rc = pst_node_poll(reach.pair.server.node, events, 20);
      assert_true(rc >= 0);
      for (int i = 0; i < rc; i++) {
        if (events[i].kind == PST_NODE_ROOM)
          continue;
        assert_int_equal(events[i].kind, PST_NODE_DONE);
        assert_int_equal(events[i].status, 0);
        assert_true(events[i].cookie < posted);
        assert_int_equal(seen[events[i].cookie]++, 0);
        ended++;
      }
      assert_true(now_ns() < deadline);
    }
    assert_int_equal(pst_area_free(reach.mine), 0);
    pair_close(&reach.pair);
  }
}

static void the_depth_bounds_what_is_taken(void **state)
{
  struct pst_node_event event;
  struct reach reach;
  uint32_t taken = 0;

  (void)state;
  reach_open(&reach, NULL);
  struct side *side = &reach.pair.server;
  struct pst_operation o = make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, 0, 8);
  while (pst_peer_post(side->peer, &o, 1) == 1)
    taken++;
  assert_int_equal(taken, pst_node_depth(side->node));
  assert_int_equal(pst_peer_post(side->peer, &o, 1), 0);
  assert_int_equal(pst_node_poll(side->node, &event, 1), 1);
  assert_int_equal(event.kind, PST_NODE_DONE);
  assert_int_equal(pst_peer_post(side->peer, &o, 1), 1);
  assert_int_equal(pst_peer_post(side->peer, &o, 1), 0);
  while (taken-- > 0)
    assert_int_equal(await(side, NULL, PST_NODE_DONE).status, 0);
  await(side, NULL, PST_NODE_ROOM);
  assert_int_equal(pst_peer_post(side->peer, &o, 1), 1);
  pair_close(&reach.pair);
}

/* Over shared memory an operation has ended when it was posted: its bytes are there, a sleeper has
 * something to do, and DONEs come in the order of the posts, before the end of the peer. */
static void what_has_ended_when_it_was_posted_comes_first(void **state)
{
  struct pst_node_event events[4];
  struct pst_operation o[5];
  struct reach reach;

  (void)state;
  reach_open(&reach, NULL);
  struct side *side = &reach.pair.server;
  /* The first that names a region is looked at more closely, and may end later. */
  o[0] = make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, 0, 8);
  assert_int_equal(run_operation(side, &o[0]).status, 0);
  memset(bytes_of(reach.mine), 7, 64);
  memset(bytes_of(reach.theirs), 0, 64);
  while (pst_node_arm(side->node) == -EAGAIN)
    side_turn(side);
  for (uint32_t i = 0; i < 5; i++)
    o[i] =
        make_operation(i % 2 ? PST_OP_READ : PST_OP_WRITE, reach.id, reach.mine, 8 * i, 8 * i, 8);
  assert_int_equal(pst_peer_post(side->peer, o, 1), 1);
  assert_int_equal(pst_peer_post(side->peer, o + 1, 4), 4);
  assert_int_equal(bytes_of(reach.theirs)[0], 7);
  assert_int_equal(bytes_of(reach.mine)[8], 0);
  assert_int_equal(pst_node_arm(side->node), -EAGAIN);
  assert_int_equal(pst_peer_cancel(side->peer, o[0].cookie), 0);
  pst_peer_close(side->peer, 0, NULL);
  assert_int_equal(pst_node_poll(side->node, events, 0), 0);
  assert_int_equal(pst_node_poll(side->node, events, 2), 2);
  assert_int_equal(pst_node_poll(side->node, events + 2, 1), 1);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(events[i].kind, PST_NODE_DONE);
    assert_int_equal(events[i].op, o[i].op);
    assert_int_equal(events[i].cookie, o[i].cookie);
    assert_int_equal(events[i].length, 8);
    assert_int_equal(events[i].status, 0);
    assert_ptr_equal(events[i].peer, side->peer);
  }
  assert_int_equal(pst_area_free(reach.mine), 0); /* in use by none of them */
  for (uint32_t i = 3; i < 5; i++)
    assert_int_equal(await(side, &reach.pair.client, PST_NODE_DONE).cookie, o[i].cookie);
  assert_int_equal(await(side, &reach.pair.client, PST_NODE_LEFT).status, 0);
  await(&reach.pair.client, side, PST_NODE_LEFT);
  pair_close(&reach.pair);
}

/* The poll that hands out what has ended looks for nothing else, but not for ever. */
static void what_has_ended_holds_nothing_up(void **state)
{
  struct pst_node_event event = {0};
  struct reach reach;
  uint32_t polls = 0;

  (void)state;
  reach_open(&reach, NULL);
  struct side *side = &reach.pair.server;
  const struct pst_operation o = make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, 0, 8);
  assert_int_equal(pst_peer_send(reach.pair.client.peer, "x", 1), 0);
  side_turn(&reach.pair.client);
  for (; event.kind != PST_NODE_MESSAGE && polls < 100; polls++) {
    if (event.kind == 0 || event.kind == PST_NODE_DONE)
      assert_int_equal(pst_peer_post(side->peer, &o, 1), 1);
    assert_int_equal(pst_node_poll(side->node, &event, 1), 1);
  }
  assert_in_range(polls, 1, 70);
  pair_close(&reach.pair);
}

/* Results of checking the operation before do not hold for another area, other rights, or a region
 * that was withdrawn. */
static void operations_like_the_last_are_checked_anew(void **state)
{
  struct reach reach;

  (void)state;
  reach_open(&reach, NULL);
  struct side *side = &reach.pair.server, *other = &reach.pair.client;
  struct pst_operation o = make_operation(PST_OP_WRITE, reach.id, reach.mine, AREA - 8, 0, 8);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(run_operation(side, &o).status, 0);
  assert_int_equal(pst_area_free(reach.mine), 0);
  reach.mine = area_of(side, 4096); /* where the other one was, perhaps */
  o.area = reach.mine;
  assert_int_equal(pst_peer_post(side->peer, &o, 1), -ERANGE);
  o.offset = 4096 - 8;
  assert_int_equal(run_operation(side, &o).status, 0);

  const uint32_t readable = offer(other, side, reach.theirs, PST_ACCESS_REMOTE_READ);
  struct pst_operation read = o, write = o;
  read.op = PST_OP_READ;
  read.id = write.id = readable;
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(run_operation(side, &read).status, 0);
  assert_int_equal(pst_peer_post(side->peer, &write, 1), -EACCES);

  assert_int_equal(run_operation(side, &o).status, 0);
  assert_int_equal(pst_peer_withdraw(other->peer, reach.id), 0);
  assert_int_equal(await(side, other, PST_NODE_WITHDRAWN).id, reach.id);
  assert_int_equal(pst_peer_post(side->peer, &o, 1), -ENOENT);
  assert_int_equal(run_operation(side, &read).status, 0);
  pair_close(&reach.pair);
}

/* Under way, cut, and not yet handed out: leaving brings all of them back. */
static void leaving_brings_all_back(void **state)
{
  static const struct pst_setting options[] = {
      {"rma_max", "1000"}, {"late", "1000000"}, {"requests", "50"}};
  const struct pst_node_params params = with_narrow(options, 3);
  struct reach reach;

  (void)state;
  reach_open(&reach, &params);
  struct side *side = &reach.pair.server;
  const struct pst_operation o[4] = {
      make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, 0, 100),
      make_operation(PST_OP_READ, reach.id, reach.mine, 0, 0, 200),
      make_operation(PST_OP_FETCH_ADD, reach.id, reach.mine, 0, 0, 8),
      make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, 0, 900000)};
  assert_int_equal(pst_peer_post(side->peer, o, 4), 4);
  assert_int_equal(pst_peer_post(side->peer, o, 1), 0);
  pst_peer_close(side->peer, -EDQUOT, "enough");
  assert_int_equal(pst_peer_post(side->peer, o, 1), -ENOTCONN);
  for (int i = 0; i < 4; i++)
    assert_true(await(side, &reach.pair.client, PST_NODE_DONE).status < 0);
  assert_int_equal(await(side, &reach.pair.client, PST_NODE_LEFT).status, -EDQUOT);
  assert_int_equal(await(&reach.pair.client, side, PST_NODE_LEFT).status, -EDQUOT);
  assert_int_equal(pst_area_free(reach.mine), 0);
  pair_close(&reach.pair);
}

/* Closed as it is: nothing is leaked or touched afterwards (the sanitizers look). */
static void a_node_may_close_at_any_time(void **state)
{
  static const struct pst_setting options[] = {{"late", "100000"}, {"rma_max", "100"}};

  (void)state;
  for (uint32_t i = 0; i <= 2; i += 2) {
    const struct pst_node_params params = with_narrow(options, i);
    struct reach reach;
    reach_open(&reach, &params);
    const struct pst_operation o[2] = {
        make_operation(PST_OP_READ, reach.id, reach.mine, 0, 0, 200),
        make_operation(PST_OP_WRITE, reach.id, reach.mine, 0, 0, 90000)};
    assert_int_equal(pst_peer_post(reach.pair.server.peer, o, 2), 2);
    pst_node_close(reach.pair.server.node);
    reach.pair.server.node = NULL;
    await(&reach.pair.client, NULL, PST_NODE_LEFT);
    pair_close(&reach.pair);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds_and_fields_are_checked),
      cmocka_unit_test(memory_that_copies_itself),
      cmocka_unit_test(what_a_transport_lacks_is_reported),
      cmocka_unit_test(each_ends_once),
      cmocka_unit_test(the_depth_bounds_what_is_taken),
      cmocka_unit_test(leaving_brings_all_back),
      cmocka_unit_test(a_node_may_close_at_any_time),
      cmocka_unit_test(what_has_ended_when_it_was_posted_comes_first),
      cmocka_unit_test(what_has_ended_holds_nothing_up),
      cmocka_unit_test(operations_like_the_last_are_checked_anew),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
