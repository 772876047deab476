/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided access: what a transport adds that announces WRITE, READ or ATOMIC. transport.h
 * includes this header; its operations mr_pack, remote_open and remote_close are those here.
 *
 * The owner of memory registers it with remote rights, packs what a peer needs for it, and its host
 * carries that to the peer, which opens it on an endpoint of the role PST_ROLE_RMA and names it in
 * requests. Such a transport takes all three roles on one endpoint, as nodes open them.
 *
 * Bounds and rights of a request are checked by whoever knows them: here as far as the remote tells
 * (-EACCES from post), and by the owner's device (a DONE with -EACCES, which may end the
 * connection). mr_deregister revokes access: when it returns, no peer touches the range.
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
struct pst_remote; /* a peer's registered range, opened on an endpoint; the plugin's */

/* pst_request.u.rma: the peer's side of a WRITE or READ, and what a FLUSH means. */
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

/* What a peer needs for one-sided access to the mr, by its access flags.
 * -EACCES: no remote access was registered; -ENOSPC: blob too small. */
typedef int pst_mr_pack_fn(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob);

/* Worker thread. -EPROTO: not one of ours; -EXDEV: cannot be reached from
 * here; -ENOTCONN. */
typedef int pst_remote_open_fn(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                               struct pst_remote **remote);

/* No request names it. What is still open at CLOSED is void. */
typedef void pst_remote_close_fn(struct pst_endpoint *endpoint, struct pst_remote *remote);

#ifdef __cplusplus
}
#endif
#endif
