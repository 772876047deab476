/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a GPU's memory, and an application's stream that works on them: on the fake driver,
 * or on the real one. Slots go back behind what is on that stream, however early the tensor is
 * deleted. */
#include "support.h"

#include <dlfcn.h>

#include <penstock/dlpack.h>

#include <consumer.h>

#define SLOTS 64
#define LENGTH 1000
#define TEXT                                                                                       \
  "penstock: 1\n"                                                                                  \
  "transport: {plugin: loopback, options: {mode: reference}}\n"                                    \
  "threads: {count: 1}\n"                                                                          \
  "streams: [{name: packets, message: 1462 B, ring: 64, receiver: {memory: cuda}}]\n"

/* Functions of libcuda that an application uses. */
static struct {
  int (*Init)(unsigned int flags);
  int (*DevicePrimaryCtxRetain)(void **context, int device);
  int (*CtxPushCurrent_v2)(void *context);
  int (*ModuleLoadData)(void **module, const void *image);
  int (*ModuleGetFunction)(void **function, void *module, const char *name);
  int (*StreamCreate)(void **stream, unsigned int flags);
  int (*StreamSynchronize)(void *stream);
  int (*StreamDestroy_v2)(void *stream);
  int (*StreamWaitValue32_v2)(void *stream, uint64_t address, uint32_t value, unsigned int flags);
  int (*MemHostAlloc)(void **address, size_t length, unsigned int flags);
  int (*MemFreeHost)(void *address);
  int (*LaunchKernel)(void *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                      unsigned int block_x, unsigned int block_y, unsigned int block_z,
                      unsigned int shared, void *stream, void **params, void **extra);
} cu;

/* Host memory that the device sees at the same address. */
struct shared {
  uint32_t gate; /* the stream goes on when it is the round's number */
  uint64_t sum;
};

static struct {
  void *stream, *kernel;
  struct shared *shared;
} app;

static bool bind(void)
{
  const struct {
    const char *name;
    void *call;
  } calls[] = {
#define X(name) {"cu" #name, &cu.name}
      X(Init),
      X(DevicePrimaryCtxRetain),
      X(CtxPushCurrent_v2),
      X(ModuleLoadData),
      X(ModuleGetFunction),
      X(StreamCreate),
      X(StreamSynchronize),
      X(StreamDestroy_v2),
      X(StreamWaitValue32_v2),
      X(MemHostAlloc),
      X(MemFreeHost),
      X(LaunchKernel),
#undef X
  };
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  for (size_t i = 0; library && i < sizeof(calls) / sizeof(calls[0]); i++) {
    void *symbol = dlsym(library, calls[i].name);
    if (!symbol)
      return false;
    memcpy(calls[i].call, &symbol, sizeof(symbol));
  }
  return library && cu.Init(0) == 0;
}

static int open_app(void **state)
{
  void *context, *module, *shared;
  if (use_fakes(state) || pst_plugin_path_add(PST_FAKES "/cuda") < 0)
    return 1;
  if (cu.DevicePrimaryCtxRetain(&context, 0) || cu.CtxPushCurrent_v2(context) ||
      cu.ModuleLoadData(&module, "any") ||
      cu.ModuleGetFunction(&app.kernel, module, "consumer_sum") ||
      cu.StreamCreate(&app.stream, 1) || cu.MemHostAlloc(&shared, sizeof(struct shared), 3))
    return 1;
  app.shared = shared;
  *app.shared = (struct shared){0, 0};
  return 0;
}

static int close_app(void **state)
{
  (void)state;
  return cu.StreamDestroy_v2(app.stream) || cu.MemFreeHost(app.shared);
}

/* All messages of a round have one byte. */
static void send_round(struct pst_sender *sender, uint32_t round, uint32_t *sent)
{
  struct pst_slot slots[SLOTS];
  int n = *sent < SLOTS ? pst_sender_acquire(sender, slots, SLOTS - *sent) : 0;
  assert_true(n >= 0);
  for (int i = 0; i < n; i++) {
    slots[i].length = LENGTH;
    memset(slots[i].host, (int)round, LENGTH);
  }
  if (n)
    assert_int_equal(pst_sender_submit(sender, slots, (uint32_t)n), 0);
  assert_true(pst_sender_poll(sender) >= 0);
  *sent += (uint32_t)n;
}

/* The application's kernel behind its gate; then the tensor goes. */
static void consume(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                    uint32_t round)
{
  struct DLManagedTensorVersioned *tensor = NULL;
  assert_int_equal(pst_receiver_dlpack(receiver, views, n, app.stream, 0, &tensor), 0);
  const struct DLTensor *dl = &tensor->dl_tensor;
  assert_int_equal(dl->device.device_type, kDLCUDA);
  struct consumer_args args = {(uintptr_t)dl->data, (uint64_t)dl->strides[0],
                               (uint64_t)dl->shape[1], (uintptr_t)&app.shared->sum,
                               (uint64_t)dl->shape[0]};
  void *params[] = {&args};
  assert_int_equal(cu.StreamWaitValue32_v2(app.stream, (uintptr_t)&app.shared->gate, round, 0), 0);
  assert_int_equal(cu.LaunchKernel(app.kernel, 8, 1, 1, 256, 1, 1, 0, app.stream, params, NULL), 0);
  tensor->deleter(tensor);
}

static int poll_views(struct pst_receiver *receiver, struct pst_view *views)
{
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = SLOTS, .views = views};
  int n = pst_receiver_poll(receiver, &batch);
  assert_true(n >= 0);
  return n;
}

/* The next round is sent, and finds no slot until the gate opens. */
static void slots_wait_for_the_applications_stream(void **state)
{
  struct pst_view views[SLOTS];
  struct run run;
  uint64_t expected = 0;
  uint32_t sent = 0, got = 0;
  (void)state;
  open_text(&run, TEXT);
  struct pst_sender *sender = pst_session_sender(run.session, "packets");
  struct pst_receiver *receiver = pst_session_receiver(run.session, "packets");
  start(&run);
  for (uint32_t round = 1; round <= 6; round++) {
    while (got < SLOTS) {
      send_round(sender, round, &sent);
      uint32_t n = (uint32_t)poll_views(receiver, views);
      for (uint32_t at = 0, rows; at < n; at += rows) {
        rows = pst_view_rows(views + at, n - at);
        consume(receiver, views + at, rows, round);
      }
      got += n;
      in_time(&run);
    }
    expected += (uint64_t)SLOTS * LENGTH * round;
    sent = got = 0;
    for (uint32_t turn = 0; round < 6 && (sent < SLOTS || turn < 200); turn += sent == SLOTS) {
      send_round(sender, round + 1, &sent);
      assert_int_equal(poll_views(receiver, views), 0);
      in_time(&run);
    }
    __atomic_store_n(&app.shared->gate, round, __ATOMIC_RELEASE);
  }
  assert_int_equal(cu.StreamSynchronize(app.stream), 0);
  assert_int_equal(app.shared->sum, expected);
  assert_int_equal(pst_sender_finish(sender), 0);
  while (pst_receiver_state(receiver) != PST_STATE_ENDED) {
    struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = SLOTS, .views = views};
    assert_true(pst_sender_poll(sender) >= 0);
    if (pst_receiver_poll(receiver, &batch) == -ENODATA)
      pst_receiver_finish(receiver);
    in_time(&run);
  }
  close_run(&run);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_wait_for_the_applications_stream),
  };
  if (!bind()) {
    fprintf(stderr, "there is no libcuda.so.1, or it does not start\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, open_app, close_app) ? 1 : 0;
}
