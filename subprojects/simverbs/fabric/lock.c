/* SPDX-License-Identifier: Apache-2.0 */
/* Locks in shared memory that outlive whoever holds them. */
#include "fabric.h"

#include <errno.h>
#include <stdlib.h>

void fab_lock_init(pthread_mutex_t *lock)
{
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(lock, &attr);
  pthread_mutexattr_destroy(&attr);
}

bool fab_lock(pthread_mutex_t *lock)
{
  int error = pthread_mutex_lock(lock);
  if (error == EOWNERDEAD) {
    pthread_mutex_consistent(lock);
    return true;
  }
  if (error) {
    fab_log(1, "a lock of the fabric is broken: %s", strerror(error));
    abort();
  }
  return false;
}

void fab_unlock(pthread_mutex_t *lock)
{
  pthread_mutex_unlock(lock);
}
