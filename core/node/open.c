/* SPDX-License-Identifier: Apache-2.0 */
/* A node's opening and closing. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "node.h"

#define PEERS_DEFAULT 64
#define PEERS_MAX 4096
#define MESSAGE_DEFAULT 4096
#define MESSAGES_DEFAULT 64
#define DEPTH_DEFAULT 256
#define DEPTH_MAX 65536
#define PIECES_DEFAULT 16
#define PIECES_MAX 64
#define OFFERS_DEFAULT 16
#define OFFERS_MAX 4096
#define TIMEOUT_DEFAULT_NS (10 * PST_NS_PER_S)

static int no_memory(struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory while opening the node");
}

/* ---- Options ----------------------------------------------------------------------- */

/* A configuration of one stream, whose sides name the plugins: they are checked as everywhere. */
static int load(struct pst_node *node, const struct pst_stream_params *stream,
                const struct config_params_more *more, const struct config_stream **loaded,
                struct pst_error *error)
{
  struct pst_config_params params = {
      .struct_size = sizeof(params), .stream_count = 1, .streams = &stream};
  struct pst_config **grown =
      realloc(node->configs, (node->config_count + 1) * sizeof(struct pst_config *));

  if (!grown)
    return no_memory(error);
  node->configs = grown;
  int rc =
      config_load_params_more(&params, more, loader_catalog(), &grown[node->config_count], error);
  if (rc < 0)
    return rc;
  *loaded = &config_of(grown[node->config_count++])->streams[0];
  return 0;
}

int node_memory(struct pst_node *node, const struct node_memory_params *params, const char *source,
                struct session_memory **memory, struct pst_error *error)
{
  struct pst_stream_params stream = {
      .struct_size = sizeof(stream),
      .name = "node",
      .region = 4096,
      .receiver = {.memory = params->memory ? params->memory : "host",
                   .memory_options = params->options,
                   .memory_option_count = params->option_count},
      .origins = node->origins};
  const struct config_stream *config;
  uint32_t before = node->base.memory_count, configs = node->config_count;
  const struct config_params_more more = {.source = source};
  int rc = load(node, &stream, &more, &config, error);

  if (rc == 0)
    rc = setup_memory(&node->base, &config->receiver.memory, memory, error);
  /* One that was open already keeps the options that it had. */
  if (node->config_count > configs && node->base.memory_count == before)
    pst_config_close(node->configs[--node->config_count]);
  return rc;
}

/* ---- The device -------------------------------------------------------------------- */

static int check_capabilities(const struct pst_node *node, struct pst_error *error)
{
  static const struct {
    uint64_t bit;
    const char *name;
  } wanted[] = {{PST_CAP_SEND, "SEND (messages)"},
                {PST_CAP_RELIABLE, "RELIABLE (nothing is lost)"},
                {PST_CAP_DYNAMIC, "DYNAMIC (rings and endpoints after the start)"},
                {PST_CAP_READ | PST_CAP_WRITE, "READ and WRITE (one-sided operations)"}};
  uint64_t has = node->device->limits.capabilities;

  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
    if (!(has & wanted[i].bit))
      return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                      "transport %s lacks %s, which serving clients needs; use loopback, or "
                      "verbs_rc on a device that has it",
                      node->device->plugin->name, wanted[i].name);
  return 0;
}

static uint32_t least(uint64_t a, uint64_t b)
{
  return (uint32_t)(a < b ? a : b);
}

/* `reason`: where that number comes from, or "". */
static int too_many_peers(const struct pst_node *node, uint32_t most, const char *what,
                          const char *reason, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_USAGE, -ENOSPC,
                  "transport %s has at most %u %s%s%s%s, one for each peer, and the limit is %u "
                  "peers of %u messages each; lower it to %u (pst_node_params.peers, `serve "
                  "--clients`)",
                  node->device->plugin->name, most, what, reason[0] ? " (" : "", reason,
                  reason[0] ? ")" : "", node->peers_max, node->messages, most);
}

static int check_peers(const struct pst_node *node, struct pst_error *error)
{
  const struct pst_limits *limits = &node->device->limits;
  const uint32_t peers = node->peers_max;

  if (limits->device_endpoints_max && peers > limits->device_endpoints_max)
    return too_many_peers(node, limits->device_endpoints_max, "endpoints a device",
                          limits->endpoints_reason, error);
  if (peers > limits->endpoints_max)
    return too_many_peers(node, limits->endpoints_max, "endpoints a worker",
                          limits->endpoints_reason, error);
  if (limits->rings_max && peers > limits->rings_max)
    return too_many_peers(node, limits->rings_max, "rings", "", error);
  if (limits->domains_max && peers > limits->domains_max)
    return too_many_peers(node, limits->domains_max, "domains", "", error);
  return 0;
}

