/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of node. */
#include "support.h"

#include <poll.h>

#include "../simulated_clock.h"

/* A step of the simulated clock while a node has nothing to do. Its peers' messages take some of
 * its turns. */
#define STEP_NS UINT64_C(10000000)

uint64_t now_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct pst_node_params some_params(void)
{
  return (struct pst_node_params){.struct_size = sizeof(struct pst_node_params),
                                  .peers = 8,
                                  .message_max = 256,
                                  .messages = 8,
                                  .depth = 16,
                                  .pieces = 4,
                                  .offers = 4};
}

struct pst_node_params open_params(void)
{
  struct pst_node_params params = some_params();

  params.insecure = 1;
  return params;
}

void side_open(struct side *side, const struct pst_node_params *params)
{
  struct pst_error error = PST_ERROR_INIT;

  memset(side, 0, sizeof(*side));
  if (pst_node_open(params, &side->node, &error) < 0)
    fail_msg("%s", error.text);
  simulated_clock_meet(); /* the control thread */
}

void side_close(struct side *side)
{
  simulated_clock_lend(true);
  pst_node_close(side->node);
  simulated_clock_lend(false);
  side->node = NULL;
}

void side_turn(struct side *side)
{
  struct pst_node_event events[8];
  int n = pst_node_poll(side->node, events, 8);

  assert_in_range(n, 0, 8);
  for (int i = 0; i < n; i++) {
    uint32_t at = side->logged++;
    assert_true(at < LOG_MAX);
    assert_non_null(events[i].text);
    side->log[at] = events[i];
    snprintf(side->text[at], sizeof(side->text[at]), "%s", events[i].text);
    if (events[i].kind == PST_NODE_MESSAGE)
      memcpy(side->bytes[at], events[i].bytes,
             events[i].length < 64 ? (size_t)events[i].length : 64);
  }
}

void sides_sleep(struct side *const *sides, uint32_t count, const int *fds, uint32_t fd_count,
                 uint64_t turn)
{
  struct pollfd waits[16];
  uint32_t n = 0;

  if (simulated_clock_runs()) {
    simulated_clock_move(turn, STEP_NS);
    return;
  }
  assert_true(count + fd_count <= 16);
  for (uint32_t i = 0; i < count; i++) {
    if (pst_node_arm(sides[i]->node) != 0)
      return;
    waits[n++] = (struct pollfd){.fd = pst_node_fd(sides[i]->node), .events = POLLIN};
  }
  for (uint32_t i = 0; i < fd_count; i++)
    waits[n++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
  poll(waits, n, 1);
}

void side_poll(struct side *side)
{
  const uint64_t turn = simulated_clock_turn();
  uint32_t before = side->logged;

  side_turn(side);
  if (side->logged == before)
    sides_sleep(&side, 1, NULL, 0, turn);
}

/* Poll both once, sleeping while there is nothing for either. */
static void sides_poll(struct side *side, struct side *other)
{
  struct side *const sides[] = {side, other};
  const uint64_t turn = simulated_clock_turn();
  uint32_t before = side->logged + other->logged;

  side_turn(side);
  side_turn(other);
  if (side->logged + other->logged == before)
    sides_sleep(sides, 2, NULL, 0, turn);
}

bool side_take(struct side *side, uint8_t kind, struct pst_node_event *event, char text[256])
{
  for (uint32_t i = 0; i < side->logged; i++) {
    if (side->log[i].kind != kind)
      continue;
    *event = side->log[i];
    memcpy(text, kind == PST_NODE_MESSAGE ? side->bytes[i] : side->text[i],
           kind == PST_NODE_MESSAGE ? 64 : 256);
    side->logged--;
    memmove(side->log + i, side->log + i + 1, (side->logged - i) * sizeof(*side->log));
    memmove(side->text[i], side->text[i + 1], (side->logged - i) * sizeof(side->text[0]));
    memmove(side->bytes[i], side->bytes[i + 1], (side->logged - i) * sizeof(side->bytes[0]));
    return true;
  }
  return false;
}

struct pst_node_event await_text(struct side *side, struct side *other, uint8_t kind,
                                 const char **text)
{
  static char kept[256];
  uint64_t deadline = now_ns() + DEADLINE_NS;
  struct pst_node_event event;

  while (!side_take(side, kind, &event, kept)) {
    if (other)
      sides_poll(side, other);
    else
      side_poll(side);
    if (now_ns() > deadline)
      fail_msg("no event of kind %u", kind);
  }
  if (text)
    *text = kept;
  return event;
}

struct pst_node_event await(struct side *side, struct side *other, uint8_t kind)
{
  return await_text(side, other, kind, NULL);
}

void connect_sides(struct side *server, struct side *client)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_node_event event;
  char address[64];

  snprintf(address, sizeof(address), "127.0.0.1:%u", pst_node_port(server->node));
  if (pst_node_connect(client->node, address, &client->peer, &error) < 0)
    fail_msg("%s", error.text);
  event = await(client, server, PST_NODE_JOINED);
  assert_ptr_equal(event.peer, client->peer);
  event = await(server, client, PST_NODE_JOINED);
  server->peer = event.peer;
}

