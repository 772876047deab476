/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memories: exports and imports. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH UINT64_C(20000)
#define SEED 21

static struct pst_export export_new(const struct pst_region *region, uint32_t kind, uint64_t offset,
                                    uint64_t length)
{
  struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
  assert_int_equal(contract.ops->export_region(contract.memory, region, kind, offset, length, &out),
                   0);
  assert_int_equal(out.struct_size, sizeof(out));
  assert_int_equal(out.kind, kind);
  assert_int_equal(out.length, length);
  assert_true(out.base_length >= out.offset + length);
  assert_string_equal(out.device, region->device);
  return out;
}

/* A region that exports a descriptor; the case is skipped when there is none. */
static struct pst_region fd_region(uint32_t purpose)
{
  struct pst_region region = contract_alloc(purpose, LENGTH, 0, PST_NEED_EXPORT_FD);
  if (!(region.exports & PST_EXPORT_FD))
    contract_free(&region);
  return region;
}

static bool has_fd(const struct pst_region *region)
{
  return region->exports & PST_EXPORT_FD;
}

static void test_exports_announced_work_and_others_do_not(void **state)
{
  contract_rule("enum pst_export_kind bits that will work");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT);
  for (uint32_t purpose = PST_ALLOC_NORMAL; purpose <= PST_ALLOC_STAGING; purpose++) {
    struct pst_region region =
        contract_alloc(purpose, LENGTH, 0, PST_NEED_EXPORT_FD | PST_NEED_EXPORT_DMABUF);
    for (uint32_t kind = PST_EXPORT_FD; kind <= PST_EXPORT_VENDOR_FD; kind <<= 1) {
      struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
      if (region.exports & kind) {
        out = export_new(&region, kind, 0, LENGTH);
        assert_int_equal(out.fd >= 0, kind != PST_EXPORT_IPC);
        if (out.fd >= 0)
          assert_true(fcntl(out.fd, F_GETFD) & FD_CLOEXEC);
        close(out.fd);
      } else {
        assert_int_equal(
            contract.ops->export_region(contract.memory, &region, kind, 0, LENGTH, &out),
            -EOPNOTSUPP);
        assert_int_equal(out.fd, -1);
      }
    }
    contract_free(&region);
  }
}

static void test_exports_stay_within_the_region(void **state)
{
  contract_rule("-EINVAL: outside the region, length 0, or not exactly one known kind");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT);
  struct pst_region region = contract_alloc(PST_ALLOC_NORMAL, LENGTH, 0, PST_NEED_EXPORT_FD);
  const struct {
    uint32_t kind;
    uint64_t offset, length;
  } wrong[] = {
      {PST_EXPORT_FD, 0, region.length + 1},
      {PST_EXPORT_FD, region.length + 1, 1},
      {PST_EXPORT_FD, region.length, 1},
      {PST_EXPORT_FD, 1, UINT64_MAX},
      {PST_EXPORT_FD, UINT64_MAX, 2},
      {PST_EXPORT_FD, 0, 0},
      {0, 0, LENGTH},
      {PST_EXPORT_FD | PST_EXPORT_DMABUF, 0, LENGTH},
      {1u << 30, 0, LENGTH},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
    if (wrong[i].kind == PST_EXPORT_FD && !has_fd(&region))
      continue;
    assert_refused(-EINVAL, contract.ops->export_region(contract.memory, &region, wrong[i].kind,
                                                        wrong[i].offset, wrong[i].length, &out));
    assert_int_equal(out.fd, -1);
    assert_int_equal(out.length, 0);
  }
  contract_free(&region);
}

static void check_mapping(uint32_t purpose)
{
  struct pst_region region = fd_region(purpose);
  if (!has_fd(&region))
    return;
  struct pst_export out = export_new(&region, PST_EXPORT_FD, 100, 5000);
  struct pst_export again = export_new(&region, PST_EXPORT_FD, 100, 5000);
  assert_int_not_equal(out.fd, again.fd);
  close(again.fd);
  uint8_t *base = mmap(NULL, out.base_length, PROT_READ | PROT_WRITE, MAP_SHARED, out.fd, 0);
  assert_ptr_not_equal(base, MAP_FAILED);
  uint8_t expected[5000], found[5000];
  contract_pattern(expected, sizeof(expected), SEED, 1);
  contract_put(&region, 100, expected, sizeof(expected));
  assert_memory_equal(base + out.offset, expected, sizeof(expected));
  contract_pattern(expected, sizeof(expected), SEED, 2);
  memcpy(base + out.offset, expected, sizeof(expected));
  contract_get(&region, 100, found, sizeof(found));
  assert_memory_equal(found, expected, sizeof(expected));
  contract_free(&region);
  assert_memory_equal(base + out.offset, expected, sizeof(expected));
  munmap(base, out.base_length);
  close(out.fd);
}

