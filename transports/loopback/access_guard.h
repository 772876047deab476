/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided operations pass a gate, so that memory can be taken back. */
#ifndef LOOPBACK_GATE_H
#define LOOPBACK_GATE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LB_CACHE_LINE 64

/* "I store a flag, then look at yours", against the same on the other side. The
 * hot side has the light barrier, which costs nothing when the cold side's can
 * reach into running threads (membarrier(2), expedited). */
bool lb_barrier_expedited(void);
/* The heavy barrier, for all threads of this process; `others`: also for processes with such a
 * barrier. Linux misses some CPUs of theirs: a caller that needs these looks again a little later.
 */
void lb_barrier_heavy(bool others);
static inline void lb_barrier_light(bool fenced)
{
  if (fenced)
    atomic_thread_fence(memory_order_seq_cst);
  else
    atomic_signal_fence(memory_order_seq_cst);
}

struct lb_mr;
struct pst_remote;

/* Guards remote access to a registration: an asymmetric Dekker lock. A reader or writer sets
 * `inside` of its seat, then checks `open`. The owner clears `open`, then waits for all seats. The
 * barrier between is cheap for the readers and writers, and membarrier(2) for the owner. Copies
 * that end later, and those without a seat, are counted in `inside` of the gate. */
struct lb_gate {
  _Atomic uint32_t open;
  _Atomic uint32_t inside;
  _Atomic uint32_t imports; /* by handles that keep nothing: how many have it mapped */
};

struct lb_seat {
  _Atomic uint32_t inside;
  _Atomic uint32_t taken; /* between processes: a peer has it */
};

/* Between processes, in a sealed memfd of these bytes, whatever a page is there. */
#define LB_SEATS 63u
struct lb_gate_page {
  struct lb_gate gate;
  struct {
    alignas(LB_CACHE_LINE) struct lb_seat seat;
  } seats[LB_SEATS];
};
_Static_assert(sizeof(struct lb_gate_page) == 4096, "crosses");

bool lb_gate_enter(struct lb_gate *gate); /* counted in; false: it is shut */
/* Takes a seat of the page's guard; NULL: of that of the remote's mr, which is this process's. */
void lb_seat_take(struct pst_remote *remote, struct lb_gate_page *page);
void lb_seat_leave(struct pst_remote *remote);
/* When this returns, nobody is inside, and nobody comes in. If another process has not left in
 * time, the log says so. */
void lb_gates_shut(struct lb_mr *mr);

/* Time that deregistrations of a device have waited for other processes. All of them together
 * may wait 2 s, which are restored within 32 s: a peer that never leaves delays its owner's
 * thread once, and not for each registration. */
struct lb_wait_budget {
  uint64_t spent_ns, at_ns;
};
struct pst_device;
/* Time for which one more may wait, at least 1 ms. In ns. */
uint64_t lb_wait_budget_left(struct pst_device *device);
/* Counts time that was waited. */
void lb_wait_budget_spend(struct pst_device *device, uint64_t waited_ns);

#endif
