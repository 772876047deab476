/* SPDX-License-Identifier: Apache-2.0 */
/* A client: its connection, and the thread that answers it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "router.h"
#include "util/closer.h"
#include "util/log.h"

#define OPEN_SECONDS 5 /* for a new connection to open its device */

/* Buffers of the client's thread. */
struct share_packet {
  struct pst_share_request request;
  unsigned char bytes[PST_SHARE_BYTES];
};

struct share_answer {
  struct pst_share_reply reply;
  unsigned char bytes[PST_SHARE_BYTES];
};

/* ---- Calls -------------------------------------------------------------------------------------
 */

/* Reduces the transport's limits to what a client may use. */
static void share_client_narrow(const struct share_class *class, struct pst_limits *limits)
{
  /* Lent memory is the router's own; options for peers without Penstock are known to the client
   * alone. */
  limits->capabilities &= ~(uint64_t)(PST_CAP_LEND | PST_CAP_BARE_RING | PST_CAP_FOREIGN);
  limits->capabilities |= PST_CAP_WAKEUP | PST_CAP_QUEUES;
  if (limits->endpoints_max > PST_SHARE_ENDPOINTS)
    limits->endpoints_max = PST_SHARE_ENDPOINTS;
  if (limits->endpoints_max > class->endpoints)
    limits->endpoints_max = class->endpoints;
  if (limits->requests_max > PST_SHARE_REQUESTS)
    limits->requests_max = PST_SHARE_REQUESTS;
  if (limits->pieces_max > PST_SHARE_PIECES)
    limits->pieces_max = PST_SHARE_PIECES;
  if (limits->slots_max > SHARE_SLOTS_MAX)
    limits->slots_max = SHARE_SLOTS_MAX;
  if (limits->rings_max == 0 || limits->rings_max > class->endpoints)
    limits->rings_max = class->endpoints;
  if (limits->workers_max > class->workers)
    limits->workers_max = class->workers;
}

static uint32_t share_client_lesser(uint32_t asked, uint32_t most)
{
  return asked < most ? asked : most;
}

/* Reduces the client's plan to what it may use. */
static void share_client_plan(const struct share_class *class, const struct pst_plan *asked,
                              struct pst_plan *plan)
{
  pst_struct_read(plan, sizeof(*plan), asked);
  /* Not IN_PROCESS: the client is another process, and its memory needs guards. */
  plan->flags = (plan->flags & PST_PLAN_PEERS) | PST_PLAN_SLEEP;
  plan->reserved = plan->reserved2 = 0;
  plan->ring_slots = plan->ring_slots < SHARE_SLOTS_MAX ? plan->ring_slots : SHARE_SLOTS_MAX;
  plan->message_max = plan->message_max < SHARE_MESSAGE_MAX ? plan->message_max : SHARE_MESSAGE_MAX;
  plan->workers = share_client_lesser(plan->workers, class->workers);
  plan->rings = share_client_lesser(plan->rings, class->endpoints);
  plan->senders = share_client_lesser(plan->senders, class->endpoints);
  plan->receivers = share_client_lesser(plan->receivers, class->endpoints);
  plan->rma = share_client_lesser(plan->rma, class->endpoints);
  plan->domains = share_client_lesser(plan->domains, class->endpoints + 1);
  plan->requests = share_client_lesser(plan->requests, PST_SHARE_REQUESTS);
  plan->pieces = share_client_lesser(plan->pieces, PST_SHARE_PIECES);
}

