/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections by rdma_cm (`connection: rdma_cm`).
 *
 * A worker has a channel of events, and one listener at the address of the port's GID once it has
 * an endpoint that may be asked. The sender connects; if both ends send, the one with the lower GID
 * and number. The port and a token travel in the endpoints' addresses. The request to connect has
 * both tokens, so that it finds its endpoint and no other request does.
 *
 * Queue pairs are the transport's own: rdma_cm says where the path leads (GID, hop limit, traffic
 * class, first PSNs), qp_setup.c takes the queue pair there. With several (`qps`) all of them use
 * the one id of the endpoint, which the kernel knows by the first one's number. The kernel reports
 * when the peer's end is gone, which a connection without rdma_cm learns by trying.
 *
 * All calls on the worker's thread but attributes() and settle(), which the deferred work makes.
 */
#ifndef RC_CM_H
#define RC_CM_H

#include "endpoint.h"

/* `reconnect`: what a try may take that the kernel has not ended by then. */
#define RC_CM_TRY_NS UINT64_C(3000000000)

/* A build without librdmacm has check() alone: then no device uses it, and the others are NULL.
 * They are called of workers and endpoints whose `cm` is set, but worker_open() and open(), which
 * set it. */
struct rc_cm_ops {
  /* 0; -EOPNOTSUPP: this build is without librdmacm; logged, both. */
  int (*check)(const struct pst_device *device);
  /* 0, or -errno, logged. */
  int (*worker_open)(struct pst_worker *worker, uint32_t index);
  void (*worker_close)(struct pst_worker *worker);
  /* `own` gets port and token. 0, or -errno, logged: -EADDRINUSE of `cm_port` among them. */
  int (*open)(struct pst_endpoint *endpoint);
  void (*close)(struct pst_endpoint *endpoint);
  /* With the peer's address. Fails by rc_fail(). */
  void (*connect)(struct pst_endpoint *endpoint);
  /* Where `attr->qp_state` is to lead a queue pair of the endpoint, in place of what the address
   * says. 0 or errno. */
  int (*attributes)(struct pst_endpoint *endpoint, struct ibv_qp_attr *attr);
  /* All queue pairs are in RTS: tell the peer. Once a connection. 0 or errno. */
  int (*settle)(struct pst_endpoint *endpoint);
  /* `reconnect`: the kernel's connection ends, which the peer's kernel reports if packets pass;
   * then a step towards another, once the queue pair has given everything back. No deferred work is
   * under way. */
  void (*drop)(struct pst_endpoint *endpoint);
  void (*reconnect)(struct pst_endpoint *endpoint);
  /* Why reconnecting failed, in words. */
  void (*missed)(const struct pst_endpoint *endpoint, char *text, size_t size);
  /* Writes what the endpoint waits for and has not got in time. False: for the peer to ask. */
  bool (*waits)(const struct pst_endpoint *endpoint, char *text, size_t size);
  /* Take what the kernel has to say. */
  void (*events)(struct pst_worker *worker);
  /* Try again what may pass by now. */
  void (*look)(struct pst_endpoint *endpoint, uint64_t now_ns);
  /* All completions are taken: whose peer is gone without a farewell has failed. */
  void (*leave)(struct pst_worker *worker);
  /* "by rdma_cm with GID 3 and hop limit 64" */
  void (*describe)(const struct pst_endpoint *endpoint, char *text, size_t size);
};
extern const struct rc_cm_ops rc_cm;

#endif
