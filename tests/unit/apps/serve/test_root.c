/* SPDX-License-Identifier: Apache-2.0 */
/* Names, the folder that nothing leads out of, files on their way, holes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/partial_file.h"
#include "serve/root.h"
#include "serve/wire.h"
#include "support.h"

static int root;

static int setup(void **state)
{
  (void)state;
  assert_int_equal(
      system("rm -rf root outside && mkdir root root/sub outside && "
             "echo secret >outside/file && echo inside >root/file && "
             "ln -s ../outside/file root/leads-out && ln -s ../outside root/folder-out && "
             "ln -s /etc/passwd root/absolute && ln -s file root/link && "
             "ln -s loop root/loop && mkfifo root/fifo && echo x >root/sub/x"),
      0);
  root = serve_root_open("root");
  assert_true(root >= 0);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  close(root);
  return 0;
}

/* ---- Names --------------------------------------------------------------------------- */

static int check(const char *bytes, size_t length)
{
  char name[SERVE_NAME_MAX + 1];
  const char *why = NULL;
  int rc = serve_path_check((const uint8_t *)bytes, length, name, &why);

  if (rc == 0)
    assert_memory_equal(name, bytes, length);
  else
    assert_non_null(why);
  return rc;
}
#define CHECK(name) check(name, sizeof(name) - 1)

static void test_names(void **state)
{
  char name[2048];

  (void)state;
  assert_int_equal(CHECK("a"), 0);
  assert_int_equal(CHECK("a/b.c/..d/..."), 0);
  assert_int_equal(CHECK(".hidden"), 0);
  assert_int_equal(CHECK("\xc3\xa4 b"), 0);
  assert_int_equal(CHECK("x.penstock-part"), 0);
  assert_int_equal(CHECK(""), -EINVAL);
  assert_int_equal(CHECK("/a"), -EINVAL);
  assert_int_equal(CHECK("a/"), -EINVAL);
  assert_int_equal(CHECK("a//b"), -EINVAL);
  assert_int_equal(CHECK("."), -EINVAL);
  assert_int_equal(CHECK(".."), -EINVAL);
  assert_int_equal(CHECK("../x"), -EINVAL);
  assert_int_equal(CHECK("a/../b"), -EINVAL);
  assert_int_equal(CHECK("a/.."), -EINVAL);
  assert_int_equal(CHECK("a/./b"), -EINVAL);
  assert_int_equal(CHECK("a\0b"), -EINVAL);
  assert_int_equal(CHECK("a\nb"), -EINVAL);
  assert_int_equal(CHECK("a\x7f"), -EINVAL);
  assert_int_equal(CHECK("a\xc2\x9b"), -EINVAL);
  assert_int_equal(CHECK("a\xc2\xa0\xc2"), 0);
  assert_int_equal(CHECK("d/.x.penstock-part"), -EINVAL);
  memset(name, 'n', sizeof(name));
  assert_int_equal(check(name, NAMES_BYTES_MAX), 0);
  assert_int_equal(check(name, NAMES_BYTES_MAX + 1), -ENAMETOOLONG);
  for (size_t i = 200; i < sizeof(name); i += 200)
    name[i] = '/';
  assert_int_equal(check(name, SERVE_NAME_MAX), 0);
  assert_int_equal(check(name, SERVE_NAME_MAX + 1), -ENAMETOOLONG);
}

/* ---- The root --------------------------------------------------------------------------- */

