/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "inside.h"

struct cuda_text cuda_status_text(const struct cuda_driver *driver, cuda_status status)
{
  struct cuda_text out;
  const char *name = NULL, *text = NULL;
  driver->GetErrorName(status, &name);
  driver->GetErrorString(status, &text);
  if (name)
    snprintf(out.text, sizeof(out.text), "%s: %s", name, text ? text : "");
  else
    snprintf(out.text, sizeof(out.text), "CUDA error %d", status);
  return out;
}

/* After these a context does nothing any more: every call answers the same. */
bool cuda_is_lost(cuda_status status)
{
  return status == CUDA_ECC_UNCORRECTABLE || status == CUDA_DEINITIALIZED ||
         (status >= CUDA_ILLEGAL_ADDRESS && status < CUDA_NOT_PERMITTED &&
          status != CUDA_PEER_ACCESS_ENABLED && status != CUDA_ALREADY_REGISTERED &&
          status != CUDA_NOT_REGISTERED) ||
         status == CUDA_DEVICE_UNAVAILABLE || status == CUDA_UNKNOWN;
}

static const char *remedy_of(cuda_status status)
{
  switch (status) {
  case CUDA_ILLEGAL_ADDRESS:
    return "a copy or kernel touched memory that is not there: was a region freed too early? "
           "compute-sanitizer names the access";
  case CUDA_ECC_UNCORRECTABLE:
    return "the GPU's memory has failed; nvidia-smi -q -d ECC says where";
  default:
    return "nothing more can be done on it in this process; dmesg (Xid) and nvidia-smi say what "
           "happened";
  }
}

int cuda_failed(struct pst_memory *memory, const char *call, cuda_status status)
{
  if (!cuda_is_lost(status)) {
    cuda_error_log(memory, "%s: %s", call, cuda_status_text(memory->driver, status).text);
    return status == CUDA_OUT_OF_MEMORY    ? -ENOMEM
           : status == CUDA_NOT_SUPPORTED  ? -EOPNOTSUPP
           : status == CUDA_NOT_PERMITTED  ? -EPERM
           : status == CUDA_INVALID_VALUE  ? -EINVAL
           : status == CUDA_INVALID_HANDLE ? -EINVAL
                                           : -EIO;
  }
  pthread_mutex_lock(&memory->lock);
  bool said = memory->lost;
  memory->lost = true;
  pthread_mutex_unlock(&memory->lock);
  if (!said)
    cuda_error_log(memory, "%s: %s is lost: %s; %s", call, memory->uuid,
                   cuda_status_text(memory->driver, status).text, remedy_of(status));
  return -EIO;
}
