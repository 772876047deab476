/* SPDX-License-Identifier: Apache-2.0 */
/* Counts accesses to a registration, so that its owner can wait for them. */
#include <assert.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "mr.h"
#include "remote.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool expedited;

/* A registration is the process's and is inherited over fork(). A process of one thread has it at
 * once, one of several waits for a grace period of the kernel's, 10 ms and more: so it is made as
 * the plugin is loaded, before its program has threads. */
static void lb_gate_register_process(void)
{
  expedited = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
              syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0 &&
              syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
              syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

__attribute__((constructor)) static void lb_gate_register_early(void)
{
  pthread_once(&once, lb_gate_register_process);
}

bool lb_barrier_expedited(void)
{
  pthread_once(&once, lb_gate_register_process);
  return expedited;
}

/* Linux (6.18) keeps for each CPU whether the process there has registered for the global barrier,
 * and looks at that anew where the CPU goes from one address space to another. A CPU that had ours
 * before the registration, slept since and then runs a thread of ours has not: the barrier passes
 * it by. The private one looks at the address space itself. */
void lb_barrier_heavy(bool others)
{
  atomic_thread_fence(memory_order_seq_cst);
  if (!lb_barrier_expedited())
    return;
  if (others)
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the seats within this process */
static pthread_mutex_t patience_lock = PTHREAD_MUTEX_INITIALIZER; /* of each device's */

#define LEAVE_NS UINT64_C(2000000000) /* many times what the longest copy takes */
#define LEAVE_LEAST_NS UINT64_C(1000000)
#define LEAVE_BACK 16 /* this part of the time that has passed comes back */

/* Under the lock. */
static void lb_gate_patience_come_back(struct pst_device *device)
{
  struct lb_wait_budget *patience = &device->patience;
  const uint64_t now = device->host->clock_ns(device->host);
  const uint64_t back = (now - patience->at_ns) / LEAVE_BACK;
  patience->spent_ns -= back < patience->spent_ns ? back : patience->spent_ns;
  patience->at_ns = now;
}

uint64_t lb_wait_budget_left(struct pst_device *device)
{
  pthread_mutex_lock(&patience_lock);
  lb_gate_patience_come_back(device);
  const uint64_t spent = device->patience.spent_ns;
  pthread_mutex_unlock(&patience_lock);
  return spent + LEAVE_LEAST_NS < LEAVE_NS ? LEAVE_NS - spent : LEAVE_LEAST_NS;
}

void lb_wait_budget_spend(struct pst_device *device, uint64_t waited_ns)
{
  pthread_mutex_lock(&patience_lock);
  lb_gate_patience_come_back(device);
  device->patience.spent_ns += waited_ns;
  pthread_mutex_unlock(&patience_lock);
}

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
  assert(atomic_load(&remote->own_seat.inside) == 0);
  for (struct pst_remote **at = &remote->mr->seated; *at; at = &(*at)->seated)
    if (*at == remote) {
      *at = remote->seated;
      break;
    }
  pthread_mutex_unlock(&lock);
}

static bool lb_gate_is_in_use(const struct lb_gate *gate, const struct lb_gate_page *page)
{
  bool used = atomic_load(&gate->inside) != 0;
  for (uint32_t i = 0; page && i < LB_SEATS; i++)
    used |= atomic_load_explicit(&page->seats[i].seat.inside, memory_order_acquire) != 0;
  return used;
}

/* Waits for the threads of this process, which always leave. A thread that takes a seat later finds
 * the gate shut. */
static void lb_gate_await_own(const struct lb_mr *mr)
{
  while (lb_gate_is_in_use(&mr->gate, NULL))
    sched_yield();
  pthread_mutex_lock(&lock);
  for (const struct pst_remote *remote = mr->seated; remote; remote = remote->seated)
    while (atomic_load_explicit(&remote->own_seat.inside, memory_order_acquire))
      sched_yield();
  pthread_mutex_unlock(&lock);
}

/* The memory is the caller's again when this returns. A process that died in there never counts
 * itself out. */
static void lb_gate_await_shared(const struct lb_mr *mr)
{
  const struct pst_host *host = mr->device->host;
  if (!lb_gate_is_in_use(&mr->shared_gate->gate, mr->shared_gate))
    return;
  const uint64_t began = host->clock_ns(host), patience_ns = lb_wait_budget_left(mr->device);
  uint64_t waited_ns = 0;
  struct timespec nap = {.tv_nsec = 10000};
  while (lb_gate_is_in_use(&mr->shared_gate->gate, mr->shared_gate) && waited_ns <= patience_ns) {
    nanosleep(&nap, NULL);
    if (nap.tv_nsec < 1000000)
      nap.tv_nsec *= 2;
    waited_ns = host->clock_ns(host) - began;
  }
  lb_wait_budget_spend(mr->device, waited_ns);
  if (waited_ns > patience_ns && lb_gate_is_in_use(&mr->shared_gate->gate, mr->shared_gate))
    LB_LOG(mr->device, PST_LOG_WARN,
           "a peer still uses deregistered memory after %" PRIu64
           " ms; it died there, or is stopped: end it before this memory is used for anything else",
           waited_ns / 1000000);
}

/* Has another process a way in? */
static bool lb_gate_is_known(const struct lb_gate_page *page)
{
  bool known = atomic_load(&page->gate.imports) != 0;
  for (uint32_t i = 0; i < LB_SEATS && !known; i++)
    known = atomic_load(&page->seats[i].seat.taken) != 0;
  return known;
}

void lb_gates_shut(struct lb_mr *mr)
{
  /* For a peer that goes in on a CPU that the barrier missed: many times what a store needs to be
   * seen. */
  const struct timespec settle = {.tv_nsec = 50000};
  if (!(mr->access & LB_REMOTE_ACCESS))
    return; /* nobody was let in */
  atomic_store(&mr->gate.open, 0);
  if (mr->shared_gate)
    atomic_store(&mr->shared_gate->gate.open, 0);
  lb_barrier_heavy(mr->shared_gate != NULL);
  lb_gate_await_own(mr);
  if (mr->shared_gate && lb_gate_is_known(mr->shared_gate))
    nanosleep(&settle, NULL);
  if (mr->shared_gate)
    lb_gate_await_shared(mr);
}
