/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "inside.h"
#include "row.h"

/* From here on a message gets a block rather than a warp. */
#define WIDE_BYTES (UINT64_C(8) << 10)

/* What there is to know of a batch's payloads. */
struct shape {
  uint64_t reserved;
  uint64_t longest;
  bool uniform; /* of one length, at equal strides, of consecutive sequence */
};

static struct shape shape_of(const struct pst_payload *payloads, uint32_t n)
{
  const struct pst_payload *first = payloads;
  struct shape shape = {.reserved = first->reserved, .longest = first->length};
  uint64_t stride = n > 1 ? payloads[1].address - first->address : 0;
  const uint64_t step[4] = {stride, 0, 1, 0};
  uint32_t row = cuda_row(payloads, n, step);
  shape.uniform = row == n;
  for (uint32_t i = row; i < n; i++) {
    shape.reserved |= payloads[i].reserved;
    if (payloads[i].length > shape.longest)
      shape.longest = payloads[i].length;
  }
  return shape;
}

static int refuse_payloads(const struct pst_queue *queue, const char *call, uint64_t longest)
{
  if (longest >= CUDA_MISMATCH_LENGTH)
    cuda_error_log(queue->memory,
                   "%s: a message of %" PRIu64 " bytes; less than 4 GiB are looked at", call,
                   longest);
  else
    cuda_error_log(queue->memory, "%s: a message that lies in no region of this memory", call);
  return -EINVAL;
}

/* Of a uniform batch that runs forward, all of it is one range. */
static bool lies_here(struct pst_memory *memory, const struct pst_payload *payloads, uint32_t n,
                      bool uniform)
{
  const struct pst_payload *last = &payloads[n - 1];
  if (!uniform || last->address < payloads->address)
    return cuda_ranges_hold(memory, payloads, n);
  const struct pst_payload whole = {payloads->address,
                                    last->address + last->length - payloads->address, 0, 0};
  return cuda_ranges_hold(memory, &whole, 1) || cuda_ranges_hold(memory, payloads, n);
}

/* The descriptors, where the batch needs any. */
static int fill_args(struct pst_queue *queue, const struct pst_payload *payloads, uint32_t n,
                     uint64_t seed, bool uniform, struct cuda_pattern_args *args)
{
  *args = (struct cuda_pattern_args){.seed = seed, .count = n};
  if (!uniform) {
    void *room = cuda_queue_room(queue, n);
    if (!room)
      return -EAGAIN;
    memcpy(room, payloads, n * sizeof(*payloads));
    args->payloads = (uintptr_t)room;
    return 0;
  }
  args->base = payloads[0].address;
  args->stride = n > 1 ? payloads[1].address - payloads[0].address : 0;
  args->length = payloads[0].length;
  args->sequence = payloads[0].sequence;
  return 0;
}

static int submit(struct pst_queue *queue, bool verify, uint64_t seed,
                  const struct pst_payload *payloads, uint32_t n, uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  const char *call = verify ? "verify" : "fill";
  struct shape shape = {0};
  struct cuda_pattern_args args;
  if (n > 0 && n <= queue->pieces)
    shape = shape_of(payloads, n);
  int code = cuda_queue_begin(queue, call, n, shape.reserved);
  if (code == 0 &&
      (shape.longest >= CUDA_MISMATCH_LENGTH || !lies_here(memory, payloads, n, shape.uniform)))
    code = refuse_payloads(queue, call, shape.longest);
  if (code == 0)
    code = fill_args(queue, payloads, n, seed, shape.uniform, &args);
  if (code)
    return code;
  bool wide = shape.longest >= WIDE_BYTES;
  struct cuda_batch *batch = cuda_queue_next(queue);
  batch->checked = verify ? n : 0;
  batch->sums = NULL;
  if (verify) {
    struct cuda_verify_slot *slot = cuda_queue_slot(queue);
    *slot = (struct cuda_verify_slot){0, UINT64_MAX};
    args.result = (uintptr_t)slot;
    batch->seed = seed;
    batch->payloads = (const struct pst_payload *)(uintptr_t)args.payloads;
    batch->sequence = args.sequence;
  }
  cuda_function function = verify ? (wide ? memory->shared->verify_wide : memory->shared->verify)
                                  : (wide ? memory->shared->fill_wide : memory->shared->fill);
  void *params[] = {&args};
  cuda_enter(memory);
  cuda_status status = memory->driver->LaunchKernel(function, cuda_grid(memory, n, wide), 1, 1,
                                                    wide ? CUDA_KERNEL_WIDE : CUDA_KERNEL_THREADS,
                                                    1, 1, 0, queue->stream, params, NULL);
  code = cuda_queue_end(queue, status, verify ? "verify: cuLaunchKernel" : "fill: cuLaunchKernel",
                        ticket);
  cuda_leave(memory);
  return code;
}

int cuda_fill_batch(struct pst_queue *queue, uint64_t seed, const struct pst_payload *payloads,
                    uint32_t n, uint64_t *ticket)
{
  return submit(queue, false, seed, payloads, n, ticket);
}

int cuda_verify_batch(struct pst_queue *queue, uint64_t seed, const struct pst_payload *payloads,
                      uint32_t n, uint64_t *ticket)
{
  return submit(queue, true, seed, payloads, n, ticket);
}