/* Sets how long the client's next packet may take; 0: for ever. */
static void share_client_set_patience(const struct share_client *client, time_t seconds)
{
  const struct timeval patience = {.tv_sec = seconds};

  if (setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
    pst_log(PST_LOG_WARN, "share: SO_RCVTIMEO: %s", strerror(errno));
}

/* Opens the client's memories and device; after a failure the caller closes what is open. */
static int share_client_open(struct share_client *client, const struct share_command *command)
{
  struct pst_share *share = client->share;
  const struct pst_transport_ops *ops = share->transport->transport;
  char address[sizeof(command->request->u.open.local_address)];

  if (client->class)
    return -EALREADY;
  int rc = share_classes_join(client, command->request->u.open.token, command->reply->text,
                              sizeof(command->reply->text));
  if (rc < 0) {
    atomic_fetch_sub(&share->served, 1);
    share_count_refusal(share, command->reply->text);
    return rc;
  }
  share_client_plan(client->class, &command->request->u.open.plan, &client->plan);
  memcpy(address, command->request->u.open.local_address, sizeof(address));
  address[sizeof(address) - 1] = '\0';
  client->mrs = calloc(client->class->regions, sizeof(*client->mrs));
  rc = client->mrs ? share_memory_open(client) : -ENOMEM;
  if (rc < 0)
    return rc;
  const struct pst_open_params params = {.struct_size = sizeof(params),
                                         .options = share->options,
                                         .plan = &client->plan,
                                         .local_address = address[0] ? address : NULL};
  rc = ops->open(share->transport->host, &params, &client->device);
  if (rc < 0)
    return rc;
  client->limits.struct_size = sizeof(client->limits);
  rc = ops->limits(client->device, &client->limits);
  if (rc == 0 && (client->limits.capabilities & PST_CAP_LEND)) {
    pst_log(PST_LOG_ERROR,
            "transport %s with the router's options lends messages out of the router's memory, "
            "which a client cannot have; start `penstock share` with other options",
            share->transport->name);
    rc = -EOPNOTSUPP;
  }
  client->has_wakeup = client->limits.capabilities & PST_CAP_WAKEUP;
  share_client_narrow(client->class, &client->limits);
  command->reply->u.limits = client->limits;
  client->is_open = rc == 0;
  if (client->is_open)
    share_client_set_patience(client, 0);
  return rc;
}

static int share_client_pack(struct share_client *client, struct share_command *command)
{
  struct share_mr *mr = share_mr_use(client, command->request->object);
  struct pst_blob blob = {
      .struct_size = sizeof(blob), .capacity = PST_SHARE_BYTES, .bytes = command->reply_bytes};

  if (!mr)
    return -EINVAL;
  int rc = client->share->transport->transport->mr_pack(client->device, mr->mr, &blob);
  if (rc == 0)
    rc = share_command_add_blob(command, &blob);
  share_mr_unuse(mr);
  return rc;
}

static int share_client_close_worker(struct share_client *client, uint32_t number)
{
  if (number == 0 || number > SHARE_WORKERS_MAX || !client->workers[number - 1])
    return -EINVAL;
  share_worker_close(client->workers[number - 1]);
  client->workers[number - 1] = NULL;
  client->worker_count--;
  return 0;
}

/* Runs a request: calls of the device here, those of a worker on the worker's thread. */
static void share_client_call(struct share_client *client, struct share_command *command)
{
  const struct pst_share_request *request = command->request;
  struct pst_share_reply *reply = command->reply;
  const uint32_t worker = request->worker;
  int rc;

  if (request->call != PST_SHARE_OPEN && !client->is_open) {
    share_client_expel(client, "its first request opens no device");
    return;
  }
  pst_log_clear_error();
  switch (request->call) {
  case PST_SHARE_OPEN:
    rc = share_client_open(client, command);
    break;
  case PST_SHARE_START:
    rc = client->share->transport->transport->start(client->device);
    break;
  case PST_SHARE_MR_REGISTER:
    rc = share_mr_register(client, command);
    break;
  case PST_SHARE_MR_DEREGISTER:
    rc = share_mr_deregister(client, request->object);
    break;
  case PST_SHARE_MR_PACK:
    rc = share_client_pack(client, command);
    break;
  case PST_SHARE_WORKER_OPEN:
    rc = share_worker_open(client, command);
    break;
  case PST_SHARE_WORKER_CLOSE:
    rc = share_client_close_worker(client, worker);
    break;
  default:
    if (request->call == PST_SHARE_COUNTERS && request->flag == PST_SHARE_OF_DEVICE) {
      rc = share_command_add_counters(command, client, NULL, NULL);
      break;
    }
    if (request->call < PST_SHARE_RING_OPEN || request->call > PST_SHARE_DESCRIBE || worker == 0 ||
        worker > SHARE_WORKERS_MAX || !client->workers[worker - 1]) {
      share_client_expel(client, "it asks for an unknown call or worker");
      return;
    }
    share_worker_ask(client->workers[worker - 1], command);
    return;
  }
  reply->status = rc;
  if (rc < 0 && !reply->text[0])
    pst_text_write(reply->text, sizeof(reply->text), pst_log_last_error());
}

/* The version is the first word of every release's requests. */
static void share_client_refuse_version(const struct pst_share_request *request,
                                        struct pst_share_reply *reply)
{
  reply->status = -EPROTONOSUPPORT;
  snprintf(reply->text, sizeof(reply->text),
           "the router speaks version %u of its protocol, the client %u; install one release of "
           "Penstock on both sides",
           PST_SHARE_VERSION, request->version);
}

/* Serves one request. False: the client has left, broke a rule, or has not opened a device in time.
 */
static bool share_client_serve_one(struct share_client *client, struct share_packet *packet,
                                   struct share_answer *answer)
{
  int fds[PST_SHARE_FDS];
  struct share_command command = {.request = &packet->request,
                                  .bytes = packet->bytes,
                                  .fds = fds,
                                  .reply = &answer->reply,
                                  .reply_bytes = answer->bytes};
  const int64_t got =
      pst_share_receive(client->fd, packet, sizeof(*packet), fds, &command.fd_count);
  bool goes_on = got > 0;

  answer->reply = (struct pst_share_reply){0};
  if (got == 0 || got == -ECONNRESET)
    goes_on = false;
  else if (got == -EAGAIN)
    share_client_expel(client, "it has not opened a device in time");
  else if (got >= (int64_t)sizeof(packet->request.version) &&
           packet->request.version != PST_SHARE_VERSION)
    share_client_refuse_version(&packet->request, &answer->reply);
  else if (got < (int64_t)sizeof(packet->request) ||
           packet->request.length != (size_t)got - sizeof(packet->request)) {
    share_client_expel(client, "a packet of a wrong size");
    goes_on = false;
  } else if (command.fd_count && closer_is_behind()) {
    answer->reply.status = -EAGAIN;
    pst_text_write(answer->reply.text, sizeof(answer->reply.text), CLOSER_BEHIND);
  } else
    share_client_call(client, &command);
  if (answer->reply.status < 0)
    share_command_close(&command);
  goes_on = goes_on && !atomic_load(&client->is_broken) &&
            pst_share_send(client->fd, answer, sizeof(answer->reply) + answer->reply.length,
                           command.reply_fds, command.reply_fd_count) == 0;
  share_command_close(&command);
  for (uint32_t i = 0; i < command.fd_count; i++)
    closer_close(fds[i]); /* the last close may block for as long as the client likes */
  return goes_on && client->is_open;
}

static void share_client_close_all(struct share_client *client)
{
  const struct loader_plugin *transport = client->share->transport;

  for (uint32_t i = 0; i < SHARE_WORKERS_MAX; i++)
    if (client->workers[i])
      share_worker_stop(client->workers[i]);
  for (uint32_t i = 0; i < SHARE_WORKERS_MAX; i++)
    if (client->workers[i])
      share_client_close_worker(client, i + 1);
  share_mr_deregister_all(client);
  if (client->device) {
    loader_defer_drain(transport);
    transport->transport->close(client->device);
  }
  share_memory_close(client);
  free(client->mrs);
  share_classes_leave(client);
  shutdown(client->fd, SHUT_RDWR);
  pst_log(PST_LOG_DEBUG, "share: client %llu has left", (unsigned long long)client->number);
}

static void *share_client_run(void *arg)
{
  struct share_client *client = arg;
  struct share_packet *packet = malloc(sizeof(*packet));
  struct share_answer *answer = calloc(1, sizeof(*answer));

  share_client_set_patience(client, OPEN_SECONDS);
  while (packet && answer && share_client_serve_one(client, packet, answer))
    ;
  free(packet);
  free(answer);
  share_client_close_all(client);
  atomic_fetch_sub(&client->share->connected, 1);
  atomic_store(&client->is_over, true);
  return NULL;
}

int share_client_start(struct pst_share *share, int fd, pid_t pid, struct share_user *user)
{
  struct share_client *client = calloc(1, sizeof(*client));

  if (!client) {
    close(fd);
    return -ENOMEM;
  }
  client->share = share;
  client->fd = fd;
  client->pid = pid;
  client->uid = user->uid;
  client->user = user;
  pthread_mutex_init(&client->rate_lock, NULL);
  client->number = atomic_fetch_add(&share->accepted, 1) + 1;
  atomic_fetch_add(&share->served, 1);
  atomic_fetch_add(&share->connected, 1);
  int rc = -pthread_create(&client->thread, NULL, share_client_run, client);
  if (rc < 0) {
    atomic_fetch_sub(&share->connected, 1);
    close(fd);
    free(client);
    return rc;
  }
  pthread_mutex_lock(&share->lock);
  client->next = share->clients;
  share->clients = client;
  share->client_count++;
  pthread_mutex_unlock(&share->lock);
  return 0;
}

void share_client_join(struct share_client *client)
{
  pthread_join(client->thread, NULL);
  close(client->fd);
  pthread_mutex_destroy(&client->rate_lock);
  share_user_leave(client->user);
  free(client);
}
