/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_rc's FLUSH behind WRITEs into several regions of a peer, which may be behind different
 * paths of PCI Express: one that names none reads each that was written, and no other. The test
 * sees which regions a FLUSH reads by taking one away before: the device refuses the access, and
 * the FLUSH fails.
 *
 *     penstock-simverbs verbs-rc-flush PLUGIN LAUNCHER
 */
#include <stdio.h>

#include "verbs_rc_stream.h"

#define REGIONS 20u /* more than are read at a time */
#define RIGHTS                                                                                     \
  (PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE | PST_ACCESS_REMOTE_READ |                       \
   PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)

struct ends {
  struct stream stream;
  struct contract_side *near, *far;
  struct contract_region own, regions[REGIONS];
  struct pst_mr *own_mr, *mrs[REGIONS]; /* NULL: taken away */
  struct pst_remote *remotes[REGIONS];
  uint64_t posted; /* FLUSHes */
};

static void ends_open(struct ends *ends, int which, uint32_t lacks)
{
  *ends = (struct ends){0};
  stream_open(&ends->stream, which, 0);
  ends->near = &ends->stream.pair->sender;
  ends->far = &ends->stream.pair->receiver;
  ends->own_mr =
      stream_memory(ends->near, PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE, &ends->own);
  for (uint32_t i = 0; i < REGIONS; i++) {
    uint8_t bytes[4096];
    struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
    ends->mrs[i] = stream_memory(ends->far, RIGHTS & ~lacks, &ends->regions[i]);
    assert_int_equal(ends->far->image.ops->mr_pack(ends->far->device, ends->mrs[i], &blob), 0);
    assert_int_equal(
        ends->near->image.ops->remote_open(ends->near->endpoints[0], &blob, &ends->remotes[i]), 0);
  }
}

static void take_away(struct ends *ends, uint32_t which)
{
  ends->far->image.ops->mr_deregister(ends->far->device, ends->mrs[which]);
  ends->mrs[which] = NULL;
}

static void ends_close(struct ends *ends)
{
  ends->near->image.ops->mr_deregister(ends->near->device, ends->own_mr);
  contract_region_free(&ends->own);
  for (uint32_t i = 0; i < REGIONS; i++) {
    if (ends->mrs[i])
      take_away(ends, i);
    contract_region_free(&ends->regions[i]);
  }
  stream_close(&ends->stream);
}

static struct pst_request write_to(const struct ends *ends, uint32_t which)
{
  return (struct pst_request){.opcode = PST_OP_WRITE,
                              .local.mr = ends->own_mr,
                              .arg.length = STREAM_MEMORY,
                              .u.rma.remote = ends->remotes[which]};
}

/* WRITEs into `n` of them, done but not flushed. */
static void write_into(struct ends *ends, uint32_t first, uint32_t n)
{
  for (uint32_t i = first; i < first + n; i++) {
    const struct pst_request request = write_to(ends, i);
    contract_post_one(ends->stream.pair, &request);
  }
  contract_await_done(ends->near, ends->far, PST_OP_WRITE, n, 0);
}

/* `named`: the region that it names, or NULL. */
static void flush(struct ends *ends, struct pst_remote *named, int status)
{
  const struct pst_request request = {
      .opcode = PST_OP_FLUSH, .cookie = ++ends->posted, .u.rma.remote = named};
  contract_post_one(ends->stream.pair, &request);
  const struct pst_completion done =
      contract_await(ends->near, ends->far, PST_COMPLETION_DONE, PST_OP_FLUSH);
  assert_int_equal(done.status, status);
  assert_int_equal(done.u.done.cookie, ends->posted);
  assert_int_equal(done.u.done.count, 1);
}

static void each_that_was_written_is_read(void **state)
{
  (void)state;
  for (uint32_t which = 0; which < 3; which++) {
    struct ends ends;
    ends_open(&ends, ONCE, 0);
    write_into(&ends, 0, 3);
    take_away(&ends, which);
    flush(&ends, NULL, -ECONNRESET);
    contract_complaints();
    ends_close(&ends);
  }
}

static void what_an_atomic_named_is_read(void **state)
{
  (void)state;
  struct ends ends;
  ends_open(&ends, ONCE, 0);
  const struct pst_request add = {.opcode = PST_OP_FETCH_ADD,
                                  .local.mr = ends.own_mr,
                                  .u.atomic = {.remote = ends.remotes[1], .operand = 7}};
  contract_post_one(ends.stream.pair, &add);
  contract_await_done(ends.near, ends.far, PST_OP_FETCH_ADD, 1, 0);
  write_into(&ends, 0, 1);
  take_away(&ends, 1);
  flush(&ends, NULL, -ECONNRESET);
  contract_complaints();
  ends_close(&ends);
}

