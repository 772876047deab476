/* SPDX-License-Identifier: Apache-2.0 */
/* A build without libnl asks for no links. */
#include <stdio.h>

#include "sources.h"

struct json_object *host_ask_network(char why[HOST_WHY_BYTES])
{
  snprintf(why, HOST_WHY_BYTES, "built without libnl");
  return NULL;
}
