/* SPDX-License-Identifier: Apache-2.0 */
/* Which characters of a text that a peer or a file wrote may reach a terminal. In a header, since
 * the program finds nothing in the library but its API. */
#ifndef PST_UTIL_PRINTABLE_H
#define PST_UTIL_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the character at `at`; 0: not UTF-8. RFC 3629. */
static inline size_t pst_utf8_decode(const void *at, size_t left, uint32_t *code)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const uint8_t *byte = at;
  size_t n = byte[0] < 0x80       ? 1
             : byte[0] >> 5 == 6  ? 2
             : byte[0] >> 4 == 14 ? 3
             : byte[0] >> 3 == 30 ? 4
                                  : 0;

  if (n == 0 || n > left)
    return 0;
  *code = n == 1 ? byte[0] : byte[0] & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if (byte[i] >> 6 != 2)
      return 0;
    *code = *code << 6 | (byte[i] & 0x3f);
  }
  if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
    return 0;
  return n;
}

/* C0, DEL and C1 (U+009B begins an escape sequence as ESC [ does), the ends of line and paragraph,
 * and what turns the direction of writing (Unicode's Bidi_Control). */
static inline bool pst_is_control(uint32_t code)
{
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
         code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/* The first character that is not UTF-8, or a control character; NULL: none. *bytes: its length. */
static inline const char *pst_unprintable(const char *text, size_t length, size_t *bytes)
{
  for (size_t at = 0; at < length; at += *bytes) {
    uint32_t code = 0;

    *bytes = pst_utf8_decode(text + at, length - at, &code);
    if (*bytes == 0 || pst_is_control(code)) {
      *bytes += *bytes == 0;
      return text + at;
    }
  }
  return NULL;
}

/* Puts `mark` in the place of each byte of such characters. */
static inline void pst_make_printable(char *text, size_t length, char mark)
{
  char *end = text + length;
  const char *found;
  size_t bytes;

  while ((found = pst_unprintable(text, (size_t)(end - text), &bytes))) {
    text += found - text;
    memset(text, mark, bytes);
    text += bytes;
  }
}

#endif
