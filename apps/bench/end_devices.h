/* SPDX-License-Identifier: Apache-2.0 */
/* Which adapter and which GPU an endpoint of --all-pairs measures with. */
#ifndef APP_BENCH_END_DEVICES_H
#define APP_BENCH_END_DEVICES_H

#include "cases.h"

#define END_DEVICE_MAX 128

struct topo_gpu;
struct topo_machine;

struct end_device {
  char name[END_DEVICE_MAX]; /* for people; "": none, or not known */
  /* PCI address of the device, or a name that no other device of this host has. Several: "a,b", as
   * `name`. */
  char id[END_DEVICE_MAX];
};

struct end_devices {
  struct end_device adapter, gpu;
};

/* From the options of the transport and the memory, and else from `host`, the address where other
 * ranks reach the endpoint, bracketed where IPv6 needs it. machine NULL: it could not be read. */
void bench_end_devices_find(const struct topo_machine *machine, const struct bench_side *side,
                            const char *host, struct end_devices *devices);
/* The GPU that CUDA gives this index, by CUDA_VISIBLE_DEVICES. NULL: there is none. */
const struct topo_gpu *bench_end_devices_visible_gpu(const struct topo_machine *machine,
                                                     uint32_t index);

#endif
