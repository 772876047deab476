/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of memory/host/alloc.c. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "block.h"
#include "format.h"
#include "meminfo.h"

#include <penstock/page.h>

static const struct fake_option *const plain = OPTIONS({"backing", "auto"});

static void expect_backing(const char *backing, uint64_t length, uint32_t needs, const char *words,
                           uint32_t exports)
{
  struct pst_memory *memory = open_memory(OPTIONS({"backing", backing}));
  struct pst_region region;
  assert_int_equal(allocate(memory, length, 0, needs, &region), 0);
  assert_string_equal(region.backing, words);
  assert_int_equal(region.exports, exports);
  assert_ptr_equal(region.host, (void *)(uintptr_t)region.address);
  assert_true(region.length >= length);
  assert_string_equal(region.device, "");
  memset(region.host, 0x5a, region.length);
  memory_ops()->free_region(memory, &region);
  memory_ops()->close(memory);
}

static void test_malloc_is_plain_memory(void **state)
{
  (void)state;
  expect_backing("malloc", 5000, 0, "malloc", 0);
  expect_backing("malloc", 5000, PST_NEED_EXPORT_FD, "malloc", 0);
}

static void test_memfd_is_exportable(void **state)
{
  (void)state;
  expect_backing("memfd", 5000, 0, "memfd", PST_EXPORT_FD);
}

static void test_auto_takes_memfd_for_export(void **state)
{
  (void)state;
  expect_backing("auto", 5000, PST_NEED_EXPORT_FD, "memfd", PST_EXPORT_FD);
  expect_backing("auto", 5000, PST_NEED_CPU_ACCESS, "malloc", 0);
}

static uint64_t free_pages(uint64_t page_size)
{
  struct host_pages pages;
  return host_pages_read(HOST_PAGES_ROOT, page_size, &pages) ? pages.free : 0;
}

static void test_auto_takes_huge_pages_where_they_are_free(void **state)
{
  (void)state;
  uint64_t length = 4 * HOST_PAGE_2M;
  struct pst_memory *memory = open_memory(plain);
  struct pst_region region;
  bool there = free_pages(HOST_PAGE_2M) >= 4;
  assert_int_equal(allocate(memory, length, 0, 0, &region), 0);
  if (there) {
    assert_string_equal(region.backing, "2 MiB pages");
    assert_int_equal(region.page_size, HOST_PAGE_2M);
  } else {
    assert_true(strncmp(region.backing, "malloc", 6) == 0);
    assert_null(strstr(fake_log(), "0 test"));
  }
  memory_ops()->free_region(memory, &region);
  memory_ops()->close(memory);
}

static void expect_huge(const char *backing, uint64_t page_size, uint32_t needs, const char *words)
{
  struct pst_memory *memory = open_memory(OPTIONS({"backing", backing}));
  struct pst_region region;
  uint64_t wanted = free_pages(page_size) > 0 ? 1 : 3;
  bool there = free_pages(page_size) >= wanted;
  int code = allocate(memory, wanted * page_size - 100, 0, needs, &region);
  if (there) {
    assert_int_equal(code, 0);
    assert_string_equal(region.backing, words);
    assert_int_equal(region.page_size, page_size);
    assert_int_equal(region.length, wanted * page_size);
    assert_int_equal(region.address % page_size, 0);
    assert_int_equal(region.exports, needs ? PST_EXPORT_FD : 0);
    memory_ops()->free_region(memory, &region);
  } else {
    char remedy[256];
    assert_int_equal(code, -ENOMEM);
    assert_int_equal(region.address, 0);
    assert_logged("0 test ring: ");
    snprintf(remedy, sizeof(remedy), "hugepages-%" PRIu64 "kB/nr_hugepages", page_size / 1024);
    struct host_pages pages;
    if (host_pages_read(HOST_PAGES_ROOT, page_size, &pages)) {
      assert_logged(remedy);
      snprintf(remedy, sizeof(remedy), "echo %" PRIu64 " > ", pages.total - pages.free + wanted);
      assert_logged(remedy);
    }
  }
  memory_ops()->close(memory);
}

static void test_named_huge_pages_are_there_or_an_error(void **state)
{
  (void)state;
  expect_huge("huge_2m", HOST_PAGE_2M, 0, "2 MiB pages");
  expect_huge("huge_2m", HOST_PAGE_2M, PST_NEED_EXPORT_FD, "2 MiB pages, memfd");
  expect_huge("huge_1g", HOST_PAGE_1G, 0, "1 GiB pages");
}

