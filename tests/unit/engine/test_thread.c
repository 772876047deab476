/* SPDX-License-Identifier: Apache-2.0 */
/* Events that end a sleep, and events that keep a thread from sleeping. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/thread.h"

static struct engine_thread thread;
static struct {
  uint32_t count;
  int rc;
} armed;

static int fake_arm(struct pst_worker *worker)
{
  (void)worker;
  armed.count++;
  return armed.rc;
}

static const struct pst_transport_ops ops = {.arm = fake_arm};

static int open_thread(void **state)
{
  (void)state;
  armed.count = 0;
  armed.rc = 0;
  return engine_thread_open(&thread);
}

static int close_thread(void **state)
{
  (void)state;
  engine_thread_close(&thread);
  return 0;
}

static void mail_and_other_descriptors_end_a_sleep(void **state)
{
  struct mail *mail = calloc(1, sizeof(*mail));
  const uint64_t now = clock_now_ns();
  int other[2];

  (void)state;
  assert_int_equal(pipe(other), 0);
  assert_int_equal(engine_thread_add_fd(&thread, other[0]), 0);
  assert_int_equal(engine_thread_add_fd(&thread, -1), -EBADF);
  assert_true(engine_thread_sleep(&thread, now, now + 1));
  mailbox_wake(&thread.mailbox);
  assert_true(engine_thread_sleep(&thread, now, UINT64_MAX));
  assert_true(engine_thread_sleep(&thread, now, now + 1)); /* it was drained */
  mailbox_put(&thread.mailbox, mail, NULL);
  assert_false(engine_thread_sleep(&thread, now, UINT64_MAX));
  mailbox_drop(&thread.mailbox);
  mailbox_drain(&thread.mailbox);
  assert_int_equal(write(other[1], "x", 1), 1);
  assert_true(engine_thread_sleep(&thread, now, UINT64_MAX));
  close(other[0]);
  close(other[1]);
}

static void workers_are_armed_before_a_sleep(void **state)
{
  const int fd = eventfd(0, EFD_CLOEXEC);
  struct engine_worker one = {.ops = &ops, .event_fd = fd}, other = {.ops = &ops, .event_fd = -1};
  const uint64_t now = clock_now_ns();

  (void)state;
  assert_int_equal(engine_thread_add(&thread, &one), 0);
  assert_int_equal(one.event_fd, fd);
  assert_false(engine_thread_sleep(&thread, now, now));
  assert_int_equal(armed.count, 0);
  assert_true(engine_thread_sleep(&thread, now, now + 1));
  assert_int_equal(armed.count, 1);
  armed.rc = -EAGAIN;
  assert_int_equal(engine_thread_arm(&thread), -EAGAIN);
  assert_false(engine_thread_sleep(&thread, now, UINT64_MAX));
  armed.rc = 0;
  assert_int_equal(eventfd_write(fd, 1), 0);
  assert_true(engine_thread_sleep(&thread, now, UINT64_MAX));
  /* One that cannot wake is not armed. */
  assert_int_equal(engine_thread_add(&thread, &other), 0);
  armed.count = 0;
  assert_int_equal(engine_thread_arm(&thread), 0);
  assert_int_equal(armed.count, 1);
  close(fd);
}

/* A file is always readable, and cannot be watched. */
static void a_worker_that_cannot_wake_makes_naps(void **state)
{
  struct engine_worker worker = {.ops = &ops, .event_fd = open("/proc/self/exe", O_RDONLY)};
  const int fd = worker.event_fd;
  const uint64_t now = clock_now_ns();

  (void)state;
  assert_true(fd >= 0);
  assert_int_equal(engine_thread_add(&thread, &worker), 0);
  assert_int_equal(worker.event_fd, -1);
  assert_true(engine_thread_sleep(&thread, now, UINT64_MAX));
  assert_true(clock_now_ns() - now >= ENGINE_NAP_NS);
  assert_int_equal(armed.count, 0);
  close(fd);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mail_and_other_descriptors_end_a_sleep, open_thread,
                                      close_thread),
      cmocka_unit_test_setup_teardown(workers_are_armed_before_a_sleep, open_thread, close_thread),
      cmocka_unit_test_setup_teardown(a_worker_that_cannot_wake_makes_naps, open_thread,
                                      close_thread),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
