/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files as peers may say them: relative, parts joined by '/'. */
#ifndef APP_SERVE_NAMES_H
#define APP_SERVE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define NAMES_PART_SUFFIX ".penstock-part"
/* So that ".NAME.penstock-part" is one that file systems take. */
#define NAMES_BYTES_MAX 240u /* of what stands between two slashes */

/* Copies a legal name and ends it by NUL. 0; -EINVAL with *why: the rule that it breaks, in
 * words; -ENAMETOOLONG likewise. `name` has room for SERVE_NAME_MAX + 1. */
int names_check(const uint8_t *bytes, size_t length, char *name, const char **why);

/* The same for one part of a name: no '/'. */
int names_check_part(const uint8_t *bytes, size_t length, char *name, const char **why);

/* What a transfer that is under way, or was interrupted, writes to. */
bool names_is_part(const uint8_t *bytes, size_t length);
/* Bytes of the control character at the head: ASCII's, or U+0080 to U+009F as UTF-8. 0: none. A
 * name is bytes, so what else is no UTF-8, or turns the direction of writing, is legal. */
size_t names_control(const uint8_t *bytes, size_t length);

#endif
