/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels do, said plainly. False: an address that the device does not reach. */
#include "fake.h"

#include <string.h>

#include <consumer.h>

void fake_spoil(uint8_t *copied, uint64_t length)
{
  static _Atomic uint64_t copies;

  if (length >= 4096 && ++copies == fake_config.spoil)
    *copied ^= 1;
}

static bool gather(const void *argument)
{
  const struct cuda_gather_args *args = argument;
  const struct pst_copy *pieces =
      (const struct pst_copy *)fake_reach(args->pieces, args->count * sizeof(*pieces));
  for (uint32_t i = 0; pieces && i < args->count; i++) {
    uint8_t *from = fake_reach(pieces[i].source, pieces[i].length);
    uint8_t *to = fake_reach(pieces[i].destination, pieces[i].length);
    if (pieces[i].length && (!from || !to))
      return false;
    if (pieces[i].length)
      memcpy(to, from, pieces[i].length);
    fake_spoil(to, pieces[i].length);
  }
  return pieces;
}

static bool payload_at(const struct cuda_pattern_args *args, uint32_t i, struct pst_payload *out)
{
  if (args->payloads) {
    const uint8_t *at = fake_reach(args->payloads + i * sizeof(*out), sizeof(*out));
    if (at)
      memcpy(out, at, sizeof(*out));
    return at;
  }
  *out = (struct pst_payload){args->base + i * args->stride, args->length, args->sequence + i, 0};
  return true;
}

static uint8_t pattern_byte(uint64_t seed, uint64_t sequence, uint64_t offset)
{
  uint64_t z = seed + sequence * PST_PATTERN_SEQUENCE;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  return (uint8_t)((z + offset / 8 * PST_PATTERN_STEP) >> offset % 8 * 8);
}

static bool fill(const void *argument)
{
  const struct cuda_pattern_args *args = argument;
  struct pst_payload p;
  for (uint32_t i = 0; i < args->count; i++) {
    if (!payload_at(args, i, &p))
      return false;
    uint8_t *bytes = fake_reach(p.address, p.length);
    if (p.length && !bytes)
      return false;
    for (uint64_t at = 0; at < p.length; at++)
      bytes[at] = pattern_byte(args->seed, p.sequence, at);
  }
  return true;
}

static bool verify(const void *argument)
{
  const struct cuda_pattern_args *args = argument;
  struct cuda_verify_slot *slot =
      (struct cuda_verify_slot *)fake_reach(args->result, sizeof(*slot));
  struct pst_payload p;
  for (uint32_t i = 0; slot && i < args->count; i++) {
    if (!payload_at(args, i, &p))
      return false;
    const uint8_t *bytes = fake_reach(p.address, p.length);
    uint64_t at = 0;
    if (p.length && !bytes)
      return false;
    while (at < p.length && bytes[at] == pattern_byte(args->seed, p.sequence, at))
      at++;
    if (at == p.length)
      continue;
    slot->corrupted++;
    if (CUDA_MISMATCH(i, at, bytes[at]) < slot->first)
      slot->first = CUDA_MISMATCH(i, at, bytes[at]);
  }
  return slot;
}

/* Bit by bit, from RFC 3720's words. */
static bool sum(const void *argument)
{
  const struct cuda_sum_args *args = argument;
  struct pst_sum *sums = (struct pst_sum *)fake_reach(args->sums, args->count * sizeof(*sums));
  for (uint32_t i = 0; sums && i < args->count; i++) {
    const uint8_t *bytes = fake_reach(sums[i].address, sums[i].length);
    uint32_t crc = UINT32_MAX;
    if (sums[i].length && !bytes)
      return false;
    for (uint64_t at = 0; at < sums[i].length; at++) {
      crc ^= bytes[at];
      for (int bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    sums[i].crc32c ^= crc; /* what it begins with is the last inversion */
  }
  return sums;
}

/* Of apps/examples. */
static bool consumer_sum(const void *argument)
{
  const struct consumer_args *args = argument;
  uint8_t *at = fake_reach(args->sum, sizeof(uint64_t));
  uint64_t sum;
  if (!at)
    return false;
  memcpy(&sum, at, sizeof(sum));
  for (uint64_t i = 0; i < args->count; i++) {
    const uint8_t *message = fake_reach(args->base + i * args->stride, args->length);
    if (args->length && !message)
      return false;
    for (uint64_t k = 0; k < args->length; k++)
      sum += message[k];
  }
  memcpy(at, &sum, sizeof(sum));
  return true;
}

static const struct CUfunc_st functions[] = {
    {"pst_gather", sizeof(struct cuda_gather_args), gather},
    {"pst_fill", sizeof(struct cuda_pattern_args), fill},
    {"pst_fill_wide", sizeof(struct cuda_pattern_args), fill},
    {"pst_verify", sizeof(struct cuda_pattern_args), verify},
    {"pst_verify_wide", sizeof(struct cuda_pattern_args), verify},
    {"pst_crc32c", sizeof(struct cuda_sum_args), sum},
    {"consumer_sum", sizeof(struct consumer_args), consumer_sum},
};

static struct CUmod_st {
  int unused;
} module_;

cuda_status fake_ModuleLoadData(cuda_module *module, const void *image)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (fake_config.capability < 75)
    return CUDA_NO_BINARY_FOR_GPU;
  *module = &module_;
  return image ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

cuda_status fake_ModuleUnload(cuda_module module)
{
  return module == &module_ ? CUDA_SUCCESS : CUDA_INVALID_HANDLE;
}

cuda_status fake_ModuleGetFunction(cuda_function *function, cuda_module module, const char *name)
{
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && module == &module_; i++)
    if (strcmp(functions[i].name, name) == 0) {
      *function = (cuda_function)(uintptr_t)&functions[i];
      return CUDA_SUCCESS;
    }
  return CUDA_NOT_FOUND;
}
