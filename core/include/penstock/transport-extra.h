/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optional operations of transports, except one-sided access: sleep (WAKEUP), lent messages (LEND),
 * planned sizes (`start`), counters and descriptions. transport.h includes this header.
 *
 * A filter wraps a transport and has the operations of a transport. pst_open_params.inner is the
 * transport or filter that it wraps: the filter calls inner->open(inner_host, inner_params, …) and
 * passes plan and calls on. It reads the plan after inner->open(), which may have changed it.
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

/* Use of a device by all streams of this process together. */
struct pst_plan {
  uint32_t struct_size;
  uint32_t flags; /* enum pst_plan_flag */
  uint32_t workers;
  uint32_t rings;
  uint32_t senders;   /* endpoints with PST_ROLE_SENDER */
  uint32_t receivers; /* endpoints with PST_ROLE_RECEIVER */
  uint32_t rma;       /* endpoints with PST_ROLE_RMA */
  uint32_t requests;  /* the most outstanding on one endpoint */
  uint32_t pieces;    /* the most of one request */
  uint32_t reserved;
  uint64_t ring_slots;  /* of all rings together */
  uint64_t message_max; /* bytes */
  uint32_t domains;     /* how many domains memory and endpoints will name: pst_mr_params.domain */
  uint32_t reserved2;
};

enum pst_plan_flag {
  PST_PLAN_IN_PROCESS = 1u << 0, /* both ends of every endpoint are in this process */
  PST_PLAN_SLEEP = 1u << 1,      /* idle workers will sleep: arm and event_fd are used */
  /* There are `rings` endpoints, and each has a ring, a domain, every role and `requests`. */
  PST_PLAN_PEERS = 1u << 2,
};

/* Called once, when all workers, rings and endpoints of the plan are open. Optional. */
typedef int pst_start_fn(struct pst_device *device);

/* ---- Sleep: WAKEUP ----------------------------------------------------------------------------
 */

/* Ask to be woken, once. 0: event_fd becomes readable when poll() has a completion to give, or,
 * after a post() that took fewer than it was given, when post() would take more. -EAGAIN: that is
 * so already, or poll() has work of its own, for example credits to send: poll first. Instead of
 * -EAGAIN event_fd may be readable at once. poll() disarms; arming twice is legal.
 * poll() may take a credit and return no completion; arm() then returns -EAGAIN. */
typedef int pst_arm_fn(struct pst_worker *worker);

/* The descriptor for poll(2) and epoll. It belongs to the transport and is valid until
 * worker_close. Spurious wake-ups are legal. */
typedef int pst_event_fd_fn(struct pst_worker *worker);

/* ---- Messages that are lent: LEND -------------------------------------------------------------
 */

/* Lent regions have the kind and device of the ring's mr, or, where the transport told the host to
 * stage, are host memory. The path that ring_open reports holds for them. The host refuses messages
 * in other regions. */

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

/* Write up to max counters, and return how many there are: the endpoint's, or the worker's if
 * `endpoint` is NULL, or the device's if both are NULL. The host calls it once a second, with each
 * heartbeat, and at the end. A call for the device is serialised like other device calls and may
 * block for some ms. DROP counters of workers and devices count messages since open() that no
 * endpoint counts; the host attributes to them at most what its streams miss. A sending endpoint
 * has messages_sent and bytes_sent, a receiving one messages_received and bytes_received. Other
 * names are the transport's choice. Optional. */
typedef int pst_counters_fn(struct pst_device *device, struct pst_worker *worker,
                            struct pst_endpoint *endpoint, struct pst_counter *counters,
                            uint32_t max);

/* Describe lanes, QPs and numbers to a reader, NUL-terminated within size. */
typedef int pst_describe_fn(struct pst_endpoint *endpoint, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
