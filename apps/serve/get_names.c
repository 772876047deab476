/* SPDX-License-Identifier: Apache-2.0 */
/* Which files `get` takes, where they go, and what folders of the server hold. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"
#include "errno_hint.h"
#include "log.h"
#include "root.h"
#include "wire.h"

/* A server may list more than there is memory for. With this many names pending, the listing waits
 * for their files. Folders wait for the listing, which bounds their number, too. */
#define PENDING_ENOUGH 65536u
#define PENDING_MOST (1u << 22)

/* "": the server's root. */
static void serve_get_names_fail(struct copy *copy, const char *name, int code, const char *why)
{
  serve_copy_fail(copy, COPY_SERVER, name[0] != '\0' ? name : ".", code, "%s", why);
}

void serve_get_push(struct copy *copy, const char *name, uint32_t strip, uint32_t kind)
{
  size_t length = strlen(name) + 1;
  struct pending *pending = malloc(sizeof(*pending) + length);

  if (!pending) {
    serve_get_names_fail(copy, name, -ENOMEM, "out of memory for its name; get fewer at once");
    return;
  }
  memcpy(pending->name, name, length);
  pending->kind = kind;
  pending->strip = strip;
  pending->next = copy->pending;
  copy->pending = pending;
  copy->pending_count++;
}

/* ---- Folders ------------------------------------------------------------------------------ */

/* Fetches what the server lists, unless its name may not be used here or it is no file or folder.
 */
static void serve_get_names_take_entry(struct copy *copy, const struct serve_entry *entry)
{
  const char *folder = copy->folder_name, *why = "its name is too long";
  char part[SERVE_NAME_MAX + 1], name[2 * SERVE_NAME_MAX + 2];
  int length = snprintf(name, sizeof(name), "%s%s%.*s", folder, folder[0] != '\0' ? "/" : "",
                        (int)entry->length, (const char *)entry->name);

  if (entry->kind == SERVE_KIND_UNNAMED) {
    serve_copy_fail(
        copy, COPY_SERVER, name, -EINVAL,
        "not fetched: no name that is asked for has a control character or a part of more "
        "than %u bytes; it has to be renamed at the server",
        NAMES_BYTES_MAX);
    return;
  }
  int rc = serve_path_check_part(entry->name, entry->length, part, &why);

  if (rc == 0 && length > (int)SERVE_NAME_MAX)
    rc = -ENAMETOOLONG;
  if (rc < 0) {
    serve_copy_fail(copy, COPY_SERVER, folder[0] != '\0' ? folder : ".", rc,
                    "the name of something in it: %s; rename it at the server", why);
  } else if (entry->kind == SERVE_KIND_OTHER) {
    copy->totals.skipped++;
    app_log_warn(FINDING_LEFT_OUT, NULL, "%s: neither file nor folder, left out", name);
  } else {
    serve_get_push(copy, name, copy->folder_strip, entry->kind);
  }
}

static void serve_get_names_ask_list(struct copy *copy, uint64_t cursor);

static void serve_get_names_listed(struct serve_pending *pending,
                                   const struct serve_message *answer)
{
  struct copy *copy = FROM(struct copy, list, pending);

  copy->listing = false;
  if (answer->type == SERVE_REFUSE) {
    serve_get_names_fail(copy, copy->folder_name, -(int)answer->code, answer->text);
    return;
  }
  for (uint32_t i = 0; i < answer->entry_count; i++)
    serve_get_names_take_entry(copy, &answer->entries[i]);
  if (answer->cursor == 0)
    return;
  if (copy->pending_count >= PENDING_MOST) {
    serve_get_names_fail(copy, copy->folder_name, -E2BIG,
                         "it has too many folders; fetch them one by one");
  } else if (copy->pending_count >= PENDING_ENOUGH) {
    copy->listing = true;
    copy->list_cursor = answer->cursor;
  } else {
    serve_get_names_ask_list(copy, answer->cursor);
  }
}

static void serve_get_names_ask_list(struct copy *copy, uint64_t cursor)
{
  const struct serve_message message = {.type = SERVE_LIST,
                                        .name = (const uint8_t *)copy->folder_name,
                                        .name_length = (uint32_t)strlen(copy->folder_name),
                                        .cursor = cursor};

  copy->listing = true;
  copy->list_cursor = 0;
  serve_connection_ask(&copy->remote, &copy->list, SERVE_LISTED, &message, serve_get_names_listed);
}

