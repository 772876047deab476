/* SPDX-License-Identifier: Apache-2.0 */
/* Two nodes: joining, messages, regions, operations, leaving. */
#include "support.h"

#define AREA 65536u

static void peers_join_and_leave(void **state)
{
  struct pair pair;
  const char *text;

  (void)state;
  pair_open(&pair, NULL, NULL);
  pst_peer_set_context(pair.server.peer, &pair);
  assert_non_null(strstr(pst_peer_text(pair.client.peer), "pid "));
  assert_int_equal(pst_peer_message_max(pair.client.peer), 256);
  pst_peer_close(pair.client.peer, 0, NULL);
  struct pst_node_event left = await(&pair.client, &pair.server, PST_NODE_LEFT);
  assert_int_equal(left.status, 0);
  left = await_text(&pair.server, &pair.client, PST_NODE_LEFT, &text);
  assert_int_equal(left.status, 0);
  assert_ptr_equal(left.context, &pair);
  assert_non_null(strstr(text, "has closed"));
  /* And again, on the same nodes. */
  connect_sides(&pair.server, &pair.client);
  pair_close(&pair);
}

static void reason_reaches_the_other_side(void **state)
{
  struct pair pair;
  const char *text;

  (void)state;
  pair_open(&pair, NULL, NULL);
  pst_peer_close(pair.server.peer, -EDQUOT, "has asked for more than 3 things: limit `things`");
  struct pst_node_event left = await_text(&pair.client, &pair.server, PST_NODE_LEFT, &text);
  assert_int_equal(left.status, -EDQUOT);
  assert_non_null(strstr(text, "limit `things`"));
  left = await(&pair.server, &pair.client, PST_NODE_LEFT);
  assert_int_equal(left.status, -EDQUOT);
  pair_close(&pair);
}

static void messages_go_both_ways_in_order(void **state)
{
  enum { COUNT = 1000 };
  struct pair pair;
  struct side *sides[2] = {&pair.server, &pair.client};
  uint32_t sent[2] = {0}, got[2] = {0}, rooms = 0, refused = 0;
  uint64_t deadline = now_ns() + DEADLINE_NS;

  (void)state;
  pair_open(&pair, NULL, NULL);
  while (got[0] < COUNT || got[1] < COUNT) {
    for (int i = 0; i < 2; i++) {
      struct pst_node_event event;
      char bytes[256] = {0};
      int rc = 0;
      for (; sent[i] < COUNT && rc == 0; sent[i] += rc == 0) {
        snprintf(bytes, sizeof(bytes), "%d:%u", i, sent[i]);
        rc = pst_peer_send(sides[i]->peer, bytes, 1 + sent[i] % 256);
      }
      assert_true(rc == 0 || rc == -EAGAIN);
      refused += rc == -EAGAIN;
      side_turn(sides[i]);
      while (side_take(sides[i], PST_NODE_MESSAGE, &event, bytes)) {
        char want[64] = {0};
        snprintf(want, sizeof(want), "%d:%u", !i, got[i]);
        assert_int_equal(event.length, 1 + got[i] % 256);
        assert_memory_equal(bytes, want, event.length < 8 ? (size_t)event.length : 8);
        got[i]++;
      }
      while (side_take(sides[i], PST_NODE_ROOM, &event, bytes))
        rooms++;
    }
    assert_true(now_ns() < deadline);
  }
  assert_true(refused > 0);
  assert_true(rooms > 0);
  char large[257] = {0};
  assert_int_equal(pst_peer_send(pair.client.peer, large, 257), -EMSGSIZE);
  assert_int_equal(pst_peer_send(pair.client.peer, NULL, 0), 0);
  assert_int_equal(await(&pair.server, &pair.client, PST_NODE_MESSAGE).length, 0);
  pair_close(&pair);
}

