/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of a description, as lines `file:line:column: what is wrong`. */
#include "findings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void findings_add(struct findings *findings, const struct place *place, const char *format, ...)
{
  char *text = NULL;
  va_list args;

  if (findings->total++ >= FINDINGS_MAX)
    return;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    findings->no_memory = true;
  else
    findings->items[findings->kept++] = (struct finding){*place, text};
  va_end(args);
}

/* A place with a line goes before one without. */
static bool findings_in_order(const struct place *a, const struct place *b)
{
  if (a->line == 0 || b->line == 0)
    return b->line == 0;
  return a->line != b->line ? a->line < b->line : a->column <= b->column;
}

static void findings_sort(struct findings *findings)
{
  for (size_t i = 1; i < findings->kept; i++) {
    struct finding moved = findings->items[i];
    size_t at = i;
    for (; at > 0 && !findings_in_order(&findings->items[at - 1].place, &moved.place); at--)
      findings->items[at] = findings->items[at - 1];
    findings->items[at] = moved;
  }
}

int findings_report(struct findings *findings)
{
  findings_sort(findings);
  for (size_t i = 0; i < findings->kept; i++) {
    const struct finding *finding = &findings->items[i];
    if (finding->place.line)
      fprintf(stderr, "%s:%u:%u: %s\n", finding->place.source, finding->place.line,
              finding->place.column, finding->text);
    else
      fprintf(stderr, "%s: %s\n", finding->place.source, finding->text);
    free(finding->text);
  }
  if (findings->no_memory) {
    fprintf(stderr, "out of memory while reading the description; free some, or shorten it\n");
    return ENOMEM;
  }
  if (findings->total > findings->kept)
    fprintf(stderr, "and %zu more findings; correct these first\n",
            findings->total - findings->kept);
  return findings->total ? EINVAL : 0;
}
