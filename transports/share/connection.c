/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the router: one request and its answer at a time. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "device.h"

#define WAIT_MS 50 /* a router that is not there is looked for so often */

void share_close_fds(const int *fds, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    close(fds[i]);
}

/* Checks the router's user: it gets the program's memory, and any user could have bound the path.
 */
static int share_check_router(const struct pst_device *device, int fd)
{
  struct ucred router = {0};
  socklen_t length = sizeof(router);

  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &router, &length) != 0)
    return PST_REFUSE(device->host, -errno, "SO_PEERCRED: %s", strerror(errno));
  if (router.uid == 0 || router.uid == geteuid() || router.uid == device->router_uid)
    return 0;
  return PST_REFUSE(device->host, -EACCES,
                    "the router at %s is of user %u, neither root nor this user; if that user may "
                    "have this program's memory, set the option router_uid to %u",
                    device->socket, (unsigned)router.uid, (unsigned)router.uid);
}

/* Makes a socket whose calls wait for `timeout`. Returns its descriptor or -errno. */
static int share_socket(const struct pst_device *device)
{
  const struct timeval patience = {.tv_sec = (time_t)(device->timeout_ns / 1000000000u),
                                   .tv_usec =
                                       (suseconds_t)(device->timeout_ns % 1000000000u / 1000u)};
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

  if (fd < 0 || (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
                 setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0))
    return fd < 0 ? -errno : fd;
  const int code = errno;
  close(fd);
  return -code;
}

static int share_dial(const struct pst_device *device, int fd)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};

  pst_text_write(address.sun_path, sizeof(address.sun_path), device->socket);
  return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : -errno;
}

/* Connects to the router; one that is not there may come within device->wait_ns. 0 or -errno. */
static int share_dial_in_time(const struct pst_device *device)
{
  const struct pst_host *host = device->host;
  const uint64_t begun = host->clock_ns(host);
  bool has_told = false;
  int rc;

  while ((rc = share_dial(device, device->fd)) < 0) {
    if ((rc != -ENOENT && rc != -ECONNREFUSED && rc != -EAGAIN) ||
        host->clock_ns(host) - begun >= device->wait_ns)
      return rc;
    if (!has_told)
      host->log(host, PST_LOG_INFO, "waiting for a router at %s", device->socket);
    has_told = true;
    poll(NULL, 0, WAIT_MS);
  }
  return 0;
}

int share_connect(struct pst_device *device)
{
  device->fd = share_socket(device);
  if (device->fd < 0)
    return PST_REFUSE(device->host, device->fd, "no Unix socket: %s", strerror(-device->fd));
  const int rc = share_dial_in_time(device);
  if (rc < 0)
    return PST_REFUSE(device->host, rc == -EACCES ? rc : -ENODEV, "no router answers at %s: %s; %s",
                      device->socket, strerror(-rc),
                      rc == -EACCES ? "`penstock share --allow UID` lets other users in"
                                    : "start `penstock share`, or correct the option socket");
  return share_check_router(device, device->fd);
}

/* Does not wait for a router whose queue of connections is full. */
int share_connect_again(struct pst_device *device)
{
  const int fd = share_socket(device), flags = fd < 0 ? 0 : fcntl(fd, F_GETFL);
  int rc = fd < 0 ? fd : 0;

  if (rc < 0)
    return rc;
  if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    rc = -errno;
  if (rc == 0)
    rc = share_dial(device, fd);
  if (rc == 0)
    rc = share_check_router(device, fd);
  if (rc == 0 && fcntl(fd, F_SETFL, flags) != 0)
    rc = -errno;
  if (rc == 0) {
    /* The number stays: other threads look at it. */
    pthread_mutex_lock(&device->lock);
    if (dup3(fd, device->fd, O_CLOEXEC) < 0)
      rc = -errno;
    pthread_mutex_unlock(&device->lock);
  }
  close(fd);
  return rc;
}

/* Leaves the state UP of this connection, once; link 0: of any. Whether this call did so. */
static bool share_leave(struct pst_device *device, uint32_t link, enum share_state next)
{
  int up = SHARE_UP;

  if (!atomic_compare_exchange_strong(&device->state, &up, (int)SHARE_TRYING))
    return false;
  if (link && link != atomic_load(&device->link)) { /* a new router serves already */
    atomic_store(&device->state, SHARE_UP);
    return false;
  }
  const uint64_t now = device->host->clock_ns(device->host);
  shutdown(device->fd, SHUT_RDWR);
  atomic_store(&device->link, 0);
  atomic_store(&device->away_ns, now);
  atomic_store(&device->try_ns, now);
  atomic_store(&device->state, (int)next);
  return true;
}

/* Shuts the connection down: the router counts as gone. `link`: as for share_leave(). */
static int share_lose(struct pst_device *device, uint32_t link, const char *why)
{
  const bool returns = device->reconnect_ns && !atomic_load(&device->is_wrong);

  if (!share_leave(device, link, returns ? SHARE_AWAY : SHARE_ENDED))
    return -ENOTCONN;
  if (returns)
    device->host->log(device->host, PST_LOG_WARN,
                      "the router at %s %s; waiting %.1f s for it to be started again",
                      device->socket, why, (double)device->reconnect_ns / 1e9);
  else
    device->host->log(device->host, PST_LOG_ERROR,
                      "the router at %s %s; its clients end. Start `penstock share` again, then "
                      "this program",
                      device->socket, why);
  return -ENOTCONN;
}

