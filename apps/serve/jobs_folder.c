/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing files, and folders. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "root.h"
#include "server.h"

/* Room for a listing's names; the rest of the message is small. */
#define LISTED_BYTES 3072u

static struct open_file *serve_jobs_folder_unused_file(struct job *job)
{
  struct client *client = job->client;

  for (uint32_t i = 0; i < SERVER_FILES; i++) {
    if (client->files[i].used)
      continue;
    client->files[i] = (struct open_file){.fd = -1, .part = PARTIAL_FILE_INIT};
    job->answer.file = i;
    return &client->files[i];
  }
  serve_job_refuse(job, -EMFILE, "a client has at most %u files open", SERVER_FILES);
  return NULL;
}

int serve_job_open(struct job *job, const char *name)
{
  struct open_file *file = serve_jobs_folder_unused_file(job);

  if (!file)
    return 0;
  int fd = serve_root_open_file(job->client->server->root, name, &file->stat);
  if (fd < 0)
    return fd;
  file->used = true;
  file->fd = fd;
  file->size = (uint64_t)file->stat.st_size;
  job->answer.size = file->size;
  job->answer.mode = file->stat.st_mode & 0777;
  job->client->server->totals.files_read++;
  serve_job_answer(job, SERVE_OPENED);
  return 0;
}

/* A size that could never be filled is a mistake, or is to keep the server reading holes. */
static bool serve_jobs_folder_size_is_legal(struct job *job)
{
  const struct server *server = job->client->server;
  uint64_t most = server->params->file_max > 0 ? server->params->file_max : UINT64_MAX;
  struct statvfs there;
  const char *what = "the server's --file-max allows";

  if (server->params->file_max == 0 && fstatvfs(server->root, &there) == 0 && there.f_blocks > 0) {
    most = (uint64_t)there.f_blocks * there.f_frsize;
    what = "the server's file system holds";
  }
  if (job->asked.size <= most)
    return true;
  serve_job_refuse(job, -EFBIG, "a file of %" PRIu64 " bytes is more than %s, %" PRIu64 " bytes",
                   job->asked.size, what, most);
  return false;
}

/* Refuses to replace a file, and says whose --overwrite is missing. */
static void serve_jobs_folder_refuse(struct job *job)
{
  bool client = (job->asked.flags & SERVE_FLAG_OVERWRITE) != 0;
  bool server = job->client->server->params->overwrite;

  serve_job_refuse(job, -EEXIST, "it exists and is not replaced (%s)",
                   client   ? "start the server with --overwrite, too, to allow it"
                   : server ? "--overwrite allows it"
                            : "--overwrite at both ends allows it");
}

int serve_job_create(struct job *job, const char *name)
{
  const struct server *server = job->client->server;
  const struct serve_message *m = &job->asked;
  bool overwrite = server->params->overwrite && (m->flags & SERVE_FLAG_OVERWRITE) != 0;
  struct open_file *file = serve_jobs_folder_unused_file(job);

  if (!file || !serve_jobs_folder_size_is_legal(job))
    return 0;
  int rc = serve_part_open(server->root, name, m->size, m->mode, overwrite,
                           (m->flags & SERVE_FLAG_RESUME) != 0, &file->part);
  if (rc == -EEXIST) {
    serve_jobs_folder_refuse(job);
    return 0;
  }
  if (rc < 0)
    return rc;
  file->used = file->writable = true;
  file->size = m->size;
  job->answer.size = file->part.there;
  serve_job_answer(job, SERVE_CREATED);
  return 0;
}

void serve_job_close(struct job *job)
{
  struct open_file *file = job->file;

  if (file->jobs > 1) {
    serve_job_refuse(job, -EBUSY, "CLOSE: other requests on the file are under way");
    return;
  }
  bool stale = !file->writable && serve_root_changed(file->fd, &file->stat);
  serve_file_drop(file);
  job->file = NULL;
  if (stale)
    serve_job_refuse(job, -ESTALE,
                     "the file was changed while it was read; try again once nothing writes to it");
  else
    serve_job_answer(job, SERVE_DONE);
}

int serve_job_list_folder(struct job *job, const char *name)
{
  int folder = serve_root_open_folder(job->client->server->root, name);

  if (folder < 0)
    return folder;
  job->answer.cursor = job->asked.cursor;
  job->names = malloc(LISTED_BYTES);
  int count = !job->names ? -ENOMEM
                          : serve_root_list(folder, &job->answer.cursor, job->answer.entries,
                                            job->names, LISTED_BYTES);
  close(folder);
  if (count < 0)
    return count;
  job->answer.entry_count = (uint32_t)count;
  serve_job_answer(job, SERVE_LISTED);
  return 0;
}

int serve_job_make_folder(struct job *job, const char *name)
{
  int rc = serve_root_make_folder(job->client->server->root, name, job->asked.mode);

  if (rc == 0)
    serve_job_answer(job, SERVE_DONE);
  return rc;
}
