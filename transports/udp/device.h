/* SPDX-License-Identifier: Apache-2.0 */
/* A device: what one set of options says of all its endpoints. */
#ifndef UDP_DEVICE_H
#define UDP_DEVICE_H

#include "../datagram/device.h"
#include "described.h"

struct pst_device {
  struct dg_device dg;
  enum udp_timestamps timestamps;
  enum udp_departure departure;
  char name[64];            /* option `device` */
  union dg_address listens; /* where receivers are bound without it; AF_UNSPEC: anywhere */
};

void udp_path_fill(struct pst_path_info *path);

#endif
