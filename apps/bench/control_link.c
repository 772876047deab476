/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of a benchmark's two ends: addresses, ports, JSON messages. */
#include "control_link.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "plugin_options.h"
#include "sessions.h"
#include "signals.h"
#include "util/host_port.h"
#include "util/printable.h"

#define NESTING_MAX 8
#define CLIENTS_MAX 64
#define PORTS_TRIED 64
#define EVENTS 16
#define LOOK_NS (50 * NS_PER_MS)   /* how often a signal is looked for */
#define SILENT_NS (10 * NS_PER_S)  /* for which a client may say nothing before it is served */
#define CONNECT_NS (10 * NS_PER_S) /* for which a server may refuse, and then not answer */
#define CONNECT_PAUSE_NS (20 * NS_PER_MS)
#define ROOM_NS (10 * NS_PER_S)
/* A host that vanishes is noticed in some 10 s. */
#define PEER_TIMEOUT_NS (10 * NS_PER_S)

/* ---- Addresses ----------------------------------------------------------------- */

/* With a port, as nodes have it. */
static int bench_link_whole_address(const char *command, const char *where, uint16_t port,
                                    char *address, size_t size, struct pst_error *error)
{
  struct pst_host_port parts;
  char *end = NULL;

  if (strlen(where) > size - 16 || !pst_host_port_split(where, &parts) || parts.host_length == 0 ||
      (parts.port &&
       (parts.port[0] == '\0' || strtoul(parts.port, &end, 10) > UINT16_MAX || *end != '\0')))
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "%s: '%.256s' is not an address; write HOST, HOST:PORT or [IPV6]:PORT",
                        command, where);
  const bool is_v6 = memchr(parts.host, ':', parts.host_length) != NULL;
  int used =
      snprintf(address, size, is_v6 ? "[%.*s]:" : "%.*s:", (int)parts.host_length, parts.host);
  if (parts.port)
    snprintf(address + used, size - (size_t)used, "%s", parts.port);
  else
    snprintf(address + used, size - (size_t)used, "%u", port);
  return 0;
}

/* 0: it is taken. `wanted` 0: any. */
static uint16_t bench_link_bind_port(const char *host, uint16_t wanted)
{
  struct sockaddr_storage address = {.ss_family = AF_INET};
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
  socklen_t length = sizeof(address);
  char bare[72], service[8];
  uint16_t port = 0;

  snprintf(bare, sizeof(bare), "%s", host[0] == '[' ? host + 1 : host);
  bare[strcspn(bare, "]")] = '\0';
  snprintf(service, sizeof(service), "%u", wanted);
  if (getaddrinfo(bare, service, &hints, &found) != 0)
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

uint16_t bench_link_free_port(const char *host)
{
  return bench_link_bind_port(host, 0);
}

uint16_t bench_link_free_ports(const char *host)
{
  uint16_t port = 0;

  for (int i = 0; i < PORTS_TRIED; i++) {
    port = bench_link_bind_port(host, 0);
    if (port < UINT16_MAX && bench_link_bind_port(host, (uint16_t)(port + 1)) != 0)
      break;
  }
  return port;
}

static void bench_link_copy_host(char host[72], const char *place)
{
  const char *colon = strrchr(place, ':');

  snprintf(host, 72, "%.*s", (int)(colon ? (size_t)(colon - place) : strlen(place)), place);
}

/* ---- Objects --------------------------------------------------------------------- */

struct json_object *bench_link_object(const char *key, struct json_object *value)
{
  struct json_object *object = json_object_new_object();

  json_object_object_add(object, key, value);
  return object;
}

const char *bench_link_text(struct json_object *object, const char *key)
{
  struct json_object *member = NULL;

  json_object_object_get_ex(object, key, &member);
  return json_object_is_type(member, json_type_string) ? json_object_get_string(member) : "";
}

uint64_t bench_link_number(struct json_object *object, const char *key)
{
  struct json_object *member = NULL;

  json_object_object_get_ex(object, key, &member);
  return json_object_is_type(member, json_type_int) ? json_object_get_uint64(member) : 0;
}

static bool bench_link_clean(struct json_object *value);

static void bench_link_clean_text(struct json_object *value)
{
  const char *text = json_object_get_string(value);
  const int length = json_object_get_string_len(value);
  size_t bytes;

  if (!pst_unprintable(text, (size_t)length, &bytes))
    return;
  char *copy = strndup(text, (size_t)length);
  if (copy)
    pst_make_printable(copy, strlen(copy), '?');
  json_object_set_string(value, copy ? copy : "");
  free(copy);
}

static bool bench_link_clean_members(struct json_object *object)
{
  size_t bytes;

  json_object_object_foreach(object, key, member)
  {
    if (pst_unprintable(key, strlen(key), &bytes) || !bench_link_clean(member))
      return false;
  }
  return true;
}

/* Makes texts printable UTF-8. False: there is a number that JSON has not, as NaN, or a key that is
 * no name. */
static bool bench_link_clean(struct json_object *value)
{
  switch (json_object_get_type(value)) {
  case json_type_double:
    return isfinite(json_object_get_double(value));
  case json_type_string:
    bench_link_clean_text(value);
    return true;
  case json_type_array:
    for (size_t i = 0; i < json_object_array_length(value); i++)
      if (!bench_link_clean(json_object_array_get_idx(value, i)))
        return false;
    return true;
  case json_type_object:
    return bench_link_clean_members(value);
  default:
    return true;
  }
}

struct json_object *bench_link_parse(const struct pst_node_event *event)
{
  struct json_tokener *tokener = json_tokener_new_ex(NESTING_MAX);
  struct json_object *object =
      tokener ? json_tokener_parse_ex(tokener, event->bytes, (int)event->length) : NULL;

  if (!json_object_is_type(object, json_type_object) || !bench_link_clean(object)) {
    json_object_put(object);
    object = NULL;
  }
  if (tokener)
    json_tokener_free(tokener);
  return object;
}

int bench_link_post(struct pst_peer *peer, struct json_object *object)
{
  const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);

  if (!object || !text)
    return -ENOMEM;
  return peer ? pst_peer_send(peer, text, strlen(text)) : -ENOTCONN;
}

