/* SPDX-License-Identifier: Apache-2.0 */
/* The port's own counters, for the errors that they explain. */
#ifndef VERBS_COUNTERS_H
#define VERBS_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#define VB_COUNTERS_MAX 128u

struct vb_counters {
  uint32_t count;
  struct {
    char name[48];
    uint64_t value;
  } at[VB_COUNTERS_MAX];
};

/* Of `folder` (a port's in sysfs: counters/ and hw_counters/ in it). Empty where there are none. */
void vb_counters_read(const char *folder, struct vb_counters *counters);
/* Those that tell of trouble and have grown: "completer_retry_err +6, out_of_sequence +1"; "none
 * has grown". Always terminated. */
void vb_counters_text(const struct vb_counters *before, const struct vb_counters *now, char *text,
                      size_t size);

#endif
