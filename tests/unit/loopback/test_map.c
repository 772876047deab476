/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a peer has, too: what is mapped of them, and what becomes of memory that is taken away
 * after it was mapped. */
#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/page.h>

static int file_of(uint64_t bytes, int seals)
{
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

static void file_is_sealed_and_long_enough(void **state)
{
  const char *why = "";
  int fd = file_of(100, F_SEAL_SHRINK), open_ended = file_of(100, F_SEAL_GROW), ends[2];

  (void)state;
  assert_int_equal(lb_fd_check(fd, 100, &why), 0);
  assert_int_equal(lb_fd_check(fd, 101, &why), -EPROTO);
  assert_non_null(strstr(why, "shorter than its address says"));
  assert_int_equal(lb_fd_check(open_ended, 100, &why), -EPROTO);
  assert_non_null(strstr(why, "not sealed against shrinking"));
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(lb_fd_check(ends[0], 0, &why), -EPROTO);
  close(ends[0]);
  close(ends[1]);
  close(fd);
  close(open_ended);
}

static void range_may_begin_within_a_page(void **state)
{
  const uint64_t page = pst_page_size(), offset = page + 100;
  int fd = file_of(4 * page, F_SEAL_SHRINK);
  struct lb_map map = {0};
  uint8_t byte = 0;
  void *at;

  (void)state;
  assert_int_equal(lb_map_open(fd, offset, page, PROT_READ | PROT_WRITE, &map, &at), 0);
  assert_int_equal(map.bytes, 2 * page); /* both pages that it has a part in */
  assert_ptr_equal(at, (uint8_t *)map.at + 100);
  *(uint8_t *)at = 9;
  assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
  assert_int_equal(byte, 9);
  lb_map_close(&map);
  assert_null(map.at);
  lb_map_close(&map); /* is legal */
  assert_int_equal(lb_map_open(fd, 0, 0, PROT_READ, &map, &at), 0);
  assert_int_equal(map.bytes, page);
  lb_map_close(&map);
  assert_int_not_equal(lb_map_open(-1, 0, page, PROT_READ, &map, &at), 0);
  close(fd);
}

static void memory_of_ones_own_is_sealed(void **state)
{
  const char *why = "";
  struct lb_map map = {0};
  int fd = -1;
  uint8_t *at = lb_memfd_open("test", 5000, &map, &fd);

  (void)state;
  assert_non_null(at);
  assert_int_equal(at[4999], 0);
  assert_int_equal(lb_fd_check(fd, 5000, &why), 0);
  assert_int_not_equal(ftruncate(fd, 4999), 0);
  assert_int_not_equal(ftruncate(fd, 50000), 0);
  lb_map_close(&map);
  close(fd);
}

/* Pages of a file that was cut short: touching them is SIGBUS. */
static void *gone(uint64_t bytes)
{
  int fd = memfd_create("test", MFD_CLOEXEC);
  assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(at != MAP_FAILED);
  memset(at, 1, bytes);
  assert_int_equal(ftruncate(fd, 0), 0);
  close(fd);
  return at;
}

static void guarded_pages_become_zeros_and_are_marked(void **state)
{
  const uint64_t page = pst_page_size();
  struct lb_guard *hit, *other;
  uint8_t *at = gone(2 * page), *untouched = gone(page);
  uint32_t hits = lb_guard_hits;

  (void)state;
  /* Rounded to pages, at both ends. */
  assert_int_equal(lb_guard_open(at + 10, page, 0, &hit), 0);
  assert_int_equal(lb_guard_open(untouched, page, 0, &other), 0);
  assert_false(lb_guard_hit(hit));
  volatile uint8_t *bytes = at;
  assert_int_equal(bytes[2 * page - 1], 0);
  assert_int_equal(bytes[0], 0);
  bytes[5] = 7;
  assert_int_equal(bytes[5], 7);
  assert_true(lb_guard_hit(hit));
  assert_false(lb_guard_hit(other));
  assert_int_equal(lb_guard_hits, hits + 1);
  lb_guard_close(hit);
  lb_guard_close(other);
  munmap(at, 2 * page);
  munmap(untouched, page);
}

static void overlapping_guards_are_all_marked(void **state)
{
  const uint64_t page = pst_page_size();
  struct lb_guard *first, *second;
  volatile uint8_t *at = gone(2 * page);

  (void)state;
  assert_int_equal(lb_guard_open((void *)(uintptr_t)at, 2 * page, 0, &first), 0);
  assert_int_equal(lb_guard_open((void *)(uintptr_t)(at + page), page, 0, &second), 0);
  assert_int_equal(at[page], 0);
  assert_true(lb_guard_hit(first));
  assert_true(lb_guard_hit(second));
  lb_guard_close(first);
  lb_guard_close(second);
  munmap((void *)(uintptr_t)at, 2 * page);
}

static volatile sig_atomic_t passed;
static sigjmp_buf back;

static void host_handler(int number)
{
  (void)number;
  passed++;
  siglongjmp(back, 1);
}

/* A fault of the host's own is the host's; and its handler is there again afterwards. */
static void faults_elsewhere_are_passed_on(void **state)
{
  const uint64_t page = pst_page_size();
  struct sigaction own = {.sa_handler = host_handler}, before, now;
  struct lb_guard *guard;
  volatile uint8_t *guarded = gone(page), *elsewhere = gone(page);

  (void)state;
  passed = 0;
  assert_int_equal(sigaction(SIGBUS, &own, &before), 0);
  assert_int_equal(lb_guard_open((void *)(uintptr_t)guarded, page, 0, &guard), 0);
  if (sigsetjmp(back, 1) == 0) {
    (void)elsewhere[0];
    fail();
  }
  assert_int_equal(passed, 1);
  assert_false(lb_guard_hit(guard));
  assert_int_equal(guarded[0], 0);
  assert_int_equal(passed, 1);
  lb_guard_close(guard);
  assert_int_equal(sigaction(SIGBUS, &before, &now), 0);
  assert_ptr_equal(now.sa_handler, host_handler);
  munmap((void *)(uintptr_t)guarded, page);
  munmap((void *)(uintptr_t)elsewhere, page);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(file_is_sealed_and_long_enough),
      cmocka_unit_test(range_may_begin_within_a_page),
      cmocka_unit_test(memory_of_ones_own_is_sealed),
      cmocka_unit_test(guarded_pages_become_zeros_and_are_marked),
      cmocka_unit_test(overlapping_guards_are_all_marked),
      cmocka_unit_test(faults_elsewhere_are_passed_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
