/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of more pieces than the transport takes in a request, by nodes on a transport of which
 * that is said: each byte once and in order, one DONE each, and none of what was refused.
 *
 *     node-pieces TRANSPORT [OPTION=VALUE]...
 */
#include "../unit/node/support.h"

#define AREA 4096u
#define PIECES 64u
#define GAP 61u /* from one piece to the next */

static struct pst_node_params params;

static struct pst_operation operation(uint8_t op, uint32_t id, const struct pst_area_piece *pieces,
                                      uint16_t count)
{
  struct pst_operation o = {.op = op, .id = id, .cookie = 7, .pieces = pieces, .remote_offset = 9};

  o.piece_count = count;
  for (uint16_t i = 0; i < count; i++)
    o.length += pieces[i].length;
  return o;
}

static void run(struct side *side, const struct pst_operation *o)
{
  assert_int_equal(pst_peer_post(side->peer, o, 1), 1);
  const struct pst_node_event done = await(side, NULL, PST_NODE_DONE);
  assert_int_equal(done.cookie, o->cookie);
  assert_int_equal(done.op, o->op);
  assert_int_equal(done.length, o->length);
  assert_int_equal(done.status, 0);
}

/* Piece i of `count`: 0 to 12 bytes, of either area. */
static void make_pieces(struct pst_area_piece pieces[PIECES], struct pst_area *const areas[2],
                        uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    pieces[i] = (struct pst_area_piece){
        .area = areas[i % 3 == 0], .offset = GAP * i + 3, .length = i * 5 % 13};
}

static void gathered_and_scattered(struct pair *pair, struct pst_area *const areas[2],
                                   struct pst_area *theirs, uint32_t id, uint32_t count)
{
  struct pst_area_piece pieces[PIECES];
  const struct pst_operation flush = {.op = PST_OP_FLUSH, .cookie = 7};
  uint8_t *far = bytes_of(theirs), before[AREA];
  struct pst_operation o;
  uint64_t at = 9;

  make_pieces(pieces, areas, count);
  memset(far, 0xee, AREA);
  for (uint32_t i = 0; i < AREA; i++) {
    bytes_of(areas[0])[i] = (uint8_t)(i * 7 + 1);
    bytes_of(areas[1])[i] = (uint8_t)(i * 11 + 5);
  }
  o = operation(PST_OP_WRITE, id, pieces, (uint16_t)count);
  run(&pair->server, &o);
  run(&pair->server, &flush);
  for (uint32_t i = 0; i < count; at += pieces[i++].length)
    assert_memory_equal(far + at, bytes_of(pieces[i].area) + pieces[i].offset, pieces[i].length);
  assert_int_equal(at, 9 + o.length);
  assert_int_equal(far[8], 0xee);
  assert_int_equal(far[at], 0xee);

  for (uint64_t i = 0; i < AREA; i++)
    far[i] ^= 0x5a;
  memcpy(before, far, AREA);
  memset(bytes_of(areas[0]), 0, AREA);
  memset(bytes_of(areas[1]), 0, AREA);
  o.op = PST_OP_READ;
  run(&pair->server, &o);
  at = 9;
  for (uint32_t i = 0; i < count; at += pieces[i++].length) {
    uint8_t *near = bytes_of(pieces[i].area) + pieces[i].offset;
    assert_memory_equal(near, before + at, pieces[i].length);
    memset(near, 0, pieces[i].length);
  }
  for (uint32_t i = 0; i < AREA; i++) /* beside the pieces nothing came */
    assert_int_equal(bytes_of(areas[0])[i] | bytes_of(areas[1])[i], 0);
}

static void many(void **state)
{
  static struct pair pair;

  (void)state;
  pair_open(&pair, &params, &params);
  struct pst_area *const areas[2] = {area_of(&pair.server, AREA), area_of(&pair.server, AREA)};
  struct pst_area *theirs = area_of(&pair.client, AREA);
  const uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  for (uint32_t count = 2; count <= PIECES; count += 1 + count / 8)
    gathered_and_scattered(&pair, areas, theirs, id, count);
  gathered_and_scattered(&pair, areas, theirs, id, PIECES);
  pair_close(&pair);
}

static void nothing_at_all_and_too_many(void **state)
{
  static struct pair pair;
  struct pst_area_piece pieces[PIECES + 1];

  (void)state;
  pair_open(&pair, &params, &params);
  struct pst_area *mine = area_of(&pair.server, AREA), *theirs = area_of(&pair.client, AREA);
  const uint32_t id = offer(&pair.client, &pair.server, theirs, ALL_ACCESS);
  for (uint32_t i = 0; i <= PIECES; i++)
    pieces[i] = (struct pst_area_piece){.area = mine, .offset = i};
  struct pst_operation o = operation(PST_OP_WRITE, id, pieces, PIECES);
  run(&pair.server, &o);
  pieces[3].length = 1;
  o = operation(PST_OP_WRITE, id, pieces, PIECES + 1);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -E2BIG);
  o = operation(PST_OP_FETCH_ADD, id, pieces, PIECES);
  assert_int_equal(pst_peer_post(pair.server.peer, &o, 1), -EINVAL);
  pair_close(&pair);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many),
      cmocka_unit_test(nothing_at_all_and_too_many),
  };

  if (!params_by(argc, argv, &params))
    return 2;
  params.pieces = PIECES;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
