/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a client, and whether it may make them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "server.h"

static void serve_client_answer_ping(struct job *job)
{
  struct client *client = job->client;

  client->busy = job->asked.flags & SERVE_FLAG_BUSY;
  if (client->busy)
    app_log(PST_LOG_DEBUG, "serve: %s prepares its memory", pst_peer_text(client->peer));
  serve_job_answer(job, SERVE_DONE);
}

/* How a request begins: by one of the first three. */
struct request {
  job_step *begin;
  int (*on_name)(struct job *job, const char *name);
  enum file_error_use use; /* of the name */
  job_step *on_file;
  bool reads, writes; /* needs a file that is open to read; changes files, or needs one to write */
};

static const struct request requests[SERVE_TYPES] = {
    [SERVE_PING] = {.begin = serve_client_answer_ping},
    [SERVE_MOVE] = {.begin = serve_job_start_move},
    [SERVE_OPEN] = {.on_name = serve_job_open, .use = FILE_ERROR_READ},
    [SERVE_CREATE] = {.on_name = serve_job_create, .use = FILE_ERROR_CREATE, .writes = true},
    [SERVE_LIST] = {.on_name = serve_job_list_folder, .use = FILE_ERROR_READ},
    [SERVE_MKDIR] = {.on_name = serve_job_make_folder, .use = FILE_ERROR_FOLDER, .writes = true},
    [SERVE_FETCH] = {.on_file = serve_job_fetch, .reads = true},
    [SERVE_STORE] = {.on_file = serve_job_store, .writes = true},
    [SERVE_HOLE] = {.on_file = serve_job_hole, .writes = true},
    [SERVE_CHECK] = {.on_file = serve_job_check},
    [SERVE_COMMIT] = {.on_file = serve_job_commit, .writes = true},
    [SERVE_CLOSE] = {.on_file = serve_job_close},
};

static bool serve_client_is_request(const struct request *request)
{
  return request->begin || request->on_name || request->on_file;
}

/* The names of a message are checked here, once, before anything looks at them. */
static void serve_client_begin_on_name(struct job *job, const struct serve_message *asked)
{
  const struct request *request = &requests[asked->type];
  char name[SERVE_NAME_MAX + 1] = "", text[FILE_ERROR_BYTES];
  const char *why = NULL;
  bool root = asked->type == SERVE_LIST && asked->name_length == 0;
  int rc = root ? 0 : serve_path_check(asked->name, asked->name_length, name, &why);

  if (rc < 0) {
    serve_job_refuse(job, rc, "the name '%.*s' is not allowed: %s",
                     asked->name_length < 200 ? (int)asked->name_length : 200,
                     (const char *)asked->name, why);
    return;
  }
  rc = request->on_name(job, name);
  if (rc == 0)
    return;
  serve_file_error_refused(request->use, rc, name, true, text);
  serve_job_refuse(job, rc, "%s", text);
}

static void serve_client_begin_on_file(struct job *job, const struct request *request)
{
  const char *type = serve_type_name(job->asked.type);
  const uint32_t number = job->asked.file;
  struct open_file *file = number < SERVER_FILES ? &job->client->files[number] : NULL;

  if (!file || !file->used) {
    serve_job_refuse(job, -EBADF, "%s: no file %u is open", type, number);
    return;
  }
  if (file->writable ? request->reads : request->writes) {
    serve_job_refuse(job, -EBADF, "%s: file %u is open for the other direction", type, number);
    return;
  }
  job->file = file;
  file->jobs++;
  if (file->dead && job->asked.type != SERVE_CLOSE)
    serve_job_refuse(job, -EBADF, "%s: file %u has ended", type, number);
  else
    request->on_file(job);
}

static void serve_client_begin(struct client *client, const struct serve_message *asked)
{
  const struct request *request = &requests[asked->type];
  const struct server *server = client->server;
  struct job *job = serve_job_new(client, asked);

  if (!job)
    serve_client_end(client, -ENOMEM, "the server is out of memory");
  else if (request->begin)
    request->begin(job);
  else if (server->root < 0)
    serve_job_refuse(job, -EOPNOTSUPP, "this server has no files: it was started without --root");
  else if (server->params->read_only && request->writes)
    serve_job_refuse(job, -EROFS, "this server was started with --read-only");
  else if (request->on_name)
    serve_client_begin_on_name(job, asked);
  else
    serve_client_begin_on_file(job, request);
}

/* Answers HELLO with WELCOME and the server's limits, or ends a client of another version. */
static void serve_client_greet(struct client *client, const struct serve_message *hello)
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
    serve_client_end(client, -EPROTO,
                     "this server speaks version %u of its protocol, the client %u", SERVE_MAJOR,
                     hello->major);
    return;
  }
  if (server->root >= 0)
    welcome.flags |= SERVE_FLAG_FILES;
  if (params->read_only)
    welcome.flags |= SERVE_FLAG_READ_ONLY;
  snprintf(welcome.program, sizeof(welcome.program), "%s", pst_version());
  client->welcome = true;
  if (serve_encode(&welcome, bytes, sizeof(bytes), &length) < 0 ||
      pst_peer_send(client->peer, bytes, length) < 0)
    serve_client_end(client, -EIO, "the server cannot answer");
}

/* Takes a message of a client. One that breaks the protocol ends the client with the reason. */
void serve_client_message(struct client *client, const void *in_ring, uint64_t length)
{
  struct serve_message asked;
  uint8_t bytes[SERVE_MESSAGE_MAX]; /* a copy: the client can still write to the ring */
  char why[SERVE_WHY_MAX];

  if (client->closing)
    return;
  if (length > sizeof(bytes)) {
    serve_client_end(client, -EPROTO, "a message of %" PRIu64 " bytes is too long", length);
    return;
  }
  memcpy(bytes, in_ring, length);
  client->heard_ns = app_now_ns();
  if (client->busy)
    app_log(PST_LOG_DEBUG, "serve: %s has prepared its memory", pst_peer_text(client->peer));
  client->busy = false;
  if (serve_decode(bytes, length, &asked, why) < 0)
    serve_client_end(client, -EPROTO, "a message that is not of this protocol: %s", why);
  else if (!client->welcome && asked.type != SERVE_HELLO)
    serve_client_end(client, -EPROTO, "%s came before HELLO", serve_type_name(asked.type));
  else if (asked.type == SERVE_HELLO && !client->welcome)
    serve_client_greet(client, &asked);
  else if (!serve_client_is_request(&requests[asked.type]))
    serve_client_end(client, -EPROTO, "%s is not a message that clients send",
                     serve_type_name(asked.type));
  else if (client->jobs >= SERVER_WINDOW)
    serve_client_end(client, -EPROTO, "more than %u requests are under way", SERVER_WINDOW);
  else
    serve_client_begin(client, &asked);
}
