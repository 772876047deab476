/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks for, and whether it may. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "names.h"
#include "notice.h"
#include "server.h"

static void greet(struct client *client, const struct serve_message *hello)
{
  const struct server *server = client->server;
  const struct server_params *params = server->params;
  struct serve_message welcome = {.type = SERVE_WELCOME,
                                  .major = SERVE_MAJOR,
                                  .minor = SERVE_MINOR,
                                  .request_max = params->request_max,
                                  .chunk_max = server->chunk_max,
                                  .idle_ns = params->idle_ns,
                                  .window = SERVER_WINDOW};
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;

  if (hello->major != SERVE_MAJOR) {
    client_end(client, -EPROTO, "this server speaks version %u of its protocol, the client %u",
               SERVE_MAJOR, hello->major);
    return;
  }
  if (server->root >= 0)
    welcome.flags |= SERVE_FLAG_FILES;
  if (params->read_only)
    welcome.flags |= SERVE_FLAG_READ_ONLY;
  snprintf(welcome.program, sizeof welcome.program, "%s", pst_version());
  client->welcome = true;
  if (serve_encode(&welcome, bytes, sizeof bytes, &length) < 0 ||
      pst_peer_send(client->peer, bytes, length) < 0)
    client_end(client, -EIO, "the server cannot answer");
}

static bool changes_files(uint32_t type)
{
  return type == SERVE_CREATE || type == SERVE_MKDIR || type == SERVE_STORE || type == SERVE_HOLE ||
         type == SERVE_COMMIT;
}

static bool may(struct job *job)
{
  const struct server *server = job->client->server;
  uint32_t type = job->asked.type;

  if (type == SERVE_MOVE || type == SERVE_PING)
    return true;
  if (server->root < 0)
    job_refuse(job, -EOPNOTSUPP, "this server has no files: it was started without --root");
  else if (server->params->read_only && changes_files(type))
    job_refuse(job, -EROFS, "this server was started with --read-only");
  else
    return true;
  return false;
}

/* The names of a message are checked here, once, before anything looks at them. */
static void start_named(struct job *job, const struct serve_message *asked)
{
  char name[SERVE_NAME_MAX + 1] = "";
  const char *why = NULL;
  bool root = asked->type == SERVE_LIST && asked->name_length == 0;
  int rc = root ? 0 : names_check(asked->name, asked->name_length, name, &why);

  if (rc < 0) {
    job_refuse(job, rc, "the name '%.*s' is not allowed: %s",
               asked->name_length < 200 ? (int)asked->name_length : 200, (const char *)asked->name,
               why);
    return;
  }
  if (asked->type == SERVE_OPEN)
    job_open(job, name);
  else if (asked->type == SERVE_CREATE)
    job_create(job, name);
  else if (asked->type == SERVE_LIST)
    job_list_folder(job, name);
  else
    job_make_folder(job, name);
}

static struct open_file *file_of(struct client *client, uint32_t number)
{
  return number < SERVER_FILES && client->files[number].used ? &client->files[number] : NULL;
}

static void start_on_file(struct job *job)
{
  const uint32_t type = job->asked.type;
  struct open_file *file = file_of(job->client, job->asked.file);

  if (file == NULL) {
    job_refuse(job, -EBADF, "%s: no file %u is open", serve_type_name(type), job->asked.file);
    return;
  }
  bool reads = type == SERVE_FETCH, writes = changes_files(type);
  if ((reads && file->writable) || (writes && !file->writable)) {
    job_refuse(job, -EBADF, "%s: file %u is open for the other way", serve_type_name(type),
               job->asked.file);
    return;
  }
  job->file = file;
  file->jobs++;
  if (file->dead && type != SERVE_CLOSE)
    job_refuse(job, -EBADF, "%s: file %u has ended", serve_type_name(type), job->asked.file);
  else if (type == SERVE_FETCH)
    job_fetch(job);
  else if (type == SERVE_STORE)
    job_store(job);
  else if (type == SERVE_HOLE)
    job_hole(job);
  else if (type == SERVE_CHECK)
    job_check(job);
  else if (type == SERVE_COMMIT)
    job_commit(job);
  else
    job_close(job);
}

static void start(struct client *client, const struct serve_message *asked)
{
  struct job *job =
      job_new(client, asked, asked->type == SERVE_MOVE ? job_move_step : job_file_step);

  if (job == NULL) {
    client_end(client, -ENOMEM, "the server is out of memory");
    return;
  }
  if (!may(job))
    return;
  switch (asked->type) {
  case SERVE_PING:
    client->busy = asked->flags & SERVE_FLAG_BUSY;
    if (client->busy)
      notice(PST_LOG_DEBUG, "serve: %s prepares its memory", pst_peer_text(client->peer));
    job_answer(job, SERVE_DONE);
    break;
  case SERVE_MOVE:
    job_start_move(job);
    break;
  case SERVE_OPEN:
  case SERVE_CREATE:
  case SERVE_LIST:
  case SERVE_MKDIR:
    start_named(job, asked);
    break;
  default:
    start_on_file(job);
    break;
  }
}

static bool is_request(uint32_t type)
{
  return type == SERVE_MOVE || type == SERVE_OPEN || type == SERVE_FETCH || type == SERVE_CREATE ||
         (type >= SERVE_STORE && type <= SERVE_CHECK) ||
         (type >= SERVE_COMMIT && type <= SERVE_LIST) || type == SERVE_MKDIR || type == SERVE_PING;
}

void client_message(struct client *client, const void *in_ring, uint64_t length)
{
  struct serve_message asked;
  uint8_t bytes[SERVE_MESSAGE_MAX]; /* a copy: the client can still write to the ring */
  char why[SERVE_WHY_MAX];

  if (client->closing)
    return;
  if (length > sizeof bytes) {
    client_end(client, -EPROTO, "a message of %" PRIu64 " bytes is too long", length);
    return;
  }
  memcpy(bytes, in_ring, length);
  client->heard_ns = now_ns();
  if (client->busy)
    notice(PST_LOG_DEBUG, "serve: %s has prepared its memory", pst_peer_text(client->peer));
  client->busy = false;
  if (serve_decode(bytes, length, &asked, why) < 0)
    client_end(client, -EPROTO, "a message that is not of this protocol: %s", why);
  else if (!client->welcome && asked.type != SERVE_HELLO)
    client_end(client, -EPROTO, "%s came before HELLO", serve_type_name(asked.type));
  else if (asked.type == SERVE_HELLO && !client->welcome)
    greet(client, &asked);
  else if (!is_request(asked.type))
    client_end(client, -EPROTO, "%s is nothing that a client says", serve_type_name(asked.type));
  else if (client->jobs >= SERVER_WINDOW)
    client_end(client, -EPROTO, "more than %u requests are under way", SERVER_WINDOW);
  else
    start(client, &asked);
}
