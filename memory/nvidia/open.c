/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices there are, and one of them opened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "failure.h"
#include "ops.h"
#include "plugin.h"

#define CAPABILITY_LEAST 75 /* the oldest that the kernels are built for */

static int cuda_open_refuse(struct pst_probe *probe, const struct cuda_refusal *refusal)
{
  snprintf(probe->reason, sizeof(probe->reason), "%s", refusal->reason);
  snprintf(probe->remedy, sizeof(probe->remedy), "%s", refusal->remedy);
  return -ENODEV;
}

static bool cuda_open_report(const struct pst_host *host, const struct cuda_driver *driver,
                             int index, struct pst_probe *probe, struct cuda_refusal *refusal)
{
  struct cuda_place place;
  struct cuda_words words = {""};
  cuda_device device;
  size_t bytes = 0;
  char detail[512];
  if (driver->DeviceGet(&device, index) != CUDA_SUCCESS ||
      cuda_place_read(driver, device, &place) != CUDA_SUCCESS ||
      place.capability < CAPABILITY_LEAST ||
      cuda_plugin.suits(host, driver, device, &place, NULL, &words, refusal) != 0)
    return false;
  driver->DeviceTotalMem(&bytes, device);
  snprintf(detail, sizeof(detail), "%s, %zu MiB, %s, compute %d.%d, driver for CUDA %d.%d%s%s",
           place.name, bytes >> 20, place.pci, place.capability / 10, place.capability % 10,
           driver->version / 1000, driver->version % 1000 / 10, words.text[0] ? "; " : "",
           words.text);
  if (probe->device)
    probe->device(probe->context, place.uuid, detail);
  return true;
}

int cuda_probe(const struct pst_host *host, struct pst_probe *probe)
{
  const struct cuda_driver *driver;
  struct cuda_refusal refusal = {
      .reason = "no GPU here is of compute capability 7.5 or later",
      .remedy = "Turing and what came after it can be used",
  };
  int count = 0;
  bool usable = false;
  if (cuda_driver_bind(host, &driver, &refusal) < 0 || cuda_kernels_refused(driver, &refusal))
    return cuda_open_refuse(probe, &refusal);
  if (driver->DeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  for (int i = 0; i < count; i++)
    usable |= cuda_open_report(host, driver, i, probe, &refusal);
  return usable ? 0 : cuda_open_refuse(probe, &refusal);
}

static int cuda_open_check_device(struct pst_memory *memory, const struct pst_options *options,
                                  struct cuda_refusal *refusal)
{
  struct cuda_place place;
  struct cuda_words words;
  cuda_status status = cuda_place_read(memory->driver, memory->device, &place);
  if (status == CUDA_SUCCESS)
    return cuda_plugin.suits(memory->host, memory->driver, memory->device, &place, options, &words,
                             refusal);
  *refusal = (struct cuda_refusal){.remedy = "nvidia-smi says more"};
  snprintf(refusal->reason, sizeof(refusal->reason), "reading the device's properties: %s",
           cuda_status_text(memory->driver, status).text);
  return -ENODEV;
}

/* Where none is named: the first that suits without the leave that options may give. */
static bool cuda_open_find_any(struct pst_memory *memory)
{
  struct cuda_refusal refusal;
  int count = 0;
  if (memory->driver->DeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  for (int i = 0; i < count; i++)
    if (memory->driver->DeviceGet(&memory->device, i) == CUDA_SUCCESS &&
        cuda_open_check_device(memory, NULL, &refusal) == 0)
      return true;
  return false;
}

static int cuda_open_find_device(struct pst_memory *memory, const struct pst_options *options)
{
  const char *name = memory->host->option_string(options, "device");
  struct cuda_refusal refusal;
  if (name[0] == '\0' && cuda_open_find_any(memory))
    return 0;
  int code = cuda_device_find(memory->host, memory->driver, name, &memory->device);
  if (code)
    return code;
  code = cuda_open_check_device(memory, options, &refusal);
  if (code)
    cuda_error_log(memory, "%s; %s", refusal.reason, refusal.remedy);
  return code;
}

/* Opens the memory on the GPU that `device` names. 0, or -errno after a log. */
int cuda_open(const struct pst_host *host, const struct pst_memory_params *params,
              struct pst_memory **memory)
{
  const struct pst_options *options = params->options;
  const struct cuda_driver *driver;
  struct cuda_refusal refusal;
  if (cuda_driver_bind(host, &driver, &refusal) < 0 || cuda_kernels_refused(driver, &refusal)) {
    host->log(host, PST_LOG_ERROR, "%s; %s", refusal.reason, refusal.remedy);
    return -ENODEV;
  }
  struct pst_memory *made = calloc(1, sizeof(*made));
  if (!made) {
    host->log(host, PST_LOG_ERROR, "no memory to open a GPU");
    return -ENOMEM;
  }
  made->host = host;
  made->driver = driver;
  made->copies = (enum cuda_copies)host->option_uint(options, "copies");
  pthread_mutex_init(&made->lock, NULL);
  int code = cuda_open_find_device(made, options);
  if (code == 0)
    code = cuda_context_open(made);
  if (code == 0) {
    code = cuda_plugin.open(made, options);
    if (code)
      cuda_context_close(made);
  }
  if (code) {
    pthread_mutex_destroy(&made->lock);
    free(made);
    return code;
  }
  *memory = made;
  return 0;
}

void cuda_close(struct pst_memory *memory)
{
  if (!memory)
    return;
  if (memory->range_count || memory->fences)
    cuda_error_log(memory, "closed with %u ranges of memory and %u fences left; free them before",
                   memory->range_count, memory->fences);
  cuda_context_close(memory);
  pthread_mutex_destroy(&memory->lock);
  free(memory->ranges);
  free(memory);
}

int cuda_describe(struct pst_memory *memory, struct pst_memory_info *info)
{
  struct pst_memory_info made = {.kind = cuda_plugin.kind};
  size_t available = 0, total;
  cuda_enter(memory);
  if (memory->driver->MemGetInfo(&available, &total) != CUDA_SUCCESS)
    available = 0;
  cuda_leave(memory);
  snprintf(made.device, sizeof(made.device), "%s", memory->uuid);
  snprintf(made.name, sizeof(made.name), "%s", memory->name);
  made.free_bytes = available;
  pst_struct_write(info, &made, sizeof(made));
  return 0;
}
