/* SPDX-License-Identifier: Apache-2.0 */
/* Where fabrics are, who is at them, and when they go. All of it happens under a lock on the
 * folder; a launcher holds a shared lock on its fabric's file for as long as it is there. (These
 * are flock's: they do not meet the byte locks by which processes show that they live.) */
#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ENDING ".fabric"

enum { FOLDERS = 3, ROOM_MIN = 64 << 20 };

/* The folders that are looked through, the one for new fabrics first. */
static const char *site_base_folder(unsigned i)
{
  const char *const bases[FOLDERS] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
  return bases[i] && *bases[i] ? bases[i] : "/tmp";
}

static void site_folder_path(unsigned i, char path[PATH_MAX])
{
  snprintf(path, PATH_MAX, "%s/simverbs-%u", site_base_folder(i), (unsigned)getuid());
}

/* True if the folder is this user's and nobody else can write to it. */
static bool site_is_safe(const char *path)
{
  struct stat st;
  return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == getuid() &&
         !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static bool site_has_room(const char *path)
{
  struct statvfs fs;
  return !statvfs(path, &fs) && (uint64_t)fs.f_bavail * fs.f_frsize >= ROOM_MIN;
}

/* A locked descriptor of the folder, or -1. */
static int site_lock_folder(unsigned i, bool make, char path[PATH_MAX])
{
  site_folder_path(i, path);
  if (make && (!site_has_room(site_base_folder(i)) || (mkdir(path, 0700) && errno != EEXIST)))
    return -1;
  if (!site_is_safe(path))
    return -1;
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0 && flock(folder, LOCK_EX)) {
    close(folder);
    return -1;
  }
  return folder;
}

static bool site_file_path(const char *folder, const char *name, char path[PATH_MAX])
{
  return snprintf(path, PATH_MAX, "%s/%s" ENDING, folder, name) < PATH_MAX;
}

/* ---- who is there ---- */

static bool site_is_anybody_alive(void)
{
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    if (atomic_load(&fab->process[i].state) == FAB_SLOT_USED && !fab_is_dead(i))
      return true;
  }
  return false;
}

/* No launcher is at it and no process: what one that was killed has left. The folder is locked. */
static bool site_is_left_over(const char *path, int file)
{
  if (flock(file, LOCK_EX | LOCK_NB))
    return false;
  if (fab_open(path))
    return true;
  bool alive = site_is_anybody_alive();
  fab_detach();
  return !alive;
}

static void site_sweep(const char *folder)
{
  DIR *entries = opendir(folder);
  struct dirent *entry;
  while (entries && (entry = readdir(entries))) {
    char path[PATH_MAX];
    const char *dot = strrchr(entry->d_name, '.');
    if (!dot || strcmp(dot, ENDING) ||
        snprintf(path, PATH_MAX, "%s/%s", folder, entry->d_name) >= PATH_MAX)
      continue;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
      continue;
    if (site_is_left_over(path, file))
      unlink(path);
    close(file);
  }
  if (entries)
    closedir(entries);
}

/* ---- making, joining ---- */

/* 1: joined; 0: there is none; negative: an error, which was printed. */
static int site_join(const char *path, struct site *site)
{
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return 0;
  if (site_is_left_over(path, file)) {
    unlink(path);
    close(file);
    return 0;
  }
  int error = flock(file, LOCK_SH) ? errno : fab_open(path);
  if (error) {
    complain("%s cannot be joined: %s", path,
             error == EPROTO ? "it is of another version; end the programs on it"
                             : strerror(error));
    close(file);
    return -1;
  }
  site->lock = file;
  site->made = false;
  memcpy(site->path, path, PATH_MAX);
  return 1;
}

static int site_make(const char *path, struct describe_options *options, struct site *site)
{
  int error = fab_create(path, describe_fabric, options);
  if (error) {
    if (error != EINVAL)
      complain("%s cannot be made: %s", path, strerror(error));
    return -1;
  }
  site->lock = open(path, O_RDWR | O_CLOEXEC);
  if (site->lock < 0 || flock(site->lock, LOCK_SH)) {
    complain("%s cannot be locked: %s", path, strerror(errno));
    unlink(path);
    return -1;
  }
  site->made = true;
  memcpy(site->path, path, PATH_MAX);
  return 0;
}

/* Refuses options that a fabric which exists already cannot be given any more. */
static int site_check_joined(const struct describe_options *options)
{
  if (options->path && options->hash != fab->description) {
    complain("there is a fabric \"%s\" from another description than %s as it is now; end the "
             "programs on it, or give this one another \"name\"",
             fab->name, options->path);
    return -1;
  }
  if (options->strict >= 0 || options->engine >= 0 || options->clock) {
    complain("the fabric \"%s\" is there already: --strict, --engine and --clock are for the "
             "launcher that makes it",
             fab->name);
    return -1;
  }
  return 0;
}

