/* SPDX-License-Identifier: Apache-2.0 */
/* A node's opening and closing. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "control_transport.h"
#include "peer_rma.h"

#define MESSAGE_DEFAULT 4096
#define TIMEOUT_DEFAULT_NS (10 * PST_NS_PER_S)
#define GRACE_MAX_NS PST_NS_PER_S

static int node_no_descriptor(int rc, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, rc, "no descriptor for the node: %s; raise `ulimit -n`",
                  strerror(-rc));
}

/* ---- Options ----------------------------------------------------------------------- */

/* A configuration of one stream, whose sides name the plugins: they are checked as everywhere. Of
 * messages it has the least that there is. */
static int node_load(struct pst_node *node, struct pst_stream_params *stream,
                     struct config_params_more *more, const struct config_stream **loaded,
                     struct pst_error *error)
{
  const struct pst_stream_params *const streams = stream;
  struct pst_config_params params = {
      .struct_size = sizeof(params), .stream_count = 1, .streams = &streams};
  struct pst_config **grown =
      realloc(node->configs, (node->config_count + 1) * sizeof(struct pst_config *));

  if (!grown)
    return node_no_memory(error);
  node->configs = grown;
  stream->struct_size = sizeof(*stream);
  stream->name = "node";
  stream->message = 1;
  stream->ring = 2;
  stream->origins = node->origins;
  more->is_node = true;
  int rc = config_load_params(&params, more, loader_catalog(), &grown[node->config_count], error);
  if (rc < 0)
    return rc;
  *loaded = &config_of(grown[node->config_count++])->streams[0];
  return 0;
}

int node_memory(struct pst_node *node, const char *name, const struct pst_setting *options,
                uint32_t option_count, const char *source, struct engine_memory **memory,
                struct pst_error *error)
{
  struct pst_stream_params stream = {.receiver = {.memory = name ? name : "host",
                                                  .memory_options = options,
                                                  .memory_option_count = option_count}};
  const struct config_stream *config;
  uint32_t before = node->engine.memory_count, configs = node->config_count;
  struct config_params_more more = {.source = source};
  int rc = node_load(node, &stream, &more, &config, error);

  if (rc == 0)
    rc = engine_memory_open(&node->engine, &config->receiver.memory, memory, error);
  /* A memory that was open already keeps its options; this configuration is not needed. */
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

static int node_check_peers(const struct pst_node *node, struct pst_error *error)
{
  const struct pst_limits *limits = &node->device->limits;
  const struct {
    uint32_t most; /* 0: no bound, but for endpoints a worker */
    const char *what, *reason;
  } bounds[] = {
      {limits->device_endpoints_max, "endpoints a device", limits->endpoints_reason},
      {limits->endpoints_max, "endpoints a worker", limits->endpoints_reason},
      {node->shares_ring ? 0 : limits->rings_max, "rings", ""},
      {limits->domains_max, "domains", ""},
  };

  for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
    const uint32_t most = bounds[i].most;
    const char *reason = bounds[i].reason;
    if (node->peers_max <= most || (most == 0 && i != 1))
      continue;
    return pst_fail(error, PST_EXIT_USAGE, -ENOSPC,
                    "transport %s has at most %u %s%s%s%s, one for each peer, and the limit is %u "
                    "peers of %u messages each; lower it to %u (pst_node_params.peers, `serve "
                    "--clients`)",
                    node->device->plugin->name, most, bounds[i].what, reason[0] ? " (" : "", reason,
                    reason[0] ? ")" : "", node->peers_max, node->messages, most);
  }
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
  node->shares_ring = node_ring_is_shared(node);
  int rc = node_check_peers(node, error);
  if (rc < 0)
    return rc;
  node->ring_stride = region_round_up(
      region_round_up(limits->headroom + node->message_max + limits->tailroom, CACHE_LINE),
      limits->slot_alignment);
  node->send_stride = region_round_up(limits->send_headroom + node->message_max, CACHE_LINE);
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

/* Opens a node without a transport: its plugin has a name, and no other member of it is read. */
static int node_open_bare(struct pst_node *node, const struct pst_node_params *params,
                          struct pst_error *error)
{
  static const struct loader_plugin plugin = {.name = NODE_TRANSPORT_NONE};
  static const struct config_transport none = {.filter_count = 0};
  struct pst_worker *worker;

  if (params->transport_option_count || params->filter_count)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "pst_node_params: transport %s has neither options nor filters",
                    NODE_TRANSPORT_NONE);
  node->device->plugin = &plugin;
  node->transport = &none;
  control_transport_limits(&node->device->limits);
  int rc = node_fit_limits(node, error);
  if (rc < 0)
    return rc;
  node->is_bare = true;
  node->device->ops = &control_transport_ops;
  rc = control_transport_open(node, &worker);
  if (rc < 0)
    return node_no_descriptor(rc, error);
  rc = engine_worker_add(&node->engine, node->device, &node_worker_events, worker, &node->worker);
  return rc < 0 ? node_no_memory(error) : 0;
}

static int node_open_device(struct pst_node *node, const struct pst_node_params *params,
                            struct pst_error *error)
{
  struct pst_stream_params stream = {.transport =
                                         params->transport ? params->transport : "loopback",
                                     .transport_options = params->transport_options,
                                     .transport_option_count = params->transport_option_count};
  struct config_params_more more = {
      .source = "transport", .filters = params->filters, .filter_count = params->filter_count};
  const struct config_stream *config;
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
  rc = engine_worker_open(&node->engine, node->device, &node_worker_events, &node->worker, error);
  return rc < 0 ? rc : engine_device_start(node->device, error);
}