/* The receiver polls only after the other has left. */
static void messages_before_a_close_arrive(void **state)
{
  struct pair pair;
  struct pst_node_event event;
  char bytes[256];

  (void)state;
  pair_open(&pair, NULL, NULL);
  for (int i = 0; i < 8; i++)
    assert_int_equal(pst_peer_send(pair.client.peer, "last", 5), 0);
  pst_peer_close(pair.client.peer, 0, NULL);
  await(&pair.client, NULL, PST_NODE_LEFT);
  await(&pair.server, NULL, PST_NODE_LEFT);
  for (int i = 0; i < 8; i++) {
    assert_true(side_take(&pair.server, PST_NODE_MESSAGE, &event, bytes));
    assert_string_equal(bytes, "last");
  }
  assert_false(side_take(&pair.server, PST_NODE_MESSAGE, &event, bytes));
  pair_close(&pair);
}

static void regions_are_written_and_read(void **state)
{
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, 2 * AREA);
  uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  for (uint64_t pattern = 0; pattern < 10; pattern++) {
    uint64_t length = 1 + pattern * 5000, at = pattern * 64;
    assert_int_equal(pst_area_fill(mine, 100, length, pattern), 0);
    struct pst_operation o = make_operation(PST_OP_WRITE, id, mine, 100, at, length);
    assert_int_equal(run_operation(&pair.server, &o).status, 0);
    o = make_operation(PST_OP_FLUSH, 0, NULL, 0, 0, 0);
    assert_int_equal(run_operation(&pair.server, &o).status, 0);
    assert_int_equal(pst_area_verify(theirs, at, length, pattern, NULL), 0);
    assert_int_equal(pst_area_verify(theirs, at, length, pattern + 1, NULL), -EBADMSG);
    assert_int_equal(pst_area_fill(theirs, at, length, pattern + 77), 0);
    o = make_operation(PST_OP_READ, id, mine, AREA, at, length);
    assert_int_equal(run_operation(&pair.server, &o).status, 0);
    assert_int_equal(pst_area_verify(mine, AREA, length, pattern + 77, NULL), 0);
  }
  pair_close(&pair);
}

static void pieces_and_atomics(void **state)
{
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  struct pst_area *other = area_of(&pair.server, AREA);
  uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  struct pst_area_piece pieces[5] = {
      {mine, 0, 10, 0}, {other, 5, 20, 0}, {mine, 100, 0, 0}, {mine, 200, 3, 0}, {mine, 0, 1, 0}};
  for (uint32_t i = 0; i < AREA; i++)
    bytes_of(mine)[i] = (uint8_t)i, bytes_of(other)[i] = (uint8_t)(i ^ 0xff);
  struct pst_operation o = make_operation(PST_OP_WRITE, id, NULL, 0, 7, 33);
  o.piece_count = 4;
  o.pieces = pieces;
  assert_int_equal(run_operation(&pair.server, &o).status, 0);
  assert_memory_equal(bytes_of(theirs) + 7, bytes_of(mine), 10);
  assert_memory_equal(bytes_of(theirs) + 17, bytes_of(other) + 5, 20);
  assert_memory_equal(bytes_of(theirs) + 37, bytes_of(mine) + 200, 3);
  o.piece_count = 5;
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -E2BIG);
  o.piece_count = 4;
  o.length = 34;
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -EINVAL);
  pieces[3].length = AREA;
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -ERANGE);

  uint64_t *word = (uint64_t *)(void *)(bytes_of(theirs) + 64);
  *word = 5;
  o = make_operation(PST_OP_FETCH_ADD, id, mine, 8, 64, 8);
  o.operand = 3;
  assert_int_equal(run_operation(&pair.server, &o).status, 0);
  assert_int_equal(*word, 8);
  assert_int_equal(*(uint64_t *)(void *)(bytes_of(mine) + 8), 5);
  o = make_operation(PST_OP_COMPARE_SWAP, id, mine, 8, 64, 8);
  o.compare = 8;
  o.operand = 99;
  assert_int_equal(run_operation(&pair.server, &o).status, 0);
  assert_int_equal(*word, 99);
  pair_close(&pair);
}

