/* SPDX-License-Identifier: Apache-2.0 */
/* PCI devices of a machine. */
#ifndef APP_HOST_PCI_H
#define APP_HOST_PCI_H

#include "host.h"

#define HOST_PCI_BARS 6

/* A link of PCI Express; 0: unknown. */
struct host_pci_link {
  double gtps; /* transfers a second and lane, in 10^9: 32 for PCIe 5.0 */
  unsigned lanes;
};

enum host_pci_config {
  HOST_PCI_CONFIG_KNOWN,
  HOST_PCI_CONFIG_NEEDS_ROOT,
  HOST_PCI_CONFIG_NOT_BUILT, /* this build has no libpci */
};

struct host_pci {
  char address[16]; /* "0000:3b:00.0" */
  char path[256];   /* below sys/devices: "pci0000:3a/0000:3a:00.0/0000:3b:00.0" */
  char driver[48];  /* "mlx5_core"; "": none */
  uint32_t vendor, device;
  uint32_t class;                       /* 0x020000: the class, the subclass, the interface */
  int numa_node;                        /* -1: unknown, or a machine of one node */
  struct host_pci_link link, link_most; /* as it is, and as the device could */
  uint64_t bars[HOST_PCI_BARS];         /* bytes; 0: none */
  bool is_virtual_function;
};

/* Contents of the configuration space, which only root may read. */
struct host_pci_control {
  enum host_pci_config known;
  bool relaxed_ordering; /* the device may mark its writes so */
  bool has_acs;
  bool acs_redirects;     /* sends peer-to-peer requests up to the root complex */
  unsigned payload_bytes; /* of a write: Max_Payload_Size */
  unsigned read_bytes;    /* of a read: Max_Read_Request_Size */
};

struct host_pcis {
  size_t count;
  struct host_pci *all; /* by address */
};

/* All devices, or none. The caller frees what `pcis` has with host_pci_free(). */
void host_pci_list(struct host *host, struct host_pcis *pcis);
void host_pci_free(struct host_pcis *pcis);
/* NULL: there is none. Also "00000000:3B:00.0", as NVML writes addresses. */
const struct host_pci *host_pci_find(const struct host_pcis *pcis, const char *address);
/* The device whose `device` link in sysfs this path is: "sys/class/net/eth0/device". NULL: the
 * device is on no PCI bus. */
const struct host_pci *host_pci_of(struct host *host, const struct host_pcis *pcis,
                                   const char *path);
/* The bridge above, a port of a switch or of the root. NULL: the device is on the root's own bus.
 */
const struct host_pci *host_pci_above(const struct host_pcis *pcis, const struct host_pci *pci);
void host_pci_read_control(struct host *host, const struct host_pci *pci,
                           struct host_pci_control *control);
/* "Mellanox Technologies MT2910 Family [ConnectX-7]"; without pci.ids "15b3:1021". */
void host_pci_name(struct host *host, const struct host_pci *pci, char *name, size_t size);

#endif