/* A process that maps it must not die of SIGBUS because another one cuts it short. */
static void test_a_descriptor_cannot_be_cut_short(void **state)
{
  contract_rule(
      "A file descriptor for mmap(), in other processes too. It is sealed against shrinking (F_SEAL_SHRINK of a memfd).");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT);
  for (uint32_t purpose = PST_ALLOC_NORMAL; purpose <= PST_ALLOC_STAGING; purpose++) {
    struct pst_region region = fd_region(purpose);
    if (!has_fd(&region))
      continue;
    struct pst_export out = export_new(&region, PST_EXPORT_FD, 0, LENGTH);
    int seals = fcntl(out.fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
      fail_msg("the descriptor of an export lacks F_SEAL_SHRINK, without which no peer maps it: "
               "memfd_create() with MFD_ALLOW_SEALING, then fcntl(F_ADD_SEALS); memory that "
               "cannot be sealed leaves PST_EXPORT_FD out of region.exports");
    close(out.fd);
    contract_free(&region);
  }
}

static void test_exports_to_a_newer_host(void **state)
{
  contract_rule(
      "The writer of an out-struct writes no more than the `struct_size` that the caller set.");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT);
  struct pst_region region = fd_region(PST_ALLOC_NORMAL);
  struct {
    struct pst_export out;
    uint64_t unknown;
  } longer = {{.struct_size = sizeof(longer), .fd = -1}, 77};
  if (!has_fd(&region))
    skip();
  assert_int_equal(
      contract.ops->export_region(contract.memory, &region, PST_EXPORT_FD, 0, LENGTH, &longer.out),
      0);
  assert_int_equal(longer.out.struct_size, sizeof(longer));
  assert_int_equal(longer.unknown, 77);
  close(longer.out.fd);
  contract_free(&region);
}

static void test_a_descriptor_maps_the_same_bytes(void **state)
{
  contract_rule(
      "A file descriptor for mmap(), in other processes too. It is sealed against shrinking (F_SEAL_SHRINK of a memfd).");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT);
  check_mapping(PST_ALLOC_NORMAL);
  check_mapping(PST_ALLOC_STAGING);
}

/* In a child: is the pattern of sequence 1 there? Answer by that of 2. */
static int child_answers(const struct pst_export *out)
{
  uint8_t expected[LENGTH];
  uint8_t *base = mmap(NULL, out->base_length, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
  if (base == MAP_FAILED)
    return 2;
  contract_pattern(expected, out->length, SEED, 1);
  if (memcmp(base + out->offset, expected, out->length) != 0)
    return 3;
  contract_pattern(base + out->offset, out->length, SEED, 2);
  return 0;
}

static int child_imports(const struct pst_export *out)
{
  uint8_t expected[LENGTH];
  struct pst_region region = {.struct_size = sizeof(region)};
  if (contract.ops->import_region(contract.memory, out, &region) != 0)
    return 2;
  contract_pattern(expected, out->length, SEED, 1);
  if (region.length < out->length)
    return 4;
  if (!region.host || memcmp(region.host, expected, out->length) != 0)
    return 3;
  contract_pattern(region.host, out->length, SEED, 2);
  contract.ops->free_region(contract.memory, &region);
  return 0;
}

static void check_child(const struct pst_region *region, int (*answer)(const struct pst_export *))
{
  const uint64_t offset = 777, length = LENGTH - 1000;
  struct pst_export out = export_new(region, PST_EXPORT_FD, offset, length);
  uint8_t expected[LENGTH], found[LENGTH];
  contract_pattern(expected, length, SEED, 1);
  contract_put(region, offset, expected, length);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(answer(&out));
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  contract_pattern(expected, length, SEED, 2);
  contract_get(region, offset, found, length);
  assert_memory_equal(found, expected, length);
  close(out.fd);
}

static void test_another_process_maps_the_descriptor(void **state)
{
  contract_rule(
      "A file descriptor for mmap(), in other processes too. It is sealed against shrinking (F_SEAL_SHRINK of a memfd).");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT);
  for (uint32_t purpose = PST_ALLOC_NORMAL; purpose <= PST_ALLOC_STAGING; purpose++) {
    struct pst_region region = fd_region(purpose);
    if (!has_fd(&region))
      continue;
    check_child(&region, child_answers);
    contract_free(&region);
  }
}

