/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memories: regions. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include <penstock/page.h>

static void test_capabilities_have_their_calls(void **state)
{
  contract_rule(
      "NULL stands for a call that returns -EOPNOTSUPP. A capability needs its calls. Mandatory: open, close, alloc, free_region.");
  (void)state;
  const struct pst_memory_ops *raw = contract.raw;
  const struct {
    uint64_t capability;
    size_t from, to;
  } rules[] = {
#define CALLS(capability, first, last)                                                             \
  {capability, offsetof(struct pst_memory_ops, first), offsetof(struct pst_memory_ops, last)}
      CALLS(0, open, close),
      CALLS(0, alloc, free_region),
      CALLS(PST_MEMORY_CAP_HOST_REGISTER, host_register, host_unregister),
      CALLS(PST_MEMORY_CAP_EXPORT, export_region, export_region),
      CALLS(PST_MEMORY_CAP_IMPORT, import_region, import_region),
      CALLS(PST_MEMORY_CAP_COPY, queue_open, copy_rows),
      CALLS(PST_MEMORY_CAP_COPY, queue_poll, queue_poll),
      CALLS(PST_MEMORY_CAP_PATTERN, fill_rows, verify_result),
      CALLS(PST_MEMORY_CAP_FENCE, fence_record, fence_release),
      CALLS(PST_MEMORY_CAP_FLUSH, flush, flush),
      CALLS(PST_MEMORY_CAP_CHECKSUM, sum_range, sum_range),
      CALLS(PST_MEMORY_CAP_ADOPT, adopt_region, adopt_region),
#undef CALLS
  };
  for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
    if ((raw->capabilities & rules[i].capability) != rules[i].capability)
      continue;
    for (size_t at = rules[i].from; at <= rules[i].to; at += sizeof(void *)) {
      void *call = NULL;
      assert_true(at + sizeof(call) <= raw->struct_size);
      memcpy(&call, (const char *)raw + at, sizeof(call));
      if (!call)
        fail_msg("capability 0x%lx lacks the call at offset %zu",
                 (unsigned long)rules[i].capability, at);
    }
  }
}

static void test_describe(void **state)
{
  contract_rule(
      "Description of an opened memory, which `penstock plugins`, banner and result show.");
  (void)state;
  struct pst_memory_info info, brief;
  memset(&info, 0x7f, sizeof(info));
  info.struct_size = sizeof(info);
  int code = contract.ops->describe(contract.memory, &info);
  if (code == -EOPNOTSUPP)
    skip();
  assert_int_equal(code, 0);
  assert_int_equal(info.struct_size, sizeof(info));
  assert_non_null(memchr(info.device, '\0', sizeof(info.device)));
  assert_non_null(memchr(info.name, '\0', sizeof(info.name)));
  struct pst_region region = contract_alloc(PST_ALLOC_NORMAL, 4096, 0, 0);
  assert_int_equal(info.kind, region.kind);
  assert_string_equal(info.device, region.device);
  contract_free(&region);
  contract_rule(
      "The writer of an out-struct writes no more than the `struct_size` that the caller set.");
  memset(&brief, 0x7f, sizeof(brief));
  brief.struct_size = offsetof(struct pst_memory_info, name);
  assert_int_equal(contract.ops->describe(contract.memory, &brief), 0);
  assert_int_equal(brief.kind, info.kind);
  assert_int_equal(brief.name[0], 0x7f);
}

static void check_region(const struct pst_region *region, uint64_t length, bool staging)
{
  contract_rule(
      "A range of memory of a plugin. The plugin writes the struct; it does not change from alloc() to free_region().");
  assert_int_equal(region->struct_size, sizeof(*region));
  assert_in_range(region->kind, PST_MEMORY_HOST, PST_MEMORY_MAPPED);
  assert_true(region->address != 0);
  assert_true(region->length >= length);
  assert_true(region->page_size >= 512 && (region->page_size & (region->page_size - 1)) == 0);
  assert_ptr_equal(region->memory, contract.memory);
  assert_int_equal(region->flags & ~PST_REGION_PINNED, 0);
  assert_non_null(memchr(region->device, '\0', sizeof(region->device)));
  assert_non_null(memchr(region->backing, '\0', sizeof(region->backing)));
  assert_true(region->backing[0] != '\0');
  if (region->kind == PST_MEMORY_HOST && region->host)
    assert_int_equal(region->address, (uintptr_t)region->host);
  if (staging)
    assert_non_null(region->host);
}

