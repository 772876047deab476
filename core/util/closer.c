/* SPDX-License-Identifier: Apache-2.0 */
/* Closes descriptors that others passed, on threads that may block. */
#include "closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

/* So many closes may wait at a time before those behind them wait too. */
#define THREADS_MAX 16
/* A close that takes this long is left to its thread, and another thread goes on with the rest. */
#define STUCK_NS (20 * PST_NS_PER_MS)
#define STACK_BYTES (128u * 1024)
#define IDLE_NS (5 * PST_NS_PER_S)
/* The closer is behind when a descriptor has waited this long for a thread, or when this part of
 * all descriptors waits. */
#define PATIENCE_NS PST_NS_PER_S
#define LIMIT_PART 4
#define PENDING_MAX 4096

struct job {
  struct job *next;
  uint64_t since_ns;
  int fd;
};

/* One thread closes, and one waits to take over from it. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t more;
  struct job *first, **end;
  uint32_t pending;          /* queued, or being closed */
  uint32_t threads, waiting; /* a thread that begins counts as waiting */
  uint64_t turn;             /* of the thread that closes: those before are stuck */
  bool is_closing;
  uint64_t taken_ns;
} closer = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .end = &closer.first};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void closer_lock(void)
{
  pthread_mutex_lock(&closer.mutex);
}

static void closer_unlock(void)
{
  pthread_mutex_unlock(&closer.mutex);
}

/* A forked child has none of the threads. The queue is the child's own copy, for the next
 * thread. */
static void closer_forget_threads(void)
{
  closer.pending = 0;
  for (const struct job *job = closer.first; job; job = job->next)
    closer.pending++;
  pthread_mutex_init(&closer.mutex, NULL);
  pthread_cond_init(&closer.more, NULL);
  closer.threads = closer.waiting = 0;
  closer.is_closing = false;
}

static void closer_begin(void)
{
  pthread_atfork(closer_lock, closer_unlock, closer_forget_threads);
}

static void *closer_run(void *argument);

/* Nobody joins it: it may never return from a close. */
static bool closer_start_thread(void)
{
  pthread_attr_t attributes;
  sigset_t all, before;
  pthread_t thread;

  if (pthread_attr_init(&attributes) != 0)
    return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&thread, &attributes, closer_run, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

/* Under the mutex, as those below are called. */
static void closer_keep_one_waiting(void)
{
  if (closer.waiting > 0 || closer.threads >= THREADS_MAX || !closer_start_thread())
    return;
  closer.threads++;
  closer.waiting++;
}

static void closer_wait_until(uint64_t until_ns)
{
  const struct timespec until = {.tv_sec = (time_t)(until_ns / PST_NS_PER_S),
                                 .tv_nsec = (long)(until_ns % PST_NS_PER_S)};

  pthread_cond_clockwait(&closer.more, &closer.mutex, CLOCK_MONOTONIC, &until);
}

/* NULL: nothing came for a while. */
static struct job *closer_take(void)
{
  uint64_t idle_ns = clock_now_ns() + IDLE_NS;

  for (;;) {
    uint64_t now_ns = clock_now_ns();
    if (closer.first && (!closer.is_closing || now_ns >= closer.taken_ns + STUCK_NS))
      break;
    if (!closer.first && now_ns >= idle_ns)
      return NULL;
    closer_wait_until(closer.first ? closer.taken_ns + STUCK_NS : idle_ns);
  }
  struct job *job = closer.first;
  closer.first = job->next;
  if (!closer.first)
    closer.end = &closer.first;
  closer.is_closing = true;
  closer.taken_ns = clock_now_ns();
  return job;
}

/* The last close of a socket that lingers waits for its peer. Other kinds have no such option. */
static void closer_close_now(int fd)
{
  const struct linger off = {0};

  setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
  close(fd);
}

static void *closer_run(void *argument)
{
  struct job *job;

  pthread_setname_np(pthread_self(), "pst-close");
  pthread_mutex_lock(&closer.mutex);
  while ((job = closer_take())) {
    const uint64_t turn = ++closer.turn;
    const int fd = job->fd;
    free(job); /* a close may last longer than the process */
    closer.waiting--;
    closer_keep_one_waiting();
    if (closer.first)
      pthread_cond_signal(&closer.more);
    pthread_mutex_unlock(&closer.mutex);
    closer_close_now(fd);
    pthread_mutex_lock(&closer.mutex);
    closer.pending--;
    if (closer.turn == turn)
      closer.is_closing = false;
    closer.waiting++;
  }
  closer.waiting--;
  closer.threads--;
  pthread_mutex_unlock(&closer.mutex);
  return argument;
}

void closer_close(int fd)
{
  struct job *job = fd >= 0 ? malloc(sizeof(*job)) : NULL;
  bool is_queued = false;

  if (fd < 0)
    return;
  pthread_once(&once, closer_begin);
  pthread_mutex_lock(&closer.mutex);
  if (job)
    closer_keep_one_waiting();
  if (job && closer.threads > 0) {
    *job = (struct job){.since_ns = clock_now_ns(), .fd = fd};
    closer.pending++;
    *closer.end = job;
    closer.end = &job->next;
    is_queued = true;
    pthread_cond_signal(&closer.more);
  }
  pthread_mutex_unlock(&closer.mutex);
  if (is_queued)
    return;
  free(job);
  closer_close_now(fd);
}

bool closer_is_behind(void)
{
  struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
  uint64_t now_ns = clock_now_ns();

  getrlimit(RLIMIT_NOFILE, &limit);
  uint64_t most =
      limit.rlim_cur / LIMIT_PART < PENDING_MAX ? limit.rlim_cur / LIMIT_PART : PENDING_MAX;
  pthread_mutex_lock(&closer.mutex);
  bool is_late = closer.first && now_ns > closer.first->since_ns + PATIENCE_NS;
  bool is_behind = is_late || closer.pending >= most;
  pthread_mutex_unlock(&closer.mutex);
  return is_behind;
}
