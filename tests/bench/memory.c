/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-memory: what a memory plugin's queues do, by its own ABI. Batches of messages go
 * from a staging region into the memory, several under way; then one at a time, from its
 * submission until queue_poll() reports it; then the test pattern is made and checked.
 * With "bound" for a length, only what the bus gives is measured.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <config/options.h>
#include <loader/loader.h>
#include <penstock/memory.h>
#include <penstock/penstock.h>

#define UNDER_WAY 8u
#define BATCH_MAX 4096u
#define RUN_NS UINT64_C(150000000)
#define LATENCIES 2000u

struct bench {
  const struct pst_memory_ops *ops;
  struct pst_memory *memory;
  struct pst_region from, to;
  uint64_t message, stride, slots;
};

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void die(const char *what, int code)
{
  fprintf(stderr, "bench-memory: %s: %s\n", what, strerror(-code));
  exit(1);
}

static void must(const char *what, int code)
{
  if (code < 0)
    die(what, code);
}

static struct pst_queue *open_queue(const struct bench *b, uint32_t batches)
{
  struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = batches, .pieces = BATCH_MAX};
  struct pst_queue *queue;
  must("queue_open", b->ops->queue_open(b->memory, &params, &queue));
  return queue;
}

/* n messages from `first` on, in order, or to places in no order. */
static void pieces_make(const struct bench *b, struct pst_copy_row *pieces, uint32_t n,
                        uint64_t first, bool scattered)
{
  for (uint32_t i = 0; i < n; i++) {
    uint64_t slot = (first + i) % b->slots;
    uint64_t place = scattered ? slot ^ slot >> 1 : slot; /* Gray's code: no stride */
    pieces[i] = (struct pst_copy_row){.source = b->from.address + slot * b->stride,
                                      .destination = b->to.address + place * b->stride,
                                      .length = b->message,
                                      .count = 1};
  }
}

static void copies(const struct bench *b, uint32_t n, bool scattered)
{
  struct pst_queue *queue = open_queue(b, UNDER_WAY);
  static struct pst_copy_row pieces[BATCH_MAX];
  uint64_t ticket = 0, done = 0, first = 0, submit_ns = 0, start = 0, counted = 0, end, polls = 0;
  for (bool warm = true;;) {
    uint64_t at = now_ns();
    if (start == 0)
      start = at;
    if (at - start > RUN_NS) {
      if (!warm)
        break;
      warm = false;
      start = at;
      submit_ns = counted = polls = 0;
    }
    pieces_make(b, pieces, n, first, scattered);
    at = now_ns();
    must("copy_rows", b->ops->copy_rows(queue, pieces, n, &ticket));
    submit_ns += now_ns() - at;
    first += n;
    counted++;
    do {
      must("queue_poll", b->ops->queue_poll(queue, &done));
      polls++;
    } while (ticket - done >= UNDER_WAY);
  }
  while (done < ticket)
    must("queue_poll", b->ops->queue_poll(queue, &done));
  end = now_ns();
  double seconds = (double)(end - start) / 1e9;
  printf("copy    %-9s %5u  %7.2f GB/s  %7.3f M/s  submit %6.2f us  polls %.1f\n",
         scattered ? "scattered" : "in order", n,
         (double)(counted * n * b->message) / seconds / 1e9, (double)(counted * n) / seconds / 1e6,
         (double)submit_ns / (double)counted / 1e3, (double)polls / (double)counted);
  b->ops->queue_close(queue);
}

