/* SPDX-License-Identifier: Apache-2.0 */
/* How bytes travel: by the lanes that UCX has chosen. */
#ifndef UCX_PATH_H
#define UCX_PATH_H

#include <stddef.h>
#include <stdint.h>

struct pst_device;
struct pst_endpoint;
struct ucx_link;

/* Once connected: what the lanes take in one piece, and from which size the peer had better
 * fetch. */
void ucx_path_settle(struct pst_endpoint *endpoint);

#define UCX_LOST_BYTES 160u /* as pst_path_info.reason */
/* From which size on messages go straight into a GPU; UINT64_MAX: none does. */
uint64_t ucx_direct_from(const struct pst_device *device);
/* What this end has for such a peer, is faster, and is not among the lanes: which, why, and what to
 * do. The enum pst_log level that this deserves; 0: nothing is lost, or there are no lanes yet, and
 * the text is empty. */
int ucx_path_lost(const struct ucx_link *link, char *text, size_t size);

#endif
