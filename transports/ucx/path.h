/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UCX_PATH_H
#define UCX_PATH_H

#include "ucx.h"

/* Once connected: what the lanes take in one piece, and from which size the peer had better
 * fetch. */
void ucx_path_settle(struct pst_endpoint *endpoint);

#endif
