/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks. A check is a row; what it runs are steps, of which both ends know the same.
 */
#ifndef APP_HARDWARE_CHECKS_H
#define APP_HARDWARE_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

/* What a step may need. */
enum hardware_need {
  NEED_GPU = 1u << 0,            /* at the serving end, which receives */
  NEED_PERFTEST = 1u << 1,       /* at both ends */
  NEED_PERFTEST_RUNS = 1u << 2,  /* one whose ib_write_bw has --write_with_imm */
  NEED_PERFTEST_SENDS = 1u << 3, /* one whose has not */
  NEED_COUNTERS = 1u << 4,       /* at this end */
  NEED_OUTAGE = 1u << 5,         /* --outage, which is run in the middle of the step */
  NEED_READDRESS = 1u << 6,      /* --readdress, which is run before the step */
  NEED_CONTRACT = 1u << 7,       /* penstock-contract, at both ends */
};

enum hardware_program {
  RUN_BENCH,    /* penstock bench: a server, and a client of it */
  RUN_REQUEST,  /* penstock serve, and penstock request */
  RUN_PERFTEST, /* `tool` */
  RUN_CONTRACT, /* penstock-contract, which listens, and one that connects */
};

struct hardware_step {
  const char *name;
  enum hardware_program program;
  uint32_t needs;          /* enum hardware_need bits */
  const char *options;     /* of the transport, at both ends: "qps=2,operation=write"; NULL */
  const char *words;       /* of the end that asks; of perftest's at both */
  const char *serving;     /* words of `serve`; NULL */
  const char *tool;        /* of perftest */
  const char *environment; /* of both ends; NULL */
  uint32_t times;          /* as long as other steps; 0: once */
  uint32_t clients;        /* ask at a time; 0: one */
  uint32_t killed; /* of those, once all are connected; the others ask for the step's time */
};

#define HARDWARE_STEPS 8
#define HARDWARE_CLIENTS 64

struct hardware_check {
  const char *name, *title;
  const char *remedy; /* what to look at where a step fails */
  uint32_t needs;     /* of each step */
  bool each_gpu;      /* its steps once for each */
  bool tells_address; /* the lines that tell of connections are part of the report */
  struct hardware_step steps[HARDWARE_STEPS]; /* up to one without a name */
};

#define HARDWARE_CHECKS 13

/* The first one is needed by all others. */
extern const struct hardware_check hardware_checks[HARDWARE_CHECKS];
extern const uint32_t hardware_check_count;

/* NULL: there is none. */
const struct hardware_step *hardware_step_of(const struct hardware_check *check, uint32_t index);

#endif