static void test_nothing_leads_out(void **state)
{
  struct stat stat;
  int fd = serve_root_open_file(root, "file", &stat);

  (void)state;
  assert_true(fd >= 0);
  assert_int_equal(stat.st_size, 7);
  close(fd);
  fd = serve_root_open_file(root, "link", &stat);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(serve_root_open_file(root, "leads-out", &stat), -EXDEV);
  assert_int_equal(serve_root_open_file(root, "absolute", &stat), -EXDEV);
  assert_int_equal(serve_root_open_file(root, "folder-out/file", &stat), -EXDEV);
  assert_int_equal(serve_root_open_file(root, "../outside/file", &stat), -EXDEV);
  assert_int_equal(serve_root_open_file(root, "sub/../../outside/file", &stat), -EXDEV);
  assert_int_equal(serve_root_open_file(root, "/etc/passwd", &stat), -EXDEV);
  assert_int_equal(serve_root_open_file(root, "loop", &stat), -ELOOP);
  assert_int_equal(serve_root_open_file(root, "none", &stat), -ENOENT);
  assert_int_equal(serve_root_open_file(root, "sub", &stat), -EISDIR);
  assert_int_equal(serve_root_open_file(root, "file/x", &stat), -ENOTDIR);
  /* Would block, were it opened. */
  assert_int_equal(serve_root_open_file(root, "fifo", &stat), -ENOTSUP);
  assert_int_equal(serve_root_open_folder(root, "folder-out"), -EXDEV);
  assert_int_equal(serve_root_open_folder(root, "file"), -ENOTDIR);
}

static void test_nothing_is_made_outside(void **state)
{
  struct partial_file part;

  (void)state;
  assert_int_equal(serve_root_make_folder(root, "folder-out/new", 0777), -EXDEV);
  assert_int_equal(serve_root_make_folder(root, "file", 0777), -EEXIST);
  assert_int_equal(serve_root_make_folder(root, "folder-out", 0777), -ELOOP);
  assert_int_equal(serve_root_make_folder(root, "sub", 0777), 0);
  assert_int_equal(serve_root_make_folder(root, "sub/new", 0777), 0);
  assert_int_equal(serve_part_open(root, "folder-out/new", 1, 0600, true, false, &part), -EXDEV);
  assert_int_equal(serve_part_open(root, "none/new", 1, 0600, true, false, &part), -ENOENT);
  assert_int_equal(serve_part_open(root, "sub", 1, 0600, true, false, &part), -EISDIR);
  assert_int_equal(access("outside/new", F_OK), -1);
  /* A link, hard link or FIFO that is planted in the part's place is not written through. */
  assert_int_equal(symlink("../outside/file", "root/.a" NAMES_PART_SUFFIX), 0);
  assert_int_equal(serve_part_open(root, "a", 1, 0600, false, false, &part), -ENOTSUP);
  assert_int_equal(link("outside/file", "root/.b" NAMES_PART_SUFFIX), 0);
  assert_int_equal(serve_part_open(root, "b", 1, 0600, false, false, &part), -ENOTSUP);
  assert_int_equal(mkfifo("root/.c" NAMES_PART_SUFFIX, 0600), 0);
  assert_int_equal(serve_part_open(root, "c", 1, 0600, false, false, &part), -ENOTSUP);
  assert_int_equal(mkdir("root/.d" NAMES_PART_SUFFIX, 0700), 0);
  assert_int_equal(serve_part_open(root, "d", 1, 0600, false, false, &part), -ENOTSUP);
}

/* A folder that nothing can be made in is no part of another user's. */
static void test_a_closed_folder_is_reported(void **state)
{
  struct partial_file part;

  (void)state;
  if (geteuid() == 0) /* to whom it is open */
    return;
  assert_int_equal(mkdir("root/closed", 0755), 0);
  write_file("root/closed/.b" NAMES_PART_SUFFIX, "x", 1);
  assert_int_equal(chmod("root/closed/.b" NAMES_PART_SUFFIX, 0), 0);
  assert_int_equal(chmod("root/closed", 0555), 0);
  assert_int_equal(serve_part_open(root, "closed/a", 1, 0600, false, false, &part), -EACCES);
  assert_int_equal(serve_part_open(root, "closed/b", 1, 0600, false, false, &part), -EPERM);
  assert_int_equal(chmod("root/closed", 0755), 0);
}