static const uint64_t lengths[] = {1, 100, 4096, 5000, (1 << 20) + 1, 8 << 20};

static void check_lengths(uint32_t purpose)
{
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    struct pst_region region = contract_alloc(purpose, lengths[i], 0, 0);
    check_region(&region, lengths[i], purpose == PST_ALLOC_STAGING);
    if (contract_reaches(&region)) {
      uint8_t first = 0x11, last = 0x22, found = 0;
      contract_put(&region, 0, &first, 1);
      contract_put(&region, region.length - 1, &last, 1);
      contract_get(&region, region.length - 1, &found, 1);
      assert_int_equal(found, last);
    }
    contract_free(&region);
  }
}

static void test_regions_hold_what_was_asked_for(void **state)
{
  contract_rule("Allocate a region of at least params->length bytes with undefined contents.");
  (void)state;
  check_lengths(PST_ALLOC_NORMAL);
}

static void test_staging_is_host_memory(void **state)
{
  contract_rule("host memory, pinned for this plugin's copies, registrable by a NIC");
  (void)state;
  check_lengths(PST_ALLOC_STAGING);
}

static void test_alignment(void **state)
{
  contract_rule("of `address`; a power of two, up to 2 MiB; 0: the plugin's own");
  (void)state;
  for (uint32_t purpose = PST_ALLOC_NORMAL; purpose <= PST_ALLOC_STAGING; purpose++) {
    for (uint64_t alignment = 1; alignment <= 2 << 20; alignment *= 2) {
      struct pst_region region = contract_alloc(purpose, 3000, alignment, 0);
      assert_int_equal(region.address % alignment, 0);
      contract_free(&region);
    }
  }
}

static void test_regions_are_apart(void **state)
{
  contract_rule("Allocate a region of at least params->length bytes with undefined contents.");
  (void)state;
  enum { COUNT = 8, LENGTH = 10000 };
  struct pst_region regions[COUNT];
  uint8_t bytes[LENGTH], expected[LENGTH];
  for (int i = 0; i < COUNT; i++) {
    regions[i] = contract_alloc(i % 2 ? PST_ALLOC_STAGING : PST_ALLOC_NORMAL, LENGTH, 0, 0);
    for (int j = 0; j < i; j++)
      assert_true(regions[i].address + regions[i].length <= regions[j].address ||
                  regions[j].address + regions[j].length <= regions[i].address);
  }
  for (int i = 0; i < COUNT && contract_reaches(&regions[0]); i++) {
    memset(bytes, i + 1, LENGTH);
    contract_put(&regions[i], 0, bytes, LENGTH);
  }
  for (int i = 0; i < COUNT; i++) {
    if (contract_reaches(&regions[0])) {
      memset(expected, i + 1, LENGTH);
      contract_get(&regions[i], 0, bytes, LENGTH);
      assert_memory_equal(bytes, expected, LENGTH);
    }
    contract_free(&regions[i]);
  }
}

static void expect_alloc_refused(struct pst_alloc_params params, int code)
{
  struct pst_region region, untouched;
  memset(&untouched, 0, sizeof(untouched));
  untouched.struct_size = sizeof(untouched);
  params.struct_size = sizeof(params);
  params.label = "refused";
  assert_refused(code, contract_alloc_params(&params, &region));
  const char *before = contract_rule("Out-parameters stay untouched on failure.");
  assert_memory_equal(&region, &untouched, sizeof(region));
  contract_rule(before);
}

