/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of control messages; what decodes must be the same once encoded and decoded
 * again. */
#include <errno.h>
#include <string.h>

#include "control/wire.h"
#include "require.h"

static struct wire_message first, second;
static uint8_t frame[WIRE_FRAME_MAX];

/* Clears the fields that an encoder leaves out since they mean nothing. */
static void drop_idle(struct wire_message *message)
{
  if (message->fd_count == 0)
    message->fd_id = 0;
  if ((message->type == WIRE_BYE || message->type == WIRE_TAKEN) && message->code == 0)
    memset(message->text, 0, sizeof(message->text));
}

static void require_same(void)
{
  const uint8_t *a = first.blob, *b = second.blob;
  REQUIRE(first.type == second.type);
  REQUIRE(first.major == second.major && first.minor == second.minor);
  if (first.type == WIRE_HELLO && first.major != WIRE_MAJOR)
    return;
  REQUIRE(first.blob_length == second.blob_length);
  REQUIRE(first.blob_length == 0 || memcmp(a, b, first.blob_length) == 0);
  first.blob = second.blob = NULL;
  REQUIRE(memcmp(&first, &second, sizeof(first)) == 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  char why[WIRE_WHY_MAX] = "";
  size_t length = 0;
  if (size > WIRE_BODY_MAX)
    return -1;
  int rc = wire_decode(data, size, &first, why);
  REQUIRE(rc == 0 || (rc == -EPROTO && why[0] != '\0'));
  if (rc)
    return 0;
  drop_idle(&first);
  REQUIRE(wire_encode(&first, frame, sizeof(frame), &length) == 0);
  REQUIRE(length > WIRE_HEADER_BYTES && length <= sizeof(frame));
  rc = wire_decode(frame + WIRE_HEADER_BYTES, length - WIRE_HEADER_BYTES, &second, why);
  if (rc)
    fprintf(stderr, "what was encoded does not decode: %s\n", why);
  REQUIRE(rc == 0);
  require_same();
  return 0;
}
