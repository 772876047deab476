/* SPDX-License-Identifier: Apache-2.0 */
/* The router: its plugins, its socket, and who may connect. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/check.h"
#include "router.h"
#include "util/clock.h"
#include "util/log.h"

#define REAP_MS 100                /* how often threads of clients that have left are joined */
#define SHARE_WARN_NS PST_NS_PER_S /* how often a refusal is logged, at most */

/* ---- Clients that come and go -------------------------------------------------------------- */

/* Joins the threads that have ended; all of them once the router closes. */
static void share_reap(struct pst_share *share, bool is_closing)
{
  struct share_client *over = NULL;

  pthread_mutex_lock(&share->lock);
  for (struct share_client **at = &share->clients; *at;) {
    struct share_client *client = *at;
    if (is_closing && !atomic_load(&client->is_over))
      shutdown(client->fd, SHUT_RDWR);
    if (!is_closing && !atomic_load(&client->is_over)) {
      at = &client->next;
      continue;
    }
    *at = client->next;
    client->next = over;
    over = client;
    share->client_count--;
  }
  pthread_mutex_unlock(&share->lock);
  while (over) {
    struct share_client *next = over->next;
    share_client_join(over);
    over = next;
  }
}

void share_count_refusal(struct pst_share *share, const char *why)
{
  const uint64_t now = clock_now_ns();
  uint64_t warned = atomic_load(&share->warned_ns);

  atomic_fetch_add(&share->refused, 1);
  if ((!warned || now - warned >= SHARE_WARN_NS) &&
      atomic_compare_exchange_strong(&share->warned_ns, &warned, now))
    pst_log(PST_LOG_WARN, "share: a client is refused: %s", why);
}

/* Sends the reason to a refused client, which prints it. */
static void share_refuse(struct pst_share *share, int fd, int status, const char *why)
{
  struct pst_share_reply reply = {.status = status};

  snprintf(reply.text, sizeof(reply.text), "%s", why);
  share_count_refusal(share, why);
  if (send(fd, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    pst_log(PST_LOG_DEBUG, "share: the refused client has left: %s", strerror(errno));
  close(fd);
}

/* Waits after accept4() has failed: a connection for which there is no descriptor stays in the
 * queue. */
static void share_accept_failed(struct pst_share *share, int code)
{
  struct pollfd stop = {.fd = share->stop_fd, .events = POLLIN};

  if (code != EMFILE && code != ENFILE && code != ENOMEM && code != ENOBUFS)
    return;
  if (!share->is_short)
    pst_log(PST_LOG_ERROR,
            "share: a client waits, since there is no descriptor for it: %s; raise "
            "`ulimit -n`",
            strerror(code));
  share->is_short = true;
  poll(&stop, 1, REAP_MS);
}

/* Accepts the next connection, and serves it or refuses it with the reason. */
static void share_accept(struct pst_share *share)
{
  struct share_user *user;
  struct ucred peer = {0};
  socklen_t length = sizeof(peer);
  char why[SHARE_WHY_BYTES];
  int rc;
  const int fd = accept4(share->listen_fd, NULL, NULL, SOCK_CLOEXEC);

  if (fd < 0) {
    share_accept_failed(share, errno);
    return;
  }
  share->is_short = false;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      !share_classes_have_user(share, peer.uid)) {
    if (share->params.limits)
      snprintf(why, sizeof(why), "user %u may not use this router; add it to a class of %.150s",
               (unsigned)peer.uid, share->params.limits);
    else
      snprintf(why, sizeof(why),
               "user %u may not use this router; `penstock share --allow %u` lets that user in",
               (unsigned)peer.uid, (unsigned)peer.uid);
    share_refuse(share, fd, -EACCES, why);
  } else if (share->client_count >= share->params.clients) {
    snprintf(why, sizeof(why), "the router serves %u clients already; raise --clients",
             share->params.clients);
    share_refuse(share, fd, -ENOSPC, why);
  } else if ((rc = share_user_join(share, peer.uid, &user, why, sizeof(why))) < 0) {
    share_refuse(share, fd, rc, why);
  } else {
    rc = share_client_start(share, fd, peer.pid, user);
    if (rc < 0) {
      share_user_leave(user);
      pst_log(PST_LOG_ERROR, "share: no thread for a client: %s", strerror(-rc));
    }
  }
}

static void *share_listen_run(void *arg)
{
  struct pst_share *share = arg;
  struct pollfd fds[] = {{.fd = share->listen_fd, .events = POLLIN},
                         {.fd = share->stop_fd, .events = POLLIN}};

  for (;;) {
    const int n = poll(fds, 2, share->clients ? REAP_MS : -1);
    if (n > 0 && fds[1].revents)
      break;
    share_reap(share, false);
    if (n > 0 && fds[0].revents)
      share_accept(share);
  }
  share_reap(share, true);
  return NULL;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static void share_ignore(void *context, const char *option, const char *text)
{
  (void)context, (void)option, (void)text;
}

/* Do addresses of its endpoints, which clients send on, hold keys? */
static bool share_gives_keys(const struct pst_share *share)
{
  const struct facts_query query = {.side = PST_SCOPE_SENDER, .report = share_ignore};
  const struct config_plugin plugin = {.description = share->transport->description,
                                       .options = share->options};
  struct pst_facts facts = {.struct_size = sizeof(facts)};

  plugin_facts(&query, &plugin, &facts);
  return facts.flags & PST_FACTS_SECRET_ADDRESS;
}

/* The options of the router's transport, as on the command line. 0, or -errno, told. */
static int share_load_options(struct pst_share *share, const struct pst_share_params *params,
                              struct pst_error *error)
{
  const struct pst_description *description = share->transport->description;
  char why[256];

  int rc = options_new(description->options, description->option_count, &share->options);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "share: options of transport %s: %s",
                    params->transport, strerror(-rc));
  for (uint32_t i = 0; i < params->setting_count; i++) {
    rc = options_set(share->options, params->settings[i].name, params->settings[i].value, why,
                     sizeof(why));
    if (rc < 0)
      return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "transport %s: option %s: %s",
                      params->transport, params->settings[i].name, why);
  }
  if (share_gives_keys(share))
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "transport %s: with these options endpoints give their peers a key, and a "
                    "router does not know whether the control channels of its clients are "
                    "encrypted; leave `authenticate` out",
                    params->transport);
  for (uint32_t i = 0; i < description->option_count; i++)
    if ((description->options[i].flags & PST_OPTION_REQUIRED) &&
        !options_is_set(share->options, description->options[i].name))
      return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "transport %s needs the option %s",
                      params->transport, description->options[i].name);
  return 0;
}

