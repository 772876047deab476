/* SPDX-License-Identifier: Apache-2.0 */
/* Work completions' statuses, vendor codes and asynchronous events, in words. */
#ifndef VERBS_STATUS_H
#define VERBS_STATUS_H

#include <stddef.h>
#include <stdint.h>

struct vb_status {
  int code;            /* enum ibv_wc_status, or enum ibv_event_type */
  const char *name;    /* as the specification and tools have it */
  const char *cause;   /* what the hardware says with it */
  const char *reasons; /* usual ones here, the likeliest first */
  const char *checks;  /* what to look at, in the same order */
  int error;           /* -errno of what it ends; 0: none */
};

/* Never NULL. */
const struct vb_status *vb_wc_status(int status);
const struct vb_status *vb_event(int event);
/* mlx5's syndrome in words, or "" for what is not known. */
const char *vb_vendor_error(uint32_t vendor_err);
/* One line: name, code, vendor code, cause, reasons, checks. Always terminated. */
void vb_wc_text(int status, uint32_t vendor_err, char *text, size_t size);

#endif
