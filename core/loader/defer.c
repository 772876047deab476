/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred works of a plugin: those of one key in order, those of different keys side by side. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "defer.h"
#include "util/log.h"

struct work {
  struct work *next;
  const void *key;
  void (*run)(void *arg);
  void *arg;
};

/* A thread of the host's, for one work at a time. */
struct defer_thread {
  struct defer *defer;
  pthread_t thread;
  const void *key; /* of the work that it runs */
  bool is_running;
};

struct defer {
  const char *label;
  pthread_mutex_t mutex;
  pthread_cond_t work_came, work_done;
  struct work *first, **end;
  struct defer_thread threads[LOADER_DEFER_THREADS];
  uint32_t thread_count, running;
  uint32_t idle, woken; /* threads that wait for work, and how many of these have been woken */
};

/* Up to defer_add() the mutex is held, but while a work runs. */
static bool defer_key_runs(const struct defer *defer, const void *key)
{
  for (uint32_t i = 0; i < defer->thread_count; i++)
    if (defer->threads[i].is_running && defer->threads[i].key == key)
      return true;
  return false;
}

static bool defer_key_waits(const struct defer *defer, const void *key)
{
  for (const struct work *work = defer->first; work; work = work->next)
    if (work->key == key)
      return true;
  return false;
}

/* The first whose key is not at work. */
static struct work *defer_take(struct defer *defer)
{
  for (struct work **at = &defer->first; *at; at = &(*at)->next) {
    struct work *work = *at;

    if (defer_key_runs(defer, work->key))
      continue;
    *at = work->next;
    if (!*at)
      defer->end = at;
    return work;
  }
  return NULL;
}

static void defer_run(struct defer_thread *thread, struct work *work)
{
  struct defer *defer = thread->defer;

  thread->key = work->key;
  thread->is_running = true;
  defer->running++;
  pthread_mutex_unlock(&defer->mutex);
  work->run(work->arg);
  free(work);
  pthread_mutex_lock(&defer->mutex);
  thread->is_running = false;
  defer->running--;
  pthread_cond_broadcast(&defer->work_done);
}

static void *defer_loop(void *arg)
{
  struct defer_thread *thread = arg;
  struct defer *defer = thread->defer;

  pthread_mutex_lock(&defer->mutex);
  for (;;) {
    struct work *work = defer_take(defer);

    if (work) {
      defer_run(thread, work);
      continue;
    }
    defer->idle++;
    pthread_cond_wait(&defer->work_came, &defer->mutex);
    defer->idle--;
    if (defer->woken)
      defer->woken--;
  }
  return NULL;
}

/* Signals belong to the program's own threads; a thread lives as long as the
 * process, as the plugin does. 0, or an errno. */
static int defer_start_thread(struct defer *defer)
{
  struct defer_thread *thread = &defer->threads[defer->thread_count];
  sigset_t all, before;
  int rc;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  rc = pthread_create(&thread->thread, NULL, defer_loop, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc == 0) {
    pthread_detach(thread->thread);
    defer->thread_count++;
  }
  return rc;
}

/* One more work can run: by a thread that waits, or a new one, or by the next that is done.
 * -ENOMEM: there is no thread at all. */
static int defer_employ(struct defer *defer)
{
  if (defer->idle > defer->woken) {
    defer->woken++;
    pthread_cond_signal(&defer->work_came);
    return 0;
  }
  if (defer->thread_count == LOADER_DEFER_THREADS)
    return 0;
  int rc = defer_start_thread(defer);
  if (defer->thread_count)
    return 0;
  pst_log(PST_LOG_ERROR,
          "%s: no thread for deferred work: %s; raise the limit of processes (ulimit -u)",
          defer->label, strerror(rc));
  return -ENOMEM;
}

int defer_add(struct defer *defer, const void *key, void (*run)(void *arg), void *arg)
{
  struct work *work = malloc(sizeof(*work));
  int rc = 0;

  if (!work)
    return -ENOMEM;
  *work = (struct work){.key = key, .run = run, .arg = arg};
  pthread_mutex_lock(&defer->mutex);
  if (!defer_key_runs(defer, key) && !defer_key_waits(defer, key))
    rc = defer_employ(defer);
  if (rc == 0) {
    *defer->end = work;
    defer->end = &work->next;
    work = NULL;
  }
  pthread_mutex_unlock(&defer->mutex);
  free(work);
  return rc;
}

void defer_drain(struct defer *defer)
{
  bool is_own = false;

  pthread_mutex_lock(&defer->mutex);
  /* A work that closes its own device would wait for itself. */
  for (uint32_t i = 0; i < defer->thread_count; i++)
    is_own |= pthread_equal(defer->threads[i].thread, pthread_self()) != 0;
  while (!is_own && (defer->first || defer->running))
    pthread_cond_wait(&defer->work_done, &defer->mutex);
  pthread_mutex_unlock(&defer->mutex);
}

struct defer *defer_new(const char *label)
{
  struct defer *defer = calloc(1, sizeof(*defer));

  if (!defer)
    return NULL;
  defer->label = label;
  defer->end = &defer->first;
  pthread_mutex_init(&defer->mutex, NULL);
  pthread_cond_init(&defer->work_came, NULL);
  pthread_cond_init(&defer->work_done, NULL);
  for (uint32_t i = 0; i < LOADER_DEFER_THREADS; i++)
    defer->threads[i].defer = defer;
  return defer;
}
