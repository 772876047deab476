/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of gpu-consumer: adds up the bytes of a batch's messages, one warp for each message.
 */
#include "consumer.h"

extern "C" __global__ void consumer_sum(consumer_args args)
{
  const unsigned int lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
  unsigned long long sum = 0;
  for (uint64_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32; i < args.count; i += warps) {
    const uint8_t *message = (const uint8_t *)(args.base + i * args.stride);
    for (uint64_t at = lane; at < args.length; at += 32)
      sum += message[at];
  }
  for (unsigned int step = 16; step; step /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0 && sum)
    atomicAdd((unsigned long long *)args.sum, sum);
}
