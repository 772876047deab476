/* SPDX-License-Identifier: Apache-2.0 */
/* Mail comes out once, in order, and wakes its owner. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/mailbox.h"

struct letter {
  struct mail mail;
  int number;
};

static struct mailbox box;

static int open_box(void **state)
{
  (void)state;
  return mailbox_open(&box);
}

static int close_box(void **state)
{
  (void)state;
  mailbox_close(&box);
  return 0;
}

static struct letter *write_letter(int number)
{
  struct letter *letter = calloc(1, sizeof(*letter));

  assert_non_null(letter);
  letter->number = number;
  return letter;
}

static bool is_readable(int fd)
{
  uint64_t count;

  return read(fd, &count, sizeof(count)) == sizeof(count);
}

static void mail_comes_out_once_and_in_order(void **state)
{
  (void)state;
  assert_false(mailbox_has_mail(&box));
  for (int i = 0; i < 3; i++)
    mailbox_put(&box, &write_letter(i)->mail, NULL);
  assert_true(mailbox_has_mail(&box));
  struct mail *mail = mailbox_take(&box);
  for (int i = 0; i < 3; i++) {
    struct mail *next = mail->next;
    assert_int_equal(((struct letter *)mail)->number, i);
    mail_free(mail);
    mail = next;
  }
  assert_null(mail);
  assert_false(mailbox_has_mail(&box));
  assert_null(mailbox_take(&box));
}

static void mail_wakes_its_owner(void **state)
{
  (void)state;
  assert_false(is_readable(box.wake_fd));
  mailbox_put(&box, &write_letter(0)->mail, NULL);
  mailbox_drain(&box);
  assert_false(is_readable(box.wake_fd));
  mailbox_wake(&box);
  assert_true(is_readable(box.wake_fd));
}

static void what_is_kept_is_not_freed(void **state)
{
  static struct letter kept = {.mail.is_kept = true, .number = 7};

  (void)state;
  mailbox_put(&box, &kept.mail, NULL);
  mailbox_drop(&box);
  assert_int_equal(kept.number, 7);
  assert_false(mailbox_has_mail(&box));
}

static bool is_same_number(const struct mail *older, const struct mail *newer)
{
  return ((const struct letter *)older)->number == ((const struct letter *)newer)->number;
}

/* How many descriptors are open. */
static int count_descriptors(void)
{
  int count = 0;

  for (int fd = 0; fd < 256; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static struct letter *write_address(int number, const char *bytes)
{
  const struct pst_blob blob = {.struct_size = sizeof(blob),
                                .length = 2,
                                .bytes = (void *)(uintptr_t)bytes,
                                .fds = {STDERR_FILENO},
                                .fd_count = 1};
  struct letter *letter = write_letter(number);

  assert_int_equal(blob_keep(&blob, &letter->mail.blob), 0);
  assert_int_not_equal(letter->mail.blob.fds[0], STDERR_FILENO);
  return letter;
}

/* Another thread closes what came from a peer. */
static void await_descriptors(int count)
{
  const time_t began = time(NULL);

  while (count_descriptors() != count && time(NULL) < began + 10)
    sched_yield();
  assert_int_equal(count_descriptors(), count);
}

/* However many a peer sends, one is kept. */
static void a_newer_blob_takes_the_place_of_an_unread_one(void **state)
{
  const int before = count_descriptors();

  (void)state;
  mailbox_put(&box, &write_address(1, "a")->mail, is_same_number);
  mailbox_put(&box, &write_address(2, "b")->mail, is_same_number);
  mailbox_put(&box, &write_address(1, "c")->mail, is_same_number);
  await_descriptors(before + 2);
  struct mail *first = mailbox_take(&box), *second = first->next;
  assert_string_equal(first->blob.bytes, "c");
  assert_string_equal(second->blob.bytes, "b");
  assert_null(second->next);
  mail_free(first);
  mail_free(second);
  await_descriptors(before);
}

static void a_descriptor_that_cannot_be_kept_leaves_nothing(void **state)
{
  const struct pst_blob blob = {
      .struct_size = sizeof(blob), .fds = {STDERR_FILENO, -1}, .fd_count = 2};
  const int before = count_descriptors();
  struct pst_blob kept;

  (void)state;
  assert_int_equal(blob_keep(&blob, &kept), -EBADF);
  assert_null(kept.bytes);
  await_descriptors(before);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mail_comes_out_once_and_in_order, open_box, close_box),
      cmocka_unit_test_setup_teardown(mail_wakes_its_owner, open_box, close_box),
      cmocka_unit_test_setup_teardown(what_is_kept_is_not_freed, open_box, close_box),
      cmocka_unit_test_setup_teardown(a_newer_blob_takes_the_place_of_an_unread_one, open_box,
                                      close_box),
      cmocka_unit_test(a_descriptor_that_cannot_be_kept_leaves_nothing),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
