/* SPDX-License-Identifier: Apache-2.0 */
/* Cases to measure: from the command line on the client, and from a client on the server, which
 * trusts no number of it. */
#ifndef APP_BENCH_CASES_H
#define APP_BENCH_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "arguments.h"
#include "control_link.h"

struct json_object;

#define BENCH_SIZES_MAX 64
#define BENCH_SIZE_MAX ((uint64_t)1 << 30)
#define BENCH_RING_MAX 65536u
/* The bytes of one ring that a client may make a server allocate at each of its ends. */
#define BENCH_BYTES_MAX ((uint64_t)4 << 30)
#define BENCH_DURATION_MAX_NS ((uint64_t)3600 * 1000 * 1000 * 1000)
#define BENCH_HOLD_MAX_NS ((uint64_t)1000 * 1000 * 1000)
#define BENCH_TOKEN_MAX 32
#define BENCH_PORT 18520 /* of the server; the next one is for its streams */

enum bench_op { BENCH_SEND = 1, BENCH_WRITE, BENCH_READ, BENCH_OPS };
#define BENCH_ONE_SIDED (1u << BENCH_WRITE | 1u << BENCH_READ)
enum bench_measure { MEASURE_BANDWIDTH = 1, MEASURE_LATENCY = 2 };

/* One measurement. */
struct bench_case {
  enum bench_op op;
  enum bench_measure measure;
  uint64_t size;   /* bytes a message */
  uint32_t ring;   /* slots; one-sided: transfers under way */
  uint32_t places; /* one-sided: 0, bench_places() says */
  uint64_t duration_ns;
  uint64_t warmup_ns; /* before the clock starts */
  uint64_t hold_ns;   /* how long the receiver keeps each message */
  bool touch;         /* the receiver reads a cache line of each message */
  bool verify;
  uint16_t back_port;          /* latency: where the client waits for what comes back */
  char token[BENCH_TOKEN_MAX]; /* the streams' name: nobody else's */
};

/* This side's half of it. */
struct bench_side {
  const char *transport, *memory, *path;
  struct pst_setting *transport_options, *memory_options;
  uint32_t transport_option_count, memory_option_count;
  bool sends_from_host; /* messages: those from `memory` would be staged */
};

struct bench_plan {
  struct bench_side side;
  uint32_t ops;      /* 1 << enum bench_op; 0: all that the transport has */
  uint32_t measures; /* enum bench_measure bits */
  uint64_t sizes[BENCH_SIZES_MAX];
  uint32_t size_count;
  uint32_t ring;   /* 0: pst_ring_default */
  uint32_t depth;  /* of WRITE and READ; 0: pst_ring_default */
  uint32_t places; /* 0: bench_places */
  uint64_t duration_ns;
  uint64_t hold_ns;
  int cpus[2]; /* -1: anywhere */
  bool no_touch, verify, in_process, server, once;
  struct link_access access;
  bool all_pairs;   /* each rank is a client of some and a server of others */
  uint64_t wait_ns; /* --wait; 0: not written */
  const char *host; /* the operand; NULL */
};

/* 0, or -EINVAL, said why on stderr. Free in any case. */
int bench_plan_read(const struct command *command, const struct arguments *arguments,
                    struct bench_plan *plan);
void bench_plan_free(struct bench_plan *plan);

/* Before each measurement. */
uint64_t bench_plan_warmup(const struct bench_plan *plan);

const char *bench_op_name(enum bench_op op);
bool bench_is_one_sided(enum bench_op op);
/* Places in each region of a one-sided case. Unless the case says how many: one for each transfer
 * under way, and at least two where a place's earlier bytes have to differ. */
uint32_t bench_places(const struct bench_case *c);
/* Bytes from one place to the next. */
uint64_t bench_stride(const struct bench_case *c);
const char *bench_measure_name(enum bench_measure measure);

/* A case as JSON, for the server. NULL: out of memory. */
struct json_object *bench_case_write(const struct bench_case *c);
/* Reads a case that the client has sent. 0, or -EPROTO with what is wrong in `why`; each number is
 * within bounds. */
int bench_case_read(struct json_object *from, struct bench_case *c, char *why, size_t size);

/* ---- probe.c: what the transport can do ----------------------------------------------- */

/* From opening what the cases will open, and so which of the operations are measured. */
struct bench_setting;

struct bench_probe {
  uint32_t ops;         /* 1 << enum bench_op: to be measured */
  bool no_send_latency; /* the wait for a lost reply would never end */
  uint32_t depth_max;   /* transfers that an initiator can have under way; 0: not known */
  char notes[512];      /* what is not measured or not as said, and why, a line each; "" */
};

/* Notes the plugins in use in *setting and in `result`. 0, or -errno, said why: what was asked for
 * by name cannot be opened, or the transport lacks it. */
int bench_probe(const struct bench_plan *plan, struct bench_setting *setting,
                struct json_object *result, struct bench_probe *look, struct pst_error *error);

/* A name that no other case has. */
void bench_case_make_token(char token[BENCH_TOKEN_MAX]);
/* The case of these, with a token of its own. */
void bench_case_make(const struct bench_plan *plan, const struct bench_probe *look,
                     enum bench_op op, enum bench_measure measure, uint64_t size,
                     struct bench_case *c);

#endif
