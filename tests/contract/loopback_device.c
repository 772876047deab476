/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided access to memory that the CPU cannot touch: loopback has the memory plugin copy.
 * On the fake driver, whose copies are done late, and on the real one. */
#include "loopback_device.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static struct pst_memory *malloced, *vmm, *other; /* `other`: the second GPU, or NULL */

static const char *via(const struct ends *ends)
{
  static struct pst_path_info path;
  const struct contract_side *near = &ends->near.side;
  path = (struct pst_path_info){.struct_size = sizeof(path)};
  assert_int_equal(near->image.ops->endpoint_path(near->endpoints[0], &path), 0);
  assert_int_equal(path.path, PST_PATH_DIRECT);
  assert_string_equal(path.carrier, ends->apart ? "shm" : "memory");
  return path.via;
}

/* WRITE, FLUSH, READ, of sizes and offsets at odds with any alignment. */
static void goes_there_and_back(struct pst_memory *near, struct pst_memory *far, bool apart,
                                const char *word)
{
  struct ends *ends = open_ends(near, far, apart);
  struct pst_request write = request_of(ends, PST_OP_WRITE, 13, 12345, 300001);
  struct pst_request read = request_of(ends, PST_OP_READ, 500000, 12345, 300001);
  const struct pst_request both[] = {write, flush};
  uint32_t wait;
  assert_string_equal(via(ends), word);
  if (near)
    fill(&ends->near.region, 13, 300001, 5);
  else
    contract_fill((uint8_t *)ends->near.region.host + 13, 300001, 5);
  assert_int_equal(contract_post(&ends->near.side, 0, both, 2, &wait), 2);
  contract_await(&ends->near.side, NULL, PST_COMPLETION_DONE, PST_OP_FLUSH);
  contract_await_done(&ends->near.side, NULL, PST_OP_WRITE, 1, 0);
  if (far && near)
    verify(&ends->far.region, 12345, 300001, 5);
  assert_int_equal(run(ends, &read), 0);
  if (near)
    verify(&ends->near.region, 500000, 300001, 5);
  else
    assert_true(contract_verify((uint8_t *)ends->near.region.host + 500000, 300001, 5));
  close_ends(ends);
}

static void between_processes_by_handle(void **state)
{
  (void)state;
  goes_there_and_back(malloced, malloced, true, "cuda-ipc");
}

static void between_processes_by_descriptor(void **state)
{
  (void)state;
  if (!vmm)
    skip();
  goes_there_and_back(vmm, vmm, true, "cuda-vmm");
}

static void between_allocators(void **state)
{
  (void)state;
  if (!vmm)
    skip();
  goes_there_and_back(malloced, vmm, true, "cuda-vmm");
  goes_there_and_back(vmm, malloced, true, "cuda-ipc");
}

static void within_a_process(void **state)
{
  (void)state;
  goes_there_and_back(malloced, malloced, false, "cuda-copy");
  if (vmm)
    goes_there_and_back(malloced, vmm, false, "cuda-copy");
}

static bool are_peers(void)
{
  struct ends ends;
  meet(&ends, malloced, other, true);
  int rc = open_remote(&ends, ends.far.side.mr, &ends.remote);
  end_close(&ends.near);
  end_close(&ends.far);
  contract_complaints();
  assert_true(rc == 0 || rc == -EXDEV);
  return rc == 0;
}

static void between_two_gpus(void **state)
{
  (void)state;
  if (!other || !are_peers())
    skip();
  goes_there_and_back(malloced, other, true, "cuda-peer");
  goes_there_and_back(other, malloced, false, "cuda-peer");
}

static void with_host_memory_at_one_end(void **state)
{
  (void)state;
  goes_there_and_back(malloced, NULL, true, "cuda-copy");
  goes_there_and_back(malloced, NULL, false, "cuda-copy");
  goes_there_and_back(NULL, malloced, false, "cuda-copy");
}

/* Nobody on this side could copy. */
static void device_memory_is_not_reached_from_the_host(void **state)
{
  (void)state;
  struct ends ends;
  struct pst_remote *remote = NULL;
  meet(&ends, NULL, malloced, true);
  assert_int_equal(open_remote(&ends, ends.far.side.mr, &remote), -EXDEV);
  assert_null(remote);
  assert_int_equal(contract_complaints(), 1);
  end_close(&ends.near);
  end_close(&ends.far);
}

