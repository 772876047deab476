/* SPDX-License-Identifier: Apache-2.0 */
/* How captured packets travel: the packet is the message; what a capture knows of
 * it besides is in the message's 64 bits of metadata, what is true for all of them
 * in the stream's parameters. */
#ifndef APP_CAPTURE_H
#define APP_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_PARAM_LINKTYPE "pcap.linktype"   /* number, as pcap_datalink() */
#define CAPTURE_PARAM_PRECISION "pcap.precision" /* "us" or "ns": what times count */
#define CAPTURE_PARAM_SNAPLEN "pcap.snaplen"     /* bytes */
#define CAPTURE_PARAM_BASE "pcap.base"           /* the first packet's time since 1970 */

#define CAPTURE_OFFSET_MAX ((INT64_C(1) << 47) - 1)
#define CAPTURE_CUT_MAX UINT64_C(65535)

/* 48 bits: time since the base, signed; 16 bits: original length less captured. */
static inline uint64_t capture_meta(int64_t offset, uint64_t cut)
{
  return ((uint64_t)offset << 16) | cut;
}

static inline bool capture_offset_fits(int64_t offset)
{
  return offset >= -CAPTURE_OFFSET_MAX - 1 && offset <= CAPTURE_OFFSET_MAX;
}

static inline int64_t capture_offset(uint64_t meta)
{
  return (int64_t)meta >> 16;
}

static inline uint32_t capture_cut(uint64_t meta)
{
  return (uint32_t)(meta & CAPTURE_CUT_MAX);
}

#endif