static void what_is_wrong_is_refused_at_once(void **state)
{
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  struct pst_area *strange = area_of(&pair.client, AREA);
  uint32_t id = offer(&pair.client, &pair.server, theirs, PST_ACCESS_REMOTE_READ);
  const struct {
    struct pst_operation o;
    int rc;
  } wrong[] = {
      {make_operation(PST_OP_WRITE, id, mine, 0, 0, 8), -EACCES},
      {make_operation(PST_OP_FETCH_ADD, id, mine, 0, 0, 8), -EACCES},
      {make_operation(PST_OP_READ, id + 1, mine, 0, 0, 8), -ENOENT},
      {make_operation(PST_OP_READ, 0, mine, 0, 0, 8), -ENOENT},
      {make_operation(PST_OP_READ, id, mine, 0, 0, AREA + 1), -ERANGE},
      {make_operation(PST_OP_READ, id, mine, AREA - 7, 0, 8), -ERANGE},
      {make_operation(PST_OP_READ, id, mine, 0, AREA - 7, 8), -ERANGE},
      {make_operation(PST_OP_READ, id, mine, 0, UINT64_MAX - 3, 8), -ERANGE},
      {make_operation(PST_OP_READ, id, mine, UINT64_MAX - 3, 0, 8), -ERANGE},
      {make_operation(PST_OP_READ, id, mine, 0, 0, 0), -EINVAL},
      {make_operation(PST_OP_READ, id, NULL, 0, 0, 8), -EINVAL},
      {make_operation(PST_OP_READ, id, strange, 0, 0, 8), -EINVAL},
      {make_operation(PST_OP_SEND, id, mine, 0, 0, 8), -EINVAL},
      {make_operation(77, id, mine, 0, 0, 8), -EINVAL},
      {make_operation(PST_OP_FLUSH, id, NULL, 0, 0, 0), -EINVAL},
      {make_operation(PST_OP_FLUSH, 0, mine, 0, 0, 0), -EINVAL},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    if (pst_peer_post(pair.server.peer, &wrong[i].o, 1) != wrong[i].rc)
      fail_msg("operation %zu is not refused by %d", i, wrong[i].rc);
  uint32_t none = 77;
  struct pst_peer *owner = pair.client.peer;
  assert_int_equal(pst_peer_offer(owner, theirs, 0, AREA + 1, ALL_ACCESS, &none), -ERANGE);
  assert_int_equal(pst_peer_offer(owner, theirs, 1, UINT64_MAX, ALL_ACCESS, &none), -ERANGE);
  assert_int_equal(pst_peer_offer(owner, theirs, 0, 0, ALL_ACCESS, &none), -EINVAL);
  assert_int_equal(pst_peer_offer(owner, theirs, 0, 8, 0, &none), -EINVAL);
  assert_int_equal(pst_peer_offer(owner, theirs, 0, 8, PST_ACCESS_RING, &none), -EINVAL);
  assert_int_equal(pst_peer_offer(owner, mine, 0, 8, ALL_ACCESS, &none), -EINVAL);
  assert_int_equal(pst_peer_withdraw(owner, 9), -ENOENT);
  assert_int_equal(none, 77);
  pair_close(&pair);
}

/* The key covers what was offered and nothing besides. */
static void part_of_an_area_is_offered(void **state)
{
  struct pair pair;
  uint32_t id;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  memset(bytes_of(theirs), 0x11, AREA);
  memset(bytes_of(mine), 0x22, AREA);
  assert_int_equal(pst_peer_offer(pair.client.peer, theirs, 1000, 100, ALL_ACCESS, &id), 0);
  assert_int_equal(await(&pair.server, &pair.client, PST_NODE_OFFERED).length, 100);
  assert_int_equal(pst_area_free(theirs), -EBUSY);
  struct pst_operation o = make_operation(PST_OP_WRITE, id, mine, 0, 0, 101);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -ERANGE);
  o = make_operation(PST_OP_WRITE, id, mine, 0, 0, 100);
  assert_int_equal(run_operation(&pair.server, &o).status, 0);
  assert_int_equal(bytes_of(theirs)[999], 0x11);
  assert_int_equal(bytes_of(theirs)[1000], 0x22);
  assert_int_equal(bytes_of(theirs)[1099], 0x22);
  assert_int_equal(bytes_of(theirs)[1100], 0x11);

  assert_int_equal(pst_peer_withdraw(pair.client.peer, id), 0);
  assert_int_equal(pst_area_free(theirs), 0);
  o = make_operation(PST_OP_WRITE, id, mine, 0, 0, 100);
  int rc = pst_peer_post(pair.server.peer, &o, 1);
  assert_true(rc == -EACCES); /* before it has heard of it */
  assert_int_equal(await(&pair.server, &pair.client, PST_NODE_WITHDRAWN).id, id);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -ENOENT);
  pair_close(&pair);
}

