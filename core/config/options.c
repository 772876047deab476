/* SPDX-License-Identifier: Apache-2.0 */
/* Options of plugins: types, defaults, ranges. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../util/log.h"
#include "../util/suggest.h"
#include "value.h"

struct option_slot {
  struct value value;
  const char *text;   /* STRING */
  const char **items; /* LIST */
  size_t item_count;
  bool set;
  struct place place; /* where it was written */
  const char *origin; /* the same as text */
};

struct pst_options {
  struct pst_options *next; /* options_chain() */
  struct arena arena;
  const struct pst_option *table;
  size_t count;
  struct option_slot slots[];
};

const struct pst_option *option_find(const struct pst_option *table, size_t count, const char *name)
{
  for (size_t i = 0; name && i < count; i++)
    if (strcmp(table[i].name, name) == 0)
      return &table[i];
  return NULL;
}

static int options_find(const struct pst_options *options, const char *name)
{
  const struct pst_option *option = option_find(options->table, options->count, name);
  return option ? (int)(option - options->table) : -1;
}

void options_chain(struct pst_options *options, struct pst_options **list)
{
  options->next = *list;
  *list = options;
}

void options_free(struct pst_options *options)
{
  while (options) {
    struct pst_options *next = options->next;
    arena_free(&options->arena);
    free(options);
    options = next;
  }
}

static int options_no_memory(char *why, size_t why_size)
{
  snprintf(why, why_size, "out of memory");
  return -ENOMEM;
}

static int options_slot_set_items(struct arena *arena, struct option_slot *slot,
                                  const char *const *items, size_t count)
{
  const char **copies = arena_alloc(arena, (count + 1) * sizeof(*copies));
  for (size_t i = 0; copies && i < count; i++)
    copies[i] = arena_string(arena, items[i]);
  if (arena->no_memory)
    return -ENOMEM;
  slot->items = copies;
  slot->item_count = count;
  return 0;
}

static char *options_trim(char *text)
{
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == ' ')
    text[--length] = '\0';
  return text + strspn(text, " ");
}

/* "a, b", also within brackets: as defaults stand in tables. */
static int options_slot_set_joined(struct arena *arena, struct option_slot *slot, const char *text)
{
  char *copy = arena_string(arena, text);
  const char **items = arena_alloc(arena, (strlen(text) / 2 + 2) * sizeof(*items));
  size_t count = 0;
  if (!copy || !items)
    return -ENOMEM;
  char *rest = options_trim(copy);
  size_t length = strlen(rest);
  if (length >= 2 && rest[0] == '[' && rest[length - 1] == ']') {
    rest[length - 1] = '\0';
    rest++;
  }
  for (char *item; (item = strsep(&rest, ",")) != NULL;) {
    item = options_trim(item);
    if (*item)
      items[count++] = item;
  }
  slot->items = items;
  slot->item_count = count;
  return 0;
}

static int options_slot_set(struct arena *arena, const struct pst_option *rule,
                            struct option_slot *slot, const char *text, char *why, size_t why_size)
{
  const char *copy = NULL;
  struct value value;
  if (rule->type == PST_OPTION_LIST)
    return options_slot_set_joined(arena, slot, text) ? options_no_memory(why, why_size) : 0;
  int rc = value_parse(rule, text, &value, why, why_size);
  if (rc)
    return rc;
  if (rule->type == PST_OPTION_STRING && !(copy = arena_string(arena, text)))
    return options_no_memory(why, why_size);
  slot->text = copy;
  slot->value = value;
  return 0;
}

static int options_slot_default(struct arena *arena, const struct pst_option *rule,
                                struct option_slot *slot)
{
  char why[VALUE_WHY_MIN];
  const char *text = rule->default_value;
  size_t length = text ? strlen(text) : 0;
  slot->place = place_default;
  slot->origin = place_default.source;
  if (!text || (rule->flags & PST_OPTION_REQUIRED))
    return 0;
  if (rule->type == PST_OPTION_STRING && length >= 2 && text[0] == '"' && text[length - 1] == '"') {
    slot->text = arena_copy(arena, text + 1, length - 2);
    slot->value.number = length - 2;
    return slot->text ? 0 : -ENOMEM;
  }
  return options_slot_set(arena, rule, slot, text, why, sizeof(why));
}

static struct pst_options *options_alloc(const struct pst_option *table, size_t count)
{
  struct pst_options *made = calloc(1, sizeof(*made) + count * sizeof(made->slots[0]));
  if (!made)
    return NULL;
  made->table = table;
  made->count = count;
  return made;
}

int options_new(const struct pst_option *table, size_t count, struct pst_options **options)
{
  struct pst_options *made = options_alloc(table, count);
  for (size_t i = 0; made && i < count; i++) {
    int rc = options_slot_default(&made->arena, &table[i], &made->slots[i]);
    if (rc) {
      options_free(made);
      return rc == -ENOMEM ? rc : -EINVAL;
    }
  }
  if (made)
    *options = made;
  return made ? 0 : -ENOMEM;
}

int options_clone(const struct pst_options *from, struct pst_options **options)
{
  struct pst_options *made = options_alloc(from->table, from->count);
  if (!made)
    return -ENOMEM;
  memcpy(made->slots, from->slots, from->count * sizeof(made->slots[0]));
  *options = made;
  return 0;
}

