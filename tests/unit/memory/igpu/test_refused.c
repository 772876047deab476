/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that igpu refuses, and memory of others that is pinned; on the fake driver, where 8 MiB
 * can be pinned. */
#include "cuda_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include <penstock/page.h>

static void test_memory_of_the_gpu_s_own_is_refused(void **state)
{
  (void)state;
  struct pst_region region = {.struct_size = sizeof(region)};
  struct pst_export from = {
      .struct_size = sizeof(from), .fd = -1, .length = 4096, .base_length = 4096};
  memcpy(from.device, far.device, sizeof(from.device));
  const uint32_t kinds[] = {PST_EXPORT_IPC, PST_EXPORT_VENDOR_FD, PST_EXPORT_DMABUF};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    from.kind = kinds[i];
    fake_log_clear();
    assert_int_equal(memory_ops()->import_region(memory, &from, &region), -EOPNOTSUPP);
    assert_logged("memory of the GPU's own, in which no NIC of this machine can write; give the "
                  "other end memory igpu");
  }
  from.kind = PST_EXPORT_FD;
  memcpy(from.device, "GPU-another", 12);
  assert_int_equal(memory_ops()->import_region(memory, &from, &region), -EXDEV);
  assert_logged("it is memory that GPU-another maps, and not GPU-");
}

static void expect_not_adopted(uint64_t address, const char *reason)
{
  struct pst_region region = {.struct_size = sizeof(region)};
  const struct pst_adopt_params params = {
      .struct_size = sizeof(params), .fd = -1, .address = address, .length = 4096, .label = "area"};
  fake_log_clear();
  assert_int_equal(memory_ops()->adopt_region(memory, &params, &region), -EOPNOTSUPP);
  assert_logged("area: cannot take 4096 bytes at 0x");
  assert_logged(reason);
  assert_logged("use memory that this plugin allocates: pst_node_alloc() with memory igpu");
  assert_null(region.handle);
}

static void test_memory_of_the_application_s_is_refused(void **state)
{
  cuda_status (*alloc_managed)(cuda_pointer *, size_t, unsigned int) = NULL;
  cuda_pointer managed, device;
  void *host = NULL;
  (void)state;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(library);
  void *symbol = dlsym(library, "cuMemAllocManaged");
  memcpy(&alloc_managed, &symbol, sizeof(symbol));
  assert_non_null(alloc_managed);
  cuda_enter(memory);
  assert_int_equal(alloc_managed(&managed, LENGTH, 1), CUDA_SUCCESS);
  assert_int_equal(memory->driver->MemAlloc(&device, LENGTH), CUDA_SUCCESS);
  assert_int_equal(memory->driver->MemHostAlloc(&host, LENGTH, CUDA_HOSTALLOC_PORTABLE),
                   CUDA_SUCCESS);
  cuda_leave(memory);
  expect_not_adopted(managed + 100, "managed memory (cuMemAllocManaged), whose pages the driver "
                                    "moves while a NIC writes them");
  expect_not_adopted(device, "the GPU's own memory (cuMemAlloc), in which no NIC of a machine with "
                             "an integrated GPU can write");
  expect_not_adopted((uintptr_t)host, "host memory of another owner, who could unpin it");
  expect_not_adopted((uintptr_t)&managed, "host memory of another owner, who could unpin it");
  cuda_enter(memory);
  assert_int_equal(memory->driver->MemFree(managed), CUDA_SUCCESS);
  assert_int_equal(memory->driver->MemFree(device), CUDA_SUCCESS);
  assert_int_equal(memory->driver->MemFreeHost(host), CUDA_SUCCESS);
  cuda_leave(memory);
  dlclose(library);
}

static void test_more_than_can_be_pinned(void **state)
{
  (void)state;
  struct pst_region region = {.struct_size = sizeof(region)};
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .length = 100 * LENGTH,
                                    .label = "a ring",
                                    .lower = "`ring` or `message`"};
  fake_log_clear();
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), -ENOMEM);
  assert_logged("a ring: cannot get 100.0 MiB of pinned host memory: cuMemHostAlloc");
  assert_logged("lower `ring` or `message`");
  params.needs = PST_NEED_EXPORT_FD;
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), -ENOMEM);
  assert_logged("a ring: cannot get 100.0 MiB of pinned host memory: cuMemHostRegister");
}

static bool is_reached(const uint8_t *at, uint64_t length)
{
  const struct pst_copy_row row = {
      .source = (uintptr_t)at, .destination = far.address, .length = length, .count = 1};
  return cuda_ranges_reach(memory, &row, 1);
}