static struct pst_node_params narrow(const struct pst_setting *options, uint32_t count,
                                     struct pst_filter_params *filter)
{
  struct pst_node_params params = some_params();

  *filter = (struct pst_filter_params){"narrow", options, count, 0};
  params.filters = filter;
  params.filter_count = 1;
  return params;
}

/* More than the transport moves at once, many at a time, and each ends once. */
static void long_operations_are_cut(void **state)
{
  static const struct pst_setting options[] = {{"rma_max", "1000"}, {"late", "3"}};
  struct pst_filter_params filter;
  struct pst_node_params params = narrow(options, 2, &filter);
  struct pair pair;
  uint64_t deadline = now_ns() + DEADLINE_NS;
  uint32_t posted = 0, done = 0;

  (void)state;
  pair_open(&pair, &params, NULL);
  assert_int_equal(pst_node_transfer_max(pair.server.node), 1000);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  assert_int_equal(pst_area_fill(mine, 0, 40000, 3), 0);
  while (done < 40) {
    struct pst_operation o = make_operation(PST_OP_WRITE, id, mine, 1000u * posted, 1000u * posted,
                                            posted % 2 ? 100 : 40000);
    struct pst_node_event event;
    char text[256];
    o.offset = o.remote_offset = posted % 2 ? 50000 : 0;
    o.cookie = posted;
    int rc = posted < 40 ? pst_peer_post(pair.server.peer, &o, 1) : 0;
    assert_in_range(rc, 0, 1);
    posted += (uint32_t)rc;
    side_turn(&pair.server);
    while (side_take(&pair.server, PST_NODE_DONE, &event, text)) {
      assert_int_equal(event.status, 0);
      assert_int_equal(event.length, event.cookie % 2 ? 100 : 40000);
      done++;
    }
    assert_true(now_ns() < deadline);
  }
  assert_int_equal(pst_area_verify(theirs, 0, 40000, 3, NULL), 0);
  pair_close(&pair);
}

static void write_once(struct side *server, struct side *client, struct pst_area *theirs,
                       struct pst_area *mine)
{
  uint32_t id = offer(client, server, theirs, ALL_ACCESS);
  struct pst_operation o = make_operation(PST_OP_WRITE, id, mine, 0, 0, AREA);

  assert_int_equal(pst_peer_post(server->peer, &o, 1), 1);
  assert_int_equal(await(server, client, PST_NODE_DONE).status, 0);
}

/* The transport ends an operation twice: its peer is left, told of once, and no other. */
static void double_completion_costs_one_peer(void **state)
{
  static const struct pst_setting options[] = {{"twice", "1"}};
  struct pst_filter_params filter;
  struct pst_node_params params = narrow(options, 1, &filter);
  static struct side other;
  struct pst_node_event event;
  struct pair pair;
  char text[256];

  (void)state;
  pair_open(&pair, &params, NULL);
  struct pst_area *mine = area_of(&pair.server, AREA);
  write_once(&pair.server, &pair.client, area_of(&pair.client, AREA), mine);
  event = await(&pair.server, &pair.client, PST_NODE_LEFT);
  assert_ptr_equal(event.peer, pair.server.peer);
  assert_int_equal(event.status, -EIO);
  assert_false(side_take(&pair.server, PST_NODE_DONE, &event, text));
  params = some_params();
  side_open(&other, &params);
  connect_sides(&pair.server, &other);
  write_once(&pair.server, &other, area_of(&other, AREA), mine);
  assert_int_equal(pst_area_free(mine), 0);
  side_close(&other);
  pair_close(&pair);
}

