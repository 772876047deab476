/* SPDX-License-Identifier: Apache-2.0 */
/* Two connected queue pairs in one process, for tests that break one rule each. They use nothing
 * but the public API of libibverbs. */
#ifndef RULES_SUPPORT_H
#define RULES_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
  BYTES = 65536,
  ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
               IBV_ACCESS_REMOTE_ATOMIC
};

struct end {
  struct ibv_qp_cap given;
  struct ibv_cq *cq;
  struct ibv_qp *qp;
  struct ibv_mr *mr;
  uint8_t *bytes;
};

/* Settings of a pair, which a test may change before pair_open. */
struct pair_attr {
  const char *device; /* NULL: the first */
  enum ibv_qp_type type;
  struct ibv_qp_cap cap;
  unsigned cqe;
  int sig_all;
  bool srq; /* the responder's */
  unsigned srq_wr;
  bool channel;    /* the responder's CQ has one */
  unsigned access; /* of the queue pairs */
  uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
  uint8_t rd_atomic, dest_rd_atomic;
};

struct pair {
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_comp_channel *channel;
  struct ibv_srq *srq;
  struct pair_attr attr;
  struct end a, b; /* a initiates */
};

struct pair_attr pair_defaults(void);
/* One device, both ends in RTS, all of their bytes registered. */
void pair_open(struct pair *pair, const struct pair_attr *pair_attr);
/* As pair_open, both left in RESET. */
void pair_make(struct pair *pair, const struct pair_attr *pair_attr);
void pair_connect(struct pair *pair);
void pair_close(struct pair *pair);

/* The attributes of a transition, and their mask, of an end that is to talk to `peer`. */
int to_init(const struct pair *pair, struct ibv_qp_attr *attr);
int to_rtr(const struct pair *pair, const struct end *peer, struct ibv_qp_attr *attr);
int to_rts(const struct pair *pair, struct ibv_qp_attr *attr);
void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
enum ibv_qp_state state_of(struct ibv_qp *qp);

/* A request over `length` bytes of a's buffer, to b's with b's key; signalled, wr_id 1. */
struct ibv_send_wr request(const struct pair *pair, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
                           uint32_t length);
int post(struct ibv_qp *qp, struct ibv_send_wr *wr);
int post_recv(struct end *end, uint64_t wr_id, uint32_t length);
int post_srq(struct pair *pair, uint64_t wr_id, uint32_t length);

/* Waits for the next completion, at most some seconds. */
struct ibv_wc wait_wc(struct ibv_cq *cq);
/* There is none. */
void no_wc(struct ibv_cq *cq);
#define expect_wc(cq, id, what)                                                                    \
  do {                                                                                             \
    struct ibv_wc wc_ = wait_wc(cq);                                                               \
    assert_string_equal(ibv_wc_status_str(wc_.status), ibv_wc_status_str(what));                   \
    assert_int_equal(wc_.wr_id, id);                                                               \
  } while (0)

/* Waits for the next asynchronous event, acknowledges it, and compares its type. */
void expect_event(struct ibv_context *context, enum ibv_event_type type);

#endif
