/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, and bounds. */
#ifndef LOOPBACK_DEVICE_H
#define LOOPBACK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport.h>

#include "described.h"

#define LB_PIECES_MAX 64u
#define LB_REQUESTS_MAX (1u << 20)
#define LB_WORKERS_MAX 1024u
#define LB_ENDPOINTS_MAX 4096u /* of one worker */

/* Copy the leading requests that are valid SENDs of one piece, up to n, all of which
 * have a credit. Returns how many. */
typedef uint32_t lb_send_fn(struct pst_endpoint *endpoint, const struct pst_request *requests,
                            uint32_t n);

struct pst_device {
  const struct pst_host *host;
  lb_send_fn *send_plain; /* for this CPU */
  struct pst_plan plan;
  enum lb_mode mode;
  bool shared; /* peers may be in other processes */
  bool sealed;
  uint32_t workers;
};

#define LB_TAKE(local, from) pst_struct_read(&(local), sizeof(local), (from))
#define LB_GIVE(to, local) pst_struct_write((to), &(local), sizeof(local))

#define LB_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

#endif
