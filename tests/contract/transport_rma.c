/* SPDX-License-Identifier: Apache-2.0 */
/* READ, WRITE, FETCH_ADD and COMPARE_SWAP on the receiver's memory. */
#include <pthread.h>

#include "harness.h"

static const struct contract_params with_rma = {.endpoints = 1,
                                                .slots = 16,
                                                .message = 4096,
                                                .requests = 64,
                                                .pieces = 8,
                                                .roles_more = PST_ROLE_RMA};

struct rma {
  struct contract_pair *pair;
  struct pst_remote *remote;
};

static int remote_open(struct contract_pair *pair, struct pst_mr *mr, struct pst_remote **remote)
{
  uint8_t bytes[4096];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  const struct contract_side *far = &pair->receiver;
  int rc = far->image.ops->mr_pack(far->device, mr, &blob);
  assert_int_equal(rc, 0);
  assert_true(blob.length <= far->limits.remote_max);
  return pair->sender.image.ops->remote_open(pair->sender.endpoints[0], &blob, remote);
}

static struct rma open_rma(void **state)
{
  contract_need(state, PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC);
  struct rma rma = {.pair = contract_pair(state, &with_rma)};
  assert_int_equal(remote_open(rma.pair, rma.pair->receiver.mr, &rma.remote), 0);
  return rma;
}

static void close_rma(struct rma *rma)
{
  rma->pair->sender.image.ops->remote_close(rma->pair->sender.endpoints[0], rma->remote);
  contract_pair_close(rma->pair);
}

static struct pst_request access_of(const struct rma *rma, uint8_t opcode, uint64_t local,
                                    uint64_t far, uint64_t length)
{
  struct pst_request request = {.opcode = opcode,
                                .local.mr = rma->pair->sender.mr,
                                .offset = local,
                                .arg.length = length,
                                .cookie = 9};
  request.u.rma.remote = rma->remote;
  request.u.rma.offset = far;
  return request;
}

/* Post and wait. An error may come from post or in the DONE, as the medium has
 * it. */
static int run(struct contract_pair *pair, const struct pst_request *request)
{
  uint32_t wait;
  int rc = contract_post(&pair->sender, 0, request, 1, &wait);
  if (rc < 0)
    return rc;
  struct pst_completion done =
      contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_DONE, request->opcode);
  assert_int_equal(done.u.done.cookie, request->cookie);
  return done.status;
}

static void written_bytes_are_there_after_flush_and_read_back(void **state)
{
  contract_rule("FLUSH everything posted before it is placed at the peer");
  struct rma rma = open_rma(state);
  uint8_t *near = rma.pair->sender.memory.region.host;
  uint8_t *far = rma.pair->receiver.memory.region.host;
  contract_fill(near, 30000, 1);
  memset(far, 0, 60000);
  struct pst_request write = access_of(&rma, PST_OP_WRITE, 0, 12345, 30000);
  struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 1};
  assert_int_equal(run(rma.pair, &write), 0);
  assert_int_equal(run(rma.pair, &flush), 0);
  contract_bytes_are(far + 12345, 30000, 1);
  assert_int_equal(far[12344], 0);
  assert_int_equal(far[42345], 0);
  struct pst_request read = access_of(&rma, PST_OP_READ, 31000, 12345, 30000);
  assert_int_equal(run(rma.pair, &read), 0);
  contract_bytes_are(near + 31000, 30000, 1);
  write.arg.length = 0;
  assert_int_equal(run(rma.pair, &write), 0);
  close_rma(&rma);
}