/* Another user's part would let that user read what is written, and own the result. */
static void test_a_part_is_this_users_alone(void **state)
{
  const char *name = "root/.mine" NAMES_PART_SUFFIX;
  struct partial_file part;
  struct stat stat;

  (void)state;
  write_file(name, "older", 5);
  if (geteuid() == 0) { /* root alone can give files away */
    assert_int_equal(chown(name, 65534, 65534), 0);
    assert_int_equal(serve_part_open(root, "mine", 1, 0600, false, false, &part), -EPERM);
    assert_int_equal(serve_part_open(root, "mine", 1, 0600, false, true, &part), -EPERM);
    assert_int_equal(chown(name, geteuid(), getegid()), 0);
  }
  /* One that others may have open is replaced, also where it would be resumed. */
  assert_int_equal(chmod(name, 0666), 0);
  assert_int_equal(serve_part_open(root, "mine", 9, 0600, false, true, &part), 0);
  assert_int_equal(part.there, 0);
  assert_int_equal(fstat(part.fd, &stat), 0);
  assert_int_equal(stat.st_mode & 0777, 0600);
  assert_int_equal(write(part.fd, "1234", 4), 4);
  serve_part_close(&part, false);
  assert_int_equal(serve_part_open(root, "mine", 9, 0600, false, true, &part), 0);
  assert_int_equal(part.there, 4);
  serve_part_close(&part, true);
}

/* put: what a walk has seen, and nothing that took its place since. */
static void test_only_what_was_seen_is_opened(void **state)
{
  struct stat seen;

  (void)state;
  assert_int_equal(mkdir("root/sub", 0777) == 0 || errno == EEXIST, 1);
  write_file("root/sub/file", "seen", 4);
  assert_int_equal(lstat("root/sub/file", &seen), 0);
  int fd = serve_root_open_seen(root, "sub/file", &seen, O_RDONLY);
  assert_true(fd >= 0);
  close(fd);
  /* A link to the very file is a link all the same; so is one in a folder's place. */
  assert_int_equal(rename("root/sub/file", "root/sub/kept"), 0);
  assert_int_equal(symlink("kept", "root/sub/file"), 0);
  assert_int_equal(serve_root_open_seen(root, "sub/file", &seen, O_RDONLY), -ESTALE);
  assert_int_equal(unlink("root/sub/file"), 0);
  assert_int_equal(rename("root/sub", "root/moved"), 0);
  assert_int_equal(symlink("moved", "root/sub"), 0);
  assert_int_equal(serve_root_open_seen(root, "sub/kept", &seen, O_RDONLY), -ESTALE);
  assert_int_equal(unlink("root/sub"), 0);
  assert_int_equal(rename("root/moved", "root/sub"), 0);
  /* Another file, and what would block if it were opened. */
  write_file("root/sub/file", "other", 5);
  assert_int_equal(serve_root_open_seen(root, "sub/file", &seen, O_RDONLY), -ESTALE);
  assert_int_equal(unlink("root/sub/file"), 0);
  assert_int_equal(mkfifo("root/sub/file", 0600), 0);
  assert_int_equal(serve_root_open_seen(root, "sub/file", &seen, O_RDONLY), -ESTALE);
  assert_int_equal(serve_root_open_seen(root, "sub/none", &seen, O_RDONLY), -ENOENT);
}

/* Counts entries that no client can ask for; their names may be shown. */
static uint32_t count_unnamed(const struct serve_entry *entries, uint32_t count)
{
  uint32_t unnamed = 0;

  for (uint32_t i = 0; i < count; i++) {
    if (entries[i].kind != SERVE_KIND_UNNAMED)
      continue;
    assert_int_equal(entries[i].length, 3);
    assert_memory_equal(entries[i].name, "a?b", 3);
    unnamed++;
  }
  return unnamed;
}

