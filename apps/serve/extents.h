/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of a file are there. All zero is: none. */
#ifndef APP_SERVE_EXTENTS_H
#define APP_SERVE_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#define EXTENTS_MAX 1024u /* runs with gaps between them: a sender goes from front to back */

struct extents {
  uint64_t covered; /* bytes */
  uint32_t count, room;
  struct extent {
    uint64_t begin, end;
  } * list; /* in order, with a gap between any two */
};

/* [begin, end) is there, whether or not some of it was before. 0; -ENOMEM; -ENOSPC: that
 * would be more than EXTENTS_MAX runs. */
int extents_add(struct extents *extents, uint64_t begin, uint64_t end);
/* Bytes that are there from the beginning on, up to the first gap. */
uint64_t extents_front(const struct extents *extents);
void extents_free(struct extents *extents);

#endif
