/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PST_CONFIG_PRINT_H
#define PST_CONFIG_PRINT_H

#include <stdbool.h>

#include "tree.h"

/* The effective tree as YAML that reads back to the same; free() it.
 * origins: each value with where it came from, as a comment. 0; -ENOMEM. */
int print_tree(const struct node *root, bool origins, char **text);

#endif
