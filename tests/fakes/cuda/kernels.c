/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in plain C. False: an address that the device does not reach. */
#include "fake.h"

#include <stdlib.h>
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
  const struct cuda_piece *pieces =
      (const struct cuda_piece *)fake_reach(args->pieces, args->count * sizeof(*pieces));
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

static void gather_ranges(const void *argument, fake_visit *visit, void *context)
{
  const struct cuda_gather_args *args = argument;
  const uint64_t length = args->count * sizeof(struct cuda_piece);
  const struct cuda_piece *pieces = (const struct cuda_piece *)fake_bytes(args->pieces, length);
  visit(context, args->pieces, length, false);
  for (uint32_t i = 0; pieces && i < args->count; i++) {
    visit(context, pieces[i].source, pieces[i].length, false);
    visit(context, pieces[i].destination, pieces[i].length, true);
  }
}

static bool payload_at(const struct cuda_pattern_args *args, uint32_t i, struct cuda_message *out)
{
  if (args->payloads) {
    const uint8_t *at = fake_reach(args->payloads + i * sizeof(*out), sizeof(*out));
    if (at)
      memcpy(out, at, sizeof(*out));
    return at;
  }
  uint32_t k = 0;
  while (k < args->rows && i >= args->row[k].count)
    i -= args->row[k++].count;
  if (k == args->rows)
    return false;
  const struct pst_payload_row *row = &args->row[k];
  *out = (struct cuda_message){row->address + i * row->stride, row->length, row->sequence + i, 0};
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
  struct cuda_message p;
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
  struct cuda_slot *slot = (struct cuda_slot *)fake_reach(args->result, sizeof(*slot));
  struct cuda_message p;
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

/* Visits the ranges that fill or verify touches. verify writes only its verdicts, to the host. */
static void pattern_ranges(const void *argument, fake_visit *visit, void *context, bool writes)
{
  const struct cuda_pattern_args *args = argument;
  const uint64_t length = args->count * sizeof(struct cuda_message);
  const struct cuda_message *list =
      args->payloads ? (const struct cuda_message *)fake_bytes(args->payloads, length) : NULL;
  if (args->payloads)
    visit(context, args->payloads, length, false);
  if (args->result)
    visit(context, args->result, sizeof(struct cuda_slot), false);
  for (uint32_t i = 0; list && i < args->count; i++)
    visit(context, list[i].address, list[i].length, writes);
  for (uint32_t k = 0; !args->payloads && k < args->rows; k++)
    for (uint64_t i = 0; i < args->row[k].count; i++)
      visit(context, args->row[k].address + i * args->row[k].stride, args->row[k].length, writes);
}

static void fill_ranges(const void *argument, fake_visit *visit, void *context)
{
  pattern_ranges(argument, visit, context, true);
}

static void verify_ranges(const void *argument, fake_visit *visit, void *context)
{
  pattern_ranges(argument, visit, context, false);
}

static void sum_ranges(const void *argument, fake_visit *visit, void *context)
{
  const struct cuda_sum_args *args = argument;
  visit(context, args->crc32c, sizeof(uint32_t), true);
  visit(context, args->address, args->length, false);
}

static void consumer_ranges(const void *argument, fake_visit *visit, void *context)
{
  const struct consumer_args *args = argument;
  visit(context, args->sum, sizeof(uint64_t), true);
  for (uint64_t i = 0; i < args->count; i++)
    visit(context, args->base + i * args->stride, args->length, false);
}

/* Bit by bit, from RFC 3720's words. */
static bool sum(const void *argument)
{
  const struct cuda_sum_args *args = argument;
  uint32_t *crc32c = (uint32_t *)fake_reach(args->crc32c, sizeof(*crc32c));
  const uint8_t *bytes = fake_reach(args->address, args->length);
  uint32_t crc = UINT32_MAX;
  if (!crc32c || (args->length && !bytes))
    return false;
  for (uint64_t at = 0; at < args->length; at++) {
    crc ^= bytes[at];
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  *crc32c ^= crc; /* what it begins with is the last inversion */
  return true;
}

/* The kernel of apps/examples. */
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
    {"pst_gather", sizeof(struct cuda_gather_args), gather, gather_ranges, NULL},
    {"pst_fill", sizeof(struct cuda_pattern_args), fill, fill_ranges, NULL},
    {"pst_fill_wide", sizeof(struct cuda_pattern_args), fill, fill_ranges, NULL},
    {"pst_verify", sizeof(struct cuda_pattern_args), verify, verify_ranges, NULL},
    {"pst_verify_wide", sizeof(struct cuda_pattern_args), verify, verify_ranges, NULL},
    {"pst_crc32c", sizeof(struct cuda_sum_args), sum, sum_ranges, NULL},
    {"consumer_sum", sizeof(struct consumer_args), consumer_sum, consumer_ranges, NULL},
};

/* A module uses memory of the device, until it is unloaded or its context ends. */
#define MODULE_BYTES 4096
struct CUmod_st {
  struct CUmod_st *next;
  int device;
  struct CUfunc_st functions[sizeof(functions) / sizeof(functions[0])];
};
static struct CUmod_st *modules;

cuda_status fake_ModuleLoadData(cuda_module *module, const void *image)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (fake_config.capability < 75)
    return CUDA_NO_BINARY_FOR_GPU;
  if (!image)
    return CUDA_INVALID_VALUE;
  struct CUmod_st *made = calloc(1, sizeof(*made));
  if (!made)
    return CUDA_OUT_OF_MEMORY;
  memcpy(made->functions, functions, sizeof(functions));
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
    made->functions[i].module = made;
  made->device = fake_current()->device;
  pthread_mutex_lock(&fake.mutex);
  made->next = modules;
  modules = made;
  fake.used[made->device] += MODULE_BYTES;
  pthread_mutex_unlock(&fake.mutex);
  *module = made;
  return CUDA_SUCCESS;
}

/* The mutex is held. */
static void unload(struct CUmod_st **at)
{
  struct CUmod_st *module = *at;
  *at = module->next;
  fake.used[module->device] -= MODULE_BYTES;
  free(module);
}

cuda_status fake_ModuleUnload(cuda_module module)
{
  cuda_status status = CUDA_INVALID_HANDLE;
  fake_check_module(module);
  pthread_mutex_lock(&fake.mutex);
  for (struct CUmod_st **at = &modules; *at; at = &(*at)->next)
    if (*at == module) {
      unload(at);
      status = CUDA_SUCCESS;
      break;
    }
  pthread_mutex_unlock(&fake.mutex);
  return status;
}

void fake_modules_end(int device)
{
  for (struct CUmod_st **at = &modules; *at;)
    if ((*at)->device == device)
      unload(at);
    else
      at = &(*at)->next;
}

cuda_status fake_ModuleGetFunction(cuda_function *function, cuda_module module, const char *name)
{
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]) && !fake_config.no_kernels; i++)
    if (strcmp(functions[i].name, name) == 0) {
      *function = &module->functions[i];
      return CUDA_SUCCESS;
    }
  return CUDA_NOT_FOUND;
}
