/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of serve and its clients; what decodes must be the same once encoded and decoded
 * again. The names that they have are checked as serve does. */
#include <errno.h>
#include <string.h>

#include "require.h"
#include "serve/wire.h"

static struct serve_message first, second;
static uint8_t encoded[SERVE_MESSAGE_MAX];

static void require_legal(const uint8_t *bytes, uint32_t length, bool entry)
{
  char name[SERVE_NAME_MAX + 1];
  const char *why = NULL;
  int rc = entry ? serve_path_check_part(bytes, length, name, &why)
                 : serve_path_check(bytes, length, name, &why);

  REQUIRE(rc == 0 || ((rc == -EINVAL || rc == -ENAMETOOLONG) && why));
  if (rc != 0)
    return;
  REQUIRE(!entry || !strchr(name, '/'));
  REQUIRE(strlen(name) == length && name[0] != '/' && name[length - 1] != '/');
  REQUIRE(strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0);
  REQUIRE(!strstr(name, "/../") && !strstr(name, "//"));
  REQUIRE(length < 3 || strcmp(name + length - 3, "/..") != 0);
}

static void require_same(void)
{
  REQUIRE(first.entry_count == second.entry_count);
  REQUIRE(first.name_length == second.name_length);
  REQUIRE(first.name_length == 0 || memcmp(first.name, second.name, first.name_length) == 0);
  first.name = second.name = NULL;
  for (uint32_t i = 0; i < first.entry_count; i++) {
    struct serve_entry *a = &first.entries[i], *b = &second.entries[i];
    REQUIRE(a->kind == b->kind && a->length == b->length);
    REQUIRE(memcmp(a->name, b->name, a->length) == 0);
    a->name = b->name = NULL;
  }
  REQUIRE(memcmp(&first, &second, sizeof(first)) == 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  char why[SERVE_WHY_MAX] = "";
  size_t length = 0;

  if (size > SERVE_MESSAGE_MAX)
    return -1;
  int rc = serve_decode(data, size, &first, why);
  REQUIRE(rc == 0 || (rc == -EPROTO && why[0] != '\0'));
  if (rc)
    return 0;
  if (first.name_length > 0)
    require_legal(first.name, first.name_length, false);
  for (uint32_t i = 0; i < first.entry_count; i++)
    require_legal(first.entries[i].name, first.entries[i].length, true);
  if ((first.type == SERVE_HELLO || first.type == SERVE_WELCOME) && first.major != SERVE_MAJOR)
    return 0;
  REQUIRE(serve_encode(&first, encoded, sizeof(encoded), &length) == 0);
  REQUIRE(length <= size); /* the shortest form of each item, and nothing unknown */
  rc = serve_decode(encoded, length, &second, why);
  if (rc)
    fprintf(stderr, "what was encoded does not decode: %s\n", why);
  REQUIRE(rc == 0);
  require_same();
  return 0;
}
