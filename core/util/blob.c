/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs that own their bytes and descriptors. */
#include "blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "closer.h"

void blob_free(struct pst_blob *blob)
{
  free(blob->bytes);
  for (uint32_t i = 0; i < blob->fd_count; i++)
    if (blob->fds[i] >= 0)
      closer_close(blob->fds[i]); /* a peer's, perhaps */
  *blob = (struct pst_blob){.struct_size = sizeof(*blob)};
}

int blob_keep(const struct pst_blob *from, struct pst_blob *to)
{
  *to = (struct pst_blob){.struct_size = sizeof(*to), .fds = {-1, -1, -1, -1}};
  to->bytes = malloc(from->length ? from->length : 1);
  if (!to->bytes)
    return -ENOMEM;
  if (from->length)
    memcpy(to->bytes, from->bytes, from->length);
  to->length = to->capacity = from->length;
  for (; to->fd_count < from->fd_count; to->fd_count++) {
    to->fds[to->fd_count] = fcntl(from->fds[to->fd_count], F_DUPFD_CLOEXEC, 3);
    if (to->fds[to->fd_count] >= 0)
      continue;
    int rc = -errno;
    blob_free(to);
    return rc;
  }
  return 0;
}
