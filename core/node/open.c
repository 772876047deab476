/* SPDX-License-Identifier: Apache-2.0 */
/* A node's opening and closing. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "area.h"
#include "bare.h"
#include "exports.h"
#include "mail.h"
#include "node.h"
#include "peer.h"

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
#define GRACE_MAX_NS PST_NS_PER_S

static int node_no_memory(struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory while opening the node");
}

/* ---- Options ----------------------------------------------------------------------- */

/* A configuration of one stream, whose sides name the plugins: they are checked as everywhere. Of
 * messages it has the least that there is. */
static int node_load(struct pst_node *node, const struct pst_stream_params *stream,
                     const struct config_params_more *more, const struct config_stream **loaded,
                     struct pst_error *error)
{
  struct pst_config_params params = {
      .struct_size = sizeof(params), .stream_count = 1, .streams = &stream};
  struct pst_config **grown =
      realloc(node->configs, (node->config_count + 1) * sizeof(struct pst_config *));

  if (!grown)
    return node_no_memory(error);
  node->configs = grown;
  int rc =
      config_load_params_more(&params, more, loader_catalog(), &grown[node->config_count], error);
  if (rc < 0)
    return rc;
  *loaded = &config_of(grown[node->config_count++])->streams[0];
  return 0;
}

int node_memory(struct pst_node *node, const struct node_memory_params *params, const char *source,
                struct engine_memory **memory, struct pst_error *error)
{
  struct pst_stream_params stream = {
      .struct_size = sizeof(stream),
      .name = "node",
      .message = 1,
      .ring = 2,
      .receiver = {.memory = params->memory ? params->memory : "host",
                   .memory_options = params->options,
                   .memory_option_count = params->option_count},
      .origins = node->origins};
  const struct config_stream *config;
  uint32_t before = node->engine.memory_count, configs = node->config_count;
  const struct config_params_more more = {.source = source, .is_node = true};
  int rc = node_load(node, &stream, &more, &config, error);

  if (rc == 0)
    rc = engine_memory_open(&node->engine, &config->receiver.memory, memory, error);
  /* One that was open already keeps the options that it had. */
  if (node->config_count > configs && node->engine.memory_count == before)
    pst_config_close(node->configs[--node->config_count]);
  return rc;
}

/* ---- The device -------------------------------------------------------------------- */

static int node_check_capabilities(const struct pst_node *node, struct pst_error *error)
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

static uint32_t node_lesser(uint64_t a, uint64_t b)
{
  return (uint32_t)(a < b ? a : b);
}

/* `reason`: where that number comes from, or "". */
static int node_too_many_peers(const struct pst_node *node, uint32_t most, const char *what,
                               const char *reason, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_USAGE, -ENOSPC,
                  "transport %s has at most %u %s%s%s%s, one for each peer, and the limit is %u "
                  "peers of %u messages each; lower it to %u (pst_node_params.peers, `serve "
                  "--clients`)",
                  node->device->plugin->name, most, what, reason[0] ? " (" : "", reason,
                  reason[0] ? ")" : "", node->peers_max, node->messages, most);
}

static int node_check_peers(const struct pst_node *node, struct pst_error *error)
{
  const struct pst_limits *limits = &node->device->limits;
  const uint32_t peers = node->peers_max;

  if (limits->device_endpoints_max && peers > limits->device_endpoints_max)
    return node_too_many_peers(node, limits->device_endpoints_max, "endpoints a device",
                               limits->endpoints_reason, error);
  if (peers > limits->endpoints_max)
    return node_too_many_peers(node, limits->endpoints_max, "endpoints a worker",
                               limits->endpoints_reason, error);
  if (limits->rings_max && peers > limits->rings_max)
    return node_too_many_peers(node, limits->rings_max, "rings", "", error);
  if (limits->domains_max && peers > limits->domains_max)
    return node_too_many_peers(node, limits->domains_max, "domains", "", error);
  return 0;
}

