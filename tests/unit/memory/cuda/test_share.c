/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of two processes, and of two GPUs: on the fake driver, and on the real one. */
#include "share_support.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <state.h>

static int library_open(const struct pst_host *self, const char *soname, void **handle)
{
  (void)self;
  *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  return *handle ? 0 : -ENOENT;
}

static struct pst_memory *memory;

static int setup(void **state)
{
  (void)state;
  memory = open_cuda("0", false);
  fake_log_clear();
  return memory ? 0 : -1;
}

static int teardown(void **state)
{
  (void)state;
  fake_log_clear();
  memory_ops()->close(memory);
  assert_string_equal(fake_log(), "");
  return 0;
}

/* Does this machine have memory that is exported so? */
static bool can(uint32_t kind)
{
  struct pst_memory *one = open_cuda("0", kind == PST_EXPORT_VENDOR_FD);
  struct pst_region region;
  fake_log_clear();
  if (!one)
    return false;
  assert_true(alloc(one, PST_ALLOC_NORMAL, &region));
  bool is = region.exports & kind;
  memory_ops()->free_region(one, &region);
  memory_ops()->close(one);
  return is;
}

static int gpus(void)
{
  int count = 0;
  memory->driver->DeviceGetCount(&count);
  return count;
}

static bool are_peers(void)
{
  int one = 0, other = 0;
  if (gpus() < 2)
    return false;
  memory->driver->DeviceCanAccessPeer(&one, 0, 1);
  memory->driver->DeviceCanAccessPeer(&other, 1, 0);
  return one && other;
}

static struct pst_region import(const struct pst_export *out)
{
  struct pst_region region = {.struct_size = sizeof(region)};
  int code = memory_ops()->import_region(memory, out, &region);
  if (code)
    fail_msg("%d: %s", code, fake_log());
  assert_true(region.length >= PART);
  assert_string_equal(region.device, out->device);
  assert_ptr_equal(region.memory, memory);
  assert_int_equal(region.exports, out->kind & PST_EXPORT_VENDOR_FD);
  return region;
}

static void refuse(int code, const struct pst_export *out, const char *words)
{
  struct pst_region none = {.struct_size = sizeof(none)};
  fake_log_clear();
  assert_int_equal(memory_ops()->import_region(memory, out, &none), code);
  assert_non_null(strstr(fake_log(), words));
  assert_null(none.handle);
}

static void read_and_write(const char *device, uint32_t kind)
{
  struct other other = spawn(device, kind, NULL);
  struct pst_export out = take_offer(&other);
  struct pst_region region = import(&out);
  assert_int_equal(work(memory, true, region.address, PART, 5), 0);
  assert_int_equal(work(memory, true, region.address, PART, 4), -EBADMSG);
  assert_int_equal(ask(&other, 'v'), -EBADMSG);
  assert_int_equal(work(memory, false, region.address, PART, 6), 0);
  assert_int_equal(ask(&other, 'v'), 0);
  memory_ops()->free_region(memory, &region);
  assert_int_equal(ask(&other, 'v'), 0);
  leave(&other, &out);
}

static void test_another_process_by_handle(void **state)
{
  (void)state;
  if (!can(PST_EXPORT_IPC))
    skip();
  read_and_write("0", PST_EXPORT_IPC);
}

static void test_another_process_by_descriptor(void **state)
{
  (void)state;
  if (!can(PST_EXPORT_VENDOR_FD))
    skip();
  read_and_write("0", PST_EXPORT_VENDOR_FD);
}

/* Pinned memory of the other's, written and read by this GPU. */
static void test_another_process_has_host_memory(void **state)
{
  (void)state;
  struct other other = spawn("0", PST_EXPORT_FD, NULL);
  struct pst_export out = take_offer(&other);
  struct pst_region region = import(&out);
  assert_int_equal(region.kind, PST_MEMORY_HOST);
  assert_ptr_equal(region.host, (void *)(uintptr_t)region.address);
  if (!memory->has.same_host_pointer)
    skip();
  assert_int_equal(work(memory, true, region.address, PART, 5), 0);
  assert_int_equal(work(memory, false, region.address, PART, 6), 0);
  assert_int_equal(ask(&other, 'v'), 0);
  memory_ops()->free_region(memory, &region);
  leave(&other, &out);
}

static void test_another_processs_other_gpu(void **state)
{
  (void)state;
  if (!are_peers())
    skip();
  if (can(PST_EXPORT_IPC))
    read_and_write("1", PST_EXPORT_IPC);
  if (can(PST_EXPORT_VENDOR_FD))
    read_and_write("1", PST_EXPORT_VENDOR_FD);
}

static void test_a_gpu_out_of_reach_is_refused(void **state)
{
  (void)state;
  if (gpus() < 2 || are_peers() || !can(PST_EXPORT_IPC))
    skip();
  struct other other = spawn("1", PST_EXPORT_IPC, NULL);
  struct pst_export out = take_offer(&other);
  refuse(-EXDEV, &out, "has no access as a peer");
  leave(&other, &out);
}

