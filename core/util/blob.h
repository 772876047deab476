/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs that own their bytes and descriptors. */
#ifndef PST_UTIL_BLOB_H
#define PST_UTIL_BLOB_H

#include <penstock/transport.h>

/* *to becomes a copy of bytes and descriptors. 0; -ENOMEM; -errno of a descriptor that cannot be
 * kept. */
int blob_keep(const struct pst_blob *from, struct pst_blob *to);
/* Frees bytes, closes descriptors, and clears it. */
void blob_free(struct pst_blob *blob);

#endif