/* The rest is not posted, and until DONE the area is in use. */
static void cancelled_operation_ends_once(void **state)
{
  static const struct pst_setting options[] = {{"rma_max", "1000"}, {"late", "50"}};
  struct pst_filter_params filter;
  struct pst_node_params params = narrow(options, 2, &filter);
  struct pair pair;

  (void)state;
  pair_open(&pair, &params, NULL);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  memset(bytes_of(theirs), 0, AREA);
  memset(bytes_of(mine), 1, AREA);
  struct pst_operation o = make_operation(PST_OP_WRITE, id, mine, 0, 0, AREA);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), 1);
  assert_int_equal(pst_area_free(mine), -EBUSY);
  assert_int_equal(pst_peer_cancel(pair.server.peer, o.cookie + 1), 0);
  assert_int_equal(pst_peer_cancel(pair.server.peer, o.cookie), 1);
  struct pst_node_event done = await(&pair.server, NULL, PST_NODE_DONE);
  assert_int_equal(done.status, -ECANCELED);
  assert_int_equal(done.cookie, o.cookie);
  assert_int_equal(pst_peer_cancel(pair.server.peer, o.cookie), 0);
  assert_int_equal(bytes_of(theirs)[AREA - 1], 0);
  assert_int_equal(pst_area_free(mine), 0);
  pair_close(&pair);
}

/* Withdrawn while much is under way there: all ends, then WITHDRAWN comes. */
static void withdrawn_under_load(void **state)
{
  static const struct pst_setting options[] = {{"late", "20"}};
  struct pst_filter_params filter;
  struct pst_node_params params = narrow(options, 1, &filter);
  struct pair pair;
  uint32_t done = 0, failed = 0;

  (void)state;
  pair_open(&pair, &params, NULL);
  struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
  uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  for (uint32_t i = 0; i < 16; i++) {
    struct pst_operation o = make_operation(PST_OP_WRITE, id, mine, 0, 0, 1024);
    assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), 1);
  }
  struct pst_operation more = make_operation(PST_OP_WRITE, id, mine, 0, 0, 1024);
  assert_int_equal(pst_peer_post(pair.server.peer, &more, 1), 0);
  assert_int_equal(pst_peer_withdraw(pair.client.peer, id), 0);
  for (bool withdrawn = false; !withdrawn;) {
    side_poll(&pair.server);
    for (uint32_t i = 0; i < pair.server.logged; i++) {
      assert_false(withdrawn && pair.server.log[i].kind == PST_NODE_DONE);
      done += pair.server.log[i].kind == PST_NODE_DONE;
      failed += pair.server.log[i].kind == PST_NODE_DONE && pair.server.log[i].status < 0;
      withdrawn |= pair.server.log[i].kind == PST_NODE_WITHDRAWN;
    }
    pair.server.logged = 0;
  }
  assert_int_equal(done, 16);
  assert_int_equal(failed, 16);
  pair_close(&pair);
}

/* By either side, with operations under way: a DONE each, then LEFT. */
static void closing_ends_every_operation(void **state)
{
  static const struct pst_setting options[] = {{"late", "1000000"}};
  struct pst_filter_params filter;
  struct pst_node_params params = narrow(options, 1, &filter);

  (void)state;
  for (int who = 0; who < 2; who++) {
    struct pair pair;
    uint32_t done = 0;
    bool left = false;
    pair_open(&pair, &params, NULL);
    struct pst_area *theirs = area_of(&pair.client, AREA), *mine = area_of(&pair.server, AREA);
    uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
    for (uint32_t i = 0; i < 10; i++) {
      struct pst_operation o =
          make_operation(i % 2 ? PST_OP_READ : PST_OP_WRITE, id, mine, 0, 0, 64);
      assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), 1);
    }
    pst_peer_close(who ? pair.client.peer : pair.server.peer, -ECONNABORTED, "has had enough");
    while (!left) {
      side_poll(&pair.server);
      side_poll(&pair.client);
      for (uint32_t i = 0; i < pair.server.logged; i++) {
        const struct pst_node_event *event = &pair.server.log[i];
        assert_false(left);
        if (event->kind == PST_NODE_DONE) {
          assert_true(event->status < 0);
          done++;
        }
        left |= event->kind == PST_NODE_LEFT;
      }
      pair.server.logged = 0;
    }
    assert_int_equal(done, 10);
    assert_int_equal(pst_area_free(mine), 0);
    pair_close(&pair);
  }
}

