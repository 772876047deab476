/* SPDX-License-Identifier: Apache-2.0 */
/* A stream over verbs_rc on the simulated device, for tests of one process. */
#include "verbs_rc_stream.h"

#include <stdio.h>

#define OPTIONS "device=mlx5_0,timeout=8,keepalive=20ms"
#define BY_CM OPTIONS ",connection=rdma_cm,reconnect=20s"
#define CM_SLOW "device=mlx5_0,timeout=8,keepalive=5s,connection=rdma_cm,reconnect=2000s"

struct contract_variant stream_variants[STREAM_VARIANTS] = {
    {.name = "write", .options = OPTIONS ",reconnect=20s"},
    {.name = "send", .options = OPTIONS ",reconnect=20s,operation=send"},
    {.name = "wraps", .options = OPTIONS ",reconnect=20s,first_sequence=18446744073709551555"},
    /* The immediate alone does, which has the low 32 bits. */
    {.name = "wraps low", .options = OPTIONS ",reconnect=20s,first_sequence=4294967235"},
    {.name = "briefly", .options = OPTIONS ",reconnect=100ms"},
    {.name = "once", .options = OPTIONS},
    {.name = "once by send", .options = OPTIONS ",operation=send"},
    {.name = "over four", .options = OPTIONS ",qps=4"},
    {.name = "over two again", .options = OPTIONS ",qps=2,reconnect=20s"},
    {.name = "over four again",
     .options = OPTIONS ",qps=4,reconnect=20s,first_sequence=18446744073709551555"},
    {.name = "over four briefly", .options = OPTIONS ",qps=4,reconnect=100ms"},
    {.name = "shared", .options = OPTIONS ",reconnect=20s,srq=true"},
    {.name = "shared by send", .options = OPTIONS ",reconnect=20s,srq=true,operation=send"},
    {.name = "shared once", .options = OPTIONS ",srq=true"},
    {.name = "by rdma_cm", .options = BY_CM},
    {.name = "by rdma_cm and send", .options = BY_CM ",operation=send"},
    {.name = "by rdma_cm, shared by send", .options = BY_CM ",srq=true,operation=send"},
    {.name = "by rdma_cm over two", .options = BY_CM ",qps=2"},
    {.name = "by rdma_cm over four", .options = BY_CM ",qps=4,first_sequence=18446744073709551555"},
    {.name = "by rdma_cm, briefly", .options = OPTIONS ",connection=rdma_cm,reconnect=100ms"},
    {.name = "by rdma_cm, for long", .options = OPTIONS ",connection=rdma_cm,reconnect=600s"},
    {.name = "by rdma_cm over four, for long",
     .options = OPTIONS ",connection=rdma_cm,qps=4,reconnect=600s"},
    {.name = "by rdma_cm, slowly", .options = CM_SLOW},
    {.name = "by rdma_cm over four, slowly", .options = CM_SLOW ",qps=4"},
    {.name = "by rdma_cm and IPv6", .options = BY_CM ",gid_index=1"},
    {.name = "for ever", .options = "device=mlx5_0,timeout=8,retry_cnt=7,keepalive=0"},
};

const struct contract_params stream_params = {
    .endpoints = 1, .slots = 24, .message = 512, .requests = 64, .pieces = 1};

uint32_t stream_slots = 24;

bool stream_arguments(int argc, char **argv)
{
  if (argc < 3) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER [[--skip] CASE...]\n", argv[0]);
    return false;
  }
  const char *const *cases = (const char *const *)argv + 3;
  const bool skips = cases[0] && strcmp(cases[0], "--skip") == 0;
  contract_pick(skips ? NULL : cases, skips ? cases + 1 : NULL);
  for (size_t i = 0; i < STREAM_VARIANTS; i++)
    stream_variants[i].plugin = argv[1];
  simulated_launcher = argv[2];
  return true;
}

struct pst_mr *stream_memory(struct contract_side *side, uint32_t access,
                             struct contract_region *region)
{
  struct pst_mr *mr;

  contract_region_make(STREAM_MEMORY, region);
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = access,
                                       .region = &region->region,
                                       .length = STREAM_MEMORY};
  assert_int_equal(side->image.ops->mr_register(side->device, &params, &mr), 0);
  return mr;
}

uint64_t stream_counter(const struct contract_side *side, const char *name)
{
  return simulated_counter(side, side->endpoints[0], name);
}

void stream_open(struct stream *stream, int which, uint64_t timeout_ns)
{
  struct contract_params mine = stream_params;
  mine.slots = stream_slots;
  mine.timeout_ns = timeout_ns;
  mine.roles_more = PST_ROLE_RMA;
  *stream = (struct stream){.pair = contract_pair_open(&stream_variants[which], &mine)};
  contract_pair_connect(stream->pair);
}

