/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <json-c/json.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "notice.h"
#include "signals.h"

#define NESTING_MAX 8
#define BACKLOG 1024
#define LOOK_NS (50 * NS_PER_MS) /* how often a signal is looked for */
#define CONNECT_NS (10 * NS_PER_S)
#define CONNECT_PAUSE_NS (20 * NS_PER_MS)
/* A host that vanishes is noticed in some 10 s. */
#define KEEPALIVE_IDLE_S 4
#define KEEPALIVE_TIMES 3
#define KEEPALIVE_S 2

/* ---- Addresses ----------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *address)
{
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    return (ntohl(v4->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* Splits in place. */
static int split(char *text, char **host, char **port)
{
  char *colon = strrchr(text, ':');

  *host = text;
  *port = NULL;
  if (text[0] == '[') {
    char *bracket = strchr(text, ']');
    if (bracket == NULL || (bracket[1] != '\0' && bracket[1] != ':'))
      return -EINVAL;
    *bracket = '\0';
    *host = text + 1;
    if (bracket[1] == ':')
      *port = bracket + 2;
  } else if (colon != NULL && strchr(text, ':') == colon) {
    *colon = '\0';
    *port = colon + 1;
  }
  return (*host)[0] == '\0' || (*port != NULL && (*port)[0] == '\0') ? -EINVAL : 0;
}

static int resolve(const char *where, uint16_t port, bool insecure, bool passive,
                   struct addrinfo **found, struct pst_error *error)
{
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                 .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
  char text[256], number[8], *host, *service, *end;

  snprintf(number, sizeof number, "%u", port);
  if (strlen(where) >= sizeof text)
    return notice_fail(error, PST_EXIT_USAGE, -EINVAL, "bench: the address is too long");
  strcpy(text, where);
  if (split(text, &host, &service) < 0 ||
      (service != NULL && (strtoul(service, &end, 10) > UINT16_MAX || *end != '\0')))
    return notice_fail(error, PST_EXIT_USAGE, -EINVAL,
                       "bench: '%s' is no address; write HOST, HOST:PORT or [IPV6]:PORT", where);
  int code = getaddrinfo(host, service != NULL ? service : number, &hints, found);
  if (code != 0)
    return notice_fail(error, PST_EXIT_USAGE, -ENOENT, "bench: %s: %s; check the host's name", host,
                       gai_strerror(code));
  for (const struct addrinfo *at = *found; at != NULL; at = at->ai_next) {
    if (is_loopback(at->ai_addr) || insecure)
      continue;
    freeaddrinfo(*found);
    return notice_fail(error, PST_EXIT_USAGE, -EPERM,
                       "bench: %s is beyond this machine, and nothing there is authenticated or "
                       "encrypted: whoever reaches its port can join or disturb the run; say "
                       "--insecure to allow it",
                       where);
  }
  return 0;
}

static void name_end(const struct sockaddr_storage *address, socklen_t length, char host[64],
                     char text[LINK_ADDRESS_MAX])
{
  char bare[56], port[8];

  if (getnameinfo((const struct sockaddr *)address, length, bare, sizeof bare, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    strcpy(bare, "?");
    strcpy(port, "?");
  }
  snprintf(host, 64, strchr(bare, ':') != NULL ? "[%s]" : "%s", bare);
  if (text != NULL)
    snprintf(text, LINK_ADDRESS_MAX, "%s:%s", host, port);
}

uint16_t link_free_port(const char *host)
{
  struct sockaddr_storage address = {.ss_family = AF_INET};
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
  socklen_t length = sizeof address;
  char bare[64];
  uint16_t port = 0;

  snprintf(bare, sizeof bare, "%s", host[0] == '[' ? host + 1 : host);
  bare[strcspn(bare, "]")] = '\0';
  if (getaddrinfo(bare, "0", &hints, &found) != 0)
    return 0;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(fd, (struct sockaddr *)&address, &length) == 0)
    port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
  if (fd >= 0)
    close(fd);
  freeaddrinfo(found);
  return port;
}

