/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a verbs device, case by case: plain libibverbs, both ends in one process, so that a
 * real device, a kernel's emulation and a simulated one can be compared. */
#ifndef STATUSES_H
#define STATUSES_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum {
  REGION_BYTES = 64 << 10,
  CQ_DEPTH = 64,
  /* Posted behind the one that fails, to see what becomes of them. */
  FOLLOWERS = 3,
  /* Time within which a due answer comes on the slowest of devices. */
  PATIENCE_MS = 5000,
  /* The most that counts of a time in which nothing was looked at. */
  STEP_MS = 20,
  /* Nothing more is taken to come once this long nothing came. */
  QUIET_MS = 100,
};

/* The device that is asked. */
struct device {
  struct ibv_context *context;
  struct ibv_device_attr attr;
  struct ibv_port_attr port;
  union ibv_gid gid;
  int gid_index;
};

extern struct device device;

/* How the two ends of a pair are made. Index 0 is the requester, 1 the responder. */
struct setup {
  enum ibv_qp_type type;
  struct ibv_qp_cap cap;
  int cq_depth;
  bool unsignalled;           /* sq_sig_all is 0 */
  bool srq;                   /* for the responder */
  enum ibv_qp_state state[2]; /* how far each is brought: RESET to RTS */
  int mr_access[2];
  unsigned int qp_access[2];
  enum ibv_mtu mtu[2];
  uint32_t sq_psn[2];
  uint32_t rq_psn[2];
  uint8_t rd_atomic[2];
  uint8_t dest_rd_atomic[2];
  uint8_t timeout;
  uint8_t retry_cnt;
  uint8_t rnr_retry;
  uint8_t min_rnr_timer;
  uint8_t hop_limit;
  uint32_t dest_qp_num; /* of the requester; 0: the responder's */
};

struct end {
  struct ibv_pd *pd;
  struct ibv_comp_channel *channel;
  struct ibv_cq *cq;
  struct ibv_srq *srq;
  struct ibv_qp *qp;
  struct ibv_mr *mr;
  char *memory;
};

struct pair {
  struct setup setup;
  struct end end[2];
};

enum { REQ, RSP };

/* fixture.c */
void device_open(const char *name, int gid_index);
struct setup setup_usual(void);
/* Ends the program, naming what failed, where a pair cannot be made. */
void pair_open(struct pair *pair, const struct setup *setup);
void pair_close(struct pair *pair);
struct ibv_qp *qp_create(const struct end *end, const struct setup *setup);
/* The attributes of the step to that state, and the mask that it needs. */
int step_attributes(const struct pair *pair, int which, enum ibv_qp_state to,
                    struct ibv_qp_attr *attr);
/* From RESET as far as `to`; 0, or the errno of the step that was refused. */
int qp_bring(struct pair *pair, int which, enum ibv_qp_state to);
void require(const char *what, int succeeded);

/* work.c: one request and its only piece. */
struct request {
  struct ibv_send_wr wr;
  struct ibv_sge sge;
};
/* 8 bytes at the start of both regions. */
struct request request_make(const struct pair *pair, enum ibv_wr_opcode opcode);
int request_post(const struct end *end, struct request *request);
int receive_post(const struct end *end, uint32_t length);

/* report.c */
const char *errno_name(int error);
const char *status_name(enum ibv_wc_status status);
const char *state_name(enum ibv_qp_state state);
enum ibv_qp_state qp_state(struct ibv_qp *qp);
int64_t now_ms(void);
/* Waits for so many completions at either end and for what comes unasked, then prints
 * the line of the case: completions, states and asynchronous events of both ends. */
void tell_outcome(const char *name, struct pair *pair, unsigned int at_req, unsigned int at_rsp);
/* The line of a case that is one call's answer: an errno, 0 meaning that it went well. */
void tell_errno(const char *name, int error);
void tell(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Completions and events that nobody has looked at yet, as text; the caller frees it. */
char *events_text(const struct pair *pair);
char *completions_text(const struct end *end, unsigned int count);

/* One file each. */
void family_success(void);
void family_remote(void);
void family_local(void);
void family_receive(void);
void family_path(void);
void family_post(void);
void family_modify(void);
void family_range(void);
void family_create(void);
void family_destroy(void);
void family_event(void);
void family_flush(void);

#endif