/* ---- Events --------------------------------------------------------------------- */

static void bench_link_join(struct control_link *link, struct pst_peer *far)
{
  struct pst_peer_info info = {.struct_size = sizeof(info)};

  link->far = far;
  link->has_joined = true;
  link->since_ns = app_now_ns();
  if (pst_peer_info(far, &info) < 0)
    return;
  snprintf(link->peer, sizeof(link->peer), "%s", info.remote);
  bench_link_copy_host(link->local, info.local);
  bench_link_copy_host(link->remote, info.remote);
}

static void bench_link_admit(struct control_link_server *server, struct pst_peer *far)
{
  struct control_link *link = calloc(1, sizeof(*link)), **at = &server->waiting;

  if (!link) {
    pst_peer_close(far, -ENOMEM, "the server is out of memory");
    return;
  }
  link->server = server;
  link->node = server->node;
  bench_link_join(link, far);
  pst_peer_set_context(far, link);
  while (*at)
    at = &(*at)->next;
  *at = link;
}

static void bench_link_leave(struct control_link *link, int code, const char *text)
{
  link->far = NULL;
  if (link->code == 0)
    link->code = code < 0 ? code : -ECONNRESET;
  snprintf(link->text, sizeof(link->text), "%s", text);
}

static void bench_link_hang_up(struct control_link *link, int code, const char *text)
{
  if (link->far)
    pst_peer_close(link->far, code, text);
  link->code = code;
  link->is_wrong = code == -EPROTO;
}

static void bench_link_hear(struct control_link *link, const struct pst_node_event *event)
{
  struct json_object *object = bench_link_parse(event);

  if (object && link->count < LINK_QUEUE) {
    link->said[(link->first + link->count++) % LINK_QUEUE] = object;
    return;
  }
  bench_link_hang_up(link, -EPROTO,
                     object ? "it sent more than was requested" : "a message is not a JSON object");
  json_object_put(object);
}

static void bench_link_poll_node(struct pst_node *node, struct control_link_server *server)
{
  struct pst_node_event events[EVENTS];
  int got = pst_node_poll(node, events, EVENTS);

  for (int i = 0; i < got; i++) {
    struct control_link *link = pst_peer_context(events[i].peer);
    if (events[i].kind == PST_NODE_JOINED && server)
      bench_link_admit(server, events[i].peer);
    else if (!link)
      continue; /* it was closed here */
    else if (events[i].kind == PST_NODE_JOINED)
      bench_link_join(link, events[i].peer);
    else if (events[i].kind == PST_NODE_MESSAGE)
      bench_link_hear(link, &events[i]);
    else if (events[i].kind == PST_NODE_LEFT)
      bench_link_leave(link, events[i].status, events[i].text);
  }
}

