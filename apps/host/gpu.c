/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA GPUs, by the kernel and by NVML. */
#include "gpu.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVIDIA 0x10deu
#define DISPLAY 0x03u /* class: also 0302, a GPU without a display */

void host_tegra_chip(struct host *host, char *chip, size_t size)
{
  size_t length;
  const char *names = host_bytes(host, &length, "proc/device-tree/compatible");

  chip[0] = '\0';
  /* A list of names, each with its '\0'. */
  for (const char *name = names; names && name < names + length; name += strlen(name) + 1)
    if (strncmp(name, "nvidia,tegra", 12) == 0)
      snprintf(chip, size, "%s", name);
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build …" */
static void gpu_read_driver(struct host *host, struct host_gpus *gpus)
{
  const char *version = host_text(host, "sys/module/nvidia/version"),
             *line = host_text(host, "proc/driver/nvidia/version");

  snprintf(gpus->driver, sizeof(gpus->driver), "%s", version ? version : "");
  gpus->open_modules = line && strstr(line, "Open Kernel Module");
}

static struct json_object *gpu_member(struct json_object *object, const char *key)
{
  struct json_object *value = NULL;

  json_object_object_get_ex(object, key, &value);
  return value;
}

static enum host_answer_of gpu_answer(struct json_object *object, const char *key)
{
  struct json_object *value = gpu_member(object, key);

  return !value ? HOST_UNKNOWN : json_object_get_boolean(value) ? HOST_YES : HOST_NO;
}

static void gpu_take_nvml(struct json_object *object, struct host_gpu *gpu)
{
  const char *name = json_object_get_string(gpu_member(object, "name")),
             *uuid = json_object_get_string(gpu_member(object, "uuid"));
  struct json_object *errors = gpu_member(object, "ecc_errors"),
                     *index = gpu_member(object, "index"),
                     *throttled = gpu_member(object, "throttled");

  if (name)
    snprintf(gpu->name, sizeof(gpu->name), "%s", name);
  if (uuid)
    snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
  gpu->index = index ? json_object_get_int(index) : -1;
  gpu->memory_bytes = json_object_get_uint64(gpu_member(object, "memory_bytes"));
  if (gpu_member(object, "bar1_bytes"))
    gpu->bar1_bytes = json_object_get_uint64(gpu_member(object, "bar1_bytes"));
  gpu->bar1_used = json_object_get_uint64(gpu_member(object, "bar1_used"));
  gpu->persistence = gpu_answer(object, "persistence");
  gpu->ecc = gpu_answer(object, "ecc");
  gpu->ecc_pending = gpu_answer(object, "ecc_pending");
  gpu->mig = gpu_answer(object, "mig");
  gpu->ecc_errors = errors ? json_object_get_int64(errors) : -1;
  gpu->throttled = throttled ? json_object_get_int64(throttled) : -1;
}

/* Gives each GPU what NVML knows of it, by their PCI addresses. */
static void gpu_read_nvml(struct host *host, const struct host_pcis *pcis, struct host_gpus *gpus)
{
  struct json_object *facts = host_facts(host, "nvml", &gpus->nvml_why),
                     *list = gpu_member(facts, "gpus");
  const size_t count =
      json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

  gpus->nvml_known = facts != NULL;
  gpus->cuda = json_object_get_int(gpu_member(facts, "cuda"));
  for (size_t i = 0; i < count; i++) {
    struct json_object *one = json_object_array_get_idx(list, i);
    const char *address = json_object_get_string(gpu_member(one, "pci"));
    const struct host_pci *pci = address ? host_pci_find(pcis, address) : NULL;
    for (size_t k = 0; k < gpus->count; k++)
      if (pci ? strcmp(gpus->all[k].pci, pci->address) == 0 : gpus->all[k].is_integrated)
        gpu_take_nvml(one, &gpus->all[k]);
  }
}

static struct host_gpu *gpu_add(struct host_gpus *gpus)
{
  struct host_gpu *gpu = &gpus->all[gpus->count++];

  gpu->index = -1;
  gpu->ecc_errors = gpu->throttled = -1;
  gpu->persistence = gpu->ecc = gpu->ecc_pending = gpu->mig = HOST_UNKNOWN;
  return gpu;
}

static void gpu_read_names(struct host *host, struct host_gpu *gpu)
{
  char path[128];

  snprintf(path, sizeof(path), "proc/driver/nvidia/gpus/%s/information", gpu->pci);
  host_field(host, path, "Model", gpu->name, sizeof(gpu->name));
  host_field(host, path, "GPU UUID", gpu->uuid, sizeof(gpu->uuid));
}

/* Lists what the kernel knows, then adds what NVML knows. */
void host_gpu_list(struct host *host, const struct host_pcis *pcis, struct host_gpus *gpus)
{
  char chip[96];

  *gpus = (struct host_gpus){0};
  if (!(gpus->all = calloc(pcis->count + 1, sizeof(*gpus->all))))
    return;
  gpu_read_driver(host, gpus);
  for (size_t i = 0; i < pcis->count; i++) {
    const struct host_pci *pci = &pcis->all[i];
    if (pci->vendor != NVIDIA || pci->class >> 16 != DISPLAY)
      continue;
    struct host_gpu *gpu = gpu_add(gpus);
    snprintf(gpu->pci, sizeof(gpu->pci), "%s", pci->address);
    gpu->bar1_bytes = pci->bars[1];
    gpu_read_names(host, gpu);
  }
  host_tegra_chip(host, chip, sizeof(chip));
  if (chip[0] != '\0') {
    struct host_gpu *gpu = gpu_add(gpus);
    gpu->is_integrated = true;
    snprintf(gpu->name, sizeof(gpu->name), "the GPU of %.80s", chip);
  }
  if (gpus->count > 0)
    gpu_read_nvml(host, pcis, gpus);
  for (size_t i = 0; i < gpus->count; i++) {
    const struct host_pci *pci = host_pci_find(pcis, gpus->all[i].pci);
    if (gpus->all[i].name[0] == '\0' && pci)
      host_pci_name(host, pci, gpus->all[i].name, sizeof(gpus->all[i].name));
  }
}

void host_gpu_free(struct host_gpus *gpus)
{
  free(gpus->all);
  *gpus = (struct host_gpus){0};
}
