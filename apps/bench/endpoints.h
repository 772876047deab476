/* SPDX-License-Identifier: Apache-2.0 */
/* Means by which a rank of --all-pairs measures: an adapter, a memory and an address, or
 * several. */
#ifndef APP_BENCH_ENDPOINTS_H
#define APP_BENCH_ENDPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cases.h"
#include "control_link.h"
#include "end_devices.h"
#include "own_address.h"

#define BENCH_ENDPOINTS_MAX 64u

struct endpoint {
  struct bench_plan plan; /* the command line's, with what is this endpoint's own */
  char *words;            /* --endpoint, in its parts */
  char host[OWN_ADDRESS_MAX];
  struct end_devices devices;
  struct control_link_server server; /* where the other ranks find it */
};

/* One for each --endpoint, those of `--endpoint auto`, or a single one; each listens. 0, or
 * reported in *error. Close in any case. */
int bench_endpoints_open(const struct arguments *arguments, const struct bench_plan *plan,
                         struct endpoint **endpoints, uint32_t *count, struct pst_error *error);
void bench_endpoints_close(struct endpoint *endpoints, uint32_t count);
/* For rank 0 and the partners, a new list: the address of its server, "adapter" and "gpu" as names
 * or null, and "adapter_id" and "gpu_id", which tell two devices of a host apart. */
struct json_object *bench_endpoints_json(const struct endpoint *endpoints, uint32_t count);
/* Whether what a rank has sent is such a list. */
bool bench_endpoints_are(struct json_object *ends);

#endif
