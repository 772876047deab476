/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tree.h"
#include "util/printable.h"

/* YAML 1.1, 5.1: what a stream may hold. */
static bool may_stand(uint32_t code, bool lines, bool first)
{
  if (code < 0x20)
    return lines && (code == '\t' || code == '\n' || code == '\r');
  if (code == 0xfeff)
    return lines && first;
  return code < 0x7f || code == 0x85 || (code >= 0xa0 && code != 0xfffe && code != 0xffff);
}

const char *text_problem(const char *text, size_t length, bool lines, size_t *at)
{
  for (size_t i = 0; i < length;) {
    uint32_t code = 0;
    size_t n = pst_utf8_decode(text + i, length - i, &code);
    *at = i;
    if (n == 0)
      return "a byte that is not UTF-8; save the text as UTF-8";
    if (code == 0)
      return "a NUL byte; is this a text file?";
    if (!may_stand(code, lines, i == 0))
      return "a control character; remove it";
    i += n;
  }
  return NULL;
}

const char *text_printable(struct arena *arena, const char *text)
{
  char *copy = arena_string(arena, text);
  size_t length = strlen(text), at = 0;
  while (copy && text_problem(copy, length, false, &at))
    copy[at] = '?';
  return copy;
}