static void pieces_are_gathered_and_scattered(void **state)
{
  (void)state;
  struct ends *ends = open_ends(malloced, malloced, true);
  struct pst_mr *near = ends->near.side.mr;
  struct pst_piece pieces[3] = {{near, 8, 1000, 0}, {near, 5000, 0, 0}, {near, 9000, 1500, 0}};
  struct pst_request request = request_of(ends, PST_OP_WRITE, 0, 7, 2500);
  request.piece_count = 3;
  request.local.pieces = pieces;
  fill(&ends->near.region, 8, 1000, 1);
  fill(&ends->near.region, 9000, 1500, 2);
  assert_int_equal(run(ends, &request), 0);
  verify(&ends->far.region, 7, 1000, 1);
  verify(&ends->far.region, 1007, 1500, 2);
  pieces[0].offset = 100000;
  pieces[2].offset = 110000;
  request.opcode = PST_OP_READ;
  assert_int_equal(run(ends, &request), 0);
  verify(&ends->near.region, 100000, 1000, 1);
  verify(&ends->near.region, 110000, 1500, 2);
  close_ends(ends);
}

static void what_is_wrong_is_refused(void **state)
{
  (void)state;
  struct ends *ends = open_ends(malloced, malloced, true);
  struct pst_request request = request_of(ends, PST_OP_WRITE, 0, LENGTH - 7, 8);
  assert_int_equal(run(ends, &request), -EACCES);
  request = request_of(ends, PST_OP_READ, LENGTH - 7, 0, 8);
  assert_int_equal(run(ends, &request), -EINVAL);
  request = request_of(ends, PST_OP_WRITE, 0, 0, 8);
  request.flags = 0x40;
  assert_int_equal(run(ends, &request), -EINVAL);
  request = request_of(ends, PST_OP_FETCH_ADD, 0, 0, 0);
  assert_int_equal(run(ends, &request), -EOPNOTSUPP);
  request = request_of(ends, PST_OP_WRITE, 0, 0, 0);
  assert_int_equal(run(ends, &request), 0);
  /* A correct request in front of a wrong one is taken. */
  struct pst_request two[] = {request_of(ends, PST_OP_WRITE, 0, 0, 64),
                              request_of(ends, PST_OP_WRITE, 0, LENGTH, 64)};
  uint32_t wait = 99;
  assert_int_equal(contract_post(&ends->near.side, 0, two, 2, &wait), 1);
  assert_int_equal(wait, PST_WAIT_NONE);
  contract_await_done(&ends->near.side, NULL, PST_OP_WRITE, 1, 0);
  close_ends(ends);
}

/* Another memory's bytes: its addresses mean nothing to the one that copies. */
static void memory_of_another_gpu_is_no_source(void **state)
{
  (void)state;
  if (!other)
    skip();
  struct ends *ends = open_ends(malloced, malloced, true);
  struct contract_side *near = &ends->near.side;
  struct pst_region strange = take(other);
  struct pst_mr *mr;
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE,
                                 .region = &strange,
                                 .length = LENGTH};
  assert_int_equal(near->image.ops->mr_register(near->device, &params, &mr), 0);
  struct pst_request request = request_of(ends, PST_OP_WRITE, 0, 0, 64);
  request.local.mr = mr;
  assert_int_equal(run(ends, &request), -EINVAL);
  near->image.ops->mr_deregister(near->device, mr);
  memory_ops->free_region(other, &strange);
  close_ends(ends);
}

/* Many at once, more than a queue takes: all end, in order, and no more than are allowed. */
static void many_are_taken_as_there_is_room(void **state)
{
  (void)state;
  struct ends *ends = open_ends(malloced, malloced, true);
  const uint64_t size = 4096, count = 4000;
  uint64_t posted = 0, covered = 0, deadline = contract_now_ns() + contract_deadline_ns;
  for (uint64_t i = 0; i < 16; i++)
    fill(&ends->near.region, i * size, size, i);
  while (covered < count && contract_now_ns() < deadline) {
    struct pst_request requests[7];
    struct pst_completion done;
    uint32_t wait, n = 0;
    for (; n < 7 && posted + n < count; n++) {
      requests[n] = request_of(ends, PST_OP_WRITE, (posted + n) % 16 * size,
                               (posted + n) % 16 * 3 * size, size);
      requests[n].cookie = posted + n;
    }
    int rc = n ? contract_post(&ends->near.side, 0, requests, n, &wait) : 0;
    if (rc > 0)
      posted += (uint64_t)rc;
    else if (n)
      assert_true(rc == -EAGAIN && wait == PST_WAIT_QUEUE);
    assert_in_range(posted - covered, 0, REQUESTS);
    contract_poll(&ends->near.side);
    while (contract_take(&ends->near.side, PST_COMPLETION_DONE, PST_OP_WRITE, &done)) {
      covered += done.u.done.count;
      assert_int_equal(done.status, 0);
      assert_int_equal(done.u.done.cookie, covered - 1);
    }
  }
  assert_int_equal(covered, count);
  for (uint64_t i = 0; i < 16; i++)
    verify(&ends->far.region, i * 3 * size, size, i);
  close_ends(ends);
}

