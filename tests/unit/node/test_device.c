/* SPDX-License-Identifier: Apache-2.0 */
/* Areas in memory that the CPU cannot touch: the plugin cuda, on the fake driver, whose copies
 * are done late, or on the real one. */
#include <dlfcn.h>

#include "support.h"

#define AREA (1u << 20)

static struct pst_area *device_area(struct side *side)
{
  struct pst_area_params params = {
      .struct_size = sizeof(params), .memory = "cuda", .length = AREA, .label = "device"};
  struct pst_range range = {.struct_size = sizeof(range)};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area;

  if (pst_node_alloc(side->node, &params, &area, &error) < 0)
    fail_msg("%s", error.text);
  assert_int_equal(pst_area_range(area, &range), 0);
  assert_null(range.host);
  return area;
}

static struct pst_operation operation(uint8_t op, uint32_t id, struct pst_area *area,
                                      uint64_t length)
{
  static uint64_t cookie;
  return (struct pst_operation){
      .op = op, .id = id, .cookie = ++cookie, .area = area, .length = length};
}

static void run_one(struct side *side, const struct pst_operation *o)
{
  assert_int_equal(pst_peer_post(side->peer, o, 1), 1);
  struct pst_node_event done = await(side, NULL, PST_NODE_DONE);
  assert_int_equal(done.cookie, o->cookie);
  assert_int_equal(done.status, 0);
}

/* The server's own memory is there before the peer is. */
static struct pst_area *open_with_area(struct pair *pair, bool device)
{
  struct pst_node_params params = some_params();

  params.listen = "127.0.0.1:0";
  side_open(&pair->server, &params);
  params.listen = NULL;
  side_open(&pair->client, &params);
  struct pst_area *mine = device ? device_area(&pair->server) : area_of(&pair->server, AREA);
  connect_sides(&pair->server, &pair->client);
  return mine;
}

/* Nothing copies between it and the CPU's here. */
static void device_memory_without_one_of_our_own_is_refused(void **state)
{
  struct pair pair;
  const char *text;
  uint32_t id;

  (void)state;
  open_with_area(&pair, false);
  struct pst_area *theirs = device_area(&pair.client);
  assert_int_equal(pst_peer_offer(pair.client.peer, theirs, 0, AREA, PST_ACCESS_REMOTE_READ, &id),
                   0);
  assert_int_equal(await_text(&pair.client, &pair.server, PST_NODE_TAKEN, &text).status, -EXDEV);
  assert_non_null(strstr(text, "transport loopback cannot reach it: "));
  assert_non_null(strstr(text, "the peer's memory cannot be reached: "));
  assert_int_equal(pst_area_free(theirs), 0);
  pair_close(&pair);
}

/* Between two devices' memories, and into the host's. */
static void device_memory_is_written_and_read(void **state)
{
  (void)state;
  for (int host = 0; host < 2; host++) {
    struct pair pair;
    struct pst_area *mine = open_with_area(&pair, true);
    struct pst_area *theirs = host ? area_of(&pair.client, AREA) : device_area(&pair.client);
    uint32_t id =
        offer(&pair.client, &pair.server, theirs, PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE);
    assert_int_equal(pst_area_fill(mine, 0, AREA, 5), 0);
    struct pst_operation o = operation(PST_OP_WRITE, id, mine, AREA);
    run_one(&pair.server, &o);
    assert_int_equal(pst_area_verify(theirs, 0, AREA, 5, NULL), 0);
    assert_int_equal(pst_area_fill(theirs, 0, AREA, 6), 0);
    o = operation(PST_OP_READ, id, mine, AREA);
    run_one(&pair.server, &o);
    assert_int_equal(pst_area_verify(mine, 0, AREA, 6, NULL), 0);
    assert_int_equal(pst_area_verify(mine, 0, AREA, 5, NULL), -EBADMSG);
    assert_int_equal(pst_peer_withdraw(pair.client.peer, id), 0);
    await(&pair.server, &pair.client, PST_NODE_WITHDRAWN);
    assert_int_equal(pst_area_free(theirs), 0);
    assert_int_equal(pst_area_free(mine), 0);
    pair_close(&pair);
  }
}

/* One of several parts has a wrong byte. The check of another region, which waits meanwhile, does
 * not report it. */
static void patterns_are_made_and_checked_meanwhile(void **state)
{
  struct pair pair;
  struct pst_area_pattern parts[3] = {
      {3, 200000, 7, 0}, {300000, 0, 9, 0}, {400001, PST_RANGE_BLOCK + 1, 8, 0}};
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  uint64_t filled = 0, checked = 0, none = 0, done = 0;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *area = device_area(&pair.server);
  assert_int_equal(pst_area_fill_begin(area, parts, 3, &filled), 0);
  parts[2].pattern++;
  assert_int_equal(pst_area_verify_begin(area, parts, 3, &checked), 0);
  assert_true(checked > filled);
  assert_int_equal(pst_area_verify(area, 3, 200000, 7, NULL), 0);
  assert_int_equal(pst_area_poll(area, &done, &found), 0);
  assert_true(done >= checked);
  assert_int_equal(found.corrupted, 2); /* blocks */
  assert_int_equal(found.checked, 4 + 2 + 4);
  assert_int_equal(pst_area_verify(area, 400001, PST_RANGE_BLOCK + 1, 9, NULL), -EBADMSG);
  assert_int_equal(pst_area_verify(area, 400001, PST_RANGE_BLOCK + 1, 8, NULL), 0);
  parts[2].length = AREA;
  assert_int_equal(pst_area_fill_begin(area, parts, 3, &none), -ERANGE);
  parts[2] = (struct pst_area_pattern){.length = 1, .reserved = 1};
  assert_int_equal(pst_area_verify_begin(area, parts, 3, &none), -EINVAL);
  assert_int_equal(none, 0);
  pair_close(&pair);
}