static void test_folders_are_listed_in_parts(void **state)
{
  struct serve_entry entries[SERVE_ENTRIES_MAX];
  uint8_t names[64];
  uint32_t seen = 0, files = 0, folders = 0, unnamed = 0, calls = 0;
  uint64_t cursor = 0;

  (void)state;
  for (int i = 0; i < 300; i++) {
    char path[64];
    snprintf(path, sizeof(path), "root/sub/f%d", i);
    write_file(path, "", 0);
  }
  write_file("root/sub/.y" NAMES_PART_SUFFIX, "", 0);
  write_file("root/sub/a\nb", "", 0);
  assert_int_equal(mkdir("root/sub/d", 0777), 0);
  assert_int_equal(symlink("x", "root/sub/l"), 0);
  int folder = serve_root_open_folder(root, "sub");
  do {
    int n = serve_root_list(folder, &cursor, entries, names, sizeof(names));
    assert_true(n > 0 || cursor == 0);
    unnamed += n > 0 ? count_unnamed(entries, (uint32_t)n) : 0;
    for (int i = 0; i < n; i++) {
      seen++;
      files += entries[i].kind == SERVE_KIND_FILE;
      folders += entries[i].kind == SERVE_KIND_FOLDER;
      assert_true(entries[i].length > 0 && entries[i].name[0] != '.');
    }
    calls++;
  } while (cursor != 0 && calls < 1000);
  close(folder);
  assert_int_equal(seen, 304);
  assert_int_equal(unnamed, 1);
  assert_int_equal(files, 301);
  assert_int_equal(folders, 1);
  assert_true(calls > 10);
}

/* ---- Parts -------------------------------------------------------------------------------- */

static void finish(struct partial_file *part)
{
  assert_int_equal(serve_part_prepare(part), 0);
  assert_int_equal(serve_part_rename(part), 0);
  serve_part_close(part, false);
}

static void test_a_part_becomes_the_file(void **state)
{
  struct partial_file part, other;
  struct stat stat;

  (void)state;
  assert_int_equal(serve_part_open(root, "sub/new", 10, 0755, false, false, &part), 0);
  assert_int_equal(part.there, 0);
  assert_int_equal(pwrite(part.fd, "abc", 3, 0), 3);
  assert_int_equal(access("root/sub/new", F_OK), -1);
  /* Nobody else writes it meanwhile. */
  assert_int_equal(serve_part_open(root, "sub/new", 10, 0755, false, true, &other), -EBUSY);
  finish(&part);
  assert_int_equal(lstat("root/sub/new", &stat), 0);
  assert_int_equal(stat.st_size, 10);
  mode_t mask = umask(0);
  umask(mask);
  assert_int_equal(stat.st_mode & 07777, 0755 & ~mask);
  assert_int_equal(access("root/sub/.new" NAMES_PART_SUFFIX, F_OK), -1);
  assert_int_equal(serve_part_open(root, "sub/new", 1, 0644, false, false, &part), -EEXIST);
  assert_int_equal(serve_part_open(root, "sub/new", 1, 0644, true, false, &part), 0);
  finish(&part);
  assert_int_equal(lstat("root/sub/new", &stat), 0);
  assert_int_equal(stat.st_size, 1);
}

static void test_a_file_that_came_meanwhile_stays(void **state)
{
  struct partial_file part;

  (void)state;
  assert_int_equal(serve_part_open(root, "late", 1, 0644, false, false, &part), 0);
  write_file("root/late", "theirs", 6);
  assert_int_equal(serve_part_prepare(&part), 0);
  assert_int_equal(serve_part_rename(&part), -EEXIST);
  serve_part_close(&part, true);
  assert_int_equal(access("root/.late" NAMES_PART_SUFFIX, F_OK), -1);
}

static void test_what_was_left_is_gone_on_with(void **state)
{
  struct partial_file part;

  (void)state;
  assert_int_equal(serve_part_open(root, "r", 10, 0644, false, false, &part), 0);
  assert_int_equal(pwrite(part.fd, "abcd", 4, 0), 4);
  serve_part_close(&part, false);
  assert_int_equal(serve_part_open(root, "r", 10, 0644, false, true, &part), 0);
  assert_int_equal(part.there, 4);
  serve_part_close(&part, false);
  assert_int_equal(serve_part_open(root, "r", 10, 0644, false, false, &part), 0);
  assert_int_equal(part.there, 0);
  serve_part_close(&part, true);
  assert_int_equal(access("root/.r" NAMES_PART_SUFFIX, F_OK), -1);
}