/* With FENCE, what is behind takes effect behind: a READ of what was just written, and a
 * WRITE of what was just read. */
static void a_fence_orders(void **state)
{
  (void)state;
  struct ends *ends = open_ends(malloced, malloced, true);
  const uint64_t size = 200000;
  for (uint64_t round = 0; round < 10; round++) {
    struct pst_request requests[] = {
        request_of(ends, PST_OP_WRITE, 0, 0, size),
        request_of(ends, PST_OP_READ, 300000, 0, size),
        request_of(ends, PST_OP_WRITE, 300000, 300000, size),
        request_of(ends, PST_OP_WRITE, 600000, 300000, size / 2),
    };
    uint32_t wait;
    fill(&ends->near.region, 0, size, round);
    fill(&ends->near.region, 600000, size / 2, 1000 + round);
    for (int i = 1; i < 4; i++)
      requests[i].flags = PST_REQUEST_FENCE;
    assert_int_equal(contract_post(&ends->near.side, 0, requests, 4, &wait), 4);
    contract_await_done(&ends->near.side, NULL, PST_OP_READ, 1, 0);
    contract_await_done(&ends->near.side, NULL, PST_OP_WRITE, 3, 0);
    verify(&ends->near.region, 300000, size, round);
    verify(&ends->far.region, 300000, size / 2, 1000 + round);
  }
  close_ends(ends);
}

/* A thread with copies to look for does not sleep over them. */
static void a_worker_does_not_sleep_over_copies(void **state)
{
  (void)state;
  struct ends *ends = open_ends(malloced, malloced, true);
  struct contract_side *near = &ends->near.side;
  struct pst_request write = request_of(ends, PST_OP_WRITE, 0, 0, LENGTH);
  uint32_t wait;
  assert_int_equal(contract_post(near, 0, &write, 1, &wait), 1);
  int rc = near->image.ops->arm(near->worker);
  assert_int_equal(rc, -EAGAIN);
  contract_await_done(near, NULL, PST_OP_WRITE, 1, 0);
  close_ends(ends);
}

/* Closed in the midst of it: each request has its DONE, and nothing is written later. */
static void a_close_ends_what_is_under_way(void **state)
{
  (void)state;
  for (uint32_t mode = PST_CLOSE_DRAIN; mode <= PST_CLOSE_ABORT; mode++)
    for (uint64_t patience = 0; patience <= contract_deadline_ns;
         patience += contract_deadline_ns) {
      struct ends *ends = open_ends(malloced, malloced, true);
      struct contract_side *near = &ends->near.side;
      struct pst_request write = request_of(ends, PST_OP_WRITE, 0, 0, LENGTH);
      struct pst_completion done;
      uint64_t covered = 0;
      uint32_t wait;
      for (int i = 0; i < 5; i++)
        assert_int_equal(contract_post(near, 0, &write, 1, &wait), 1);
      assert_int_equal(
          near->image.ops->endpoint_close(near->endpoints[0], mode, contract_now_ns() + patience),
          0);
      contract_await(near, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
      while (contract_take(near, PST_COMPLETION_DONE, PST_OP_WRITE, &done)) {
        covered += done.u.done.count;
        assert_true(done.status == 0 || done.status == -ECANCELED);
        assert_true(done.status == 0 || patience == 0);
      }
      assert_int_equal(covered, 5);
      fill(&ends->far.region, 0, LENGTH, 42);
      verify(&ends->far.region, 0, LENGTH, 42);
      near->closed[0] = true;
      near->endpoints[0] = NULL;
      close_ends(ends);
    }
}

struct writer {
  struct ends *ends;
  int result;
};

static void *write_on(void *argument)
{
  struct writer *writer = argument;
  struct pst_request request = request_of(writer->ends, PST_OP_WRITE, 0, 0, LENGTH);
  struct contract_side *side = &writer->ends->near.side;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns, posted = 0, covered = 0;
  while ((writer->result == 0 || covered < posted) && contract_now_ns() < deadline) {
    struct pst_completion done;
    uint32_t wait;
    /* A few: deregistration waits for those under way, and for no longer than 2 s. */
    const bool posts = writer->result == 0 && posted - covered < 4;
    int rc = posts ? contract_post(side, 0, &request, 1, &wait) : 0;
    posted += rc > 0;
    if (rc < 0 && rc != -EAGAIN)
      writer->result = rc;
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_DONE, PST_OP_WRITE, &done)) {
      covered += done.u.done.count;
      writer->result = done.status ? done.status : writer->result;
    }
  }
  return NULL;
}

