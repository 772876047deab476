/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's address of the datagram transports: what is taken makes sense, and is the same once
 * written and read. */
#include <string.h>

#include "datagram/blob.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  static const uint8_t magic[] = {'p', 's', 't', 'u', 'd', 'p', 0, 1};
  uint8_t bytes[DG_BLOB_BYTES] = {0}, first[DG_BLOB_BYTES], second[DG_BLOB_BYTES];
  struct dg_blob blob, again;

  dg_blob_read(data, (uint32_t)size, &blob);
  memcpy(bytes, magic, sizeof(magic));
  memcpy(bytes + sizeof(magic), data,
         size < sizeof(bytes) - sizeof(magic) ? size : sizeof(bytes) - sizeof(magic));
  REQUIRE(!dg_blob_read(bytes, sizeof(bytes) - 1, &blob));
  if (!dg_blob_read(bytes, sizeof(bytes), &blob))
    return 0;
  REQUIRE(blob.count <= DG_ADDRESSES_MAX && (blob.family == 4 || blob.family == 6));
  dg_blob_write(&blob, first);
  REQUIRE(dg_blob_read(first, sizeof(first), &again));
  dg_blob_write(&again, second);
  REQUIRE(memcmp(first, second, sizeof(first)) == 0);
  return 0;
}