/* Nor is what was flushed before, or given up: the peer may have taken it away. */
static void what_was_not_written_is_not_read(void **state)
{
  (void)state;
  struct ends ends;
  ends_open(&ends, ONCE, 0);
  take_away(&ends, 3);
  write_into(&ends, 0, 3);
  flush(&ends, NULL, 0);
  take_away(&ends, 0);
  write_into(&ends, 1, 1);
  flush(&ends, NULL, 0);
  flush(&ends, NULL, 0); /* of nothing */
  write_into(&ends, 1, 2);
  flush(&ends, ends.remotes[2], 0);
  take_away(&ends, 2);
  ends.near->image.ops->remote_close(ends.near->endpoints[0], ends.remotes[1]);
  take_away(&ends, 1);
  flush(&ends, NULL, 0);
  assert_int_equal(contract_complaints(), 0);
  ends_close(&ends);
}

/* A FLUSH of many regions goes through the queue of messages and WRITEs, one part at a time. */
static void many_are_read_and_none_overtaken(void **state)
{
  (void)state;
  for (int round = 0; round < 2; round++) {
    struct ends ends;
    struct pst_request requests[2 * (REGIONS + 1)];
    uint32_t n = 0, wait;
    ends_open(&ends, round ? FOUR_AGAIN : WRITE, 0);
    contract_fill(ends.own.region.host, STREAM_MEMORY, (uint64_t)round);
    for (uint32_t half = 0; half < 2; half++) {
      for (uint32_t i = 0; i < REGIONS; i++)
        requests[n++] = write_to(&ends, i);
      requests[n++] = (struct pst_request){.opcode = PST_OP_FLUSH, .cookie = half};
    }
    const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    for (uint32_t posted = 0; posted < n;) {
      int rc = contract_post(ends.near, 0, requests + posted, n - posted, &wait);
      assert_true(rc > 0 || rc == -EAGAIN);
      assert_true(rc == (int)(n - posted) || wait == PST_WAIT_QUEUE);
      posted += rc > 0 ? (uint32_t)rc : 0;
      contract_poll(ends.near);
      contract_poll(ends.far);
      contract_in_time(deadline, "room for the FLUSHes");
    }
    for (uint64_t half = 0; half < 2; half++)
      assert_int_equal(
          contract_await(ends.near, ends.far, PST_COMPLETION_DONE, PST_OP_FLUSH).u.done.cookie,
          half);
    contract_await_done(ends.near, ends.far, PST_OP_WRITE, 2 * REGIONS, 0);
    for (uint32_t i = 0; i < REGIONS; i++)
      assert_true(contract_verify(ends.regions[i].region.host, STREAM_MEMORY, (uint64_t)round));
    stream_run(&ends.stream, 100);
    ends_close(&ends);
  }
}

/* Closed and taken away between a FLUSH that had no room, whose first reads are under way, and the
 * next try: what is read is not asked for again, nor is the rest. */
static void what_is_given_up_meanwhile_is_not_read(void **state)
{
  (void)state;
  for (uint32_t stay = 0; stay < REGIONS; stay += REGIONS - 1) {
    struct ends ends;
    const struct pst_request request = {.opcode = PST_OP_FLUSH};
    uint32_t wait;
    ends_open(&ends, ONCE, 0);
    write_into(&ends, 0, REGIONS);
    assert_int_equal(contract_post(ends.near, 0, &request, 1, &wait), -EAGAIN);
    for (uint32_t i = 0; i < REGIONS; i++) {
      if (i == stay)
        continue;
      ends.near->image.ops->remote_close(ends.near->endpoints[0], ends.remotes[i]);
      take_away(&ends, i);
    }
    flush(&ends, NULL, 0);
    write_into(&ends, stay, 1);
    flush(&ends, NULL, 0);
    assert_int_equal(contract_complaints(), 0);
    ends_close(&ends);
  }
}

