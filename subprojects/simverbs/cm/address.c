/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses as GIDs, and the names of the sockets that stand for them: abstract ones, which go
 * with their process. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cm.h"

enum { FIRST_PORT = 32768, PORTS = 28232, BACKLOG = 1024 }; /* ip_local_port_range */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

socklen_t cm_address_length(const struct sockaddr *address)
{
  return !address                         ? 0
         : address->sa_family == AF_INET  ? sizeof(struct sockaddr_in)
         : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : 0;
}

bool cm_address_read(const struct sockaddr *from, struct cm_address *to)
{
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  if (!cm_address_length(from))
    return false;
  *to = (struct cm_address){.family = from->sa_family};
  if (from->sa_family == AF_INET) {
    memcpy(&v4, from, sizeof(v4));
    to->is_any = v4.sin_addr.s_addr == htonl(INADDR_ANY);
    to->port = v4.sin_port;
    memcpy(to->gid.raw, mapped, sizeof(mapped));
    memcpy(to->gid.raw + sizeof(mapped), &v4.sin_addr, sizeof(v4.sin_addr));
  } else {
    memcpy(&v6, from, sizeof(v6));
    to->is_any = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
    to->port = v6.sin6_port;
    memcpy(to->gid.raw, &v6.sin6_addr, sizeof(to->gid.raw));
  }
  return true;
}

void cm_address_write(const struct cm_address *from, struct sockaddr *to)
{
  if (from->is_any ? from->family == AF_INET : !memcmp(from->gid.raw, mapped, sizeof(mapped))) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = from->port};
    if (!from->is_any)
      memcpy(&v4.sin_addr, from->gid.raw + sizeof(mapped), sizeof(v4.sin_addr));
    memcpy(to, &v4, sizeof(v4));
    return;
  }
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = from->port};
  memcpy(&v6.sin6_addr, from->gid.raw, sizeof(v6.sin6_addr));
  memcpy(to, &v6, sizeof(v6));
}

/* ---- names ---- */

/* A fabric is its file, whatever the path. */
static int cm_address_make_name(unsigned host, const union ibv_gid *gid, __be16 port,
                                struct sockaddr_un *name, socklen_t *length)
{
  const char *file = getenv("PENSTOCK_SIMVERBS_FABRIC");
  char address[INET6_ADDRSTRLEN] = "*";
  struct stat st;
  if (!file || stat(file, &st))
    return ENODEV;
  if (gid)
    inet_ntop(AF_INET6, gid->raw, address, sizeof(address));
  memset(name, 0, sizeof(*name));
  name->sun_family = AF_UNIX;
  int n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "simverbs-cm/%lx-%lx/%u/%s/%u",
                   (unsigned long)st.st_dev, (unsigned long)st.st_ino, host, address, ntohs(port));
  *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  return 0;
}

static int cm_address_make_socket(void)
{
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* A socket of that name; negative errno. */
static int cm_address_hold(unsigned host, const union ibv_gid *gid, __be16 port)
{
  struct sockaddr_un name;
  socklen_t length;
  int error = cm_address_make_name(host, gid, port, &name, &length);
  int fd = error ? -1 : cm_address_make_socket();
  if (fd < 0)
    return error ? -error : -errno;
  if (!bind(fd, (struct sockaddr *)&name, length))
    return fd;
  error = errno;
  close(fd);
  return -error;
}

static bool cm_address_is_held(unsigned host, const union ibv_gid *gid, __be16 port)
{
  int fd = cm_address_hold(host, gid, port);
  if (fd < 0)
    return fd == -EADDRINUSE;
  close(fd);
  return false;
}

/* A port of one address is taken by one of all, and of all by one of any of this host's. */
static bool cm_address_is_taken(const struct cm_id *id, unsigned host, __be16 port)
{
  if (!id->own.is_any)
    return cm_address_is_held(host, NULL, port);
  union ibv_gid gid;
  for (unsigned i = 0; !sim_cm_address(i, &gid); i++) {
    if (cm_address_is_held(host, &gid, port))
      return true;
  }
  return false;
}

static int cm_address_take_port(struct cm_id *id, unsigned host, __be16 port)
{
  if (cm_address_is_taken(id, host, port))
    return EADDRINUSE;
  int fd = cm_address_hold(host, id->own.is_any ? NULL : &id->own.gid, port);
  if (fd < 0)
    return -fd;
  id->name = fd;
  id->own.port = port;
  return 0;
}

int cm_name_take(struct cm_id *id)
{
  unsigned host;
  uint16_t from;
  int error = sim_cm_host(&host);
  if (error)
    return error;
  if (id->own.port)
    return cm_address_take_port(id, host, id->own.port);
  if (getrandom(&from, sizeof(from), 0) != sizeof(from))
    return EAGAIN;
  error = EADDRINUSE;
  for (unsigned i = 0; error == EADDRINUSE && i < PORTS; i++)
    error = cm_address_take_port(id, host, htons((uint16_t)(FIRST_PORT + (from + i) % PORTS)));
  return error;
}

static int cm_address_call(int fd, unsigned host, const union ibv_gid *gid, __be16 port)
{
  struct sockaddr_un name;
  socklen_t length;
  int error = cm_address_make_name(host, gid, port, &name, &length);
  return error ? error : connect(fd, (struct sockaddr *)&name, length) ? errno : 0;
}

int cm_name_call(struct cm_id *id)
{
  const struct cm_address *to = &id->peer_address;
  int fd = cm_address_make_socket();
  if (fd < 0)
    return EAGAIN;
  int error = cm_address_call(fd, id->path.host, &to->gid, to->port);
  if (error == ECONNREFUSED)
    error = cm_address_call(fd, id->path.host, NULL, to->port);
  if (!error && !cm_is_own(fd))
    error = ECONNREFUSED;
  if (error) {
    close(fd);
    return error;
  }
  id->socket = fd;
  cm_watch(fd, id);
  return 0;
}

bool cm_is_own(int fd)
{
  struct ucred who;
  socklen_t length = sizeof(who);
  return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) && who.uid == geteuid();
}

/* ---- rdma_listen ---- */

int rdma_listen(struct rdma_cm_id *p, int backlog)
{
  struct cm_id *id = cm_id_of(p);
  struct sockaddr_in any = {.sin_family = AF_INET};
  pthread_mutex_lock(&cm.lock);
  bool is_new = id->state == CM_IDLE;
  pthread_mutex_unlock(&cm.lock);
  if (is_new && rdma_bind_addr(p, (struct sockaddr *)&any))
    return -1;
  pthread_mutex_lock(&cm.lock);
  int error = id->state == CM_BOUND ? 0 : EINVAL;
  if (!error && listen(id->name, BACKLOG))
    error = errno;
  if (!error) {
    id->state = CM_LISTENING;
    id->backlog = backlog > 0 && backlog < BACKLOG ? (unsigned)backlog : BACKLOG;
    cm_watch(id->name, id);
  }
  pthread_mutex_unlock(&cm.lock);
  return error ? cm_fail(error) : 0;
}
