/* SPDX-License-Identifier: Apache-2.0 */
/* Cache of what was read of a machine. */
#ifndef APP_HOST_CACHE_H
#define APP_HOST_CACHE_H

#include "host.h"

enum host_kind { HOST_FILE, HOST_LINK, HOST_LIST, HOST_EXISTS, HOST_FACTS };

struct host_answer {
  enum host_kind kind;
  char *path;
  int error; /* 0, or an errno */
  char *bytes;
  size_t length;
  struct host_names names;
  struct json_object *facts;
  char why[HOST_WHY_BYTES];
};

/* Calls `each` for every answer, in the order of their paths. */
void host_each_answer(struct host *host, void (*each)(const struct host_answer *answer, void *to),
                      void *to);
/* The folder that paths begin in. */
int host_folder(const struct host *host);

#endif