/* ---- Opening -------------------------------------------------------------------- */

static int link_begin(int fd, struct link *link)
{
  *link = (struct link){.fd = fd, .line = malloc(LINK_LINE_MAX)};
  if (link->line == NULL) {
    link_close(link);
    return -ENOMEM;
  }
  return 0;
}

static void set_option(int fd, int level, int name, int value)
{
  setsockopt(fd, level, name, &value, sizeof value); /* an old kernel may lack one */
}

static int link_begin_tcp(int fd, struct link *link)
{
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  int result = link_begin(fd, link);

  if (result < 0)
    return result;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TIMES);
  if (getsockname(fd, (struct sockaddr *)&address, &length) == 0)
    name_end(&address, length, link->local, NULL);
  length = sizeof address;
  if (getpeername(fd, (struct sockaddr *)&address, &length) == 0)
    name_end(&address, length, link->remote, link->peer);
  return 0;
}

int link_pair(int fd, long pid, struct link *link)
{
  int result = link_begin(fd, link);

  if (result == 0) {
    strcpy(link->local, "127.0.0.1");
    strcpy(link->remote, "127.0.0.1");
    if (pid == 0)
      snprintf(link->peer, sizeof link->peer, "another thread");
    else
      snprintf(link->peer, sizeof link->peer, "process %ld", pid);
  }
  return result;
}

int link_listen(const char *where, uint16_t port, bool insecure, struct link_listener *listener,
                struct pst_error *error)
{
  struct addrinfo *found;
  struct sockaddr_storage bound;
  socklen_t length = sizeof bound;
  int result = resolve(where, port, insecure, true, &found, error);

  if (result < 0)
    return result;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0)
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0 ||
      getsockname(fd, (struct sockaddr *)&bound, &length) < 0) {
    result = -errno;
    notice_fail(error, PST_EXIT_UNAVAILABLE, result,
                "bench: cannot listen at %s: %s; another server is running? stop it, or choose "
                "another address of this host or another port",
                where, strerror(errno));
    if (fd >= 0)
      close(fd);
  } else {
    listener->fd = fd;
    listener->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                       : ((struct sockaddr_in *)&bound)->sin_port);
  }
  freeaddrinfo(found);
  return result;
}

int link_take(int fd, struct link *link)
{
  return link_begin_tcp(fd, link);
}

bool link_is_local(int fd)
{
  struct sockaddr_storage local = {0}, remote = {0};
  socklen_t local_size = sizeof local, remote_size = sizeof remote;
  char here[64], there[64];

  if (getsockname(fd, (struct sockaddr *)&local, &local_size) < 0 ||
      getpeername(fd, (struct sockaddr *)&remote, &remote_size) < 0)
    return false;
  name_end(&local, local_size, here, NULL);
  name_end(&remote, remote_size, there, NULL);
  return is_loopback((struct sockaddr *)&remote) || strcmp(here, there) == 0;
}

/* A connected socket, or -errno. */
static int connect_once(const struct addrinfo *at)
{
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), code = 0;
  socklen_t length = sizeof code;

  if (fd < 0)
    return -errno;
  if (connect(fd, at->ai_addr, at->ai_addrlen) < 0)
    code = errno;
  if (code == EINPROGRESS) {
    struct pollfd event = {.fd = fd, .events = POLLOUT};
    code = ETIMEDOUT;
    if (poll(&event, 1, 1000) > 0)
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length);
  }
  if (code == 0)
    return fd;
  close(fd);
  return -code;
}

