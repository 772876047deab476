/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Harness of the transport contract: plugins opened as a host would, regions,
 * and two ends that may meet.
 *
 * The far end is opened through the same image of the plugin, for peers in one
 * process, or through a second image of it, copied and loaded apart: such a one
 * shares no variable with the first, so that it is another process to it, while
 * both are driven from one thread. Deaths are tested with real processes.
 */
#ifndef CONTRACT_HARNESS_H
#define CONTRACT_HARNESS_H

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>
#include <penstock/transport.h>

#include "common.h"

/* One row of the table in transport.c: how a transport joins the suite. */
struct contract_variant {
  const char *name;    /* on the command line */
  const char *plugin;  /* path of its shared object, and of what it wraps: "filter.so+inner.so" */
  const char *options; /* "mode=copy,…", of the last one */
  const char *sender_options; /* instead of these, where the sending end has others; or NULL */
  /* Options one by one, NULL-terminated, as the command line gives them. */
  const char *const *option_list;
  const char *filter_options;
  const char *memory;        /* path of a memory plugin; NULL: the harness's own memfd regions */
  bool apart;                /* the far end is another process to the near one */
  bool silent;               /* a peer that goes before it connects is noticed by its silence */
  bool accounts;             /* a datagram transport with the counters of udp, which are checked */
  uint64_t capabilities;     /* that it must have */
  const char *local_address; /* of struct pst_open_params */
};

struct contract_image {
  const struct pst_transport_ops *ops; /* laid over -EOPNOTSUPP */
  const struct pst_plugin *plugin;
  const struct pst_plugin *inner;            /* of a filter */
  const struct pst_transport_ops *inner_ops; /* laid over -EOPNOTSUPP, as the loader does */
};

struct contract_region {
  struct pst_region region;
  int fd;
};

struct contract_params {
  uint32_t endpoints;   /* pairs; all receivers share one ring */
  uint32_t slots;       /* of the ring */
  uint64_t message;     /* bytes, at most; cut to limits.message_max */
  uint64_t payload_max; /* of a slot of the ring; 0: message */
  uint32_t requests;
  uint32_t pieces;
  uint32_t headroom;
  uint32_t roles_more; /* PST_ROLE_RMA */
  uint64_t domain;     /* of memory and endpoints */
  uint64_t timeout_ns; /* of a peer that owes an answer; 0: longer than any wait here */
  bool sleep;
  bool bare; /* the ring has no memory */
};

#define CONTRACT_ENDPOINTS 8

/* Requests that have no DONE yet, in post order. */
struct contract_posted {
  struct contract_one_posted {
    uint64_t cookie;
    uint8_t opcode;
  } * all;
  uint32_t count, room;
  /* Requests that the last post() completed, which have no DONE. */
  struct contract_one_posted completed[64];
  uint32_t completions;
};

/* One end: a device with one worker. */
struct contract_side {
  struct contract_image image;
  struct pst_device *device;
  struct pst_options *options; /* of the innermost transport */
  struct pst_limits limits;
  struct pst_worker *worker;
  struct contract_region memory;
  struct pst_mr *mr;
  struct pst_ring *ring;
  struct pst_path_info path;
  uint64_t stride;
  uint64_t message; /* bytes, at most: as asked for, or the transport's own limit */
  struct pst_endpoint *endpoints[CONTRACT_ENDPOINTS];
  bool closed[CONTRACT_ENDPOINTS];
  bool connected[CONTRACT_ENDPOINTS]; /* CONNECTED has come since endpoint_connect() */
  bool departed[CONTRACT_ENDPOINTS];  /* DISCONNECTED has come of it */
  const struct pst_region *lent[64];  /* by number */
  /* Completions that poll has given and nobody has taken. */
  struct pst_completion *log;
  uint32_t logged;
  uint32_t log_room;
  struct contract_posted posted[CONTRACT_ENDPOINTS];
  uint32_t posts;
};

struct contract_pair {
  const struct contract_variant *variant;
  struct contract_params params;
  struct contract_side sender;
  struct contract_side receiver;
};

extern const struct pst_host contract_host;
/* Errors and warnings logged since the last call. */
uint32_t contract_complaints(void);
/* The last of all. */
const char *contract_complaint(void);
/* So many since the last call, else the case has failed. */
void contract_complained(uint32_t count);
/* From now on lines of any level with these words are kept, up to 16; NULL: none. */
void contract_listen(const char *words);
/* The first one that was kept and has not been taken; its level, or -1: there is none. */
int contract_heard(char *line, size_t size);
/* Sets the clock that plugins read, contract_now_ns() by default. Call it while no plugin runs. */
void contract_host_clock(uint64_t (*now_ns)(void));
/* Whether works that plugins defer are refused from now on: -ENOMEM. */
void contract_host_refuses_works(bool refuses);
/* Works wait, and are done when this ends. */
void contract_host_holds_works(bool holds);

