/* SPDX-License-Identifier: Apache-2.0 */
/* Pins a thread to a CPU. */
#ifndef APP_PIN_H
#define APP_PIN_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>

/* The calling thread runs on that CPU alone; less than 0: anywhere, as it does. 0 or -errno. */
static inline int pin_thread(int cpu)
{
  cpu_set_t set;

  if (cpu < 0)
    return 0;
  if (cpu >= CPU_SETSIZE)
    return -EINVAL;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return -pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

#endif
