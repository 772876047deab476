/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of verbs_rc: a peer that names the key of another peer's memory, or of its ring, is refused
 * by the device, and not a byte changes; the other peer goes on.
 *
 *     penstock-simverbs verbs-rc-domains PLUGIN LAUNCHER
 *     verbs-rc-domains PLUGIN - DEVICE     # of soft-RoCE
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "verbs_rc_stream.h"

#define RIGHTS (PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE | REMOTE)
#define REMOTE (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE)
#define BLOB_RING 64u /* where an address has that of slot 0, 8 bytes, and its key, 4 */

enum { A, B };

static const int variants[] = {ONCE, FOUR, SHARED_ONCE};
static bool is_soft; /* it has one domain for receives that are shared */

/* One device with a ring and an endpoint for each of two peers, and the peers. */
struct world {
  struct contract_side server, peers[2];
  struct contract_params params[2];
  struct contract_region own, memory[2]; /* of the server: B's ring; what each peer is offered */
  struct contract_region from[2];        /* of the peers: what they send */
  struct pst_mr *ring_mr, *mrs[2], *from_mrs[2];
  struct pst_ring *ring;
};

static struct pst_mr *register_in(struct contract_side *side, const struct contract_region *region,
                                  uint32_t access, uint64_t domain)
{
  struct pst_mr *mr;
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = access,
                                       .region = &region->region,
                                       .length = region->region.length,
                                       .domain = domain};
  assert_int_equal(side->image.ops->mr_register(side->device, &params, &mr), 0);
  return mr;
}

static void open_peer(struct world *world, int which, int variant, bool is_node)
{
  struct contract_side *side = &world->peers[which];
  struct contract_params params = world->params[which];
  params.domain = is_node ? params.domain : 0;
  contract_side_open(&stream_variants[variant], &params, false, is_node, side);
  contract_region_make(STREAM_MEMORY, &world->from[which]);
  contract_fill(world->from[which].region.host, STREAM_MEMORY, 7 + (uint64_t)which);
  world->from_mrs[which] =
      register_in(side, &world->from[which], PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE, 0);
}

/* Nodes send, receive and have one-sided access; else the server receives. */
static void world_open(struct world *world, int variant, bool is_node)
{
  struct contract_side *server = &world->server;
  *world = (struct world){0};
  for (int i = 0; i < 2; i++) {
    world->params[i] = stream_params;
    world->params[i].domain = 1 + (uint64_t)i;
    world->params[i].roles_more = is_node ? PST_ROLE_SENDER | PST_ROLE_RMA : 0;
  }
  struct contract_params params[2] = {world->params[A], world->params[B]};
  params[A].requests = params[B].requests = is_node ? stream_params.requests : 0;
  contract_side_open(&stream_variants[variant], &params[A], false, true, server);
  contract_region_make(server->memory.region.length, &world->own);
  contract_fill(world->own.region.host, world->own.region.length, 3);
  world->ring_mr =
      register_in(server, &world->own, PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING, params[B].domain);
  contract_ring_open(server, &params[B], world->ring_mr, &world->ring);
  contract_endpoint_open(server, &params[B], world->ring, B);
  for (int i = 0; i < 2; i++) {
    open_peer(world, i, variant, is_node);
    contract_region_make(STREAM_MEMORY, &world->memory[i]);
    contract_fill(world->memory[i].region.host, STREAM_MEMORY, 5 + (uint64_t)i);
    world->mrs[i] = register_in(server, &world->memory[i], RIGHTS, params[i].domain);
  }
}