/* Options of a plugin: the defaults, overridden by `text` and `list`. Free by options_free(). */
struct pst_options *contract_options(const struct pst_description *description, const char *text,
                                     const char *const *list);
void contract_image_open(const struct contract_variant *variant, bool second,
                         struct contract_image *image);
void contract_region_make(uint64_t length, struct contract_region *region);
void contract_region_free(struct contract_region *region);
/* Writes the limits of a device of the variant. */
void contract_limits(const struct contract_variant *variant, struct pst_limits *limits);
uint64_t contract_capabilities(const struct contract_variant *variant);
/* Skip the case where the transport cannot do it. Before anything is opened. */
#define contract_need(state, bits)                                                                 \
  do {                                                                                             \
    if ((contract_capabilities(*(state)) & (bits)) != (bits))                                      \
      skip();                                                                                      \
  } while (0)
/* Open the memory plugin that regions come from from now on; NULL: memfd. */
void contract_memory_use(const char *path);

/* The plugin of regions that a test brings along itself. */
void contract_memory_ops(const struct pst_memory_ops *ops);

/* A device, a worker, registered memory. */
void contract_device_open(const struct contract_variant *variant,
                          const struct contract_image *image, bool in_process, bool sleep,
                          struct pst_device **device);
/* The same, for a device that may not open: what open returned. */
int contract_device_try(const struct contract_variant *variant, const struct contract_image *image,
                        bool in_process, bool sleep, struct pst_device **device);
void contract_side_open(const struct contract_variant *variant,
                        const struct contract_params *params, bool second, bool receiver,
                        struct contract_side *side);
/* Closes endpoints that are still open (abort), then everything. */
void contract_side_close(struct contract_side *side);
/* Closes it without a word to its peers, whose endpoints and rings go with their worker. */
void contract_side_vanish(struct contract_side *side);
/* As contract_side_open() opens them: a ring a stride behind the beginning of its mr, and an
 * endpoint, which receives if it has a ring, with the cookie index + 1. */
void contract_ring_open(struct contract_side *side, const struct contract_params *params,
                        struct pst_mr *mr, struct pst_ring **ring);
void contract_endpoint_open(struct contract_side *side, const struct contract_params *params,
                            struct pst_ring *ring, uint32_t index);
/* The same, which may be refused: what endpoint_open returned. */
int contract_endpoint_try(struct contract_side *side, const struct contract_params *params,
                          struct pst_ring *ring, uint32_t index);
/* Both ends, not yet connected; then connected. */
struct contract_pair *contract_pair_open(const struct contract_variant *variant,
                                         const struct contract_params *params);
void contract_pair_connect(struct contract_pair *pair);
/* The same, under the rule of the case, which tries whether they can. */
void contract_pair_meet(struct contract_pair *pair);
void contract_pair_close(struct contract_pair *pair);
struct contract_pair *contract_pair(void **state, const struct contract_params *params);

void contract_address(struct contract_side *side, uint32_t index, struct pst_blob *blob);
int contract_connect(struct contract_side *side, uint32_t index, const struct pst_blob *blob);
/* Connects a sender of its own, once. Returns what connect does. */
int contract_connect_one(const struct contract_variant *variant,
                         const struct contract_params *params, const struct pst_blob *blob);

/* ---- Values of the headers' enums, known.c; others fail the case. ---- */

void contract_path_is_known(const char *whose, const struct pst_path_info *path);
void contract_completion_is_known(const struct pst_completion *completion);
/* Checks the result of post() for n requests, and the reason where it took fewer. */
void contract_wait_is_known(int rc, uint32_t n, uint32_t wait);
void contract_counters_are_known(const struct pst_counter *counters, uint32_t n);
/* "DONE of SEND" */
const char *contract_name_of(uint8_t kind, uint8_t code, char *text, size_t size);

/* Poll once, check that completions are known, that DONEs cover what was posted and that no
 * MESSAGE comes behind its endpoint's DISCONNECTED, and log.
 * Returns how many came. */
int contract_poll(struct contract_side *side);
/* Set by a signal: the next contract_poll() stops the process, which is then in no call and holds
 * no lock of a simulated device that others would wait for. */
extern volatile sig_atomic_t contract_is_to_stop;
void contract_log(struct contract_side *side, const struct pst_completion *completion);
/* The first logged completion of that kind and code is taken out. */
bool contract_take(struct contract_side *side, uint8_t kind, uint8_t code,
                   struct pst_completion *completion);
/* Poll both (far may be NULL) until there is one; fails the test at the deadline. */
struct pst_completion contract_await(struct contract_side *side, struct contract_side *far,
                                     uint8_t kind, uint8_t code);
/* Poll until DONEs of `opcode` have covered count requests, all with status. */
void contract_await_done(struct contract_side *side, struct contract_side *far, uint8_t opcode,
                         uint64_t count, int32_t status);