/* The params are in the node; what the transport allows is less, perhaps. */
static int node_fit_limits(struct pst_node *node, struct pst_error *error)
{
  const struct pst_limits *limits = &node->device->limits;

  if (node->message_max > limits->message_max)
    node->message_max = limits->message_max;
  node->messages = node_lesser(node->messages, limits->slots_max);
  if (node->messages < limits->slots_min)
    node->messages = limits->slots_min;
  node->request_pieces = node_lesser(node->pieces, limits->pieces_max ? limits->pieces_max : 1);
  if (limits->requests_max <= node->messages)
    return pst_fail(error, PST_EXIT_USAGE, -ENOSPC,
                    "transport %s has at most %u requests under way at a peer, which its %u "
                    "messages use up; lower pst_node_params.messages",
                    node->device->plugin->name, limits->requests_max, node->messages);
  node->depth = node_lesser(node->depth, limits->requests_max - node->messages);
  int rc = node_check_peers(node, error);
  if (rc < 0)
    return rc;
  node->ring_stride =
      round_up(round_up(limits->headroom + node->message_max + limits->tailroom, CACHE_LINE),
               limits->slot_alignment);
  node->send_stride = round_up(limits->send_headroom + node->message_max, CACHE_LINE);
  return 0;
}

static void node_make_plan(const struct pst_node *node, bool in_process, struct pst_plan *plan)
{
  *plan = (struct pst_plan){.struct_size = sizeof(*plan),
                            .flags = PST_PLAN_SLEEP | PST_PLAN_PEERS |
                                     (in_process ? (uint32_t)PST_PLAN_IN_PROCESS : 0u),
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

/* What a device would be: its plugin has a name, and nothing else of it is asked for. */
static int node_open_bare(struct pst_node *node, const struct pst_node_params *params,
                          struct pst_error *error)
{
  static const struct loader_plugin plugin = {.name = NODE_BARE};
  static const struct config_transport none = {.filter_count = 0};

  if (params->transport_option_count || params->filter_count)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "pst_node_params: transport %s has neither options nor filters", NODE_BARE);
  node->device->plugin = &plugin;
  node->transport = &none;
  bare_limits(&node->device->limits);
  int rc = node_fit_limits(node, error);
  if (rc < 0)
    return rc;
  node->is_bare = true;
  node->ops = node->device->ops = &bare_ops;
  rc = bare_open(node, &node->worker);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "no descriptor for the node: %s; raise `ulimit -n`",
                    strerror(-rc));
  node->event_fd = bare_ops.event_fd(node->worker);
  return 0;
}

static int node_open_device(struct pst_node *node, const struct pst_node_params *params,
                            struct pst_error *error)
{
  struct pst_stream_params stream = {.struct_size = sizeof(stream),
                                     .name = "node",
                                     .message = 1,
                                     .ring = 2,
                                     .transport =
                                         params->transport ? params->transport : "loopback",
                                     .transport_options = params->transport_options,
                                     .transport_option_count = params->transport_option_count,
                                     .origins = params->origins};
  const struct config_stream *config;
  const struct config_params_more more = {.is_node = true,
                                          .source = "transport",
                                          .filters = params->filters,
                                          .filter_count = params->filter_count};
  int rc = node_load(node, &stream, &more, &config, error);

  if (rc < 0)
    return rc;
  node->transport = node->device->config = &config->receiver.transport;
  node_make_plan(node, params->in_process, &node->device->plan);
  rc = engine_device_open(&node->engine, node->device, NULL, error);
  if (rc == 0)
    rc = node_check_capabilities(node, error);
  if (rc == 0)
    rc = engine_device_check_told(node->device, true, error);
  if (rc == 0)
    rc = node_fit_limits(node, error);
  if (rc < 0)
    return rc;
  node->ops = node->device->ops;
  rc = node->ops->worker_open(node->device->device, 0, &node->worker);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s opens no worker 0: %s",
                    node->device->plugin->name, strerror(-rc));
  rc = engine_device_start(node->device, error);
  if (rc < 0)
    return rc;
  if (node->device->limits.capabilities & PST_CAP_WAKEUP)
    node->event_fd = node->ops->event_fd(node->worker);
  return 0;
}

