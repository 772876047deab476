/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that was opened: its options, and its log. */
#ifndef HOST_STATE_H
#define HOST_STATE_H

#include <stdbool.h>

#include <penstock/memory-util.h>

struct pattern_variant;

/* In the order of the option's choices. */
enum host_backing {
  HOST_BACKING_AUTO,
  HOST_BACKING_MALLOC,
  HOST_BACKING_MEMFD,
  HOST_BACKING_HUGE_2M,
  HOST_BACKING_HUGE_1G,
};

struct pst_memory {
  const struct pst_host *host;
  const struct pattern_variant *pattern;
  enum host_backing backing;
  int numa_node; /* -1: auto */
  bool lock;
  bool populate;
};

#define host_error(memory, ...) (memory)->host->log((memory)->host, PST_LOG_ERROR, __VA_ARGS__)
#define host_info(memory, ...) (memory)->host->log((memory)->host, PST_LOG_INFO, __VA_ARGS__)
#define host_debug(memory, ...) (memory)->host->log((memory)->host, PST_LOG_DEBUG, __VA_ARGS__)

#endif
