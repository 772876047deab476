/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are looked for. In order: folders of pst_plugin_path_add(),
 * PENSTOCK_PLUGIN_PATH, the build tree when this library lies in one, the
 * installed folder (beside this library, and as it was built for). */
#include "search.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin_names.h"
#include "reason.h"
#include "trust.h"
#include "util/log.h"
#include "util/text.h"

/* The program's, by `path` alone. */
static struct {
  pthread_mutex_t mutex;
  struct loader_folders folders;
} added = {.mutex = PTHREAD_MUTEX_INITIALIZER, .folders.end = &added.folders.first};

static int search_folder_push(struct loader_folders *folders, const char *path, const char *real,
                              int error)
{
  struct loader_folder *folder = arena_alloc(&folders->arena, sizeof(*folder));
  const char *kept = arena_string(&folders->arena, path);
  const char *kept_real = real ? arena_string(&folders->arena, real) : NULL;

  if (!folder || !kept || (real && !kept_real))
    return -ENOMEM;
  *folder = (struct loader_folder){.path = kept, .real = kept_real, .error = error};
  *folders->end = folder;
  folders->end = &folder->next;
  return 0;
}

int pst_plugin_path_add(const char *folder)
{
  int rc;

  if (!folder || !*folder)
    return -EINVAL;
  pthread_mutex_lock(&added.mutex);
  rc = search_folder_push(&added.folders, folder, NULL, 0);
  pthread_mutex_unlock(&added.mutex);
  return rc;
}

/* A folder named twice, or by two paths, is looked into once. */
static int search_folder_add(struct loader_folders *folders, const char *path)
{
  char real[PATH_MAX];
  bool is_there = realpath(path, real) != NULL;
  int error = errno;

  for (const struct loader_folder *folder = folders->first; folder; folder = folder->next)
    if (is_there ? folder->real && strcmp(folder->real, real) == 0
                 : strcmp(folder->path, path) == 0)
      return 0;
  return search_folder_push(folders, path, is_there ? real : NULL, error);
}

static int search_add_program(struct loader_folders *folders)
{
  int rc = 0;

  pthread_mutex_lock(&added.mutex);
  for (const struct loader_folder *at = added.folders.first; at && rc == 0; at = at->next)
    rc = search_folder_add(folders, at->path);
  pthread_mutex_unlock(&added.mutex);
  return rc;
}

static void search_say_ignored(void)
{
  pst_log(PST_LOG_WARN, "PENSTOCK_PLUGIN_PATH is ignored: this program runs with other privileges "
                        "than its caller's; install the plugins");
}

static int search_add_environment(struct loader_folders *folders)
{
  static pthread_once_t said = PTHREAD_ONCE_INIT;
  const char *value = getenv("PENSTOCK_PLUGIN_PATH");
  char *copy, *rest, *folder;
  int rc = 0;

  if (!value || !*value)
    return 0;
  if (getauxval(AT_SECURE)) {
    pthread_once(&said, search_say_ignored);
    return 0;
  }
  copy = rest = strdup(value);
  if (!copy)
    return -ENOMEM;
  while (rc == 0 && (folder = strsep(&rest, ":"))) {
    if (*folder)
      rc = search_folder_add(folders, folder);
  }
  free(copy);
  return rc;
}

bool search_own_file(char path[PATH_MAX])
{
  Dl_info info;

  if (dladdr((const void *)(uintptr_t)pst_plugin_path_add, &info) && info.dli_fname &&
      strchr(info.dli_fname, '/') && realpath(info.dli_fname, path))
    return true;
  return realpath("/proc/self/exe", path) != NULL;
}

static bool search_own_folder(char folder[PATH_MAX])
{
  char *slash;

  if (!search_own_file(folder) || !(slash = strrchr(folder, '/')))
    return false;
  *slash = '\0';
  return true;
}

/* The build leaves a file `plugins.path` beside the library: one folder a line,
 * relative to its own. An installed library has none. */
