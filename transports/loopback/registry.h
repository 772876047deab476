/* SPDX-License-Identifier: Apache-2.0 */
/* Links and registrations that others in this process may find by number. */
#ifndef LOOPBACK_REGISTRY_H
#define LOOPBACK_REGISTRY_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pst_device;

/* The first member of a struct lb_link and of a struct lb_mr. */
struct lb_entry {
  _Atomic uint32_t refs;
  uint64_t id;
  struct lb_entry *next; /* in the registry */
};
enum lb_entry_kind { LB_ENTRY_LINK, LB_ENTRY_MR, LB_ENTRY_KINDS };

static inline void lb_entry_ref(struct lb_entry *entry)
{
  atomic_fetch_add_explicit(&entry->refs, 1, memory_order_relaxed);
}
/* True: that was the last reference. */
static inline bool lb_entry_unref(struct lb_entry *entry)
{
  const uint32_t refs = atomic_fetch_sub_explicit(&entry->refs, 1, memory_order_acq_rel);
  assert(refs);
  return refs == 1;
}

int lb_process_open(void); /* a pidfd, or -errno */
uint64_t lb_id_new(void);
void lb_process_nonce(uint64_t nonce[2]);
void lb_registry_add(enum lb_entry_kind kind, struct lb_entry *entry);
void lb_registry_remove(enum lb_entry_kind kind, struct lb_entry *entry);
void *lb_registry_find(enum lb_entry_kind kind, uint64_t id); /* a new reference, or NULL */
/* Has a range of the device's that others have been offered been taken away? */
bool lb_registry_lost(const struct pst_device *device);

#endif
