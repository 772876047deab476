/* SPDX-License-Identifier: Apache-2.0 */
/* A stream through the filter fault, whose ledger is compared. */
#include <sched.h>

#include "fault.h"

static const struct contract_params params = {.endpoints = 1,
                                              .slots = FAULT_SLOTS,
                                              .message = FAULT_MESSAGE,
                                              .requests = FAULT_SLOTS + 1,
                                              .pieces = 4,
                                              .sleep = true};

void fault_open(const struct contract_variant *variant, const char *options,
                struct fault_stream *stream)
{
  static struct contract_variant with;
  with = *variant;
  with.filter_options = options;
  *stream = (struct fault_stream){.pair = contract_pair_open(&with, &params)};
  contract_pair_connect(stream->pair);
}

void fault_close(struct fault_stream *stream)
{
  contract_pair_close(stream->pair);
}

/* Takes a DONE: its slots belong to the sender again, which writes there at once. */
static void take_done(struct fault_stream *stream, const struct pst_completion *done)
{
  struct contract_side *side = &stream->pair->sender;
  assert_int_equal(done->endpoint, 1);
  assert_int_equal(done->status, stream->status);
  if (done->code == PST_OP_FLUSH) {
    stream->flushed++;
    return;
  }
  assert_int_equal(done->code, PST_OP_SEND);
  assert_true(done->u.done.count >= 1 && done->u.done.count <= stream->posted - stream->done);
  for (uint64_t i = 0; i < done->u.done.count; i++, stream->done++)
    memset((uint8_t *)side->memory.region.host + stream->done % FAULT_SLOTS * side->stride, 0xee,
           FAULT_MESSAGE);
  assert_int_equal(done->u.done.cookie, stream->done - 1);
}

static void take_message(struct fault_stream *stream, const struct pst_completion *message)
{
  struct contract_side *side = &stream->pair->receiver;
  uint64_t sequence = message->u.message.sequence;
  assert_int_equal(message->endpoint, 1);
  assert_true(sequence < stream->posted);
  assert_int_equal(message->u.message.meta, ~sequence);
  assert_int_equal(message->u.message.length, FAULT_MESSAGE);
  stream->arrived++;
  seq_window_see(&stream->track, sequence);
  if (!contract_verify(contract_payload(side, message), FAULT_MESSAGE, sequence))
    stream->corrupted++;
  contract_release(side, message);
}

/* Events stay logged. */
static int step_side(struct fault_stream *stream, struct contract_side *side)
{
  int n = contract_poll(side);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < side->logged; i++) {
    struct pst_completion completion = side->log[i];
    if (completion.kind == PST_COMPLETION_DONE)
      take_done(stream, &completion);
    else if (completion.kind == PST_COMPLETION_MESSAGE)
      take_message(stream, &completion);
    else if (completion.code != PST_EVENT_LENT)
      side->log[kept++] = completion;
  }
  side->logged = kept;
  return n;
}

int fault_step(struct fault_stream *stream)
{
  int n = step_side(stream, &stream->pair->sender);
  return n + step_side(stream, &stream->pair->receiver);
}

int fault_send(struct fault_stream *stream, uint32_t n)
{
  struct contract_side *side = &stream->pair->sender;
  struct pst_request requests[32];
  uint64_t room = FAULT_SLOTS - (stream->posted - stream->done);
  uint32_t wait;
  if (n > room)
    n = (uint32_t)room;
  if (n > 32)
    n = 32;
  if (n == 0)
    return 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t sequence = stream->posted + i;
    uint64_t offset = sequence % FAULT_SLOTS * side->stride;
    contract_fill((uint8_t *)side->memory.region.host + offset, FAULT_MESSAGE, sequence);
    requests[i] = contract_send(side, offset, FAULT_MESSAGE, sequence);
    requests[i].flags = PST_REQUEST_EXCLUSIVE;
  }
  int rc = contract_post(side, 0, requests, n, &wait);
  if (rc > 0)
    stream->posted += (uint64_t)rc;
  return rc == -EAGAIN ? 0 : rc;
}

void fault_finish(struct fault_stream *stream)
{
  struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 1};
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  bool posted = false;
  uint32_t wait;
  while (!stream->flushed || stream->done < stream->posted) {
    if (!posted) {
      int rc = contract_post(&stream->pair->sender, 0, &flush, 1, &wait);
      posted = rc == 1;
      assert_true(posted || rc == -EAGAIN);
    }
    if (fault_step(stream) == 0)
      sched_yield();
    assert_true(contract_now_ns() < deadline);
  }
  while (fault_step(stream) > 0)
    ;
}

void fault_stream(struct fault_stream *stream, uint64_t count)
{
  uint64_t deadline = contract_now_ns() + 5 * contract_deadline_ns;
  while (stream->posted < count) {
    uint64_t left = count - stream->posted;
    int rc = fault_send(stream, left < 32 ? (uint32_t)left : 32);
    assert_true(rc >= 0);
    fault_step(stream);
    assert_true(contract_now_ns() < deadline);
  }
  fault_finish(stream);
}

uint64_t fault_count(const struct fault_stream *stream, const char *name)
{
  const struct contract_side *side = &stream->pair->sender;
  static struct pst_counter counters[4096];
  int n = side->image.ops->counters(side->device, side->worker, side->endpoints[0], counters, 4096);
  for (int i = 0; i < n && i < 4096; i++)
    if (strcmp(counters[i].name, name) == 0)
      return counters[i].value;
  fail_msg("no counter %s", name);
  return 0;
}
