/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that their owner withdraws while its peer goes on with others, by nodes. Once a
 * FLUSH behind the WRITEs is done, the owner may withdraw the region, whatever else is under way.
 * If the owner withdraws it before, its device may refuse the requests, as an RDMA device does.
 * That ends the connection, and no other one.
 *
 *     node-withdraw TRANSPORT [OPTION=VALUE]...
 */
#include "../unit/node/support.h"

#define AREA 4096u
#define ROUNDS 50u

static struct pst_node_params params;
static bool refusal_ends; /* the connection */

/* The server's own area, and two of the client's regions. */
struct ends {
  struct pair pair;
  struct pst_area *mine, *theirs[2];
  uint32_t ids[2];
};

static struct pst_operation write_to(const struct ends *ends, uint32_t id)
{
  return (struct pst_operation){.op = PST_OP_WRITE, .id = id, .area = ends->mine, .length = AREA};
}

static const struct pst_operation flush = {.op = PST_OP_FLUSH};

static void post(struct ends *ends, const struct pst_operation *o)
{
  assert_int_equal(pst_peer_post(ends->pair.server.peer, o, 1), 1);
}

/* The next DONE is of this operation, with this status; only the server is polled. */
static void ends_as(struct ends *ends, uint8_t op, int status)
{
  const struct pst_node_event done = await(&ends->pair.server, NULL, PST_NODE_DONE);

  assert_int_equal(done.op, op);
  assert_int_equal(done.status, status);
}

static void run(struct ends *ends, const struct pst_operation *o)
{
  post(ends, o);
  ends_as(ends, o->op, 0);
}

static void ends_open(struct ends *ends)
{
  memset(ends, 0, sizeof(*ends));
  pair_open(&ends->pair, &params, &params);
  ends->mine = area_of(&ends->pair.server, AREA);
  assert_int_equal(pst_area_fill(ends->mine, 0, AREA, 3), 0);
  for (int i = 0; i < 2; i++) {
    ends->theirs[i] = area_of(&ends->pair.client, AREA);
    ends->ids[i] = offer(&ends->pair.client, &ends->pair.server, ends->theirs[i], ALL_ACCESS);
    const struct pst_operation o = write_to(ends, ends->ids[i]);
    run(ends, &o);
  }
}

static void take_away(struct ends *ends, struct pst_area *area, uint32_t id)
{
  assert_int_equal(pst_peer_withdraw(ends->pair.client.peer, id), 0);
  assert_int_equal(pst_area_free(area), 0);
}

static void still_there(struct side *one, struct side *other)
{
  struct pst_node_event event;
  char text[256];

  assert_int_equal(pst_peer_send(one->peer, "here", 4), 0);
  await(other, one, PST_NODE_MESSAGE);
  assert_false(side_take(one, PST_NODE_LEFT, &event, text));
  assert_false(side_take(other, PST_NODE_LEFT, &event, text));
}

/* A region comes, is written, flushed and taken away, and the writer, who has not heard of that,
 * goes on with another. */
static void flushed_regions_go(void **state)
{
  static struct ends ends;

  (void)state;
  ends_open(&ends);
  const struct pst_operation stays = write_to(&ends, ends.ids[1]);
  run(&ends, &flush);
  take_away(&ends, ends.theirs[0], ends.ids[0]);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    post(&ends, &stays);
    post(&ends, &flush);
    ends_as(&ends, PST_OP_WRITE, 0);
    ends_as(&ends, PST_OP_FLUSH, 0);
    await(&ends.pair.server, NULL, PST_NODE_WITHDRAWN);
    struct pst_area *area = area_of(&ends.pair.client, AREA);
    const uint32_t id = offer(&ends.pair.client, &ends.pair.server, area, ALL_ACCESS);
    const struct pst_operation o = write_to(&ends, id);
    post(&ends, &stays);
    post(&ends, &o);
    post(&ends, &flush);
    ends_as(&ends, PST_OP_WRITE, 0);
    ends_as(&ends, PST_OP_WRITE, 0);
    ends_as(&ends, PST_OP_FLUSH, 0);
    assert_int_equal(pst_area_verify(area, 0, AREA, 3, NULL), 0);
    take_away(&ends, area, id);
  }
  still_there(&ends.pair.server, &ends.pair.client);
  pair_close(&ends.pair);
}

/* Not flushed, but known to be gone: no FLUSH asks for it. */
static void what_is_known_to_be_gone_is_left_alone(void **state)
{
  static struct ends ends;

  (void)state;
  for (int which = 0; which < 2; which++) {
    ends_open(&ends);
    take_away(&ends, ends.theirs[which], ends.ids[which]);
    await(&ends.pair.server, &ends.pair.client, PST_NODE_WITHDRAWN);
    run(&ends, &flush);
    const struct pst_operation stays = write_to(&ends, ends.ids[1 - which]);
    run(&ends, &stays);
    run(&ends, &flush);
    still_there(&ends.pair.server, &ends.pair.client);
    pair_close(&ends.pair);
  }
}

/* The operation is refused, and the server's other clients go on. */
static void is_refused(struct ends *ends, const struct pst_operation *o)
{
  if (refusal_ends) {
    post(ends, o);
    ends_as(ends, o->op, o->op == PST_OP_FLUSH ? -ECONNRESET : -EACCES);
    assert_int_equal(await(&ends->pair.server, &ends->pair.client, PST_NODE_LEFT).status, -EACCES);
    assert_int_equal(await(&ends->pair.client, &ends->pair.server, PST_NODE_LEFT).status, -EACCES);
    return;
  }
  if (o->op == PST_OP_FLUSH)
    run(ends, o);
  else
    assert_int_equal(pst_peer_post(ends->pair.server.peer, o, 1), -EACCES);
  still_there(&ends->pair.server, &ends->pair.client);
}

static void taken_away_too_early(void **state)
{
  static struct ends ends;
  static struct side bystander;

  (void)state;
  for (int with_flush = 0; with_flush < 2; with_flush++) {
    ends_open(&ends);
    struct pst_peer *peer = ends.pair.server.peer;
    side_open(&bystander, &params);
    connect_sides(&ends.pair.server, &bystander);
    ends.pair.server.peer = peer;
    const struct pst_operation o = write_to(&ends, ends.ids[0]);
    take_away(&ends, ends.theirs[0], ends.ids[0]);
    is_refused(&ends, with_flush ? &flush : &o);
    still_there(&bystander, &ends.pair.server);
    side_close(&bystander);
    pair_close(&ends.pair);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flushed_regions_go),
      cmocka_unit_test(what_is_known_to_be_gone_is_left_alone),
      cmocka_unit_test(taken_away_too_early),
  };

  if (!params_by(argc, argv, &params))
    return 2;
  refusal_ends = strcmp(params.transport, "verbs_rc") == 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