static void test_alloc_refuses_what_is_not_sound(void **state)
{
  contract_rule(
      "-EINVAL: length 0, an alignment that is no power of two, an unknown purpose or need, a reserved member not zero.");
  (void)state;
  expect_alloc_refused((struct pst_alloc_params){.length = 0}, -EINVAL);
  expect_alloc_refused((struct pst_alloc_params){.length = 4096, .alignment = 48}, -EINVAL);
  expect_alloc_refused((struct pst_alloc_params){.length = 4096, .purpose = 2}, -EINVAL);
  expect_alloc_refused((struct pst_alloc_params){.length = 4096, .reserved = 1}, -EINVAL);
}

static void test_alloc_refuses_every_unknown_need(void **state)
{
  contract_rule(
      "-EINVAL: length 0, an alignment that is no power of two, an unknown purpose or need, a reserved member not zero.");
  (void)state;
  for (uint32_t need = PST_NEED_PINNED << 1; need; need <<= 1)
    expect_alloc_refused((struct pst_alloc_params){.length = 4096, .needs = need}, -EINVAL);
}

static int guard(void **state)
{
  contract_watch(state);
  contract_guard();
  return 0;
}

static int unguard(void **state)
{
  (void)state;
  contract_unguard();
  return 0;
}

static void test_alloc_says_when_there_is_not_so_much(void **state)
{
  contract_rule("-ENOMEM: the log says what was asked, what is free, and the remedy");
  static const uint64_t more[] = {UINT64_C(1) << 50, UINT64_MAX};
  (void)state;
  for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
    printf("asks for %" PRIu64 " bytes, which is to be refused; this process may map 1 GiB more, "
           "and make no file of more\n",
           more[i]);
    expect_alloc_refused((struct pst_alloc_params){.length = more[i]}, -ENOMEM);
  }
}

static void test_structs_of_a_newer_host(void **state)
{
  contract_rule(
      "The writer of an out-struct writes no more than the `struct_size` that the caller set.");
  (void)state;
  struct {
    struct pst_alloc_params params;
    uint64_t unknown;
  } longer = {{.struct_size = sizeof(longer), .length = 4096}, UINT64_MAX};
  struct {
    struct pst_region region;
    uint64_t unknown;
  } out = {{.struct_size = sizeof(out)}, 77};
  assert_int_equal(contract.ops->alloc(contract.memory, &longer.params, &out.region), 0);
  assert_int_equal(out.region.struct_size, sizeof(out));
  assert_int_equal(out.unknown, 77);
  contract_free(&out.region);
}

static void test_nothing_is_left_after_free(void **state)
{
  contract_rule("Release what alloc(), import_region() or adopt_region() took.");
  (void)state;
  unsigned int before = 0;
  for (int i = 0; i < 200; i++) {
    struct pst_region region = contract_alloc(i % 2 ? PST_ALLOC_STAGING : PST_ALLOC_NORMAL, 20000,
                                              0, i % 3 ? PST_NEED_EXPORT_FD : 0);
    contract_free(&region);
    if (i == 20)
      before = contract_descriptors();
  }
  contract_descriptors_are(before);
}

/* Nor of devices, which may have a region each. */
static void nothing_is_left_of(bool has_region)
{
  enum { WARM = 10 };
  unsigned int descriptors = 0;
  uint64_t heap = 0;
  for (int i = 0; i < WARM + 100; i++) {
    struct pst_memory *memory = contract_open();
    if (has_region) {
      struct pst_region region = {.struct_size = sizeof(region)};
      struct pst_alloc_params params = {.struct_size = sizeof(params), .length = 10000};
      assert_int_equal(contract.ops->alloc(memory, &params, &region), 0);
      contract.ops->free_region(memory, &region);
    }
    contract.ops->close(memory);
    if (i == WARM - 1) {
      descriptors = contract_descriptors();
      heap = contract_heap_bytes();
    }
  }
  contract_descriptors_are(descriptors);
  contract_heap_is_at_most(heap + CONTRACT_HEAP_NOISE_BYTES);
}

