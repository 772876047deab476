/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint of the plugin over fake_ucp, connected to a peer that the test plays. */
#ifndef UCX_SUPPORT_H
#define UCX_SUPPORT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <penstock/transport-cpu.h>

#include "device.h"
#include "endpoint.h"
#include "fake_host.h"
#include "fake_ucp.h"
#include "ops.h"

#include <cmocka.h>

#define SLOTS 8u
#define SLOT_BYTES UINT64_C(40000)
#define PEER_SLOTS 64u
#define REQUESTS 80u
#define COOKIE 77u /* the endpoint's */
#define TCP_LANES "lane[0]: 0:tcp/lo.0 md[0]\nam_send: 0..<egr/short>..8187..<rndv>..(inf)\n"

struct fixture {
  struct pst_device device;
  struct pst_worker *worker;
  struct pst_mr *source, *landing; /* of 1 MiB, and of the ring */
  struct pst_ring *ring;
  struct pst_endpoint *endpoint;
  uint8_t *bytes; /* of the source: byte i is i % 251 */
};

/* The one of a test. */
extern struct fixture fixture;

/* Set up and tear down `fixture`: connected, CONNECTED polled, and the fake keeps requests from
 * then on. */
int open_posix(void **state);
int open_tcp(void **state);
int close_it(void **state);

/* Memory of the peer's that its CPU reaches, with all rights. */
struct pst_remote *open_remote(uint64_t address, uint64_t length);
/* A SEND with its own cookie, sequence and meta. */
struct pst_request request_of(uint64_t offset, uint64_t length, uint64_t number);
/* Post it; post() takes it. */
void post_one(uint64_t length, uint64_t number);
/* An active message of the peer's; its nonce is set here. */
ucs_status_t deliver(struct ucx_header header, const void *data, size_t length);
/* One that is to be fetched. */
ucs_status_t deliver_offer(struct ucx_header header, const void *data, size_t length);
/* poll() of all that there is, at most `max`. */
uint32_t poll_all(struct pst_completion *out, uint32_t max);
/* Has the connection been given up with this status? */
bool is_lost_with(int32_t status);

#endif