static void bench_link_wait_node(struct pst_node *node, uint64_t ns)
{
  const uint64_t until_ns = app_now_ns() + ns;

  pst_node_wait(node, &until_ns);
}

/* ---- Opening -------------------------------------------------------------------- */

static int bench_link_open_node(const char *listen, const struct link_access *access, int cpu,
                                uint32_t peers, struct pst_node **node, struct pst_error *error)
{
  const struct pst_node_params params = {.struct_size = sizeof(params),
                                         .insecure = access && access->insecure,
                                         .tls = access ? access->tls : NULL,
                                         .listen = listen,
                                         .transport = "none",
                                         .peers = peers,
                                         .messages = LINK_QUEUE,
                                         .message_max = LINK_MESSAGE_MAX,
                                         .connect_timeout_ns = CONNECT_NS,
                                         .peer_timeout_ns = PEER_TIMEOUT_NS,
                                         .origins = &app_setting_origins};
  cpu_set_t pinned;

  bench_unpin(cpu, &pinned);
  int rc = pst_node_open(&params, node, error);
  bench_repin(cpu, &pinned);
  return rc;
}

int bench_link_listen_for(const char *command, const char *where, uint16_t port,
                          const struct link_access *access, int cpu, uint32_t clients,
                          struct control_link_server *server, struct pst_error *error)
{
  char address[300];
  int rc = bench_link_whole_address(command, where, port, address, sizeof(address), error);

  *server = (struct control_link_server){.node = NULL};
  return rc < 0 ? rc : bench_link_open_node(address, access, cpu, clients, &server->node, error);
}

int bench_link_listen(const char *command, const char *where, uint16_t port,
                      const struct link_access *access, int cpu, struct control_link_server *server,
                      struct pst_error *error)
{
  return bench_link_listen_for(command, where, port, access, cpu, CLIENTS_MAX, server, error);
}

static void bench_link_free(struct control_link *link)
{
  for (; link->count > 0; link->count--)
    json_object_put(link->said[link->first++ % LINK_QUEUE]);
  free(link);
}

void bench_link_unlisten(struct control_link_server *server)
{
  while (server->waiting) {
    struct control_link *link = server->waiting;
    server->waiting = link->next;
    bench_link_free(link);
  }
  pst_node_close(server->node);
}

/* Returns the first client that says something; those that have left, or say nothing, are
 * closed. */
static struct control_link *bench_link_first_that_speaks(struct control_link_server *server)
{
  for (struct control_link **at = &server->waiting; *at != NULL;) {
    struct control_link *link = *at;
    bool is_silent = link->count == 0 && app_now_ns() - link->since_ns >= SILENT_NS;
    if (link->count == 0 && link->far && !is_silent) {
      at = &link->next;
      continue;
    }
    *at = link->next;
    link->next = NULL;
    if (link->count > 0)
      return link;
    bench_link_close(link);
  }
  return NULL;
}

int bench_link_take(struct control_link_server *server, uint64_t timeout_ns,
                    struct control_link **link)
{
  bench_link_poll_node(server->node, server);
  *link = bench_link_first_that_speaks(server);
  if (!*link) {
    bench_link_wait_node(server->node, timeout_ns);
    bench_link_poll_node(server->node, server);
    *link = bench_link_first_that_speaks(server);
  }
  return *link ? 0 : -EAGAIN;
}

/* Until it has joined or left. The node ends an attempt that takes too long. */
static int bench_link_connect_once(struct control_link *link, const char *address,
                                   struct pst_error *error)
{
  link->code = 0;
  link->text[0] = '\0';
  int rc = pst_node_connect(link->node, address, &link->far, error);

  if (rc < 0)
    return rc;
  pst_peer_set_context(link->far, link);
  while (!link->has_joined && link->far && !app_signals_stop()) {
    bench_link_poll_node(link->node, NULL);
    if (!link->has_joined && link->far)
      bench_link_wait_node(link->node, LOOK_NS);
  }
  return link->has_joined ? 0 : !link->far ? link->code : -EINTR;
}

/* Connects, and tries again for CONNECT_NS while nothing listens. 0, or -errno with *error
 * reported. */
