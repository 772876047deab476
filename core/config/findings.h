/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of a configuration's check: collected, put in the file's order and reported together. */
#ifndef PST_CONFIG_FINDINGS_H
#define PST_CONFIG_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "arena.h"

#define FINDINGS_MAX 20

/* Where something was written. line 0: `source` is all there is to say. */
struct place {
  const char *source; /* the file's name, "--set path=value", "default" */
  uint32_t line;      /* from 1 */
  uint32_t column;    /* from 1, in characters */
};

struct finding {
  struct place place;
  const char *text;
};

struct findings {
  struct arena *arena;
  struct finding items[FINDINGS_MAX];
  size_t kept;
  size_t total;
  size_t unavailable; /* of them: right as written, but not to be had here */
};

/* The place of a value that nobody has written. */
extern const struct place place_default;
bool place_is_default(const struct place *place);
/* "file.yaml:12:7". NULL: no memory. */
const char *place_text(struct arena *arena, const struct place *place);
/* The same finding at the same place counts once. */
void findings_add(struct findings *findings, const struct place *place, const char *format, ...)
    PST_PRINTF(3, 4);
/* Log all of them and put them into *error. 0 when there is none; -EINVAL; -ENOMEM: the arena
 * had none. */
int findings_report(struct findings *findings, struct pst_error *error);

#endif