static void areas_are_read_and_written(void **state)
{
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_plugin_info info = {.struct_size = sizeof(info)};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area, *none = NULL;
  struct pair pair;
  char bytes[16] = "";

  (void)state;
  pair_open(&pair, NULL, NULL);
  area = area_of(&pair.server, 100);
  assert_int_equal(pst_area_write(area, 90, 10, "0123456789"), 0);
  assert_int_equal(pst_area_read(area, 92, 8, bytes), 0);
  assert_string_equal(bytes, "23456789");
  assert_int_equal(pst_area_read(area, 93, 8, bytes), -ERANGE);
  assert_int_equal(pst_area_write(area, 101, 0, bytes), -ERANGE);
  assert_int_equal(pst_area_fill(area, 50, 51, 1), -ERANGE);
  uint32_t crc = 0;
  assert_int_equal(pst_area_write(area, 91, 9, "123456789"), 0);
  assert_int_equal(pst_area_checksum(area, 91, 9, &crc), 0);
  assert_int_equal(crc, 0xe3069283u);
  assert_int_equal(pst_area_checksum(area, 92, 9, &crc), -ERANGE);
  assert_string_equal(pst_area_backing(area), "memfd");
  assert_int_equal(pst_area_free(area), 0);
  assert_int_equal(pst_area_free(NULL), 0);

  assert_int_equal(pst_peer_path(pair.server.peer, &path), 0);
  assert_int_equal(path.path, PST_PATH_DIRECT);
  assert_int_equal(pst_node_depth(pair.server.node), 16);
  assert_true(pst_node_capabilities(pair.server.node) & PST_CAP_DYNAMIC);
  assert_int_equal(pst_node_plugins(pair.server.node), 2);
  assert_int_equal(pst_node_plugin(pair.server.node, 0, &info), 0);
  assert_string_equal(info.name, "loopback");
  assert_int_equal(pst_node_plugin(pair.server.node, 2, &info), -ENOENT);

  struct pst_area_params params = {.struct_size = sizeof(params), .memory = "hoast", .length = 1};
  assert_true(pst_node_alloc(pair.server.node, &params, &none, &error) < 0);
  assert_non_null(strstr(error.text, "did you mean \"host\""));
  params.memory = NULL;
  params.length = 0;
  assert_int_equal(pst_node_alloc(pair.server.node, &params, &none, &error), -EINVAL);
  params.length = 1;
  params.access = PST_ACCESS_LOCAL_WRITE;
  assert_int_equal(pst_node_alloc(pair.server.node, &params, &none, &error), -EINVAL);
  params.access = 0;
  params.reserved = 1;
  assert_int_equal(pst_node_alloc(pair.server.node, &params, &none, &error), -EINVAL);
  params.reserved = 0;
  params.length = UINT64_MAX / 2;
  params.label = "the store";
  error = (struct pst_error)PST_ERROR_INIT;
  assert_true(pst_node_alloc(pair.server.node, &params, &none, &error) < 0);
  assert_non_null(strstr(error.text, "the store"));
  assert_null(none);
  pair_close(&pair);
}

/* Many ends in one poll, with a message between: each is reported, in order, however few events
 * fit. */
static void events_keep_their_order(void **state)
{
  struct pst_node_event event;
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *theirs = area_of(&pair.client, 4096), *mine = area_of(&pair.server, 4096);
  uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  for (uint64_t round = 0; round < 3; round++) {
    struct pst_operation operations[12];
    for (uint64_t i = 0; i < 12; i++)
      operations[i] = (struct pst_operation){.op = i % 3 ? PST_OP_WRITE : PST_OP_READ,
                                             .id = id,
                                             .cookie = 100 * round + i,
                                             .area = mine,
                                             .offset = 8 * i,
                                             .remote_offset = 8 * i,
                                             .length = 8};
    assert_int_equal(pst_peer_send(pair.client.peer, "", 0), 0);
    assert_int_equal(pst_peer_post(pair.server.peer, operations, 12), 12);
    uint64_t next = 100 * round, deadline = now_ns() + DEADLINE_NS;
    bool has_message = false;
    while (next < 100 * round + 12 || !has_message) {
      int n = pst_node_poll(pair.server.node, &event, round == 1 ? 0 : 1);
      if (round == 1 && n == 0)
        n = pst_node_poll(pair.server.node, &event, 1);
      side_poll(&pair.client);
      assert_true(now_ns() < deadline);
      if (n == 0)
        continue;
      assert_int_equal(n, 1);
      has_message |= event.kind == PST_NODE_MESSAGE;
      if (event.kind != PST_NODE_DONE)
        continue;
      assert_int_equal(event.cookie, next++);
      assert_int_equal(event.status, 0);
      assert_int_equal(event.length, 8);
      assert_ptr_equal(event.peer, pair.server.peer);
    }
  }
  assert_int_equal(pst_area_free(mine), 0);
  pair_close(&pair);
}

