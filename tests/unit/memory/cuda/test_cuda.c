/* SPDX-License-Identifier: Apache-2.0 */
/* Behaviour of this memory alone: on the fake driver, and on the real one. */
#include "cuda_fixture.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <penstock/page.h>

static cuda_stream stream_new(void)
{
  cuda_stream stream = NULL;
  cuda_enter(memory);
  assert_int_equal(memory->driver->StreamCreate(&stream, CUDA_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  cuda_leave(memory);
  return stream;
}

static void stream_free(cuda_stream stream)
{
  cuda_enter(memory);
  memory->driver->StreamDestroy(stream);
  cuda_leave(memory);
}

static void test_the_region_says_what_it_is(void **state)
{
  (void)state;
  assert_int_equal(far.kind, PST_MEMORY_CUDA);
  assert_null(far.host);
  assert_int_equal(far.address % CUDA_PAGE, 0);
  assert_int_equal(far.length % CUDA_PAGE, 0);
  assert_int_equal(strncmp(far.device, "GPU-", 4), 0);
  assert_string_equal(near.device, "");
  assert_int_equal(near.address % pst_page_size(), 0);
}

/* The application's own stream goes on only when the batch is there, and the fence that
 * it leaves passes only when the stream has got there. */
static void test_an_applications_stream_is_ordered_by_fences(void **state)
{
  (void)state;
  cuda_stream stream = stream_new();
  uint8_t *bytes = near.host;
  struct pst_fence *ready = NULL, *through = NULL;
  for (uint8_t round = 1; round < 40; round++) {
    memset(bytes, round, 4096);
    memset(bytes + 8192, 0, 4096);
    uint64_t ticket =
        copy(queue, &(struct pst_copy_row){near.address, far.address, 4096, 0, 0, 1, 0}, 1);
    assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &ready), 0);
    assert_int_equal(memory_ops()->fence_wait(memory, ready, NULL, stream), 0);
    cuda_enter(memory);
    assert_int_equal(memory->driver->MemcpyAsync(near.address + 8192, far.address, 4096, stream),
                     CUDA_SUCCESS);
    cuda_leave(memory);
    assert_int_equal(memory_ops()->fence_record(memory, NULL, stream, &through), 0);
    assert_non_null(through);
    int code;
    while ((code = memory_ops()->fence_query(memory, through)) == -EAGAIN)
      sched_yield();
    assert_int_equal(code, 0);
    assert_int_equal(bytes[8192], round);
    assert_int_equal(bytes[8192 + 4095], round);
    memory_ops()->fence_release(memory, ready);
    memory_ops()->fence_release(memory, through);
    finish(queue, ticket);
  }
  stream_free(stream);
}

static void test_a_fence_outlives_its_batch(void **state)
{
  (void)state;
  struct pst_fence *fence = NULL;
  uint64_t ticket =
      copy(queue, &(struct pst_copy_row){near.address, far.address, 64, 0, 0, 1, 0}, 1);
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fence), 0);
  assert_non_null(fence);
  finish(queue, ticket);
  for (int i = 0; i < 50; i++) /* events are used again, this one not */
    finish(queue,
           copy(queue, &(struct pst_copy_row){near.address, far.address, 64, 0, 0, 1, 0}, 1));
  ticket = copy(queue, &(struct pst_copy_row){near.address, far.address, LENGTH, 0, 0, 1, 0}, 1);
  assert_int_equal(memory_ops()->fence_query(memory, fence), 0);
  finish(queue, ticket);
  memory_ops()->fence_release(memory, fence);
}

static bool reaches(const struct pst_copy_row *pieces, uint32_t n)
{
  bool reach = true;
  for (uint32_t i = 0; i < n && reach; i++) {
    const struct pst_copy_row row = {
        pieces[i].source, pieces[i].destination, pieces[i].length, 0, 0, 1, 0};
    reach = cuda_ranges_reach(memory, &row, 1);
  }
  return reach;
}

/* Ordinary memory that nobody has registered: a kernel would end the context. */
static void test_scattered_pieces_of_pageable_memory(void **state)
{
  (void)state;
  enum { COUNT = 100, SIZE = 500 };
  uint8_t *foreign = malloc(COUNT * 1000);
  struct pst_copy_row pieces[COUNT];
  for (uint32_t i = 0; i < COUNT * 1000; i++)
    foreign[i] = (uint8_t)(i * 7 + i / 1000);
  for (uint32_t i = 0; i < COUNT; i++)
    pieces[i] = (struct pst_copy_row){(uintptr_t)foreign + i * 37 % COUNT * 1000,
                                      far.address + i * 600,
                                      SIZE + i % 3,
                                      0,
                                      0,
                                      1,
                                      0};
  assert_false(reaches(pieces, COUNT));
  finish(queue, copy(queue, pieces, COUNT));
  finish(
      queue,
      copy(queue, &(struct pst_copy_row){far.address, near.address, COUNT * 600, 0, 0, 1, 0}, 1));
  for (uint32_t i = 0; i < COUNT; i++)
    assert_memory_equal((uint8_t *)near.host + i * 600, foreign + i * 37 % COUNT * 1000,
                        pieces[i].length);
  free(foreign);
}

