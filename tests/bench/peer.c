/* SPDX-License-Identifier: Apache-2.0 */
/* bench-peer FROM TO MS SIZE...: what the machine's own copies between two GPUs' memories give
 * (or, with one device named twice, within one), GB/s: a line for each size, of copies to TO and
 * back, both by cuMemcpyPeerAsync on a stream of FROM. Two rounds of DEPTH are under way. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <driver.h>

#define DEPTH 16

static struct {
  cuda_status (*init)(unsigned int);
  cuda_status (*get)(cuda_device *, int);
  cuda_status (*retain)(cuda_context *, cuda_device);
  cuda_status (*set)(cuda_context);
  cuda_status (*alloc)(cuda_pointer *, size_t);
  cuda_status (*free)(cuda_pointer);
  cuda_status (*stream)(cuda_stream *, unsigned int);
  cuda_status (*event)(cuda_event *, unsigned int);
  cuda_status (*record)(cuda_event, cuda_stream);
  cuda_status (*await)(cuda_event);
  cuda_status (*enable)(cuda_context, unsigned int);
  cuda_status (*copy)(cuda_pointer, cuda_context, cuda_pointer, cuda_context, size_t, cuda_stream);
} cu;

static void bind(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);
  if (!symbol) {
    fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    exit(77);
  }
  memcpy(function, &symbol, sizeof(symbol));
}

static void bind_all(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    fprintf(stderr, "no NVIDIA driver here\n");
    exit(77);
  }
  bind(library, "cuInit", &cu.init);
  bind(library, "cuDeviceGet", &cu.get);
  bind(library, "cuDevicePrimaryCtxRetain", &cu.retain);
  bind(library, "cuCtxSetCurrent", &cu.set);
  bind(library, "cuMemAlloc_v2", &cu.alloc);
  bind(library, "cuMemFree_v2", &cu.free);
  bind(library, "cuStreamCreate", &cu.stream);
  bind(library, "cuEventCreate", &cu.event);
  bind(library, "cuEventRecord", &cu.record);
  bind(library, "cuEventSynchronize", &cu.await);
  bind(library, "cuCtxEnablePeerAccess", &cu.enable);
  bind(library, "cuMemcpyPeerAsync", &cu.copy);
}

static void must(cuda_status status, const char *what)
{
  if (status == CUDA_SUCCESS)
    return;
  fprintf(stderr, "%s: CUDA error %d\n", what, status);
  exit(1);
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct end {
  cuda_context context;
  cuda_pointer memory;
};

static void open_end(struct end *end, int index)
{
  cuda_device device;
  must(cu.get(&device, index), "cuDeviceGet");
  must(cu.retain(&end->context, device), "cuDevicePrimaryCtxRetain");
}

static void reach(const struct end *one, const struct end *other)
{
  if (one->context == other->context)
    return;
  must(cu.set(one->context), "cuCtxSetCurrent");
  cuda_status status = cu.enable(other->context, 0);
  must(status == CUDA_PEER_ACCESS_ENABLED ? CUDA_SUCCESS : status, "cuCtxEnablePeerAccess");
}

/* On a stream of the current context's. */
static double measure(const struct end *from, const struct end *to, size_t size, double seconds)
{
  cuda_stream stream;
  cuda_event events[2];
  must(cu.stream(&stream, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
  for (int i = 0; i < 2; i++)
    must(cu.event(&events[i], CUDA_EVENT_DISABLE_TIMING), "cuEventCreate");
  double began = 0;
  uint64_t copies = 0, round = 0;
  for (;; round++) {
    for (size_t i = 0; i < DEPTH; i++)
      must(cu.copy(to->memory + i * size, to->context, from->memory + i * size, from->context, size,
                   stream),
           "cuMemcpyPeerAsync");
    must(cu.record(events[round % 2], stream), "cuEventRecord");
    if (round)
      must(cu.await(events[(round - 1) % 2]), "cuEventSynchronize");
    if (round == 2)
      began = now(); /* rounds 0 and 1 are through */
    copies = round > 2 ? copies + DEPTH : 0;
    if (round > 3 && now() - began > seconds)
      break;
  }
  double took = now() - began;
  must(cu.await(events[round % 2]), "cuEventSynchronize");
  return (double)copies * (double)size / took / 1e9;
}

int main(int argc, char **argv)
{
  struct end from = {0}, to = {0};
  if (argc < 5) {
    fprintf(stderr, "usage: %s FROM TO MS SIZE...\n", argv[0]);
    return 2;
  }
  bind_all();
  must(cu.init(0), "cuInit");
  open_end(&from, atoi(argv[1]));
  open_end(&to, atoi(argv[2]));
  reach(&from, &to);
  reach(&to, &from);
  for (int i = 4; i < argc; i++) {
    size_t size = strtoull(argv[i], NULL, 0);
    must(cu.set(to.context), "cuCtxSetCurrent");
    must(cu.alloc(&to.memory, size * DEPTH), "cuMemAlloc");
    must(cu.set(from.context), "cuCtxSetCurrent");
    must(cu.alloc(&from.memory, size * DEPTH), "cuMemAlloc");
    double seconds = strtod(argv[3], NULL) / 1e3;
    double push = measure(&from, &to, size, seconds);
    /* Back, by the same side: what a READ does. */
    double pull = measure(&to, &from, size, seconds);
    printf("%zu %.2f %.2f\n", size, push, pull);
    fflush(stdout);
    must(cu.free(from.memory), "cuMemFree");
    must(cu.set(to.context), "cuCtxSetCurrent");
    must(cu.free(to.memory), "cuMemFree");
  }
  return 0;
}