static void write_count(const char *folder, const char *name, unsigned int count)
{
  char path[256];
  snprintf(path, sizeof(path), "%s/hugepages-2048kB/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "%u\n", count);
  fclose(file);
}

static void test_huge_page_counts_subtract_promised_ones(void **state)
{
  (void)state;
  char folder[] = "/tmp/penstock-pages-XXXXXX", path[256];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/hugepages-2048kB", folder);
  assert_int_equal(mkdir(path, 0700), 0);
  struct host_pages pages;
  assert_false(host_pages_read(folder, HOST_PAGE_2M, &pages));
  write_count(folder, "nr_hugepages", 20);
  write_count(folder, "free_hugepages", 9);
  write_count(folder, "resv_hugepages", 4);
  assert_true(host_pages_read(folder, HOST_PAGE_2M, &pages));
  assert_int_equal(pages.total, 20);
  assert_int_equal(pages.free, 5);
  assert_false(host_pages_read(folder, HOST_PAGE_1G, &pages));
  static const char *const names[] = {"nr_hugepages", "free_hugepages", "resv_hugepages"};
  for (size_t i = 0; i < 3; i++) {
    snprintf(path, sizeof(path), "%s/hugepages-2048kB/%s", folder, names[i]);
    unlink(path);
  }
  snprintf(path, sizeof(path), "%s/hugepages-2048kB", folder);
  rmdir(path);
  rmdir(folder);
}

static void test_more_than_there_is_names_what_is_free(void **state)
{
  (void)state;
  static const char *const backings[] = {"malloc", "memfd", "auto"};
  for (size_t i = 0; i < 3; i++) {
    struct pst_memory *memory = open_memory(OPTIONS({"backing", backings[i]}));
    struct pst_region region;
    assert_int_equal(allocate(memory, UINT64_C(1) << 46, 0, 0, &region), -ENOMEM);
    assert_logged("64 TiB");
    assert_logged("available");
    assert_int_equal(allocate(memory, UINT64_MAX - 5, 0, 0, &region), -ENOMEM);
    memory_ops()->close(memory);
  }
}

static void test_alignment_beyond_a_page(void **state)
{
  (void)state;
  static const char *const backings[] = {"malloc", "memfd"};
  for (size_t i = 0; i < 2; i++) {
    struct pst_memory *memory = open_memory(OPTIONS({"backing", backings[i]}));
    for (uint64_t alignment = 1; alignment <= UINT64_C(1) << 26; alignment *= 4) {
      struct pst_region region;
      assert_int_equal(allocate(memory, 9000, alignment, 0, &region), 0);
      assert_int_equal(region.address % alignment, 0);
      memset(region.host, 1, region.length);
      memory_ops()->free_region(memory, &region);
    }
    memory_ops()->close(memory);
  }
}

/* Root passes the limit, so a child drops to one who does not. 2: cannot be tried. */
static int lock_as_nobody(void)
{
  struct rlimit limit = {4096, 4096};
  struct pst_memory *memory = open_memory(OPTIONS({"lock", "true"}));
  struct pst_region region;
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_setresuid, 65534, 65534, 65534) != 0)
    return 2;
  static uint8_t beyond[1 << 20];
  if (mlock(beyond, sizeof(beyond)) == 0)
    return 2; /* under a sanitizer mlock does nothing, well */
  int code = allocate(memory, 1 << 20, 0, 0, &region);
  if (code != -ENOMEM || !strstr(fake_log(), "RLIMIT_MEMLOCK is 4 KiB") ||
      !strstr(fake_log(), "ulimit -l") || !strstr(fake_log(), "0 test ring: cannot lock 1 MiB")) {
    fprintf(stderr, "%d: %s\n", code, fake_log());
    return 1;
  }
  memory_ops()->close(memory);
  return 0;
}

static void test_lock_failure_names_the_limit(void **state)
{
  (void)state;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    _exit(lock_as_nobody());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2)
    skip();
  assert_int_equal(WEXITSTATUS(status), 0);
}

static uint64_t locked_kib(void)
{
  FILE *file = fopen("/proc/self/status", "re");
  char line[128];
  uint64_t kib = 0;
  assert_non_null(file);
  while (fgets(line, sizeof(line), file))
    if (sscanf(line, "VmLck: %" SCNu64, &kib) == 1)
      break;
  fclose(file);
  return kib;
}

static void test_locked_regions_are_pinned(void **state)
{
  (void)state;
  static const char *const backings[] = {"malloc", "memfd"};
  for (size_t i = 0; i < 2; i++) {
    struct pst_memory *memory = open_memory(OPTIONS({"backing", backings[i]}, {"lock", "true"}));
    struct pst_region region;
    uint64_t before = locked_kib();
    assert_int_equal(allocate(memory, 4 * pst_page_size(), 0, 0, &region), 0);
    assert_true(region.flags & PST_REGION_PINNED);
    uint64_t during = locked_kib();
    assert_true(during == before + 4 * pst_page_size() / 1024 ||
                during == 0); /* some sanitizers make mlock do nothing */
    memory_ops()->free_region(memory, &region);
    assert_int_equal(locked_kib(), before);
    memory_ops()->close(memory);
  }
}

