/* SPDX-License-Identifier: Apache-2.0 */
/* Does a description keep the contract? */
#ifndef PST_LOADER_CHECK_H
#define PST_LOADER_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

struct loader_reason;

/* Checks the size of a plugin's struct. Until 1.0 another size means another ABI: -EPROTO with
 * *why. */
int check_size(const char *type, uint32_t its, size_t ours, struct loader_reason *why);
/* Checks a plugin's description. 0, or -errno with *why. */
int check_description(uint32_t kind, const char *name, const struct pst_described *described,
                      struct loader_reason *why);

#endif
