/* SPDX-License-Identifier: Apache-2.0 */
/* A transport's worker on a thread of a session, and what it delivers to the ends on it. */
#ifndef PST_STREAM_LANE_H
#define PST_STREAM_LANE_H

#include <stdbool.h>

#include "engine/device.h"

#include "limits.h"

struct session_end;
struct session_thread;

struct session_lent {
  const struct pst_region *region; /* NULL: nothing lent by this number */
  void *host;                      /* of the region, which is gone when UNLENT has come */
  uint64_t length;
  uint64_t pinned; /* bit i: by the memory of the thread's end i */
};

struct session_lane {
  struct session_thread *thread;
  struct engine_device *device;
  const struct pst_transport_ops *ops;
  struct pst_worker *worker;
  int event_fd; /* -1: cannot wake */
  bool seen;    /* the last poll gave something */
  uint32_t end_count;
  uint32_t spare_polls; /* so many polls to come would find what the last one left: nothing */
  struct session_lent lent[ENGINE_LENT_MAX];
  struct pst_completion completions[SESSION_POLL_BATCH];
  const struct pst_completion *messages; /* what lane_poll() left: the first of them */
  struct counts counts;                  /* of the worker */
};

/* lane.c. The lane of a device on a thread: one that is open already, or a new one. */
int lane_open(struct session_thread *thread, struct engine_device *device,
              struct session_lane **lane, struct pst_error *error);
/* Poll once. Messages of `mine` are left at lane->messages, which it returns the number of;
 * everything else goes to its end. lane->seen tells whether there was anything at all. */
int lane_poll(struct session_lane *lane, struct session_end *mine, uint32_t max);
/* Poll while endpoints close: messages go back, requests are not waited for. */
void lane_poll_closing(struct session_lane *lane);
/* Its rings and endpoints are closed. */
void lane_close_worker(struct session_lane *lane);

/* counters.c. Once a second: of the workers of this thread, and soon of their devices. */
void counters_read(struct session_thread *thread, uint64_t now);
/* Before a receiver says its last word. May block for some ms where the device counts drops. */
void counters_read_last(struct session_lane *lane);

#endif
