/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the staged path, by a memory that finishes them when the test says: places, tokens that
 * go back in order, and a copy that is put off. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stream/staging.h"

#define SLOTS 8u

static struct {
  uint32_t batches, messages; /* submitted */
  uint64_t done;              /* tickets */
  int answer;                 /* of the next copy */
  uint64_t released[64];
  uint32_t release_count;
} world;

static int fake_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                           struct pst_queue **queue)
{
  (void)memory;
  assert_int_equal(params->pieces, 128);
  *queue = (struct pst_queue *)(uintptr_t)8;
  return 0;
}

static void fake_queue_close(struct pst_queue *queue)
{
  (void)queue;
}

static int fake_copy(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                     uint64_t *ticket)
{
  (void)queue;
  if (world.answer < 0)
    return world.answer;
  for (uint32_t i = 0; i < n; i++)
    world.messages += (uint32_t)rows[i].count;
  *ticket = ++world.batches;
  return 0;
}

static int fake_poll(struct pst_queue *queue, uint64_t *done)
{
  (void)queue;
  *done = world.done;
  return 0;
}

static int fake_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  (void)worker;
  memcpy(&world.released[world.release_count], tokens, n * sizeof(*tokens));
  world.release_count += n;
  return 0;
}

static const struct pst_memory_ops memory_ops = {.queue_open = fake_queue_open,
                                                 .queue_close = fake_queue_close,
                                                 .copy_rows = fake_copy,
                                                 .queue_poll = fake_poll};
static const struct pst_transport_ops transport = {.release = fake_release};
static const struct loader_plugin plugin = {.name = "attic", .memory = &memory_ops};
static struct engine_memory memory = {.plugin = &plugin, .ops = &memory_ops};
static struct session_lane lane = {.worker.ops = &transport};
static struct staging *staging;
static struct pst_view views[SLOTS];

static int open_staging(void **state)
{
  (void)state;
  memset(&world, 0, sizeof(world));
  staging = calloc(1, sizeof(*staging));
  assert_non_null(staging);
  staging->lane = &lane;
  staging->memory = &memory;
  staging->region.mem.address = 0x10000;
  staging->stride = 256;
  return staging_open(staging, SLOTS, 128);
}

static int close_staging(void **state)
{
  (void)state;
  staging_close_queue(staging);
  staging_close(staging);
  return 0;
}

/* n messages in the transport's slots 100, 101, … */
static void arrive(uint32_t first, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    views[i] = (struct pst_view){
        .address = 0x90000 + (first + i) * 64, .length = 64, .token = 100 + first + i};
}

static void place(uint32_t first, uint32_t n)
{
  struct pst_fence *ready;

  arrive(first, n);
  staging_place(staging, views, n);
  assert_int_equal(staging_submit(staging, &ready), 0);
  assert_null(ready); /* the memory has no fences */
}

static void views_name_their_final_places(void **state)
{
  (void)state;
  assert_int_equal(staging_room(staging), SLOTS);
  place(0, 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(views[i].address, 0x10000 + i * 256);
    assert_int_equal(views[i].token, i);
    assert_null(views[i].host);
  }
  assert_int_equal(world.messages, 3);
  assert_int_equal(staging_room(staging), SLOTS - 3);
}

static void the_transport_gets_its_slots_back_when_they_are_read(void **state)
{
  (void)state;
  place(0, 3);
  place(3, 2);
  assert_int_equal(staging_reap(staging), 0);
  assert_int_equal(world.release_count, 0);
  world.done = 1;
  assert_int_equal(staging_reap(staging), 0);
  assert_int_equal(world.release_count, 3);
  assert_true(staging_is_copying(staging));
  world.done = 2;
  assert_int_equal(staging_reap(staging), 0);
  assert_int_equal(world.release_count, 5);
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(world.released[i], 100 + i);
  assert_false(staging_is_copying(staging));
}

static void final_slots_come_back_in_any_order(void **state)
{
  (void)state;
  place(0, SLOTS);
  assert_true(staging_is_full(staging));
  assert_int_equal(staging_room(staging), 0);
  world.done = 1;
  assert_int_equal(staging_reap(staging), 0);
  staging_give_tokens(staging, (const uint64_t[]){5, 2}, 2);
  assert_int_equal(staging_room(staging), 2);
  place(SLOTS, 2);
  assert_int_equal(views[0].token, 5);
  assert_int_equal(views[1].token, 2);
}

static void a_copy_without_room_is_started_later(void **state)
{
  struct pst_fence *ready;

  (void)state;
  place(0, 1);
  world.answer = -EAGAIN;
  arrive(1, 2);
  staging_place(staging, views, 2);
  assert_int_equal(staging_submit(staging, &ready), -EAGAIN);
  assert_true(staging_is_deferred(staging));
  assert_int_equal(staging_room(staging), 0);
  assert_int_equal(staging_reap(staging), 0);
  assert_true(staging_is_deferred(staging));
  world.answer = 0;
  world.done = 1;
  assert_int_equal(staging_reap(staging), 0);
  assert_false(staging_is_deferred(staging));
  assert_int_equal(world.messages, 3);
  assert_int_equal(world.release_count, 1);
}

static void a_memory_that_never_has_room_is_a_bug(void **state)
{
  struct pst_fence *ready;

  (void)state;
  world.answer = -EAGAIN;
  arrive(0, 1);
  staging_place(staging, views, 1);
  assert_int_equal(staging_submit(staging, &ready), -EPROTO);
}

static void a_copy_that_fails_leaves_nothing_placed(void **state)
{
  struct pst_fence *ready;

  (void)state;
  world.answer = -EIO;
  arrive(0, 3);
  staging_place(staging, views, 3);
  assert_int_equal(staging_submit(staging, &ready), -EIO);
  assert_int_equal(staging_room(staging), SLOTS);
  world.answer = 0;
  place(0, SLOTS);
  assert_int_equal(world.messages, SLOTS);
}

static void slices_are_of_some_messages(void **state)
{
  (void)state;
  staging_slice(staging, 16384); /* four of them make 64 KiB */
  assert_int_equal(staging_room(staging), 4);
  staging_slice(staging, 1 << 20);
  assert_int_equal(staging_room(staging), 1);
}

#define STAGING_CASE(name) cmocka_unit_test_setup_teardown(name, open_staging, close_staging)

int main(void)
{
  const struct CMUnitTest tests[] = {
      STAGING_CASE(views_name_their_final_places),
      STAGING_CASE(the_transport_gets_its_slots_back_when_they_are_read),
      STAGING_CASE(final_slots_come_back_in_any_order),
      STAGING_CASE(a_copy_without_room_is_started_later),
      STAGING_CASE(a_memory_that_never_has_room_is_a_bug),
      STAGING_CASE(a_copy_that_fails_leaves_nothing_placed),
      STAGING_CASE(slices_are_of_some_messages),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
