/* SPDX-License-Identifier: Apache-2.0 */
/* What both ends must have the same: pairs of a key and a value. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "terms.h"

static const struct control_pair *pair_of(const struct control_pair *pairs, uint32_t count,
                                          const char *key)
{
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(pairs[i].key, key) == 0)
      return &pairs[i];
  }
  return NULL;
}

static const char *value_of(const struct control_pair *pairs, uint32_t count, const char *key)
{
  const struct control_pair *pair = pair_of(pairs, count, key);

  return pair ? pair->value : NULL;
}

static void add_difference(char *text, size_t size, const char *key, const char *sender,
                           const char *receiver, const char *const ends[2])
{
  size_t at = strlen(text);

  snprintf(text + at, size - at, "%s%s: %s %s, %s %s", at ? "; " : "", key, ends[0],
           sender ? sender : "has none", ends[1], receiver ? receiver : "has none");
}

/* "udp (wire form penstock-datagram)" */
static const char *transport_words(const struct control_pair *terms, uint32_t count, char *text,
                                   size_t size)
{
  const char *name = value_of(terms, count, CONTROL_TERM_TRANSPORT);
  const char *wire = value_of(terms, count, CONTROL_TERM_WIRE);

  if (!wire || !name || strcmp(wire, name) == 0)
    return wire;
  snprintf(text, size, "%s (wire form %s)", name, wire);
  return text;
}

static bool is_option(const char *key)
{
  return strncmp(key, CONTROL_TERM_OPTION, strlen(CONTROL_TERM_OPTION)) == 0;
}

/* One line tells of both. */
static bool names_transport(const char *key)
{
  return strcmp(key, CONTROL_TERM_WIRE) == 0 || strcmp(key, CONTROL_TERM_TRANSPORT) == 0;
}

bool terms_compare(const struct terms *terms, const struct wire_message *offer,
                   const char *const ends[2], char *text, size_t size)
{
  const char *const wire = value_of(terms->pairs, terms->count, CONTROL_TERM_WIRE);
  const char *const its_wire = value_of(offer->terms, offer->term_count, CONTROL_TERM_WIRE);
  const bool one_wire = wire && its_wire ? strcmp(wire, its_wire) == 0 : wire == its_wire;
  char words[2][2 * CONTROL_VALUE_MAX + 32];
  const struct control_pair *other;

  text[0] = '\0';
  if (!one_wire)
    add_difference(text, size, CONTROL_TERM_TRANSPORT,
                   transport_words(offer->terms, offer->term_count, words[0], sizeof(words[0])),
                   transport_words(terms->pairs, terms->count, words[1], sizeof(words[1])), ends);
  for (uint32_t i = 0; i < offer->term_count; i++) {
    const struct control_pair *theirs = &offer->terms[i];
    other = pair_of(terms->pairs, terms->count, theirs->key);
    if (names_transport(theirs->key) || (is_option(theirs->key) && (!one_wire || !other)))
      continue;
    if (!other || strcmp(other->value, theirs->value) != 0)
      add_difference(text, size, theirs->key, theirs->value, other ? other->value : NULL, ends);
  }
  for (uint32_t i = 0; i < terms->count; i++) {
    const struct control_pair *ours = &terms->pairs[i];
    if (!names_transport(ours->key) && !is_option(ours->key) &&
        !pair_of(offer->terms, offer->term_count, ours->key))
      add_difference(text, size, ours->key, NULL, ours->value, ends);
  }
  return text[0] == '\0';
}

int terms_copy(const struct control_pair *from, uint32_t count, struct terms *to)
{
  to->pairs = calloc(count ? count : 1, sizeof *to->pairs);
  if (!to->pairs)
    return -ENOMEM;
  if (count > 0)
    memcpy(to->pairs, from, count * sizeof *to->pairs);
  to->count = count;
  return 0;
}

void terms_free(struct terms *terms)
{
  free(terms->pairs);
}