static bool is_pinned(uint8_t *at)
{
  cuda_pointer address;
  cuda_enter(memory);
  cuda_status status = memory->driver->MemHostGetDevicePointer(&address, at, 0);
  cuda_leave(memory);
  return status == CUDA_SUCCESS;
}

static cuda_status pin(uint8_t *at, uint64_t length)
{
  cuda_enter(memory);
  cuda_status status =
      memory->driver->MemHostRegister(at, length, CUDA_REGISTER_PORTABLE | CUDA_REGISTER_DEVICEMAP);
  cuda_leave(memory);
  return status;
}

static cuda_status unpin(uint8_t *at)
{
  cuda_enter(memory);
  cuda_status status = memory->driver->MemHostUnregister(at);
  cuda_leave(memory);
  return status;
}

static void move_rows(const uint8_t *from)
{
  const uint64_t page = pst_page_size();
  const struct pst_copy_row row = {.source = (uintptr_t)from + 7,
                                   .destination = far.address,
                                   .length = page - 1000,
                                   .source_stride = page,
                                   .destination_stride = page,
                                   .count = 15};
  memset(far.host, 0, 16 * page);
  finish(queue, copy(queue, &row, 1));
  for (uint64_t i = 0; i < 15; i++)
    assert_memory_equal((uint8_t *)far.host + i * page, from + 7 + i * page, page - 1000);
}

/* Another plugin, or the application, has pinned all, a part, or two parts beside each other. */
static void test_pins_of_others_are_used_and_not_undone(void **state)
{
  static const struct {
    int begin, end;
  } parts[][2] = {{{0, 16}}, {{0, 3}}, {{5, 9}}, {{10, 16}}, {{2, 5}, {5, 9}}, {{0, 1}, {15, 16}}};
  const uint64_t page = pst_page_size();
  (void)state;
  uint8_t *at = aligned_alloc(page, 16 * page);
  assert_non_null(at);
  for (uint64_t i = 0; i < 16 * page; i++)
    at[i] = (uint8_t)(i * 11 + i / 257);
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    bool theirs[16] = {false};
    for (int p = 0; p < 2 && parts[i][p].end; p++) {
      assert_int_equal(pin(at + (uint64_t)parts[i][p].begin * page,
                           (uint64_t)(parts[i][p].end - parts[i][p].begin) * page),
                       CUDA_SUCCESS);
      for (int n = parts[i][p].begin; n < parts[i][p].end; n++)
        theirs[n] = true;
    }
    fake_log_clear();
    assert_int_equal(memory_ops()->host_register(memory, at, 16 * page), 0);
    assert_string_equal(fake_log(), "");
    for (int n = 0; n < 16; n++) {
      assert_true(is_pinned(at + (uint64_t)n * page));
      assert_true(cuda_ranges_whole(memory, (uintptr_t)at + (uint64_t)n * page, page));
      /* Its owner may unpin it under a kernel, which would end the context. */
      assert_true(!theirs[n] || !is_reached(at + (uint64_t)n * page, page));
    }
    move_rows(at);
    memory_ops()->host_unregister(memory, at, 16 * page);
    for (int n = 0; n < 16; n++)
      assert_int_equal(is_pinned(at + (uint64_t)n * page), theirs[n]);
    for (int p = 0; p < 2 && parts[i][p].end; p++)
      assert_int_equal(unpin(at + (uint64_t)parts[i][p].begin * page), CUDA_SUCCESS);
  }
  free(at);
}

/* Memory that others got from cuMemHostAlloc is pinned, too. */
static void test_host_memory_that_others_allocated(void **state)
{
  const uint64_t page = pst_page_size();
  (void)state;
  void *at = NULL;
  cuda_enter(memory);
  assert_int_equal(memory->driver->MemHostAlloc(&at, 18 * page, CUDA_HOSTALLOC_PORTABLE),
                   CUDA_SUCCESS);
  cuda_leave(memory);
  uint8_t *whole = (uint8_t *)(((uintptr_t)at + page - 1) / page * page);
  memset(at, 3, 18 * page);
  assert_int_equal(memory_ops()->host_register(memory, whole, 16 * page), 0);
  move_rows(whole);
  memory_ops()->host_unregister(memory, whole, 16 * page);
  cuda_enter(memory);
  assert_int_equal(memory->driver->MemFreeHost(at), CUDA_SUCCESS);
  cuda_leave(memory);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_memory_of_the_gpu_s_own_is_refused),
      CASE(test_memory_of_the_application_s_is_refused),
      CASE(test_more_than_can_be_pinned),
      CASE(test_pins_of_others_are_used_and_not_undone),
      CASE(test_host_memory_that_others_allocated),
  };
  int absent = cuda_absent();
  if (absent)
    return absent;
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
