/* SPDX-License-Identifier: Apache-2.0 */
/* Why a candidate was rejected. */
#ifndef PST_LOADER_REASON_H
#define PST_LOADER_REASON_H

#include <penstock/plugin.h>

/* Why a candidate was rejected: one line, "path: reason; remedy". */
struct loader_reason {
  const char *path; /* while it is tried */
  int code;
  char line[1536];
};

/* Fills *why, returns code. */
int loader_reject(struct loader_reason *why, int code, const char *format, ...) PST_PRINTF(3, 4);

#endif
