/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that are found by number within this process, whatever device opened them. */
#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "mr.h"
#include "registry.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define BUCKETS 1024u
static struct lb_entry *entries[LB_ENTRY_KINDS][BUCKETS];
static uint64_t process_nonce[2];
static pid_t nonce_pid;
static uint64_t last_id;

/* A forked child is another process: it must not take its parent's addresses
 * for its own. */
static void lb_registry_nonce_refresh(void)
{
  if (nonce_pid == getpid())
    return;
  if (getrandom(process_nonce, sizeof(process_nonce), GRND_NONBLOCK) !=
      (ssize_t)sizeof(process_nonce)) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    process_nonce[0] = (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
    process_nonce[1] = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&now;
  }
  nonce_pid = getpid();
}

void lb_process_nonce(uint64_t nonce[2])
{
  pthread_mutex_lock(&lock);
  lb_registry_nonce_refresh();
  memcpy(nonce, process_nonce, sizeof(process_nonce));
  pthread_mutex_unlock(&lock);
}

uint64_t lb_id_new(void)
{
  pthread_mutex_lock(&lock);
  lb_registry_nonce_refresh();
  /* Distinct between processes too, as claimant holds ids of both ends; and not to be guessed by
   * a peer that means to be taken for another, or to have its memory. */
  uint64_t id = 0;
  while (id == 0)
    if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
      id = (process_nonce[0] << 32) | (++last_id & UINT32_MAX);
  pthread_mutex_unlock(&lock);
  return id;
}

void lb_registry_add(enum lb_entry_kind kind, struct lb_entry *entry)
{
  struct lb_entry **bucket = &entries[kind][entry->id % BUCKETS];
  pthread_mutex_lock(&lock);
  entry->next = *bucket;
  *bucket = entry;
  pthread_mutex_unlock(&lock);
}

void lb_registry_remove(enum lb_entry_kind kind, struct lb_entry *entry)
{
  pthread_mutex_lock(&lock);
  for (struct lb_entry **at = &entries[kind][entry->id % BUCKETS]; *at; at = &(*at)->next)
    if (*at == entry) {
      *at = entry->next;
      break;
    }
  pthread_mutex_unlock(&lock);
}

void *lb_registry_find(enum lb_entry_kind kind, uint64_t id)
{
  pthread_mutex_lock(&lock);
  struct lb_entry *entry = entries[kind][id % BUCKETS];
  while (entry && entry->id != id)
    entry = entry->next;
  if (entry)
    lb_entry_ref(entry);
  pthread_mutex_unlock(&lock);
  return entry;
}

bool lb_registry_lost(const struct pst_device *device)
{
  bool lost = false;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < BUCKETS && !lost; i++)
    for (const struct lb_entry *at = entries[LB_ENTRY_MR][i]; at && !lost; at = at->next) {
      const struct lb_mr *mr = (const struct lb_mr *)at;
      lost = mr->device == device && mr->shared_gate &&
             (lb_guard_hit(mr->gate_map.guard) || lb_guard_hit(mr->guard));
    }
  pthread_mutex_unlock(&lock);
  return lost;
}