/* When it returns, no copy goes there any more: what is put there then stays. */
static void deregistration_waits_for_copies(void **state)
{
  (void)state;
  for (int round = 0; round < 8; round++) {
    struct writer writer = {.ends = open_ends(malloced, malloced, round % 2)};
    struct contract_side *far = &writer.ends->far.side;
    struct pst_region region = take(malloced);
    struct pst_mr *mr;
    pthread_t thread;
    struct pst_mr_params params = {.struct_size = sizeof(params),
                                   .access = PST_ACCESS_REMOTE_WRITE,
                                   .region = &region,
                                   .length = LENGTH};
    assert_int_equal(far->image.ops->mr_register(far->device, &params, &mr), 0);
    assert_int_equal(open_remote(writer.ends, mr, &writer.ends->remote), 0);
    fill(&writer.ends->near.region, 0, LENGTH, 7);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    uint64_t until = contract_now_ns() + 1000000 + contract_random() % 3000000;
    while (contract_now_ns() < until)
      ;
    far->image.ops->mr_deregister(far->device, mr);
    fill(&region, 0, LENGTH, 43);
    verify(&region, 0, LENGTH, 43);
    pthread_join(thread, NULL);
    assert_int_equal(writer.result, -EACCES);
    struct contract_side *near = &writer.ends->near.side;
    near->image.ops->remote_close(near->endpoints[0], writer.ends->remote);
    memory_ops->free_region(malloced, &region);
    close_ends(writer.ends);
  }
  contract_complaints();
}

static void nothing_is_left(void **state)
{
  (void)state;
  close_ends(open_ends(malloced, malloced, true));
  unsigned int before = contract_descriptors();
  for (int i = 0; i < 20; i++) {
    close_ends(open_ends(malloced, malloced, true));
    if (vmm)
      close_ends(open_ends(vmm, vmm, true));
  }
  assert_int_equal(contract_descriptors(), before);
}

int main(int argc, char **argv)
{
  struct contract_image image;
  struct pst_probe probe = {.struct_size = sizeof(probe)};
  if (argc < 3) {
    fprintf(stderr, "usage: %s TRANSPORT MEMORY [CASE]...\n", argv[0]);
    return 2;
  }
  contract_pick((const char *const *)argv + 3, NULL);
  variant.plugin = argv[2];
  contract_image_open(&variant, false, &image);
  cuda = image.plugin;
  memory_ops = cuda->ops;
  variant.plugin = argv[1];
  if (cuda->probe(&contract_host, &probe) != 0) {
    const char *required = getenv("PENSTOCK_REQUIRE");
    fprintf(stderr, "%s; %s\n", probe.reason, probe.remedy);
    return required && strstr(required, "cuda") ? 1 : 77;
  }
  contract_memory_ops(memory_ops);
  malloced = open_memory("");
  vmm = open_memory("allocator=vmm");
  other = open_memory("device=1");
  contract_complaints();
  const struct CMUnitTest cases[] = {
      CONTRACT_CASE(between_processes_by_handle),
      CONTRACT_CASE(between_processes_by_descriptor),
      CONTRACT_CASE(between_allocators),
      CONTRACT_CASE(within_a_process),
      CONTRACT_CASE(between_two_gpus),
      CONTRACT_CASE(with_host_memory_at_one_end),
      CONTRACT_CASE(device_memory_is_not_reached_from_the_host),
      CONTRACT_CASE(pieces_are_gathered_and_scattered),
      CONTRACT_CASE(what_is_wrong_is_refused),
      CONTRACT_CASE(memory_of_another_gpu_is_no_source),
      CONTRACT_CASE(many_are_taken_as_there_is_room),
      CONTRACT_CASE(a_fence_orders),
      CONTRACT_CASE(a_worker_does_not_sleep_over_copies),
      CONTRACT_CASE(a_close_ends_what_is_under_way),
      CONTRACT_CASE(deregistration_waits_for_copies),
      CONTRACT_CASE(nothing_is_left),
  };
  return contract_group("loopback: device memory", cases, sizeof(cases) / sizeof(cases[0]),
                        contract_watch)
             ? 1
             : 0;
}
