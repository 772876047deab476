/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of memory/host/export.c. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/page.h>

#define LENGTH (10 * pst_page_size())

struct fixture {
  struct pst_memory *memory;
  struct pst_region region;
  struct pst_export out;
};

static struct fixture fixture;

static int setup(void **state)
{
  fixture.memory = open_memory(OPTIONS({"backing", "memfd"}));
  if (allocate(fixture.memory, LENGTH, 0, 0, &fixture.region) != 0)
    return -1;
  fixture.out = (struct pst_export){.struct_size = sizeof(fixture.out), .fd = -1};
  int code = memory_ops()->export_region(fixture.memory, &fixture.region, PST_EXPORT_FD, 0, LENGTH,
                                         &fixture.out);
  *state = &fixture;
  fake_log_clear();
  return code;
}

static int teardown(void **state)
{
  struct fixture *f = *state;
  close(f->out.fd);
  memory_ops()->free_region(f->memory, &f->region);
  memory_ops()->close(f->memory);
  return 0;
}

static int import(struct fixture *f, const struct pst_export *from, struct pst_region *region)
{
  memset(region, 0, sizeof(*region));
  region->struct_size = sizeof(*region);
  return memory_ops()->import_region(f->memory, from, region);
}

static void test_the_descriptor_is_sealed_and_closes_on_exec(void **state)
{
  struct fixture *f = *state;
  int seals = fcntl(f->out.fd, F_GET_SEALS);
  assert_int_equal(seals & (F_SEAL_SHRINK | F_SEAL_GROW), F_SEAL_SHRINK | F_SEAL_GROW);
  assert_true(fcntl(f->out.fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(ftruncate(f->out.fd, 4096), -1);
  assert_int_equal(ftruncate(f->out.fd, LENGTH * 2), -1);
}

static void test_the_region_outlives_a_closed_export(void **state)
{
  struct fixture *f = *state;
  struct pst_export second = {.struct_size = sizeof(second)};
  close(f->out.fd);
  assert_int_equal(
      memory_ops()->export_region(f->memory, &f->region, PST_EXPORT_FD, 4096, 100, &second), 0);
  assert_int_equal(second.offset, 4096);
  assert_int_equal(second.length, 100);
  assert_int_equal(second.base_address, f->region.address);
  assert_int_equal(second.base_length, LENGTH);
  f->out.fd = second.fd;
}

static void test_an_unaligned_part_is_imported(void **state)
{
  struct fixture *f = *state;
  struct pst_region part;
  struct pst_export from = f->out;
  from.offset = 4096 + 1000;
  from.length = 9001;
  assert_int_equal(import(f, &from, &part), 0);
  assert_int_equal(part.length, 9001);
  uint8_t *there = (uint8_t *)f->region.host + from.offset;
  memset(there, 0x3c, 9001);
  assert_memory_equal(part.host, there, 9001);
  ((uint8_t *)part.host)[9000] = 7;
  assert_int_equal(there[9000], 7);
  memory_ops()->free_region(f->memory, &part);
}

static void expect_refused(struct fixture *f, const struct pst_export *from, int code,
                           const char *why)
{
  struct pst_region part;
  fake_log_clear();
  assert_int_equal(import(f, from, &part), code);
  assert_null(part.handle);
  assert_logged("0 import: refused: ");
  assert_logged(why);
}

static void test_what_does_not_fit_is_refused(void **state)
{
  struct fixture *f = *state;
  struct pst_export from = f->out;
  from.length = LENGTH + 1;
  expect_refused(f, &from, -EINVAL, "are not in a memfd of ");
  from = f->out;
  from.offset = UINT64_MAX;
  expect_refused(f, &from, -EINVAL, "are not in a memfd");
  from = f->out;
  from.base_length = LENGTH * 2;
  expect_refused(f, &from, -EINVAL, "are not in a memfd");
  from = f->out;
  from.length = 0;
  expect_refused(f, &from, -EINVAL, "are not in a memfd");
}

static void test_foreign_devices_and_kinds_are_refused(void **state)
{
  struct fixture *f = *state;
  struct pst_export from = f->out;
  snprintf(from.device, sizeof(from.device), "GPU-1234");
  expect_refused(f, &from, -EXDEV, "memory of GPU-1234");
  from = f->out;
  from.kind = PST_EXPORT_DMABUF;
  expect_refused(f, &from, -EOPNOTSUPP, "descriptors");
}

static void test_descriptors_that_can_shrink_are_refused(void **state)
{
  struct fixture *f = *state;
  struct pst_export from = f->out;
  from.fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(from.fd >= 0);
  assert_int_equal(ftruncate(from.fd, LENGTH), 0);
  expect_refused(f, &from, -EINVAL, "F_SEAL_SHRINK");
  close(from.fd);
  FILE *file = tmpfile();
  assert_non_null(file);
  from.fd = fileno(file);
  assert_int_equal(ftruncate(from.fd, LENGTH), 0);
  expect_refused(f, &from, -EINVAL, "");
  fclose(file);
  from.fd = -1;
  expect_refused(f, &from, -EBADF, "descriptor -1");
}

static void test_write_sealed_descriptors_are_refused(void **state)
{
  struct fixture *f = *state;
  struct pst_export from = f->out;
  from.fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_int_equal(ftruncate(from.fd, LENGTH), 0);
  assert_int_equal(fcntl(from.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
  expect_refused(f, &from, -EPERM, "mmap of ");
  close(from.fd);
}

static void test_regions_without_a_descriptor_do_not_export(void **state)
{
  struct fixture *f = *state;
  struct pst_memory *memory = open_memory(OPTIONS({"backing", "malloc"}));
  struct pst_region region;
  struct pst_export out = {.struct_size = sizeof(out), .fd = 99};
  assert_int_equal(allocate(memory, 4096, 0, 0, &region), 0);
  assert_int_equal(memory_ops()->export_region(memory, &region, PST_EXPORT_FD, 0, 10, &out),
                   -EOPNOTSUPP);
  assert_int_equal(out.fd, 99);
  /* and none by a memory that it does not belong to */
  assert_int_equal(memory_ops()->export_region(memory, &f->region, PST_EXPORT_FD, 0, 10, &out),
                   -EINVAL);
  memory_ops()->free_region(memory, &region);
  memory_ops()->close(memory);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      CASE(test_the_descriptor_is_sealed_and_closes_on_exec),
      CASE(test_the_region_outlives_a_closed_export),
      CASE(test_an_unaligned_part_is_imported),
      CASE(test_what_does_not_fit_is_refused),
      CASE(test_foreign_devices_and_kinds_are_refused),
      CASE(test_descriptors_that_can_shrink_are_refused),
      CASE(test_write_sealed_descriptors_are_refused),
      CASE(test_regions_without_a_descriptor_do_not_export),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
