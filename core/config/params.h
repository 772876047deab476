/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration given as structs, as the tree that a file would have made. */
#ifndef PST_CONFIG_PARAMS_H
#define PST_CONFIG_PARAMS_H

#include <penstock/penstock.h>

#include "config.h"
#include "tree.h"

#define PARAMS_SOURCE "params"

void params_read(struct arena *arena, struct findings *findings,
                 const struct pst_config_params *params, const struct config_params_more *more,
                 struct node **root);

#endif