/* By UUID: here both are their process's device 0. */
static void test_a_gpu_that_is_not_seen_is_refused(void **state)
{
  (void)state;
  const char *script = getenv("FAKE_CUDA");
  char other_script[256];
  if (!script || gpus() > 1)
    skip();
  snprintf(other_script, sizeof(other_script), "%s,devices=2,first=1", script);
  for (uint32_t kind = PST_EXPORT_IPC; kind <= PST_EXPORT_VENDOR_FD; kind <<= 1) {
    if (!can(kind))
      continue;
    struct other other = spawn("0", kind, other_script);
    struct pst_export out = take_offer(&other);
    refuse(-EXDEV, &out, "which this process does not see");
    leave(&other, &out);
  }
}

static void test_ranges_that_are_not_in_their_base(void **state)
{
  (void)state;
  for (uint32_t kind = PST_EXPORT_IPC; kind <= PST_EXPORT_VENDOR_FD; kind <<= 1) {
    if (!can(kind))
      continue;
    struct other other = spawn("0", kind, NULL);
    struct pst_export out = take_offer(&other), wrong = out;
    wrong.length = out.base_length;
    refuse(-EINVAL, &wrong, "are not in the");
    wrong.length = 0;
    refuse(-EINVAL, &wrong, "are not in the");
    wrong.length = UINT64_MAX;
    refuse(-EINVAL, &wrong, "are not in the");
    /* The exporter says that it is more than it is. */
    wrong = out;
    wrong.base_length += UINT64_C(64) << 20;
    wrong.offset = out.base_length;
    refuse(-EINVAL, &wrong, "are not in the");
    memset(wrong.device, 'G', sizeof(wrong.device));
    refuse(-EINVAL, &wrong, "the name of its device");
    leave(&other, &out);
  }
}

static void test_a_handle_whose_memory_is_gone(void **state)
{
  (void)state;
  if (!can(PST_EXPORT_IPC))
    skip();
  struct other other = spawn("0", PST_EXPORT_IPC, NULL);
  struct pst_export out = take_offer(&other);
  assert_int_equal(ask(&other, 'x'), 0);
  refuse(-ESTALE, &out, "names no memory any more");
  leave(&other, &out);
  other = spawn("0", PST_EXPORT_IPC, NULL);
  out = take_offer(&other);
  end_by_force(&other);
  refuse(-ESTALE, &out, "names no memory any more");
}

/* A descriptor keeps the memory, whatever becomes of its maker, and goes on to others. */
static void test_a_descriptor_outlives_its_maker(void **state)
{
  (void)state;
  if (!can(PST_EXPORT_VENDOR_FD))
    skip();
  struct other other = spawn("0", PST_EXPORT_VENDOR_FD, NULL);
  struct pst_export out = take_offer(&other);
  end_by_force(&other);
  struct pst_region region = import(&out);
  assert_int_equal(close(out.fd), 0);
  assert_int_equal(work(memory, true, region.address, PART, 5), 0);
  assert_int_equal(
      memory_ops()->export_region(memory, &region, PST_EXPORT_VENDOR_FD, 0, PART, &out), 0);
  memory_ops()->free_region(memory, &region);
  region = import(&out);
  assert_int_equal(close(out.fd), 0);
  assert_int_equal(work(memory, true, region.address, PART, 5), 0);
  memory_ops()->free_region(memory, &region);
}

static void test_what_is_no_descriptor_of_the_vendors(void **state)
{
  (void)state;
  if (!can(PST_EXPORT_VENDOR_FD))
    skip();
  struct other other = spawn("0", PST_EXPORT_VENDOR_FD, NULL);
  struct pst_export out = take_offer(&other), wrong = out;
  wrong.fd = STDERR_FILENO;
  struct pst_region none = {.struct_size = sizeof(none)};
  fake_log_clear();
  assert_true(memory_ops()->import_region(memory, &wrong, &none) < 0);
  assert_non_null(strstr(fake_log(), "import: cuMemImportFromShareableHandle"));
  wrong.fd = -1;
  refuse(-EBADF, &wrong, "no descriptor came");
  assert_null(none.handle);
  leave(&other, &out);
}

/* The maker of what is in use here is killed: the work ends, well or not. */
static void test_a_maker_killed_under_work(void **state)
{
  (void)state;
  for (uint32_t kind = PST_EXPORT_IPC; kind <= PST_EXPORT_VENDOR_FD; kind <<= 1) {
    if (!can(kind))
      continue;
    struct other other = spawn("0", kind, NULL);
    struct pst_export out = take_offer(&other);
    struct pst_region region = import(&out);
    end_by_force(&other);
    for (int i = 0; i < 20; i++)
      assert_int_not_equal(work(memory, i % 2, region.address, PART, 6), -ETIMEDOUT);
    memory_ops()->free_region(memory, &region);
    if (out.fd >= 0)
      close(out.fd);
  }
}

