/* SPDX-License-Identifier: Apache-2.0 */
/* Misuse that the fake driver refuses, where a real one's behaviour is undefined; and the plugin
 * under it. Each case is a process of its own, with a script of its own. */
#include "cuda_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/page.h>

/* So late that the work is queued for as long as the process is there. */
#define NEVER "delay_us=600000000"

#define MUST(what)                                                                                 \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "%s:%d: not so: %s\n%s", __FILE__, __LINE__, #what, fake_log());             \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

struct outcome {
  int status;
  char text[4096]; /* of stderr */
};

static void run_case(const char *script, void (*act)(void), struct outcome *outcome)
{
  int ends[2];
  size_t length = 0;
  ssize_t n;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], STDERR_FILENO);
    setenv("FAKE_CUDA", script, 1);
    cuda_absent();
    act();
    _exit(0);
  }
  close(ends[1]);
  while ((n = read(ends[0], outcome->text + length, sizeof(outcome->text) - 1 - length)) > 0)
    length += (size_t)n;
  outcome->text[length] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(pid, &outcome->status, 0), pid);
}

static void expect_report(const char *script, void (*act)(void), const char *call)
{
  struct outcome outcome;
  char expected[96];
  run_case(script, act, &outcome);
  snprintf(expected, sizeof(expected), "fake libcuda: %s of ", call);
  if (!strstr(outcome.text, expected))
    fail_msg("\"%s\" is not in:\n%s", expected, outcome.text);
  assert_non_null(strstr(outcome.text, "wait for an event behind that work first"));
  assert_true(WIFSIGNALED(outcome.status) || WEXITSTATUS(outcome.status) != 0);
}

static void expect_success(const char *script, void (*act)(void))
{
  struct outcome outcome;
  run_case(script, act, &outcome);
  if (!WIFEXITED(outcome.status) || WEXITSTATUS(outcome.status) != 0)
    fail_msg("status 0x%x:\n%s", (unsigned int)outcome.status, outcome.text);
}

/* ---- Too early -------------------------------------------------------------------------- */

static void copy_under_way(void)
{
  setup(NULL);
  copy(queue, &(struct pst_copy_row){near.address + 64, far.address + 64, 4096, 0, 0, 1, 0}, 1);
}

static void free_device_memory(void)
{
  copy_under_way();
  memory_ops()->free_region(memory, &far);
}

static void free_host_memory(void)
{
  copy_under_way();
  memory_ops()->free_region(memory, &near);
}

static void free_memory_without_work(void)
{
  copy_under_way();
  struct pst_region other = take(PST_ALLOC_NORMAL, LENGTH);
  memory_ops()->free_region(memory, &other);
}

static void unmap(void)
{
  setup(NULL);
  memory = open_cuda(OPTIONS({"allocator", "vmm"}));
  far = take(PST_ALLOC_NORMAL, LENGTH);
  struct pst_payload_row payload = {far.address, 100, 0, 0, 1, 0};
  uint64_t ticket;
  MUST(memory_ops()->queue_open(
           memory, &(struct pst_queue_params){sizeof(struct pst_queue_params), 4, 4, 0}, &queue) ==
       0);
  MUST(memory_ops()->fill_rows(queue, 1, &payload, 1, &ticket) == 0);
  memory_ops()->free_region(memory, &far);
}

static void unregister(void)
{
  setup(NULL);
  uint8_t *foreign = aligned_alloc(pst_page_size(), 65536);
  MUST(foreign && memory_ops()->host_register(memory, foreign, 65536) == 0);
  /* By the kernel: many pieces that are no rows. */
  struct pst_copy_row pieces[20];
  for (uint32_t i = 0; i < 20; i++)
    pieces[i] = (struct pst_copy_row){
        (uintptr_t)foreign + i * i * 100, far.address + i * 500, 99, 0, 0, 1, 0};
  copy(queue, pieces, 20);
  memory_ops()->host_unregister(memory, foreign, 65536);
}

static void unload(void)
{
  uint32_t crc32c;
  uint64_t ticket;
  setup(NULL);
  MUST(memory_ops()->sum_range(queue, far.address, 1000, &crc32c, &ticket) == 0);
  cuda_enter(memory);
  memory->driver->ModuleUnload(memory->shared->module);
}

static void test_what_goes_too_early_is_reported(void **state)
{
  (void)state;
  expect_report(NEVER, free_device_memory, "cuMemFree");
  expect_report(NEVER, free_host_memory, "cuMemFreeHost");
  expect_report(NEVER, unmap, "cuMemUnmap");
  expect_report(NEVER, unregister, "cuMemHostUnregister");
  expect_report(NEVER, unload, "cuModuleUnload");
  expect_success(NEVER, free_memory_without_work);
}

