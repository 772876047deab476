/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks. A check is a row; what it runs are steps, of which both ends know the same.
 */
#ifndef APP_HARDWARE_CHECKS_H
#define APP_HARDWARE_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

/* Requirements of a step. */
enum hardware_need {
  NEED_PERFTEST = 1u << 0,       /* at both ends */
  NEED_PERFTEST_RUNS = 1u << 1,  /* one whose ib_write_bw has --write_with_imm */
  NEED_PERFTEST_SENDS = 1u << 2, /* one whose has not */
  NEED_COUNTERS = 1u << 3,       /* at this end */
  NEED_OUTAGE = 1u << 4,         /* --outage, which is run in the middle of the step */
  NEED_READDRESS = 1u << 5,      /* --readdress, which is run before the step */
  NEED_CONTRACT = 1u << 6,       /* penstock-contract, at each end that runs a program */
  NEED_ONE_HOST = 1u << 7,       /* both ends are on this host */
};

/* How often a check runs. */
enum hardware_scope {
  SCOPE_TRANSPORT, /* once a transport and device of it, with host memory */
  SCOPE_VERBS,     /* the same, of transports over RDMA adapters alone */
  SCOPE_MEMORY,    /* once a device of a memory, without a transport */
  SCOPE_PAIR,      /* once a device of a transport and a device of a memory */
  SCOPE_GPU,       /* the same, of RDMA adapters and other memory than the host's alone */
};

enum hardware_program {
  RUN_BENCH,          /* penstock bench: a server, and a client of it */
  RUN_REQUEST,        /* penstock serve, and penstock request */
  RUN_PERFTEST,       /* `tool` */
  RUN_CONTRACT,       /* penstock-contract, which listens, and one that connects */
  RUN_CONTRACT_ALONE, /* penstock-contract at this end */
};

/* Which ends have the memory of the check; the others have host memory. */
enum hardware_end_of { AT_SERVER, AT_CLIENT, AT_BOTH };

struct hardware_step {
  const char *name;
  enum hardware_program program;
  uint32_t needs;          /* enum hardware_need bits */
  const char *options;     /* of the transport, at both ends: "qps=2,operation=write"; NULL */
  const char *words;       /* of the end that asks; of perftest's at both */
  const char *serving;     /* words of `serve`; NULL */
  const char *tool;        /* of perftest; of `request`: "read"; NULL: "write" */
  const char *environment; /* of both ends; NULL */
  enum hardware_end_of memory_at;
  bool not_host;    /* left out for host memory, for which another step is the same */
  bool optional;    /* a transport may lack it: exit statuses 2 and 3 make it `skipped` */
  bool instead;     /* only where the step before was skipped */
  uint32_t times;   /* as long as other steps; 0: once */
  uint32_t seconds; /* that it may take beside that; 0: as --limit says */
  uint32_t clients; /* ask at a time; 0: one */
  uint32_t killed;  /* of those, once all are connected; the others ask for the step's time */
};

#define HARDWARE_STEPS 8
#define HARDWARE_CLIENTS 64

struct hardware_check {
  const char *name, *title;
  const char *remedy; /* what to look at where a step fails */
  enum hardware_scope scope;
  uint32_t needs;     /* of each step */
  bool only_named;    /* it takes long: --check runs it */
  bool tells_address; /* the lines that tell of connections are part of the report */
  bool takes_path;    /* its streams have --path */
  struct hardware_step steps[HARDWARE_STEPS]; /* up to one without a name */
};

#define HARDWARE_CHECKS 17

/* The first one is needed by all others that have a transport. */
extern const struct hardware_check hardware_checks[HARDWARE_CHECKS];
extern const uint32_t hardware_check_count;

/* NULL: there is none. */
const struct hardware_step *hardware_step_of(const struct hardware_check *check, uint32_t index);
/* Whether the check is of pairs of a transport and a memory. */
bool hardware_check_has_memory(const struct hardware_check *check);

#endif
