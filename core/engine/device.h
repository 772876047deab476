/* SPDX-License-Identifier: Apache-2.0 */
/* Transports with their filters, opened once for each set of options. */
#ifndef PST_ENGINE_DEVICE_H
#define PST_ENGINE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <penstock/config.h>
#include <penstock/page.h>
#include <penstock/transport.h>

#include "counts.h"
#include "engine.h"

struct engine_device {
  const struct config_transport *config;
  const struct loader_plugin *plugin;  /* of the innermost transport */
  const struct pst_transport_ops *ops; /* of the outermost filter, or the transport's */
  struct pst_device *device;
  struct pst_limits limits;
  struct pst_plan plan;
  /* Fits the plan to the speed of the device's link; NULL: any link will do. */
  void (*fit_plan)(struct engine_device *device, uint64_t link_bps);
  void *fit_context;
  uint32_t next_worker;
  uint32_t end_count;         /* of all its workers */
  bool has_counters;          /* beside those of its workers and endpoints */
  atomic_bool is_counted;     /* by a deferred work */
  pthread_mutex_t count_lock; /* held while it is asked */
  struct counts counts;
};

/* Add a device that is not open; config and plan are the caller's to set. NULL: out of memory. */
struct engine_device *engine_device_add(struct engine *engine);
/* local_address: as in struct pst_open_params. */
int engine_device_open(struct engine *engine, struct engine_device *device,
                       const char *local_address, struct pst_error *error);
/* Seal its workers, where it does. */
int engine_device_start(struct engine_device *device, struct pst_error *error);
/* Checks that the control channel can carry what the ends of a device send each other: addresses,
 * and for one-sided access keys of regions. */
int engine_device_check_told(const struct engine_device *device, bool has_keys,
                             struct pst_error *error);
/* Reads the counters of the device now; may block for some ms. Any thread. */
void engine_device_count(struct engine_device *device);
/* Lets another thread read the counters of the device. Any thread. */
void engine_device_count_soon(struct engine_device *device);
void engine_device_close(struct engine_device *device);
/* For an application: its name, and its option `device`. */
void engine_device_info(const struct engine_device *device, struct pst_device_info *info);

/* For memory that slots are cut from. */
static inline uint64_t engine_device_alignment(const struct engine_device *device)
{
  const uint64_t page = pst_page_size(), slot = device->limits.slot_alignment;

  return slot > page ? slot : page;
}

#endif
