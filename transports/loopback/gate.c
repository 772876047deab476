/* SPDX-License-Identifier: Apache-2.0 */
/* Who is inside of a registration: its owner waits for them. */
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "loopback.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool expedited;

/* A registration is the process's and is inherited over fork(). A process of one thread has it at
 * once, one of several waits for a grace period of the kernel's, 10 ms and more: so it is made as
 * the plugin is loaded, before its program has threads. */
static void register_process(void)
{
  expedited = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
              syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

__attribute__((constructor)) static void register_early(void)
{
  pthread_once(&once, register_process);
}

bool lb_barrier_expedited(void)
{
  pthread_once(&once, register_process);
  return expedited;
}

void lb_barrier_heavy(void)
{
  atomic_thread_fence(memory_order_seq_cst);
  if (lb_barrier_expedited())
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the seats within this process */

bool lb_gate_enter(struct lb_gate *gate)
{
  atomic_fetch_add(&gate->inside, 1);
  if (atomic_load(&gate->open))
    return true;
  atomic_fetch_sub(&gate->inside, 1);
  return false;
}

void lb_seat_take(struct pst_remote *remote, struct lb_gate_page *page)
{
  if (!page) {
    pthread_mutex_lock(&lock);
    remote->seat = &remote->own_seat;
    remote->seated = remote->mr->seated;
    remote->mr->seated = remote;
    pthread_mutex_unlock(&lock);
    return;
  }
  for (uint32_t i = 0; i < LB_SEATS && !remote->seat; i++) {
    uint32_t none = 0;
    if (atomic_compare_exchange_strong(&page->seats[i].seat.taken, &none, 1))
      remote->seat = &page->seats[i].seat;
  }
}

void lb_seat_leave(struct pst_remote *remote)
{
  if (!remote->seat)
    return;
  if (remote->seat != &remote->own_seat) {
    atomic_store(&remote->seat->taken, 0);
    return;
  }
  pthread_mutex_lock(&lock);
  for (struct pst_remote **at = &remote->mr->seated; *at; at = &(*at)->seated)
    if (*at == remote) {
      *at = remote->seated;
      break;
    }
  pthread_mutex_unlock(&lock);
}

static bool is_in_use(const struct lb_gate *gate, const struct lb_gate_page *page)
{
  bool used = atomic_load(&gate->inside) != 0;
  for (uint32_t i = 0; page && i < LB_SEATS; i++)
    used |= atomic_load_explicit(&page->seats[i].seat.inside, memory_order_acquire) != 0;
  return used;
}

/* Threads of this process always come out. Whoever takes a seat later finds the gate shut. */
static void await_own(const struct lb_mr *mr)
{
  while (is_in_use(&mr->gate, NULL))
    sched_yield();
  pthread_mutex_lock(&lock);
  for (const struct pst_remote *remote = mr->seated; remote; remote = remote->seated)
    while (atomic_load_explicit(&remote->own_seat.inside, memory_order_acquire))
      sched_yield();
  pthread_mutex_unlock(&lock);
}

/* The memory is the caller's again when this returns. A process that died in there never counts
 * itself out. */
static void await_shared(const struct lb_mr *mr, uint64_t patience_ns)
{
  const struct pst_host *host = mr->device->host;
  uint64_t began = host->clock_ns(host);
  struct timespec nap = {.tv_nsec = 10000};
  while (is_in_use(&mr->shared_gate->gate, mr->shared_gate)) {
    if (host->clock_ns(host) - began > patience_ns) {
      LB_LOG(mr->device, PST_LOG_WARN,
             "a peer has not left memory that is deregistered; it died there, or is stopped");
      return;
    }
    nanosleep(&nap, NULL);
    if (nap.tv_nsec < 1000000)
      nap.tv_nsec *= 2;
  }
}

void lb_gates_shut(struct lb_mr *mr, uint64_t patience_ns)
{
  if (!(mr->access & LB_REMOTE_ACCESS))
    return; /* nobody was let in */
  atomic_store(&mr->gate.open, 0);
  if (mr->shared_gate)
    atomic_store(&mr->shared_gate->gate.open, 0);
  lb_barrier_heavy();
  await_own(mr);
  if (mr->shared_gate)
    await_shared(mr, patience_ns);
}
