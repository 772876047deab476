/* SPDX-License-Identifier: Apache-2.0 */
/* --set path=value: a value put into the tree before it is checked. */
#ifndef PST_CONFIG_SET_H
#define PST_CONFIG_SET_H

#include "tree.h"

/* *root may be NULL and is then made. Missing mappings on the way are made too;
 * whether their names mean anything is for the check to say. */
void set_apply(struct arena *arena, struct findings *findings, const char *set, struct node **root);

#endif
