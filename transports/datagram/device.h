/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the devices of datagrams. */
#ifndef DATAGRAM_DEVICE_H
#define DATAGRAM_DEVICE_H

#include <penstock/transport-cpu.h>

#include "address.h"

/* A plugin's pst_device begins with it. */
struct dg_device {
  const struct pst_host *host;
  struct pst_plan plan;
  enum dg_framing framing;
  int family;            /* AF_UNSPEC: as addresses are written */
  bool authenticates;    /* each datagram between Penstocks has a tag (tag.h) */
  bool keeps_departures; /* the transport's: its limits have DEPARTURE */
  uint32_t clock_rate;
};

/* The DEVICE and STREAM options of options.h, and the plan. `params` as pst_struct_read() gave it.
 */
void dg_device_read(struct dg_device *device, const struct pst_host *host,
                    const struct pst_open_params *params);
/* Limits that follow from the framing, over PST_CPU_LIMITS; the plugin alters what is its own.
 * `datagram_max`: bytes of UDP payload in one datagram. */
void dg_limits_fill(const struct dg_device *device, uint64_t capabilities, uint32_t datagram_max,
                    struct pst_limits *limits);
/* dg_address_read(), and the zone is an interface of this host. */
bool dg_address_parse(const char *text, union dg_address *address);

#endif