static int share_load(struct pst_share *share, const struct pst_share_params *params,
                      struct pst_error *error)
{
  int rc = loader_load(PST_KIND_TRANSPORT, params->transport, &share->transport, error);

  if (rc == 0)
    rc = share_load_options(share, params, error);
  if (rc == 0 && params->memory)
    rc = loader_load(PST_KIND_MEMORY, params->memory, &share->memory, error);
  if (rc < 0 || !share->memory)
    return rc;
  rc = share_device_open_first(share);
  if (rc < 0)
    pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
             "share: memory %s does not open: %s; `penstock plugins %s` says what it needs",
             params->memory, strerror(-rc), params->memory);
  return rc;
}

/* Locks a file beside the socket, which shows whether a router lives: a killed one leaves its
 * socket. */
static int share_lock_socket(struct pst_share *share, struct pst_error *error)
{
  char path[sizeof(share->socket) + 8];

  snprintf(path, sizeof(path), "%s.lock", share->socket);
  share->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (share->lock_fd < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -errno,
                    "share: cannot make %s: %s; the folder of --socket must exist, and this user "
                    "must be allowed to write there",
                    path, strerror(errno));
  if (flock(share->lock_fd, LOCK_EX | LOCK_NB) != 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EADDRINUSE,
                    "share: another router serves %s; give this one another --socket",
                    share->socket);
  return 0;
}

/* Removes the socket that a killed router has left, and no other file. Call with the lock. */
static int share_remove_stale(struct pst_share *share, struct pst_error *error)
{
  struct stat file;

  if (lstat(share->socket, &file) != 0)
    return errno == ENOENT ? 0
                           : pst_fail(error, PST_EXIT_UNAVAILABLE, -errno, "share: %s: %s",
                                      share->socket, strerror(errno));
  if (!S_ISSOCK(file.st_mode) || (file.st_uid != geteuid() && geteuid() != 0))
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EEXIST,
                    "share: %s exists, and is no socket of this user; give --socket another path",
                    share->socket);
  unlink(share->socket);
  return 0;
}