static void pieces_are_gathered_and_scattered(void **state)
{
  contract_rule(
      "SEND and WRITE gather their pieces into one contiguous range at the peer; READ scatters one contiguous range of the peer's into its pieces.");
  struct rma rma = open_rma(state);
  uint8_t *near = rma.pair->sender.memory.region.host;
  uint8_t *far = rma.pair->receiver.memory.region.host;
  struct pst_piece pieces[3] = {{rma.pair->sender.mr, 10, 5, 0},
                                {rma.pair->sender.mr, 1000, 0, 0},
                                {rma.pair->sender.mr, 2000, 300, 0}};
  memcpy(near + 10, "12345", 5);
  contract_fill(near + 2000, 300, 4);
  const uint32_t most = rma.pair->sender.limits.pieces_max;
  /* The empty one is left out where there is no room for it. */
  if (most < 3)
    pieces[1] = pieces[2];
  const uint64_t length = most > 1 ? 305 : 5;
  struct pst_request request = access_of(&rma, PST_OP_WRITE, 0, 7, length);
  request.piece_count = (uint16_t)(most < 3 ? most : 3);
  request.local.pieces = pieces;
  assert_int_equal(run(rma.pair, &request), 0);
  struct pst_request flush = {.opcode = PST_OP_FLUSH};
  assert_int_equal(run(rma.pair, &flush), 0);
  assert_memory_equal(far + 7, "12345", 5);
  if (length > 5)
    contract_bytes_are(far + 12, 300, 4);
  memset(near, 0, 4000);
  request.opcode = PST_OP_READ;
  assert_int_equal(run(rma.pair, &request), 0);
  assert_memory_equal(near + 10, "12345", 5);
  if (length > 5)
    contract_bytes_are(near + 2000, 300, 4);
  close_rma(&rma);
}

static void nothing_beyond_the_range_is_reached(void **state)
{
  contract_rule("-EACCES (bounds or rights of the remote range, as far as this side knows them).");
  struct rma rma = open_rma(state);
  uint64_t length = rma.pair->receiver.memory.region.length;
  const struct {
    uint64_t offset, length;
  } bad[] = {{length, 1}, {length - 7, 8}, {UINT64_MAX, 8}, {UINT64_MAX - 3, 64}};
  for (size_t i = 0; i < 4; i++) {
    struct pst_request write = access_of(&rma, PST_OP_WRITE, 0, bad[i].offset, bad[i].length);
    assert_int_equal(run(rma.pair, &write), -EACCES);
    write.opcode = PST_OP_READ;
    assert_int_equal(run(rma.pair, &write), -EACCES);
  }
  struct pst_request local =
      access_of(&rma, PST_OP_WRITE, rma.pair->sender.memory.region.length - 7, 0, 8);
  assert_int_equal(run(rma.pair, &local), -EINVAL);
  struct pst_request last = access_of(&rma, PST_OP_WRITE, 0, length - 8, 8);
  assert_int_equal(run(rma.pair, &last), 0);
  close_rma(&rma);
}

static struct pst_mr *register_far(struct contract_pair *pair, uint32_t access)
{
  struct pst_mr *mr = NULL;
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = access,
                                 .region = &pair->receiver.memory.region,
                                 .offset = 64,
                                 .length = 4096};
  assert_int_equal(pair->receiver.image.ops->mr_register(pair->receiver.device, &params, &mr), 0);
  return mr;
}

/* A range of one right: what it allows comes before what it does not, and once more after that. */
static void one_right_is_no_other(struct rma *rma, uint8_t opcode, uint32_t access)
{
  static const uint8_t opcodes[] = {PST_OP_READ, PST_OP_WRITE, PST_OP_FETCH_ADD};
  struct pst_mr *mr = register_far(rma->pair, access);
  struct rma narrow = {.pair = rma->pair};
  assert_int_equal(remote_open(rma->pair, mr, &narrow.remote), 0);
  struct pst_request right = access_of(&narrow, opcode, 0, 0, opcode == PST_OP_FETCH_ADD ? 0 : 8);
  for (size_t i = 0; i < sizeof(opcodes); i++) {
    assert_int_equal(run(rma->pair, &right), 0);
    struct pst_request wrong =
        access_of(&narrow, opcodes[i], 0, 0, opcodes[i] == PST_OP_FETCH_ADD ? 0 : 8);
    if (opcodes[i] != opcode)
      assert_int_equal(run(rma->pair, &wrong), -EACCES);
  }
  rma->pair->sender.image.ops->remote_close(rma->pair->sender.endpoints[0], narrow.remote);
  rma->pair->receiver.image.ops->mr_deregister(rma->pair->receiver.device, mr);
}

