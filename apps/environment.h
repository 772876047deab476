/* SPDX-License-Identifier: Apache-2.0 */
/* The machine a result was made on. */
#ifndef APP_ENVIRONMENT_H
#define APP_ENVIRONMENT_H

#include <stdint.h>

struct environment {
  char hostname[128];
  char kernel[256];  /* "Linux 6.1.0-18-amd64 x86_64" */
  char version[256]; /* of the kernel's build */
  char cpu[128];
  long cores; /* online */
  uint64_t memory_bytes;
  uint64_t huge_pages, huge_pages_free, huge_page_bytes; /* of the default size */
};

/* Reads the environment; a member that cannot be found out stays empty or 0. */
void app_environment_read(struct environment *environment);

#endif