/* Every alignment of source and destination, lengths around the kernel's steps. */
static void test_gathering_at_any_alignment(void **state)
{
  (void)state;
  static const uint64_t lengths[] = {0,  1,  15,  16,  17,  31,   32,  33,
                                     47, 48, 511, 512, 513, 1462, 2100};
  uint8_t *bytes = near.host;
  for (uint64_t from = 0; from < 16; from++) {
    struct pst_copy_row pieces[16 * 15];
    uint32_t n = 0;
    uint64_t source = near.address + from, destination = far.address;
    for (uint64_t to = 0; to < 16; to++)
      for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        pieces[n++] = (struct pst_copy_row){source, destination + to, lengths[i], 0, 0, 1, 0};
        source += lengths[i] + 16 - lengths[i] % 16;
        destination += 2176;
      }
    assert_true(source < near.address + LENGTH && destination < far.address + LENGTH);
    for (uint64_t i = 0; i < LENGTH; i++)
      bytes[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + from);
    cuda_enter(memory);
    cuda_leave(memory);
    assert_true(reaches(pieces, n));
    uint8_t *sent = malloc(LENGTH);
    memcpy(sent, bytes, LENGTH);
    finish(queue,
           copy(queue, &(struct pst_copy_row){near.address, far.address, LENGTH, 0, 0, 1, 0}, 1));
    finish(queue, copy(queue, pieces, n));
    finish(queue,
           copy(queue, &(struct pst_copy_row){far.address, near.address, LENGTH, 0, 0, 1, 0}, 1));
    uint8_t *expected = malloc(LENGTH);
    memcpy(expected, sent, LENGTH);
    for (uint32_t i = 0; i < n; i++)
      memcpy(expected + (pieces[i].destination - far.address),
             sent + (pieces[i].source - near.address), pieces[i].length);
    assert_memory_equal(bytes, expected, LENGTH);
    free(expected);
    free(sent);
  }
}

static void test_foreign_messages_are_not_verified(void **state)
{
  (void)state;
  uint8_t foreign[64] = {0};
  struct pst_payload_row payload = {(uintptr_t)foreign, 64, 1, 0, 1, 0};
  uint64_t ticket = 7;
  assert_int_equal(memory_ops()->verify_rows(queue, 1, &payload, 1, &ticket), -EINVAL);
  payload = (struct pst_payload_row){far.address + far.length - 10, 11, 1, 0, 1, 0};
  assert_int_equal(memory_ops()->fill_rows(queue, 1, &payload, 1, &ticket), -EINVAL);
  assert_int_equal(ticket, 7);
  assert_logged("lies in no region");
}

/* Long messages have a kernel of their own. */
static void test_a_long_message_is_filled_and_verified(void **state)
{
  (void)state;
  struct pst_payload_row payload = {far.address + 3, 500001, 77, 0, 1, 0};
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint64_t ticket = 0;
  uint8_t *bytes = near.host;
  assert_int_equal(memory_ops()->fill_rows(queue, 9, &payload, 1, &ticket), 0);
  finish(queue, ticket);
  assert_int_equal(memory_ops()->verify_rows(queue, 9, &payload, 1, &ticket), 0);
  finish(queue, ticket);
  assert_int_equal(memory_ops()->verify_result(queue, &result), 0);
  assert_int_equal(result.checked, 1);
  assert_int_equal(result.corrupted, 0);
  static const uint64_t wrong[] = {500000, 123456, 8, 0};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    uint64_t at = payload.address + wrong[i];
    finish(queue, copy(queue, &(struct pst_copy_row){at, near.address, 1, 0, 0, 1, 0}, 1));
    uint8_t right = bytes[0];
    bytes[0] ^= 0x40;
    finish(queue, copy(queue, &(struct pst_copy_row){near.address, at, 1, 0, 0, 1, 0}, 1));
    struct pst_queue *other = queue_new();
    assert_int_equal(memory_ops()->verify_rows(other, 9, &payload, 1, &ticket), 0);
    finish(other, ticket);
    assert_int_equal(memory_ops()->verify_result(other, &result), 0);
    assert_int_equal(result.corrupted, 1); /* once, though the others are wrong still */
    assert_int_equal(result.sequence, 77);
    assert_int_equal(result.offset, wrong[i]);
    assert_int_equal(result.expected, right);
    assert_int_equal(result.found, right ^ 0x40);
    memory_ops()->queue_close(other);
  }
}

/* As many rows as the kernels take, and more, of one message or several: each byte is checked, and
 * an error names its message. */
