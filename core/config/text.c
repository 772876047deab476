/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tree.h"

/* Bytes of the character at `at`; 0: not UTF-8. RFC 3629. */
static size_t decode(const unsigned char *at, size_t left, uint32_t *code)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t n = at[0] < 0x80       ? 1
             : at[0] >> 5 == 6  ? 2
             : at[0] >> 4 == 14 ? 3
             : at[0] >> 3 == 30 ? 4
                                : 0;
  if (n == 0 || n > left)
    return 0;
  *code = n == 1 ? at[0] : at[0] & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if (at[i] >> 6 != 2)
      return 0;
    *code = *code << 6 | (at[i] & 0x3f);
  }
  if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
    return 0;
  return n;
}

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
    size_t n = decode((const unsigned char *)text + i, length - i, &code);
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