static int search_add_build_tree(struct loader_folders *folders)
{
  char here[PATH_MAX], path[PATH_MAX + 16], real_path[PATH_MAX], *line = NULL;
  struct loader_reason why;
  size_t size = 0;
  FILE *file;
  int rc = 0;

  if (!search_own_folder(here))
    return 0;
  snprintf(path, sizeof(path), "%s/plugins.path", here);
  file = fopen(path, "re");
  if (!file)
    return errno == ENOENT ? 0 : -errno;
  rc = trust_file(path, real_path, &why);
  if (rc == -EMFILE || rc == -ENFILE)
    goto out; /* what the folders hold is not known, and nothing may be said of it */
  if (rc < 0) {
    pst_log(PST_LOG_WARN, "ignored: %s", why.line);
    rc = 0;
    goto out;
  }
  while (rc == 0 && getline(&line, &size, file) > 0) {
    char *folder = line, joined[2 * PATH_MAX], real[PATH_MAX];

    line[strcspn(line, "\r\n")] = '\0';
    if (!*folder)
      continue;
    if (*folder != '/') {
      snprintf(joined, sizeof(joined), "%s/%s", here, folder);
      folder = joined;
    }
    rc = search_folder_add(folders, realpath(folder, real) ? real : folder);
  }
out:
  free(line);
  fclose(file);
  return rc;
}

/* Beside the library, where the build puts it, so that an installed tree that was
 * moved finds its own plugins before those of another; then where it was built for. */
static int search_add_installed(struct loader_folders *folders)
{
  char here[PATH_MAX], path[PATH_MAX + 16];
  int rc = 0;

  if (search_own_folder(here)) {
    snprintf(path, sizeof(path), "%s/penstock", here);
    if (access(path, X_OK) == 0)
      rc = search_folder_add(folders, path);
  }
  return rc < 0 ? rc : search_folder_add(folders, PST_PLUGIN_FOLDER);
}

int search_folders(struct loader_folders *folders)
{
  int rc;

  *folders = (struct loader_folders){.end = &folders->first};
  rc = search_add_program(folders);
  if (rc == 0)
    rc = search_add_environment(folders);
  if (rc == 0)
    rc = search_add_build_tree(folders);
  if (rc == 0)
    rc = search_add_installed(folders);
  return rc;
}

void search_folders_free(struct loader_folders *folders)
{
  arena_free(&folders->arena);
}

void search_folders_text(const struct loader_folders *folders, char *text, size_t size)
{
  text[0] = '\0';
  for (const struct loader_folder *folder = folders->first; folder; folder = folder->next) {
    text_add(text, size, "%s%s", text[0] ? ", " : "", folder->path);
    if (!folder->real)
      text_add(text, size, " (%s)", strerror(folder->error));
  }
}

char *search_file(const struct loader_folder *folder, uint32_t kind, const char *name,
                  bool is_description)
{
  struct stat st;
  char *path;

  if (!folder->real || asprintf(&path, "%s/%s-%s%s", folder->path, loader_kind_name(kind), name,
                                is_description ? ".desc.so" : ".so") < 0)
    return NULL;
  if (lstat(path, &st) == 0)
    return path;
  free(path);
  return NULL;
}

static int search_by_name(const struct dirent **a, const struct dirent **b)
{
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int search_visit_folder(const struct loader_folder *folder, search_visit visit,
                               void *context)
{
  struct dirent **entries;
  int n = scandir(folder->real, &entries, NULL, search_by_name);
  int rc = 0;

  for (int i = 0; i < n; i++) {
    char name[LOADER_NAME_BYTES], *path;
    bool is_description;
    uint32_t kind;

    if (rc == 0 && loader_file_parse(entries[i]->d_name, &kind, name, &is_description)) {
      if (asprintf(&path, "%s/%s", folder->path, entries[i]->d_name) < 0) {
        rc = -ENOMEM;
      } else {
        rc = visit(context, path, kind, name, is_description);
        free(path);
      }
    }
    free(entries[i]);
  }
  if (n >= 0)
    free(entries);
  return rc;
}

int search_each(const struct loader_folders *folders, search_visit visit, void *context)
{
  int rc = 0;

  for (const struct loader_folder *folder = folders->first; folder && rc == 0;
       folder = folder->next)
    if (folder->real)
      rc = search_visit_folder(folder, visit, context);
  return rc;
}
