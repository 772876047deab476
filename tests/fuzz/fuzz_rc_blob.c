/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's address of verbs_rc: what is taken makes sense, and is the same once written and read.
 */
#include "require.h"
#include "verbs_rc/connection.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  static const uint8_t magic[] = {'p', 's', 't', 'r', 'c', 0, 0, 8};
  uint8_t bytes[RC_BLOB_BYTES] = {0}, first[RC_BLOB_BYTES], second[RC_BLOB_BYTES];
  struct rc_blob blob, again;

  rc_blob_read(data, (uint32_t)size, &blob);
  memcpy(bytes, magic, sizeof(magic));
  memcpy(bytes + sizeof(magic), data,
         size < sizeof(bytes) - sizeof(magic) ? size : sizeof(bytes) - sizeof(magic));
  REQUIRE(!rc_blob_read(bytes, sizeof(bytes) - 1, &blob));
  if (!rc_blob_read(bytes, sizeof(bytes), &blob))
    return 0;
  REQUIRE(blob.lanes >= 1 && blob.lanes <= RC_LANES_MAX && blob.run_count <= RC_BLOB_RUNS);
  REQUIRE(!blob.is_receiver || (blob.slots > 0 && blob.share <= blob.slots));
  rc_blob_write(&blob, first);
  REQUIRE(rc_blob_read(first, sizeof(first), &again));
  rc_blob_write(&again, second);
  REQUIRE(memcmp(first, second, sizeof(first)) == 0);
  return 0;
}
