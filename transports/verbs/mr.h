/* SPDX-License-Identifier: Apache-2.0 */
/* Regions and parts of them, registered with a protection domain. */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include <infiniband/verbs.h>
#include <penstock/memory.h>
#include <penstock/transport.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Those of one protection domain. Registering takes milliseconds for a GPU's memory, and each
 * counts against the locked-memory limit: a range that is registered with the same rights already
 * is taken once more, not registered again, where both may be shared. None outlives who has it, and
 * regions outlive their registrations, so that what is found is never of memory that was given
 * back.
 */
struct vb_mrs {
  struct ibv_pd *pd;
  uint32_t max;      /* the device's max_mr; 0: it does not say */
  atomic_uint *held; /* registrations of the device, in all of its protection domains */
  pthread_mutex_t lock;
  struct vb_shared *shared;
};
void vb_mrs_open(struct vb_mrs *mrs, struct ibv_pd *pd, int max, atomic_uint *held);
/* All are closed. */
void vb_mrs_close(struct vb_mrs *mrs);

/* Memory to register, for free(): on pages of its own, since a forked process may lose those. NULL:
 * there is none. */
void *vb_pages_alloc(size_t bytes);

struct vb_mr {
  struct ibv_mr *mr;
  struct vb_mrs *mrs;
  struct vb_shared *shared; /* NULL: its own */
  uint64_t address;         /* of its first byte, for local use and as the peer's remote address */
  uint32_t path;            /* enum pst_path */
  char via[48];
};

/*
 * Register [offset, offset + length) of a region with `access` (enum ibv_access_flags). Host
 * memory: ibv_reg_mr(). Device memory, in this order: by a dma-buf of the range, by ibv_reg_mr() of
 * its address (nvidia-peermem), by its host mapping. Each refusal is kept with its reason. A driver
 * that takes no dma-buf with relaxed ordering gets it without. `may_share`: with others of this
 * range and these rights; a remote right is then revoked when the last of them is closed. Any
 * thread.
 *
 * 0; -EOPNOTSUPP: no way into this memory: `reason` says which were tried, and a line at level
 * info, which has room for all; -ENOMEM and others of host memory, logged with the remedy.
 */
int vb_mr_register(const struct pst_host *host, struct vb_mrs *mrs, const struct pst_region *region,
                   uint64_t offset, uint64_t length, int access, bool may_share, struct vb_mr *out,
                   char reason[160]);
void vb_mr_close(struct vb_mr *mr);

/* Registers a buffer of the transport's own by ibv_reg_mr(), counted. NULL with errno. */
struct ibv_mr *vb_pin(struct vb_mrs *mrs, void *address, size_t length, int access);
/* Takes back vb_pin(). */
void vb_unpin(struct vb_mrs *mrs, struct ibv_mr *mr);
/* Why ibv_reg_mr() failed, with the remedy: which limit it is, as far as it can be told. */
void vb_mr_refusal(const struct vb_mrs *mrs, int error, uint64_t length, char *text, size_t size);

/* memlock.c: what keeps this process from having memory pinned: which limit it is, or that it is
 * none. As the kernel judges in ib_umem_get(): the pages that all registrations and queues of this
 * process have pinned, against RLIMIT_MEMLOCK, unless it has CAP_IPC_LOCK outside of any user
 * namespace. Memory that mlock() locked (VmLck) is counted separately. */
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
