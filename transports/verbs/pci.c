/* SPDX-License-Identifier: Apache-2.0 */
/* How far a GPU is from the adapter, by PCIe bridges. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"

/* Counts the bridges of a path from `at` on: its PCI addresses but the last, the device's own. */
static unsigned vb_pci_bridges(const char *at)
{
  unsigned count = 0;

  for (const char *part = at; (part = strchr(part, '/')) != NULL; part++)
    count++;
  return count;
}

/* The root complex of a path, "pci0000:3a": its start and length; 0: there is none. */
static size_t vb_pci_root_of(const char *path, const char **root)
{
  const char *at = strstr(path, "/pci");

  if (!at)
    return 0;
  *root = at + 1;
  return strcspn(*root, "/");
}

/* The common part of both paths ends with a bridge below the root complex: a port of a switch, or
 * of the root. Within one switch, each device has one port of the switch above it, and both have
 * one in common. */
enum vb_pci_distance vb_pci_between(const char *a, const char *b)
{
  const char *root_a, *root_b;
  const size_t length_a = vb_pci_root_of(a, &root_a), length_b = vb_pci_root_of(b, &root_b);
  size_t same = 0, i = 0;

  if (length_a == 0 || length_b == 0)
    return VB_PCI_UNKNOWN;
  if (length_a != length_b || strncmp(root_a, root_b, length_a) != 0)
    return VB_PCI_SYS;
  a = root_a + length_a;
  b = root_b + length_b;
  for (; a[i] && a[i] == b[i]; i++)
    same = a[i] == '/' ? i : same;
  if ((a[i] == '\0' || a[i] == '/') && (b[i] == '\0' || b[i] == '/'))
    same = i;
  if (same == 0)
    return VB_PCI_PHB;
  /* Beyond the port in common: one more of the same switch, or further switches. */
  return vb_pci_bridges(a + same + (a[same] == '/')) <= 1 &&
                 vb_pci_bridges(b + same + (b[same] == '/')) <= 1
             ? VB_PCI_PIX
             : VB_PCI_PXB;
}

/* True if the file has a line "GPU UUID: <uuid>". */
static bool vb_pci_is_of(const char *path, const char *uuid)
{
  FILE *file = fopen(path, "re");
  char line[256], found[64];
  bool is = false;

  while (file && !is && fgets(line, sizeof(line), file))
    is = sscanf(line, "GPU UUID: %63s", found) == 1 && strcmp(found, uuid) == 0;
  if (file)
    fclose(file);
  return is;
}

/* The PCI address of a GPU. False: the driver does not list it. */
static bool vb_pci_find_gpu(const char *uuid, const char *gpus, char address[64])
{
  DIR *folder = opendir(gpus);
  bool is_found = false;
  char path[512];

  for (const struct dirent *one; folder && !is_found && (one = readdir(folder));) {
    snprintf(path, sizeof(path), "%.200s/%.200s/information", gpus, one->d_name);
    if (one->d_name[0] != '.' && vb_pci_is_of(path, uuid)) {
      snprintf(address, 64, "%.63s", one->d_name);
      is_found = true;
    }
  }
  if (folder)
    closedir(folder);
  return is_found;
}

enum vb_pci_distance vb_pci_distance(const char *folder, const char *uuid, const char *gpus,
                                     const char *pci)
{
  char path[512], address[64], adapter[PATH_MAX], gpu[PATH_MAX];

  if (!vb_pci_find_gpu(uuid, gpus, address))
    return VB_PCI_UNKNOWN;
  snprintf(path, sizeof(path), "%.400s/device", folder);
  if (!realpath(path, adapter))
    return VB_PCI_UNKNOWN;
  snprintf(path, sizeof(path), "%.400s/%s", pci, address);
  return realpath(path, gpu) ? vb_pci_between(adapter, gpu) : VB_PCI_UNKNOWN;
}

const char *vb_pci_text(enum vb_pci_distance distance)
{
  static const char *const texts[] = {
      [VB_PCI_UNKNOWN] = "unknown",
      [VB_PCI_PIX] = "PIX: one PCIe switch at most lies between them",
      [VB_PCI_PXB] = "PXB: PCIe switches lie between them",
      [VB_PCI_PHB] = "PHB: the CPU's PCIe root complex lies between them",
      [VB_PCI_SYS] = "SYS: they are at different PCIe root complexes"};

  return texts[distance];
}
