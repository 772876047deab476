/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided access: the operations mr_pack, remote_open and remote_close of a transport that
 * announces WRITE, READ or ATOMIC. transport.h includes this header.
 *
 * The owner of memory registers it with remote rights and packs what a peer needs (mr_pack). Its
 * host carries these bytes to the peer. The peer opens them on an endpoint of the role PST_ROLE_RMA
 * (remote_open) and names the remote in requests. Such a transport accepts all three roles on one
 * endpoint: nodes open such endpoints.
 *
 * post() checks bounds and rights as far as it knows them (-EACCES). The owner's device checks them
 * too (a DONE with -EACCES, which may end the connection). mr_deregister revokes access: after it
 * returns no peer touches the range.
 *
 * pst_limits.rma_max bounds one WRITE or READ; remote_max is the size of what mr_pack writes.
 * pst_mr_params.domain and pst_endpoint_params.domain say which peers reach which memory.
 */
#ifndef PENSTOCK_TRANSPORT_RMA_H
#define PENSTOCK_TRANSPORT_RMA_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_device;
struct pst_mr;
struct pst_endpoint;
struct pst_blob;
struct pst_remote; /* a peer's registered range, opened on an endpoint; defined by the plugin */

/* pst_request.u.rma: the peer's side of a WRITE or READ, and the range that a FLUSH covers. */
struct pst_rma_target {
  struct pst_remote *remote;
  uint64_t offset; /* in the remote range */
  uint64_t reserved;
};

/* pst_request.u.atomic. */
struct pst_atomic_target {
  struct pst_remote *remote;
  uint64_t offset;  /* multiple of 8 */
  uint64_t operand; /* FETCH_ADD: addend; COMPARE_SWAP: the new value */
};

/* Write what a peer needs for one-sided access to the mr, by the mr's rights.
 * 0; -EACCES: the mr has no remote rights; -ENOSPC: the blob is too small. */
typedef int pst_mr_pack_fn(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);

/* Open a peer's range. Worker thread.
 * 0; -EPROTO: not a blob of this transport; -EXDEV: this host cannot reach the range; -ENOTCONN. */
typedef int pst_remote_open_fn(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                               struct pst_remote **remote);

/* Close a range that no request names any more. CLOSED closes those that are still open. */
typedef void pst_remote_close_fn(struct pst_endpoint *endpoint, struct pst_remote *remote);

#ifdef __cplusplus
}
#endif
#endif