static void rights_are_those_registered(void **state)
{
  contract_rule("-EACCES (bounds or rights of the remote range, as far as this side knows them).");
  struct rma rma = open_rma(state);
  one_right_is_no_other(&rma, PST_OP_READ, PST_ACCESS_REMOTE_READ);
  one_right_is_no_other(&rma, PST_OP_WRITE, PST_ACCESS_REMOTE_WRITE);
  one_right_is_no_other(&rma, PST_OP_FETCH_ADD, PST_ACCESS_REMOTE_ATOMIC);
  contract_rule("-EACCES: the mr has no remote rights");
  struct pst_mr *local = register_far(rma.pair, PST_ACCESS_LOCAL_WRITE);
  uint8_t bytes[4096];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  assert_int_equal(rma.pair->receiver.image.ops->mr_pack(rma.pair->receiver.device, local, &blob),
                   -EACCES);
  rma.pair->receiver.image.ops->mr_deregister(rma.pair->receiver.device, local);
  contract_complaints();
  close_rma(&rma);
}

/* A refusal by the peer may have ended the connection: then that is what follows. */
static void is_out_of_reach(struct rma *rma, const struct pst_request *request, bool *is_over)
{
  uint32_t wait;
  int rc = contract_post(&rma->pair->sender, 0, request, 1, &wait);
  /* Nothing goes any more, and the device may still have to say that it has given all back. */
  if (rc == -ECONNRESET && !*is_over) {
    contract_await(&rma->pair->sender, &rma->pair->receiver, PST_COMPLETION_EVENT,
                   PST_EVENT_DISCONNECTED);
    *is_over = true;
  }
  if (rc < 0) {
    assert_int_equal(rc, *is_over ? -ECONNRESET : -EACCES);
    return;
  }
  struct pst_completion done = contract_await(&rma->pair->sender, &rma->pair->receiver,
                                              PST_COMPLETION_DONE, request->opcode),
                        gone;
  if (!*is_over || done.status != -ECONNRESET)
    assert_int_equal(done.status, -EACCES);
  for (int i = 0; i < 100 && !*is_over; i++) {
    contract_poll(&rma->pair->sender);
    contract_poll(&rma->pair->receiver);
    *is_over =
        contract_take(&rma->pair->sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone);
  }
}

static void deregistered_memory_is_out_of_reach(void **state)
{
  contract_rule("After the return no device and no peer touches the range.");
  struct rma rma = open_rma(state);
  bool is_over = false;
  struct pst_mr *mr = register_far(rma.pair, PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE |
                                                 PST_ACCESS_REMOTE_ATOMIC);
  struct rma other = {.pair = rma.pair};
  assert_int_equal(remote_open(rma.pair, mr, &other.remote), 0);
  struct pst_request request = access_of(&other, PST_OP_WRITE, 0, 0, 64);
  assert_int_equal(run(rma.pair, &request), 0);
  rma.pair->receiver.image.ops->mr_deregister(rma.pair->receiver.device, mr);
  is_out_of_reach(&rma, &request, &is_over);
  request.opcode = PST_OP_READ;
  is_out_of_reach(&rma, &request, &is_over);
  request = access_of(&other, PST_OP_FETCH_ADD, 0, 0, 0);
  is_out_of_reach(&rma, &request, &is_over);
  rma.pair->sender.image.ops->remote_close(rma.pair->sender.endpoints[0], other.remote);
  close_rma(&rma);
  contract_complaints();
}

static void garbage_is_no_handle(void **state)
{
  contract_rule("-EPROTO: not a blob of this transport");
  struct rma rma = open_rma(state);
  struct pst_remote *remote = NULL;
  uint8_t bytes[64];
  memset(bytes, 0x33, sizeof(bytes));
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = 64, .bytes = bytes};
  for (blob.length = 0; blob.length <= 64; blob.length += 8)
    assert_int_equal(
        rma.pair->sender.image.ops->remote_open(rma.pair->sender.endpoints[0], &blob, &remote),
        -EPROTO);
  contract_untouched(remote, NULL, "remote_open");
  contract_complaints();
  close_rma(&rma);
}

