/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch that reboots: nearly all peers of a worker of verbs_dc fail at once. The others go on,
 * and each poll of the worker does a bounded part of what follows.
 *
 *     penstock-simverbs --fabric verbs_dc_storm.yaml verbs-dc-storm PLUGIN LAUNCHER STREAMS
 *
 * This program defines some calls of libibverbs, which the plugin finds here.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "harness.h"
#include "simulated.h"

enum { SIDES = 6, GONE = SIDES * CONTRACT_ENDPOINTS, LIVING = 4, ALL = GONE + LIVING };
enum { INITIATORS = 2, COMMANDS = 5 /* of an initiator that is set up again */ };

static const struct contract_params far_params = {
    .endpoints = CONTRACT_ENDPOINTS, .slots = 64, .message = 256, .requests = 16, .pieces = 1};
static const struct contract_params near_params = {
    .slots = 16, .message = 256, .requests = 16, .pieces = 1};

static uint32_t commands;                   /* of the firmware, about queue pairs */
static bool refuses_destroy, refuses_reset; /* once */

static void *next_of(const char *name)
{
  void *next = dlsym(RTLD_NEXT, name);

  assert_non_null(next);
  return next;
}

__attribute__((visibility("default"))) int ibv_modify_qp(struct ibv_qp *qp,
                                                         struct ibv_qp_attr *attr, int mask)
{
  int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int);

  *(void **)&next = next_of("ibv_modify_qp");
  commands++;
  if (refuses_reset && attr->qp_state == IBV_QPS_RESET) {
    refuses_reset = false;
    return EIO;
  }
  return next(qp, attr, mask);
}

__attribute__((visibility("default"))) int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                                                        int mask, struct ibv_qp_init_attr *init)
{
  int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);

  *(void **)&next = next_of("ibv_query_qp");
  commands += 2; /* the stream is reset after it */
  return next(qp, attr, mask, init);
}

__attribute__((visibility("default"))) int ibv_destroy_qp(struct ibv_qp *qp)
{
  int (*next)(struct ibv_qp *);
  const bool refuses = refuses_destroy;

  *(void **)&next = next_of("ibv_destroy_qp");
  refuses_destroy = false;
  const int rc = next(qp);
  return refuses ? EBUSY : rc;
}

/* One worker with an endpoint to each peer: the living ones first. */
struct near {
  struct contract_side side;
  struct pst_endpoint *endpoints[ALL];
  bool is_connected[ALL], has_posted[ALL], has_ended[ALL], is_closed[ALL];
  uint64_t next[LIVING], taken;
  uint32_t connected, ended, closed;
  uint32_t most; /* commands in a poll */
};

static struct contract_side living, gone[SIDES];
static char options[3][128];

static void open_side(void **state, const char *device, const char *more, bool receives,
                      const struct contract_params *params, struct contract_side *side)
{
  struct contract_variant variant = *(const struct contract_variant *)*state;
  char *words = options[device[0] == 'n' ? 0 : device[0] == 'l' ? 1 : 2];

  snprintf(words, sizeof(options[0]), "device=%s,initiators=%u,timeout=14,keepalive=0,%s", device,
           INITIATORS, more);
  variant.options = words;
  *side = (struct contract_side){.limits = {0}};
  contract_side_open(&variant, params, false, receives, side);
}

static struct contract_side *peer_of(uint32_t i, uint32_t *index)
{
  *index = i < LIVING ? i : (i - LIVING) % CONTRACT_ENDPOINTS;
  return i < LIVING ? &living : &gone[(i - LIVING) / CONTRACT_ENDPOINTS];
}

