/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the last page by libmicrohttpd. */
#include "server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "signals.h"

#ifndef HAVE_MICROHTTPD

int metrics_server_open(const struct arguments *arguments, struct metrics_server **server,
                        struct pst_error *error)
{
  *server = NULL;
  return !arguments->metrics
             ? 0
             : app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                            "--metrics: this build has no libmicrohttpd; build with "
                            "libmicrohttpd-dev installed and without -Dmetrics=disabled");
}

void metrics_server_publish(struct metrics_server *server, struct metrics_page *page)
{
  (void)server;
  metrics_page_free(page);
}

void metrics_server_close(struct metrics_server *server)
{
  (void)server;
}

#else

#include <microhttpd.h>

/* Bounds of what clients can take: connections at a time, the age of one, bytes of a request.
 * Beyond CROWDED connections each new one ends the oldest, so that no client keeps others out. */
#define CONNECTIONS 64
#define CROWDED 16
#define CONNECTION_NS (5 * NS_PER_S)
#define REQUEST_BYTES 8192
#define LOOK_NS (50 * NS_PER_MS) /* for a signal, while the last page waits */

struct server_connection {
  int fd; /* -1: free */
  bool is_ended;
  uint64_t until_ns;
};

struct metrics_server {
  struct MHD_Daemon *daemon;
  int epoll_fd, listen_fd, wake_fd;
  pthread_t thread;
  uint64_t wait_ns;
  struct server_connection connections[CONNECTIONS]; /* of the thread alone */
  pthread_mutex_t lock;                              /* over what follows */
  pthread_cond_t fetched_one;
  struct MHD_Response *page; /* NULL: none yet */
  uint64_t published;        /* pages */
  uint64_t fetched;          /* the newest of them that a client has had whole */
  bool is_ending;
};

static void server_wake(struct metrics_server *server)
{
  const uint64_t one = 1;
  ssize_t written = write(server->wake_fd, &one, sizeof(one));
  (void)written; /* a full counter wakes all the same */
}

/* ---- Requests, by the server's thread --------------------------------------- */

static enum MHD_Result server_answer_text(struct MHD_Connection *connection, unsigned status,
                                          const char *text)
{
  struct MHD_Response *response = MHD_create_response_from_buffer(
      strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);

  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  enum MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

/* *request: the number of the page that is its answer; 0: none that counts as fetched. */
static enum MHD_Result server_answer(void *context, struct MHD_Connection *connection,
                                     const char *url, const char *method, const char *version,
                                     const char *data, size_t *data_size, void **request)
{
  struct metrics_server *server = context;
  enum MHD_Result queued;

  (void)version;
  (void)data;
  *data_size = 0;
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return server_answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
  if (strcmp(url, "/metrics") != 0)
    return server_answer_text(connection, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n");
  pthread_mutex_lock(&server->lock);
  if (server->page) {
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0)
      *request = (void *)(uintptr_t)server->published;
    queued = MHD_queue_response(connection, MHD_HTTP_OK, server->page);
  } else {
    queued = server_answer_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no values yet\n");
  }
  pthread_mutex_unlock(&server->lock);
  return queued;
}

static void server_answered(void *context, struct MHD_Connection *connection, void **request,
                            enum MHD_RequestTerminationCode how)
{
  struct metrics_server *server = context;
  const uint64_t page = (uint64_t)(uintptr_t)*request;

  (void)connection;
  if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
    return;
  pthread_mutex_lock(&server->lock);
  if (page > server->fetched)
    server->fetched = page;
  pthread_cond_signal(&server->fetched_one);
  pthread_mutex_unlock(&server->lock);
}

/* The library sees that, and closes it. */
static void server_end(struct server_connection *connection)
{
  shutdown(connection->fd, SHUT_RDWR);
  connection->is_ended = true;
}

static void server_note_connection(void *context, struct MHD_Connection *connection, void **unused,
                                   enum MHD_ConnectionNotificationCode code)
{
  struct metrics_server *server = context;
  const bool is_new = code == MHD_CONNECTION_NOTIFY_STARTED;
  const int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  struct server_connection *oldest = NULL, *at = NULL;
  unsigned count = 0;

  (void)unused;
  for (int i = 0; i < CONNECTIONS; i++) {
    struct server_connection *each = &server->connections[i];
    if (each->fd == (is_new ? -1 : fd))
      at = each;
    if (each->fd < 0 || each->is_ended)
      continue;
    count++;
    if (!oldest || each->until_ns < oldest->until_ns)
      oldest = each;
  }
  if (is_new && count >= CROWDED)
    server_end(oldest);
  if (at)
    *at = (struct server_connection){.fd = is_new ? fd : -1,
                                     .until_ns = app_now_ns() + CONNECTION_NS};
}

/* Ends connections that are too old: a client that sends a byte now and then would keep one for
 * ever. *until_ns is lowered to when the next is. */
static void server_end_old(struct metrics_server *server, uint64_t now, uint64_t *until_ns)
{
  for (int i = 0; i < CONNECTIONS; i++) {
    struct server_connection *at = &server->connections[i];
    if (at->fd < 0 || at->is_ended)
      continue;
    if (at->until_ns <= now)
      server_end(at);
    else if (at->until_ns < *until_ns)
      *until_ns = at->until_ns;
  }
}

static bool server_is_ending(struct metrics_server *server)
{
  pthread_mutex_lock(&server->lock);
  bool is_ending = server->is_ending;
  pthread_mutex_unlock(&server->lock);
  return is_ending;
}

static void *server_work(void *context)
{
  struct metrics_server *server = context;

  while (!server_is_ending(server)) {
    MHD_UNSIGNED_LONG_LONG library_ms;
    uint64_t now = app_now_ns(), until_ns = now + 60 * NS_PER_S;
    struct pollfd events[] = {{.fd = server->epoll_fd, .events = POLLIN},
                              {.fd = server->wake_fd, .events = POLLIN}};

    server_end_old(server, now, &until_ns);
    if (MHD_get_timeout(server->daemon, &library_ms) == MHD_YES &&
        now + library_ms * NS_PER_MS < until_ns)
      until_ns = now + library_ms * NS_PER_MS;
    poll(events, 2, (int)((until_ns - now + NS_PER_MS - 1) / NS_PER_MS));
    MHD_run(server->daemon);
  }
  return NULL;
}

/* ---- Opening ---------------------------------------------------------------- */

/* Splits "127.0.0.1:9400" or "[::1]:9400". */
static int server_resolve(const char *text, struct addrinfo **found)
{
  const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                 .ai_socktype = SOCK_STREAM};
  const char *colon = strrchr(text, ':');
  char host[64];
  int length = colon ? (int)(colon - text) : 0;

  if (length == 0 || length >= (int)sizeof(host) || colon[1] == '\0')
    return -EINVAL;
  const bool is_bracketed = text[0] == '[' && colon[-1] == ']';
  snprintf(host, sizeof(host), "%.*s", is_bracketed ? length - 2 : length, text + is_bracketed);
  if (strchr(host, ':') && !is_bracketed)
    return -EINVAL;
  if (strcmp(host, "localhost") == 0)
    strcpy(host, "127.0.0.1");
  return getaddrinfo(host, colon + 1, &hints, found) == 0 ? 0 : -EINVAL;
}

