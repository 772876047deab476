/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others, made safe for a terminal and for XML. */
#include "plain_text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include "util/printable.h"

void app_print_line(FILE *to, const char *format, ...)
{
  va_list args;
  char *line;

  va_start(args, format);
  const int length = vasprintf(&line, format, args);
  va_end(args);
  if (length < 0)
    return;
  pst_make_printable(line, (size_t)length, '?');
  fprintf(to, "%s\n", line);
  free(line);
}

size_t app_xml_next(const char *text, size_t left, const char **entity)
{
  uint32_t code = 0;
  const size_t n = pst_utf8_decode(text, left, &code);

  *entity = n == 0                                 ? "?"
            : code == '<'                          ? "&lt;"
            : code == '>'                          ? "&gt;"
            : code == '&'                          ? "&amp;"
            : code == '"'                          ? "&quot;"
            : code == '\''                         ? "&#39;"
            : pst_is_control(code) && code != '\n' ? "?"
                                                   : NULL;
  return n > 0 ? n : 1;
}

void app_xml_put(FILE *to, const char *text, size_t length)
{
  const char *const end = text + length, *entity;

  for (size_t n; text < end; text += n) {
    n = app_xml_next(text, (size_t)(end - text), &entity);
    if (entity)
      fputs(entity, to);
    else
      fwrite(text, 1, n, to);
  }
}
