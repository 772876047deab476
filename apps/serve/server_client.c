/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the server's: it comes, is waited for, and goes. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "server.h"
#include "size.h"

void serve_file_drop(struct open_file *file)
{
  if (!file->used)
    return;
  if (file->fd >= 0)
    close(file->fd);
  serve_part_close(&file->part, false);
  serve_extents_free(&file->extents);
  serve_digest_sha256_close(file->sum);
  file->used = false;
}

/* A client that prepares its memory keeps its place for this long: 64 GiB take some 20 s. */
#define BUSY_NS (300 * NS_PER_S)

void serve_client_joined(struct server *server, struct pst_peer *peer)
{
  struct client *client = calloc(1, sizeof(*client));

  if (!client) {
    pst_peer_close(peer, -ENOMEM, "the server is out of memory");
    return;
  }
  client->server = server;
  client->peer = peer;
  client->heard_ns = client->joined_ns = app_now_ns();
  client->next = server->clients;
  server->clients = client;
  server->client_count++;
  if (server->client_count > server->client_most)
    server->client_most = server->client_count;
  server->totals.clients++;
  pst_peer_set_context(peer, client);
  app_log(PST_LOG_DEBUG, "serve: %s has joined, %u here", pst_peer_text(peer),
          server->client_count);
}

void serve_client_free(struct client *client)
{
  for (uint32_t i = 0; i < SERVER_FILES; i++)
    serve_file_drop(&client->files[i]);
  free(client);
}

/* Jobs whose files are being read or written stay until that has ended. */
void serve_client_left(struct client *client, int status, const char *text)
{
  struct server *server = client->server;
  struct client **at = &server->clients;
  double seconds = (double)(app_now_ns() - client->joined_ns) / 1e9;
  char bytes[SIZE_TEXT_BYTES];

  client->gone = true;
  app_log(status == 0 ? PST_LOG_DEBUG : PST_LOG_INFO,
          "serve: %s left after %" PRIu64 " request%s, %s in %.3f s%s%s",
          client->peer ? pst_peer_text(client->peer) : "a client", client->requests,
          app_plural(client->requests), app_size_about(client->bytes, bytes), seconds,
          status != 0 ? ": " : "", status != 0 ? text : "");
  client->peer = NULL;
  while (*at != client)
    at = &(*at)->next;
  *at = client->next;
  server->client_count--;
  client->jobs++; /* while it is being cleared */
  serve_job_drop_waiting(client);
  client->jobs--;
  if (client->jobs == 0)
    serve_client_free(client);
}

void serve_client_end(struct client *client, int code, const char *format, ...)
{
  char text[SERVE_TEXT_MAX + 1];
  va_list args;

  if (client->closing)
    return;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  client->closing = true;
  pst_peer_close(client->peer, code, text);
}

void serve_client_check_idle(struct client *client, uint64_t now)
{
  uint64_t idle = client->server->params->idle_ns;

  if (client->busy && idle < BUSY_NS)
    idle = BUSY_NS;
  if (client->jobs > 0 || now <= client->heard_ns || now - client->heard_ns <= idle)
    return;
  if (client->busy)
    serve_client_end(client, -ETIMEDOUT, "its memory was not ready after %.3g seconds",
                     (double)idle / 1e9);
  else
    serve_client_end(client, -ETIMEDOUT, "nothing was asked for %.3g seconds (the server's --idle)",
                     (double)idle / 1e9);
}
