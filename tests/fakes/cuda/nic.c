/* SPDX-License-Identifier: Apache-2.0 */
/* Writes of a NIC, which the device sees later: each range that is exported as a dma-buf has a
 * second memory, in which others write, and of which a flush brings over what has changed. What
 * the device writes is in both at once. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t lead_of(const struct fake_range *range)
{
  return range->map ? (uint64_t)(range->bytes - (uint8_t *)range->map) : 0;
}

/* As long as the memory behind the range, of which the range may be a part. */
static bool nic_new(struct fake_range *range)
{
  uint64_t length = range->map ? range->map_length : range->length;
  int fd = fake_bytes_new(length, range->device);
  uint8_t *seen = malloc(length);
  void *nic = fd >= 0 ? mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (!seen || nic == MAP_FAILED) {
    free(seen);
    if (nic != MAP_FAILED)
      munmap(nic, length);
    if (fd >= 0)
      close(fd);
    return false;
  }
  memcpy(nic, range->bytes - lead_of(range), length);
  memcpy(seen, nic, length);
  range->nic = nic;
  range->seen = seen;
  range->nic_length = length;
  range->nic_fd = fd;
  return true;
}

int fake_nic_fd(struct fake_range *range)
{
  return range->nic || nic_new(range) ? range->nic_fd : -1;
}

void fake_nic_free(struct fake_range *range)
{
  if (!range->nic)
    return;
  munmap(range->nic, range->nic_length);
  close(range->nic_fd);
  free(range->seen);
}

void fake_wrote(uint64_t address, uint64_t length)
{
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (r->nic && address >= r->address && address - r->address < r->length) {
      uint64_t at = address - r->address, left = r->length - at;
      uint64_t n = length < left ? length : left;
      memcpy(r->nic + lead_of(r) + at, r->bytes + at, n);
      memcpy(r->seen + lead_of(r) + at, r->bytes + at, n);
    }
  pthread_mutex_unlock(&fake.mutex);
}

/* A word at a time: beside it the NIC may be writing on. */
static void bring_over(struct fake_range *range)
{
  uint8_t *bytes = range->bytes - lead_of(range);
  for (uint64_t at = 0; at < range->nic_length; at += sizeof(uint64_t)) {
    uint64_t now, before;
    memcpy(&now, range->nic + at, sizeof(now));
    memcpy(&before, range->seen + at, sizeof(before));
    if (now == before)
      continue;
    memcpy(bytes + at, &now, sizeof(now));
    memcpy(range->seen + at, &now, sizeof(now));
  }
}

cuda_status fake_FlushGPUDirectRDMAWrites(int target, int scope)
{
  if (target != CUDA_FLUSH_TARGET_CURRENT || scope != CUDA_FLUSH_TO_OWNER)
    return CUDA_INVALID_VALUE;
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (r->nic)
      bring_over(r);
  pthread_mutex_unlock(&fake.mutex);
  return CUDA_SUCCESS;
}