void pair_open(struct pair *pair, const struct pst_node_params *server,
               const struct pst_node_params *client)
{
  struct pst_node_params listening = server ? *server : some_params();
  struct pst_node_params calling = client ? *client : some_params();

  listening.listen = "127.0.0.1:0";
  side_open(&pair->server, &listening);
  side_open(&pair->client, &calling);
  connect_sides(&pair->server, &pair->client);
}

void pair_open_to_all(struct pair *pair)
{
  const struct pst_node_params params = open_params();

  pair_open(pair, &params, NULL);
}

void pair_close(struct pair *pair)
{
  side_close(&pair->client);
  side_close(&pair->server);
}

struct pst_area *area_of(struct side *side, uint64_t length)
{
  struct pst_area_params params = {.struct_size = sizeof(params), .length = length};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area;

  if (pst_node_alloc(side->node, &params, &area, &error) < 0)
    fail_msg("%s", error.text);
  return area;
}

uint8_t *bytes_of(const struct pst_area *area)
{
  struct pst_range range = {.struct_size = sizeof(range)};

  assert_int_equal(pst_area_range(area, &range), 0);
  assert_non_null(range.host);
  return range.host;
}

uint32_t offer(struct side *owner, struct side *other, struct pst_area *area, uint32_t access)
{
  struct pst_range range = {.struct_size = sizeof(range)};
  uint32_t id = 0;

  assert_int_equal(pst_area_range(area, &range), 0);
  assert_int_equal(pst_peer_offer(owner->peer, area, 0, range.length, access, &id), 0);
  struct pst_node_event event = await(other, owner, PST_NODE_OFFERED);
  assert_int_equal(event.id, id);
  assert_int_equal(event.length, range.length);
  assert_int_equal(event.access, access);
  event = await(owner, other, PST_NODE_TAKEN);
  assert_int_equal(event.id, id);
  assert_int_equal(event.status, 0);
  return id;
}

struct pst_operation make_operation(uint8_t op, uint32_t id, struct pst_area *area, uint64_t offset,
                                    uint64_t remote, uint64_t length)
{
  static uint64_t cookie;
  return (struct pst_operation){.op = op,
                                .id = id,
                                .cookie = ++cookie,
                                .area = area,
                                .offset = offset,
                                .remote_offset = remote,
                                .length = length};
}

struct pst_node_event run_operation(struct side *side, const struct pst_operation *o)
{
  assert_int_equal(pst_peer_post(side->peer, o, 1), 1);
  struct pst_node_event done = await(side, NULL, PST_NODE_DONE);
  assert_int_equal(done.cookie, o->cookie);
  assert_int_equal(done.op, o->op);
  assert_int_equal(done.length, o->length);
  return done;
}

int use_fakes(void **state)
{
  (void)state;
  return pst_plugin_path_add(PST_FAKES) < 0;
}

bool params_by(int argc, char **argv, struct pst_node_params *params)
{
  static struct pst_setting settings[8];
  bool is_right = argc >= 2 && argc <= 2 + 8;

  *params = some_params();
  params->transport = argv[1];
  params->transport_options = settings;
  for (int i = 2; i < argc && is_right; i++) {
    char *value = strchr(argv[i], '=');
    is_right = value != NULL;
    if (!is_right)
      break;
    *value = '\0';
    settings[params->transport_option_count++] = (struct pst_setting){argv[i], value + 1};
  }
  if (!is_right)
    fprintf(stderr, "usage: %s TRANSPORT [OPTION=VALUE]...\n", argv[0]);
  return is_right;
}