/* Two memories of one process, of one GPU or of two. */
static void within_the_process(const char *device, uint32_t kind)
{
  struct pst_memory *exporter = open_cuda(device, kind == PST_EXPORT_VENDOR_FD);
  struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
  struct pst_region region;
  assert_non_null(exporter);
  assert_true(alloc(exporter, PST_ALLOC_NORMAL, &region));
  uint64_t at = region.address + OFFSET;
  assert_int_equal(work(exporter, false, at, PART, 5), 0);
  assert_int_equal(memory_ops()->export_region(exporter, &region, kind, OFFSET, PART, &out), 0);
  struct pst_region far = import(&out);
  assert_int_equal(work(memory, true, far.address, PART, 5), 0);
  assert_int_equal(work(memory, false, far.address, PART, 6), 0);
  assert_int_equal(work(exporter, true, at, PART, 6), 0);
  struct pst_export wrong = out;
  wrong.base_length += UINT64_C(64) << 20;
  wrong.offset = out.base_length;
  refuse(-EINVAL, &wrong, "are not in the");
  struct pst_region again = import(&out);
  memory_ops()->free_region(memory, &again);
  assert_int_equal(work(memory, true, far.address, PART, 6), 0);
  memory_ops()->free_region(memory, &far);
  memory_ops()->free_region(exporter, &region);
  if (out.fd >= 0)
    close(out.fd);
  memory_ops()->close(exporter);
}

static void test_within_one_process(void **state)
{
  (void)state;
  for (uint32_t kind = PST_EXPORT_IPC; kind <= PST_EXPORT_VENDOR_FD; kind <<= 1) {
    if (!can(kind))
      continue;
    within_the_process("0", kind);
    if (are_peers())
      within_the_process("1", kind);
  }
}

/* Its own, as a stream within a process does: the region is still whole after it. */
static void test_a_memory_imports_its_own(void **state)
{
  (void)state;
  struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
  struct pst_region region;
  if (!can(PST_EXPORT_IPC))
    skip();
  assert_true(alloc(memory, PST_ALLOC_NORMAL, &region));
  assert_int_equal(memory_ops()->export_region(memory, &region, PST_EXPORT_IPC, 0, PART, &out), 0);
  struct pst_region far = import(&out);
  assert_int_equal(far.address, region.address);
  memory_ops()->free_region(memory, &far);
  assert_int_equal(work(memory, false, region.address + LENGTH - PART, PART, 5), 0);
  memory_ops()->free_region(memory, &region);
}

/* The size of BAR1 is what the fake NVML says. */
static void test_the_window_of_nics_is_looked_at(void **state)
{
  (void)state;
  const char *script = getenv("FAKE_CUDA");
  struct pst_region region = {.struct_size = sizeof(region)};
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .length = UINT64_C(20) << 20,
                                    .needs = PST_NEED_EXPORT_DMABUF,
                                    .label = "camera, ring"};
  if (!script || !strstr(script, "bar1_mib=32"))
    skip();
  if (strstr(script, "no_nvml")) {
    assert_int_equal(memory_ops()->alloc(memory, &params, &region), 0);
    memory_ops()->free_region(memory, &region);
    return;
  }
  fake_log_clear();
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), -ENOMEM);
  assert_non_null(strstr(fake_log(), "camera, ring: cannot get 20.0 MiB of Fake GPU for a NIC"));
  assert_non_null(strstr(fake_log(), "16.0 of 32.0 MiB are free: ask for less"));
  params.length = UINT64_C(16) << 20;
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), 0);
  memory_ops()->free_region(memory, &region);
  params.length = UINT64_C(20) << 20;
  params.needs = PST_NEED_PINNED;
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), 0);
  memory_ops()->free_region(memory, &region);
}

int main(int argc, char **argv)
{
  struct pst_probe probe = {.struct_size = sizeof(probe)};
  share_host = fake_host;
  share_host.library_open = library_open;
  if (argc == 5 && strcmp(argv[1], "--other") == 0)
    return be_the_other(atoi(argv[2]), argv[3], (uint32_t)atoi(argv[4]));
  if (pst_plugin_v1.probe(&share_host, &probe) != 0) {
    fprintf(stderr, "%s; %s\n", probe.reason, probe.remedy);
    const char *required = getenv("PENSTOCK_REQUIRE");
    return required && strstr(required, "cuda") ? 1 : 77;
  }
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_another_process_by_handle),         CASE(test_another_process_by_descriptor),
      CASE(test_another_process_has_host_memory),   CASE(test_another_processs_other_gpu),
      CASE(test_a_gpu_out_of_reach_is_refused),     CASE(test_a_gpu_that_is_not_seen_is_refused),
      CASE(test_ranges_that_are_not_in_their_base), CASE(test_a_handle_whose_memory_is_gone),
      CASE(test_a_descriptor_outlives_its_maker),   CASE(test_what_is_no_descriptor_of_the_vendors),
      CASE(test_a_maker_killed_under_work),         CASE(test_within_one_process),
      CASE(test_a_memory_imports_its_own),          CASE(test_the_window_of_nics_is_looked_at),
  };
#undef CASE
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