int link_connect(const char *where, uint16_t port, bool insecure, struct link *link,
                 struct pst_error *error)
{
  const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_NS};
  uint64_t until_ns = now_ns() + CONNECT_NS;
  bool told = false;
  struct addrinfo *found;
  int fd = -ECONNREFUSED, result = resolve(where, port, insecure, false, &found, error);

  if (result < 0)
    return result;
  for (;;) {
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
      fd = connect_once(at);
    if (fd >= 0 || signals_stop() || now_ns() >= until_ns)
      break;
    if (!told)
      notice(PST_LOG_INFO, "waiting for a server at %s (%s)", where, strerror(-fd));
    told = true;
    nanosleep(&pause, NULL);
  }
  freeaddrinfo(found);
  if (fd < 0 && signals_stop())
    return notice_fail(error, PST_EXIT_FAILED, -EINTR,
                       "bench: stopped by %s while it waited for a server at %s", signals_name(),
                       where);
  if (fd < 0)
    return notice_fail(error, PST_EXIT_FAILED, fd,
                       "bench: no server at %s (%s); start one there: penstock bench --server "
                       "with the same --transport",
                       where, strerror(-fd));
  return link_begin_tcp(fd, link);
}

void link_close(struct link *link)
{
  if (link->fd >= 0)
    close(link->fd);
  free(link->line);
  json_object_put(link->returned);
  *link = (struct link){.fd = -1};
}

/* ---- Lines ---------------------------------------------------------------------- */

int link_send(struct link *link, struct json_object *object)
{
  const char *text =
      object != NULL ? json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN) : NULL;
  char *line = NULL;
  int length = text != NULL ? asprintf(&line, "%s\n", text) : -1;
  size_t put = 0;

  json_object_put(object);
  if (length < 0)
    return -ENOMEM;
  while (put < (size_t)length) {
    ssize_t sent = send(link->fd, line + put, (size_t)length - put, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN) {
      struct pollfd event = {.fd = link->fd, .events = POLLOUT};
      if (poll(&event, 1, 1000) > 0)
        continue;
    }
    if (sent < 0)
      break;
    put += (size_t)sent;
  }
  free(line);
  return put == (size_t)length ? 0 : -ECONNRESET;
}

/* One line out of what has been read. -EAGAIN: not yet a whole one. */
static int take_line(struct link *link, struct json_object **object)
{
  char *end = memchr(link->line, '\n', link->filled);

  if (end == NULL)
    return link->filled == LINK_LINE_MAX ? -EPROTO : -EAGAIN;
  struct json_tokener *tokener = json_tokener_new_ex(NESTING_MAX);
  if (tokener == NULL)
    return -ENOMEM;
  size_t length = (size_t)(end - link->line) + 1;
  struct json_object *read = json_tokener_parse_ex(tokener, link->line, (int)length);
  bool whole = json_tokener_get_error(tokener) == json_tokener_success &&
               json_object_is_type(read, json_type_object);
  json_tokener_free(tokener);
  link->filled -= length;
  memmove(link->line, end + 1, link->filled);
  if (!whole) {
    json_object_put(read);
    return -EPROTO;
  }
  *object = read;
  return 0;
}

int link_receive(struct link *link, uint64_t timeout_ns, bool heeds_stop,
                 struct json_object **object)
{
  uint64_t until_ns = now_ns() + timeout_ns;

  if (link->returned != NULL) {
    *object = link->returned;
    link->returned = NULL;
    return 0;
  }
  for (;;) {
    int result = take_line(link, object);
    if (result != -EAGAIN)
      return result;
    struct pollfd event = {.fd = link->fd, .events = POLLIN};
    if (heeds_stop && signals_stop())
      return -EINTR;
    int ready = poll(&event, 1, (int)(LOOK_NS / NS_PER_MS));
    if (ready <= 0) {
      if (now_ns() >= until_ns)
        return -ETIMEDOUT;
      continue;
    }
    ssize_t got =
        recv(link->fd, link->line + link->filled, LINK_LINE_MAX - link->filled, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
      return -ECONNRESET;
    if (got > 0)
      link->filled += (size_t)got;
  }
}

void link_return(struct link *link, struct json_object *object)
{
  json_object_put(link->returned);
  link->returned = object;
}

int link_look(const struct link *link)
{
  char byte;

  if (link->returned != NULL || memchr(link->line, '\n', link->filled) != NULL)
    return 1;
  ssize_t got = recv(link->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

  if (got > 0)
    return 1;
  return got == 0 || (errno != EAGAIN && errno != EINTR) ? -ECONNRESET : 0;
}
