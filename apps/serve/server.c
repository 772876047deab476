/* SPDX-License-Identifier: Apache-2.0 */
/* The server of `serve`: clients, events, the loop. */
#include "server.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "errno_hint.h"
#include "log.h"
#include "root.h"
#include "signals.h"

#define EVENTS 64
#define MANY 4u       /* clients, whose memory is worth giving back */
#define SPIN_NS 50000 /* a client's next request often comes within it */
#define IDLE_CHECK_NS (100 * NS_PER_MS)
#define LAST_TRIM_NS (10 * NS_PER_S) /* after many have left */
#define LEAVE_NS (2 * NS_PER_S)
#define NAP_MS 1 /* where the transport wakes nobody */

static int serve_server_open_store(struct server *server, struct store *store,
                                   struct pst_area_params params, uint64_t bytes,
                                   struct pst_error *error)
{
  struct pst_range range = {.struct_size = sizeof(range)};

  params.length = bytes;
  params.label = "--in-flight";
  params.lower = "`--in-flight`";
  int rc = pst_node_alloc(server->node, &params, &store->area, error);
  if (rc < 0)
    return rc;
  pst_area_range(store->area, &range);
  store->host = range.host;
  store->patterns.area = store->area;
  store->pool = serve_buddy_open(bytes);
  if (!store->pool)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "serve: out of memory");
  return 0;
}

/* One for files and MOVEs, where the CPU can read what MOVEs use. */
static int serve_server_open_stores(struct server *server, struct pst_error *error)
{
  const struct server_params *p = server->params;
  const struct pst_area_params host = {.struct_size = sizeof(host), .memory = "host"};
  bool split = p->root && strcmp(p->area.memory, "host") != 0;
  uint64_t bytes = split ? p->in_flight / 2 : p->in_flight;
  int rc =
      serve_server_open_store(server, &server->stores[0], split ? host : p->area, bytes, error);

  if (rc == 0 && split)
    rc = serve_server_open_store(server, &server->stores[1], p->area, bytes, error);
  if (rc < 0)
    return rc;
  server->files = &server->stores[0];
  server->moves = &server->stores[split];
  server->chunk_max = serve_buddy_largest(server->files->pool);
  if (server->chunk_max > SERVER_CHUNK_MAX)
    server->chunk_max = SERVER_CHUNK_MAX;
  return 0;
}

int serve_server_open(const struct server_params *params, struct server *server,
                      struct pst_error *error)
{
  struct pst_node_params node = params->node;

  node.messages = SERVER_WINDOW;
  node.depth = 4 * SERVER_WINDOW;
  node.pieces = (uint32_t)params->pieces;
  node.offers = SERVER_OFFERS;
  *server = (struct server){.params = params, .root = -1};
  if (params->root && (server->root = serve_root_open(params->root)) < 0)
    return app_log_fail(error, PST_EXIT_USAGE, server->root, "serve: --root %s: %s; %s",
                        params->root, strerror(-server->root),
                        app_errno_hint_folder(-server->root));
  int rc = serve_io_open(&server->io);
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "serve: no way to read files: %s",
                        strerror(-rc));
  rc = pst_node_open(&node, &server->node, error);
  return rc < 0 ? rc : serve_server_open_stores(server, error);
}

/* ---- The loop -------------------------------------------------------------------------- */

/* Hands an event of the node to the client that it concerns. */
static void serve_server_take_event(struct server *server, const struct pst_node_event *event)
{
  /* Not event->context: events that came with JOINED were made before it was set. */
  struct client *client = pst_peer_context(event->peer);

  if (event->kind == PST_NODE_JOINED) {
    serve_client_joined(server, event->peer);
    return;
  }
  if (!client) /* one that left before it had joined */
    return;
  switch (event->kind) {
  case PST_NODE_LEFT:
    serve_client_left(client, event->status, event->text);
    server->stopping |= server->params->once;
    break;
  case PST_NODE_MESSAGE:
    serve_client_message(client, event->bytes, event->length);
    break;
  case PST_NODE_ROOM:
    serve_job_posts(client);
    serve_job_flush_answers(client);
    break;
  case PST_NODE_DONE:
    serve_job_done((struct job *)(uintptr_t)event->cookie, event->status);
    break;
  default:
    break;
  }
}

/* How many things there were, or -errno: the device has failed. */
static int serve_server_take_all(struct server *server)
{
  struct pst_node_event events[EVENTS];
  struct io_request *request;
  int n = pst_node_poll(server->node, events, EVENTS);

  for (int i = 0; i < n; i++)
    serve_server_take_event(server, &events[i]);
  while (n >= 0 && (request = serve_io_poll(server->io))) {
    serve_job_io_ended(FROM(struct job, io, request));
    n++;
  }
  for (int i = 0; n >= 0 && i < 2; i++)
    n += serve_patterns_poll(&server->stores[i].patterns);
  /* More to post is more to do. */
  return n >= 0 && serve_job_post_some(server) ? n + 1 : n;
}

