/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of what is read of a machine, and what a recording hides. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/host.h"

#define FILE_MOST (8u << 20)
#define FILES 32 /* that together are just below 256 MiB */
#define CONFIG "sys/bus/pci/devices/0000:01:00.0/config"

/* ---- A kernel that refuses openat2(2) ---- */

static int refused_with;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d);
long __wrap_syscall(long number, long a, long b, long c, long d)
{
  if (number != SYS_openat2 || refused_with == 0)
    return __real_syscall(number, a, b, c, d);
  errno = refused_with;
  return -1;
}

/* A folder that host_open() takes, in the current one. */
static void make_root(const char *root)
{
  char path[64];

  snprintf(path, sizeof(path), "%s/proc", root);
  assert_int_equal(mkdir(root, 0700), 0);
  assert_int_equal(mkdir(path, 0700), 0);
}

static void test_a_kernel_without_openat2(void **state)
{
  static const int errors[] = {ENOSYS, EPERM};
  char why[HOST_WHY_BYTES] = "";

  (void)state;
  make_root("links");
  for (size_t i = 0; i < 2; i++) {
    refused_with = errors[i];
    struct host *host = host_open("links", why);
    refused_with = 0;
    assert_null(host);
    assert_non_null(strstr(why, "openat2(2), which keeps links inside, needs Linux 5.6"));
  }
  struct host *host = host_open("links", why);
  assert_non_null(host);
  host_close(host);
}

/* ---- Bounds ---- */

static void make_sparse(const char *path, off_t length)
{
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, length), 0);
  close(fd);
}

static void test_a_file_is_bounded(void **state)
{
  char why[HOST_WHY_BYTES];
  size_t length;

  (void)state;
  make_root("one");
  make_sparse("one/large", FILE_MOST);
  make_sparse("one/most", FILE_MOST - 1);
  struct host *host = host_open("one", why);
  assert_non_null(host);
  assert_null(host_bytes(host, &length, "large"));
  assert_int_equal(errno, EFBIG);
  assert_non_null(host_bytes(host, &length, "most"));
  assert_int_equal(length, FILE_MOST - 1);
  host_close(host);
}

static void test_all_that_is_remembered_is_bounded(void **state)
{
  char path[64], why[HOST_WHY_BYTES];
  size_t length;

  (void)state;
  make_root("all");
  for (unsigned i = 0; i <= FILES; i++) {
    snprintf(path, sizeof(path), "all/%u", i);
    make_sparse(path, FILE_MOST - 1);
  }
  struct host *host = host_open("all", why);
  assert_non_null(host);
  for (unsigned i = 0; i < FILES; i++)
    assert_non_null(host_bytes(host, &length, "%u", i));
  assert_null(host_bytes(host, &length, "%u", FILES));
  assert_int_equal(errno, EFBIG);
  /* Texts that were read before are still valid. */
  assert_non_null(host_bytes(host, &length, "0"));
  assert_int_equal(length, FILE_MOST - 1);
  host_close(host);
}

/* ---- The serial number of a PCI device ---- */

/* An extended capability of a configuration space at `at`, and that behind it. */
static void put_capability(uint8_t *space, size_t at, uint8_t id, size_t next)
{
  space[at] = id;
  space[at + 1] = 0;
  space[at + 2] = (uint8_t)(1 | (next & 0xf) << 4);
  space[at + 3] = (uint8_t)(next >> 4);
}

/* Records a machine with this configuration space; the recording's, malloc'd. */
static uint8_t *record(const char *root, const uint8_t *space, size_t bytes)
{
  char path[160], why[HOST_WHY_BYTES] = "", folder[64];
  size_t length;

  make_root(root);
  snprintf(path, sizeof(path), "mkdir -p %s/sys/bus/pci/devices/0000:01:00.0", root);
  assert_int_equal(system(path), 0);
  snprintf(path, sizeof(path), "%s/%s", root, CONFIG);
  write_file(path, space, bytes);
  struct host *host = host_open(root, why);
  assert_non_null(host);
  assert_non_null(host_bytes(host, &length, CONFIG));
  snprintf(folder, sizeof(folder), "%s-recorded", root);
  assert_int_equal(host_record(host, folder, why), 0);
  host_close(host);
  snprintf(path, sizeof(path), "%s/%s", folder, CONFIG);
  uint8_t *recorded = (uint8_t *)read_whole(path, &length);
  assert_int_equal(length, bytes);
  return recorded;
}

static void test_a_serial_number_is_zeros(void **state)
{
  uint8_t space[4096], wanted[4096];

  (void)state;
  memset(space, 0xa5, sizeof(space));
  space[0] = 0; /* no text */
  put_capability(space, 256, 0x0d, 0x140);
  put_capability(space, 0x140, 3, 0x160);
  put_capability(space, 0x160, 0x0b, 0);
  memcpy(wanted, space, sizeof(wanted));
  memset(wanted + 0x144, 0, 8);
  uint8_t *recorded = record("serial", space, sizeof(space));
  assert_memory_equal(recorded, wanted, sizeof(wanted));
  free(recorded);
}

/* Capabilities that name each other, or what is behind the end, end the walk. */
static void test_capabilities_that_are_wrong(void **state)
{
  uint8_t space[4096] = {0};

  (void)state;
  put_capability(space, 256, 0x0d, 256);
  free(record("circle", space, sizeof(space)));
  put_capability(space, 256, 0x0d, 0xff8);
  put_capability(space, 0xff8, 3, 0);
  memset(space + 0xffc, 0xa5, 4);
  uint8_t *recorded = record("end", space, sizeof(space));
  assert_memory_equal(recorded, space, sizeof(space));
  free(recorded);
  free(record("short", space, 64));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_kernel_without_openat2),
      cmocka_unit_test(test_a_file_is_bounded),
      cmocka_unit_test(test_all_that_is_remembered_is_bounded),
      cmocka_unit_test(test_a_serial_number_is_zeros),
      cmocka_unit_test(test_capabilities_that_are_wrong),
  };

  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
