/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that works on messages in GPU memory with a kernel of its own. The CUDA stream
 * waits for the copy of a batch, and the slots go back when the kernel is done. The CPU waits for
 * neither.
 *
 *   gpu-consumer FILE [KEY=VALUE]… &
 *   penstock send FILE [--set KEY=VALUE]…
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <penstock/dlpack.h>

#include "consumer.h"

extern const unsigned char cuda_kernels_image[]; /* consumer.cu, compiled */

#define BATCH 4096

static CUstream stream;
static CUfunction kernel;
static CUdeviceptr sum;

static void must(const char *what, int code)
{
  if (code == 0)
    return;
  fprintf(stderr, "gpu-consumer: %s: error %d\n", what, code);
  exit(1);
}

static void open_gpu(void)
{
  CUcontext context;
  CUmodule module;
  must("cuInit", cuInit(0));
  must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
  must("cuCtxPushCurrent", cuCtxPushCurrent(context));
  must("cuModuleLoadData", cuModuleLoadData(&module, cuda_kernels_image));
  must("cuModuleGetFunction", cuModuleGetFunction(&kernel, module, "consumer_sum"));
  must("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must("cuMemAlloc", cuMemAlloc(&sum, sizeof(uint64_t)));
  must("cuMemsetD8", cuMemsetD8(sum, 0, sizeof(uint64_t)));
}

/* One launch for each run of messages at equal strides. */
static void work(struct pst_receiver *receiver, const struct pst_batch *batch)
{
  struct pst_fence *through = NULL;
  must("ready", pst_receiver_fence_wait(receiver, batch->ready, stream));
  for (uint32_t at = 0, rows; at < batch->count; at += rows) {
    const struct pst_view *view = &batch->views[at];
    rows = pst_view_rows(view, batch->count - at);
    struct consumer_args args = {view->address, rows > 1 ? view[1].address - view->address : 0,
                                 view->length, sum, rows};
    void *params[] = {&args};
    must("cuLaunchKernel",
         cuLaunchKernel(kernel, (rows - 1) / 8 + 1, 1, 1, 256, 1, 1, 0, stream, params, NULL));
  }
  must("fence", pst_receiver_fence(receiver, stream, &through));
  must("release", pst_receiver_release_after(receiver, batch->views, batch->count, through));
}

/* `penstock send` reads the same file. These mappings are its own: without a table of keys the
 * library ignores what is in them. */
static const struct pst_config_map others[] = {
    {.name = "source", .place = PST_CONFIG_SENDER, .summary = "penstock's", .help = "penstock's"},
    {.name = "count", .place = PST_CONFIG_SENDER, .summary = "penstock's", .help = "penstock's"},
    {.name = "sink", .place = PST_CONFIG_RECEIVER, .summary = "penstock's", .help = "penstock's"},
    {.name = "count", .place = PST_CONFIG_RECEIVER, .summary = "penstock's", .help = "penstock's"},
    {.name = "expect", .place = PST_CONFIG_STREAM, .summary = "penstock's", .help = "penstock's"},
};
static const struct pst_config_program program = {.struct_size = sizeof(program),
                                                  .map_count = sizeof(others) / sizeof(others[0]),
                                                  .maps = others};

/* Opens the configuration and the session, then adds up the bytes of all messages on the GPU until
 * the stream ends. */
int main(int argc, char **argv)
{
  static struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_session_params params = {.struct_size = sizeof(params), .roles = PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config;
  struct pst_session *session;
  unsigned long long messages = 0, total = 0;
  if (argc < 2) {
    fprintf(stderr, "usage: gpu-consumer FILE [KEY=VALUE]...\n");
    return PST_EXIT_USAGE;
  }
  if (pst_config_program(&program) < 0)
    return PST_EXIT_FAILED;
  if (pst_config_open_file(argv[1], (const char *const *)argv + 2, (size_t)argc - 2, &config,
                           &error) < 0 ||
      pst_session_open(config, &params, &session, &error) < 0)
    return error.exit_status; /* the library has logged the error */
  open_gpu();
  struct pst_receiver *receiver = pst_session_receiver(session, "packets");
  if (!receiver || pst_session_start(session, &error) < 0)
    return PST_EXIT_USAGE;
  while (pst_receiver_state(receiver) < PST_STATE_ENDED) {
    int n = pst_receiver_poll(receiver, &batch);
    if (n > 0)
      work(receiver, &batch);
    else if (n == -ENODATA)
      pst_receiver_finish(receiver); /* as soon as the last fence has passed */
    else if (n < 0)
      return PST_EXIT_FAILED;
    else
      pst_session_wait(session, pst_receiver_thread(receiver), NULL);
    messages += n > 0 ? (unsigned int)n : 0;
  }
  must("cuMemcpyDtoH", cuMemcpyDtoH(&total, sum, sizeof(total)));
  printf("%llu messages, the sum of their bytes is %llu\n", messages, total);
  pst_session_close(session);
  pst_config_close(config);
  return PST_EXIT_OK;
}
