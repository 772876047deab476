/* SPDX-License-Identifier: Apache-2.0 */
/* Which names a client may give to files. */
#include "wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static int serve_path_refuse(int code, const char *rule, const char **why)
{
  *why = rule;
  return code;
}

bool serve_path_is_part(const uint8_t *bytes, size_t length)
{
  const size_t suffix = sizeof(NAMES_PART_SUFFIX) - 1;

  return length > suffix && bytes[0] == '.' &&
         memcmp(bytes + length - suffix, NAMES_PART_SUFFIX, suffix) == 0;
}

size_t serve_path_control(const uint8_t *bytes, size_t length)
{
  if (bytes[0] == 0xc2 && length > 1 && bytes[1] >= 0x80 && bytes[1] < 0xa0)
    return 2;
  return bytes[0] < 0x20 || bytes[0] == 0x7f;
}

static int serve_path_check_one(const uint8_t *bytes, size_t length, const char **why)
{
  if (length == 0)
    return serve_path_refuse(-EINVAL, "it begins or ends with '/', or has two in a row", why);
  if ((length == 1 && bytes[0] == '.') || (length == 2 && memcmp(bytes, "..", 2) == 0))
    return serve_path_refuse(-EINVAL, "'.' and '..' cannot be parts of a name", why);
  if (length > NAMES_BYTES_MAX)
    return serve_path_refuse(-ENAMETOOLONG, "one of its parts is longer than 240 bytes", why);
  for (size_t i = 0; i < length; i++) {
    if (serve_path_control(bytes + i, length - i) > 0)
      return serve_path_refuse(-EINVAL, "it has NUL, a newline or another control character", why);
  }
  if (serve_path_is_part(bytes, length))
    return serve_path_refuse(
        -EINVAL, "'.*" NAMES_PART_SUFFIX "' is what unfinished transfers are called", why);
  return 0;
}

int serve_path_check(const uint8_t *bytes, size_t length, char *name, const char **why)
{
  if (length == 0)
    return serve_path_refuse(-EINVAL, "it is empty", why);
  if (length > SERVE_NAME_MAX)
    return serve_path_refuse(-ENAMETOOLONG, "it is longer than 1024 bytes", why);
  if (bytes[0] == '/')
    return serve_path_refuse(-EINVAL, "it is absolute; names are relative to the root", why);
  for (size_t at = 0; at <= length;) {
    const uint8_t *slash = memchr(bytes + at, '/', length - at);
    size_t end = slash ? (size_t)(slash - bytes) : length;
    int rc = serve_path_check_one(bytes + at, end - at, why);
    if (rc < 0)
      return rc;
    at = end + 1;
  }
  memcpy(name, bytes, length);
  name[length] = '\0';
  return 0;
}

int serve_path_check_part(const uint8_t *bytes, size_t length, char *name, const char **why)
{
  if (memchr(bytes, '/', length))
    return serve_path_refuse(-EINVAL, "an entry of a folder has no '/'", why);
  return serve_path_check(bytes, length, name, why);
}