static void world_close(struct world *world)
{
  struct contract_side *server = &world->server;
  for (int i = 0; i < 2; i++) {
    world->peers[i].image.ops->mr_deregister(world->peers[i].device, world->from_mrs[i]);
    contract_region_free(&world->from[i]);
    contract_side_close(&world->peers[i]);
    server->image.ops->mr_deregister(server->device, world->mrs[i]);
    contract_region_free(&world->memory[i]);
    if (!server->closed[i])
      assert_int_equal(server->image.ops->endpoint_close(server->endpoints[i], PST_CLOSE_ABORT, 0),
                       0);
    server->closed[i] = true;
  }
  for (int i = 0; i < 2; i++)
    contract_await(server, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  server->image.ops->ring_close(server->worker, world->ring);
  server->image.ops->mr_deregister(server->device, world->ring_mr);
  contract_region_free(&world->own);
  contract_side_close(server);
  contract_complaints();
}

/* Connects a peer. `is_forged`: its blob names the other peer's ring. */
static void meet(struct world *world, int which, bool is_forged)
{
  uint8_t bytes[2][4096];
  struct pst_blob blobs[2];
  struct contract_side *server = &world->server, *peer = &world->peers[which];
  for (int i = 0; i < 2; i++) {
    blobs[i] = (struct pst_blob){
        .struct_size = sizeof(blobs[i]), .capacity = sizeof(bytes[i]), .bytes = bytes[i]};
    assert_int_equal(server->image.ops->endpoint_address(server->endpoints[i], &blobs[i]), 0);
  }
  if (is_forged)
    memcpy(bytes[which] + BLOB_RING, bytes[1 - which] + BLOB_RING, 12);
  assert_int_equal(contract_connect(peer, 0, &blobs[which]), 0);
  contract_address(peer, 0, &blobs[which]);
  assert_int_equal(contract_connect(server, (uint32_t)which, &blobs[which]), 0);
  contract_await(peer, server, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(server, peer, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
}

static struct pst_completion post(struct world *world, int which, struct pst_request request)
{
  struct contract_side *peer = &world->peers[which];
  uint32_t wait;
  request.local.mr = world->from_mrs[which];
  request.cookie = 1;
  assert_int_equal(contract_post(peer, 0, &request, 1, &wait), 1);
  return contract_await(peer, &world->server, PST_COMPLETION_DONE, (uint8_t)request.opcode);
}

static int32_t send_one(struct world *world, int which)
{
  return post(world, which,
              (struct pst_request){.opcode = PST_OP_SEND, .arg.length = stream_params.message})
      .status;
}

static void arrives(struct world *world, int which)
{
  assert_int_equal(send_one(world, which), 0);
  const struct pst_completion one =
      contract_await(&world->server, &world->peers[which], PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(one.endpoint, 1 + which);
  contract_release(&world->server, &one);
}

static void ring_of_another(int variant, bool is_node)
{
  struct world world;
  char line[2048];
  world_open(&world, variant, is_node);
  meet(&world, B, false);
  meet(&world, A, true);
  contract_complaints();
  contract_listen("IBV_WC_REM_ACCESS_ERR");
  assert_int_equal(send_one(&world, A), -ECONNRESET);
  assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_ERROR);
  contract_listen(NULL);
  assert_true(contract_verify(world.own.region.host, world.own.region.length, 3));
  /* By two queue pairs, too, the server says what was refused. */
  const struct pst_completion gone =
      contract_await(&world.server, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.endpoint, 1 + A);
  assert_int_equal(gone.status, -EACCES);
  arrives(&world, B);
  world_close(&world);
}

static bool is_silent; /* the device has no events */

/* The plugin's. */
__attribute__((visibility("default"))) int ibv_get_async_event(struct ibv_context *context,
                                                               struct ibv_async_event *event)
{
  int (*next)(struct ibv_context *, struct ibv_async_event *) = NULL;
  void *library = dlopen("libibverbs.so.1", RTLD_NOW); /* the plugin's, which stays */
  assert_non_null(library);
  *(void **)&next = dlsym(library, "ibv_get_async_event");
  assert_non_null(next);
  dlclose(library);
  if (!is_silent)
    return next(context, event);
  errno = EAGAIN;
  return -1;
}

/* The answering end's receives are flushed, the asking end is unchanged, and no event says why. */
static void an_end_without_events(void **state)
{
  (void)state;
  struct world world;
  if (is_soft)
    skip(); /* it gives the receive back with the reason */
  world_open(&world, ONCE, true);
  meet(&world, B, false);
  meet(&world, A, true);
  contract_complaints();
  is_silent = true;
  assert_int_equal(send_one(&world, A), -ECONNRESET);
  const struct pst_completion gone =
      contract_await(&world.server, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  is_silent = false;
  assert_int_equal(gone.endpoint, 1 + A);
  assert_int_equal(gone.status, -EIO);
  if (!strstr(contract_complaint(), "the device failed the queue pair, and gave back"))
    fail_msg("%s", contract_complaint());
  arrives(&world, B);
  world_close(&world);
}

static void a_ring_of_another_peer(void **state)
{
  (void)state;
  for (size_t i = 0; i < (is_soft ? 2 : 3); i++) {
    ring_of_another(variants[i], false);
    ring_of_another(variants[i], true);
  }
}

static struct pst_remote *open_remote(struct world *world, int which, int whose)
{
  uint8_t bytes[256];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  struct contract_side *server = &world->server, *peer = &world->peers[which];
  struct pst_remote *remote;
  assert_int_equal(server->image.ops->mr_pack(server->device, world->mrs[whose], &blob), 0);
  assert_int_equal(peer->image.ops->remote_open(peer->endpoints[0], &blob, &remote), 0);
  return remote;
}

static int32_t access_by(struct world *world, int which, uint16_t opcode, struct pst_remote *remote)
{
  return post(world, which,
              (struct pst_request){
                  .opcode = (uint8_t)opcode, .arg.length = 64, .u.rma.remote = remote})
      .status;
}

static void range_of_another(int variant, uint16_t opcode)
{
  struct world world;
  world_open(&world, variant, true);
  meet(&world, A, false);
  meet(&world, B, false);
  assert_int_equal(access_by(&world, A, opcode, open_remote(&world, A, A)), 0);
  assert_int_equal(access_by(&world, A, opcode, open_remote(&world, A, B)), -EACCES);
  assert_true(contract_verify(world.memory[B].region.host, STREAM_MEMORY, 5 + B));
  if (opcode == PST_OP_READ) { /* it had its own bytes, and has not the other's */
    assert_memory_equal(world.from[A].region.host, world.memory[A].region.host, 64);
  }
  assert_int_equal(access_by(&world, B, opcode, open_remote(&world, B, B)), 0);
  arrives(&world, B);
  world_close(&world);
}

static void a_range_of_another_peer(void **state)
{
  (void)state;
  for (size_t i = 0; i < (is_soft ? 2 : 3); i++) {
    range_of_another(variants[i], PST_OP_WRITE);
    range_of_another(variants[i], PST_OP_READ);
  }
}

/* FLUSH reads memory by the domain of the endpoint that asks. */
static void a_flush_of_ones_own(void **state)
{
  (void)state;
  struct world world;
  world_open(&world, ONCE, true);
  meet(&world, A, false);
  struct pst_remote *remote = open_remote(&world, A, A);
  assert_int_equal(access_by(&world, A, PST_OP_WRITE, remote), 0);
  struct pst_request flush = {.opcode = PST_OP_FLUSH, .u.rma.remote = remote};
  uint32_t wait;
  flush.cookie = 1;
  assert_int_equal(contract_post(&world.peers[A], 0, &flush, 1, &wait), 1);
  contract_await_done(&world.peers[A], &world.server, PST_OP_FLUSH, 1, 0);
  world_close(&world);
}

static void a_ring_of_another_domain(void **state)
{
  (void)state;
  struct world world;
  struct contract_side *server = &world.server;
  world_open(&world, ONCE, false);
  const struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                             .roles = PST_ROLE_RECEIVER,
                                             .ring = world.ring,
                                             .cookie = 9,
                                             .options = server->options,
                                             .message_max = stream_params.message,
                                             .domain = 1};
  struct pst_endpoint *endpoint = NULL;
  assert_int_equal(server->image.ops->endpoint_open(server->worker, &params, &endpoint), -EINVAL);
  assert_int_equal(contract_complaints(), 1);
  world_close(&world);
}

/* A peer costs as many registrations as it did when all had one domain. */
static uint64_t registrations_of(uint64_t domain)
{
  struct contract_params params = stream_params;
  struct contract_side side = {0};
  params.roles_more = PST_ROLE_SENDER | PST_ROLE_RMA;
  params.domain = domain;
  contract_side_open(&stream_variants[ONCE], &params, false, true, &side);
  const uint64_t n = simulated_said("show", "CQs, "); /* "2 CQs, 3 MRs" */
  assert_in_range(n, 1, 16);
  contract_side_close(&side);
  return n;
}

static void a_peer_costs_no_registration_more(void **state)
{
  (void)state;
  if (is_soft)
    skip();
  assert_int_equal(registrations_of(1), registrations_of(0));
}

int main(int argc, char **argv)
{
  static char once[128], four[160];
  is_soft = argc == 4 && strcmp(argv[2], "-") == 0;
  if (is_soft) { /* a guest may stand still, which is no loss */
    snprintf(once, sizeof(once), "device=%s,timeout=20", argv[3]);
    argv[--argc] = NULL;
    snprintf(four, sizeof(four), "%s,qps=4", once);
    stream_variants[ONCE].options = once;
    stream_variants[FOUR].options = four;
  }
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(a_ring_of_another_peer),   CONTRACT_CASE(an_end_without_events),
      CONTRACT_CASE(a_range_of_another_peer),  CONTRACT_CASE(a_flush_of_ones_own),
      CONTRACT_CASE(a_ring_of_another_domain), CONTRACT_CASE(a_peer_costs_no_registration_more),
  };
  return CONTRACT_MAIN("domains", cases, &stream_variants[0]);
}
