/* SPDX-License-Identifier: Apache-2.0 */
/* Which files `put` sends, and what they are called at the server. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"
#include "errno_hint.h"
#include "log.h"
#include "root.h"
#include "wire.h"

/* Returns the named argument that an entry lies in. */
static const FTSENT *serve_put_names_start_of(const FTSENT *entry)
{
  while (entry->fts_level > FTS_ROOTLEVEL)
    entry = entry->fts_parent;
  return entry;
}

/* Returns the length of the part of an entry's path that its name at the server does not have: all
 * before the last part of the named argument; of "." and ".." that part too. */
static size_t serve_put_names_stripped(const FTSENT *entry)
{
  const FTSENT *start = serve_put_names_start_of(entry);
  bool dots = strcmp(start->fts_name, ".") == 0 || strcmp(start->fts_name, "..") == 0;

  return dots ? start->fts_pathlen + 1u : start->fts_pathlen - (size_t)start->fts_namelen;
}

/* "": the root itself. */
static int serve_put_names_name_at_server(const struct copy *copy, const FTSENT *entry, char *name,
                                          const char **why)
{
  const char *to = copy->params->to ? copy->params->to : "";
  char whole[2 * SERVE_NAME_MAX + 2];
  size_t strip = serve_put_names_stripped(entry), length = serve_copy_unslashed(to);
  const char *below = strip < entry->fts_pathlen ? entry->fts_path + strip : "";

  if (copy->single[0] != '\0')
    below = "";
  int used = snprintf(whole, sizeof(whole), "%.*s%s%s", (int)length, to,
                      length > 0 && below[0] != '\0' ? "/" : "", below);
  if (used < 0 || (size_t)used >= sizeof(whole)) {
    *why = "its name is too long";
    return -ENAMETOOLONG;
  }
  name[0] = '\0';
  return used == 0 ? 0 : serve_path_check((const uint8_t *)whole, (size_t)used, name, why);
}

/* ---- Folders ------------------------------------------------------------------------- */

/* Leaves out what should go into a folder that cannot be made. The folder's failure is reported. */
static void serve_put_names_leave_out(struct copy *copy)
{
  if (copy->entry)
    fts_set(copy->walk, copy->entry, FTS_SKIP);
  else /* the folder of all: --to */
    serve_put_close(copy);
}

static void serve_put_names_made(struct serve_pending *pending, const struct serve_message *answer)
{
  struct copy *copy = FROM(struct copy, list, pending);

  copy->listing = false;
  if (answer->type == SERVE_REFUSE) {
    serve_copy_fail(copy, COPY_SERVER, copy->folder_name, -(int)answer->code, "%s", answer->text);
    serve_put_names_leave_out(copy);
  } else {
    copy->totals.folders++;
  }
}

static void serve_put_names_make_folder(struct copy *copy, const char *name, uint32_t mode)
{
  const struct serve_message message = {.type = SERVE_MKDIR,
                                        .name = (const uint8_t *)name,
                                        .name_length = (uint32_t)strlen(name),
                                        .mode = mode | 0700};

  copy->listing = true;
  snprintf(copy->folder_name, sizeof(copy->folder_name), "%s", name);
  serve_connection_ask(&copy->remote, &copy->list, SERVE_DONE, &message, serve_put_names_made);
}

/* ---- The walk ------------------------------------------------------------------------ */

/* Opens an entry that fts(3) has looked at by its path. The owner of the folder may have put a link
 * in its place since. So the entry is opened from where the walk began, without following links,
 * and compared with what fts(3) saw. For a folder, *fd is where a walk begins. */
static int serve_put_names_open_entry(struct copy *copy, const FTSENT *entry, bool folder, int *fd)
{
  const int flags = folder ? O_PATH | O_DIRECTORY : O_RDONLY;
  const char *below = entry->fts_path + serve_put_names_start_of(entry)->fts_pathlen;

  *fd = entry->fts_level == FTS_ROOTLEVEL
            ? serve_root_open_seen(-1, entry->fts_accpath, entry->fts_statp, flags)
            : serve_root_open_seen(copy->walk_root, below + strspn(below, "/"), entry->fts_statp,
                                   flags);
  return *fd < 0 ? *fd : 0;
}

/* Keeps what the walk began at, and looks whether a folder below is still what was seen. */
static int serve_put_names_enter_folder(struct copy *copy, const FTSENT *entry)
{
  int fd = -1, rc = serve_put_names_open_entry(copy, entry, true, &fd);

  if (rc < 0)
    return rc;
  if (entry->fts_level > FTS_ROOTLEVEL) {
    close(fd);
    return 0;
  }
  if (copy->walk_root >= 0)
    close(copy->walk_root);
  copy->walk_root = fd;
  return 0;
}

static void serve_put_names_fail_open(struct copy *copy, const FTSENT *entry, int code)
{
  if (code == -ESTALE)
    serve_copy_fail(copy, COPY_CLIENT, entry->fts_path, code,
                    "it was replaced while the folder was read; put it again once nothing writes "
                    "to its folder");
  else
    serve_copy_fail(copy, COPY_CLIENT, entry->fts_path, code, "%s; %s", strerror(-code),
                    app_errno_hint_source(-code));
}

