/* SPDX-License-Identifier: Apache-2.0 */
/* Which platform this is, and what a NIC reaches on it. */
#include "platform.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int igpu_platform_attribute(const struct cuda_driver *driver, cuda_device device, int which)
{
  int value = 0;
  return driver->DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

/* /proc/device-tree/compatible is a list of names, each with its '\0', the board's first. */
static void igpu_platform_read_chip(const char *root, char *out, size_t size)
{
  char path[512], names[1024];
  snprintf(path, sizeof(path), "%s/proc/device-tree/compatible", root);
  out[0] = '\0';
  FILE *file = fopen(path, "re");
  if (!file)
    return;
  size_t length = fread(names, 1, sizeof(names) - 1, file);
  fclose(file);
  names[length] = '\0';
  for (const char *name = names; name < names + length; name += strlen(name) + 1)
    if (strncmp(name, "nvidia,tegra", 12) == 0)
      snprintf(out, size, "%.*s", (int)size - 1, name);
}

static bool igpu_platform_is_loaded(const char *root, const char *module)
{
  char path[512];
  snprintf(path, sizeof(path), "%s/sys/module/%s", root, module);
  return access(path, F_OK) == 0;
}

void igpu_facts_read(const struct cuda_driver *driver, cuda_device device,
                     const struct cuda_place *place, const char *root, struct igpu_facts *facts)
{
  *facts = (struct igpu_facts){
      .integrated = igpu_platform_attribute(driver, device, CUDA_ATTRIBUTE_INTEGRATED),
      .page_tables = igpu_platform_attribute(driver, device, CUDA_ATTRIBUTE_HOST_PAGE_TABLES),
      .rdma = igpu_platform_attribute(driver, device, CUDA_ATTRIBUTE_RDMA),
      .dmabuf = igpu_platform_attribute(driver, device, CUDA_ATTRIBUTE_DMABUF),
      .host_dmabuf = igpu_platform_attribute(driver, device, CUDA_ATTRIBUTE_HOST_ALLOC_DMABUF),
      .peermem = igpu_platform_is_loaded(root, "nvidia_peermem"),
      .nvidia_p2p = igpu_platform_is_loaded(root, "nvidia_p2p"),
      .capability = place->capability,
  };
  igpu_platform_read_chip(root, facts->compatible, sizeof(facts->compatible));
}

static bool igpu_platform_is_chip(const struct igpu_facts *facts, const char *chip)
{
  return strcmp(facts->compatible, chip) == 0;
}

/* An IGX has a board beside its own GPU: the device tree is of the machine, not of that board. */
enum igpu_platform igpu_platform_of(const struct igpu_facts *facts)
{
  if (!facts->integrated)
    return facts->page_tables ? IGPU_GRACE : IGPU_DISCRETE;
  if (igpu_platform_is_chip(facts, "nvidia,tegra194"))
    return IGPU_XAVIER;
  if (igpu_platform_is_chip(facts, "nvidia,tegra234"))
    return IGPU_ORIN;
  if (igpu_platform_is_chip(facts, "nvidia,tegra264"))
    return IGPU_THOR;
  return facts->capability == 121 ? IGPU_GB10 : IGPU_OTHER;
}

static const char *const names[] = {
    [IGPU_DISCRETE] = "discrete",
    [IGPU_XAVIER] = "Xavier (tegra194), integrated",
    [IGPU_ORIN] = "Orin (tegra234), integrated",
    [IGPU_THOR] = "Thor (tegra264), integrated",
    [IGPU_GB10] = "GB10, integrated",
    [IGPU_GRACE] = "discrete, coherent with the host (Grace)",
    [IGPU_OTHER] = "integrated, of no platform that is known here",
};

const char *igpu_platform_name(enum igpu_platform platform)
{
  return names[platform];
}

/* How a NIC reaches what cuMemAlloc gives, which is not what this plugin gives. */
static const char *igpu_platform_memory_words(enum igpu_platform platform,
                                              const struct igpu_facts *facts)
{
  switch (platform) {
  case IGPU_XAVIER:
  case IGPU_ORIN:
    if (!facts->rdma)
      return "cuMemAlloc's memory not at all in this release";
    return facts->nvidia_p2p
               ? "cuMemAlloc's memory by nv-p2p alone, which CUDA 13.0 deprecates"
               : "cuMemAlloc's memory by nv-p2p alone, whose module (nvidia-p2p) is not loaded, and "
                 "which CUDA 13.0 deprecates";
  case IGPU_THOR:
    return "cuMemAlloc's memory not at all: Thor does not support nv-p2p";
  case IGPU_GB10:
    return "cuMemAlloc's memory not at all: neither nvidia-peermem nor dma-buf works on GB10";
  case IGPU_GRACE:
  case IGPU_DISCRETE:
  case IGPU_OTHER:
    break;
  }
  return facts->dmabuf    ? "cuMemAlloc's memory by dma-buf, which memory cuda exports"
         : facts->peermem ? "cuMemAlloc's memory by nvidia-peermem, with memory cuda"
                          : "cuMemAlloc's memory not at all: the driver exports no dma-buf, and "
                            "nvidia-peermem is not loaded";
}

void igpu_platform_text(const struct igpu_facts *facts, char *out, size_t size)
{
  enum igpu_platform platform = igpu_platform_of(facts);
  snprintf(out, size, "%s; a NIC reaches pinned host memory as it does any host memory%s, and %s",
           igpu_platform_name(platform), facts->host_dmabuf ? ", or by dma-buf" : "",
           igpu_platform_memory_words(platform, facts));
}