/* Reads of the transport's own that were under way are done again, too. */
static void a_reconnected_connection_flushes(void **state)
{
  (void)state;
  for (int lanes = 0; lanes < 2; lanes++) {
    for (uint32_t after = 0; after < 8; after++) {
      struct ends ends;
      struct pst_request requests[5] = {{0}};
      unsigned int numbers[4];
      char fault[64];
      uint32_t wait;
      ends_open(&ends, lanes ? FOUR_AGAIN : WRITE, 0);
      contract_fill(ends.own.region.host, STREAM_MEMORY, after);
      for (uint32_t i = 0; i < 4; i++)
        requests[i] = write_to(&ends, i);
      requests[4].opcode = PST_OP_FLUSH;
      stream_queue_pairs(ends.near, numbers, 4);
      snprintf(fault, sizeof(fault), "qp-error --qp %u --after %u --count 1", numbers[0], after);
      simulated_ctl(fault);
      assert_int_equal(contract_post(ends.near, 0, requests, 5, &wait), 5);
      contract_await_done(ends.near, ends.far, PST_OP_FLUSH, 1, 0);
      contract_await_done(ends.near, ends.far, PST_OP_WRITE, 4, 0);
      for (uint32_t i = 0; i < 4; i++)
        assert_true(contract_verify(ends.regions[i].region.host, STREAM_MEMORY, after));
      simulated_ctl("clear");
      stream_run(&ends.stream, 100);
      contract_complaints();
      ends_close(&ends);
    }
  }
}

/* A WRITE to memory that the peer does not let be read is placed after FLUSH, too: a device may
 * acknowledge before. */
static void what_may_not_be_read_is_placed(void **state)
{
  (void)state;
  for (int named = 0; named < 2; named++) {
    struct ends ends;
    ends_open(&ends, ONCE, PST_ACCESS_REMOTE_READ);
    contract_fill(ends.own.region.host, STREAM_MEMORY, 7);
    write_into(&ends, 0, 1);
    flush(&ends, named ? ends.remotes[0] : NULL, 0);
    assert_true(contract_verify(ends.regions[0].region.host, STREAM_MEMORY, 7));
    write_into(&ends, 0, 3);
    flush(&ends, ends.remotes[1], 0);
    flush(&ends, NULL, 0);
    for (uint32_t i = 0; i < 3; i++)
      assert_true(contract_verify(ends.regions[i].region.host, STREAM_MEMORY, 7));
    /* No more than its first byte is open to that. */
    struct pst_request read = write_to(&ends, 0);
    uint32_t wait;
    read.opcode = PST_OP_READ;
    assert_int_equal(contract_post(ends.near, 0, &read, 1, &wait), -EACCES);
    contract_complaints();
    ends_close(&ends);
  }
}

/* Whether our bytes are in the peer's memory, which its device may be writing: what the two do not
 * agree upon is no race for a sanitizer. */
__attribute__((no_sanitize_thread)) static bool is_written(const struct ends *ends, uint32_t which)
{
  const uint8_t *ours = ends->own.region.host, *theirs = ends->regions[which].region.host;
  for (uint32_t i = 0; i < STREAM_MEMORY; i++)
    if (__atomic_load_n(theirs + i, __ATOMIC_ACQUIRE) != ours[i])
      return false;
  return true;
}

/* A flag in one region, data in two others, whose way may be longer: who sees the flag in memory
 * sees the data. */
static void fenced_writes_come_after_all_before_them(void **state)
{
  (void)state;
  for (int lanes = 0; lanes < 2; lanes++) {
    struct ends ends;
    uint32_t wait;
    ends_open(&ends, lanes ? FOUR_AGAIN : ONCE, 0);
    contract_fill(ends.own.region.host, STREAM_MEMORY, 5);
    struct pst_request requests[3] = {write_to(&ends, 0), write_to(&ends, 1), write_to(&ends, 2)};
    requests[2].flags = PST_REQUEST_FENCE;
    assert_int_equal(contract_post(ends.near, 0, requests, 3, &wait), 3);
    contract_await_done(ends.near, ends.far, PST_OP_WRITE, 3, 0);
    const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    while (!is_written(&ends, 2))
      contract_in_time(deadline, "the flag");
    for (uint32_t i = 0; i < 2; i++)
      assert_true(is_written(&ends, i));
    assert_int_equal(contract_complaints(), 0);
    ends_close(&ends);
  }
}

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(each_that_was_written_is_read),
      CONTRACT_CASE(what_an_atomic_named_is_read),
      CONTRACT_CASE(what_was_not_written_is_not_read),
      CONTRACT_CASE(many_are_read_and_none_overtaken),
      CONTRACT_CASE(what_is_given_up_meanwhile_is_not_read),
      CONTRACT_CASE(a_reconnected_connection_flushes),
      CONTRACT_CASE(what_may_not_be_read_is_placed),
      CONTRACT_CASE(fenced_writes_come_after_all_before_them),
  };
  return CONTRACT_MAIN("flush", cases, &stream_variants[0]);
}
