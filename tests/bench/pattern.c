/* SPDX-License-Identifier: Apache-2.0 */
/* bench-pattern FOLDER MIB MS SIZE...: what the memory plugin `cuda` fills with the test pattern
 * and verifies on the GPU, GB/s of messages, over MIB of its memory, which is to be more than its
 * caches hold; beside the driver's own cuMemsetD8Async and device to device copy of as many bytes.
 * For each SIZE: batches of up to 4096 messages, 8 under way, in order, and in none, which takes a
 * list. The verified bytes are those that were filled, and a difference ends the program.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <config/options.h>
#include <driver.h>
#include <loader/loader.h>
#include <penstock/memory.h>
#include <penstock/penstock.h>

#define UNDER_WAY 8u
#define BATCH_MAX 4096u
#define SEED 7u

struct bench {
  const struct pst_memory_ops *ops;
  struct pst_memory *memory;
  struct pst_region region;
  struct pst_queue *queue;
  uint64_t run_ns, ticket;
};

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void must(const char *what, int code)
{
  if (code >= 0)
    return;
  fprintf(stderr, "bench-pattern: %s: %s\n", what, strerror(-code));
  exit(1);
}

/* ---- The driver's own ---------------------------------------------------------------- */

static struct {
  cuda_status (*retain)(cuda_context *, cuda_device);
  cuda_status (*push)(cuda_context);
  cuda_status (*stream)(cuda_stream *, unsigned int);
  cuda_status (*synchronize)(cuda_stream);
  cuda_status (*set)(cuda_pointer, unsigned char, size_t, cuda_stream);
} cu;

static void bind(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);
  if (!symbol) {
    fprintf(stderr, "bench-pattern: libcuda.so.1 has no %s\n", name);
    exit(1);
  }
  memcpy(function, &symbol, sizeof(symbol));
}

static void cuda_must(const char *what, cuda_status status)
{
  if (status == CUDA_SUCCESS)
    return;
  fprintf(stderr, "bench-pattern: %s: CUDA error %d\n", what, status);
  exit(1);
}

static cuda_stream bind_all(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW); /* the plugin has it open already */
  cuda_context context;
  cuda_stream stream;
  bind(library, "cuDevicePrimaryCtxRetain", &cu.retain);
  bind(library, "cuCtxPushCurrent_v2", &cu.push);
  bind(library, "cuStreamCreate", &cu.stream);
  bind(library, "cuStreamSynchronize", &cu.synchronize);
  bind(library, "cuMemsetD8Async", &cu.set);
  cuda_must("cuDevicePrimaryCtxRetain", cu.retain(&context, 0));
  cuda_must("cuCtxPushCurrent", cu.push(context));
  cuda_must("cuStreamCreate", cu.stream(&stream, CUDA_STREAM_NON_BLOCKING));
  return stream;
}

static double measure_set(const struct bench *b)
{
  cuda_stream stream = bind_all();
  uint64_t bytes = 0, half = b->region.length / 2, start;
  cuda_must("cuMemsetD8Async", cu.set(b->region.address, 1, half, stream));
  cuda_must("cuStreamSynchronize", cu.synchronize(stream));
  for (start = now_ns(); now_ns() - start < b->run_ns; bytes += UNDER_WAY * half) {
    for (uint32_t i = 0; i < UNDER_WAY; i++)
      cuda_must("cuMemsetD8Async", cu.set(b->region.address + i % 2 * half, 1, half, stream));
    cuda_must("cuStreamSynchronize", cu.synchronize(stream));
  }
  return (double)bytes / (double)(now_ns() - start);
}

/* ---- The plugin's ------------------------------------------------------------------- */

static void await(struct bench *b, uint64_t ticket)
{
  for (uint64_t done = 0; done < ticket;)
    must("queue_poll", b->ops->queue_poll(b->queue, &done));
}

/* One half into the other, by a copy of the driver's each time. */
static double measure_copy(struct bench *b)
{
  uint64_t half = b->region.length / 2, bytes = 0, start = now_ns();
  for (uint32_t i = 0; bytes < UNDER_WAY * half || now_ns() - start < b->run_ns; i++) {
    struct pst_copy_row piece = {.source = b->region.address + i % 2 * half,
                                 .destination = b->region.address + (i + 1) % 2 * half,
                                 .length = half,
                                 .count = 1};
    must("copy_rows", b->ops->copy_rows(b->queue, &piece, 1, &b->ticket));
    if (b->ticket >= UNDER_WAY)
      await(b, b->ticket - UNDER_WAY + 1);
    bytes += half;
  }
  await(b, b->ticket);
  return (double)bytes / (double)(now_ns() - start);
}

