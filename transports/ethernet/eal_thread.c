/* SPDX-License-Identifier: Apache-2.0 */
/* Alarms of DPDK, which its interrupt thread runs. */
#include "eal_thread.h"

#include <stdbool.h>
#include <unistd.h>

#include <rte_alarm.h>

struct job {
  void (*work)(void *arg);
  void *arg;
  bool is_over;
};

static void eth_eal_ring(void *arg)
{
  struct job *job = arg;

  job->work(job->arg);
  __atomic_store_n(&job->is_over, true, __ATOMIC_RELEASE);
}

void eal_thread_run(void (*work)(void *arg), void *arg)
{
  struct job job = {work, arg, false};

  if (rte_eal_alarm_set(1, eth_eal_ring, &job) != 0) {
    work(arg);
    return;
  }
  while (!__atomic_load_n(&job.is_over, __ATOMIC_ACQUIRE))
    usleep(100);
}
