/* SPDX-License-Identifier: Apache-2.0 */
/* The option `device`: index, UUID or PCI address. */
#include "device_option.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "options.h"

#define UUID_DIGITS 36 /* with four dashes */

static bool cuda_device_option_is_number(const char *text)
{
  return *text && strspn(text, "0123456789") == strlen(text);
}

static bool cuda_device_option_parse_index(const char *text, struct cuda_device_option *wanted)
{
  if (!cuda_device_option_is_number(text) || strlen(text) > 4)
    return false;
  wanted->by = CUDA_BY_INDEX;
  wanted->index = atoi(text);
  return true;
}

/* nvidia-smi's "GPU-5f2…", or the bare UUID; CUDA takes beginnings too. */
static bool cuda_device_option_parse_uuid(const char *text, bool prefixed,
                                          struct cuda_device_option *wanted)
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
static bool cuda_device_option_parse_pci(const char *text, struct cuda_device_option *wanted)
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

bool cuda_device_option_parse(const char *text, struct cuda_device_option *wanted)
{
  static const char *const lead[] = {"cuda:", "gpu:", "pci:", "/sys/bus/pci/devices/", "gpu "};
  memset(wanted, 0, sizeof(*wanted));
  if (text[0] == '\0')
    return true;
  if (strncasecmp(text, "GPU-", 4) == 0)
    return cuda_device_option_parse_uuid(text + 4, true, wanted);
  for (size_t i = 0; i < sizeof(lead) / sizeof(lead[0]); i++)
    if (strncasecmp(text, lead[i], strlen(lead[i])) == 0) {
      text += strlen(lead[i]);
      break;
    }
  return cuda_device_option_parse_index(text, wanted) ||
         cuda_device_option_parse_uuid(text, false, wanted) ||
         cuda_device_option_parse_pci(text, wanted);
}

const char *cuda_device_option_refusal(const char *text)
{
  if (strncasecmp(text, "MIG-", 4) == 0)
    return "a MIG instance, which is chosen by CUDA_VISIBLE_DEVICES, and is then device 0; write an index "
           "(0), a UUID (GPU-…, from nvidia-smi -L) or a PCI address (b7:00.0)";
  return "not a name of a GPU; write an index (0), a UUID (GPU-…, from nvidia-smi -L) or a PCI "
         "address (b7:00.0)";
}

void cuda_check_device(const struct pst_check *check)
{
  const char *device = check->option_string(check->options, "device");
  struct cuda_device_option wanted;

  if (!cuda_device_option_parse(device, &wanted))
    check->report(check, "device", "\"%s\" is %s", device, cuda_device_option_refusal(device));
}
