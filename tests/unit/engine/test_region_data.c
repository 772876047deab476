/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a region: ranges are held, patterns go in blocks and batches, and a memory that has
 * no room, or cannot, is heard. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/region_data.h"

#define LENGTH (200 * (uint64_t)PST_RANGE_BLOCK)

static struct {
  int queue, again, poll, flush;
  uint64_t ticket, done, batches, blocks, bytes, first, wrong;
  uint64_t most; /* blocks of a batch */
  struct pst_copy_row copied;
  int closes, frees, flushes;
} fake;

static int fake_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                           struct pst_queue **queue)
{
  (void)memory;
  (void)params;
  if (fake.queue == 0)
    *queue = (struct pst_queue *)(uintptr_t)8;
  return fake.queue;
}

static void fake_queue_close(struct pst_queue *queue)
{
  assert_ptr_equal(queue, (struct pst_queue *)(uintptr_t)8);
  fake.closes++;
}

static void fake_free(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory;
  (void)region;
  assert_int_equal(fake.closes, 1); /* its queue first */
  fake.frees++;
}

static int take_batch(uint64_t *ticket)
{
  if (fake.again > 0) {
    fake.again--;
    return -EAGAIN;
  }
  fake.batches++;
  *ticket = ++fake.ticket;
  return 0;
}

static int fake_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket)
{
  uint64_t blocks = 0;
  int rc = take_batch(ticket);

  (void)queue;
  assert_int_equal(seed, 7);
  for (uint32_t i = 0; i < n && rc == 0; i++) {
    if (fake.blocks == 0 && i == 0)
      fake.first = rows[i].sequence;
    blocks += rows[i].count;
    fake.bytes += rows[i].count * rows[i].length;
  }
  fake.blocks += blocks;
  fake.most = blocks > fake.most ? blocks : fake.most;
  return rc;
}

static int fake_copy(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                     uint64_t *ticket)
{
  (void)queue;
  assert_int_equal(n, 1);
  fake.copied = rows[0];
  return take_batch(ticket);
}

static int fake_sum(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                    uint64_t *ticket)
{
  (void)queue;
  *crc32c = (uint32_t)(address + length);
  return take_batch(ticket);
}

static int fake_poll(struct pst_queue *queue, uint64_t *done)
{
  (void)queue;
  fake.done += fake.done < fake.ticket;
  *done = fake.done;
  return fake.poll;
}

static int fake_result(struct pst_queue *queue, struct pst_verify_result *result)
{
  (void)queue;
  result->checked = fake.blocks;
  result->corrupted = fake.wrong;
  return 0;
}

static int fake_flush(struct pst_memory *memory, const struct pst_region *region)
{
  (void)memory;
  (void)region;
  fake.flushes++;
  return fake.flush;
}

static struct pst_memory_ops ops = {.queue_open = fake_queue_open,
                                    .queue_close = fake_queue_close,
                                    .free_region = fake_free,
                                    .fill_rows = fake_rows,
                                    .verify_rows = fake_rows,
                                    .copy_rows = fake_copy,
                                    .sum_range = fake_sum,
                                    .queue_poll = fake_poll,
                                    .verify_result = fake_result,
                                    .flush = fake_flush};
static const struct loader_plugin plugin = {.name = "shelf", .memory = &ops};
static struct engine_memory memory = {.plugin = &plugin, .ops = &ops};
static struct region_data data;

#define ALL (PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_CHECKSUM)

static void open_with(uint64_t capabilities)
{
  struct pst_error error = PST_ERROR_INIT;

  memset(&fake, 0, sizeof(fake));
  ops.capabilities = capabilities;
  data = (struct region_data){
      .region = {.memory = &memory, .mem.address = 1 << 20, .length = LENGTH, .is_open = true},
      .seed = 7};
  assert_int_equal(region_data_open(&data, "area a", &error), 0);
}

static int close_data(void **state)
{
  (void)state;
  region_data_close(&data);
  assert_int_equal(fake.frees, 1);
  assert_null(data.queue);
  return 0;
}

static void a_memory_that_can_nothing_is_asked_nothing(void **state)
{
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  uint32_t sum = 5;
  uint64_t done = 5;
  char byte;

  (void)state;
  open_with(0);
  assert_null(data.queue);
  assert_int_equal(region_data_fill(&data, 0, 64, 1), -EOPNOTSUPP);
  assert_int_equal(region_data_verify(&data, 0, 64, 1, NULL), -EOPNOTSUPP);
  assert_int_equal(region_data_poll(&data, &done, &found), -EOPNOTSUPP);
  assert_int_equal(region_data_checksum(&data, 0, 64, &sum), -EOPNOTSUPP);
  assert_int_equal(region_data_copy(&data, 0, 1, &byte, true), -EOPNOTSUPP);
  assert_int_equal(sum + done, 10);
  fake.closes = 1; /* there was none to close */
}