static void test_verifying_any_number_of_rows(void **state)
{
  (void)state;
  enum { MESSAGES = 12, LEN = 777, STEP = 800, ROWS = 3 * CUDA_PATTERN_ROWS };
  struct pst_payload_row rows[ROWS];
  uint8_t *bytes = near.host;
  for (uint32_t n = 1; n <= ROWS; n += n < CUDA_PATTERN_ROWS + 2 ? 1 : ROWS / 2 - 1) {
    struct pst_verify_result result = {.struct_size = sizeof(result)};
    struct pst_queue *other = queue_new();
    uint64_t ticket = 0, next = 0, wrong_at = 0, wrong_sequence = 0;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t count = 1 + i * 5 % MESSAGES;
      uint64_t first = far.address + next * STEP;
      rows[i] = (struct pst_payload_row){.address = i % 2 ? first + (count - 1) * STEP : first,
                                         .length = LEN - i,
                                         .sequence = 1000 * i,
                                         .stride = i % 2 ? -(uint64_t)STEP : STEP,
                                         .count = count};
      for (uint64_t k = 0; k < count; k++) {
        struct pst_payload_row payload = {
            rows[i].address + k * rows[i].stride, LEN - i, 1000 * i + k, 0, 1, 0};
        assert_int_equal(memory_ops()->fill_rows(other, 5, &payload, 1, &ticket), 0);
        finish(other, ticket);
        if (i == n / 2 && k == count / 2) {
          wrong_at = payload.address + payload.length - 1;
          wrong_sequence = payload.sequence;
        }
      }
      next += count;
    }
    assert_int_equal(memory_ops()->verify_rows(other, 5, rows, n, &ticket), 0);
    finish(other, ticket);
    assert_int_equal(memory_ops()->verify_result(other, &result), 0);
    assert_int_equal(result.checked, next);
    assert_int_equal(result.corrupted, 0);
    finish(other, copy(other, &(struct pst_copy_row){wrong_at, near.address, 1, 0, 0, 1, 0}, 1));
    bytes[0] ^= 0x10;
    finish(other, copy(other, &(struct pst_copy_row){near.address, wrong_at, 1, 0, 0, 1, 0}, 1));
    assert_int_equal(memory_ops()->verify_rows(other, 5, rows, n, &ticket), 0);
    memset(rows, 0xff, sizeof(rows)); /* the caller's again */
    finish(other, ticket);
    assert_int_equal(memory_ops()->verify_result(other, &result), 0);
    assert_int_equal(result.checked, 2 * next);
    assert_int_equal(result.corrupted, 1);
    assert_int_equal(result.sequence, wrong_sequence);
    assert_int_equal(result.offset, LEN - n / 2 - 1);
    assert_int_equal(result.found, bytes[0]);
    assert_int_equal(result.expected, bytes[0] ^ 0x10);
    memory_ops()->queue_close(other);
  }
}

/* A stride that would come round to the region again leaves it on the way. */
static void test_rows_that_leave_their_region(void **state)
{
  (void)state;
  struct pst_payload_row row = {far.address, 64, 1, UINT64_C(1) << 63, 3, 0};
  uint64_t ticket = 7;
  assert_int_equal(memory_ops()->verify_rows(queue, 1, &row, 1, &ticket), -EINVAL);
  row.stride = -UINT64_C(64);
  assert_int_equal(memory_ops()->verify_rows(queue, 1, &row, 1, &ticket), -EINVAL);
  row.stride = far.length / 2;
  assert_int_equal(memory_ops()->verify_rows(queue, 1, &row, 1, &ticket), -EINVAL);
  assert_int_equal(ticket, 7);
  assert_logged("lies in no region");
}

static void test_imports_of_another_device_are_refused(void **state)
{
  (void)state;
  struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
  struct pst_region none = {.struct_size = sizeof(none)};
  if (!(far.exports & PST_EXPORT_IPC))
    skip();
  assert_int_equal(memory_ops()->export_region(memory, &far, PST_EXPORT_IPC, 100, 1000, &out), 0);
  assert_int_equal(out.handle_length, 64);
  out.device[10] ^= 1;
  assert_int_equal(memory_ops()->import_region(memory, &out, &none), -EXDEV);
  assert_logged("is memory of GPU-");
  assert_null(none.handle);
}

/* The context that other code of the process has set stays set. */
static void test_the_threads_context_stays(void **state)
{
  (void)state;
  cuda_context before = (cuda_context)1, after = (cuda_context)2;
  memory->driver->CtxGetCurrent(&before);
  finish(queue, copy(queue, &(struct pst_copy_row){near.address, far.address, 64, 0, 0, 1, 0}, 1));
  struct pst_region region = take(PST_ALLOC_NORMAL, 100);
  memory_ops()->free_region(memory, &region);
  memory->driver->CtxGetCurrent(&after);
  assert_ptr_equal(before, after);
}

int main(void)
{
  int absent = cuda_absent();
  if (absent)
    return absent;
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_the_region_says_what_it_is),
      CASE(test_an_applications_stream_is_ordered_by_fences),
      CASE(test_a_fence_outlives_its_batch),
      CASE(test_scattered_pieces_of_pageable_memory),
      CASE(test_gathering_at_any_alignment),
      CASE(test_foreign_messages_are_not_verified),
      CASE(test_a_long_message_is_filled_and_verified),
      CASE(test_verifying_any_number_of_rows),
      CASE(test_rows_that_leave_their_region),
      CASE(test_imports_of_another_device_are_refused),
      CASE(test_the_threads_context_stays),
  };
#undef CASE
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