static int serve_put_names_leave_out_entry(struct copy *copy, const FTSENT *entry, const char *why)
{
  copy->totals.skipped++;
  app_log_warn(FINDING_LEFT_OUT, NULL, "%s: %s, left out", entry->fts_path, why);
  return 1;
}

/* 0: a file, in *t; 1: something else, which is dealt with; -1: so it is, and a folder's entries
 * are not looked at. */
static int serve_put_names_take_entry(struct copy *copy, FTSENT *entry, struct transfer *t)
{
  const char *why = NULL;
  char name[SERVE_NAME_MAX + 1];
  bool folder = entry->fts_info == FTS_D;

  switch (entry->fts_info) {
  case FTS_DP:
    return 1;
  case FTS_DNR:
  case FTS_ERR:
  case FTS_NS:
    serve_copy_fail(copy, COPY_CLIENT, entry->fts_path, -entry->fts_errno, "%s; %s",
                    strerror(entry->fts_errno), app_errno_hint_source(entry->fts_errno));
    return 1;
  case FTS_F:
  case FTS_D:
    break;
  default:
    return serve_put_names_leave_out_entry(copy, entry, "neither file nor folder");
  }
  if (!folder && entry->fts_level > FTS_ROOTLEVEL &&
      serve_path_is_part((const uint8_t *)entry->fts_name, entry->fts_namelen))
    return serve_put_names_leave_out_entry(copy, entry, "of an unfinished transfer");
  if (folder && !copy->params->recursive) {
    serve_copy_fail(copy, COPY_CLIENT, entry->fts_path, -EISDIR,
                    "it is a folder (--recursive takes all of it)");
    return -1;
  }
  int rc = serve_put_names_name_at_server(copy, entry, name, &why);
  if (rc < 0) {
    serve_copy_fail(copy, COPY_CLIENT, entry->fts_path, rc, "its name at the server: %s; rename it",
                    why);
    return -1;
  }
  rc = folder ? serve_put_names_enter_folder(copy, entry)
              : serve_put_names_open_entry(copy, entry, false, &t->fd);
  if (rc < 0) {
    serve_put_names_fail_open(copy, entry, rc);
    return -1;
  }
  if (folder && name[0] != '\0')
    serve_put_names_make_folder(copy, name, entry->fts_statp->st_mode & 0777);
  snprintf(t->name, sizeof(t->name), "%s", name);
  snprintf(t->local, sizeof(t->local), "%s", entry->fts_path);
  return folder;
}

/* A folder is made before anything in it is begun. */
int serve_put_next(struct copy *copy, struct transfer *t)
{
  while (copy->walk && !copy->listing) {
    FTSENT *entry = copy->entry = fts_read(copy->walk);
    if (!entry) {
      serve_put_close(copy);
      break;
    }
    int rc = serve_put_names_take_entry(copy, entry, t);
    if (rc < 0)
      fts_set(copy->walk, entry, FTS_SKIP);
    if (rc == 0)
      return 0;
  }
  return copy->listing ? -EAGAIN : -ENODATA;
}

static FTS *serve_put_names_open_walk(const struct copy_params *params)
{
  char **paths = calloc(params->name_count + 1, sizeof(*paths));
  FTS *walk = NULL;
  uint32_t count = 0;

  while (paths && count < params->name_count &&
         (paths[count] = strndup(params->names[count], serve_copy_unslashed(params->names[count]))))
    count++;
  /* A command's own names may be links; what lies below is taken as it is. */
  if (paths && count == params->name_count)
    walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
  while (paths && count > 0)
    free(paths[--count]);
  free(paths);
  return walk;
}

/* --to is what a single file is called; with '/' behind it, or for more, their folder. */
static int serve_put_names_open_to(struct copy *copy)
{
  const struct copy_params *params = copy->params;
  char name[SERVE_NAME_MAX + 1];
  const char *to = params->to, *why = NULL;
  size_t length = to ? strlen(to) : 0;

  if (length == 0)
    return 0;
  bool folder = params->name_count > 1 || params->recursive || to[length - 1] == '/';
  while (length > 0 && to[length - 1] == '/')
    length--;
  int rc = serve_path_check((const uint8_t *)to, length, name, &why);
  if (rc < 0)
    return serve_copy_wrong(copy, "--to", rc, "--to %s: %s; choose another name", to, why);
  if (folder)
    serve_put_names_make_folder(copy, name, 0777);
  else
    snprintf(copy->single, sizeof(copy->single), "%s", name);
  return 0;
}

int serve_put_open(struct copy *copy)
{
  /* First, since fts_close() of what was never read may leak: glibc 2.36 reads a level that it
   * has not set. */
  int rc = serve_put_names_open_to(copy);
  if (rc < 0)
    return rc;
  copy->walk = serve_put_names_open_walk(copy->params);
  return copy->walk ? 0 : app_log_fail(&copy->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
}

void serve_put_close(struct copy *copy)
{
  if (copy->walk)
    fts_close(copy->walk);
  copy->walk = copy->entry = NULL;
  if (copy->walk_root >= 0)
    close(copy->walk_root);
  copy->walk_root = -1;
}