static void connect_one(struct near *near, uint32_t i)
{
  const struct pst_transport_ops *ops = near->side.image.ops;
  uint8_t bytes[256];
  struct pst_blob own = {.struct_size = sizeof(own), .bytes = bytes, .capacity = sizeof(bytes)},
                  blob;
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_SENDER,
                                       .cookie = CONTRACT_ENDPOINTS + 1 + i,
                                       .label = "peer",
                                       .options = near->side.options,
                                       .requests = 16,
                                       .pieces = 1,
                                       .message_max = 256,
                                       .timeout_ns = contract_deadline_ns,
                                       .mr = near->side.mr};
  uint32_t k;
  struct contract_side *peer = peer_of(i, &k);

  assert_int_equal(ops->endpoint_open(near->side.worker, &params, &near->endpoints[i]), 0);
  assert_int_equal(ops->endpoint_address(near->endpoints[i], &own), 0);
  contract_address(peer, k, &blob);
  assert_int_equal(ops->endpoint_connect(near->endpoints[i], &blob), 0);
  assert_int_equal(contract_connect(peer, k, &own), 0);
  near->is_connected[i] = near->has_posted[i] = near->has_ended[i] = near->is_closed[i] = false;
}

/* Polls once, and notes the events, and the most commands of the firmware that a poll took. */
static void poll_near(struct near *near)
{
  struct pst_completion got[64];

  commands = 0;
  const int n = near->side.image.ops->poll(near->side.worker, got, 64);
  near->most = commands > near->most ? commands : near->most;
  for (int i = 0; i < n; i++) {
    if (got[i].kind != PST_COMPLETION_EVENT)
      continue;
    const uint64_t which = got[i].endpoint - CONTRACT_ENDPOINTS - 1;
    assert_true(which < ALL);
    if (got[i].code == PST_EVENT_CONNECTED) {
      near->is_connected[which] = true;
      near->connected++;
    } else if (got[i].code == PST_EVENT_DISCONNECTED) {
      near->has_ended[which] = true;
      near->ended++;
    } else if (got[i].code == PST_EVENT_CLOSED) {
      near->is_closed[which] = true;
      near->closed++;
    }
  }
}

static int post_to(struct near *near, uint32_t i)
{
  const struct pst_request request = contract_send(&near->side, 0, 64, 0);
  uint32_t wait = PST_WAIT_NONE;

  return near->side.image.ops->post(near->endpoints[i], &request, 1, &wait);
}

/* One more poll of all that live, which send and receive. */
static void go_on(struct near *near, bool gone_too)
{
  struct pst_completion message;

  for (uint32_t i = 0; i < LIVING; i++)
    if (near->is_connected[i])
      post_to(near, i);
  poll_near(near);
  contract_poll(&living);
  for (uint32_t i = 0; gone_too && i < SIDES; i++)
    contract_poll(&gone[i]);
  while (contract_take(&living, PST_COMPLETION_MESSAGE, 0, &message)) {
    near->next[message.endpoint - 1]++;
    near->taken++;
    contract_release(&living, &message);
  }
}

static void connect_all(void **state, struct near *near, uint32_t from)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;

  for (uint32_t i = 0; i < SIDES; i++)
    open_side(state, "gone0", "streams=true", true, &far_params, &gone[i]);
  near->connected = from;
  for (uint32_t i = from; i < ALL; i++)
    connect_one(near, i);
  while (near->connected < ALL) {
    contract_in_time(deadline, "%u peers to be connected", ALL - near->connected);
    go_on(near, true);
  }
}

static uint64_t stands_at_ns;

static uint64_t stands_still(void)
{
  return stands_at_ns;
}

/* Those that are gone wait, and as many of them as a batch has are being probed. */
static void probe_many(struct near *near)
{
  stands_at_ns = contract_now_ns();
  contract_host_clock(stands_still);
  for (uint32_t i = LIVING; i < ALL; i++)
    post_to(near, i);
  for (uint32_t i = 0; i < 3; i++) {
    near->side.image.ops->arm(near->side.worker); /* the next poll looks at the clock */
    poll_near(near);
    stands_at_ns += 4000000;
  }
}

