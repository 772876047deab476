/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps this process from having memory pinned: which limit it is, or that it is none. */
#ifndef VERBS_MEMLOCK_H
#define VERBS_MEMLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the kernel judges in ib_umem_get(): the pages that all registrations and queues of this
 * process have pinned, against RLIMIT_MEMLOCK, unless it has CAP_IPC_LOCK outside of any user
 * namespace. What mlock() locked (VmLck) is counted by itself. */
struct vb_memlock {
  uint64_t limit;     /* bytes; UINT64_MAX: none */
  uint64_t pinned;    /* bytes: VmPin of /proc/self/status */
  bool is_privileged; /* the limit is not this process's */
};

/* Never fails: what /proc does not tell is 0 and false. */
void vb_memlock_read(struct vb_memlock *now);
/* Whether `wanted` bytes more, in whole pages, are more than there may be. */
bool vb_memlock_exceeded(const struct vb_memlock *now, uint64_t wanted);
/* With exceeded: the cause and the remedy. */
void vb_memlock_words(const struct vb_memlock *now, uint64_t wanted, char *text, size_t size);
/* Without: why it is not the limit. */
void vb_memlock_innocent(const struct vb_memlock *now, char *text, size_t size);

/* For a call that may pin memory of an amount that the provider alone knows (a queue):
 * ", or raise …" where its error can be the limit's, else "". */
const char *vb_memlock_hint(int error, char text[160]);

#endif
