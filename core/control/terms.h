/* SPDX-License-Identifier: Apache-2.0 */
/* What both ends must have the same: pairs of a key and a value. */
#ifndef PST_CONTROL_TERMS_H
#define PST_CONTROL_TERMS_H

#include "control.h"
#include "wire.h"

struct terms {
  struct control_pair *pairs; /* ours */
  uint32_t count;
};

/* What differs, in words; the connector's are the `sender`'s. "": nothing. */
bool terms_compare(const struct terms *terms, const struct wire_message *offer,
                   const char *const ends[2], char *text, size_t size);
int terms_copy(const struct control_pair *from, uint32_t count, struct terms *to);
void terms_free(struct terms *terms);

#endif