static void no_queue_has_a_cause(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  open_with(ALL);
  struct pst_queue *queue = data.queue;
  fake.queue = -ENOMEM;
  assert_int_equal(region_data_open(&data, "area a", &error), -ENOMEM);
  assert_non_null(
      strstr(error.text, "area a: memory shelf cannot open a queue: Cannot allocate memory"));
  assert_ptr_equal(data.queue, queue); /* untouched */
  (void)state;
}

static void patterns_go_in_blocks_and_batches(void **state)
{
  (void)state;
  open_with(ALL);
  fake.again = 3;
  assert_int_equal(region_data_fill(&data, 0, LENGTH - 1, 2), 0);
  assert_int_equal(fake.blocks, 200);
  assert_int_equal(fake.bytes, LENGTH - 1);
  assert_int_equal(fake.batches, 2);
  assert_int_equal(fake.most, 128);
  assert_int_equal(fake.first, UINT64_C(2) << 24); /* a pattern has numbers of its own */
  assert_int_equal(fake.done, fake.ticket);        /* it waits for all */
  fake.poll = -EIO;
  fake.again = 1;
  assert_int_equal(region_data_fill(&data, 0, 1, 2), -EIO);
}

static void what_lies_outside_is_refused(void **state)
{
  const struct pst_area_pattern reserved = {0, 64, 1, 1};
  uint64_t ticket = 0;
  uint32_t sum = 5;
  char byte;

  (void)state;
  open_with(ALL);
  assert_int_equal(region_data_fill(&data, 1, LENGTH, 0), -ERANGE);
  assert_int_equal(region_data_fill(&data, UINT64_MAX, 2, 0), -ERANGE);
  assert_int_equal(region_data_begin(&data, false, &reserved, 1, &ticket), -EINVAL);
  assert_int_equal(region_data_checksum(&data, LENGTH, 1, &sum), -ERANGE);
  assert_int_equal(region_data_copy(&data, LENGTH, 1, &byte, false), -ERANGE);
  assert_int_equal(region_data_copy(&data, LENGTH, 0, &byte, false), 0);
  assert_int_equal(fake.batches, 0);
  assert_int_equal(sum, 5);
}

static void old_faults_are_nobody_elses(void **state)
{
  struct pst_verify_result found = {.struct_size = sizeof(found)};

  (void)state;
  open_with(ALL | PST_MEMORY_CAP_FLUSH);
  fake.wrong = 3;
  assert_int_equal(region_data_verify(&data, 0, 64, 1, &found), 0);
  assert_int_equal(found.corrupted, 3);
  assert_int_equal(fake.flushes, 1);
  assert_int_equal(fake.batches, 1);
  fake.flush = -EIO; /* what was written may not be there yet */
  assert_int_equal(region_data_verify(&data, 0, 64, 1, &found), -EIO);
  assert_int_equal(fake.batches, 1);
}

static void copies_go_the_way_that_there_is(void **state)
{
  char bytes[64] = "here", other[64] = "";

  (void)state;
  open_with(ALL);
  assert_int_equal(region_data_copy(&data, 16, 32, bytes, false), 0);
  assert_int_equal(fake.copied.source, (uintptr_t)bytes);
  assert_int_equal(fake.copied.destination, (1 << 20) + 16);
  assert_int_equal(region_data_copy(&data, 16, 32, bytes, true), 0);
  assert_int_equal(fake.copied.destination, (uintptr_t)bytes);
  assert_int_equal(fake.batches, 2);
  data.region.mem.host = bytes; /* the CPU's own way */
  assert_int_equal(region_data_copy(&data, 0, 5, other, true), 0);
  assert_string_equal(other, "here");
  assert_int_equal(fake.batches, 2);
}

static void a_sum_is_there_when_it_is_done(void **state)
{
  uint32_t sum = 5;

  (void)state;
  open_with(ALL);
  fake.again = 2;
  assert_int_equal(region_data_checksum(&data, 16, 32, &sum), 0);
  assert_int_equal(sum, (1 << 20) + 16 + 32);
  sum = 5;
  fake.poll = -EIO;
  assert_int_equal(region_data_checksum(&data, 16, 32, &sum), -EIO);
  assert_int_equal(sum, 5); /* untouched */
}

#define CASE(name) cmocka_unit_test_teardown(name, close_data)

int main(void)
{
  const struct CMUnitTest tests[] = {CASE(a_memory_that_can_nothing_is_asked_nothing),
                                     CASE(no_queue_has_a_cause),
                                     CASE(patterns_go_in_blocks_and_batches),
                                     CASE(what_lies_outside_is_refused),
                                     CASE(old_faults_are_nobody_elses),
                                     CASE(copies_go_the_way_that_there_is),
                                     CASE(a_sum_is_there_when_it_is_done)};

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
