/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, and the log. */
#ifndef LOOPBACK_DEVICE_H
#define LOOPBACK_DEVICE_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-util.h>

#include "access_guard.h"
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
  struct lb_wait_budget patience; /* of deregistrations */
};

#define LB_TAKE(local, from) pst_struct_read(&(local), sizeof(local), (from))
#define LB_GIVE(to, local) pst_struct_write((to), &(local), sizeof(local))

#define LB_LOG(device, level, ...) (device)->host->log((device)->host, (level), __VA_ARGS__)

static inline const char *lb_via_of(enum lb_mode mode)
{
  return mode == LB_MODE_REFERENCE ? "reference" : "memcpy";
}
static inline void lb_path_fill(struct pst_path_info *path, const char *via, bool shared)
{
  pst_path_write(path, PST_PATH_DIRECT, via, shared ? "shm" : "memory", "");
}

lb_send_fn *lb_send_plain(void); /* the best this CPU has */

int lb_open(const struct pst_host *host, const struct pst_open_params *params,
            struct pst_device **device);
void lb_close(struct pst_device *device);
int lb_limits(struct pst_device *device, struct pst_limits *limits);
int lb_start(struct pst_device *device);

#endif
