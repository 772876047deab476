/* SPDX-License-Identifier: Apache-2.0 */
/* Views as DLPack tensors: what they say, and that views go back when a tensor is deleted,
 * whoever deletes it, and not before. */
#include "../simulated_clock.h"
#include "support.h"

#include <pthread.h>

#include <penstock/dlpack.h>

#define SLOTS 64
#define STREAM(mode, receiver)                                                                     \
  "penstock: 1\n"                                                                                  \
  "transport: {plugin: loopback, options: {mode: " mode "}}\n"                                     \
  "threads: {count: 1}\n"                                                                          \
  "streams: [{name: packets, message: 1462 B, ring: 64, receiver: " receiver "}]\n"

struct ends {
  struct run run;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
};

static void open_ends(struct ends *ends, const char *text)
{
  open_text(&ends->run, text);
  ends->sender = pst_session_sender(ends->run.session, "packets");
  ends->receiver = pst_session_receiver(ends->run.session, "packets");
  start(&ends->run);
  while (pst_sender_state(ends->sender) == PST_STATE_WAITING ||
         pst_receiver_state(ends->receiver) == PST_STATE_WAITING) {
    struct pst_batch batch = {.struct_size = sizeof(batch)};
    assert_true(pst_sender_poll(ends->sender) >= 0);
    assert_true(pst_receiver_poll(ends->receiver, &batch) >= 0);
    in_time(&ends->run);
  }
}

/* All that there is room for, of `length`: how many. */
static uint32_t send_full(struct ends *ends, uint32_t length)
{
  struct pst_slot slots[SLOTS];
  int n = pst_sender_acquire(ends->sender, slots, SLOTS);

  assert_true(n >= 0);
  for (int i = 0; i < n; i++)
    slots[i].length = length;
  assert_int_equal(pst_sender_fill(ends->sender, slots, (uint32_t)n), 0);
  assert_int_equal(pst_sender_submit(ends->sender, slots, (uint32_t)n), 0);
  return (uint32_t)n;
}

static uint32_t poll_views(struct ends *ends, struct pst_view *views)
{
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = SLOTS, .views = views};
  int n;

  do {
    n = pst_receiver_poll(ends->receiver, &batch);
    assert_true(n >= 0);
    assert_true(pst_sender_poll(ends->sender) >= 0);
    in_time(&ends->run);
  } while (n == 0);
  return (uint32_t)n;
}

/* All slots of a full ring in one tensor. */
static struct DLManagedTensorVersioned *tensor_of(struct ends *ends, uint32_t length,
                                                  struct pst_view *views, uint32_t *n)
{
  struct DLManagedTensorVersioned *tensor = NULL;

  assert_int_equal(send_full(ends, length), SLOTS);
  *n = poll_views(ends, views);
  assert_int_equal(pst_view_rows(views, *n), *n);
  assert_int_equal(pst_receiver_dlpack(ends->receiver, views, *n, NULL, 3, &tensor), 0);
  return tensor;
}

static void check_tensor(const struct DLManagedTensorVersioned *tensor,
                         const struct pst_view *views, uint32_t n)
{
  const struct DLTensor *dl = &tensor->dl_tensor;

  assert_int_equal(tensor->version.major, 1);
  assert_int_equal(dl->ndim, 2);
  assert_int_equal(dl->dtype.code, kDLUInt);
  assert_int_equal(dl->dtype.bits, 8);
  assert_int_equal(dl->dtype.lanes, 1);
  assert_int_equal(dl->shape[0], n);
  assert_int_equal(dl->shape[1], 1000);
  assert_int_equal(dl->byte_offset, 0);
  for (uint32_t i = 0; i < n; i++)
    assert_ptr_equal((const char *)dl->data + (int64_t)i * dl->strides[0], views[i].host);
  assert_int_equal(dl->strides[1], 1);
  assert_int_equal(dl->device.device_type, kDLCPU);
  assert_int_equal(dl->device.device_id, 0);
}

static void *delete_it(void *tensor)
{
  ((struct DLManagedTensorVersioned *)tensor)->deleter(tensor);
  return NULL;
}

static void end(struct ends *ends)
{
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};

  assert_int_equal(pst_sender_finish(ends->sender), 0);
  while (pst_receiver_state(ends->receiver) != PST_STATE_ENDED) {
    assert_true(pst_sender_poll(ends->sender) >= 0);
    if (pst_receiver_poll(ends->receiver, &batch) == -ENODATA)
      pst_receiver_finish(ends->receiver);
    in_time(&ends->run);
  }
  close_run(&ends->run);
}

