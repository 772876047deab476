/* SPDX-License-Identifier: Apache-2.0 */
/* Two queue pairs of one process, connected, for tests of what happens between them. They run
 * under penstock-simverbs, which they also call to change the fabric. */
#ifndef RIG_H
#define RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* cmocka.h wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RIG_BYTES = 64 << 10, RIG_WRS = 16, RIG_GID = 3 };

struct rig_end {
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_cq *cq;
  struct ibv_mr *mr;
  struct ibv_qp *qp;
  unsigned char *bytes;
};

/* Differences from a connection that works. */
struct rig_how {
  const char *from, *to; /* devices */
  uint8_t hop_limit;
  uint8_t gid_index; /* of the sender; 0: RIG_GID */
  uint8_t peers_gid_index;
  uint16_t dlid, peers_dlid; /* InfiniBand: of the receiver, of the sender */
  enum ibv_mtu mtu;          /* of both; 0: 1024 */
  uint8_t timeout;           /* 0: 10, 4.2 ms */
  uint8_t retry_cnt;
  uint8_t rnr_retry;
  uint8_t min_rnr_timer;
  uint32_t ece, peers_ece; /* options, of mlx5 */
  bool no_grh;             /* InfiniBand, both ends */
  uint32_t wrong_psn;      /* added to what the sender begins with */
  uint32_t wrong_qpn;      /* instead of the receiver's */
};

struct rig {
  struct rig_end a, b;
};

void rig_open(struct rig *rig, const struct rig_how *how);
void rig_close(struct rig *rig);

struct ibv_context *rig_device(const char *name);
/* Objects of one end, its QP in RESET. */
void rig_end_open(struct rig_end *end, const char *device);
void rig_end_close(struct rig_end *end);
/* RESET to RTS towards a peer. */
void rig_connect(struct rig_end *end, const struct rig_how *how, uint32_t qpn,
                 const union ibv_gid *gid, uint32_t sq_psn, uint32_t rq_psn);
union ibv_gid rig_gid(const struct rig_end *end);

/* Post a request for the first `length` bytes of the buffer. */
void rig_post_recv(struct rig_end *end, uint64_t wr_id, uint32_t length);
void rig_post_send(struct rig_end *end, uint64_t wr_id, uint32_t length);
/* The next completion; fails after 20 s of real time. */
struct ibv_wc rig_wait(struct rig_end *end);
bool rig_is_quiet(struct rig_end *end);
/* Sends one message and has it received: the sender's status. */
enum ibv_wc_status rig_send(struct rig *rig);
/* Waits for the next asynchronous event, acknowledges it, and gives its type. */
enum ibv_event_type rig_event(struct ibv_context *context);

/* penstock-simverbs ctl . WORDS: fails if it does. */
void rig_ctl(const char *words);
/* One line of `ctl . counters`. */
uint64_t rig_counter(const char *name);
/* Returns the output of `ctl . WORDS`; free() it. */
char *rig_ctl_read(const char *words);

#endif
