/* SPDX-License-Identifier: Apache-2.0 */
/* A sender and a receiver of loopback in this process, on a clock that only the test moves. */
#ifndef TEST_LOOPBACK_SUPPORT_H
#define TEST_LOOPBACK_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "address.h"
#include "endpoint.h"
#include "fake_host.h"
#include "mr.h"
#include "remote.h"
#include "rx.h"

#define STRIDE 128u
#define PAYLOAD 100u
#define MEMORY 8192u
#define SENDER_COOKIE 7u
#define RECEIVER_COOKIE 8u

struct rig {
  struct pst_device *device;
  struct pst_worker *worker; /* of both ends */
  struct pst_mr *from, *into;
  struct pst_ring *ring;
  struct pst_endpoint *sender, *receiver;
  uint64_t posted;
  uint8_t source[MEMORY];
  uint8_t target[MEMORY];
};
extern struct rig rig;
extern struct pst_completion polled[64];
extern uint32_t last_wait;

int reset(void **state);
int teardown(void **state);
/* Device, worker and both registrations. */
void open_device(enum lb_mode mode);
void open_device_on(const struct pst_host *host, enum lb_mode mode);
/* All of a region. */
struct pst_mr *register_region(const struct pst_region *region, uint32_t access);
int open_ring(uint32_t slots, uint32_t endpoints, struct pst_ring **ring);
int open_endpoint(uint32_t roles, struct pst_ring *ring, struct pst_endpoint **endpoint);
void close_endpoint(struct pst_endpoint *endpoint);
/* And a ring of so many slots, with both ends connected. */
void setup(enum lb_mode mode, uint32_t slots);
/* Two ends for one-sided access; the sender is the initiator. */
void setup_rma(const struct pst_host *host);
void pack(struct pst_mr *mr, struct lb_remote_blob *bytes);
int open_remote(const struct lb_remote_blob *bytes, struct pst_remote **remote);
/* The initiator's handle of a registration. */
struct pst_remote *reach(struct pst_mr *mr);
int poll_all(void);
/* Messages of one poll, moved to the front; what else came is lost. Returns how many. */
int messages(void);
struct pst_request send_of(uint64_t sequence, uint64_t length);
/* The next n of 40 bytes that are their number. */
int post(uint32_t n);
/* The completion of that kind and code in the last poll; NULL: there is none. */
const struct pst_completion *find(uint8_t kind, uint8_t code);
int release(uint64_t token);

#endif