static int node_open_descriptors(struct pst_node *node, struct pst_error *error)
{
  node->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  int rc = node->timer_fd < 0 ? -errno : engine_thread_add_fd(&node->thread, node->timer_fd);

  if (rc == 0)
    rc = engine_thread_add(&node->thread, &node->worker);
  return rc < 0 ? node_no_descriptor(rc, error) : 0;
}

/* ---- The node ---------------------------------------------------------------------- */

#define GIVEN(name) #name, offsetof(struct pst_node_params, name)
#define AT(name) offsetof(struct pst_node, name)

/* Limits of a node: the members that set and keep each, its default and its maximum. */
static const struct {
  const char *name;
  size_t given, at;
  uint32_t otherwise, most;
} node_bounds[] = {{GIVEN(peers), AT(peers_max), 64, 4096},
                   {GIVEN(depth), AT(depth), 256, 65536},
                   {GIVEN(messages), AT(messages), 64, 65536},
                   {GIVEN(pieces), AT(pieces), 16, 64},
                   {GIVEN(offers), AT(offers), 16, 4096}};

static int node_too_much(const char *name, uint32_t most, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "pst_node_params.%s: at most %u", name, most);
}

static int node_take_params(struct pst_node *node, const struct pst_node_params *params,
                            struct pst_error *error)
{
  for (size_t i = 0; i < sizeof(node_bounds) / sizeof(node_bounds[0]); i++) {
    uint32_t value = *(const uint32_t *)(const void *)((const char *)params + node_bounds[i].given);
    if (value > node_bounds[i].most)
      return node_too_much(node_bounds[i].name, node_bounds[i].most, error);
    *(uint32_t *)(void *)((char *)node + node_bounds[i].at) =
        value ? value : node_bounds[i].otherwise;
  }
  if (params->message_max > UINT32_MAX / 2)
    return node_too_much("message_max", UINT32_MAX / 2, error);
  node->insecure = params->insecure;
  node->origins = params->origins;
  node->message_max = params->message_max ? params->message_max : MESSAGE_DEFAULT;
  node->offer_bytes = params->offer_bytes ? params->offer_bytes : UINT64_MAX;
  node->connect_timeout_ns =
      params->connect_timeout_ns ? params->connect_timeout_ns : TIMEOUT_DEFAULT_NS;
  node->peer_timeout_ns = params->peer_timeout_ns ? params->peer_timeout_ns : TIMEOUT_DEFAULT_NS;
  node->grace_ns =
      node->peer_timeout_ns / 10 < GRACE_MAX_NS ? node->peer_timeout_ns / 10 : GRACE_MAX_NS;
  return 0;
}

/* The ring of all peers, and an event for a message in each of its slots. */
static int node_open_ring(struct pst_node *node, struct pst_error *error)
{
  if (events_reserve(&node->events, node_slots(node, node->peers_max)) < 0)
    return node_no_memory(error);
  return node_ring_open(node, &node->ring, node->peers_max, 0, error);
}

static int node_open(struct pst_node *node, const struct pst_node_params *params,
                     struct pst_error *error)
{
  const bool is_bare = params->transport && strcmp(params->transport, NODE_TRANSPORT_NONE) == 0;
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
    rc = node_memory(node, NULL, NULL, 0, "memory", &node->memory, error);
  if (rc == 0 && peer_rma_open_batch(node) < 0)
    rc = node_no_memory(error);
  if (rc == 0 && node->shares_ring)
    rc = node_open_ring(node, error);
  if (rc == 0 && !(node->device->limits.capabilities & PST_CAP_LEND))
    rc = send_pool_open(node, &node->sends, node->peers_max, error);
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
  made = aligned_alloc(CACHE_LINE, region_round_up(sizeof(*made), CACHE_LINE));
  if (!made)
    return node_no_memory(error);
  memset(made, 0, sizeof(*made));
  made->worker.event_fd = made->timer_fd = -1;
  int rc = engine_thread_open(&made->thread);
  rc = rc < 0 ? node_no_descriptor(rc, error) : node_open(made, &params, error);
  if (rc < 0) {
    pst_node_close(made);
    return rc;
  }
  *node = made;
  return 0;
}

/* All endpoints at once, by the same deadline. As engine_await_closed(). */
static bool node_close_endpoints(struct pst_node *node)
{
  const uint64_t deadline = clock_now_ns() + NODE_CLOSE_NS;

  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    engine_endpoint_close(&peer->endpoint, PST_CLOSE_ABORT, deadline);
  return engine_await_closed(&node->engine, deadline + NODE_CLOSE_NS);
}

void pst_node_close(struct pst_node *node)
{
  if (!node)
    return;
  mail_close(node);
  if (!node_close_endpoints(node))
    return;
  while (node->peers) {
    offer_drop_all(node->peers);
    peer_forget(node->peers);
  }
  while (node->areas) {
    node->areas->uses = 0;
    pst_area_free(node->areas);
  }
  if (node->worker.handle)
    node_ring_close(node, &node->ring);
  send_pool_close(&node->sends);
  engine_close_workers(&node->engine);
  engine_close(&node->engine);
  for (uint32_t i = 0; i < node->config_count; i++)
    pst_config_close(node->configs[i]);
  events_free(&node->events);
  free(node->configs);
  free(node->batch);
  if (node->timer_fd >= 0)
    close(node->timer_fd);
  engine_thread_close(&node->thread);
  free(node);
}

/* ---- Queries ----------------------------------------------------------------------- */

uint16_t pst_node_port(const struct pst_node *node)
{
  return control_port(node->control);
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
