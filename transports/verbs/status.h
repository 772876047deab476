/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses of work completions, vendor codes, asynchronous events and events of rdma_cm, in words.
 */
#ifndef VERBS_STATUS_H
#define VERBS_STATUS_H

#include <stdbool.h>
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

/* A table's entry of one code and its name. */
#define NAMED(code) code, #code
/* Finds the entry of a status in a table that ends with code -1, which stands for all others. */
const struct vb_status *vb_status_find(const struct vb_status *table, int code);
/* Never NULL. */
const struct vb_status *vb_wc_status(int status);
const struct vb_status *vb_event(int event);
/* One line: name, code, vendor code, cause, reasons, checks, by the port's link layer. Always
 * terminated. */
void vb_wc_text(int status, uint32_t vendor_err, bool is_ethernet, char *text, size_t size);

/* cm_status.c: enum rdma_cm_event_type; the reason of a refusal, `status` of
 * RDMA_CM_EVENT_REJECTED, as a message of cause, usual reasons and checks. Never NULL. */
const struct vb_status *vb_cm_event(int event);
const struct vb_status *vb_cm_rejection(int status);
/* Is it worth another try: the other end, or the way to it, may be there later. */
int vb_cm_is_passing(int event, int status);
/* One line: name, status, cause, reasons, checks. Always terminated. */
void vb_cm_text(int event, int status, char *text, size_t size);

/* Behind what `text` has already, as far as there is room. Always terminated. */
__attribute__((format(printf, 3, 4))) void vb_text_add(char *text, size_t size, const char *format,
                                                       ...);
/* Cause, reasons, checks. */
void vb_status_text_add(const struct vb_status *one, char *text, size_t size);

#endif
