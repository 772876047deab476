/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rc on a simulated device that fails, with `reconnect`: what was under way is done again
 * where nobody can have built on it yet, and only there; and it fails where it cannot be.
 *
 *     penstock-simverbs verbs-rc-under-way PLUGIN LAUNCHER
 *
 * On the eager engine: what is posted has been done, or failed, once the call is over.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "verbs_rc_stream.h"

#define BYTES 512u
#define ROUNDS 6u

/* Memory of either end's, and the sender's way into the receiver's. */
struct memories {
  struct contract_region near, far;
  struct pst_mr *near_mr, *far_mr;
  struct pst_remote *remote;
};

static void memories_open(struct contract_side *near, struct contract_side *far,
                          struct memories *memories)
{
  uint8_t bytes[4096];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  memories->near_mr =
      stream_memory(near, PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE, &memories->near);
  memories->far_mr = stream_memory(far,
                                   PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                       PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE,
                                   &memories->far);
  assert_int_equal(far->image.ops->mr_pack(far->device, memories->far_mr, &blob), 0);
  assert_int_equal(near->image.ops->remote_open(near->endpoints[0], &blob, &memories->remote), 0);
}

static void memories_close(struct contract_side *near, struct contract_side *far,
                           struct memories *memories)
{
  near->image.ops->mr_deregister(near->device, memories->near_mr);
  far->image.ops->mr_deregister(far->device, memories->far_mr);
  contract_region_free(&memories->near);
  contract_region_free(&memories->far);
}

/* ---- Done again, or not ------------------------------------------------------------------------
 */

/* `first`, and a message behind it that tells the receiver of it, are done, and the sender does not
 * know: its queue pair fails at the next message. The receiver has taken the message by then. */