static void test_nothing_is_left_after_close(void **state)
{
  contract_rule(
      "Release what open() took: memory, descriptors, threads. Called when all regions, queues and fences are released. NULL is legal.");
  (void)state;
  nothing_is_left_of(false);
  contract_rule("Release what alloc(), import_region() or adopt_region() took.");
  nothing_is_left_of(true);
  contract_rule("Called when all regions, queues and fences are released. NULL is legal.");
  contract.ops->close(NULL);
}

/* With room for what a sanitizer keeps of freed memory. */
static void test_address_space_comes_back(void **state)
{
  contract_rule("Release what alloc(), import_region() or adopt_region() took.");
  (void)state;
  enum { COUNT = 400 };
  const uint64_t length = 4 << 20;
  uint64_t before = contract_mapped_bytes();
  for (int i = 0; i < COUNT; i++) {
    struct pst_region region =
        contract_alloc(i % 2 ? PST_ALLOC_STAGING : PST_ALLOC_NORMAL, length, 0, 0);
    contract_free(&region);
  }
  assert_true(contract_mapped_bytes() < before + COUNT * length * 3 / 8);
}

/* Needs are hints: each is granted or not, and the region says so. */
static void test_needs_are_answered(void **state)
{
  contract_rule("enum pst_memory_need bits: hints; the region may lack them");
  (void)state;
  for (uint32_t need = PST_NEED_CPU_ACCESS; need <= PST_NEED_PINNED; need <<= 1) {
    struct pst_region region = contract_alloc(PST_ALLOC_NORMAL, 8192, 0, need);
    check_region(&region, 8192, false);
    if (contract_reaches(&region)) {
      uint8_t byte = 9;
      contract_put(&region, 8191, &byte, 1);
    }
    contract_free(&region);
  }
}

static void test_host_memory_can_be_registered(void **state)
{
  contract_rule(
      "Ranges may overlap, and a range may be registered again: each call that returned 0 is undone by one host_unregister");
  (void)state;
  need_capability(PST_MEMORY_CAP_HOST_REGISTER);
  void *foreign = aligned_alloc(pst_page_size(), 1 << 16);
  assert_non_null(foreign);
  int code = contract.ops->host_register(contract.memory, foreign, 1 << 16);
  if (code != -EOPNOTSUPP) {
    assert_int_equal(code, 0);
    assert_int_equal(contract.ops->host_register(contract.memory, foreign, 1 << 16), 0);
    assert_int_equal(contract.ops->host_register(contract.memory, (char *)foreign + 4096, 10), 0);
    contract.ops->host_unregister(contract.memory, foreign, 1 << 16);
    contract.ops->host_unregister(contract.memory, (char *)foreign + 4096, 10);
    contract.ops->host_unregister(contract.memory, foreign, 1 << 16);
  }
  free(foreign);
}

static int adopt(const void *address, uint64_t length, int fd, uint64_t fd_offset,
                 struct pst_region *region)
{
  const struct pst_adopt_params params = {.struct_size = sizeof(params),
                                          .fd = fd,
                                          .address = (uint64_t)(uintptr_t)address,
                                          .length = length,
                                          .fd_offset = fd_offset,
                                          .label = "the caller's"};

  memset(region, 0, sizeof(*region));
  region->struct_size = sizeof(*region);
  return contract.ops->adopt_region(contract.memory, &params, region);
}

/* Any bytes, which stay when the region goes. */
static void test_memory_of_the_callers(void **state)
{
  contract_rule(
      "Make a region of memory that the caller owns and keeps: free_region ends the region and leaves the bytes.");
  (void)state;
  need_capability(PST_MEMORY_CAP_ADOPT);
  char *mine = malloc(100000), bytes[6] = "";
  struct pst_region region, none = {.struct_size = sizeof(none)};
  assert_int_equal(adopt(mine + 3, 90001, -1, 0, &region), 0);
  assert_int_equal(region.address, (uintptr_t)(mine + 3));
  assert_int_equal(region.length, 90001);
  assert_int_equal(region.exports, 0);
  contract_put(&region, 89996, "hello", 5);
  assert_memory_equal(mine + 3 + 89996, "hello", 5);
  contract_get(&region, 89996, bytes, 5);
  assert_string_equal(bytes, "hello");
  contract_free(&region);
  assert_memory_equal(mine + 3 + 89996, "hello", 5);
  contract_rule(
      "-EINVAL: no range, or a descriptor that could shrink or is not mapped at `address`; -EFAULT: a part of the range is not mapped");
  assert_refused(-EINVAL, adopt(mine, 0, -1, 0, &none));
  assert_refused(-EINVAL, adopt(NULL, 1, -1, 0, &none));
  assert_refused(-EINVAL, adopt(mine, UINT64_MAX, -1, 0, &none));
  assert_refused(-EINVAL, adopt(mine, 1, -1, 1, &none));
  assert_refused(-EFAULT, adopt((char *)4096, 1, -1, 0, &none));
  free(mine);
}