static bool server_is_remote(const struct sockaddr *address)
{
  if (address->sa_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 != 127;
  const struct in6_addr *host = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
  return !IN6_IS_ADDR_LOOPBACK(host) && !(IN6_IS_ADDR_V4MAPPED(host) && host->s6_addr[12] == 127);
}

static int server_listen(const char *text, const struct addrinfo *at, int *listening,
                         struct pst_error *error)
{
  const int yes = 1;
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  if (fd >= 0)
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, CONNECTIONS) < 0) {
    int rc = -errno;
    if (fd >= 0)
      close(fd);
    return app_log_fail(error, PST_EXIT_UNAVAILABLE, rc, "--metrics: cannot listen on %s: %s; %s",
                        text, strerror(-rc),
                        rc == -EADDRINUSE ? "another program has the port: name another one"
                        : rc == -EACCES   ? "ports below 1024 need privileges: name a higher one"
                                          : "name an address of this host (`ip address`)");
  }
  *listening = fd;
  return 0;
}

/* Port 0 is any that is free: says which. */
static void server_say_where(int fd, const char *text)
{
  struct sockaddr_storage address;
  socklen_t length = sizeof(address);
  char host[64], port[16];

  if (getsockname(fd, (struct sockaddr *)&address, &length) == 0 &&
      getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) == 0)
    app_log(PST_LOG_INFO, "metrics: http://%.*s:%s/metrics", (int)(strrchr(text, ':') - text), text,
            port);
}

/* With all signals blocked: they are the main thread's. */
static int server_start(struct metrics_server *server)
{
  sigset_t all, before;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int code = pthread_create(&server->thread, NULL, server_work, server);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (code == 0)
    pthread_setname_np(server->thread, "pst-metrics");
  return -code;
}

static void server_free(struct metrics_server *server)
{
  if (server->daemon)
    MHD_stop_daemon(server->daemon); /* closes the socket that it listens on */
  else if (server->listen_fd >= 0)
    close(server->listen_fd);
  if (server->page)
    MHD_destroy_response(server->page);
  if (server->wake_fd >= 0)
    close(server->wake_fd);
  pthread_mutex_destroy(&server->lock);
  pthread_cond_destroy(&server->fetched_one);
  free(server);
}

