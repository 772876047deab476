/* SPDX-License-Identifier: Apache-2.0 */
/* READ and WRITE of memory that the CPU cannot touch: what is submitted to its queue, in which
 * batches, and when requests are done. The memory is this test's, whose queue ends when it says. */
#include "support.h"

static struct pst_host host;
static uint8_t device_bytes[MEMORY];
static struct pst_mr *far_mr, *near_mr;
static struct pst_remote *far;

static struct {
  struct pst_copy_row rows[64];
  uint32_t count, batches;
  uint32_t batch_of[64]; /* row → its batch, from 1 */
  uint64_t done;         /* up to this batch */
  int refusal;           /* of the next copies */
  int poll_result;
  uint32_t fences;
  bool is_open;
} queue;

static int queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                      struct pst_queue **out)
{
  (void)memory, (void)params;
  queue.is_open = true;
  *out = (struct pst_queue *)(void *)&queue;
  return 0;
}

static void queue_close(struct pst_queue *handle)
{
  (void)handle;
  queue.is_open = false;
}

static int copy_rows(struct pst_queue *handle, const struct pst_copy_row *rows, uint32_t n,
                     uint64_t *ticket)
{
  (void)handle;
  if (queue.refusal)
    return queue.refusal;
  *ticket = ++queue.batches;
  for (uint32_t i = 0; i < n; i++) {
    queue.batch_of[queue.count] = queue.batches;
    queue.rows[queue.count++] = rows[i];
  }
  return 0;
}

static int queue_poll(struct pst_queue *handle, uint64_t *done)
{
  (void)handle;
  *done = queue.done;
  return queue.poll_result;
}

static int fence_record(struct pst_memory *memory, struct pst_queue *handle, void *stream,
                        struct pst_fence **fence)
{
  (void)memory, (void)handle, (void)stream, (void)fence;
  queue.fences++;
  return 0;
}

static const struct pst_memory_ops ops = {.struct_size = sizeof(ops),
                                          .capabilities =
                                              PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_FENCE,
                                          .queue_open = queue_open,
                                          .queue_close = queue_close,
                                          .copy_rows = copy_rows,
                                          .queue_poll = queue_poll,
                                          .fence_record = fence_record};

static const struct pst_memory_ops *region_memory(const struct pst_host *self,
                                                  const struct pst_region *region)
{
  (void)self;
  return region->memory ? &ops : NULL;
}

static int open_far(void **state)
{
  struct pst_region region = {.struct_size = sizeof(region),
                              .address = (uint64_t)(uintptr_t)device_bytes,
                              .memory = (struct pst_memory *)(void *)&queue,
                              .length = MEMORY};
  reset(state);
  memset(&queue, 0, sizeof(queue));
  host = fake_host;
  host.region_memory = region_memory;
  setup_rma(&host);
  far_mr = register_region(&region, LB_REMOTE_ACCESS);
  region = (struct pst_region){.struct_size = sizeof(region),
                               .address = (uint64_t)(uintptr_t)rig.source,
                               .host = rig.source,
                               .length = MEMORY};
  near_mr = register_region(&region, PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE);
  far = reach(far_mr);
  assert_true(queue.is_open);
  return 0;
}

static int close_far(void **state)
{
  lb_mr_of(far_mr)->gate.inside = 0; /* lest one that has failed waits for ever */
  lb_mr_deregister(rig.device, far_mr);
  lb_mr_deregister(rig.device, near_mr);
  teardown(state);
  assert_false(queue.is_open);
  return 0;
}

static struct pst_request rma(uint8_t opcode, uint64_t near, uint64_t offset, uint64_t length)
{
  static uint64_t cookie = 1;
  return (struct pst_request){.opcode = opcode,
                              .local.mr = near_mr,
                              .offset = near,
                              .arg.length = length,
                              .cookie = cookie++,
                              .u.rma = {.remote = far, .offset = offset}};
}

static int run(const struct pst_request *requests, uint32_t n)
{
  last_wait = PST_WAIT_NONE;
  return lb_post(rig.sender, requests, n, &last_wait);
}

static void finish(void)
{
  queue.done = queue.batches;
  while (lb_copy_pending(rig.sender))
    poll_all();
}

static void row_has_both_addresses(void **state)
{
  const struct pst_request requests[] = {rma(PST_OP_WRITE, 10, 100, 7),
                                         rma(PST_OP_READ, 20, 200, 8)};

  (void)state;
  assert_int_equal(run(requests, 2), 2);
  assert_int_equal(queue.count, 2);
  assert_int_equal(queue.rows[0].source, (uintptr_t)rig.source + 10);
  assert_int_equal(queue.rows[0].destination, (uintptr_t)device_bytes + 100);
  assert_int_equal(queue.rows[0].length, 7);
  assert_int_equal(queue.rows[1].source, (uintptr_t)device_bytes + 200);
  assert_int_equal(queue.rows[1].destination, (uintptr_t)rig.source + 20);
  assert_int_equal(queue.batch_of[0], 1);
  assert_int_equal(queue.batch_of[1], 2); /* of another kind */
  finish();
}