int share_distrust(struct pst_device *device)
{
  atomic_store(&device->is_wrong, true);
  return share_lose(device, 0, "breaks the protocol");
}

int share_end(struct pst_device *device)
{
  share_leave(device, 0, SHARE_ENDED);
  return -ENOTCONN;
}

bool share_connection_is_up(struct pst_device *device)
{
  const uint32_t link = atomic_load(&device->link); /* first: the descriptor stays */
  struct pollfd look = {.fd = device->fd, .events = 0};

  if (poll(&look, 1, 0) < 1 || !(look.revents & (POLLHUP | POLLERR)))
    return true;
  if (link)
    share_lose(device, link, "has ended, or has disconnected this client");
  return false;
}

static int share_write(const struct share_call *call)
{
  struct pst_device *device = call->device;

  device->out.request = *call->request;
  device->out.request.version = PST_SHARE_VERSION;
  if (call->request->length)
    memcpy(device->out.bytes, call->bytes, call->request->length);
  return pst_share_send(device->fd, &device->out,
                        sizeof(device->out.request) + call->request->length, call->fds,
                        call->fd_count);
}

/* Receives a reply. 0, or -errno: nothing, too much or a wrong length has come. */
static int share_read(struct share_call *call)
{
  struct pst_device *device = call->device;
  const int64_t got = pst_share_receive(device->fd, &device->in, sizeof(device->in),
                                        call->reply_fds, &call->reply_fd_count);

  if (got <= 0)
    return got < 0 ? (int)got : -ECONNRESET;
  if ((size_t)got < sizeof(device->in.reply) ||
      device->in.reply.length != (size_t)got - sizeof(device->in.reply))
    return -EPROTO;
  return 0;
}

/* Does the router serve, and has it what the call is about? */
static bool share_call_is_possible(const struct share_call *call)
{
  const uint32_t link = atomic_load(&call->device->link);

  return (link || call->restores) && (!call->link || call->link == link);
}

static int share_call_locked(struct share_call *call)
{
  struct pst_device *device = call->device;

  if (!share_call_is_possible(call)) /* the router may have ended meanwhile */
    return -ENOTCONN;
  int rc = share_write(call);
  if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
    rc = share_read(call);
  if (rc == -ECONNRESET) /* a router that refuses has answered before it hung up */
    rc = share_read(call);
  if (rc < 0)
    return share_lose(device, 0,
                      rc == -EAGAIN ? "has not answered in time (option timeout)"
                                    : "has ended, or has disconnected this client");
  call->reply = device->in.reply;
  call->reply.text[sizeof(call->reply.text) - 1] = '\0';
  if (call->reply.length > call->reply_room && call->reply.status >= 0 && !call->is_cut)
    return PST_REFUSE(device->host, -ENOSPC,
                      "the router's answer has %u bytes, there is room for "
                      "%u",
                      call->reply.length, call->reply_room);
  if (call->reply.length > call->reply_room)
    call->reply.length = call->reply_room;
  if (call->reply.length)
    memcpy(call->reply_bytes, device->in.bytes, call->reply.length);
  return 0;
}

/* Whether a router has refused to restore with this reason already: it is asked again and again. */
static bool share_has_refused(struct pst_device *device, const char *why)
{
  if (strcmp(device->refusal, why) == 0)
    return true;
  pst_text_write(device->refusal, sizeof(device->refusal), why);
  return false;
}

int share_call(struct share_call *call)
{
  struct pst_device *device = call->device;

  call->reply_fd_count = 0;
  if (call->request->length > PST_SHARE_BYTES)
    return -EMSGSIZE;
  if (!share_call_is_possible(call))
    return -ENOTCONN;
  pthread_mutex_lock(&device->lock);
  int rc = share_call_locked(call);
  pthread_mutex_unlock(&device->lock);
  /* Callers take a status above 0 neither for success nor for a failure. */
  if (rc == 0 && call->reply.status > 0 && call->request->call != PST_SHARE_COUNTERS &&
      call->request->call != PST_SHARE_DESCRIBE)
    rc = share_distrust(device);
  if (rc < 0) {
    share_close_fds(call->reply_fds, call->reply_fd_count);
    call->reply_fd_count = 0;
    return rc;
  }
  if (call->reply.status < 0 && call->reply.status != -EOPNOTSUPP && call->reply.text[0] &&
      !(call->restores && share_has_refused(device, call->reply.text)))
    device->host->log(device->host, PST_LOG_ERROR, "the router: %s", call->reply.text);
  return call->reply.status;
}

void share_path_write(struct pst_path_info *path, const struct pst_path_info *found)
{
  struct pst_path_info own = *found;

  own.via[sizeof(own.via) - 1] = own.carrier[sizeof(own.carrier) - 1] = '\0';
  own.reason[sizeof(own.reason) - 1] = '\0';
  /* For the router it is memory within one process, for clients between processes. */
  if (strcmp(own.carrier, "memory") == 0)
    pst_text_write(own.carrier, sizeof(own.carrier), "shm");
  if (path)
    pst_struct_write(path, &own, sizeof(own));
}

int share_ask(struct share_call *call)
{
  const int rc = share_call(call);

  share_close_fds(call->reply_fds, call->reply_fd_count);
  call->reply_fd_count = 0;
  return rc;
}