static void serve_get_names_begin_folder(struct copy *copy, const struct pending *pending)
{
  const char *local = pending->name + pending->strip;
  char why[FILE_ERROR_BYTES];
  int rc = local[0] != '\0' ? serve_root_make_folder(copy->root, local, 0777) : 0;

  if (rc < 0) {
    serve_file_error_refused(FILE_ERROR_FOLDER, rc, local, false, why);
    serve_copy_fail(copy, COPY_CLIENT, local, rc, "%s", why);
    return;
  }
  copy->totals.folders += local[0] != '\0';
  copy->folder_strip = pending->strip;
  snprintf(copy->folder_name, sizeof(copy->folder_name), "%s", pending->name);
  serve_get_names_ask_list(copy, 0);
}

int serve_get_next(struct copy *copy, struct transfer *t)
{
  struct pending *pending = copy->pending;

  if (!pending)
    return copy->listing ? -EAGAIN : -ENODATA;
  bool folder = pending->kind == SERVE_KIND_FOLDER;
  if (copy->list_cursor != 0 && (folder || copy->pending_count < PENDING_ENOUGH / 2))
    serve_get_names_ask_list(copy, copy->list_cursor);
  if (folder && copy->listing)
    return -EAGAIN;
  copy->pending = pending->next;
  copy->pending_count--;
  if (folder) {
    serve_get_names_begin_folder(copy, pending);
  } else {
    const char *local = copy->single[0] != '\0' ? copy->single : pending->name + pending->strip;
    snprintf(t->name, sizeof(t->name), "%s", pending->name);
    snprintf(t->local, sizeof(t->local), "%s", local);
    t->strip = pending->strip;
  }
  free(pending);
  return folder ? -EAGAIN : 0;
}

/* ---- The destination ------------------------------------------------------------------------ */

static int serve_get_names_fail_folder(struct copy *copy, const char *folder)
{
  bool named = copy->params->to != NULL;

  return serve_copy_wrong(copy, named ? "--to" : "client:.", copy->root, "%s%s: %s; %s",
                          named ? "--to " : "client:", folder, strerror(-copy->root),
                          app_errno_hint_folder(-copy->root));
}

/* The folder that one file goes into, and its name there. */
static int serve_get_names_open_single(struct copy *copy, const char *to)
{
  char folder[4096];
  const char *slash = strrchr(to, '/'), *last = slash ? slash + 1 : to, *why = NULL;
  int rc = serve_path_check((const uint8_t *)last, strlen(last), copy->single, &why);

  if (rc < 0)
    return serve_copy_wrong(copy, "--to", rc, "--to %s: %s; choose another name", to, why);
  if (!slash)
    snprintf(folder, sizeof(folder), ".");
  else
    snprintf(folder, sizeof(folder), "%.*s", slash == to ? 1 : (int)(slash - to), to);
  copy->root = serve_root_open(folder);
  return copy->root < 0 ? serve_get_names_fail_folder(copy, folder) : 0;
}

static int serve_get_names_open_destination(struct copy *copy)
{
  const struct copy_params *params = copy->params;
  const char *to = params->to ? params->to : ".";

  copy->root = serve_root_open(to);
  if (copy->root >= 0)
    return 0;
  if ((copy->root == -ENOENT || copy->root == -ENOTDIR) && params->name_count == 1 &&
      !params->recursive && to[0] != '\0' && to[strlen(to) - 1] != '/')
    return serve_get_names_open_single(copy, to);
  return serve_get_names_fail_folder(copy, to);
}

/* "a/b/" is "a/b"; "." and "" are the server's root. */
static int serve_get_names_push_name(struct copy *copy, const char *written)
{
  char name[SERVE_NAME_MAX + 1] = "", where[PATH_MAX];
  const char *why = NULL;
  size_t length = serve_copy_unslashed(written);
  bool root = length == 0 || (length == 1 && written[0] == '.');
  int rc = root ? 0 : serve_path_check((const uint8_t *)written, length, name, &why);
  if (root && !copy->params->recursive) {
    rc = -EISDIR;
    why = "the server's root is a folder (--recursive takes all of it)";
  }
  snprintf(where, sizeof(where), "server:%s", written);
  if (rc < 0)
    return serve_copy_wrong(copy, where, rc, "%s: %s", where, why);
  const char *slash = strrchr(name, '/');
  serve_get_push(copy, name, slash ? (uint32_t)(slash + 1 - name) : 0,
                 root ? SERVE_KIND_FOLDER : 0);
  return 0;
}

int serve_get_open(struct copy *copy)
{
  int rc = serve_get_names_open_destination(copy);

  for (uint32_t i = copy->params->name_count; rc == 0 && i-- > 0;)
    rc = serve_get_names_push_name(copy, copy->params->names[i]);
  return rc;
}

void serve_get_close(struct copy *copy)
{
  for (struct pending *p = copy->pending; p != NULL; p = copy->pending) {
    copy->pending = p->next;
    free(p);
  }
  copy->pending_count = 0;
  if (copy->root >= 0)
    close(copy->root);
  copy->root = -1;
}