static int make_memfd(uint64_t length, unsigned seals)
{
  int fd = memfd_create("contract", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)length), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

/* Others can have it by its descriptor, at the same place. */
static void test_descriptors_of_the_callers(void **state)
{
  contract_rule("With a descriptor the region can be exported as PST_EXPORT_FD");
  (void)state;
  const uint64_t page = pst_page_size(), all = 16 * page, at = 5 * page;
  need_capability(PST_MEMORY_CAP_ADOPT | PST_MEMORY_CAP_EXPORT | PST_MEMORY_CAP_IMPORT);
  int fd = make_memfd(all, F_SEAL_SHRINK), loose = make_memfd(all, 0);
  char *map = mmap(NULL, all - at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
  struct pst_region region, there = {.struct_size = sizeof(there)};
  struct pst_export out = {.struct_size = sizeof(out)};
  assert_ptr_not_equal(map, MAP_FAILED);
  assert_int_equal(adopt(map + 10, 3 * page, fd, at + 10, &region), 0);
  assert_true(region.exports & PST_EXPORT_FD);
  assert_int_equal(
      contract.ops->export_region(contract.memory, &region, PST_EXPORT_FD, page, 100, &out), 0);
  contract_free(&region);
  assert_int_equal(contract.ops->import_region(contract.memory, &out, &there), 0);
  contract_put(&there, 0, "hello", 5);
  assert_memory_equal(map + 10 + page, "hello", 5);
  contract_free(&there);
  close(out.fd);
  contract_rule(
      "-EINVAL: no range, or a descriptor that could shrink or is not mapped at `address`; -EFAULT: a part of the range is not mapped");

  assert_refused(-EINVAL, adopt(map, page, loose, at, &region));
  assert_refused(-EINVAL, adopt(map, page, fd, 0, &region));
  assert_refused(-EINVAL, adopt(map, page, 0x7fff, at, &region));
  char *elsewhere = aligned_alloc(page, 2 * page);
  assert_refused(-EINVAL, adopt(elsewhere, page, fd, at, &region));
  free(elsewhere);
  munmap(map, all - at);
  close(fd);
  close(loose);
}

int contract_regions(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_capabilities_have_their_calls),
      cmocka_unit_test(test_describe),
      cmocka_unit_test(test_regions_hold_what_was_asked_for),
      cmocka_unit_test(test_staging_is_host_memory),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_regions_are_apart),
      cmocka_unit_test(test_alloc_refuses_what_is_not_sound),
      cmocka_unit_test(test_alloc_refuses_every_unknown_need),
      cmocka_unit_test_setup_teardown(test_alloc_says_when_there_is_not_so_much, guard, unguard),
      cmocka_unit_test(test_structs_of_a_newer_host),
      cmocka_unit_test(test_nothing_is_left_after_free),
      cmocka_unit_test(test_nothing_is_left_after_close),
      cmocka_unit_test(test_address_space_comes_back),
      cmocka_unit_test(test_needs_are_answered),
      cmocka_unit_test(test_host_memory_can_be_registered),
      cmocka_unit_test(test_memory_of_the_callers),
      cmocka_unit_test(test_descriptors_of_the_callers),
  };
  return contract_group("regions", tests, sizeof(tests) / sizeof(tests[0]), contract_watch);
}