static void test_another_process_imports(void **state)
{
  contract_rule(
      "Map what this or another process exported; free_region unmaps it. The fd stays the caller's.");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT | PST_MEMORY_CAP_IMPORT);
  struct pst_region region = fd_region(PST_ALLOC_NORMAL);
  if (!has_fd(&region))
    skip();
  /* A device's driver does not live on in a child that is forked. */
  if (region.kind == PST_MEMORY_HOST && region.host)
    check_child(&region, child_imports);
  contract_free(&region);
}

static void test_import_within_the_process(void **state)
{
  contract_rule(
      "Map what this or another process exported; free_region unmaps it. The fd stays the caller's.");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT | PST_MEMORY_CAP_IMPORT);
  struct pst_region region = fd_region(PST_ALLOC_NORMAL);
  struct pst_region same = {.struct_size = sizeof(same)};
  uint8_t expected[1462], found[1462];
  if (!has_fd(&region))
    skip();
  struct pst_export out = export_new(&region, PST_EXPORT_FD, 4100, 1462);
  assert_int_equal(contract.ops->import_region(contract.memory, &out, &same), 0);
  assert_int_equal(close(out.fd), 0); /* it stayed the caller's … */
  assert_int_equal(same.struct_size, sizeof(same));
  assert_int_equal(same.kind, region.kind);
  assert_true(same.length >= 1462);
  assert_ptr_equal(same.memory, contract.memory);
  assert_true(same.address != region.address + 4100);
  contract_pattern(expected, sizeof(expected), SEED, 9);
  contract_put(&region, 4100, expected, sizeof(expected));
  contract_get(&same, 0, found, sizeof(found));
  assert_memory_equal(found, expected, sizeof(expected));
  contract_free(&region);
  contract_get(&same, 0, found, sizeof(found));
  assert_memory_equal(found, expected, sizeof(expected));
  int other = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, out.fd); /* … and its number is another's */
  contract_free(&same);
  assert_int_equal(close(other), 0);
}

static void test_import_refuses_what_is_not_ours(void **state)
{
  contract_rule(
      "-EXDEV: this process does not see the device, or this memory's device cannot access it; -EINVAL: a range outside its base, or a descriptor not sealed against shrinking");
  (void)state;
  need_capability(PST_MEMORY_CAP_EXPORT | PST_MEMORY_CAP_IMPORT);
  struct pst_region region = fd_region(PST_ALLOC_NORMAL);
  struct pst_region none = {.struct_size = sizeof(none)};
  if (!has_fd(&region))
    skip();
  struct pst_export out = export_new(&region, PST_EXPORT_FD, 0, LENGTH);
  struct pst_export wrong = out;
  snprintf(wrong.device, sizeof(wrong.device), "somewhere-else");
  assert_refused(-EXDEV, contract.ops->import_region(contract.memory, &wrong, &none));
  wrong = out;
  wrong.length = out.base_length + 4096;
  assert_refused(-EINVAL, contract.ops->import_region(contract.memory, &wrong, &none));
  wrong = out;
  wrong.fd = -1;
  contract_errors_clear();
  assert_true(contract.ops->import_region(contract.memory, &wrong, &none) < 0);
  assert_int_equal(contract_errors(), 1);
  assert_null(none.handle);
  assert_int_equal(none.address, 0);
  close(out.fd);
  contract_free(&region);
}

int contract_exports(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exports_announced_work_and_others_do_not),
      cmocka_unit_test(test_exports_stay_within_the_region),
      cmocka_unit_test(test_a_descriptor_cannot_be_cut_short),
      cmocka_unit_test(test_exports_to_a_newer_host),
      cmocka_unit_test(test_a_descriptor_maps_the_same_bytes),
      cmocka_unit_test(test_another_process_maps_the_descriptor),
      cmocka_unit_test(test_another_process_imports),
      cmocka_unit_test(test_import_within_the_process),
      cmocka_unit_test(test_import_refuses_what_is_not_ours),
  };
  return contract_group("exports", tests, sizeof(tests) / sizeof(tests[0]), contract_watch);
}