/* publish_ns: when metrics are due; 0: never. */
static void serve_server_sleep_until(struct server *server, int event_fd, uint64_t until,
                                     uint64_t publish_ns)
{
  struct pollfd fds[] = {{.fd = serve_io_event_fd(server->io), .events = POLLIN},
                         {.fd = event_fd, .events = POLLIN},
                         {.fd = pst_node_fd(server->node), .events = POLLIN}};
  int armed = pst_node_arm(server->node);
  uint64_t now = app_now_ns();

  if (!server->clients) /* nobody can be idle */
    until = server->trim_ns;
  if (publish_ns != 0 && (until == 0 || publish_ns < until))
    until = publish_ns;
  int left = until > now ? (int)((until - now) / NS_PER_MS) + 1 : 0;
  if (until == 0)
    left = -1;

  if (armed == -EAGAIN)
    return;
  if (armed < 0)
    left = NAP_MS;
  poll(fds, armed < 0 ? 2 : 3, left);
}

/* After many clients have gone, the allocator would keep their memory. The control channel frees
 * its part later, on a thread of its own: so the memory is given back once a second for a while. */
static void serve_server_give_back(struct server *server, uint64_t now)
{
  bool many_left = server->client_most >= MANY && server->client_count <= server->client_most / 4;
  bool all_left = server->client_count == 0 && server->totals.clients > server->trimmed;

  if (many_left || all_left) {
    server->client_most = server->client_count;
    server->trimmed = server->totals.clients;
    server->trim_ns = now;
    server->trim_until_ns = now + LAST_TRIM_NS;
  }
  if (server->trim_ns == 0 || now < server->trim_ns)
    return;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  server->trim_ns = now < server->trim_until_ns ? now + NS_PER_S : 0;
}

static void serve_server_check_idle(struct server *server, uint64_t now)
{
  struct client *next;

  for (struct client *client = server->clients; client != NULL; client = next) {
    next = client->next;
    serve_client_check_idle(client, now);
  }
}

int serve_server_run(struct server *server, int event_fd)
{
  uint64_t busy = app_now_ns(), check = busy, publish = busy;

  while (!app_signals_stop() && !server->stopping) {
    int n = serve_server_take_all(server);
    if (n < 0)
      return n;
    uint64_t now = app_now_ns();
    if (n > 0 || server->moves->patterns.first)
      busy = now;
    if (now >= check) {
      serve_server_check_idle(server, now);
      check = now + IDLE_CHECK_NS;
    }
    if (server->params->metrics && now >= publish) {
      serve_metrics_publish(server);
      publish = now + NS_PER_S;
    }
    if (now - busy > SPIN_NS) {
      serve_server_give_back(server, now);
      serve_server_sleep_until(server, event_fd, check, server->params->metrics ? publish : 0);
    }
  }
  return 0;
}

/* ---- The end --------------------------------------------------------------------------- */

/* Ends what is under way with clients, and closes their files. */
static void serve_server_part_with_all(struct server *server)
{
  uint64_t deadline = app_now_ns() + LEAVE_NS;

  for (struct client *client = server->clients; client != NULL; client = client->next)
    serve_client_end(client, -ESHUTDOWN, "the server is stopping");
  while (server->clients && app_now_ns() < deadline) {
    uint64_t until = app_now_ns() + NAP_MS * NS_PER_MS;
    int n = serve_server_take_all(server);
    if (n < 0)
      break;
    if (n == 0)
      pst_node_wait(server->node, &until);
  }
  while (server->clients) {
    server->clients->peer = NULL;
    serve_client_left(server->clients, -ESHUTDOWN, "it did not leave in time");
  }
}

void serve_server_close(struct server *server)
{
  struct io_request *request;

  if (server->node)
    serve_server_part_with_all(server);
  while (server->io_under_way > 0) {
    struct pollfd readable = {.fd = serve_io_event_fd(server->io), .events = POLLIN};
    poll(&readable, 1, -1);
    while ((request = serve_io_poll(server->io)))
      serve_job_io_ended(FROM(struct job, io, request));
  }
  for (int i = 0; i < 2; i++)
    while (server->stores[i].patterns.first)
      serve_patterns_poll(&server->stores[i].patterns);
  serve_io_close(server->io);
  pst_node_close(server->node);
  for (int i = 0; i < 2; i++)
    serve_buddy_close(server->stores[i].pool);
  if (server->root >= 0)
    close(server->root);
}
