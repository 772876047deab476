/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory of others, pinned. The driver pins a page once for the whole process, so all
 * memories of it share the pins: what one call pins, another, of a part or of more, refers to.
 * A range may lie in several pins, and a pin is undone when nobody refers to it any more.
 *
 * Memory that other code has pinned (the application, or another plugin that is made of these
 * files) is used, and not unpinned. Its owner may unpin it at any time: copies go on then, by the
 * driver's own buffer, but a kernel would end the context, so that kernels never read it.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <penstock/page.h>

#include "context.h"
#include "failure.h"
#include "ops.h"
#include "va_range.h"

struct pin {
  struct pin *next;
  uint64_t begin, end;
  uint32_t users;
  bool foreign; /* pinned by other code of this process, which unpins it */
  const struct cuda_driver *driver;
  cuda_device device; /* whose context has it, and is kept for it */
  cuda_context context;
};

/* Held while the driver pins, so that no two threads pin one page. */
static pthread_mutex_t pins_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pin *pins;

static void cuda_pin_whole_pages(const void *address, uint64_t length, uint64_t *begin,
                                 uint64_t *end)
{
  uint64_t page = pst_page_size();
  *begin = (uintptr_t)address / page * page;
  *end = cuda_round_up((uintptr_t)address + length, page);
}

/* The caller holds the lock, here and below. */
static struct pin *cuda_pin_at(uint64_t address)
{
  struct pin *pin = pins;
  while (pin && !(address >= pin->begin && address < pin->end))
    pin = pin->next;
  return pin;
}

/* Returns where the next pin begins, or `end`. */
static uint64_t cuda_pin_gap_end(uint64_t begin, uint64_t end)
{
  for (const struct pin *pin = pins; pin; pin = pin->next)
    if (pin->begin > begin && pin->begin < end)
      end = pin->begin;
  return end;
}

/* To where the driver knows memory from `begin` on that is pinned as one; 0: it is not. */
static uint64_t cuda_pin_foreign_end(const struct cuda_driver *driver, uint64_t begin)
{
  cuda_pointer address, base;
  size_t length;
  if (driver->MemHostGetDevicePointer(&address, (void *)(uintptr_t)begin, 0) != CUDA_SUCCESS ||
      driver->MemGetAddressRange(&base, &length, address) != CUDA_SUCCESS)
    return 0;
  return begin + (base + length - address);
}

/* Where what is pinned begins, behind `begin`, which is not; or `end`. */
static uint64_t cuda_pin_foreign_begin(const struct cuda_driver *driver, uint64_t begin,
                                       uint64_t end)
{
  uint64_t page = pst_page_size(), at = begin + page;
  while (at < end && cuda_pin_foreign_end(driver, at) == 0)
    at += page;
  return at < end ? at : end;
}

static cuda_status cuda_pin_register_pages(const struct cuda_driver *driver, uint64_t begin,
                                           uint64_t end)
{
  unsigned int flags = CUDA_REGISTER_PORTABLE | CUDA_REGISTER_DEVICEMAP;
  cuda_status status = driver->MemHostRegister((void *)(uintptr_t)begin, end - begin, flags);
  if (status != CUDA_SUCCESS && status != CUDA_ALREADY_REGISTERED &&
      !cuda_is_lost(status)) /* a mapping for reading only? */
    status = driver->MemHostRegister((void *)(uintptr_t)begin, end - begin,
                                     flags | CUDA_REGISTER_READ_ONLY);
  return status;
}

/* From pin->begin on, to where it may end earlier than asked: what others have pinned begins, or
 * ends, there. cuMemHostRegister says ALREADY_REGISTERED of what it has pinned, and INVALID_VALUE
 * of cuMemHostAlloc's. */
static cuda_status cuda_pin_pages(struct pin *pin)
{
  const struct cuda_driver *driver = pin->driver;
  cuda_status status = cuda_pin_register_pages(driver, pin->begin, pin->end);
  if (status == CUDA_SUCCESS || cuda_is_lost(status))
    return status;
  uint64_t end = cuda_pin_foreign_end(driver, pin->begin);
  if (end) {
    pin->foreign = true;
    pin->end = end < pin->end ? end : pin->end;
    return CUDA_SUCCESS;
  }
  end = cuda_pin_foreign_begin(driver, pin->begin, pin->end);
  if (end == pin->end)
    return status;
  pin->end = end;
  return cuda_pin_register_pages(driver, pin->begin, end);
}

