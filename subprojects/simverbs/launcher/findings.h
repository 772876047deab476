/* SPDX-License-Identifier: Apache-2.0 */
/* Findings about a description: collected, sorted by line, and reported together. */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FINDINGS_MAX = 20 };

/* Where something was written. line 0: `source` is all there is to say. */
struct place {
  const char *source;    /* the file's name, or the word of a command line */
  uint32_t line, column; /* from 1 */
};

struct finding {
  struct place place;
  char *text;
};

struct findings {
  struct finding items[FINDINGS_MAX];
  size_t kept, total;
  bool no_memory;
};

void findings_add(struct findings *findings, const struct place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints all findings on stderr and frees their texts. 0: none; EINVAL; ENOMEM. */
int findings_report(struct findings *findings);

#endif