static void done_and_told(struct stream *stream, const struct pst_request *first, uint8_t flags)
{
  struct contract_side *near = &stream->pair->sender, *far = &stream->pair->receiver;
  struct pst_request requests[3] = {*first};
  unsigned int number;
  char fault[64];
  uint32_t wait;
  stream_queue_pairs(near, &number, 1);
  for (uint32_t i = 1; i < 3; i++) {
    requests[i] = contract_send(near, 0, 8, stream->posted++);
    requests[i].flags = flags;
  }
  snprintf(fault, sizeof(fault), "qp-error --qp %u --after 2 --count 1", number);
  simulated_ctl(fault);
  assert_int_equal(contract_post(near, 0, requests, 3, &wait), 3);
  struct pst_completion told = contract_await(far, NULL, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(told.u.message.sequence, stream->posted - 2);
  contract_release(far, &told);
}

/* The other message arrives, and all is done. */
static void had_again(struct stream *stream, uint8_t opcode)
{
  struct contract_side *near = &stream->pair->sender, *far = &stream->pair->receiver;
  const uint64_t before = stream_counter(near, "reconnections");
  contract_await_done(near, far, opcode, 1, 0);
  contract_await_done(near, far, PST_OP_SEND, 2, 0);
  struct pst_completion other = contract_await(far, near, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(other.u.message.sequence, stream->posted - 1);
  contract_release(far, &other);
  assert_int_equal(stream_counter(near, "reconnections"), before + 1);
  simulated_ctl("clear");
}

/* Memory that the receiver has seen written is not written again: it may have reused the place. */
static void once_told_not_done_again(uint8_t opcode, uint8_t flags)
{
  struct stream stream;
  struct memories memories;
  stream_open(&stream, WRITE, 0);
  struct contract_side *near = &stream.pair->sender, *far = &stream.pair->receiver;
  memories_open(near, far, &memories);
  uint8_t *here = memories.near.region.host, *there = memories.far.region.host;
  const bool writes = opcode == PST_OP_WRITE;
  const struct pst_request request = {.opcode = opcode,
                                      .local.mr = memories.near_mr,
                                      .arg.length = BYTES,
                                      .u.rma.remote = memories.remote};
  for (uint32_t round = 0; round < ROUNDS; round++) {
    contract_fill(writes ? here : there, BYTES, 2 * round);
    done_and_told(&stream, &request, flags);
    assert_true(contract_verify(writes ? there : here, BYTES, 2 * round));
    contract_fill(there, BYTES, 2 * round + 1);
    had_again(&stream, opcode);
    assert_true(contract_verify(there, BYTES, 2 * round + 1));
    assert_true(contract_verify(here, BYTES, 2 * round));
  }
  contract_complaints();
  memories_close(near, far, &memories);
  stream_close(&stream);
}

static void a_write_that_was_announced_is_not_repeated(void **state)
{
  (void)state;
  once_told_not_done_again(PST_OP_WRITE, 0);
}

/* The message waited for the READ: it tells that the place is read, and may be used for others. */
static void a_read_before_a_fence_is_not_done_again(void **state)
{
  (void)state;
  once_told_not_done_again(PST_OP_READ, PST_REQUEST_FENCE);
}

#define RD_ATOMIC 11 /* where an address says how many READs at a time its end takes */

/* Hellos get through, and the request that is repeated does not: the device refuses a READ from a
 * region that permits none each time, and the connection is made again at once. */
static void what_never_gets_through_ends(void **state)
{
  (void)state;
  struct contract_params params = stream_params;
  params.roles_more = PST_ROLE_RMA;
  struct contract_pair *pair = contract_pair_open(&stream_variants[BRIEFLY], &params);
  struct contract_side *near = &pair->sender, *far = &pair->receiver;
  struct memories memories;
  struct pst_blob blob;
  uint32_t wait;
  contract_address(near, 0, &blob);
  assert_int_equal(contract_connect(far, 0, &blob), 0);
  contract_address(far, 0, &blob);
  assert_in_range(((uint8_t *)blob.bytes)[RD_ATOMIC], 1, 16);
  ((uint8_t *)blob.bytes)[RD_ATOMIC] = 0;
  assert_int_equal(contract_connect(near, 0, &blob), 0);
  contract_await(near, far, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  memories_open(near, far, &memories);
  const struct pst_request read = {.opcode = PST_OP_READ,
                                   .local.mr = memories.near_mr,
                                   .arg.length = BYTES,
                                   .u.rma.remote = memories.remote};
  assert_int_equal(contract_post(near, 0, &read, 1, &wait), 1);
  assert_true(contract_await(near, far, PST_COMPLETION_DONE, PST_OP_READ).status < 0);
  assert_true(contract_await(near, far, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED).status < 0);
  contract_complaints();
  memories_close(near, far, &memories);
  contract_pair_close(pair);
}

/* ---- Not made again ------------------------------------------------------------------------- */

#define FLAGS 8 /* where an address says, by this one, that its end has `reconnect` */
#define RECONNECTS 64u

/* As far as the sender knows the receiver has no `reconnect`. */
static void one_end_alone_has_nothing_again(void **state)
{
  (void)state;
  struct contract_params params = stream_params;
  struct stream stream = {.pair = contract_pair_open(&stream_variants[BRIEFLY], &params)};
  struct contract_side *near = &stream.pair->sender, *far = &stream.pair->receiver;
  struct pst_blob blob;
  unsigned int number;
  char fault[64];
  contract_address(near, 0, &blob);
  assert_int_equal(contract_connect(far, 0, &blob), 0);
  contract_address(far, 0, &blob);
  assert_int_equal(((uint8_t *)blob.bytes)[FLAGS] & RECONNECTS, RECONNECTS);
  ((uint8_t *)blob.bytes)[FLAGS] &= (uint8_t)~RECONNECTS;
  assert_int_equal(contract_connect(near, 0, &blob), 0);
  contract_await(near, far, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(far, near, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  stream_queue_pairs(near, &number, 1);
  snprintf(fault, sizeof(fault), "qp-error --qp %u --after 20 --count 1", number);
  simulated_ctl(fault);
  stream_run_to_the_end(&stream);
  assert_int_equal(stream_counter(near, "reconnections"), 0);
  simulated_ctl("clear");
  stream_close(&stream);
}

static int refusal; /* what ibv_post_send() says, unless 0 */
static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int refuse_or_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
  if (!refusal)
    return post_send(qp, wr, bad);
  *bad = wr;
  return refusal;
}

/* Before that of the library in the plugin's search. */
__attribute__((visibility("default"))) struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
  void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  struct ibv_context *(*open)(struct ibv_device *) = NULL;
  if (library)
    *(void **)&open = dlsym(library, "ibv_open_device");
  struct ibv_context *context = open ? open(device) : NULL;
  if (library)
    dlclose(library);
  if (!context)
    return NULL;
  post_send = context->ops.post_send;
  context->ops.post_send = refuse_or_post;
  return context;
}

/* There is room, and the device says that it has none, or that it is broken: a connection begun
 * anew would not mend that. */
static void is_refused(uint8_t opcode, int error)
{
  struct stream stream;
  struct memories memories;
  uint32_t wait;
  int rc;
  stream_open(&stream, BRIEFLY, 0);
  struct contract_side *near = &stream.pair->sender, *far = &stream.pair->receiver;
  memories_open(near, far, &memories);
  stream_run(&stream, 50);
  stream_settle(&stream);
  const struct pst_request write = {.opcode = PST_OP_WRITE,
                                    .local.mr = memories.near_mr,
                                    .arg.length = BYTES,
                                    .u.rma.remote = memories.remote};
  const struct pst_request request =
      opcode == PST_OP_WRITE ? write : contract_send(near, 0, 8, stream.posted);
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  refusal = error;
  while ((rc = contract_post(near, 0, &request, 1, &wait)) == -EAGAIN) {
    stream_poll(&stream); /* credit */
    contract_in_time(deadline, "a post that the device refuses");
  }
  assert_int_equal(rc, -ECONNRESET);
  refusal = 0;
  stream_run_to_the_end(&stream);
  assert_int_equal(stream_counter(near, "reconnections"), 0);
  memories_close(near, far, &memories);
  stream_close(&stream);
}

static void what_the_device_does_not_take_ends_it(void **state)
{
  static const int errors[] = {EIO, ENOMEM, ETIMEDOUT};
  (void)state;
  for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
    is_refused(PST_OP_SEND, errors[i]);
    is_refused(PST_OP_WRITE, errors[i]);
  }
}

#if PST_TEST_RDMA_CM
/* ---- Ended meanwhile --------------------------------------------------------------------------
 */

/* The end that waits to be asked anew, with a READ that never took place, is closed. */
static void a_close_meanwhile_fails_what_was_under_way(void **state)
{
  (void)state;
  for (uint32_t mode = PST_CLOSE_DRAIN; mode <= PST_CLOSE_ABORT; mode++) {
    struct stream stream;
    struct memories memories;
    unsigned int number;
    char fault[64];
    stream_open(&stream, CM_LONG, 0);
    struct contract_side *near = &stream.pair->receiver, *far = &stream.pair->sender;
    memories_open(near, far, &memories);
    const struct pst_request read = {.opcode = PST_OP_READ,
                                     .local.mr = memories.near_mr,
                                     .arg.length = BYTES,
                                     .u.rma.remote = memories.remote};
    uint32_t wait;
    stream_queue_pairs(near, &number, 1);
    snprintf(fault, sizeof(fault), "drop --qp %u", number);
    simulated_ctl(fault);
    contract_complaints();
    assert_int_equal(contract_post(near, 0, &read, 1, &wait), 1);
    const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    while (contract_complaints() == 0) {
      contract_poll(near);
      contract_in_time(deadline, "the READ to fail");
    }
    contract_poll(near);
    assert_int_equal(near->image.ops->endpoint_close(near->endpoints[0], mode, deadline), 0);
    contract_await_done(near, NULL, PST_OP_READ, 1, -ECANCELED);
    contract_await(near, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
    simulated_ctl("clear");
    memories_close(near, far, &memories);
    stream_close(&stream);
  }
}
#endif

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
    CONTRACT_CASE(a_write_that_was_announced_is_not_repeated),
    CONTRACT_CASE(a_read_before_a_fence_is_not_done_again),
    CONTRACT_CASE(what_never_gets_through_ends),
    CONTRACT_CASE(one_end_alone_has_nothing_again),
    CONTRACT_CASE(what_the_device_does_not_take_ends_it),
#if PST_TEST_RDMA_CM
    CONTRACT_CASE(a_close_meanwhile_fails_what_was_under_way),
#endif
  };
  return CONTRACT_MAIN("under way", cases, &stream_variants[0]);
}
