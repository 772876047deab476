/* SPDX-License-Identifier: Apache-2.0 */
/* Judges who can change a file before it is loaded: its owner and group, and those of each
 * folder and link on the way to it.
 *
 * Where nobody else can change any step of the way, the path names the same file until it is
 * loaded. dlopen() of /proc/self/fd/N would lose $ORIGIN and the name that debuggers need, and
 * glibc takes a second object of the same name for the first. */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reason.h"
#include "search.h"
#include "util/limit_remedy.h"

#define TRUST_LINKS_MAX 40 /* as the kernel has it, path_resolution(7) */

/* One folder, link or file on the way: its path without links. is_parent: a folder in which the
 * file, or the last link to it, lies. A result other than 0 ends the walk. */
typedef int (*trust_visit)(void *context, const char *at, const struct stat *st, bool is_parent);

struct trust_walk {
  int fd; /* the folder that was reached, O_PATH */
  char at[PATH_MAX];
  char rest[PATH_MAX]; /* what is still to be walked */
  unsigned links;
  trust_visit visit;
  void *context;
};

static int trust_walk_to(struct trust_walk *walk, int fd)
{
  if (fd < 0)
    return -errno;
  if (walk->fd >= 0)
    close(walk->fd);
  walk->fd = fd;
  return 0;
}