static int bench_link_wait_for_server(struct control_link *link, const char *command,
                                      const char *where, const char *address,
                                      struct pst_error *error)
{
  const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_NS};
  uint64_t until_ns = app_now_ns() + CONNECT_NS;
  bool told = false;
  int rc;

  while ((rc = bench_link_connect_once(link, address, error)) == -ECONNREFUSED &&
         error->code == 0 && !app_signals_stop() && app_now_ns() < until_ns) {
    if (!told)
      app_log(PST_LOG_INFO, "waiting for a server at %s (%s)", where, strerror(-rc));
    told = true;
    nanosleep(&pause, NULL);
  }
  if (rc == 0 || error->code != 0)
    return rc;
  if (app_signals_stop())
    return app_log_fail(error, PST_EXIT_FAILED, -EINTR,
                        "%s: stopped by %s while it waited for a server at %s", command,
                        app_signals_name(), where);
  if (rc == -ECONNREFUSED)
    return app_log_fail(error, PST_EXIT_FAILED, rc,
                        "%s: no server at %s (%s); start one there: penstock %s --server "
                        "with the same --transport",
                        command, where, strerror(-rc), command);
  const bool is_silent = rc == -ECONNRESET || rc == -ETIMEDOUT;
  if (is_silent && !strstr(link->text, " says: "))
    return app_log_fail(
        error, PST_EXIT_FAILED, rc,
        "%s: cannot talk to the server: %s; is a `penstock %s --server` running there?", command,
        link->text, command);
  return app_log_fail(error, PST_EXIT_FAILED, rc, "%s: cannot talk to the server: %s", command,
                      link->text);
}

int bench_link_connect(const char *command, const char *where, uint16_t port,
                       const struct link_access *access, int cpu, struct control_link **link,
                       struct pst_error *error)
{
  char address[300];
  int rc = bench_link_whole_address(command, where, port, address, sizeof(address), error);
  struct control_link *made = rc == 0 ? calloc(1, sizeof(*made)) : NULL;

  if (rc < 0)
    return rc;
  if (!made)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "%s: out of memory", command);
  rc = bench_link_open_node(NULL, access, cpu, CLIENTS_MAX, &made->node, error);
  if (rc == 0)
    rc = bench_link_wait_for_server(made, command, where, address, error);
  if (rc < 0) {
    bench_link_close(made);
    return rc;
  }
  *link = made;
  return 0;
}

void bench_link_close(struct control_link *link)
{
  if (!link)
    return;
  if (link->far) {
    pst_peer_set_context(link->far, NULL);
    pst_peer_close(link->far, link->code, link->code < 0 ? strerror(-link->code) : NULL);
  }
  if (!link->server)
    pst_node_close(link->node);
  bench_link_free(link);
}

/* ---- Sending and receiving ------------------------------------------------------- */

int bench_link_send(struct control_link *link, struct json_object *object)
{
  const uint64_t until_ns = app_now_ns() + ROOM_NS;
  int rc = -EAGAIN;

  while (rc == -EAGAIN && app_now_ns() < until_ns) {
    rc = bench_link_post(link->far, object);
    if (rc == -EAGAIN) {
      bench_link_poll_node(link->node, link->server);
      bench_link_wait_node(link->node, LOOK_NS);
    }
  }
  json_object_put(object);
  return rc == -EAGAIN || rc == -ENOTCONN ? -ECONNRESET : rc;
}

int bench_link_receive(struct control_link *link, uint64_t timeout_ns, bool heeds_stop,
                       struct json_object **object)
{
  uint64_t until_ns = app_now_ns() + timeout_ns;

  for (;;) {
    if (link->count > 0) {
      *object = link->said[link->first];
      link->first = (link->first + 1) % LINK_QUEUE;
      link->count--;
      return 0;
    }
    if (link->is_wrong)
      return -EPROTO;
    if (!link->far)
      return -ECONNRESET;
    if (heeds_stop && app_signals_stop())
      return -EINTR;
    bench_link_poll_node(link->node, link->server);
    if (link->count > 0 || !link->far)
      continue;
    if (app_now_ns() >= until_ns)
      return -ETIMEDOUT;
    bench_link_wait_node(link->node, LOOK_NS);
  }
}

struct json_object *bench_link_first(const struct control_link *link)
{
  return link->count > 0 ? link->said[link->first] : NULL;
}

int bench_link_look(struct control_link *link)
{
  bench_link_poll_node(link->node, link->server);
  if (link->count > 0)
    return 1;
  return !link->far ? -ECONNRESET : 0;
}