/* A queue that is closed waits for its work, and a memory behind it is free to go. */
static void close_with_work_under_way(void)
{
  setup(NULL);
  for (int i = 0; i < 8; i++)
    copy(queue, &(struct pst_copy_row){near.address, far.address, LENGTH, 0, 0, 1, 0}, 1);
  teardown(NULL);
}

static void test_a_queue_is_closed_behind_its_work(void **state)
{
  (void)state;
  expect_success("delay_us=3000", close_with_work_under_way);
}

/* ---- Writes of a NIC -------------------------------------------------------------------- */

/* Through a dma-buf of part of the region, which begins within what the descriptor names. */
static uint8_t *map_export(uint64_t offset, uint64_t length)
{
  struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
  MUST(memory_ops()->export_region(memory, &far, PST_EXPORT_DMABUF, offset, length, &out) == 0);
  off_t at = lseek(out.fd, 0, SEEK_CUR);
  uint64_t page = (uint64_t)at / pst_page_size() * pst_page_size(), lead = (uint64_t)at - page;
  uint8_t *map = mmap(NULL, lead + out.offset + length, PROT_READ | PROT_WRITE, MAP_SHARED, out.fd,
                      (off_t)page);
  MUST(map != MAP_FAILED);
  close(out.fd);
  return map + lead + out.offset;
}

static uint8_t first_byte(uint64_t offset)
{
  uint8_t *bytes = near.host;
  bytes[0] = 0xee;
  finish(queue,
         copy(queue, &(struct pst_copy_row){far.address + offset, near.address, 1, 0, 0, 1, 0}, 1));
  return bytes[0];
}

static void write_and_flush(void)
{
  setup(NULL);
  struct pst_payload_row payload = {far.address, far.length, 3, 0, 1, 0};
  uint64_t ticket;
  uint8_t *nic = map_export(8192 + 100, 5000);
  MUST(memory_ops()->fill_rows(queue, 5, &payload, 1, &ticket) == 0);
  finish(queue, ticket);
  uint8_t before = first_byte(8292);
  const uint8_t after = (uint8_t)(0xff - before);
  MUST(nic[0] == before); /* the NIC reads what the device has written */
  nic[0] = after;
  MUST(first_byte(8292) == before); /* else there is nothing to try */
  MUST(memory_ops()->flush(memory, &far) == 0);
  MUST(first_byte(8292) == after);
  MUST(first_byte(8293) == nic[1]);
  teardown(NULL);
}

static void test_what_a_nic_writes_is_there_after_the_flush(void **state)
{
  (void)state;
  expect_success("delay_us=0,late_writes", write_and_flush);
}

static void open_without_flush(void)
{
  setup(NULL);
  MUST(strstr(fake_log(), "the CPU cannot have it flush them"));
  MUST(strstr(fake_log(), "`path: staged`"));
  teardown(NULL);
}

static void test_a_gpu_that_cannot_flush_says_so(void **state)
{
  (void)state;
  expect_success("delay_us=0,no_flush", open_without_flush);
}

/* ---- Kernels that are not to be had ------------------------------------------------------ */

static size_t free_bytes(const struct cuda_driver *driver, cuda_context context)
{
  size_t available = 0, total;
  driver->CtxPushCurrent(context);
  MUST(driver->MemGetInfo(&available, &total) == CUDA_SUCCESS);
  driver->CtxPopCurrent(&context);
  return available;
}

/* The application has a context of its own, so that the plugin's end frees nothing. */
static void open_without_kernels(void)
{
  const struct cuda_driver *driver;
  struct cuda_refusal refusal;
  struct pst_memory_params params = {sizeof(params), 0, FAKE_OPTIONS(OPTIONS({"device", "0"}))};
  struct pst_memory *none = NULL;
  cuda_context context;
  MUST(cuda_driver_bind(cuda_host(), &driver, &refusal) == 0);
  MUST(driver->DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  size_t before = free_bytes(driver, context);
  MUST(memory_ops()->open(cuda_host(), &params, &none) == -ENODEV);
  MUST(strstr(fake_log(), "the kernels do not load"));
  MUST(free_bytes(driver, context) == before);
}

static void test_a_module_without_the_kernels_is_unloaded(void **state)
{
  (void)state;
  expect_success("no_kernels", open_without_kernels);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_goes_too_early_is_reported),
      cmocka_unit_test(test_a_queue_is_closed_behind_its_work),
      cmocka_unit_test(test_what_a_nic_writes_is_there_after_the_flush),
      cmocka_unit_test(test_a_gpu_that_cannot_flush_says_so),
      cmocka_unit_test(test_a_module_without_the_kernels_is_unloaded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