struct pst_request contract_send(const struct contract_side *side, uint64_t offset, uint64_t length,
                                 uint64_t sequence);
/* posted.c. About every other time post() may complete requests; the case finds DONEs of these,
 * too. */
int contract_post(struct contract_side *side, uint32_t index, const struct pst_request *requests,
                  uint32_t n, uint32_t *wait);
void contract_posted_done(struct contract_posted *posted, const struct pst_completion *done);
void contract_posted_clear(struct contract_posted *posted);
/* Post n, polling both sides while this side's queue is full: how many were taken, which is fewer
 * than n where there is no credit for more. */
uint32_t contract_post_all(struct contract_pair *pair, uint32_t index,
                           const struct pst_request *requests, uint32_t n);
/* Post one, polling while there is no room. */
void contract_post_one(struct contract_pair *pair, const struct pst_request *request);
uint8_t *contract_payload(const struct contract_side *side, const struct pst_completion *message);
void contract_release(struct contract_side *side, const struct pst_completion *message);
/* Bytes that depend on seed and position. */
void contract_fill(uint8_t *at, uint64_t length, uint64_t seed);
bool contract_verify(const uint8_t *at, uint64_t length, uint64_t seed);
/* Else the case has failed, and says which are wrong, and whose they are if that can be told. */
void contract_bytes_are(const uint8_t *at, uint64_t length, uint64_t seed);

/* ---- Two processes, exchange.c ---- */

/* How a stream between processes went, seen from one side. */
struct contract_account {
  uint64_t message; /* bytes of each */
  uint64_t posted;
  uint64_t done;
  uint64_t delivered;
  uint64_t wrong;
  bool gone;
  int status;
  uint64_t unlike; /* DONEs with a status that they may not have */
  int done_status; /* the last DONE's */
};

/* A blob as a control channel would carry it, descriptors included, over a stream
 * socket. False: the other side went, or the socket carries no descriptors. */
bool contract_swap_out(int socket, const struct pst_blob *blob);
bool contract_swap_in(int socket, struct pst_blob *blob, uint8_t *bytes, uint32_t capacity);
/* Tell endpoint 0's address, connect to the other's, wait until both have. */
bool contract_meet(struct contract_side *side, int socket);
/* A DONE of SENDs: how many it covers, and whether its status is one that it may have. */
void contract_account_done(struct contract_account *account, const struct pst_completion *done);
/* Until `count` are through, the other side is gone, or none was for as long as the deadline. */
void contract_send_until(struct contract_side *side, uint64_t count,
                         struct contract_account *account);
void contract_receive_until(struct contract_side *side, uint64_t count,
                            struct contract_account *account);

/* Kill a process within 2 ms, and tell by *death, 8 bytes of contract_now_ns(), when it has let go
 * of its end of `socket`. The process that does so, which is to be waited for. */
pid_t contract_kill_soon(pid_t pid, int socket, int *death);
/* `one` kills a peer: `most` times, or as often as 15 s allow, and then it says so. */
void contract_deaths(const struct contract_variant *variant, uint32_t most,
                     void (*one)(const struct contract_variant *variant));
/* A case of the group "processes". */
void contract_death_beside_writes(void **state);

/* The groups of the suite. Each returns the number of failed cases. */
int contract_life_run(const struct contract_variant *variant);
int contract_post_run(const struct contract_variant *variant);
int contract_limits_run(const struct contract_variant *variant);
int contract_stream_run(const struct contract_variant *variant);
int contract_share_run(const struct contract_variant *variant);
int contract_lend_run(const struct contract_variant *variant);
int contract_rma_run(const struct contract_variant *variant);
int contract_complete_run(const struct contract_variant *variant);
int contract_wake_run(const struct contract_variant *variant);
int contract_race_run(const struct contract_variant *variant);
int contract_close_run(const struct contract_variant *variant);
int contract_thread_run(const struct contract_variant *variant);
int contract_death_run(const struct contract_variant *variant);
int contract_dynamic_run(const struct contract_variant *variant);
int contract_throttle_run(const struct contract_variant *variant);
/* All but what is one filter's own. */
int contract_transport_run(const struct contract_variant *variant);

#define CONTRACT_CASE(function) cmocka_unit_test(function)
/* Run an array of cases with the variant as their state, under a name of its own. */
#define CONTRACT_RUN(group, cases, variant)                                                        \
  contract_run(group, cases, sizeof(cases) / sizeof(cases[0]), variant)
int contract_run(const char *group, struct CMUnitTest *cases, size_t count,
                 const struct contract_variant *variant);
/* The exit status of a program that has one group: a name that picks no case is a failure. */
#define CONTRACT_MAIN(group, cases, variant)                                                       \
  (CONTRACT_RUN(group, cases, variant) || !contract_picked())

#endif
