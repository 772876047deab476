/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../util/log.h"
#include "../util/nearest.h"
#include "value.h"

struct option_slot {
  struct value value;
  char *text; /* STRING */
  char **items;
  size_t item_count; /* LIST */
  bool set;
};

struct pst_options {
  const struct pst_option *table;
  size_t count;
  struct option_slot slots[];
};

static void items_free(char **items, size_t count)
{
  for (size_t i = 0; i < count; i++)
    free(items[i]);
  free(items);
}

void options_free(struct pst_options *options)
{
  if (!options)
    return;
  for (size_t i = 0; i < options->count; i++) {
    free(options->slots[i].text);
    items_free(options->slots[i].items, options->slots[i].item_count);
  }
  free(options);
}

static int find(const struct pst_options *options, const char *name)
{
  for (size_t i = 0; i < options->count; i++)
    if (strcmp(options->table[i].name, name) == 0)
      return (int)i;
  return -1;
}

static int slot_set_text(struct option_slot *slot, const char *text)
{
  char *copy = strdup(text);
  if (!copy)
    return -ENOMEM;
  free(slot->text);
  slot->text = copy;
  return 0;
}

static int slot_set_items(struct option_slot *slot, const char *const *items, size_t count)
{
  char **copies = calloc(count + 1, sizeof(*copies));
  if (!copies)
    return -ENOMEM;
  for (size_t i = 0; i < count; i++) {
    copies[i] = strdup(items[i]);
    if (!copies[i]) {
      items_free(copies, i);
      return -ENOMEM;
    }
  }
  items_free(slot->items, slot->item_count);
  slot->items = copies;
  slot->item_count = count;
  return 0;
}

static char *trim(char *text)
{
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == ' ')
    text[--length] = '\0';
  return text + strspn(text, " ");
}

/* "a, b", also within brackets: as defaults stand in tables. */
static int slot_set_joined(struct option_slot *slot, const char *text)
{
  char *copy = strdup(text);
  const char **items = calloc(strlen(text) / 2 + 2, sizeof(*items));
  size_t count = 0;
  int rc = -ENOMEM;
  if (copy && items) {
    char *rest = trim(copy);
    size_t length = strlen(rest);
    if (length >= 2 && rest[0] == '[' && rest[length - 1] == ']') {
      rest[length - 1] = '\0';
      rest++;
    }
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
      item = trim(item);
      if (*item)
        items[count++] = item;
    }
    rc = slot_set_items(slot, items, count);
  }
  free(items);
  free(copy);
  return rc;
}

static int slot_set(const struct pst_option *rule, struct option_slot *slot, const char *text,
                    char *why, size_t why_size)
{
  int rc;
  if (rule->type == PST_OPTION_LIST) {
    rc = slot_set_joined(slot, text);
  } else {
    struct value value;
    rc = value_parse(rule, text, &value, why, why_size);
    if (rc)
      return rc;
    rc = rule->type == PST_OPTION_STRING ? slot_set_text(slot, text) : 0;
    if (rc == 0)
      slot->value = value;
  }
  if (rc == -ENOMEM)
    snprintf(why, why_size, "out of memory");
  return rc;
}

static int slot_default(const struct pst_option *rule, struct option_slot *slot)
{
  char why[VALUE_WHY_MIN];
  const char *text = rule->default_value;
  size_t length = text ? strlen(text) : 0;
  if (!text || (rule->flags & PST_OPTION_REQUIRED))
    return 0;
  if (rule->type == PST_OPTION_STRING && length >= 2 && text[0] == '"' && text[length - 1] == '"') {
    slot->text = strndup(text + 1, length - 2);
    slot->value.number = length - 2;
    return slot->text ? 0 : -ENOMEM;
  }
  return slot_set(rule, slot, text, why, sizeof(why));
}

int options_new(const struct pst_option *table, size_t count, struct pst_options **options)
{
  struct pst_options *made = calloc(1, sizeof(*made) + count * sizeof(made->slots[0]));
  if (!made)
    return -ENOMEM;
  made->table = table;
  made->count = count;
  for (size_t i = 0; i < count; i++) {
    int rc = slot_default(&table[i], &made->slots[i]);
    if (rc) {
      options_free(made);
      return rc == -ENOMEM ? rc : -EINVAL;
    }
  }
  *options = made;
  return 0;
}

int options_clone(const struct pst_options *from, struct pst_options **options)
{
  struct pst_options *made = calloc(1, sizeof(*made) + from->count * sizeof(made->slots[0]));
  if (!made)
    return -ENOMEM;
  made->table = from->table;
  made->count = from->count;
  for (size_t i = 0; i < from->count; i++) {
    const struct option_slot *slot = &from->slots[i];
    made->slots[i].value = slot->value;
    made->slots[i].set = slot->set;
    int rc = slot->text ? slot_set_text(&made->slots[i], slot->text) : 0;
    if (rc == 0 && slot->items)
      rc = slot_set_items(&made->slots[i], (const char *const *)slot->items, slot->item_count);
    if (rc) {
      options_free(made);
      return rc;
    }
  }
  *options = made;
  return 0;
}

