/* SPDX-License-Identifier: Apache-2.0 */
/* The filter fault around a scripted transport, on a clock that only the test moves. */
#ifndef TEST_FILTERS_SUPPORT_H
#define TEST_FILTERS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "endpoint.h"
#include "fake_host.h"
#include "ops.h"

#define INNER_POSTED_MAX 65536u
#define INNER_MR_BYTES 8192u

/* Requests that the transport inside got, and its next answers. */
struct inner {
  struct pst_request posted[INNER_POSTED_MAX];
  uint32_t count;
  uint32_t room;                        /* requests that it still takes */
  uint32_t wait;                        /* why it takes no more */
  int refuses;                          /* what post gives; 0: as room says */
  int registers;                        /* what mr_register gives */
  uint32_t mrs;                         /* registrations there are */
  struct pst_completion completions[8]; /* for the next poll */
  uint32_t completion_count;
  uint64_t done; /* requests that fault_poll_inner_done() has ended */
  uint32_t close_mode;
  uint64_t close_deadline_ns;
  uint64_t counted; /* value of its one counter */
  uint64_t endpoint_cookie;
};
extern struct inner inner;

/* Opened by setup(): a device, its worker, and a connected sender. */
struct rig {
  struct pst_device *device;
  struct pst_worker *worker;
  struct pst_endpoint *endpoint;
  uint64_t posted; /* the number of the next message */
  struct pst_mr *mr;
  uint8_t memory[INNER_MR_BYTES];
};
extern struct rig rig;

#define SETUP(requests, ...)                                                                       \
  setup(requests, (const struct fake_option[]){__VA_ARGS__ __VA_OPT__(, ){NULL, NULL}})

const struct pst_transport_ops *fault(void);
int try_open(const struct fake_option *options, uint32_t senders, struct pst_device **device);
int try_endpoint(uint32_t requests, struct pst_endpoint **endpoint);
void setup(uint32_t requests, const struct fake_option *options);
int reset(void **state);    /* a test's setup */
int teardown(void **state); /* closes what setup() has opened */

/* SEND of the next number; its cookie is 1000 and its number. */
struct pst_request send_of(uint64_t sequence, uint64_t length);
/* Posts the next n, one call; returns what post gave and keeps *wait in last_wait. */
int post(uint32_t n);
extern uint32_t last_wait;

/* The transport inside ends the next n SENDs at its next poll. */
void inner_done(uint64_t n, int32_t status);
void inner_event(uint8_t code, int32_t status);
/* One poll of up to 64; the completions lie in polled. */
int poll_all(void);
extern struct pst_completion polled[64];
/* A poll that gives exactly one DONE, of `count` that end with number `last`. */
void expect_done(uint64_t last, uint64_t count, int32_t status);
/* The numbers that the transport inside was given, from `from` on. */
void expect_posted(uint32_t from, uint32_t n, const uint64_t *sequences);
#define EXPECT_POSTED(from, ...)                                                                   \
  expect_posted(from, sizeof((uint64_t[]){__VA_ARGS__}) / 8, (uint64_t[]){__VA_ARGS__})

uint64_t counter(const char *name);
/* The smallest number from `from` on that the kind befalls by seed and rates of the device. */
uint64_t next_of(enum fault_kind kind, uint64_t from);

#endif
