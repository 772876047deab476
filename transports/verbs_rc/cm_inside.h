/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of rdma_cm share and no other sees. */
#ifndef RC_CM_INSIDE_H
#define RC_CM_INSIDE_H

#include <endian.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

#include "../verbs/cm_status.h"
#include "cm.h"

enum stage {
  STAGE_IDLE,    /* the peer is to ask, or was not told of yet */
  STAGE_ADDRESS, /* resolving */
  STAGE_ROUTE,
  STAGE_REQUEST, /* asked, not answered */
  STAGE_SETTLED, /* the queue pair is being set up, or is */
};

struct rc_cm {
  struct rdma_cm_id *id;   /* NULL: none yet */
  struct rdma_cm_id *next; /* the peer's request to be connected anew, not answered yet */
  enum stage stage;
  uint64_t from; /* the token that the peer's request says */
  uint64_t again_ns;
  uint32_t gid_index; /* as the kernel chose */
  uint32_t hop_limit;
  int missed_event, missed_status; /* why the last try to have it again failed; -1: none did */
  bool has_left;                   /* the peer's end is gone: to be told behind all that it sent */
};

struct rc_cm_worker {
  struct rdma_event_channel *channel;
  struct rdma_cm_id *listener; /* NULL: nobody needs one */
  uint32_t index;
  uint16_t port; /* that it listens at */
  uint32_t leavers;
};

/* What a request says, before anything else is known of who asks; a refusal for good says the
 * same. */
struct private_data {
  uint8_t magic[8];
  uint64_t to, from; /* tokens, big-endian */
};

/* cm_id.c */
extern const uint8_t rc_cm_magic[8];
struct rdma_conn_param rc_cm_parameters(const struct pst_endpoint *endpoint,
                                        struct private_data *data);

/* An event, once it is given back. */
struct event {
  int type;
  int status;
  struct rdma_cm_id *id;
  bool has_data; /* of ours */
  struct private_data data;
};

/* cm_listen.c. Of a RoCE GID. */
struct sockaddr *rc_cm_address(const struct pst_device *device, const uint8_t gid[16],
                               uint16_t port, struct sockaddr_storage *to);
/* The kernel finds a device by the address; it has to be the one that the queue pairs are on. */
bool rc_cm_is_ours(const struct pst_device *device, const struct rdma_cm_id *id);
/* 0 or -errno, logged. */
int rc_cm_listen(struct pst_endpoint *endpoint);

/* cm.c: steps of an endpoint, which fail by rc_fail(). The end that connects: */
void rc_cm_resolve(struct pst_endpoint *endpoint);
void rc_cm_resolve_route(struct pst_endpoint *endpoint);
void rc_cm_ask(struct pst_endpoint *endpoint);
void rc_cm_try_later(struct pst_endpoint *endpoint, uint64_t now_ns);
/* The end that is asked. */
void rc_cm_asked(struct pst_worker *worker, const struct event *event);
/* Both. */
void rc_cm_set_up(struct pst_endpoint *endpoint);

/* cm_reconnect.c. It is had again: true, there is to be another try. */
bool rc_cm_reconnects(struct pst_endpoint *endpoint, int event, int status);
/* The peer's end is gone, or begins anew: to be told by rc_cm_leave(). */
void rc_cm_left(struct pst_endpoint *endpoint);
/* Does its own peer ask to be connected anew; then it is noted. */
bool rc_cm_comes_again(const struct pst_endpoint *endpoint, const struct event *event);
void rc_cm_asked_again(struct pst_endpoint *endpoint, const struct event *event);
/* True: it is an event of a request that is not answered, and taken. */
bool rc_cm_of_next(struct pst_endpoint *endpoint, const struct event *event);

#endif
