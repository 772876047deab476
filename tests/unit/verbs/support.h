/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint without a device: its queue pairs keep what is posted to them. Its transport is a
 * stub, which keeps with what the endpoint failed. */
#ifndef TEST_VERBS_SUPPORT_H
#define TEST_VERBS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "endpoint.h"
#include "fake_host.h"

#define QUEUE 16u  /* work requests of the send queue */
#define PIECES 3u  /* of one request, at most */
#define SLOTS 8u   /* of the ring, and of the peer's */
#define INLINE 64u /* bytes, at most */
#define WR_ID (UINT64_C(7) << 32)
#define COOKIE UINT64_C(70)

extern struct pst_device device;
extern struct pst_worker worker;
extern struct vb_tx tx;
extern struct vb_rx rx;
extern struct pst_ring ring;
extern struct pst_endpoint endpoint;

/* Local memory of the endpoint's domain that may be read and written, and a range of its peer's,
 * with all rights. */
#define MEMORY UINT64_C(0x10000) /* where each of them begins */
#define REMOTE UINT64_C(0x7000000)
#define LENGTH UINT64_C(4096) /* bytes of each */
extern struct pst_mr memory;
extern struct pst_remote remote;

/* Work requests that were posted, in order. */
struct posted {
  uint32_t lane;
  uint32_t call; /* of ibv_post_send(), from 1 */
  struct ibv_send_wr wr;
};
#define POSTED_MAX 64u
extern struct posted posted[POSTED_MAX];
extern uint32_t posted_count, post_calls;
/* Queue pairs take so many work requests more. Then ibv_post_send() says ENOMEM. */
extern uint32_t posts_left;

/* Error that the endpoint failed with: 0 and "" as long as it has not. */
extern int failed_status;
extern char failed_why[128];
extern struct vb_transport transport;

/* All of the above anew: an endpoint that is connected, by so many queue pairs. Its `tx` and `rx`
 * are there, without credit and without slots. `stop_support` ends it. */
#define LANES_MAX 8u
extern struct ibv_qp qps[LANES_MAX]; /* of numbers from 100 */
extern struct vb_receive_queue rq;
void start_support(uint32_t lanes);
int stop_support(void **state);

/* The peer's slot is granted; the own slot is granted, and is the next of the line. */
void add_credit(uint32_t slot);
void add_slot(uint32_t slot);

#endif