static void slots_come_back_when_a_tensor_is_deleted(void **state)
{
  struct ends ends;
  struct pst_view views[SLOTS];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = SLOTS, .views = views};
  uint32_t n;
  (void)state;
  open_ends(&ends, STREAM("reference", "{memory: host}"));
  for (int round = 0; round < 20; round++) {
    struct DLManagedTensorVersioned *tensor = tensor_of(&ends, 1000, views, &n);
    pthread_t thread;
    assert_int_equal(n, SLOTS);
    check_tensor(tensor, views, n);
    assert_int_equal(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY); /* the sender's own slots */
    for (int i = 0; i < 100; i++) {
      assert_int_equal(pst_receiver_poll(ends.receiver, &batch), 0);
      assert_int_equal(send_full(&ends, 1000), 0);
    }
    assert_int_equal(pthread_create(&thread, NULL, delete_it, tensor), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pst_receiver_poll(ends.receiver, &batch), 0);
  }
  end(&ends);
}

/* The memory's copies end late: without an order of work of the caller's, they are waited for. */
static void a_tensor_is_ready(void **state)
{
  struct ends ends;
  struct pst_view views[SLOTS];
  uint32_t n;
  (void)state;
  open_ends(&ends, STREAM("copy", "{memory: {plugin: late, options: {delay: 2 ms}}}"));
  struct DLManagedTensorVersioned *tensor = tensor_of(&ends, 1000, views, &n);
  struct pst_fence *fence = NULL;
  assert_int_equal(tensor->flags, 0);
  assert_int_equal(check_all(ends.receiver, views, n, &fence), 0);
  assert_int_equal(pst_receiver_fence_wait(ends.receiver, fence, NULL), 0);
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  assert_int_equal(pst_receiver_verified(ends.receiver, &found), 0);
  assert_int_equal(found.checked, n);
  assert_int_equal(found.corrupted, 0);
  tensor->deleter(tensor);
  /* Behind the check, though the tensor is gone. */
  assert_int_equal(pst_receiver_release_after(ends.receiver, views, 0, fence), 0);
  end(&ends);
}

static void what_has_no_stride_is_refused(void **state)
{
  struct pst_view views[5] = {{.address = 1000, .length = 10},
                              {.address = 1064, .length = 10},
                              {.address = 1128, .length = 10},
                              {.address = 1192, .length = 9},
                              {.address = 1256, .length = 10}};
  struct DLManagedTensorVersioned *none = NULL;
  struct ends ends;
  (void)state;
  assert_int_equal(pst_view_rows(views, 0), 0);
  assert_int_equal(pst_view_rows(views, 1), 1);
  assert_int_equal(pst_view_rows(views, 3), 3);
  assert_int_equal(pst_view_rows(views, 5), 3);
  assert_int_equal(pst_view_rows(views + 3, 2), 1); /* a shorter one first */
  views[1].address = 1005;
  assert_int_equal(pst_view_rows(views, 3), 1); /* they overlap */
  views[1].address = 936;
  assert_int_equal(pst_view_rows(views, 3), 1); /* backwards */
  open_ends(&ends, STREAM("copy", "{memory: host}"));
  assert_int_equal(pst_receiver_dlpack(ends.receiver, views, 3, NULL, 0, &none), -EINVAL);
  assert_int_equal(pst_receiver_dlpack(ends.receiver, views, 0, NULL, 0, &none), -EINVAL);
  assert_null(none);
  end(&ends);
}

static void a_tensor_may_outlive_the_session(void **state)
{
  struct ends ends;
  struct pst_view views[SLOTS];
  uint32_t n;
  (void)state;
  open_ends(&ends, STREAM("reference", "{memory: host}"));
  struct DLManagedTensorVersioned *tensor = tensor_of(&ends, 1000, views, &n);
  assert_int_equal(pst_receiver_finish(ends.receiver), -EBUSY);
  close_run(&ends.run);
  tensor->deleter(tensor);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_come_back_when_a_tensor_is_deleted),
      cmocka_unit_test(a_tensor_is_ready),
      cmocka_unit_test(what_has_no_stride_is_refused),
      /* Closing waits for what is not given back. */
      cmocka_unit_test_setup_teardown(a_tensor_may_outlive_the_session, simulated_clock_begin,
                                      simulated_clock_end),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL) ? 1 : 0;
}