/* The index of a name; -ENOENT with the nearest one in `why`; -ENOMEM. */
static int options_find_or_explain(const struct pst_options *options, const char *name, char *why,
                                   size_t why_size)
{
  int index = options_find(options, name);
  if (index >= 0)
    return index;
  const char **names = calloc(options->count + 1, sizeof(*names));
  if (!names)
    return options_no_memory(why, why_size);
  for (size_t i = 0; i < options->count; i++)
    names[i] = options->table[i].name;
  snprintf(why, why_size, "unknown option \"%.60s\"; %s", name,
           options->count ? "" : "this plugin has no options");
  if (options->count)
    suggest_add(name, names, options->count, why, why_size);
  free(names);
  return -ENOENT;
}

int options_set(struct pst_options *options, const char *name, const char *text, char *why,
                size_t why_size)
{
  int index = options_find_or_explain(options, name, why, why_size);
  if (index < 0)
    return index;
  struct option_slot *slot = &options->slots[index];
  int rc = options_slot_set(&options->arena, &options->table[index], slot, text, why, why_size);
  slot->set |= rc == 0;
  return rc;
}

int options_set_list(struct pst_options *options, const char *name, const char *const *items,
                     size_t count, char *why, size_t why_size)
{
  int index = options_find_or_explain(options, name, why, why_size);
  if (index < 0)
    return index;
  const struct pst_option *rule = &options->table[index];
  if (rule->type != PST_OPTION_LIST) {
    char words[VALUE_WHY_MIN];
    value_type_words(rule, words, sizeof(words));
    snprintf(why, why_size, "expected one value, found a list; it takes %.200s", words);
    return -EINVAL;
  }
  if (options_slot_set_items(&options->arena, &options->slots[index], items, count))
    return options_no_memory(why, why_size);
  options->slots[index].set = true;
  return 0;
}

void options_mark(struct pst_options *options, const char *name, const struct place *place,
                  const char *origin)
{
  struct option_slot *slot = &options->slots[options_find(options, name)];
  slot->place = *place;
  slot->origin = origin;
}

const struct place *options_place(const struct pst_options *options, const char *name)
{
  int index = options_find(options, name);
  return index < 0 ? &place_default : &options->slots[index].place;
}

const char *options_origin(const struct pst_options *options, const char *name)
{
  int index = options_find(options, name);
  return index < 0 ? place_default.source : options->slots[index].origin;
}

/* An ENUM is compared by its word, since another table may have other choices. */
static bool options_slot_agrees(const struct pst_options *a, size_t i, const struct pst_options *b,
                                size_t k)
{
  const struct option_slot *mine = &a->slots[i], *its = &b->slots[k];
  const struct pst_option *rule = &a->table[i];
  if (rule->type != b->table[k].type || mine->item_count != its->item_count)
    return false;
  if (rule->type == PST_OPTION_ENUM || rule->type == PST_OPTION_STRING)
    return strcmp(options_get_string(a, rule->name), options_get_string(b, rule->name)) == 0;
  for (size_t item = 0; item < mine->item_count; item++)
    if (strcmp(mine->items[item], its->items[item]) != 0)
      return false;
  return mine->value.number == its->value.number;
}

bool options_agree(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                   const char **name)
{
  for (size_t i = 0; i < a->count; i++) {
    int other = options_find(b, a->table[i].name);
    if (other >= 0 && (a->table[i].scope & b->table[other].scope & scope) &&
        !options_slot_agrees(a, i, b, (size_t)other)) {
      *name = a->table[i].name;
      return false;
    }
  }
  return true;
}

const struct pst_option *options_table(const struct pst_options *options, size_t *count)
{
  *count = options->count;
  return options->table;
}

int options_text(const struct pst_options *options, const char *name, char *text, size_t size)
{
  int index = options_find(options, name);
  if (index < 0)
    return -ENOENT;
  const struct pst_option *rule = &options->table[index];
  const struct option_slot *slot = &options->slots[index];
  if (rule->type == PST_OPTION_STRING || rule->type == PST_OPTION_ENUM)
    return (size_t)snprintf(text, size, "%s", options_get_string(options, name)) < size ? 0
                                                                                        : -ENOSPC;
  if (rule->type != PST_OPTION_LIST) {
    value_print(rule, &slot->value, text, size);
    return 0;
  }
  size_t at = 0;
  if (size > 0)
    text[0] = '\0';
  for (size_t i = 0; i < slot->item_count && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%s", i ? "," : "", slot->items[i]);
  return at < size ? 0 : -ENOSPC;
}

static int options_find_or_log(const struct pst_options *options, const char *name)
{
  int index = options ? options_find(options, name) : -1;
  if (index < 0)
    pst_log(PST_LOG_ERROR,
            "a plugin asked for its option \"%s\", which is not in its own table; a bug of the "
            "plugin",
            name);
  return index;
}

uint64_t options_get_uint(const struct pst_options *options, const char *name)
{
  int index = options_find_or_log(options, name);
  return index < 0 ? 0 : options->slots[index].value.number;
}

const char *options_get_string(const struct pst_options *options, const char *name)
{
  int index = options_find_or_log(options, name);
  if (index < 0)
    return "";
  const struct pst_option *rule = &options->table[index];
  const struct option_slot *slot = &options->slots[index];
  if (rule->type == PST_OPTION_ENUM)
    return rule->choices && rule->choices[0] ? rule->choices[slot->value.number] : "";
  return slot->text ? slot->text : "";
}

const char *options_get_item(const struct pst_options *options, const char *name, uint32_t index)
{
  int at = options_find_or_log(options, name);
  return at < 0 || index >= options->slots[at].item_count ? NULL : options->slots[at].items[index];
}

int options_is_set(const struct pst_options *options, const char *name)
{
  int index = options_find_or_log(options, name);
  return index >= 0 && options->slots[index].set;
}