/* Writes "k", its number of bytes, and itself again and again, until it is killed. */
static void write_for_ever(void)
{
  static char block[65536];
  struct partial_file part;

  for (unsigned round = 0;; round++) {
    memset(block, 'a' + (int)(round % 26), sizeof(block));
    if (serve_part_open(root, "k", 4 * sizeof(block), 0644, true, false, &part) < 0)
      _exit(1);
    for (unsigned i = 0; i < 4; i++) {
      if (pwrite(part.fd, block, sizeof(block), (off_t)(i * sizeof(block))) < 0)
        _exit(2);
    }
    if (serve_part_prepare(&part) < 0 || serve_part_rename(&part) < 0)
      _exit(3);
    serve_part_close(&part, false);
  }
}

/* Whatever instant it dies at: under the final name is all of one version, or nothing. */
static void test_killed_at_any_point(void **state)
{
  unsigned found = 0, left = 0;

  (void)state;
  srand(1);
  /* Both fates are to be seen, however slow the disk is. */
  for (int i = 0; i < 100 || ((found == 0 || left == 0) && i < 2000); i++) {
    unlink("root/k");
    pid_t pid = fork();
    if (pid == 0)
      write_for_ever();
    usleep((useconds_t)(rand() % (3000 * (1 + i / 100))));
    kill(pid, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    left += access("root/.k" NAMES_PART_SUFFIX, F_OK) == 0;
    if (access("root/k", F_OK) < 0)
      continue;
    size_t length = 0;
    char *bytes = read_whole("root/k", &length);
    assert_int_equal(length, 4 * 65536);
    for (size_t b = 1; b < length; b++)
      assert_int_equal(bytes[b], bytes[0]);
    free(bytes);
    found++;
  }
  assert_true(found > 0);
  assert_true(left > 0);
}

/* ---- Holes ---------------------------------------------------------------------------------- */

static void test_holes_are_found(void **state)
{
  const uint64_t size = 4 << 20;
  struct root_data known = {0};
  bool hole = false;
  int fd = open("root/sparse", O_RDWR | O_CREAT | O_TRUNC, 0600);

  (void)state;
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)size), 0);
  assert_int_equal(pwrite(fd, "x", 1, 1 << 20), 1);
  assert_int_equal(pwrite(fd, "x", 1, (1 << 20) + (16 << 10)), 1); /* a small hole before it */
  if (lseek(fd, 0, SEEK_DATA) != 1 << 20) {
    close(fd);
    skip(); /* the file system keeps none */
  }
  assert_int_equal(serve_root_extent(fd, 0, 4096, size, &known, &hole), 1 << 20);
  assert_true(hole);
  int64_t data = serve_root_extent(fd, 1 << 20, 1 << 20, size, &known, &hole);
  assert_false(hole);
  assert_true(data > 16 << 10 && data <= 32 << 10);
  assert_int_equal(serve_root_extent(fd, 1 << 20, 100, size, &known, &hole), 100);
  assert_false(hole);
  /* Known from before, and cut where it ends. */
  assert_true(known.begin <= 1 << 20 && known.end > 1 << 20);
  assert_int_equal(serve_root_extent(fd, known.end - 10, 100, size, &known, &hole), 10);
  assert_false(hole);
  assert_int_equal(serve_root_extent(fd, 2 << 20, 1, size, &known, &hole), 2 << 20);
  assert_true(hole);
  assert_int_equal(ftruncate(fd, 1 << 20), 0);
  assert_int_equal(serve_root_extent(fd, 2 << 20, 1, size, &known, &hole), -ESTALE);
  close(fd);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test_setup_teardown(test_nothing_leads_out, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nothing_is_made_outside, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_closed_folder_is_reported, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_part_is_this_users_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_only_what_was_seen_is_opened, setup, teardown),
      cmocka_unit_test_setup_teardown(test_folders_are_listed_in_parts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_part_becomes_the_file, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_file_that_came_meanwhile_stays, setup, teardown),
      cmocka_unit_test_setup_teardown(test_what_was_left_is_gone_on_with, setup, teardown),
      cmocka_unit_test_setup_teardown(test_killed_at_any_point, setup, teardown),
      cmocka_unit_test_setup_teardown(test_holes_are_found, setup, teardown),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