void stream_close(struct stream *stream)
{
  contract_pair_close(stream->pair);
  contract_complaints();
}

void stream_post(struct stream *stream, uint32_t n)
{
  struct contract_side *side = &stream->pair->sender;
  struct pst_request requests[16];
  const uint64_t under_way = stream->posted - stream->done - stream->failed;
  uint32_t wait, k = 0;
  for (; k < n && k < 16 && under_way + k < stream_slots; k++) {
    uint64_t number = stream->posted + k, offset = number % stream_slots * side->stride;
    contract_fill((uint8_t *)side->memory.region.host + offset, stream_params.message, number);
    requests[k] = contract_send(side, offset, stream_params.message, number);
  }
  int rc = k ? contract_post(side, 0, requests, k, &wait) : 0;
  if (rc > 0)
    stream->posted += (uint64_t)rc;
  else if (k)
    assert_true(rc == -EAGAIN || rc == -ECONNRESET);
}

static void look(struct stream *stream, struct contract_side *side, int which)
{
  struct pst_completion one;
  contract_poll(side);
  while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &one)) {
    assert_false(one.status == 0 && stream->failed); /* in post order */
    *(one.status ? &stream->failed : &stream->done) += one.u.done.count;
  }
  while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &one)) {
    assert_int_equal(one.u.message.sequence, stream->delivered);
    assert_int_equal(one.u.message.length, stream_params.message);
    assert_true(
        contract_verify(contract_payload(side, &one), stream_params.message, stream->delivered));
    stream->delivered++;
    contract_release(side, &one);
  }
  if (!contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &one))
    return;
  stream->is_gone[which] = true;
  stream->status[which] = one.status;
}

void stream_poll(struct stream *stream)
{
  look(stream, &stream->pair->sender, 0);
  look(stream, &stream->pair->receiver, 1);
}

void stream_run(struct stream *stream, uint64_t count)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (stream->delivered < count) {
    if (stream->posted < count)
      stream_post(stream, (uint32_t)(1 + contract_random() % 16));
    stream_poll(stream);
    assert_false(stream->is_gone[0] || stream->is_gone[1]);
    contract_in_time(deadline,
                     "messages over a connection that fails: %" PRIu64 " of %" PRIu64 " arrived",
                     stream->delivered, count);
  }
}

void stream_settle(struct stream *stream)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (stream->done + stream->failed < stream->posted) {
    stream_poll(stream);
    contract_in_time(deadline, "DONEs: %" PRIu64 " of %" PRIu64, stream->done + stream->failed,
                     stream->posted);
  }
}

void stream_run_to_the_end(struct stream *stream)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (!stream->is_gone[0] || !stream->is_gone[1]) {
    stream_post(stream, 8);
    stream_poll(stream);
    contract_in_time(deadline, "DISCONNECTED at both ends (sender %d, receiver %d)",
                     stream->is_gone[0], stream->is_gone[1]);
  }
  stream_settle(stream);
  /* A message that arrived was done or, its answer lost, failed; never the other way round. */
  assert_in_range(stream->delivered, stream->done, stream->posted);
  assert_int_equal(stream_counter(&stream->pair->receiver, "messages_received"), stream->delivered);
}

void stream_ends(int which, const char *fault, uint64_t timeout_ns, int status)
{
  struct stream stream;
  stream_open(&stream, which, timeout_ns);
  stream_run(&stream, 100);
  contract_complaints();
  simulated_ctl(fault);
  stream_run_to_the_end(&stream);
  assert_int_equal(stream.status[0], status);
  assert_in_range(contract_complaints(), 2, 8); /* each end has said why, and its device what */
  simulated_ctl("clear");
  stream_close(&stream);
}

uint32_t stream_queue_pairs(const struct contract_side *side, unsigned int *numbers, uint32_t most)
{
  char text[512];
  uint32_t n = 0;
  assert_int_equal(side->image.ops->describe(side->endpoints[0], text, sizeof(text)), 0);
  char *at = strstr(text, "QP");
  assert_non_null(at);
  for (at += strcspn(at, " ") + 1; n < most; at += 2) {
    numbers[n++] = (unsigned int)strtoul(at, &at, 10);
    if (strncmp(at, ", ", 2) != 0)
      break;
  }
  return n;
}

void stream_leave(struct contract_side *side, uint32_t mode, uint64_t in_ns)
{
  assert_int_equal(
      side->image.ops->endpoint_close(side->endpoints[0], mode, contract_now_ns() + in_ns), 0);
  contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
}