static void atomics_return_what_they_found(void **state)
{
  contract_rule("Atomics put the peer's old 8 bytes there");
  struct rma rma = open_rma(state);
  uint64_t *near = rma.pair->sender.memory.region.host;
  uint64_t *far = rma.pair->receiver.memory.region.host;
  far[3] = 40;
  struct pst_request request = access_of(&rma, PST_OP_FETCH_ADD, 8, 24, 0);
  request.u.atomic.operand = 2;
  assert_int_equal(run(rma.pair, &request), 0);
  assert_int_equal(near[1], 40);
  assert_int_equal(far[3], 42);
  request.opcode = PST_OP_COMPARE_SWAP;
  request.arg.compare = 41;
  request.u.atomic.operand = 7;
  assert_int_equal(run(rma.pair, &request), 0);
  assert_int_equal(near[1], 42);
  assert_int_equal(far[3], 42);
  request.arg.compare = 42;
  assert_int_equal(run(rma.pair, &request), 0);
  assert_int_equal(far[3], 7);
  contract_rule("multiple of 8");
  request.u.atomic.offset = 25;
  assert_int_equal(run(rma.pair, &request), -EINVAL);
  contract_rule("-EACCES (bounds or rights of the remote range, as far as this side knows them).");
  request.u.atomic.offset = rma.pair->receiver.memory.region.length;
  assert_int_equal(run(rma.pair, &request), -EACCES);
  close_rma(&rma);
}

struct adder {
  const struct contract_variant *variant;
  struct rma rma;
  uint32_t rounds;
  int failed;
};

static void *add_up(void *arg)
{
  struct adder *adder = arg;
  struct pst_request request = access_of(&adder->rma, PST_OP_FETCH_ADD, 0, 0, 0);
  request.u.atomic.operand = 1;
  uint64_t deadline = contract_now_ns() + contract_watch_s() * UINT64_C(1000000000);
  uint32_t posted = 0, ended = 0;
  while (ended < adder->rounds && !adder->failed) {
    struct contract_side *side = &adder->rma.pair->sender;
    struct pst_completion done;
    uint32_t wait;
    int rc = posted < adder->rounds ? contract_post(side, 0, &request, 1, &wait) : 0;
    if (rc > 0)
      posted++;
    else if (rc < 0 && rc != -EAGAIN)
      adder->failed = rc;
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_DONE, PST_OP_FETCH_ADD, &done)) {
      ended += done.u.done.count;
      if (done.status)
        adder->failed = done.status;
    }
    if (contract_now_ns() > deadline)
      adder->failed = -ETIMEDOUT;
  }
  return NULL;
}

/* Two initiators, each with an endpoint of its own, add to one word. */
static void concurrent_atomics_lose_nothing(void **state)
{
  contract_rule("FETCH_ADD, COMPARE_SWAP of 8 bytes");
  struct adder adders[2];
  pthread_t threads[2];
  struct contract_region region;
  contract_need(state, PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC);
  contract_region_make(4096, &region);
  memset(region.region.host, 0, 4096);
  struct pst_mr *mrs[2];
  for (int i = 0; i < 2; i++) {
    adders[i] = (struct adder){.rma = open_rma(state), .rounds = 20000};
    struct contract_side *far = &adders[i].rma.pair->receiver;
    struct pst_mr_params params = {.struct_size = sizeof(params),
                                   .access = PST_ACCESS_REMOTE_ATOMIC,
                                   .region = &region.region,
                                   .length = 4096};
    assert_int_equal(far->image.ops->mr_register(far->device, &params, &mrs[i]), 0);
    adders[i].rma.pair->sender.image.ops->remote_close(adders[i].rma.pair->sender.endpoints[0],
                                                       adders[i].rma.remote);
    assert_int_equal(remote_open(adders[i].rma.pair, mrs[i], &adders[i].rma.remote), 0);
  }
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, add_up, &adders[i]), 0);
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(adders[i].failed, 0);
  }
  assert_int_equal(*(uint64_t *)region.region.host, 40000);
  for (int i = 0; i < 2; i++) {
    struct contract_side *far = &adders[i].rma.pair->receiver;
    far->image.ops->mr_deregister(far->device, mrs[i]);
    close_rma(&adders[i].rma);
  }
  contract_region_free(&region);
}

struct writer {
  struct rma rma;
  int result;
};

