/* SPDX-License-Identifier: Apache-2.0 */
/* Reads PCI devices from sysfs. */
#include "pci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pci_read_link(struct host *host, const char *address, const char *which,
                          struct host_pci_link *link)
{
  const char *speed = host_text(host, "sys/bus/pci/devices/%s/%s_link_speed", address, which);
  int64_t lanes = 0;

  host_number(host, &lanes, "sys/bus/pci/devices/%s/%s_link_width", address, which);
  link->gtps = speed ? strtod(speed, NULL) : 0;
  link->lanes = lanes > 0 && lanes <= 32 ? (unsigned)lanes : 0;
}

/* A line for each region: first address, last address, flags. */
static void pci_read_bars(struct host *host, struct host_pci *pci)
{
  const char *text = host_text(host, "sys/bus/pci/devices/%s/resource", pci->address);
  unsigned long long first, last, flags;
  int used;

  for (size_t i = 0; text && i < HOST_PCI_BARS; i++, text += used) {
    if (sscanf(text, " %llx %llx %llx%n", &first, &last, &flags, &used) != 3)
      return;
    pci->bars[i] = last > first ? last - first + 1 : 0;
  }
}

static void pci_read(struct host *host, const char *address, struct host_pci *pci)
{
  const char *target = host_link(host, "sys/bus/pci/devices/%s", address);
  const char *path = target ? strstr(target, "/devices/") : NULL, *driver;
  int64_t value;

  snprintf(pci->address, sizeof(pci->address), "%s", address);
  snprintf(pci->path, sizeof(pci->path), "%s", path ? path + strlen("/devices/") : address);
  driver = host_link_name(host, "sys/bus/pci/devices/%s/driver", address);
  snprintf(pci->driver, sizeof(pci->driver), "%s", driver ? driver : "");
  if (host_number(host, &value, "sys/bus/pci/devices/%s/vendor", address))
    pci->vendor = (uint32_t)value;
  if (host_number(host, &value, "sys/bus/pci/devices/%s/device", address))
    pci->device = (uint32_t)value;
  if (host_number(host, &value, "sys/bus/pci/devices/%s/class", address))
    pci->class = (uint32_t)value;
  pci->numa_node =
      host_number(host, &value, "sys/bus/pci/devices/%s/numa_node", address) ? (int)value : -1;
  pci->is_virtual_function = host_has(host, "sys/bus/pci/devices/%s/physfn", address);
  pci_read_link(host, address, "current", &pci->link);
  pci_read_link(host, address, "max", &pci->link_most);
  pci_read_bars(host, pci);
}

void host_pci_list(struct host *host, struct host_pcis *pcis)
{
  const struct host_names *names = host_list(host, "sys/bus/pci/devices");

  pcis->count = 0;
  pcis->all = calloc(names->count + 1, sizeof(*pcis->all));
  for (size_t i = 0; i < names->count && pcis->all; i++)
    pci_read(host, names->names[i], &pcis->all[pcis->count++]);
}

void host_pci_free(struct host_pcis *pcis)
{
  free(pcis->all);
  *pcis = (struct host_pcis){0};
}

const struct host_pci *host_pci_find(const struct host_pcis *pcis, const char *address)
{
  unsigned domain, bus, device, function, other[4];

  if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
    return NULL;
  for (size_t i = 0; i < pcis->count; i++)
    if (sscanf(pcis->all[i].address, "%x:%x:%x.%x", &other[0], &other[1], &other[2], &other[3]) ==
            4 &&
        domain == other[0] && bus == other[1] && device == other[2] && function == other[3])
      return &pcis->all[i];
  return NULL;
}

const struct host_pci *host_pci_of(struct host *host, const struct host_pcis *pcis,
                                   const char *path)
{
  const char *target = host_link(host, "%s", path);

  /* A device below a PCI device, as that of a virtual machine, has the PCI device above. */
  for (const char *end = target ? target + strlen(target) : NULL; end && end > target;) {
    const char *last = end;
    while (last > target && last[-1] != '/')
      last--;
    char name[32];
    snprintf(name, sizeof(name), "%.*s", (int)(end - last), last);
    const struct host_pci *found = strlen(name) >= 12 ? host_pci_find(pcis, name) : NULL;
    if (found)
      return found;
    end = last > target ? last - 1 : target;
  }
  return NULL;
}

const struct host_pci *host_pci_above(const struct host_pcis *pcis, const struct host_pci *pci)
{
  char path[sizeof(pci->path)];

  snprintf(path, sizeof(path), "%s", pci->path);
  char *slash = strrchr(path, '/');
  if (!slash)
    return NULL;
  *slash = '\0';
  slash = strrchr(path, '/');
  const struct host_pci *above = slash ? host_pci_find(pcis, slash + 1) : NULL;
  /* Links of a recording may be crossed; a bridge's own path is shorter, so a walk upwards ends. */
  return above && strlen(above->path) < strlen(pci->path) ? above : NULL;
}
