/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a PCI device's capabilities and name by libpci. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "pci.h"

#ifdef HAVE_LIBPCI
#include <pci/pci.h>

#define CONVENTIONAL 256 /* bytes of a configuration space that has no extended capabilities */
#define WHOLE 4096

/* libpci ends the process where its error handler returns. */
static _Thread_local jmp_buf pci_config_failed;

__attribute__((noreturn)) static void pci_config_fail(char *format, ...)
{
  (void)format;
  longjmp(pci_config_failed, 1);
}

static void pci_config_ignore(char *format, ...)
{
  (void)format;
}

/* libpci below the machine's root, before pci_init(), which may fail. */
static struct pci_access *pci_config_access(struct host *host)
{
  struct pci_access *access = pci_alloc();
  char path[HOST_PATH_BYTES], parameter[] = "sysfs.path";

  snprintf(path, sizeof(path), "%.480s/sys/bus/pci", host_is_live(host) ? "" : host_root(host));
  access->method = PCI_ACCESS_SYS_BUS_PCI;
  access->error = pci_config_fail;
  access->warning = access->debug = pci_config_ignore;
  pci_set_param(access, parameter, path);
  return access;
}

static void pci_config_read(struct pci_dev *device, struct host_pci_control *control)
{
  pci_fill_info(device, PCI_FILL_CAPS | PCI_FILL_EXT_CAPS);
  const struct pci_cap *express = pci_find_cap(device, PCI_CAP_ID_EXP, PCI_CAP_NORMAL),
                       *acs = pci_find_cap(device, PCI_EXT_CAP_ID_ACS, PCI_CAP_EXTENDED);
  if (express) {
    const unsigned word = pci_read_word(device, (int)express->addr + PCI_EXP_DEVCTL);
    control->relaxed_ordering = (word & PCI_EXP_DEVCTL_RELAXED) != 0;
    control->payload_bytes = 128u << ((word & PCI_EXP_DEVCTL_PAYLOAD) >> 5);
    control->read_bytes = 128u << ((word & PCI_EXP_DEVCTL_READRQ) >> 12);
  }
  if (acs) {
    const unsigned word = pci_read_word(device, (int)acs->addr + PCI_ACS_CTRL);
    control->has_acs = true;
    control->acs_redirects = (word & (PCI_ACS_CTRL_REQ_RED | PCI_ACS_CTRL_CMPLT_RED)) != 0;
  }
}

void host_pci_read_control(struct host *host, const struct host_pci *pci,
                           struct host_pci_control *control)
{
  unsigned domain, bus, device, function;
  u8 space[WHOLE] = {0};
  size_t length;
  const void *bytes = host_bytes(host, &length, "sys/bus/pci/devices/%s/config", pci->address);

  *control = (struct host_pci_control){.known = HOST_PCI_CONFIG_NEEDS_ROOT};
  /* The kernel gives the first 64 bytes, without any capability, to everyone. */
  if (!bytes || length < CONVENTIONAL ||
      sscanf(pci->address, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
    return;
  /* A whole space: libpci opens the file, by a path without the root's bounds, for bytes that the
   * cache lacks. */
  memcpy(space, bytes, length < sizeof(space) ? length : sizeof(space));
  struct pci_access *access = pci_config_access(host);
  if (setjmp(pci_config_failed) == 0) {
    pci_init(access);
    struct pci_dev *opened = pci_get_dev(access, (int)domain, (int)bus, (int)device, (int)function);
    pci_setup_cache(opened, space, sizeof(space));
    pci_config_read(opened, control);
    pci_free_dev(opened);
    control->known = HOST_PCI_CONFIG_KNOWN;
  }
  pci_cleanup(access);
}

void host_pci_name(struct host *host, const struct host_pci *pci, char *name, size_t size)
{
  struct pci_access *access = pci_config_access(host);
  char text[256];

  snprintf(name, size, "%04x:%04x", pci->vendor, pci->device);
  if (setjmp(pci_config_failed) == 0) {
    pci_init(access);
    const char *found = pci_lookup_name(
        access, text, sizeof(text), PCI_LOOKUP_VENDOR | PCI_LOOKUP_DEVICE | PCI_LOOKUP_NO_NUMBERS,
        (int)pci->vendor, (int)pci->device);
    if (found && found[0] != '\0' && found[0] != '<')
      snprintf(name, size, "%s", found);
  }
  pci_cleanup(access);
}

#else

void host_pci_read_control(struct host *host, const struct host_pci *pci,
                           struct host_pci_control *control)
{
  (void)host;
  (void)pci;
  *control = (struct host_pci_control){.known = HOST_PCI_CONFIG_NOT_BUILT};
}

void host_pci_name(struct host *host, const struct host_pci *pci, char *name, size_t size)
{
  (void)host;
  snprintf(name, size, "%04x:%04x", pci->vendor, pci->device);
}

#endif