static int node_open_descriptors(struct pst_node *node, struct pst_error *error)
{
  struct epoll_event event = {.events = EPOLLIN};

  node->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  node->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  int fds[] = {node->mailbox.wake_fd, node->timer_fd, node->event_fd};
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

static uint32_t node_choose(uint32_t given, uint32_t otherwise)
{
  return given ? given : otherwise;
}

static int node_take_params(struct pst_node *node, const struct pst_node_params *params,
                            struct pst_error *error)
{
  const char *what = NULL;
  uint32_t most = 0;

  node->insecure = params->insecure;
  node->origins = params->origins;
  node->peers_max = node_choose(params->peers, PEERS_DEFAULT);
  node->messages = node_choose(params->messages, MESSAGES_DEFAULT);
  node->message_max = params->message_max ? params->message_max : MESSAGE_DEFAULT;
  node->depth = node_choose(params->depth, DEPTH_DEFAULT);
  node->pieces = node_choose(params->pieces, PIECES_DEFAULT);
  node->offers = node_choose(params->offers, OFFERS_DEFAULT);
  node->offer_bytes = params->offer_bytes ? params->offer_bytes : UINT64_MAX;
  node->connect_timeout_ns =
      params->connect_timeout_ns ? params->connect_timeout_ns : TIMEOUT_DEFAULT_NS;
  node->peer_timeout_ns = params->peer_timeout_ns ? params->peer_timeout_ns : TIMEOUT_DEFAULT_NS;
  node->grace_ns =
      node->peer_timeout_ns / 10 < GRACE_MAX_NS ? node->peer_timeout_ns / 10 : GRACE_MAX_NS;
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

static int node_open(struct pst_node *node, const struct pst_node_params *params,
                     struct pst_error *error)
{
  const struct node_memory_params host = {0};
  const bool is_bare = params->transport && strcmp(params->transport, NODE_BARE) == 0;
  int rc = node_take_params(node, params, error);

  if (rc == 0) {
    node->device = engine_device_add(&node->engine);
    rc = node->device ? 0 : node_no_memory(error);
  }
  if (rc == 0)
    rc = is_bare ? node_open_bare(node, params, error) : node_open_device(node, params, error);
  if (rc == 0)
    rc = node_open_descriptors(node, error);
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
    return node_no_memory(error);
  memset(made, 0, sizeof(*made));
  made->event_fd = made->epoll_fd = made->timer_fd = -1;
  mailbox_open(&made->mailbox); /* node_open_descriptors() says why not */
  int rc = node_open(made, &params, error);
  if (rc < 0) {
    pst_node_close(made);
    return rc;
  }
  *node = made;
  return 0;
}

static bool node_any_open(const struct pst_node *node)
{
  for (const struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer->state != NODE_PEER_LEFT)
      return true;
  return false;
}

/* All endpoints at once, by the same deadline. */
static void node_close_endpoints(struct pst_node *node)
{
  uint64_t deadline = clock_now_ns() + NODE_CLOSE_NS;
  struct pst_completion completions[NODE_POLL_BATCH];

  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer->state < NODE_PEER_CLOSING) {
      peer_enter(peer, NODE_PEER_CLOSING, 0);
      node->ops->endpoint_close(peer->endpoint, PST_CLOSE_ABORT, deadline);
    }
  while (node_any_open(node)) {
    int n = node->ops->poll(node->worker, completions, NODE_POLL_BATCH);
    for (int i = 0; i < n; i++)
      if (completions[i].kind == PST_COMPLETION_EVENT && completions[i].code == PST_EVENT_CLOSED)
        peer_enter((struct pst_peer *)(uintptr_t)completions[i].endpoint, NODE_PEER_LEFT, 0);
    if (clock_now_ns() > deadline + NODE_CLOSE_NS) {
      pst_log(PST_LOG_WARN,
              "an endpoint did not close within its deadline: a bug of its transport");
      return;
    }
    if (n == 0)
      sched_yield();
  }
}

static void node_close_descriptors(struct pst_node *node)
{
  int fds[] = {node->epoll_fd, node->timer_fd};

  for (int i = 0; i < 2; i++)
    if (fds[i] >= 0)
      close(fds[i]);
}

void pst_node_close(struct pst_node *node)
{
  if (!node)
    return;
  mail_close(node);
  if (node->worker)
    node_close_endpoints(node);
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
  engine_plugins_drain(&node->engine);
  if (node->worker)
    node->ops->worker_close(node->worker);
  engine_close(&node->engine);
  for (uint32_t i = 0; i < node->config_count; i++)
    pst_config_close(node->configs[i]);
  events_free(&node->events);
  free(node->configs);
  node_close_descriptors(node);
  mailbox_close(&node->mailbox);
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

uint32_t pst_node_depth(const struct pst_node *node)
{
  return node->depth;
}

uint64_t pst_node_capabilities(const struct pst_node *node)
{
  return node->device->limits.capabilities;
}

uint32_t pst_node_plugins(const struct pst_node *node)
{
  return node->engine.plugin_count;
}

int pst_node_plugin(const struct pst_node *node, uint32_t index, struct pst_plugin_info *info)
{
  return engine_plugin_info(&node->engine, index, info);
}
