/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of operations: are they whole, and what stands where one has none. */
#ifndef PST_LOADER_OPS_H
#define PST_LOADER_OPS_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/memory.h>
#include <penstock/transport.h>

struct loader_reason;

/* Both op tables begin so; nothing but function pointers follows. */
struct ops_head {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t capabilities;
};
PST_STATIC_ASSERT(offsetof(struct pst_transport_ops, open) == sizeof(struct ops_head), "head");
PST_STATIC_ASSERT(offsetof(struct pst_memory_ops, open) == sizeof(struct ops_head), "head");

/* Are those there that a plugin must have, and those that its capabilities need? */
int ops_check(uint32_t kind, const void *ops, struct loader_reason *why);
/* A plugin's operations over a full table of refusals. */
void ops_overlay_transport(const struct pst_transport_ops *ops, struct pst_transport_ops *out);
void ops_overlay_memory(const struct pst_memory_ops *ops, struct pst_memory_ops *out);

#endif