/* The index of a name, or -ENOENT with the nearest one in `why`. */
static int find_or_explain(const struct pst_options *options, const char *name, char *why,
                           size_t why_size)
{
  int index = find(options, name);
  if (index >= 0)
    return index;
  if (options->count == 0) {
    snprintf(why, why_size, "unknown option \"%.60s\"; this plugin has no options", name);
    return -ENOENT;
  }
  const char **names = calloc(options->count, sizeof(*names));
  const char *near = NULL;
  if (names) {
    for (size_t i = 0; i < options->count; i++)
      names[i] = options->table[i].name;
    near = nearest_name(name, names, options->count);
  }
  if (near) {
    snprintf(why, why_size, "unknown option \"%.60s\"; did you mean \"%s\"?", name, near);
  } else {
    size_t at = (size_t)snprintf(why, why_size, "unknown option \"%.60s\"; there are:", name);
    for (size_t i = 0; i < options->count && at < why_size; i++)
      at +=
          (size_t)snprintf(why + at, why_size - at, "%s %s", i ? "," : "", options->table[i].name);
  }
  free(names);
  return -ENOENT;
}

int options_set(struct pst_options *options, const char *name, const char *text, char *why,
                size_t why_size)
{
  int index = find_or_explain(options, name, why, why_size);
  if (index < 0)
    return index;
  int rc = slot_set(&options->table[index], &options->slots[index], text, why, why_size);
  if (rc == 0)
    options->slots[index].set = true;
  return rc;
}

int options_set_list(struct pst_options *options, const char *name, const char *const *items,
                     size_t count, char *why, size_t why_size)
{
  int index = find_or_explain(options, name, why, why_size);
  if (index < 0)
    return index;
  const struct pst_option *rule = &options->table[index];
  if (rule->type != PST_OPTION_LIST) {
    char words[VALUE_WHY_MIN];
    value_type_words(rule, words, sizeof(words));
    snprintf(why, why_size, "expected one value, found a list; it takes %.200s", words);
    return -EINVAL;
  }
  int rc = slot_set_items(&options->slots[index], items, count);
  if (rc == 0)
    options->slots[index].set = true;
  else
    snprintf(why, why_size, "out of memory");
  return rc;
}

const char *options_missing(const struct pst_options *options)
{
  for (size_t i = 0; i < options->count; i++)
    if ((options->table[i].flags & PST_OPTION_REQUIRED) && !options->slots[i].set)
      return options->table[i].name;
  return NULL;
}

static bool slot_equal(const struct option_slot *a, const struct option_slot *b)
{
  const char *text_a = a->text ? a->text : "", *text_b = b->text ? b->text : "";
  if (a->value.number != b->value.number || strcmp(text_a, text_b) != 0 ||
      a->item_count != b->item_count)
    return false;
  for (size_t i = 0; i < a->item_count; i++)
    if (strcmp(a->items[i], b->items[i]) != 0)
      return false;
  return true;
}

bool options_equal(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                   const char **name)
{
  for (size_t i = 0; i < a->count; i++) {
    const struct pst_option *rule = &a->table[i];
    int other = find(b, rule->name);
    if ((rule->scope & scope) && (other < 0 || !slot_equal(&a->slots[i], &b->slots[other]))) {
      *name = rule->name;
      return false;
    }
  }
  for (size_t i = 0; i < b->count; i++) {
    if ((b->table[i].scope & scope) && find(a, b->table[i].name) < 0) {
      *name = b->table[i].name;
      return false;
    }
  }
  return true;
}

static bool slot_agrees(const struct pst_options *a, size_t i, const struct pst_options *b,
                        size_t k)
{
  if (a->table[i].type != b->table[k].type)
    return false;
  if (a->table[i].type == PST_OPTION_ENUM)
    return strcmp(options_get_string(a, a->table[i].name),
                  options_get_string(b, b->table[k].name)) == 0;
  return slot_equal(&a->slots[i], &b->slots[k]);
}

bool options_agree(const struct pst_options *a, const struct pst_options *b, uint32_t scope,
                   const char **name)
{
  for (size_t i = 0; i < a->count; i++) {
    int other = find(b, a->table[i].name);
    if (other >= 0 && (a->table[i].scope & b->table[other].scope & scope) &&
        !slot_agrees(a, i, b, (size_t)other)) {
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
  int index = find(options, name);
  if (index < 0)
    return -ENOENT;
  const struct pst_option *rule = &options->table[index];
  const struct option_slot *slot = &options->slots[index];
  if (rule->type == PST_OPTION_STRING)
    return (size_t)snprintf(text, size, "%s", slot->text ? slot->text : "") < size ? 0 : -ENOSPC;
  if (rule->type == PST_OPTION_ENUM) {
    const char *choice = options_get_string(options, name);
    return (size_t)snprintf(text, size, "%s", choice) < size ? 0 : -ENOSPC;
  }
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

/* ---- Getters --------------------------------------------------------------- */

static int find_or_log(const struct pst_options *options, const char *name)
{
  int index = options ? find(options, name) : -1;
  if (index < 0)
    pst_log(PST_LOG_ERROR,
            "a plugin asked for its option \"%s\", which is not in its own table; a bug of the "
            "plugin",
            name);
  return index;
}

uint64_t options_get_uint(const struct pst_options *options, const char *name)
{
  int index = find_or_log(options, name);
  return index < 0 ? 0 : options->slots[index].value.number;
}

const char *options_get_string(const struct pst_options *options, const char *name)
{
  int index = find_or_log(options, name);
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
  int at = find_or_log(options, name);
  return at < 0 || index >= options->slots[at].item_count ? NULL : options->slots[at].items[index];
}

int options_is_set(const struct pst_options *options, const char *name)
{
  int index = find_or_log(options, name);
  return index >= 0 && options->slots[index].set;
}