static void test_populate_brings_the_pages(void **state)
{
  (void)state;
  static const char *const wanted[] = {"true", "false"};
  for (size_t i = 0; i < 2; i++) {
    struct pst_memory *memory = open_memory(OPTIONS({"backing", "memfd"}, {"populate", wanted[i]}));
    struct pst_region region;
    unsigned char resident[64];
    assert_int_equal(allocate(memory, 64 * pst_page_size(), 0, 0, &region), 0);
    assert_int_equal(mincore(region.host, 64 * pst_page_size(), resident), 0);
    for (size_t page = 0; page < 64; page++)
      assert_int_equal(resident[page] & 1, i == 0);
    memory_ops()->free_region(memory, &region);
    memory_ops()->close(memory);
  }
}

static void test_numa_node(void **state)
{
  (void)state;
  struct pst_memory *memory = open_memory(OPTIONS({"numa_node", "0"}));
  struct pst_region region;
  int code = allocate(memory, 1 << 16, 0, 0, &region);
  if (code == -EPERM) {
    assert_logged("CAP_SYS_NICE");
  } else {
    assert_int_equal(code, 0);
    int node = -1;
    memset(region.host, 1, region.length);
    /* MPOL_F_NODE | MPOL_F_ADDR; a kernel without NUMA has no such call. */
    if (syscall(SYS_get_mempolicy, &node, NULL, 0, region.host, 3) == 0)
      assert_int_equal(node, 0);
    memory_ops()->free_region(memory, &region);
  }
  memory_ops()->close(memory);
}

static void test_numa_nodes_that_are_none(void **state)
{
  (void)state;
  struct pst_memory *memory = NULL;
  struct pst_memory_params params = {sizeof(params), 0, NULL};
  fake_log_clear();
  params.options = FAKE_OPTIONS(OPTIONS({"numa_node", "900"}));
  assert_int_equal(memory_ops()->open(&fake_host, &params, &memory), -ENODEV);
  assert_logged("no NUMA node 900; there are: 0");
  params.options = FAKE_OPTIONS(OPTIONS({"numa_node", "0x1"}));
  assert_int_equal(memory_ops()->open(&fake_host, &params, &memory), -EINVAL);
  params.options = FAKE_OPTIONS(OPTIONS({"numa_node", "-2"}));
  assert_int_equal(memory_ops()->open(&fake_host, &params, &memory), -EINVAL);
  params.options = FAKE_OPTIONS(OPTIONS({"numa_node", "99999999999999999999"}));
  assert_int_equal(memory_ops()->open(&fake_host, &params, &memory), -EINVAL);
  assert_null(memory);
  params.options = FAKE_OPTIONS(OPTIONS({"numa_node", "-1"}));
  assert_int_equal(memory_ops()->open(&fake_host, &params, &memory), 0);
  memory_ops()->close(memory);
}

static void test_sizes_in_words(void **state)
{
  (void)state;
  assert_string_equal(host_size_text(0).text, "0 B");
  assert_string_equal(host_size_text(1462).text, "1462 B");
  assert_string_equal(host_size_text(8192).text, "8 KiB");
  assert_string_equal(host_size_text(HOST_PAGE_1G).text, "1 GiB");
  assert_string_equal(host_size_text(HOST_PAGE_1G + 1).text, "1073741825 B");
  assert_string_equal(host_size_text(UINT64_C(3) << 50).text, "3072 TiB");
}

static unsigned int probed;

static void count_device(void *context, const char *name, const char *detail)
{
  assert_ptr_equal(context, &probed);
  assert_string_equal(name, "");
  assert_non_null(strstr(detail, "MiB available"));
  probed++;
}

static void test_probe_reports_one_device(void **state)
{
  (void)state;
  struct pst_probe probe = {sizeof(probe), 0, &probed, count_device, "", ""};
  assert_int_equal(pst_plugin_v1.probe(&fake_host, &probe), 0);
  assert_int_equal(probed, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_malloc_is_plain_memory),
      cmocka_unit_test(test_memfd_is_exportable),
      cmocka_unit_test(test_auto_takes_memfd_for_export),
      cmocka_unit_test(test_auto_takes_huge_pages_where_they_are_free),
      cmocka_unit_test(test_named_huge_pages_are_there_or_an_error),
      cmocka_unit_test(test_huge_page_counts_subtract_promised_ones),
      cmocka_unit_test(test_more_than_there_is_names_what_is_free),
      cmocka_unit_test(test_alignment_beyond_a_page),
      cmocka_unit_test(test_lock_failure_names_the_limit),
      cmocka_unit_test(test_locked_regions_are_pinned),
      cmocka_unit_test(test_populate_brings_the_pages),
      cmocka_unit_test(test_numa_node),
      cmocka_unit_test(test_numa_nodes_that_are_none),
      cmocka_unit_test(test_sizes_in_words),
      cmocka_unit_test(test_probe_reports_one_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
