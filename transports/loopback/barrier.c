/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loopback.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool expedited;

/* A registration is the process's and is inherited over fork(). */
static void register_process(void)
{
  expedited = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
              syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
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