/* A transport that works within one process alone is refused to nodes that do not say so. */
static void nodes_of_one_process(void **state)
{
  const struct pst_setting mode = {"mode", "reference"};
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_node_params params = some_params();
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node *node = NULL;
  struct pair pair;

  (void)state;
  params.transport_options = &mode;
  params.transport_option_count = 1;
  assert_true(pst_node_open(&params, &node, &error) < 0);
  assert_null(node);
  params.in_process = 1;
  pair_open(&pair, &params, &params);
  assert_int_equal(pst_peer_path(pair.client.peer, &path), 0);
  assert_string_equal(path.carrier, "memory");
  struct pst_area *theirs = area_of(&pair.client, 64);
  offer(&pair.client, &pair.server, theirs, PST_ACCESS_REMOTE_WRITE);
  assert_int_equal(pst_area_path(theirs, &path), 0);
  assert_string_equal(path.via, "memcpy");
  pair_close(&pair);
}

static void nobody_there(void **state)
{
  struct pst_node_params params = some_params();
  struct pst_error error = PST_ERROR_INIT;
  struct pst_peer *peer = NULL;
  struct side side;
  const char *text;

  (void)state;
  params.listen = "127.0.0.1:0";
  side_open(&side, &params);
  uint16_t port = pst_node_port(side.node);
  assert_int_not_equal(port, 0);
  side_close(&side);
  params.listen = NULL;
  side_open(&side, &params);
  assert_int_equal(pst_node_port(side.node), 0);
  char address[64];
  snprintf(address, sizeof(address), "127.0.0.1:%u", port);
  assert_int_equal(pst_node_connect(side.node, address, &peer, &error), 0);
  struct pst_node_event left = await_text(&side, NULL, PST_NODE_LEFT, &text);
  assert_ptr_equal(left.peer, peer);
  assert_int_equal(left.status, -ECONNREFUSED);
  assert_non_null(strstr(text, address));
  peer = NULL;
  assert_int_equal(pst_node_connect(side.node, "nonsense", &peer, &error), -EINVAL);
  assert_int_equal(pst_node_connect(side.node, "192.0.2.1:1", &peer, &error), -EPERM);
  assert_null(peer);
  side_turn(&side);
  side_close(&side);
}

static void unfit_transports_and_options_are_named(void **state)
{
  struct pst_node_params params = some_params();
  struct pst_node *node = NULL;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  params.transport = "udp";
  assert_int_equal(pst_node_open(&params, &node, &error), -EINVAL);
  assert_non_null(strstr(error.text, "READ or WRITE, which transport udp does not have"));
  params.transport = "loopbak";
  error = (struct pst_error)PST_ERROR_INIT;
  assert_true(pst_node_open(&params, &node, &error) < 0);
  assert_non_null(strstr(error.text, "loopback"));
  const struct pst_setting bad[] = {{"mode", "copies"}};
  params = some_params();
  params.transport_options = bad;
  params.transport_option_count = 1;
  error = (struct pst_error)PST_ERROR_INIT;
  assert_int_equal(pst_node_open(&params, &node, &error), -EINVAL);
  assert_non_null(strstr(error.text, "mode"));
  params = some_params();
  params.pieces = 1000000;
  error = (struct pst_error)PST_ERROR_INIT;
  assert_int_equal(pst_node_open(&params, &node, &error), -EINVAL);
  assert_non_null(strstr(error.text, "pieces"));
  params = some_params();
  params.struct_size = 8;
  assert_int_equal(pst_node_open(&params, &node, &error), -EINVAL);
  assert_null(node);
}