/* The params are in the node; what the transport allows is less, perhaps. */
static int fit_limits(struct pst_node *node, struct pst_error *error)
{
  const struct pst_limits *limits = &node->device->limits;

  if (node->message_max > limits->message_max)
    node->message_max = limits->message_max;
  node->messages = least(node->messages, limits->slots_max);
  if (node->messages < limits->slots_min)
    node->messages = limits->slots_min;
  node->request_pieces = least(node->pieces, limits->pieces_max ? limits->pieces_max : 1);
  if (limits->requests_max <= node->messages)
    return pst_fail(error, PST_EXIT_USAGE, -ENOSPC,
                    "transport %s has at most %u requests under way at a peer, which its %u "
                    "messages use up; lower pst_node_params.messages",
                    node->device->plugin->name, limits->requests_max, node->messages);
  node->depth = least(node->depth, limits->requests_max - node->messages);
  int rc = check_peers(node, error);
  if (rc < 0)
    return rc;
  node->ring_stride =
      round_up(round_up(limits->headroom + node->message_max + limits->tailroom, CACHE_LINE),
               limits->slot_alignment);
  node->send_stride = round_up(limits->send_headroom + node->message_max, CACHE_LINE);
  return 0;
}

static void make_plan(const struct pst_node *node, struct pst_plan *plan)
{
  *plan = (struct pst_plan){.struct_size = sizeof(*plan),
                            .flags = PST_PLAN_SLEEP | PST_PLAN_PEERS,
                            .workers = 1,
                            .rings = node->peers_max,
                            .senders = node->peers_max,
                            .receivers = node->peers_max,
                            .rma = node->peers_max,
                            .requests = node->depth + node->messages,
                            .pieces = node->pieces,
                            .ring_slots = (uint64_t)node->peers_max * node->messages,
                            .message_max = node->message_max,
                            .domains = node->peers_max};
}

static int open_device(struct pst_node *node, const struct pst_node_params *params,
                       struct pst_error *error)
{
  struct pst_stream_params stream = {.struct_size = sizeof(stream),
                                     .name = "node",
                                     .region = 4096,
                                     .transport =
                                         params->transport ? params->transport : "loopback",
                                     .transport_options = params->transport_options,
                                     .transport_option_count = params->transport_option_count,
                                     .origins = params->origins};
  const struct config_stream *config;
  const struct config_params_more more = {
      .source = "transport", .filters = params->filters, .filter_count = params->filter_count};
  int rc = load(node, &stream, &more, &config, error);

  if (rc < 0)
    return rc;
  node->device = calloc(1, sizeof(*node->device));
  node->base.devices = calloc(1, sizeof(struct session_device *));
  if (!node->device || !node->base.devices) {
    free(node->device);
    return no_memory(error);
  }
  node->base.devices[0] = node->device;
  node->base.device_count = 1;
  node->transport = node->device->config = &config->receiver.transport;
  make_plan(node, &node->device->plan);
  rc = setup_device(&node->base, node->device, error);
  if (rc == 0)
    rc = check_capabilities(node, error);
  if (rc == 0)
    rc = fit_limits(node, error);
  if (rc < 0)
    return rc;
  node->ops = node->device->ops;
  rc = node->ops->worker_open(node->device->device, 0, &node->worker);
  if (rc == 0) {
    rc = node->ops->start(node->device->device);
    rc = rc == -EOPNOTSUPP ? 0 : rc;
  }
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s does not start: %s",
                    node->device->plugin->name, strerror(-rc));
  if (node->device->limits.capabilities & PST_CAP_WAKEUP)
    node->event_fd = node->ops->event_fd(node->worker);
  return 0;
}

static int open_descriptors(struct pst_node *node, struct pst_error *error)
{
  struct epoll_event event = {.events = EPOLLIN};

  node->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  node->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  node->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  int fds[] = {node->wake_fd, node->timer_fd, node->event_fd};
  for (int i = 0; i < 3; i++) {
    event.data.fd = fds[i];
    if (i == 2 && fds[i] < 0)
      break;
    if (node->epoll_fd < 0 || fds[i] < 0 ||
        epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, fds[i], &event) < 0)
      return pst_fail(error, PST_EXIT_FAILED, -errno,
                      "no descriptor for the node: %s; raise `ulimit -n`", strerror(errno));
  }
  return 0;
}

/* ---- The node ---------------------------------------------------------------------- */

static uint32_t choose(uint32_t given, uint32_t otherwise)
{
  return given ? given : otherwise;
}

static int take_params(struct pst_node *node, const struct pst_node_params *params,
                       struct pst_error *error)
{
  const char *what = NULL;
  uint32_t most = 0;

  node->insecure = params->insecure;
  node->origins = params->origins;
  node->peers_max = choose(params->peers, PEERS_DEFAULT);
  node->messages = choose(params->messages, MESSAGES_DEFAULT);
  node->message_max = params->message_max ? params->message_max : MESSAGE_DEFAULT;
  node->depth = choose(params->depth, DEPTH_DEFAULT);
  node->pieces = choose(params->pieces, PIECES_DEFAULT);
  node->offers = choose(params->offers, OFFERS_DEFAULT);
  node->offer_bytes = params->offer_bytes ? params->offer_bytes : UINT64_MAX;
  node->connect_timeout_ns =
      params->connect_timeout_ns ? params->connect_timeout_ns : TIMEOUT_DEFAULT_NS;
  if (node->peers_max > PEERS_MAX)
    what = "peers", most = PEERS_MAX;
  else if (node->depth > DEPTH_MAX)
    what = "depth", most = DEPTH_MAX;
  else if (node->messages > DEPTH_MAX)
    what = "messages", most = DEPTH_MAX;
  else if (node->pieces > PIECES_MAX)
    what = "pieces", most = PIECES_MAX;
  else if (node->offers > OFFERS_MAX)
    what = "offers", most = OFFERS_MAX;
  else if (node->message_max > UINT32_MAX / 2)
    what = "message_max", most = UINT32_MAX / 2;
  if (!what)
    return 0;
  return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "pst_node_params.%s: at most %u", what, most);
}

