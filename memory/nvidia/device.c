/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the device that is meant. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device.h"
#include "state.h"

bool cuda_device_option_is(const struct cuda_device_option *wanted, int index,
                           const struct cuda_place *place)
{
  unsigned int domain = 0, bus = 0, device = 0;
  switch (wanted->by) {
  case CUDA_BY_INDEX:
    return wanted->index == index;
  case CUDA_BY_UUID:
    return strncmp(place->uuid + 4, wanted->uuid, strlen(wanted->uuid)) == 0;
  case CUDA_BY_PCI:
    return sscanf(place->pci, "%x:%x:%x", &domain, &bus, &device) == 3 &&
           domain == wanted->domain && bus == wanted->bus && device == wanted->device;
  }
  return false;
}

/* Reads a GPU's name, UUID, PCI address and capability into *place. */
cuda_status cuda_place_read(const struct cuda_driver *driver, cuda_device device,
                            struct cuda_place *place)
{
  struct cuda_uuid uuid;
  int domain, bus, slot, major, minor;
  cuda_status status = driver->DeviceGetName(place->name, sizeof(place->name), device);
  const struct {
    int attribute;
    int *value;
  } wanted[] = {
      {CUDA_ATTRIBUTE_PCI_DOMAIN, &domain},      {CUDA_ATTRIBUTE_PCI_BUS, &bus},
      {CUDA_ATTRIBUTE_PCI_DEVICE, &slot},        {CUDA_ATTRIBUTE_CAPABILITY_MAJOR, &major},
      {CUDA_ATTRIBUTE_CAPABILITY_MINOR, &minor},
  };
  if (status == CUDA_SUCCESS)
    status = driver->DeviceGetUuid(&uuid, device);
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && status == CUDA_SUCCESS; i++)
    status = driver->DeviceGetAttribute(wanted[i].value, wanted[i].attribute, device);
  if (status != CUDA_SUCCESS)
    return status;
  const unsigned char *u = uuid.bytes;
  snprintf(place->uuid, sizeof(place->uuid),
           "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
           u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
           u[15]);
  snprintf(place->pci, sizeof(place->pci), "%04x:%02x:%02x.0", (unsigned int)domain & 0xffff,
           (unsigned int)bus & 0xff, (unsigned int)slot & 0x1f);
  place->capability = 10 * major + minor;
  return CUDA_SUCCESS;
}

bool cuda_device_is_integrated(const struct cuda_driver *driver, cuda_device device)
{
  int value = 0;
  return driver->DeviceGetAttribute(&value, CUDA_ATTRIBUTE_INTEGRATED, device) == CUDA_SUCCESS &&
         value;
}

void cuda_device_say_first(const struct cuda_driver *driver, bool integrated, char *out,
                           size_t size)
{
  struct cuda_place place;
  cuda_device device;
  int count = 0;
  if (driver->DeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  snprintf(out, size, "none");
  for (int i = 0; i < count; i++)
    if (driver->DeviceGet(&device, i) == CUDA_SUCCESS &&
        cuda_device_is_integrated(driver, device) == integrated &&
        cuda_place_read(driver, device, &place) == CUDA_SUCCESS) {
      snprintf(out, size, "%d (%s, %s)", i, place.name, place.pci);
      return;
    }
}

static void cuda_device_say_who_is_there(const struct cuda_driver *driver, int count, char *out,
                                         size_t size)
{
  size_t at = 0;
  out[0] = '\0';
  for (int i = 0; i < count && at + 1 < size; i++) {
    struct cuda_place place;
    cuda_device device;
    if (driver->DeviceGet(&device, i) != CUDA_SUCCESS ||
        cuda_place_read(driver, device, &place) != CUDA_SUCCESS)
      continue;
    at += (size_t)snprintf(out + at, size - at, "%s%d (%s, %s)", at ? "; " : "", i, place.pci,
                           place.uuid);
  }
}

int cuda_device_find(const struct pst_host *host, const struct cuda_driver *driver,
                     const char *text, cuda_device *device)
{
  struct cuda_device_option wanted;
  int count = 0, found = 0;
  cuda_device match = 0;
  if (!cuda_device_option_parse(text, &wanted)) {
    host->log(host, PST_LOG_ERROR, "device: %s: %s", text, cuda_device_option_refusal(text));
    return -EINVAL;
  }
  if (driver->DeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  for (int i = 0; i < count; i++) {
    struct cuda_place place;
    cuda_device one;
    if (driver->DeviceGet(&one, i) == CUDA_SUCCESS &&
        cuda_place_read(driver, one, &place) == CUDA_SUCCESS &&
        cuda_device_option_is(&wanted, i, &place) && found++ == 0)
      match = one;
  }
  if (found == 1) {
    *device = match;
    return 0;
  }
  char there[512];
  cuda_device_say_who_is_there(driver, count, there, sizeof(there));
  host->log(host, PST_LOG_ERROR, "device: %s: %s; here %s %s", text,
            found ? "more than one GPU matches" : "no such GPU", count == 1 ? "is" : "are",
            count ? there : "none");
  return -ENODEV;
}