static int compare(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void latency(const struct bench *b, uint32_t n, bool scattered)
{
  struct pst_queue *queue = open_queue(b, UNDER_WAY);
  static struct pst_copy_row pieces[BATCH_MAX];
  static uint64_t took[LATENCIES];
  uint64_t ticket, done = 0;
  for (uint32_t i = 0; i < LATENCIES; i++) {
    pieces_make(b, pieces, n, (uint64_t)i * n, scattered);
    uint64_t at = now_ns();
    must("copy_rows", b->ops->copy_rows(queue, pieces, n, &ticket));
    do
      must("queue_poll", b->ops->queue_poll(queue, &done));
    while (done < ticket);
    took[i] = now_ns() - at;
  }
  qsort(took, LATENCIES, sizeof(*took), compare);
  printf("latency %-9s %5u  p50 %7.1f  p99 %7.1f  p99.9 %7.1f us\n",
         scattered ? "scattered" : "in order", n, (double)took[LATENCIES / 2] / 1e3,
         (double)took[LATENCIES * 99 / 100] / 1e3, (double)took[LATENCIES * 999 / 1000] / 1e3);
  b->ops->queue_close(queue);
}

/* One region-sized copy after the other: what the bus gives. */
static void bound(const struct bench *b, bool out)
{
  struct pst_queue *queue = open_queue(b, UNDER_WAY);
  struct pst_copy_row piece = {.source = out ? b->to.address : b->from.address,
                               .destination = out ? b->from.address : b->to.address,
                               .length = b->stride * b->slots,
                               .count = 1};
  uint64_t ticket = 0, done = 0, start = now_ns(), counted = 0;
  while (now_ns() - start < 2 * RUN_NS) {
    must("copy_rows", b->ops->copy_rows(queue, &piece, 1, &ticket));
    counted++;
    do
      must("queue_poll", b->ops->queue_poll(queue, &done));
    while (ticket - done >= UNDER_WAY);
  }
  while (done < ticket)
    must("queue_poll", b->ops->queue_poll(queue, &done));
  printf("bound   %-9s        %7.2f GB/s  copies of %.1f MiB\n", out ? "out" : "in",
         (double)(counted * piece.length) / (double)(now_ns() - start),
         (double)piece.length / 1048576.0);
  b->ops->queue_close(queue);
}

static void pattern(const struct bench *b, uint32_t n, bool scattered, bool verify)
{
  struct pst_queue *queue = open_queue(b, UNDER_WAY);
  static struct pst_payload_row payloads[BATCH_MAX];
  uint64_t ticket = 0, done = 0, start = now_ns(), counted = 0, submit_ns = 0;
  for (uint64_t first = 0; now_ns() - start < RUN_NS; first += n, counted++) {
    for (uint32_t i = 0; i < n; i++) {
      uint64_t slot = (first + i) % b->slots, place = scattered ? slot ^ slot >> 1 : slot;
      payloads[i] = (struct pst_payload_row){.address = b->to.address + place * b->stride,
                                             .length = b->message,
                                             .sequence = slot,
                                             .count = 1};
    }
    uint64_t at = now_ns();
    must("batch", verify ? b->ops->verify_rows(queue, 7, payloads, n, &ticket)
                         : b->ops->fill_rows(queue, 7, payloads, n, &ticket));
    submit_ns += now_ns() - at;
    do
      must("queue_poll", b->ops->queue_poll(queue, &done));
    while (ticket - done >= UNDER_WAY);
  }
  while (done < ticket)
    must("queue_poll", b->ops->queue_poll(queue, &done));
  printf("%-7s %-9s %5u  %7.2f GB/s  %7.3f M/s  submit %6.2f us\n", verify ? "verify" : "fill",
         scattered ? "scattered" : "in order", n,
         (double)(counted * n * b->message) / (double)(now_ns() - start),
         (double)(counted * n) / (double)(now_ns() - start) * 1e3,
         (double)submit_ns / (double)counted / 1e3);
  b->ops->queue_close(queue);
}

static void alloc(const struct bench *b, uint32_t purpose, struct pst_region *region)
{
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .purpose = purpose,
                                    .length = b->stride * b->slots,
                                    .label = "bench"};
  region->struct_size = sizeof(*region);
  must("alloc", b->ops->alloc(b->memory, &params, region));
}

static void measure_all(const struct bench *b)
{
  static const uint32_t batches[] = {1, 16, 64, 128, 256, 1024, 4096};
  bound(b, true);
  for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
    copies(b, batches[i], false);
    copies(b, batches[i], true);
  }
  for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
    latency(b, batches[i], false);
    latency(b, batches[i], true);
  }
  for (size_t i = 4; i < sizeof(batches) / sizeof(*batches); i++)
    for (int k = 0; k < 4; k++)
      pattern(b, batches[i], k & 2, k & 1);
}

int main(int argc, char **argv)
{
  struct bench b = {.slots = 16384};
  const struct loader_plugin *plugin;
  struct pst_options *options = NULL;
  struct pst_error error = PST_ERROR_INIT;
  char name[64], why[256];
  if (argc < 4) {
    fprintf(stderr, "Usage: bench-memory FOLDER MEMORY MESSAGE-BYTES|bound [OPTION=VALUE]…\n");
    return 2;
  }
  if (pst_plugin_path_add(argv[1]) < 0 ||
      loader_load(PST_KIND_MEMORY, argv[2], &plugin, &error) < 0)
    return 3;
  bool only_bound = strcmp(argv[3], "bound") == 0;
  b.message = only_bound ? 1462 : strtoull(argv[3], NULL, 10);
  b.stride = (b.message + 63) / 64 * 64;
  while (b.slots * b.stride > UINT64_C(256) << 20 && b.slots > BATCH_MAX)
    b.slots /= 2;
  must("options",
       options_new(plugin->description->options, plugin->description->option_count, &options));
  for (int i = 4; i < argc; i++) {
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(argv[i], "="), argv[i]);
    if (!strchr(argv[i], '=') ||
        options_set(options, name, strchr(argv[i], '=') + 1, why, sizeof(why)) < 0)
      return 2;
  }
  struct pst_memory_params params = {.struct_size = sizeof(params), .options = options};
  b.ops = plugin->memory;
  must("open", b.ops->open(plugin->host, &params, &b.memory));
  alloc(&b, PST_ALLOC_STAGING, &b.from);
  alloc(&b, PST_ALLOC_NORMAL, &b.to);
  printf("# %s %s, messages of %" PRIu64 " B, %" PRIu64 " B apart\n", argv[2],
         argc > 4 ? argv[4] : "", b.message, b.stride);
  bound(&b, false);
  if (!only_bound)
    measure_all(&b);
  b.ops->free_region(b.memory, &b.to);
  b.ops->free_region(b.memory, &b.from);
  b.ops->close(b.memory);
  options_free(options);
  return 0;
}