static int open_node(struct pst_node *node, const struct pst_node_params *params,
                     struct pst_error *error)
{
  const struct node_memory_params host = {0};
  int rc = take_params(node, params, error);

  if (rc == 0)
    rc = open_device(node, params, error);
  if (rc == 0)
    rc = open_descriptors(node, error);
  if (rc == 0)
    rc = node_memory(node, &host, "memory", &node->memory, error);
  if (rc == 0)
    rc = mail_open(node, params, error);
  return rc;
}

int pst_node_open(const struct pst_node_params *given, struct pst_node **node,
                  struct pst_error *error)
{
  struct pst_node_params params = {0};
  struct pst_node *made;

  if (given->struct_size < sizeof(params))
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "pst_node_params has a struct_size of %u, and %zu at least; set it to its "
                    "sizeof",
                    given->struct_size, sizeof(params));
  memcpy(&params, given, sizeof(params));
  made = aligned_alloc(CACHE_LINE, round_up(sizeof(*made), CACHE_LINE));
  if (!made)
    return no_memory(error);
  memset(made, 0, sizeof(*made));
  made->event_fd = made->epoll_fd = made->wake_fd = made->timer_fd = -1;
  pthread_mutex_init(&made->mail_lock, NULL);
  int rc = open_node(made, &params, error);
  if (rc < 0) {
    pst_node_close(made);
    return rc;
  }
  *node = made;
  return 0;
}

static bool any_open(const struct pst_node *node)
{
  for (const struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer->endpoint && !peer->is_closed)
      return true;
  return false;
}

/* All endpoints at once, by the same deadline. */
static void close_endpoints(struct pst_node *node)
{
  uint64_t deadline = clock_now_ns() + NODE_GRACE_NS;
  struct pst_completion completions[NODE_POLL_BATCH];

  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer->endpoint && !peer->is_closing) {
      peer->is_closing = true;
      node->ops->endpoint_close(peer->endpoint, PST_CLOSE_ABORT, deadline);
    }
  while (any_open(node)) {
    int n = node->ops->poll(node->worker, completions, NODE_POLL_BATCH);
    for (int i = 0; i < n; i++)
      if (completions[i].kind == PST_COMPLETION_EVENT && completions[i].code == PST_EVENT_CLOSED)
        ((struct pst_peer *)(uintptr_t)completions[i].endpoint)->is_closed = true;
    if (clock_now_ns() > deadline + NODE_GRACE_NS) {
      pst_log(PST_LOG_WARN,
              "an endpoint did not close within its deadline: a bug of its transport");
      return;
    }
    if (n == 0)
      sched_yield();
  }
}

static void close_descriptors(struct pst_node *node)
{
  int fds[] = {node->epoll_fd, node->wake_fd, node->timer_fd};

  for (int i = 0; i < 3; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

void pst_node_close(struct pst_node *node)
{
  if (!node)
    return;
  mail_close(node);
  if (node->worker)
    close_endpoints(node);
  while (node->peers) {
    struct pst_peer *peer = node->peers;
    node->peers = peer->next;
    offer_drop_all(peer);
    peer_forget(peer);
  }
  while (node->areas) {
    node->areas->uses = 0;
    pst_area_free(node->areas);
  }
  for (uint32_t i = 0; i < node->base.plugin_count; i++)
    loader_defer_drain(node->base.plugins[i]);
  if (node->worker)
    node->ops->worker_close(node->worker);
  setup_close(&node->base);
  for (uint32_t i = 0; i < node->config_count; i++)
    pst_config_close(node->configs[i]);
  for (; node->released != node->tail; node->released++)
    free(node->entries[node->released & node->entry_mask].text);
  free(node->entries);
  free(node->configs);
  close_descriptors(node);
  pthread_mutex_destroy(&node->mail_lock);
  free(node);
}

/* ---- What there is ----------------------------------------------------------------- */

uint16_t pst_node_port(const struct pst_node *node)
{
  return control_node_port(node->control);
}

uint64_t pst_node_transfer_max(const struct pst_node *node)
{
  return node->device->limits.rma_max;
}

uint64_t pst_node_capabilities(const struct pst_node *node)
{
  return node->device->limits.capabilities;
}

uint32_t pst_node_plugins(const struct pst_node *node)
{
  return pst_session_plugins(&node->base);
}

int pst_node_plugin(const struct pst_node *node, uint32_t index, struct pst_plugin_info *info)
{
  return pst_session_plugin(&node->base, index, info);
}
