/* SPDX-License-Identifier: Apache-2.0 */
/* Does a description keep the contract? */
#ifndef PST_LOADER_CHECK_H
#define PST_LOADER_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

struct loader_reason;

/* Until 1.0 a struct of another size is one of another ABI. */
int check_size(const char *type, uint32_t its, size_t ours, struct loader_reason *why);
int check_description(uint32_t kind, const char *name, const struct pst_described *described,
                      struct loader_reason *why);

#endif
