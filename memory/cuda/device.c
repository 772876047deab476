/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inside.h"

#define UUID_DIGITS 36 /* with four dashes */

static bool is_number(const char *text)
{
  return *text && strspn(text, "0123456789") == strlen(text);
}

static bool parse_index(const char *text, struct cuda_wanted *wanted)
{
  if (!is_number(text) || strlen(text) > 4)
    return false;
  wanted->by = CUDA_BY_INDEX;
  wanted->index = atoi(text);
  return true;
}

/* nvidia-smi's "GPU-5f2…", or the bare UUID; CUDA takes beginnings too. */
static bool parse_uuid(const char *text, bool prefixed, struct cuda_wanted *wanted)
{
  size_t length = strlen(text);
  if (length == 0 || length > UUID_DIGITS || (!prefixed && length != UUID_DIGITS))
    return false;
  for (size_t i = 0; i < length; i++) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
      return false;
    wanted->uuid[i] = (char)tolower((unsigned char)text[i]);
  }
  wanted->uuid[length] = '\0';
  wanted->by = CUDA_BY_UUID;
  return true;
}

/* [domain:]bus:device[.function], hexadecimal, as lspci, nvidia-smi (a domain of eight
 * digits) and sysfs write it. A GPU's sound device is function 1 of the same address. */
static bool parse_pci(const char *text, struct cuda_wanted *wanted)
{
  unsigned int part[3], count = 0;
  const char *at = text;
  for (;;) {
    char *end;
    if (count == 3 || !isxdigit((unsigned char)*at))
      return false;
    unsigned long value = strtoul(at, &end, 16);
    if (end - at > 8)
      return false;
    part[count++] = (unsigned int)value;
    at = end;
    if (*at != ':')
      break;
    at++;
  }
  if (count < 2 || (*at == '.' && !(at[1] >= '0' && at[1] <= '7' && at[2] == '\0')) ||
      (*at != '.' && *at != '\0'))
    return false;
  wanted->domain = count == 3 ? part[0] : 0;
  wanted->bus = part[count - 2];
  wanted->device = part[count - 1];
  wanted->by = CUDA_BY_PCI;
  return wanted->bus <= 0xff && wanted->device <= 0x1f;
}

bool cuda_wanted_parse(const char *text, struct cuda_wanted *wanted)
{
  static const char *const lead[] = {"cuda:", "gpu:", "pci:", "/sys/bus/pci/devices/", "gpu "};
  memset(wanted, 0, sizeof(*wanted));
  if (text[0] == '\0')
    return true;
  if (strncasecmp(text, "GPU-", 4) == 0)
    return parse_uuid(text + 4, true, wanted);
  for (size_t i = 0; i < sizeof(lead) / sizeof(lead[0]); i++)
    if (strncasecmp(text, lead[i], strlen(lead[i])) == 0) {
      text += strlen(lead[i]);
      break;
    }
  return parse_index(text, wanted) || parse_uuid(text, false, wanted) || parse_pci(text, wanted);
}

bool cuda_wanted_is(const struct cuda_wanted *wanted, int index, const struct cuda_place *place)
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

static int refuse_text(const struct pst_host *host, const char *text)
{
  bool mig = strncasecmp(text, "MIG-", 4) == 0;
  host->log(host, PST_LOG_ERROR,
            "device: %s: %s; write an index (0), a UUID (GPU-…, from nvidia-smi -L) or a PCI "
            "address (b7:00.0)",
            text,
            mig ? "a MIG instance is chosen by CUDA_VISIBLE_DEVICES, and is then device 0"
                : "not a name of a GPU");
  return -EINVAL;
}

static void say_who_is_there(const struct cuda_driver *driver, int count, char *out, size_t size)
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
  struct cuda_wanted wanted;
  int count = 0, found = 0;
  cuda_device match = 0;
  if (!cuda_wanted_parse(text, &wanted))
    return refuse_text(host, text);
  if (driver->DeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  for (int i = 0; i < count; i++) {
    struct cuda_place place;
    cuda_device one;
    if (driver->DeviceGet(&one, i) == CUDA_SUCCESS &&
        cuda_place_read(driver, one, &place) == CUDA_SUCCESS &&
        cuda_wanted_is(&wanted, i, &place) && found++ == 0)
      match = one;
  }
  if (found == 1) {
    *device = match;
    return 0;
  }
  char there[512];
  say_who_is_there(driver, count, there, sizeof(there));
  host->log(host, PST_LOG_ERROR, "device: %s: %s; here %s %s", text,
            found ? "more than one GPU goes by it" : "no such GPU", count == 1 ? "is" : "are",
            count ? there : "none");
  return -ENODEV;
}
