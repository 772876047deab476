/* SPDX-License-Identifier: Apache-2.0 */
/* Names of plugins and of their files. */
#include "plugin_names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <penstock/plugin.h>

#include "config/arena.h"
#include "util/limit_remedy.h"

static const char *const kinds[] = {
    [PST_KIND_TRANSPORT] = "transport", [PST_KIND_MEMORY] = "memory", [PST_KIND_FILTER] = "filter"};

const char *loader_kind_name(uint32_t kind)
{
  return kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[kind] : NULL;
}

void loader_search_failed(int code, char *text, size_t size)
{
  snprintf(text, size, "plugins cannot be looked for: %s%s", strerror(-code), limit_remedy(code));
}

bool loader_name_ok(const char *name)
{
  size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

  return n > 0 && n < LOADER_NAME_BYTES && name[n] == '\0' && name[0] >= 'a' && name[0] <= 'z';
}

bool loader_file_parse(const char *file, uint32_t *kind, char name[LOADER_NAME_BYTES],
                       bool *is_description)
{
  for (uint32_t k = 1; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
    size_t head = strlen(kinds[k]);
    const char *dot;
    size_t len;

    if (strncmp(file, kinds[k], head) != 0 || file[head] != '-')
      continue;
    file += head + 1;
    dot = strchr(file, '.');
    if (!dot || (strcmp(dot, ".so") != 0 && strcmp(dot, ".desc.so") != 0))
      return false;
    len = (size_t)(dot - file);
    if (len >= LOADER_NAME_BYTES)
      return false;
    memcpy(name, file, len);
    name[len] = '\0';
    *kind = k;
    *is_description = strcmp(dot, ".desc.so") == 0;
    return loader_name_ok(name);
  }
  return false;
}

const char *loader_intern(const char *text)
{
  static struct arena arena;
  static struct interned {
    const struct interned *next;
    const char *text;
  } * all;
  struct interned *made;

  for (const struct interned *entry = all; entry; entry = entry->next)
    if (strcmp(entry->text, text) == 0)
      return entry->text;
  made = arena_alloc(&arena, sizeof(*made));
  text = arena_string(&arena, text);
  if (!made || !text)
    return NULL;
  *made = (struct interned){all, text};
  all = made;
  return text;
}