static int server_prepare(struct metrics_server *server)
{
  pthread_condattr_t clock;

  for (int i = 0; i < CONNECTIONS; i++)
    server->connections[i].fd = -1;
  pthread_mutex_init(&server->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&server->fetched_one, &clock);
  pthread_condattr_destroy(&clock);
  server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (server->wake_fd < 0)
    return -errno;
  server->daemon = MHD_start_daemon(
      MHD_USE_EPOLL, 0, NULL, NULL, server_answer, server, MHD_OPTION_LISTEN_SOCKET,
      server->listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
      server_answered, server, MHD_OPTION_NOTIFY_CONNECTION, server_note_connection, server,
      MHD_OPTION_END);
  if (!server->daemon)
    return -EIO;
  server->epoll_fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  return server_start(server);
}

static int server_begin(const struct arguments *arguments, int listening,
                        struct metrics_server **out, struct pst_error *error)
{
  struct metrics_server *server = calloc(1, sizeof(*server));
  int rc = -ENOMEM;

  if (server) {
    server->wake_fd = -1;
    server->listen_fd = listening;
    server->wait_ns = arguments->metrics_wait_ns;
    rc = server_prepare(server);
    if (rc < 0)
      server_free(server);
  } else {
    close(listening);
  }
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "--metrics: cannot start the server: %s",
                        strerror(-rc));
  server_say_where(listening, arguments->metrics);
  *out = server;
  return 0;
}

int metrics_server_open(const struct arguments *arguments, struct metrics_server **server,
                        struct pst_error *error)
{
  const char *text = arguments->metrics;
  struct addrinfo *found = NULL;
  int listening = -1;

  *server = NULL;
  if (!text)
    return 0;
  if (server_resolve(text, &found) < 0)
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "--metrics: '%.100s' is not ADDRESS:PORT; write 127.0.0.1:9400 or "
                        "[::1]:9400",
                        text);
  int rc = 0;
  if (server_is_remote(found->ai_addr) && !arguments->metrics_insecure)
    rc = app_log_fail(error, PST_EXIT_USAGE, -EPERM,
                      "--metrics: %s lies beyond loopback, and the metrics have no credentials: "
                      "whoever reaches the port can read them; where the network is trusted, add "
                      "--metrics-insecure",
                      text);
  if (rc == 0)
    rc = server_listen(text, found, &listening, error);
  freeaddrinfo(found);
  return rc < 0 ? rc : server_begin(arguments, listening, server, error);
}

/* ---- Publishing and closing --------------------------------------------------- */

void metrics_server_publish(struct metrics_server *server, struct metrics_page *page)
{
  struct MHD_Response *response = NULL, *older;
  size_t length = 0;

  if (!server) {
    metrics_page_free(page);
    return;
  }
  char *text = metrics_page_text(page, &length);
  if (text)
    response = MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
  if (!response) {
    free(text);
    return; /* what was published before stays */
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                          "text/plain; version=0.0.4; charset=utf-8");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  pthread_mutex_lock(&server->lock);
  older = server->page;
  server->page = response;
  server->published++;
  pthread_mutex_unlock(&server->lock);
  if (older)
    MHD_destroy_response(older);
}

static void server_wait_until(struct metrics_server *server, uint64_t until_ns)
{
  const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                 .tv_nsec = (long)(until_ns % NS_PER_S)};

  pthread_cond_timedwait(&server->fetched_one, &server->lock, &until);
}

/* A signal ends the wait, unless the signal came before: that one has ended the run. */
static void server_await_fetch(struct metrics_server *server)
{
  const bool was_stopped = app_signals_stop();
  const uint64_t until_ns = app_now_ns() + server->wait_ns;
  uint64_t now;

  app_log(PST_LOG_INFO, "metrics: waiting up to %.3g s for the last values to be fetched",
          (double)server->wait_ns / 1e9);
  pthread_mutex_lock(&server->lock);
  while (server->fetched < server->published && (now = app_now_ns()) < until_ns &&
         (was_stopped || !app_signals_stop()))
    server_wait_until(server, until_ns - now < LOOK_NS ? until_ns : now + LOOK_NS);
  pthread_mutex_unlock(&server->lock);
}

void metrics_server_close(struct metrics_server *server)
{
  if (!server)
    return;
  if (server->wait_ns > 0 && server->page)
    server_await_fetch(server);
  pthread_mutex_lock(&server->lock);
  server->is_ending = true;
  pthread_mutex_unlock(&server->lock);
  server_wake(server);
  pthread_join(server->thread, NULL);
  server_free(server);
}

#endif