static void *write_on(void *arg)
{
  struct writer *writer = arg;
  struct pst_request request = access_of(&writer->rma, PST_OP_WRITE, 0, 0, 65536);
  struct contract_side *side = &writer->rma.pair->sender;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (writer->result == 0 && contract_now_ns() < deadline) {
    uint32_t wait;
    int rc = contract_post(side, 0, &request, 1, &wait);
    if (rc < 0 && rc != -EAGAIN)
      writer->result = rc;
    contract_poll(side);
    for (uint32_t i = 0; i < side->logged; i++)
      if (side->log[i].status && writer->result == 0)
        writer->result = side->log[i].status;
    side->logged = 0;
  }
  return NULL;
}

/* More than a transport may have places of its own for. */
enum { MANY = 80 };

static void open_many(struct contract_pair *pair, struct pst_mr *mr, struct pst_remote **remotes)
{
  for (int i = 0; i < MANY; i++)
    assert_int_equal(remote_open(pair, mr, &remotes[i]), 0);
}

static void close_many(struct contract_pair *pair, struct pst_remote **remotes)
{
  for (int i = 0; i < MANY; i++)
    pair->sender.image.ops->remote_close(pair->sender.endpoints[0], remotes[i]);
}

static void a_registration_is_opened_many_times(void **state)
{
  contract_rule("Write what a peer needs for one-sided access to the mr, by the mr's rights.");
  struct pst_remote *remotes[MANY];
  struct rma rma = open_rma(state);
  struct pst_request write = access_of(&rma, PST_OP_WRITE, 0, 8192, 4096);
  for (int round = 0; round < 2; round++) {
    open_many(rma.pair, rma.pair->receiver.mr, remotes);
    for (int i = 0; i < MANY; i += MANY - 1) {
      write.u.rma.remote = remotes[i];
      assert_int_equal(run(rma.pair, &write), 0);
    }
    close_many(rma.pair, remotes);
  }
  close_rma(&rma);
}

/* When deregistration returns, the memory may go: nobody writes there any more; nor does one who
 * came when many others had opened it. */
static void deregistration_waits_for_writes_under_way(void **state)
{
  contract_rule("After the return no device and no peer touches the range.");
  for (uint32_t round = 0; round < contract_rounds(20); round++) {
    struct writer writer = {.rma = open_rma(state)};
    struct contract_side *far = &writer.rma.pair->receiver;
    struct contract_region region;
    struct pst_remote *remotes[MANY];
    struct pst_mr *mr;
    pthread_t thread;
    contract_region_make(65536, &region);
    struct pst_mr_params params = {.struct_size = sizeof(params),
                                   .access = PST_ACCESS_REMOTE_WRITE,
                                   .region = &region.region,
                                   .length = 65536};
    assert_int_equal(far->image.ops->mr_register(far->device, &params, &mr), 0);
    writer.rma.pair->sender.image.ops->remote_close(writer.rma.pair->sender.endpoints[0],
                                                    writer.rma.remote);
    if (round % 2)
      open_many(writer.rma.pair, mr, remotes);
    assert_int_equal(remote_open(writer.rma.pair, mr, &writer.rma.remote), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    uint64_t until = contract_now_ns() + contract_random() % 1000000;
    while (contract_now_ns() < until)
      ;
    far->image.ops->mr_deregister(far->device, mr);
    contract_region_free(&region);
    pthread_join(thread, NULL);
    assert_int_equal(writer.result, -EACCES);
    if (round % 2)
      close_many(writer.rma.pair, remotes);
    close_rma(&writer.rma);
    contract_complaints();
  }
}

int contract_rma_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(written_bytes_are_there_after_flush_and_read_back),
      CONTRACT_CASE(pieces_are_gathered_and_scattered),
      CONTRACT_CASE(nothing_beyond_the_range_is_reached),
      CONTRACT_CASE(rights_are_those_registered),
      CONTRACT_CASE(deregistered_memory_is_out_of_reach),
      CONTRACT_CASE(a_registration_is_opened_many_times),
      CONTRACT_CASE(garbage_is_no_handle),
      CONTRACT_CASE(atomics_return_what_they_found),
      CONTRACT_CASE(concurrent_atomics_lose_nothing),
      CONTRACT_CASE(deregistration_waits_for_writes_under_way),
  };
  return CONTRACT_RUN("one-sided", cases, variant);
}