static cuda_status cuda_pin_new(struct pst_memory *memory, uint64_t begin, uint64_t end,
                                struct pin **out)
{
  const struct cuda_driver *driver = memory->driver;
  struct pin *made = calloc(1, sizeof(*made));
  if (!made)
    return CUDA_OUT_OF_MEMORY;
  *made = (struct pin){
      .next = pins, .begin = begin, .end = end, .driver = driver, .device = memory->device};
  cuda_status status = driver->DevicePrimaryCtxRetain(&made->context, made->device);
  if (status != CUDA_SUCCESS) {
    free(made);
    return status;
  }
  cuda_enter(memory);
  status = cuda_pin_pages(made);
  cuda_leave(memory);
  if (status != CUDA_SUCCESS) {
    driver->DevicePrimaryCtxRelease(made->device);
    free(made);
    return status;
  }
  *out = pins = made;
  return CUDA_SUCCESS;
}

static void cuda_pin_drop(struct pin *pin)
{
  cuda_context context;
  if (--pin->users > 0)
    return;
  struct pin **at = &pins;
  while (*at != pin)
    at = &(*at)->next;
  *at = pin->next;
  pin->driver->CtxPushCurrent(pin->context);
  if (!pin->foreign)
    pin->driver->MemHostUnregister((void *)(uintptr_t)pin->begin);
  pin->driver->CtxPopCurrent(&context);
  pin->driver->DevicePrimaryCtxRelease(pin->device);
  free(pin);
}

/* Refer to the pin at `begin`, which is made up to `end` if need be; *next is behind it. */
static int cuda_pin_refer(struct pst_memory *memory, uint64_t begin, uint64_t end, uint64_t *next,
                          cuda_status *status)
{
  struct pin *pin = cuda_pin_at(begin);
  if (!pin)
    *status = cuda_pin_new(memory, begin, cuda_pin_gap_end(begin, end), &pin);
  if (*status != CUDA_SUCCESS)
    return -EOPNOTSUPP;
  pin->users++;
  int code = cuda_range_add(memory, pin->begin, pin->end - pin->begin, true,
                            memory->has.same_host_pointer && !pin->foreign);
  *next = pin->end;
  if (code)
    cuda_pin_drop(pin);
  return code;
}

static void cuda_pin_forget(struct pst_memory *memory, uint64_t begin, uint64_t end)
{
  for (struct pin *pin = pins, *next; pin; pin = next) {
    next = pin->next;
    uint64_t length = pin->end - pin->begin;
    if (pin->begin >= end || pin->end <= begin ||
        !cuda_range_is_registered(memory, pin->begin, length))
      continue;
    cuda_range_remove(memory, pin->begin, length);
    cuda_pin_drop(pin);
  }
}

/* Logs this once for each memory: the senders of a stream may lend many regions. */
static int cuda_pin_say_pageable(struct pst_memory *memory, uint64_t length, cuda_status status)
{
  pthread_mutex_lock(&memory->lock);
  bool said = memory->pageable;
  memory->pageable = true;
  pthread_mutex_unlock(&memory->lock);
  cuda_log(memory, said ? PST_LOG_DEBUG : PST_LOG_WARN,
           "%.1f MiB of host memory cannot be pinned: %s; copies from it go piece by piece through "
           "the driver's own buffer, and the thread waits for them: slow. A smaller ring, or more "
           "host memory that can be locked, helps",
           (double)length / 1048576.0, cuda_status_text(memory->driver, status).text);
  return -EOPNOTSUPP;
}

int cuda_host_register(struct pst_memory *memory, void *address, uint64_t length)
{
  uint64_t begin, end, next;
  cuda_status status = CUDA_SUCCESS;
  int code = 0;
  if (!address || length == 0 || length >= CUDA_LENGTH_MAX) {
    cuda_error_log(memory, "host_register: no such memory: %p, %lu bytes", address,
                   (unsigned long)length);
    return -EINVAL;
  }
  cuda_pin_whole_pages(address, length, &begin, &end);
  pthread_mutex_lock(&pins_lock);
  if (!cuda_ranges_whole(memory, begin, end - begin) || cuda_pin_at(begin)) {
    for (uint64_t at = begin; at < end && code == 0; at = next) {
      next = at;
      code = cuda_pin_refer(memory, at, end, &next, &status);
      if (code)
        cuda_pin_forget(memory, begin, at);
    }
  } /* else staging memory of this very one */
  pthread_mutex_unlock(&pins_lock);
  if (status == CUDA_SUCCESS)
    return code;
  return cuda_is_lost(status) ? cuda_failed(memory, "cuMemHostRegister", status)
                              : cuda_pin_say_pageable(memory, end - begin, status);
}

void cuda_host_unregister(struct pst_memory *memory, void *address, uint64_t length)
{
  uint64_t begin, end;
  cuda_pin_whole_pages(address, length, &begin, &end);
  pthread_mutex_lock(&pins_lock);
  cuda_pin_forget(memory, begin, end);
  pthread_mutex_unlock(&pins_lock);
}
