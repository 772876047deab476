/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's address of udp: what is taken makes sense, and is the same once written and read. */
#include <string.h>

#include "require.h"
#include "udp/blob.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  static const uint8_t magic[] = {'p', 's', 't', 'u', 'd', 'p', 0, 1};
  uint8_t bytes[UDP_BLOB_BYTES] = {0}, first[UDP_BLOB_BYTES], second[UDP_BLOB_BYTES];
  struct udp_blob blob, again;

  udp_blob_read(data, (uint32_t)size, &blob);
  memcpy(bytes, magic, sizeof(magic));
  memcpy(bytes + sizeof(magic), data,
         size < sizeof(bytes) - sizeof(magic) ? size : sizeof(bytes) - sizeof(magic));
  REQUIRE(!udp_blob_read(bytes, sizeof(bytes) - 1, &blob));
  if (!udp_blob_read(bytes, sizeof(bytes), &blob))
    return 0;
  REQUIRE(blob.count <= UDP_ADDRESSES_MAX && (blob.family == 4 || blob.family == 6));
  udp_blob_write(&blob, first);
  REQUIRE(udp_blob_read(first, sizeof(first), &again));
  udp_blob_write(&again, second);
  REQUIRE(memcmp(first, second, sizeof(first)) == 0);
  return 0;
}