struct messages {
  uint64_t length, stride, count;
  bool scattered;
};

static uint32_t payloads_make(const struct bench *b, const struct messages *m, uint64_t first,
                              struct pst_payload_row *payloads)
{
  uint32_t n = m->count - first < BATCH_MAX ? (uint32_t)(m->count - first) : BATCH_MAX;
  for (uint32_t i = 0; i < n; i++) {
    /* Pairs change places: no stride. */
    uint64_t slot = first + i, place = m->scattered && (slot ^ 1) < m->count ? slot ^ 1 : slot;
    payloads[i] = (struct pst_payload_row){.address = b->region.address + place * m->stride,
                                           .length = m->length,
                                           .sequence = slot,
                                           .count = 1};
  }
  return n;
}

/* Over all of the region at least once, so that all is filled before it is verified. */
static double measure_pattern(struct bench *b, const struct messages *m, bool verify)
{
  static struct pst_payload_row payloads[BATCH_MAX];
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  uint64_t bytes = 0, first = 0, start = now_ns();
  do {
    uint32_t n = payloads_make(b, m, first, payloads);
    must("batch", verify ? b->ops->verify_rows(b->queue, SEED, payloads, n, &b->ticket)
                         : b->ops->fill_rows(b->queue, SEED, payloads, n, &b->ticket));
    if (b->ticket >= UNDER_WAY)
      await(b, b->ticket - UNDER_WAY + 1);
    bytes += n * m->length;
    first = (first + n) % m->count;
  } while (bytes < m->count * m->length || now_ns() - start < b->run_ns);
  await(b, b->ticket);
  double rate = (double)bytes / (double)(now_ns() - start);
  must("verify_result", b->ops->verify_result(b->queue, &found));
  if (found.corrupted) {
    fprintf(stderr, "bench-pattern: %" PRIu64 " messages are not as they were filled\n",
            found.corrupted);
    exit(1);
  }
  return rate;
}

static void measure_size(struct bench *b, uint64_t size, double set, double copy)
{
  for (int scattered = 0; scattered < 2; scattered++) {
    struct messages m = {.length = size, .stride = (size + 63) / 64 * 64, .scattered = scattered};
    m.count = b->region.length / m.stride;
    double fill = measure_pattern(b, &m, false), verify = measure_pattern(b, &m, true);
    printf("pattern %8" PRIu64 " B %-9s  fill %7.1f GB/s, %.2f of memset  verify %7.1f GB/s, %.2f "
           "of copy\n",
           size, scattered ? "scattered" : "in order", fill, fill / set, verify, verify / copy);
    fflush(stdout);
  }
}

int main(int argc, char **argv)
{
  struct bench b = {0};
  const struct loader_plugin *plugin;
  struct pst_options *options = NULL;
  struct pst_error error = PST_ERROR_INIT;
  if (argc < 5 || strtoull(argv[2], NULL, 10) == 0) {
    fprintf(stderr, "Usage: bench-pattern FOLDER MIB MS MESSAGE-BYTES...\n");
    return 2;
  }
  if (pst_plugin_path_add(argv[1]) < 0 || loader_load(PST_KIND_MEMORY, "cuda", &plugin, &error) < 0)
    return 3;
  b.run_ns = strtoull(argv[3], NULL, 10) * 1000000;
  must("options",
       options_new(plugin->description->options, plugin->description->option_count, &options));
  struct pst_memory_params params = {.struct_size = sizeof(params), .options = options};
  struct pst_alloc_params alloc = {
      .struct_size = sizeof(alloc), .length = strtoull(argv[2], NULL, 10) << 20, .label = "bench"};
  struct pst_queue_params queue = {
      .struct_size = sizeof(queue), .batches = UNDER_WAY, .pieces = BATCH_MAX};
  b.ops = plugin->memory;
  b.region.struct_size = sizeof(b.region);
  must("open", b.ops->open(plugin->host, &params, &b.memory));
  must("alloc", b.ops->alloc(b.memory, &alloc, &b.region));
  must("queue_open", b.ops->queue_open(b.memory, &queue, &b.queue));
  double set = measure_set(&b), copy = measure_copy(&b);
  printf("pattern of %s MiB: memset %7.1f GB/s written  copy %7.1f GB/s read, and written\n",
         argv[2], set, copy);
  for (int i = 4; i < argc; i++)
    measure_size(&b, strtoull(argv[i], NULL, 10), set, copy);
  b.ops->queue_close(b.queue);
  b.ops->free_region(b.memory, &b.region);
  b.ops->close(b.memory);
  options_free(options);
  return 0;
}
