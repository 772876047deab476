/* SPDX-License-Identifier: Apache-2.0 */
/* A device's options, and the limits that follow from them. */
#include "device.h"

#include <net/if.h>

#include "blob.h"
#include "tag.h"

void dg_device_read(struct dg_device *device, const struct pst_host *host,
                    const struct pst_open_params *params)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP, DG_FRAMING_NONE};
  static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6};

  device->host = host;
  if (params->plan)
    pst_struct_read(&device->plan, sizeof(device->plan), params->plan);
  device->framing = framings[host->option_uint(params->options, "framing")];
  device->family = families[host->option_uint(params->options, "family")];
  /* Without a header there is no place for a tag; the rules refuse it before. */
  device->authenticates =
      device->framing != DG_FRAMING_NONE && host->option_uint(params->options, "authenticate");
  device->clock_rate = (uint32_t)host->option_uint(params->options, "clock_rate");
}

void dg_limits_fill(const struct dg_device *device, uint64_t capabilities, uint32_t datagram_max,
                    struct pst_limits *limits)
{
  if (device->framing == DG_FRAMING_NONE)
    capabilities &= ~(uint64_t)PST_CAP_SEQUENCE;
  *limits = (struct pst_limits){
      PST_CPU_LIMITS,
      .sequence_bits = dg_sequence_bits(device->framing),
      .capabilities = capabilities,
      .message_max = datagram_max - dg_header_bytes(device->framing, true) -
                     (device->authenticates ? DG_TAG_BYTES : 0),
      .tailroom = device->framing == DG_FRAMING_RTP ? DG_RTP_TAILROOM : 0,
      .address_max = DG_BLOB_BYTES + (device->authenticates ? DG_TAG_KEY_BYTES : 0),
  };
}

bool dg_address_parse(const char *text, union dg_address *address)
{
  char zone[DG_ZONE_MAX];
  union dg_address made;

  if (!dg_address_read(text, &made, zone))
    return false;
  if (zone[0] && !(made.v6.sin6_scope_id = if_nametoindex(zone)))
    return false;
  *address = made;
  return true;
}