static void waking_and_waiting(void **state)
{
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  while (pst_node_arm(pair.server.node) == -EAGAIN)
    side_turn(&pair.server);
  uint64_t until = now_ns() + 20000000;
  assert_int_equal(pst_node_wait(pair.server.node, &until), 1);
  pst_node_wake(pair.server.node);
  assert_int_equal(pst_node_wait(pair.server.node, NULL), 0);
  side_turn(&pair.server);
  assert_int_equal(pst_peer_send(pair.client.peer, "x", 1), 0);
  while (pair.server.logged == 0) { /* no bound: it must be woken */
    pst_node_wait(pair.server.node, NULL);
    side_turn(&pair.server);
  }
  assert_int_equal(pair.server.log[0].kind, PST_NODE_MESSAGE);
  pair_close(&pair);
}

/* Keys and addresses that the control channel cannot carry are refused when the node is opened. */
static void keys_and_addresses_that_are_too_long(void **state)
{
  static const struct {
    struct pst_setting option;
    const char *words;
  } rows[] = {{{"remote_max", "16385"},
               "the key of a region of transport loopback has up to 16385 bytes with these "
               "options, and the "
               "control channel carries 16384; let it use fewer devices or lanes"},
              {{"address_max", "16385"},
               "an endpoint's address of transport loopback has up to 16385 bytes with these "
               "options, and"}};

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const struct pst_filter_params filter = {"claiming", &rows[i].option, 1, 0};
    struct pst_node_params params = some_params();
    struct pst_error error = PST_ERROR_INIT;
    struct pst_node *node = NULL;

    params.filters = &filter;
    params.filter_count = 1;
    assert_int_equal(pst_node_open(&params, &node, &error), -E2BIG);
    assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
    assert_non_null(strstr(error.text, rows[i].words));
    assert_null(node);
  }
}

/* A peer whose messages lie where the CPU may not read them is left, and not kept waiting. */
static void lent_memory_of_a_gpu_is_not_read(void **state)
{
  const struct pst_setting lends = {"lends", "true"}, mode = {"mode", "reference"};
  const struct pst_filter_params filter = {"claiming", &lends, 1, 0};
  struct pst_node_params params = some_params();
  struct pair pair;
  const char *text;

  (void)state;
  params.filters = &filter;
  params.filter_count = 1;
  params.in_process = 1;
  params.transport_options = &mode;
  params.transport_option_count = 1;
  pair_open(&pair, &params, &params);
  assert_int_equal(pst_peer_send(pair.client.peer, "hello", 5), 0);
  struct pst_node_event left = await_text(&pair.server, &pair.client, PST_NODE_LEFT, &text);
  assert_int_equal(left.status, -EIO);
  assert_string_equal(text, "its transport delivers a message from memory that it has not lent");
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(peers_join_and_leave),
      cmocka_unit_test(keys_and_addresses_that_are_too_long),
      cmocka_unit_test(reason_reaches_the_other_side),
      cmocka_unit_test(messages_go_both_ways_in_order),
      cmocka_unit_test(messages_before_a_close_arrive),
      cmocka_unit_test(regions_are_written_and_read),
      cmocka_unit_test(pieces_and_atomics),
      cmocka_unit_test(what_is_wrong_is_refused_at_once),
      cmocka_unit_test(part_of_an_area_is_offered),
      cmocka_unit_test(long_operations_are_cut),
      cmocka_unit_test(double_completion_costs_one_peer),
      cmocka_unit_test(cancelled_operation_ends_once),
      cmocka_unit_test(withdrawn_under_load),
      cmocka_unit_test(closing_ends_every_operation),
      cmocka_unit_test(areas_are_read_and_written),
      cmocka_unit_test(events_keep_their_order),
      cmocka_unit_test(nodes_of_one_process),
      cmocka_unit_test(nobody_there),
      cmocka_unit_test(unfit_transports_and_options_are_named),
      cmocka_unit_test(waking_and_waiting),
      cmocka_unit_test(lent_memory_of_a_gpu_is_not_read),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
