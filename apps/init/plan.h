/* SPDX-License-Identifier: Apache-2.0 */
/* Plan of the file that `penstock init` writes: a kind of stream, its ends, and the machine. */
#ifndef APP_INIT_PLAN_H
#define APP_INIT_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "topo/machine.h"

enum init_kind {
  INIT_CAMERA,     /* RTP from a device that knows nothing of Penstock */
  INIT_INSTRUMENT, /* UDP without numbers, from such a device */
  INIT_RECEIVE,    /* from another host's Penstock */
  INIT_SEND,       /* to another host's Penstock */
  INIT_LOOPBACK,   /* both ends here */
  INIT_KINDS,
};
extern const char *const init_kind_names[INIT_KINDS];
extern const char *const init_kind_meanings[INIT_KINDS];

enum init_transport { INIT_UDP, INIT_ETHERNET, INIT_VERBS, INIT_UCX, INIT_MEMORY, INIT_TRANSPORTS };
extern const char *const init_transport_names[INIT_TRANSPORTS];

/* One end: memory of the host or of a GPU, or a file. */
struct init_end {
  const struct topo_gpu *gpu; /* NULL: host memory */
  const char *file;           /* NULL: the pattern, or nothing is kept */
};

struct init_plan {
  const struct topo_machine *machine;
  enum init_kind kind;
  enum init_transport transport;
  const struct topo_adapter *adapter; /* NULL: INIT_LOOPBACK */
  const char *address;                /* of the adapter, without prefix length; "": none */
  const char *peer;                   /* INIT_SEND: the receiver's address */
  struct init_end from, to;
  uint64_t rate_bps; /* 0: not given */
  const char *line;  /* the command line, for the first comment */
};

/* The commented YAML. */
void init_write(const struct init_plan *plan, FILE *to);

#endif
