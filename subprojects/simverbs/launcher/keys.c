/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a fabric's description, from their tables. */
#include "keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "nearest.h"

enum { NAMES_MAX = 64, WORDS_MAX = 512 };

void keys_unknown(struct describe *d, const struct place *place, const char *what,
                  const char *written, const char *const *names, size_t count)
{
  const char *near = nearest_name(written, names, count);
  if (near) {
    findings_add(&d->findings, place, "%s \"%.60s\"; did you mean \"%s\"?", what, written, near);
    return;
  }
  char words[WORDS_MAX] = "none";
  size_t at = 0;
  for (size_t i = 0; i < count && at < sizeof(words); i++)
    at += (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", i ? ", " : "", names[i]);
  findings_add(&d->findings, place, "%s \"%.60s\"; there are: %s", what, written, words);
}

static size_t keys_find_key(const struct key *keys, size_t count, const char *name)
{
  size_t i = 0;
  while (i < count && strcmp(keys[i].rule.name, name))
    i++;
  return i;
}

static bool keys_unknown_key(struct describe *d, const struct node *child, const char *what,
                             const struct key *keys, size_t count)
{
  const char *names[NAMES_MAX];
  char words[64];
  for (size_t i = 0; i < count; i++)
    names[i] = keys[i].rule.name;
  snprintf(words, sizeof(words), "%s has no key", what);
  keys_unknown(d, &child->key_place, words, child->key, names, count);
  return false;
}

static bool keys_take_scalar(struct describe *d, const struct rule *rule, const struct node *node,
                             struct taken *taken)
{
  char why[VALUE_WHY_MIN];
  if (node->type != NODE_SCALAR) {
    char words[256];
    value_type_words(rule, words, sizeof(words));
    findings_add(&d->findings, &node->place, "%s is a %s here; it takes %s", rule->name,
                 node->type == NODE_LIST ? "list" : "mapping", words);
    return false;
  }
  if (value_parse(rule, node->text, &taken->value, why, sizeof(why))) {
    findings_add(&d->findings, &node->place, "%s: %s", rule->name, why);
    return false;
  }
  taken->text = node->text;
  return true;
}

static bool keys_take_defaults(struct describe *d, const struct node *node, const char *what,
                               const struct key *keys, size_t count, struct taken *taken)
{
  bool right = true;
  for (size_t i = 0; i < count; i++) {
    const struct rule *rule = &keys[i].rule;
    char why[VALUE_WHY_MIN];
    if (taken[i].node)
      continue;
    if (keys[i].required) {
      findings_add(&d->findings, &node->place, "%s needs the key \"%s\": %s", what, rule->name,
                   rule->help);
      right = false;
    } else if (rule->default_value) {
      taken[i].text = rule->default_value;
      if (value_parse(rule, rule->default_value, &taken[i].value, why, sizeof(why)))
        right = false;
    }
  }
  return right;
}

bool keys_take(struct describe *d, const struct node *node, const char *what,
               const struct key *keys, size_t count, struct taken *taken)
{
  memset(taken, 0, count * sizeof(*taken));
  if (node->type != NODE_MAP) {
    findings_add(&d->findings, &node->place, "%s is a mapping; write \"key: value\" lines", what);
    return false;
  }
  bool right = true;
  for (const struct node *child = node->first; child; child = child->next) {
    size_t i = keys_find_key(keys, count, child->key);
    if (i == count) {
      right = keys_unknown_key(d, child, what, keys, count);
      continue;
    }
    if (child->null)
      continue;
    taken[i].node = child;
    if (keys[i].rule.type != RULE_NODE && !keys_take_scalar(d, &keys[i].rule, child, &taken[i]))
      right = false;
  }
  return keys_take_defaults(d, node, what, keys, count, taken) && right;
}

void keys_each(struct describe *d, const struct node *list, const char *what,
               void (*element)(struct describe *d, const struct node *node))
{
  if (!list)
    return;
  if (list->type != NODE_LIST) {
    findings_add(&d->findings, &list->place, "%s is a list; begin each entry with \"- \"", what);
    return;
  }
  for (const struct node *child = list->first; child; child = child->next)
    element(d, child);
}

bool keys_name(struct describe *d, const struct taken *from, char to[FAB_NAME])
{
  const char *text = from->text;
  bool right = *text && strlen(text) < FAB_NAME;
  for (const char *c = text; right && *c; c++)
    right = isalnum((unsigned char)*c) || strchr("_-.", *c);
  if (!right) {
    findings_add(&d->findings, &from->node->place,
                 "\"%.60s\" is not a name; take 1 to %d letters, digits, '_', '-' or '.'", text,
                 FAB_NAME - 1);
    return false;
  }
  strcpy(to, text);
  return true;
}