static int site_enter_by_name(struct describe_options *options, struct site *site)
{
  char folder[PATH_MAX], path[PATH_MAX];
  for (unsigned i = 0; i < FOLDERS; i++) {
    int lock = site_lock_folder(i, false, folder);
    if (lock < 0)
      continue;
    int rc = site_file_path(folder, options->name, path) ? site_join(path, site) : 0;
    close(lock);
    if (rc)
      return rc < 0 ? rc : site_check_joined(options);
  }
  return 1;
}

static int site_enter_path(const char *path, struct site *site,
                           const struct describe_options *options)
{
  char copy[PATH_MAX];
  snprintf(copy, sizeof(copy), "%s", path);
  int rc = site_join(copy, site);
  if (!rc)
    complain("there is no fabric %s any more: its launcher has ended", path);
  return rc > 0 ? site_check_joined(options) : -1;
}

static bool site_is_description(const char *fabric)
{
  const char *dot = strrchr(fabric, '.');
  return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
}

/* Sets options' name, path and hash. */
static int site_identify(const char *fabric, struct describe_options *options)
{
  if (!fabric) {
    snprintf(options->name, FAB_NAME, "%d", (int)getpid());
    return 0;
  }
  if (site_is_description(fabric)) {
    options->path = fabric;
    return describe_identify(fabric, options->name, &options->hash);
  }
  if (!*fabric || strlen(fabric) >= FAB_NAME || strchr(fabric, '/')) {
    complain("\"%s\" is neither a fabric's name (up to %d letters) nor a description (FILE.yaml)",
             fabric, FAB_NAME - 1);
    return EINVAL;
  }
  strcpy(options->name, fabric);
  return 0;
}

/* Joined, if another launcher has made it since it was looked for; else made. The folder is
 * locked. */
static int site_make_or_join(const char *path, bool is_named, struct describe_options *options,
                             struct site *site)
{
  int rc = is_named ? site_join(path, site) : 0;
  if (rc)
    return rc < 0 ? rc : site_check_joined(options);
  return site_make(path, options, site);
}

int site_enter(const char *fabric, struct describe_options *options, struct site *site)
{
  const char *outer = getenv("PENSTOCK_SIMVERBS_FABRIC");
  *site = (struct site){.lock = -1};
  if (!fabric && outer && *outer && !options->own)
    return site_enter_path(outer, site, options);
  if (site_identify(fabric, options))
    return -1;
  if (options->own)
    snprintf(options->name, FAB_NAME, "%d", (int)getpid());
  bool is_named = fabric && !options->own;
  int rc = is_named ? site_enter_by_name(options, site) : 1;
  char folder[PATH_MAX], path[PATH_MAX];
  for (unsigned i = 0; rc == 1 && i < FOLDERS; i++) {
    int lock = site_lock_folder(i, true, folder);
    if (lock < 0)
      continue;
    site_sweep(folder);
    rc = site_file_path(folder, options->name, path)
             ? site_make_or_join(path, is_named, options, site)
             : -1;
    close(lock);
  }
  if (rc == 1)
    complain("there is no room for a fabric's file: free %d MiB in /dev/shm, or have TMPDIR name "
             "a folder with as much",
             ROOM_MIN >> 20);
  return rc ? -1 : 0;
}

void site_leave(struct site *site)
{
  if (site->lock < 0)
    return;
  char folder[PATH_MAX];
  memcpy(folder, site->path, sizeof(folder));
  char *slash = strrchr(folder, '/');
  if (slash)
    *slash = '\0';
  int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0 && !flock(lock, LOCK_EX) && !flock(site->lock, LOCK_EX | LOCK_NB))
    unlink(site->path);
  close(site->lock);
  site->lock = -1;
  if (lock >= 0)
    close(lock);
}

static int site_open_file(const char *path)
{
  int error = fab_open(path);
  if (error)
    complain("%s is not a fabric of this version: %s", path, strerror(error));
  return error ? -1 : 0;
}

int site_open(const char *fabric)
{
  struct describe_options options = {.path = NULL};
  char folder[PATH_MAX], path[PATH_MAX];
  const char *outer = getenv("PENSTOCK_SIMVERBS_FABRIC");
  if (!strcmp(fabric, ".")) {
    if (outer && *outer)
      return site_open_file(outer);
    complain("\".\" is the fabric of the launcher around, and there is none; name one");
    return -1;
  }
  if (strchr(fabric, '/') && !site_is_description(fabric))
    return site_open_file(fabric);
  if (site_identify(fabric, &options))
    return -1;
  for (unsigned i = 0; i < FOLDERS; i++) {
    site_folder_path(i, folder);
    if (site_is_safe(folder) && site_file_path(folder, options.name, path) && !access(path, F_OK))
      return site_open_file(path);
  }
  complain("there is no fabric \"%s\"; \"penstock-simverbs --fabric %s COMMAND\" makes it",
           options.name, fabric);
  return -1;
}
