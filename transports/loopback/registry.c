/* SPDX-License-Identifier: Apache-2.0 */
/* What can be found by number within this process, whatever device opened it. */
#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "mr.h"
#include "port.h"
#include "registry.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define BUCKETS 1024u
static struct lb_link *links[BUCKETS];
static struct lb_mr *mrs[BUCKETS];
static uint64_t process_nonce[2];
static pid_t nonce_pid;
static uint64_t last_id;

/* A forked child is another process: it must not take its parent's addresses
 * for its own. */
static void nonce_refresh(void)
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
  nonce_refresh();
  memcpy(nonce, process_nonce, sizeof(process_nonce));
  pthread_mutex_unlock(&lock);
}

uint64_t lb_id_new(void)
{
  pthread_mutex_lock(&lock);
  nonce_refresh();
  /* Distinct between processes too, as claimant holds ids of both ends; and not to be guessed by
   * a peer that means to be taken for another, or to have its memory. */
  uint64_t id = 0;
  while (id == 0)
    if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
      id = (process_nonce[0] << 32) | (++last_id & UINT32_MAX);
  pthread_mutex_unlock(&lock);
  return id;
}

void lb_registry_add_link(struct lb_link *link)
{
  pthread_mutex_lock(&lock);
  link->next = links[link->id % BUCKETS];
  links[link->id % BUCKETS] = link;
  pthread_mutex_unlock(&lock);
}

void lb_registry_remove_link(struct lb_link *link)
{
  pthread_mutex_lock(&lock);
  for (struct lb_link **at = &links[link->id % BUCKETS]; *at; at = &(*at)->next)
    if (*at == link) {
      *at = link->next;
      break;
    }
  pthread_mutex_unlock(&lock);
}

struct lb_link *lb_registry_find_link(uint64_t id)
{
  pthread_mutex_lock(&lock);
  struct lb_link *link = links[id % BUCKETS];
  while (link && link->id != id)
    link = link->next;
  if (link)
    lb_link_ref(link);
  pthread_mutex_unlock(&lock);
  return link;
}

void lb_registry_add_mr(struct lb_mr *mr)
{
  pthread_mutex_lock(&lock);
  mr->next = mrs[mr->id % BUCKETS];
  mrs[mr->id % BUCKETS] = mr;
  pthread_mutex_unlock(&lock);
}

void lb_registry_remove_mr(struct lb_mr *mr)
{
  pthread_mutex_lock(&lock);
  for (struct lb_mr **at = &mrs[mr->id % BUCKETS]; *at; at = &(*at)->next)
    if (*at == mr) {
      *at = mr->next;
      break;
    }
  pthread_mutex_unlock(&lock);
}

bool lb_registry_lost(const struct pst_device *device)
{
  bool lost = false;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < BUCKETS && !lost; i++)
    for (const struct lb_mr *mr = mrs[i]; mr && !lost; mr = mr->next)
      lost = mr->device == device && mr->shared_gate &&
             (lb_guard_hit(mr->gate_guard) || lb_guard_hit(mr->guard));
  pthread_mutex_unlock(&lock);
  return lost;
}

struct lb_mr *lb_registry_find_mr(uint64_t id)
{
  pthread_mutex_lock(&lock);
  struct lb_mr *mr = mrs[id % BUCKETS];
  while (mr && mr->id != id)
    mr = mr->next;
  if (mr)
    atomic_fetch_add_explicit(&mr->refs, 1, memory_order_relaxed);
  pthread_mutex_unlock(&lock);
  return mr;
}
