/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport may add beside one-sided access: sleep (WAKEUP), messages that are lent (LEND),
 * sizes that are planned (`start`), counters and words. transport.h includes this header; the
 * operations of these names are those here.
 *
 * Filters wrap a transport and have its operations. pst_open_params.inner is what is wrapped,
 * itself perhaps a filter: the filter calls inner->open(inner_host, inner_params, …) and hands plan
 * and calls through.
 */
#ifndef PENSTOCK_TRANSPORT_EXTRA_H
#define PENSTOCK_TRANSPORT_EXTRA_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_device;
struct pst_worker;
struct pst_endpoint;
struct pst_region; /* memory.h */

/* ---- Plans ------------------------------------------------------------------------------------
 */

/* What will be used of a device, all streams of this process together. */
struct pst_plan {
  uint32_t struct_size;
  uint32_t flags; /* enum pst_plan_flag */
  uint32_t workers;
  uint32_t rings;
  uint32_t senders;   /* endpoints with PST_ROLE_SENDER */
  uint32_t receivers; /* endpoints with PST_ROLE_RECEIVER */
  uint32_t rma;       /* endpoints with PST_ROLE_RMA */
  uint32_t requests;  /* outstanding on one endpoint, at most */
  uint32_t pieces;    /* of one request, at most */
  uint32_t reserved;
  uint64_t ring_slots;  /* of all rings together */
  uint64_t message_max; /* bytes */
  uint32_t domains;     /* that memory and endpoints will name: pst_mr_params.domain */
  uint32_t reserved2;
};

enum pst_plan_flag {
  PST_PLAN_IN_PROCESS = 1u << 0, /* both ends of every endpoint are in this process */
  PST_PLAN_SLEEP = 1u << 1,      /* idle workers will sleep: arm and event_fd are used */
  /* Each of the endpoints, `rings` of them, has a ring, a domain, every role and `requests`. */
  PST_PLAN_PEERS = 1u << 2,
};

/* Once, after all workers, rings and endpoints of the plan are open. Optional. */
typedef int pst_start_fn(struct pst_device *device);

/* ---- Sleep: WAKEUP ----------------------------------------------------------------------------
 */

/* Ask to be woken. 0: event_fd becomes readable at the next arrival, room to
 * post, DONE or event, as soon as poll() has something to give or post()
 * would take again; -EAGAIN: there is something already, poll. Room counts
 * only after a post was cut short: poll() may take a credit in and give nothing, and then
 * arm() is what tells. -EAGAIN also while poll() has work of its own (credits to send).
 * What is there already may be told by a descriptor that is readable at once instead.
 * Once per wake-up; poll() disarms; arming twice is legal. */
typedef int pst_arm_fn(struct pst_worker *worker);

/* For poll(2) and epoll; the transport's own, valid until worker_close. A
 * spurious wake-up is legal. */
typedef int pst_event_fd_fn(struct pst_worker *worker);

/* ---- Messages that are lent: LEND -------------------------------------------------------------
 */

/* Regions that a transport lends are of the kind and device of the ring's mr, or where the host
 * has been told to stage, host memory; what ring_open says of the path covers them. The host takes
 * no message out of another. */

/* pst_completion.u.region, of the events LENT and UNLENT. */
struct pst_lent {
  const struct pst_region *region; /* LENT: valid until UNLENT has been polled */
  uint64_t buffer;                 /* its number, > 0, unique on the worker */
};

/* ---- Accounting -------------------------------------------------------------------------------
 */

/* An array element. The strings live as long as the device. types.h has the flags. */
struct pst_counter {
  const char *name;  /* "retransmissions" */
  const char *cause; /* "no_buffer"; NULL */
  uint64_t value;
  uint64_t flags; /* enum pst_counter_flag */
};
PST_STATIC_ASSERT(sizeof(struct pst_counter) == 32, "frozen");

/* Write up to max counters: of the endpoint, else of the worker, else (both
 * NULL) of the device. Returns how many there are. Asked for with each heartbeat, once a second,
 * and at the end. A device's are asked for as other calls that take a device alone are, and may
 * block for some ms. DROP counters of a worker or a device count messages from open() on that
 * no endpoint's counter has; the host explains by them what its streams miss, no more of it. An
 * endpoint that sends has messages_sent and bytes_sent, one that receives messages_received and
 * bytes_received; the others are the transport's own. Optional. */
typedef int pst_counters_fn(struct pst_device *device, struct pst_worker *worker,
                            struct pst_endpoint *endpoint, struct pst_counter *counters,
                            uint32_t max);

/* Lanes, QPs, numbers, for a person; always NUL-terminated within size. */
typedef int pst_describe_fn(struct pst_endpoint *endpoint, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
