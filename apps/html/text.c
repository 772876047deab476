/* SPDX-License-Identifier: Apache-2.0 */
/* Text of an HTML page. */
#include "text.h"

#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain_text.h"

static void text_append(struct html *html, const char *bytes, size_t length)
{
  if (html->length + length > html->capacity) {
    size_t capacity = 2 * html->capacity + length + 4096;
    char *larger = realloc(html->bytes, capacity);
    if (!larger) {
      html->failed = true;
      return;
    }
    html->bytes = larger;
    html->capacity = capacity;
  }
  memcpy(html->bytes + html->length, bytes, length);
  html->length += length;
}

void html_put(struct html *html, const char *format, ...)
{
  char text[4096];
  va_list args;

  va_start(args, format);
  int length = vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (length < 0 || (size_t)length >= sizeof(text))
    html->failed = true; /* no markup is that long */
  else
    text_append(html, text, (size_t)length);
}

void html_put_plain(struct html *html, const char *text)
{
  text_append(html, text, strlen(text));
}

void html_escaped(struct html *html, const char *text)
{
  size_t left = text ? strlen(text) : 0;

  while (left > 0) {
    const char *entity;
    const size_t n = app_xml_next(text, left, &entity);
    text_append(html, entity ? entity : text, entity ? strlen(entity) : n);
    text += n;
    left -= n;
  }
}

struct json_object *html_member(struct json_object *from, const char *key)
{
  struct json_object *value = NULL;

  if (json_object_is_type(from, json_type_object))
    json_object_object_get_ex(from, key, &value);
  return value;
}

const char *html_text_of(struct json_object *from, const char *key)
{
  struct json_object *value = html_member(from, key);

  return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
}

static double text_number(struct json_object *value)
{
  const bool is_number =
      json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
  const double number = is_number ? json_object_get_double(value) : NAN;

  return number >= 0 && number <= 1e300 ? number : NAN;
}

double html_number_of(struct json_object *from, const char *key)
{
  return text_number(html_member(from, key));
}

double html_number_at(struct json_object *list, size_t at)
{
  return html_count(list, SIZE_MAX) > at ? text_number(json_object_array_get_idx(list, at)) : NAN;
}

size_t html_count(struct json_object *list, size_t most)
{
  size_t count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

  return count < most ? count : most;
}