static void device_areas_are_copied_to_the_cpu(void **state)
{
  static uint8_t in[AREA], out[AREA];
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *area = device_area(&pair.server);
  for (uint32_t i = 0; i < AREA; i++)
    in[i] = (uint8_t)(i * 7 + (i >> 8));
  assert_int_equal(pst_area_write(area, 0, AREA, in), 0);
  assert_int_equal(pst_area_read(area, 100, AREA - 100, out), 0);
  assert_memory_equal(out, in + 100, AREA - 100);
  assert_int_equal(pst_area_read(area, 1, AREA, out), -ERANGE);
  /* The usual check value. */
  uint32_t crc = 0;
  assert_int_equal(pst_area_write(area, 77, 9, "123456789"), 0);
  assert_int_equal(pst_area_checksum(area, 77, 9, &crc), 0);
  assert_int_equal(crc, 0xe3069283u);
  assert_int_equal(pst_area_checksum(area, 1, AREA, &crc), -ERANGE);
  pair_close(&pair);
}

/* With copies under way: each ends once, and nobody touches the memory after. (Were it the owner
 * who left, it would wait for them, and so for this very thread.) */
static void leaving_with_copies_under_way(void **state)
{
  (void)state;
  for (int who = 0; who < 2; who++) {
    struct pair pair;
    uint32_t done = 0, posted = 0;
    bool left = false;
    struct pst_area *mine = open_with_area(&pair, true);
    struct pst_area *theirs = device_area(&pair.client);
    uint32_t id = offer(&pair.client, &pair.server, theirs, PST_ACCESS_REMOTE_WRITE);
    for (; posted < 16; posted++) {
      struct pst_operation o = operation(PST_OP_WRITE, id, mine, AREA);
      if (pst_peer_post(pair.server.peer, &o, 1) != 1)
        break;
    }
    assert_true(posted > 0);
    pst_peer_close(pair.server.peer, who ? -ECONNABORTED : 0, who ? "enough" : NULL);
    while (!left) {
      side_poll(&pair.server);
      side_poll(&pair.client);
      for (uint32_t i = 0; i < pair.server.logged; i++) {
        assert_false(left);
        done += pair.server.log[i].kind == PST_NODE_DONE;
        left |= pair.server.log[i].kind == PST_NODE_LEFT;
      }
      pair.server.logged = 0;
    }
    assert_int_equal(done, posted);
    assert_int_equal(pst_area_free(mine), 0);
    pair_close(&pair);
  }
}

static struct pst_node_params given; /* of the command line */

/* As an application's own work sees it: no call of this library is in between. */
static void read_by_driver(const struct pst_area *area, uint8_t *bytes)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
  int (*retain)(void **, int), (*push)(void *), (*copy)(void *, uint64_t, size_t);
  struct pst_range range = {.struct_size = sizeof(range)};

  assert_non_null(library);
  *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
  *(void **)&push = dlsym(library, "cuCtxPushCurrent_v2");
  *(void **)&copy = dlsym(library, "cuMemcpyDtoH_v2");
  assert_int_equal(pst_area_range(area, &range), 0);
  assert_int_equal(retain(&context, 0), 0);
  assert_int_equal(push(context), 0);
  assert_int_equal(copy(bytes, range.address, AREA), 0);
  dlclose(library);
}

/* The server's device sees what was written before the message that announces it. */
static void a_message_is_behind_what_was_written(void **state)
{
  static uint8_t bytes[AREA];
  struct pair pair;

  (void)state;
  pair_open(&pair, &given, &given);
  struct pst_area *theirs = device_area(&pair.server), *mine = area_of(&pair.client, AREA);
  uint32_t id = offer(&pair.server, &pair.client, theirs, PST_ACCESS_REMOTE_WRITE);
  for (int round = 1; round < 4; round++) {
    memset(bytes_of(mine), round, AREA);
    struct pst_operation o = operation(PST_OP_WRITE, id, mine, AREA);
    assert_int_equal(run_operation(&pair.client, &o).status, 0);
    assert_int_equal(pst_peer_send(pair.client.peer, "written", 8), 0);
    await(&pair.server, &pair.client, PST_NODE_MESSAGE);
    read_by_driver(theirs, bytes);
    assert_memory_equal(bytes, bytes_of(mine), AREA);
  }
  pair_close(&pair);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest over_a_nic[] = {cmocka_unit_test(a_message_is_behind_what_was_written)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_memory_without_one_of_our_own_is_refused),
      cmocka_unit_test(device_memory_is_written_and_read),
      cmocka_unit_test(patterns_are_made_and_checked_meanwhile),
      cmocka_unit_test(device_areas_are_copied_to_the_cpu),
      cmocka_unit_test(leaving_with_copies_under_way),
  };
  pst_plugin_path_add(PST_FAKES "/cuda");
  if (argc > 1)
    return params_by(argc, argv, &given) ? cmocka_run_group_tests(over_a_nic, use_fakes, NULL) : 2;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
