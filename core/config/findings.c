/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of a configuration's check: places, order, text. */
#include "findings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../util/log.h"

#define FINDING_TEXT_MAX 2048

const struct place place_default = {"default", 0, 0};

bool place_is_default(const struct place *place)
{
  return place->line == 0 && strcmp(place->source, place_default.source) == 0;
}

const char *place_text(struct arena *arena, const struct place *place)
{
  if (place->line == 0)
    return place->source;
  return arena_printf(arena, "%s:%u:%u", place->source, place->line, place->column);
}

static bool findings_same_place(const struct place *a, const struct place *b)
{
  return a->line == b->line && a->column == b->column && strcmp(a->source, b->source) == 0;
}

/* Returns whether finding a stands before b: those with a line come first, by line; the others keep
 * their order. */
static bool findings_comes_before(const struct place *a, const struct place *b)
{
  if ((a->line == 0) != (b->line == 0))
    return a->line != 0;
  return a->line != b->line ? a->line < b->line : a->column < b->column;
}

void findings_add(struct findings *findings, const struct place *place, const char *format, ...)
{
  char text[FINDING_TEXT_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  for (size_t i = 0; i < findings->kept; i++)
    if (findings_same_place(&findings->items[i].place, place) &&
        strcmp(findings->items[i].text, text) == 0)
      return;
  findings->total++;
  if (findings->kept == FINDINGS_MAX)
    return;
  const char *copy = arena_string(findings->arena, text);
  if (!copy)
    return;
  size_t at = findings->kept++;
  for (; at > 0 && findings_comes_before(place, &findings->items[at - 1].place); at--)
    findings->items[at] = findings->items[at - 1];
  findings->items[at] = (struct finding){*place, copy};
}

int findings_report(struct findings *findings, struct pst_error *error)
{
  if (findings->arena->no_memory)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM,
                    "out of memory while reading the configuration; free some, or shorten it");
  int exit_status =
      findings->unavailable == findings->total ? PST_EXIT_UNAVAILABLE : PST_EXIT_USAGE;
  for (size_t i = 0; i < findings->kept; i++) {
    const struct finding *finding = &findings->items[i];
    const char *place = place_text(findings->arena, &finding->place);
    pst_fail(error, exit_status, -EINVAL, "%s: %s", place ? place : finding->place.source,
             finding->text);
  }
  if (findings->total > findings->kept)
    pst_fail(error, PST_EXIT_USAGE, -EINVAL, "and %zu more findings; correct these first",
             findings->total - findings->kept);
  return findings->total > 0 ? -EINVAL : 0;
}
