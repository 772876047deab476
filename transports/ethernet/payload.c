/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a card sends payloads that the CPU cannot read. */
#include "payload.h"

#include <stddef.h>

const char *eth_payload_judge(const struct eth_payload_facts *facts)
{
  if (!facts->is_card)
    return "the CPU reads what this driver sends";
  if (!facts->has_no_inline)
    return "its driver may copy payloads by the CPU; only mlx5's can be kept from it";
  if (facts->segments_max < 2)
    return "its driver sends no packets of several segments";
  if (facts->sums_bytes)
    return "the CPU sums the payload for `framing: sequence`; `checksum: false`";
  if (facts->sums_udp)
    return "`udp_checksum: software` has the CPU sum the payload";
  if (!facts->offloads_udp && facts->may_be_ipv6)
    return "its card computes no UDP checksum, which IPv6 needs; `family: ipv4`";
  return NULL;
}
