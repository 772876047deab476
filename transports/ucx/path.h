/* SPDX-License-Identifier: Apache-2.0 */
/* How bytes travel: by the lanes that UCX has chosen. */
#ifndef UCX_PATH_H
#define UCX_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/transport.h>

struct pst_device;
struct pst_endpoint;
struct ucx_link;

/* Once connected: what the lanes take in one piece, and from which size the peer had better
 * fetch. */
void ucx_path_settle(struct pst_endpoint *endpoint);

#define UCX_LOST_BYTES 160u /* as pst_path_info.reason */
/* From which size on messages go straight into a GPU; UINT64_MAX: none does. */
uint64_t ucx_direct_from(const struct pst_device *device);
/* Is core to stage messages of at most `length` bytes? If so *path, which may be NULL, says why.
 * `way` is "into" or "out of". */
bool ucx_path_stages(const struct pst_device *device, uint64_t length, const char *way,
                     struct pst_path_info *path);
/* Writes which faster transport this end has for such a peer that is not among the lanes, why, and
 * what to do. Returns the enum pst_log level that this deserves; 0: nothing is lost, or there are
 * no lanes yet, and the text is empty. */
int ucx_path_lost(const struct ucx_link *link, char *text, size_t size);

#endif
