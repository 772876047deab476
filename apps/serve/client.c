/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the server's: what it may do, and what it asks for. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "names.h"
#include "notice.h"
#include "server.h"
#include "size.h"

/* A client that prepares its memory keeps its place for so long: 64 GiB take some 20 s. */
#define BUSY_NS (300 * NS_PER_S)

void client_joined(struct server *server, struct pst_peer *peer)
{
  struct client *client = calloc(1, sizeof *client);

  if (client == NULL) {
    pst_peer_close(peer, -ENOMEM, "the server is out of memory");
    return;
  }
  client->server = server;
  client->peer = peer;
  client->heard_ns = client->joined_ns = now_ns();
  client->next = server->clients;
  client->place = &server->clients;
  if (client->next != NULL)
    client->next->place = &client->next;
  server->clients = client;
  server->client_count++;
  if (server->client_count > server->client_most)
    server->client_most = server->client_count;
  server->totals.clients++;
  pst_peer_set_context(peer, client);
  notice(PST_LOG_DEBUG, "serve: %s has joined, %u here", pst_peer_text(peer), server->client_count);
}

void client_free(struct client *client)
{
  for (uint32_t i = 0; i < SERVER_FILES; i++)
    file_drop(&client->files[i]);
  free(client);
}

/* Jobs whose files are being read or written stay until that has ended. */
void client_left(struct client *client, int status, const char *text)
{
  struct server *server = client->server;
  double seconds = (double)(now_ns() - client->joined_ns) / 1e9;
  char bytes[SIZE_TEXT_BYTES];

  client->gone = true;
  notice(status == 0 ? PST_LOG_DEBUG : PST_LOG_INFO,
         "serve: %s left after %" PRIu64 " request%s, %s in %.3f s%s%s",
         client->peer != NULL ? pst_peer_text(client->peer) : "a client", client->requests,
         plural(client->requests), size_about(client->bytes, bytes), seconds,
         status != 0 ? ": " : "", status != 0 ? text : "");
  client->peer = NULL;
  *client->place = client->next;
  if (client->next != NULL)
    client->next->place = client->place;
  server->client_count--;
  client->jobs++; /* while it is being cleared */
  job_drop_waiting(client);
  client->jobs--;
  if (client->jobs == 0)
    client_free(client);
}

void client_end(struct client *client, int code, const char *format, ...)
{
  char text[SERVE_TEXT_MAX + 1];
  va_list args;

  if (client->closing)
    return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  client->closing = true;
  pst_peer_close(client->peer, code, text);
}

void client_check_idle(struct client *client, uint64_t now)
{
  uint64_t idle = client->server->params->idle_ns;

  if (client->busy && idle < BUSY_NS)
    idle = BUSY_NS;
  if (client->jobs > 0 || now <= client->heard_ns || now - client->heard_ns <= idle)
    return;
  if (client->busy)
    client_end(client, -ETIMEDOUT, "its memory was not ready after %.3g seconds",
               (double)idle / 1e9);
  else
    client_end(client, -ETIMEDOUT, "nothing was asked for %.3g seconds (the server's --idle)",
               (double)idle / 1e9);
}

void client_room(struct client *client)
{
  job_posts(client);
  job_flush_answers(client);
}

/* ---- What it asks for ------------------------------------------------------------------ */

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
  struct job *job = job_new(client, asked);

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