static int trust_walk_root(struct trust_walk *walk)
{
  strcpy(walk->at, "/");
  return trust_walk_to(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Takes the next name off `rest`. False: there is none. */
static bool trust_walk_next(struct trust_walk *walk, char name[NAME_MAX + 1], int *rc)
{
  const char *from = walk->rest + strspn(walk->rest, "/");
  size_t length = strcspn(from, "/");

  *rc = length > NAME_MAX ? -ENAMETOOLONG : 0;
  if (length == 0 || *rc < 0)
    return false;
  memcpy(name, from, length);
  name[length] = '\0';
  memmove(walk->rest, from + length, strlen(from + length) + 1);
  return true;
}

static int trust_walk_link(struct trust_walk *walk, int fd)
{
  char target[PATH_MAX];
  ssize_t n = readlinkat(fd, "", target, sizeof(target));
  size_t rest = strlen(walk->rest);

  if (n < 0)
    return -errno;
  if (++walk->links > TRUST_LINKS_MAX)
    return -ELOOP;
  if ((size_t)n + 1 + rest >= sizeof(walk->rest))
    return -ENAMETOOLONG;
  memmove(walk->rest + n + 1, walk->rest, rest + 1);
  memcpy(walk->rest, target, (size_t)n);
  walk->rest[n] = '/';
  return target[0] == '/' ? trust_walk_root(walk) : 0;
}

static int trust_walk_up(struct trust_walk *walk)
{
  char *slash = strrchr(walk->at, '/');

  slash[slash == walk->at ? 1 : 0] = '\0';
  return trust_walk_to(walk, openat(walk->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Takes one name. *is_end: it is no folder. */
static int trust_walk_step(struct trust_walk *walk, const char *name, bool *is_end)
{
  bool is_last = walk->rest[strspn(walk->rest, "/")] == '\0';
  char at[PATH_MAX + NAME_MAX + 2];
  struct stat st;
  int fd, rc;

  /* The folder that was reached, before anything in it is looked at. */
  rc = fstat(walk->fd, &st) < 0 ? -errno : walk->visit(walk->context, walk->at, &st, is_last);
  if (rc != 0 || strcmp(name, ".") == 0)
    return rc;
  if (strcmp(name, "..") == 0)
    return trust_walk_up(walk);
  snprintf(at, sizeof(at), "%s/%s", walk->at[1] ? walk->at : "", name);
  if (strlen(at) >= sizeof(walk->at))
    return -ENAMETOOLONG;
  fd = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  rc = fstat(fd, &st) < 0 ? -errno : 0;
  if (rc == 0 && !S_ISDIR(st.st_mode))
    rc = walk->visit(walk->context, at, &st, false);
  if (rc == 0 && S_ISLNK(st.st_mode)) {
    rc = trust_walk_link(walk, fd);
  } else if (rc == 0) {
    *is_end = !S_ISDIR(st.st_mode);
    strcpy(walk->at, at);
    return trust_walk_to(walk, fd);
  }
  close(fd);
  return rc;
}

/* Visits each step on the way to an existing file, from the root; real gets its path without
 * links. 0, -errno of a step that leads nowhere, or what visit returned. */
static int trust_walk(const char *path, char real[PATH_MAX], trust_visit visit, void *context)
{
  struct trust_walk walk = {.fd = -1, .visit = visit, .context = context};
  char name[NAME_MAX + 1], here[PATH_MAX] = "";
  bool is_end = false;
  int rc = 0;

  if (*path != '/' && !getcwd(here, sizeof(here)))
    return -errno;
  if (snprintf(walk.rest, sizeof(walk.rest), "%s/%s", here, path) >= (int)sizeof(walk.rest))
    return -ENAMETOOLONG;
  rc = trust_walk_root(&walk);
  while (rc == 0 && !is_end && trust_walk_next(&walk, name, &rc))
    rc = trust_walk_step(&walk, name, &is_end);
  if (rc == 0 && is_end && walk.rest[0])
    rc = -ENOTDIR;
  if (rc == 0 && !is_end)
    rc = -EISDIR;
  if (rc == 0)
    strcpy(real, walk.at);
  if (walk.fd >= 0)
    close(walk.fd);
  return rc;
}

/* Users that could replace this library (or the program it is linked into) can run code in it
 * already. So a build tree works in a shared folder, and for a user that did not build it.
 * In a user namespace these users include the number that stands for root. */
static struct trust_own {
  uid_t users[16];
  gid_t groups[16];
  size_t user_count, group_count;
  bool everybody;
} own;

static bool trust_user(uid_t user)
{
  for (size_t i = 0; i < own.user_count; i++)
    if (own.users[i] == user)
      return true;
  return user == 0 || user == geteuid();
}

static bool trust_group(gid_t group)
{
  for (size_t i = 0; i < own.group_count; i++)
    if (own.groups[i] == group)
      return true;
  return group == 0;
}

/* In such a folder only the owner of an entry, or of the folder, can rename or remove the entry. */
static bool trust_is_sticky(const struct stat *st)
{
  return S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
}

static int trust_own_visit(void *context, const char *at, const struct stat *st, bool is_parent)
{
  (void)context;
  (void)at;
  (void)is_parent;
  if (!trust_user(st->st_uid) && own.user_count < sizeof(own.users) / sizeof(own.users[0]))
    own.users[own.user_count++] = st->st_uid;
  if (S_ISLNK(st->st_mode) || trust_is_sticky(st))
    return 0;
  if ((st->st_mode & S_IWGRP) && !trust_group(st->st_gid) &&
      own.group_count < sizeof(own.groups) / sizeof(own.groups[0]))
    own.groups[own.group_count++] = st->st_gid;
  if (st->st_mode & S_IWOTH)
    own.everybody = true;
  return 0;
}

static void trust_own_collect(void)
{
  char path[PATH_MAX], real[PATH_MAX];

  if (search_own_file(path))
    trust_walk(path, real, trust_own_visit, NULL);
}

/* A user's private group, as useradd(8) makes it: umask 002 is usual with those. */
static bool trust_is_private(uid_t user, gid_t group)
{
  char user_text[2048], group_text[4096];
  struct passwd user_entry, *named = NULL;
  struct group group_entry, *found = NULL;

  getpwuid_r(user, &user_entry, user_text, sizeof(user_text), &named);
  if (getgrgid_r(group, &group_entry, group_text, sizeof(group_text), &found) != 0)
    return false;
  if (!found)
    return (uint64_t)group == user;
  for (char **member = found->gr_mem; *member; member++)
    if (!named || strcmp(*member, named->pw_name) != 0)
      return false;
  return named ? strcmp(found->gr_name, named->pw_name) == 0 : (uint64_t)group == user;
}

struct trust_judge {
  struct loader_reason *why;
  bool is_refused;
};

static int trust_judge_owner(struct loader_reason *why, const char *at, const struct stat *st)
{
  const char *what = S_ISLNK(st->st_mode) ? "the link " : "its folder ";

  if (S_ISREG(st->st_mode))
    return loader_reject(why, -EPERM,
                         "belongs to user %u, who could put code into it; copy it, or chown %u %s",
                         st->st_uid, geteuid(), at);
  return loader_reject(
      why, -EPERM,
      "%s%s belongs to user %u, who could put code there; copy the file, or chown -h %u %s", what,
      at, st->st_uid, geteuid(), at);
}

static int trust_judge_mode(struct loader_reason *why, const char *at, const struct stat *st,
                            bool by_all)
{
  char who[64] = "world-writable, so anybody";

  if (!by_all)
    snprintf(who, sizeof(who), "writable by group %u, whose members", st->st_gid);
  if (S_ISREG(st->st_mode))
    return loader_reject(why, -EPERM, "%s could put code into it; chmod %s %s", who,
                         by_all ? "o-w" : "g-w", at);
  return loader_reject(why, -EPERM, "its folder %s is %s could put code there; chmod %s %s", at,
                       who, by_all ? "o-w" : "g-w", at);
}

static int trust_judge_visit(void *context, const char *at, const struct stat *st, bool is_parent)
{
  struct trust_judge *judge = context;
  bool is_ancestor = S_ISDIR(st->st_mode) && !is_parent, by_all;

  judge->is_refused = true;
  if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode))
    return loader_reject(judge->why, -ENOEXEC, "not a file; remove it or rename it");
  if (!trust_user(st->st_uid))
    return trust_judge_owner(judge->why, at, st);
  judge->is_refused = false;
  if (S_ISLNK(st->st_mode) || (is_ancestor && trust_is_sticky(st)))
    return 0;
  by_all = (st->st_mode & S_IWOTH) && !(is_ancestor && own.everybody);
  if (!by_all && (!(st->st_mode & S_IWGRP) || trust_group(st->st_gid) ||
                  trust_is_private(st->st_uid, st->st_gid)))
    return 0;
  judge->is_refused = true;
  return trust_judge_mode(judge->why, at, st, by_all);
}

int trust_file(const char *path, char real[PATH_MAX], struct loader_reason *why)
{
  static pthread_once_t collected = PTHREAD_ONCE_INIT;
  struct trust_judge judge = {.why = why};
  int rc;

  why->path = path;
  pthread_once(&collected, trust_own_collect);
  rc = trust_walk(path, real, trust_judge_visit, &judge);
  if (rc == 0 || judge.is_refused)
    return rc;
  if (rc == -EISDIR)
    return loader_reject(why, -ENOEXEC, "not a file; remove it or rename it");
  return loader_reject(why, rc, "%s: %s%s",
                       rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP ? "leads nowhere"
                                                                       : "cannot be opened",
                       strerror(-rc), limit_remedy(rc));
}