/* Makes the socket, and the thread that accepts clients at it. */
static int share_listen(struct pst_share *share, struct pst_error *error)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  /* SO_PEERCRED decides. */
  const mode_t mode = share->params.uid_count || share->params.limits ? 0666 : 0600;

  int rc = share_lock_socket(share, error);
  if (rc == 0)
    rc = share_remove_stale(share, error);
  if (rc < 0)
    return rc;
  memcpy(address.sun_path, share->socket, strlen(share->socket) + 1);
  share->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (share->listen_fd < 0 ||
      bind(share->listen_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
      chmod(share->socket, mode) != 0 || listen(share->listen_fd, 64) != 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -errno, "share: socket %s: %s", share->socket,
                    strerror(errno));
  share->stop_fd = eventfd(0, EFD_CLOEXEC);
  if (share->stop_fd < 0)
    return pst_fail(error, PST_EXIT_FAILED, -errno, "share: eventfd: %s", strerror(errno));
  rc = -pthread_create(&share->thread, NULL, share_listen_run, share);
  if (rc < 0) {
    close(share->stop_fd);
    share->stop_fd = -1;
    return pst_fail(error, PST_EXIT_FAILED, rc, "share: no thread: %s", strerror(-rc));
  }
  return 0;
}

static void share_set_defaults(struct pst_share_params *params)
{
  if (!params->regions || params->regions > SHARE_REGIONS_MAX)
    params->regions = params->regions ? SHARE_REGIONS_MAX : 4096;
  params->endpoints = params->endpoints ? params->endpoints : 1024;
  params->workers = params->workers ? params->workers : 64;
  params->clients = params->clients ? params->clients : 256;
}

int pst_share_open(const struct pst_share_params *params, struct pst_share **share,
                   struct pst_error *error)
{
  struct pst_share *made = calloc(1, sizeof(*made));

  if (!made)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  made->listen_fd = made->lock_fd = made->stop_fd = -1;
  pthread_mutex_init(&made->lock, NULL);
  pthread_mutex_init(&made->lives_lock, NULL);
  pthread_mutex_init(&made->devices_lock, NULL);
  pst_struct_read(&made->params, sizeof(made->params), params);
  share_set_defaults(&made->params);
  int rc = 0;
  if (!made->params.socket || strlen(made->params.socket) >= sizeof(made->socket))
    rc = pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                  "share: the socket's path is missing or longer than %zu bytes",
                  sizeof(made->socket) - 1);
  if (rc == 0) {
    pst_text_write(made->socket, sizeof(made->socket), made->params.socket);
    rc = share_classes_read(made, error);
  }
  if (rc == 0)
    rc = share_load(made, &made->params, error);
  share_users_begin(made);
  if (rc == 0)
    rc = share_listen(made, error);
  if (rc < 0) {
    pst_share_close(made);
    return rc;
  }
  *share = made;
  return 0;
}

void pst_share_stats(struct pst_share *share, struct pst_share_stats *stats)
{
  struct pst_share_stats now = {.struct_size = sizeof(now)};

  now.clients = atomic_load(&share->connected);
  now.served = atomic_load(&share->served);
  now.refused = atomic_load(&share->refused);
  now.expelled = atomic_load(&share->expelled);
  now.regions = atomic_load(&share->regions);
  now.bytes = atomic_load(&share->bytes);
  now.endpoints = atomic_load(&share->endpoints);
  now.requests = atomic_load(&share->requests);
  now.messages = atomic_load(&share->messages);
  pst_struct_write(stats, &now, sizeof(now));
}

void pst_share_close(struct pst_share *share)
{
  static const uint64_t one = 1;

  if (!share)
    return;
  if (share->stop_fd >= 0) {
    if (write(share->stop_fd, &one, sizeof(one)) != sizeof(one))
      pst_log(PST_LOG_ERROR, "share: the listener cannot be stopped: %s", strerror(errno));
    pthread_join(share->thread, NULL);
    close(share->stop_fd);
    unlink(share->socket);
  }
  if (share->listen_fd >= 0)
    close(share->listen_fd);
  if (share->lock_fd >= 0)
    close(share->lock_fd);
  share_device_close_all(share);
  options_free(share->options);
  pthread_mutex_destroy(&share->devices_lock);
  pthread_mutex_destroy(&share->lock);
  pthread_mutex_destroy(&share->lives_lock);
  arena_free(&share->arena);
  free(share);
}
