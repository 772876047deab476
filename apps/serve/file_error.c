/* SPDX-License-Identifier: Apache-2.0 */

/* Why a file could not be read or written, and what helps. */
#include "root.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "errno_hint.h"
#include "partial_file.h"

static const char *serve_file_error_place(bool at_server)
{
  return at_server ? "at the server" : "here";
}

static const char *serve_file_error_last_part(const char *name)
{
  const char *slash = strrchr(name, '/');

  return slash ? slash + 1 : name;
}

/* Writes why a transfer cannot begin: a file that is not ours has the name of its unfinished
 * part. */
static void serve_file_error_refuse_part(int code, const char *name, bool at_server,
                                         char text[FILE_ERROR_BYTES])
{
  snprintf(text, FILE_ERROR_BYTES,
           "its unfinished part beside it, .%.240s" NAMES_PART_SUFFIX ", %s %s%s",
           serve_file_error_last_part(name),
           code == -EPERM ? "belongs to another user; remove it"
                          : "is not a regular file with one name (hard link); remove it",
           serve_file_error_place(at_server),
           code == -EPERM ? ", or use a folder that only its user can write to" : "");
}

static void serve_file_error_refuse_read(int code, char text[FILE_ERROR_BYTES])
{
  static const struct {
    int code;
    const char *why;
  } known[] = {
      {-ENOENT, "No such file or directory below the server's root; check the name"},
      {-EISDIR, "it is a folder (--recursive takes all of it)"},
      {-ENOTSUP, "it is neither a regular file nor a folder; name one of these"},
      {-ENOTDIR, "it, or a part of its path, is not a folder; check the name"},
      {-ELOOP, "its path has too many symbolic links; name what they lead to"},
      {-EACCES, "the server's user may not read it; allow it at the server (chmod, chown)"},
  };

  snprintf(text, FILE_ERROR_BYTES, "%s; at the server, %s", strerror(-code),
           app_errno_hint_folder(-code));
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (known[i].code == code)
      snprintf(text, FILE_ERROR_BYTES, "%s", known[i].why);
}

/* Why a file cannot be written, and the remedy, by errno. */
static void serve_file_error_refuse_write(enum file_error_use use, int code, bool at_server,
                                          char text[FILE_ERROR_BYTES])
{
  static const char other[] = "or choose another destination (--to)";
  const char *at = serve_file_error_place(at_server);

  switch (code) {
  case -ENOENT:
    snprintf(text, FILE_ERROR_BYTES,
             "the folder that it would lie in is not there; create it %s first", at);
    break;
  case -EISDIR:
    snprintf(text, FILE_ERROR_BYTES, "a folder has that name%s",
             at_server ? " (to put it into the folder, write --to FOLDER/)"
                       : "; choose another destination (--to)");
    break;
  case -EEXIST:
    snprintf(text, FILE_ERROR_BYTES,
             "a file has that name, where a folder should be; remove it %s, %s", at, other);
    break;
  case -ELOOP:
    snprintf(text, FILE_ERROR_BYTES,
             use == FILE_ERROR_FOLDER
                 ? "a symbolic link has that name, and is not followed; remove the "
                   "link %s, %s"
                 : "its path has too many symbolic links; remove them %s, %s",
             at, other);
    break;
  case -ENOTDIR:
    snprintf(text, FILE_ERROR_BYTES, "its path leads through a file; remove that file %s, %s", at,
             other);
    break;
  case -EACCES:
    snprintf(text, FILE_ERROR_BYTES,
             "%s may not write to its folder; allow it %s (chmod, chown), %s",
             at_server ? "the server's user" : "this user", at, other);
    break;
  default:
    snprintf(text, FILE_ERROR_BYTES, "%s; %s, %s", strerror(-code), at,
             app_errno_hint_folder(-code));
    break;
  }
}

void serve_file_error_refused(enum file_error_use use, int code, const char *name, bool at_server,
                              char text[FILE_ERROR_BYTES])
{
  if (code == -EXDEV)
    snprintf(text, FILE_ERROR_BYTES,
             "a symbolic link in its path leads out of %s; name a path without that link",
             at_server ? "the server's root" : "the destination's folder");
  else if (code == -ESTALE)
    snprintf(text, FILE_ERROR_BYTES, "%s",
             at_server
                 ? "the server's root is gone: it was removed; put it back and start the server "
                   "again"
                 : "the destination's folder is gone: it was removed; create it, and begin again");
  else if (use == FILE_ERROR_CREATE && code == -EBUSY)
    snprintf(text, FILE_ERROR_BYTES,
             "another transfer is writing it; try again once that has ended");
  else if (use == FILE_ERROR_CREATE && (code == -ENOTSUP || code == -EPERM))
    serve_file_error_refuse_part(code, name, at_server, text);
  else if (use == FILE_ERROR_READ)
    serve_file_error_refuse_read(code, text);
  else
    serve_file_error_refuse_write(use, code, at_server, text);
}

int serve_file_error_unread(int64_t result, uint64_t size, bool at_server,
                            char text[FILE_ERROR_BYTES])
{
  const int code = (int)-result;

  if (code == 0)
    snprintf(text, FILE_ERROR_BYTES,
             "%s became shorter than %" PRIu64
             " bytes while it was read; try again once nothing writes to it",
             at_server ? "the file" : "it", size);
  else
    snprintf(text, FILE_ERROR_BYTES, "reading it: %s; %s%s", strerror(code),
             at_server ? "at the server, " : "",
             at_server ? app_errno_hint_folder(code) : app_errno_hint_source(code));
  return code == 0 ? -ESTALE : -code;
}

void serve_file_error_unwritten(struct partial_file *part, int code, bool at_server,
                                char text[FILE_ERROR_BYTES])
{
  const bool full = code == -ENOSPC || code == -EDQUOT;

  if (full)
    serve_part_remove(part);
  snprintf(text, FILE_ERROR_BYTES, "writing it: %s; what there %s; %s%s", strerror(-code),
           full ? "was of it is removed" : "is of it is kept for --resume",
           at_server ? "at the server, " : "", app_errno_hint_folder(-code));
}
