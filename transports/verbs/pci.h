/* SPDX-License-Identifier: Apache-2.0 */
/* The connection between an adapter and a GPU, in the words of `nvidia-smi topo -m`. */
#ifndef VERBS_PCI_H
#define VERBS_PCI_H

#include <stdbool.h>
#include <stddef.h>

enum vb_pci_distance {
  VB_PCI_UNKNOWN,
  VB_PCI_PIX, /* one PCIe switch at most */
  VB_PCI_PXB, /* several PCIe switches */
  VB_PCI_PHB, /* the CPU's PCIe root complex */
  VB_PCI_SYS, /* different root complexes */
};

/* The distance of two folders of devices as the kernel names them:
 * ".../pci0000:3a/0000:3a:00.0/0000:3b:00.0", without symbolic links. */
enum vb_pci_distance vb_pci_between(const char *a, const char *b);
/* The distance between the device that `folder` of /sys/class/infiniband names and a GPU, given by
 * its UUID ("GPU-…"). The driver lists GPUs below `gpus`; `pci` is where the kernel lists PCI
 * devices. */
enum vb_pci_distance vb_pci_distance(const char *folder, const char *uuid, const char *gpus,
                                     const char *pci);
#define VB_PCI_GPUS "/proc/driver/nvidia/gpus"
#define VB_PCI_DEVICES "/sys/bus/pci/devices"
/* "PIX: a PCIe switch lies between them at most". */
const char *vb_pci_text(enum vb_pci_distance distance);

#endif