/* Those that are gone: by themselves, or all of them closed at once while they wait. */
static void end_all(struct near *near, bool are_closed)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;

  near->ended = near->closed = 0;
  if (are_closed)
    probe_many(near);
  while (!are_closed && near->ended < GONE) {
    contract_in_time(deadline, "%u peers to be given up", GONE - near->ended);
    for (uint32_t i = LIVING; i < ALL; i++)
      if (!near->has_posted[i] && !near->has_ended[i])
        near->has_posted[i] = post_to(near, i) == 1;
    go_on(near, false);
  }
  for (uint32_t i = LIVING; i < ALL; i++)
    assert_int_equal(near->side.image.ops->endpoint_close(near->endpoints[i], PST_CLOSE_ABORT, 0),
                     0);
  while (near->closed < GONE) {
    contract_in_time(deadline, "%u endpoints to be closed", GONE - near->closed);
    go_on(near, false);
  }
  contract_host_clock(contract_now_ns);
  for (uint32_t i = 0; i < 100; i++)
    go_on(near, false);
  for (uint32_t i = 0; i < LIVING; i++)
    assert_false(near->has_ended[i]);
}

static void living_go_on_while_all_others_fail(void **state)
{
  static struct near near;
  const char *streams = ((const struct contract_variant *)*state)->name;
  uint64_t before[LIVING];

  int devices;
  struct ibv_device **all = ibv_get_device_list(&devices);
  assert_int_equal(devices, 3);
  ibv_free_device_list(all);
  open_side(state, "near0", streams, false, &near_params, &near.side);
  open_side(state, "living0", "streams=true", true, &far_params, &living);
  for (uint32_t round = 0; round < 2; round++) {
    connect_all(state, &near, round ? LIVING : 0);
    simulated_ctl("lose-peer host/gone0");
    memcpy(before, near.next, sizeof(before));
    near.most = 0;
    end_all(&near, round == 1);
    for (uint32_t i = 0; i < LIVING; i++)
      assert_true(near.next[i] > before[i] + 8);
    /* The endpoints that hold an initiator fail in one poll, and the probes of those that wait
     * end. */
    assert_in_range(near.most, round == 0, (2 * INITIATORS + 1) * COMMANDS);
    contract_complaints();
    simulated_ctl("restore-peer host/gone0");
    for (uint32_t i = 0; i < SIDES; i++)
      contract_side_vanish(&gone[i]);
  }
  connect_all(state, &near, LIVING);
  contract_complained(0);
  for (uint32_t i = 0; i < ALL; i++)
    near.side.image.ops->endpoint_close(near.endpoints[i], PST_CLOSE_ABORT, 0);
  near.closed = 0;
  while (near.closed < ALL)
    go_on(&near, true);
  for (uint32_t i = 0; i < SIDES; i++)
    contract_side_close(&gone[i]);
  contract_side_close(&living);
  contract_side_close(&near.side);
}

/* Endpoints to one port share its handle, but none takes one that was made with a GID that the own
 * port has no more. */
