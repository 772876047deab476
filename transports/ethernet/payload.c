/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a card sends payloads that the CPU cannot read. */
#include "payload.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

uint32_t eth_payload_inline_min(const char *devargs)
{
  static const char key[] = "txq_inline_min=";
  long most = 0;

  for (const char *at = devargs; (at = strstr(at, key)); at += sizeof(key) - 1) {
    long bytes = strtol(at + sizeof(key) - 1, NULL, 0); /* as the driver reads it */
    if (bytes > most)
      most = bytes;
  }
  return most < (long)UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

const char *eth_payload_judge(const struct eth_payload_facts *facts)
{
  if (!facts->is_card)
    return "the CPU reads what this driver sends";
  if (!facts->has_no_inline)
    return "its driver may copy payloads by the CPU; only mlx5 can be set not to";
  if (facts->inline_min > ETH_INLINE_MOST)
    return "txq_inline_min above 42 in `devargs` has its driver read payloads";
  if (facts->segments_max < 2)
    return "its driver sends no packets of several segments";
  if (facts->has_tags)
    return "`authenticate` has the CPU compute a tag over the payload";
  if (facts->sums_bytes)
    return "the CPU sums the payload for `framing: sequence`; write `checksum: false`";
  if (facts->sums_udp)
    return "`udp_checksum: software` has the CPU sum the payload";
  if (!facts->offloads_udp && facts->may_be_ipv6)
    return "its card computes no UDP checksum, which IPv6 needs; write `family: ipv4`";
  return NULL;
}