static void requests_are_done_when_their_batch_is(void **state)
{
  const struct pst_request requests[] = {rma(PST_OP_WRITE, 0, 0, 8), rma(PST_OP_WRITE, 8, 8, 8),
                                         rma(PST_OP_READ, 0, 0, 8)};

  (void)state;
  assert_int_equal(run(requests, 3), 3);
  assert_int_equal(queue.batches, 2);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(far->gate->inside, 2); /* the owner waits for both */
  assert_int_equal(lb_arm(rig.worker), -EAGAIN);
  queue.done = 1;
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].u.done.count, 2);
  assert_int_equal(polled[0].u.done.cookie, requests[1].cookie);
  assert_int_equal(far->gate->inside, 1);
  queue.done = 2;
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].code, PST_OP_READ);
  assert_int_equal(far->gate->inside, 0);
  assert_int_equal(rig.sender->dones.outstanding, 0);
}

static void flush_is_done_behind_what_was_posted_before(void **state)
{
  const struct pst_request requests[] = {rma(PST_OP_WRITE, 0, 0, 8),
                                         {.opcode = PST_OP_FLUSH, .cookie = 99}};

  (void)state;
  assert_int_equal(run(requests, 2), 2);
  assert_int_equal(poll_all(), 0);
  queue.done = 1;
  assert_int_equal(poll_all(), 2);
  assert_int_equal(polled[0].code, PST_OP_WRITE);
  assert_int_equal(polled[1].code, PST_OP_FLUSH);
}

static void request_with_fence_begins_a_batch_behind_a_fence(void **state)
{
  struct pst_request requests[] = {rma(PST_OP_WRITE, 0, 0, 8), rma(PST_OP_WRITE, 8, 8, 8)};

  (void)state;
  requests[1].flags = PST_REQUEST_FENCE;
  assert_int_equal(run(requests, 2), 2);
  assert_int_equal(queue.fences, 1);
  assert_int_equal(queue.batch_of[0], 1);
  assert_int_equal(queue.batch_of[1], 2);
  finish();
}

static void queue_that_is_full_takes_them_later(void **state)
{
  const struct pst_request requests[] = {rma(PST_OP_WRITE, 0, 0, 8), rma(PST_OP_WRITE, 8, 8, 8)};

  (void)state;
  queue.refusal = -EAGAIN;
  assert_int_equal(run(requests, 2), -EAGAIN);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  assert_int_equal(far->gate->inside, 0);
  assert_int_equal(rig.sender->dones.outstanding, 0);
  queue.refusal = 0;
  assert_int_equal(run(requests, 2), 2);
  finish();
}

static void copy_that_is_refused_leaves_the_peers_memory(void **state)
{
  const struct pst_request request = rma(PST_OP_WRITE, 0, 0, 8);

  (void)state;
  queue.refusal = -EIO;
  assert_int_equal(run(&request, 1), -EIO);
  assert_int_equal(far->gate->inside, 0);
  assert_false(lb_copy_pending(rig.sender));
}

static void queue_that_has_failed_ends_its_requests(void **state)
{
  const struct pst_request request = rma(PST_OP_WRITE, 0, 0, 8);

  (void)state;
  assert_int_equal(run(&request, 1), 1);
  queue.poll_result = -EIO;
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].status, -EIO);
  assert_int_equal(far->gate->inside, 0);
}

static void closing_in_time_waits_and_then_cancels(void **state)
{
  const struct pst_request request = rma(PST_OP_WRITE, 0, 0, 8);

  (void)state;
  assert_int_equal(run(&request, 1), 1);
  assert_int_equal(lb_endpoint_close(rig.sender, PST_CLOSE_DRAIN, fake_clock_ns + 100), 0);
  assert_int_equal(poll_all(), 0);
  fake_clock_ns += 100;
  while (!find(PST_COMPLETION_DONE, PST_OP_WRITE))
    poll_all();
  assert_int_equal(find(PST_COMPLETION_DONE, PST_OP_WRITE)->status, -ECANCELED);
  assert_false(queue.is_open);
  if (!find(PST_COMPLETION_EVENT, PST_EVENT_CLOSED))
    poll_all();
  assert_non_null(find(PST_COMPLETION_EVENT, PST_EVENT_CLOSED));
}

static void atomics_do_not_reach_it(void **state)
{
  const struct pst_request request = {
      .opcode = PST_OP_FETCH_ADD, .local.mr = near_mr, .u.atomic = {.remote = far, .operand = 1}};

  (void)state;
  assert_int_equal(run(&request, 1), -EOPNOTSUPP);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_far, close_far)
  const struct CMUnitTest tests[] = {
      CASE(row_has_both_addresses),
      CASE(requests_are_done_when_their_batch_is),
      CASE(flush_is_done_behind_what_was_posted_before),
      CASE(request_with_fence_begins_a_batch_behind_a_fence),
      CASE(queue_that_is_full_takes_them_later),
      CASE(copy_that_is_refused_leaves_the_peers_memory),
      CASE(queue_that_has_failed_ends_its_requests),
      CASE(closing_in_time_waits_and_then_cancels),
      CASE(atomics_do_not_reach_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