static void handles_are_made_anew_with_another_gid(void **state)
{
  static const uint8_t changed[] = {10, 1, 0, 9};
  struct contract_side near = {0};
  struct pst_blob blob;
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;

  open_side(state, "near0", "streams=true", false, &far_params, &near);
  open_side(state, "living0", "streams=true", true, &far_params, &living);
  simulated_meet(&near, &living, 0);
  simulated_meet(&near, &living, 1);
  assert_int_equal(simulated_device_counter(&near, "address_handles_made"), 1);
  simulated_ctl("port-set host/near0/1 --gid ::ffff:10.1.0.9 --index 3");
  for (bool is_seen = false; !is_seen;) { /* a GID's last bytes: transports/verbs_dc/blob.c */
    contract_in_time(deadline, "%s to have another GID", "the port");
    near.image.ops->arm(near.worker);
    contract_poll(&near);
    contract_poll(&living);
    assert_int_equal(near.image.ops->endpoint_close(near.endpoints[2], PST_CLOSE_ABORT, 0), 0);
    contract_await(&near, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
    contract_endpoint_open(&near, &far_params, NULL, 2);
    contract_address(&near, 2, &blob);
    is_seen = memcmp((uint8_t *)blob.bytes + 16 + 12, changed, sizeof(changed)) == 0;
  }
  simulated_meet(&near, &living, 2);
  assert_int_equal(simulated_device_counter(&near, "address_handles_made"), 2);
  contract_complaints();
  contract_side_close(&near);
  contract_side_close(&living);
}

/* An initiator that cannot be set up again is tried once more by the next endpoint that takes it.
 */
static void initiator_that_fails_is_tried_again(void **state)
{
  struct contract_side near = {0};
  struct pst_blob blob;
  uint32_t wait;
  char line[512];

  open_side(state, "near0", "streams=false", false, &far_params, &near);
  open_side(state, "living0", "streams=true", true, &far_params, &living);
  simulated_meet(&near, &living, 0);
  contract_complaints();
  contract_listen("an initiator that has failed cannot be set up again");
  refuses_reset = true;
  contract_address(&living, 1, &blob);
  ((uint8_t *)blob.bytes)[47] ^= 0x40; /* its key: transports/verbs_dc/blob.c */
  assert_int_equal(contract_connect(&near, 1, &blob), 0);
  contract_await(&near, &living, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_ERROR);
  contract_listen(NULL);
  contract_complained(2);
  const struct pst_request request = contract_send(&near, 0, 64, 0);
  for (uint32_t i = 0; i < INITIATORS + 1; i++) {
    while (contract_post(&near, 0, &request, 1, &wait) != 1)
      contract_poll(&near);
    contract_await_done(&near, &living, PST_OP_SEND, 1, 0);
    const struct pst_completion message = contract_await(&living, &near, PST_COMPLETION_MESSAGE, 0);
    contract_release(&living, &message);
  }
  contract_complained(0);
  contract_side_close(&near);
  contract_side_close(&living);
}

/* A target that the driver does not destroy is reported, and its worker goes on. */
static void target_that_stays_is_reported(void **state)
{
  struct contract_side near = {0};
  struct pst_completion moved;
  struct pst_blob blob;
  uint32_t wait;
  char line[512];

  open_side(state, "near0", "streams=true", false, &far_params, &near);
  open_side(state, "living0", "streams=true", true, &far_params, &living);
  simulated_meet(&near, &living, 0);
  contract_complaints();
  contract_listen("ibv_destroy_qp of target");
  refuses_destroy = true;
  simulated_ctl("target-error host/living0 --count 1");
  const struct pst_request request = contract_send(&near, 0, 64, 0);
  assert_int_equal(contract_post(&near, 0, &request, 1, &wait), 1);
  do
    moved = contract_await(&living, &near, PST_COMPLETION_EVENT, PST_EVENT_READDRESS);
  while (moved.endpoint != 1);
  assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_WARN);
  contract_listen(NULL);
  contract_complained(2);
  contract_address(&living, 0, &blob);
  assert_int_equal(contract_connect(&near, 0, &blob), 0);
  const struct pst_completion message = contract_await(&living, &near, PST_COMPLETION_MESSAGE, 0);
  contract_release(&living, &message);
  contract_side_close(&near);
  contract_side_close(&living);
}

int main(int argc, char **argv)
{
  struct contract_variant variant = {.name = "streams=true"};
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(living_go_on_while_all_others_fail),
      CONTRACT_CASE(handles_are_made_anew_with_another_gid),
      CONTRACT_CASE(initiator_that_fails_is_tried_again),
      CONTRACT_CASE(target_that_stays_is_reported),
  };

  if (argc != 4) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER STREAMS\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  simulated_launcher = argv[2];
  variant.name = strcmp(argv[3], "true") == 0 ? "streams=true" : "streams=false";
  return CONTRACT_MAIN("verbs_dc in a storm", cases, &variant);
}
