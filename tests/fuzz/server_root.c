/* SPDX-License-Identifier: Apache-2.0 */
/* The server's root, in memory where there is some for files, and what lies beside it. */
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_world.h"

static char folder[64];

const char *world_root(void)
{
  return folder;
}

static int at_root(void)
{
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  REQUIRE(fd >= 0);
  return fd;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
  (void)stat, (void)type;
  return where->level > 0 ? remove(path) : 0;
}

static void put_file(int root, const char *name, off_t size, off_t data)
{
  char bytes[WORLD_FILE_BYTES];
  int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

  memset(bytes, 'x', sizeof(bytes));
  REQUIRE(fd >= 0 && ftruncate(fd, size) == 0);
  REQUIRE(pwrite(fd, bytes, sizeof(bytes), data) == sizeof(bytes));
  close(fd);
}

/* Makes the folder's first contents once more, and nothing else. */
void world_root_make(void)
{
  REQUIRE(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
  int root = at_root();

  REQUIRE(mkdirat(root, "folder", 0755) == 0);
  put_file(root, "file", WORLD_FILE_BYTES, 0);
  put_file(root, "sparse", WORLD_SPARSE_BYTES, WORLD_SPARSE_BYTES / 2);
  put_file(root, "folder/inner", WORLD_FILE_BYTES, 0);
  REQUIRE(symlinkat("file", root, "link-in") == 0);
  REQUIRE(symlinkat("../secret", root, "link-out") == 0);
  REQUIRE(mkfifoat(root, "fifo", 0600) == 0);
  close(root);
}

/* Nobody has written to what a link in the root leads to. */
void world_root_require_outside(void)
{
  static struct stat before;
  struct stat now;
  int root = at_root();

  REQUIRE(fstatat(root, "../secret", &now, 0) == 0);
  close(root);
  if (before.st_ino == 0)
    before = now;
  REQUIRE(now.st_ino == before.st_ino && now.st_size == before.st_size &&
          now.st_nlink == before.st_nlink && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
          now.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
}

static void remove_at_exit(void)
{
  char *slash = strrchr(folder, '/');

  *slash = '\0'; /* the root's parent */
  if (nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0)
    rmdir(folder);
}

void world_root_open(void)
{
  const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

  snprintf(folder, sizeof(folder), "%s/penstock-fuzz-XXXXXX", base);
  REQUIRE(mkdtemp(folder) != NULL);
  strcat(folder, "/root");
  REQUIRE(mkdir(folder, 0755) == 0);
  int root = at_root();
  put_file(root, "../secret", WORLD_FILE_BYTES, 0);
  close(root);
  atexit(remove_at_exit);
}

void world_root_truncate(const char *name, uint64_t size)
{
  int root = at_root(), fd = openat(root, name, O_WRONLY | O_CLOEXEC);

  if (fd >= 0) {
    (void)!ftruncate(fd, size < WORLD_SPARSE_BYTES ? (off_t)size : WORLD_SPARSE_BYTES);
    close(fd);
  }
  close(root);
}

void world_root_remove(const char *name)
{
  int root = at_root();

  unlinkat(root, name, 0);
  close(root);
}
