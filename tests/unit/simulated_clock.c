/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of all folders: simulated clock. */
#include "simulated_clock.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define THREADS_MAX 256
#define TEST_MAX_NS (10 * NS_PER_S)

/* A thread that waits by epoll_wait(). */
struct sleeper {
  int epoll_fd, wake_fd;
  bool is_waiting;
  uint64_t deadline_ns;
};

static struct {
  pthread_mutex_t mutex;
  pthread_key_t key; /* of the calling thread's sleeper: freed with the thread */
  bool has_key;
  struct sleeper *sleepers[THREADS_MAX];
  uint32_t count, expected;
} threads = {.mutex = PTHREAD_MUTEX_INITIALIZER};

_Thread_local void (*simulated_clock_before_reading)(void);
static atomic_bool is_simulated, is_alone, is_lent;
static _Atomic uint64_t now_ns, turns, skipped_ns;
static uint64_t begun_ns;

/* ---- The real ones ------------------------------------------------------------------ */

typedef int clock_function(clockid_t, struct timespec *);
typedef int wait_function(int, struct epoll_event *, int, int);

static void *real(const char *name, _Atomic(void *) *kept)
{
  void *function = atomic_load(kept);

  if (!function) {
    function = dlsym(RTLD_NEXT, name);
    if (!function)
      abort();
    atomic_store(kept, function);
  }
  return function;
}

static int real_clock(clockid_t id, struct timespec *time)
{
  static _Atomic(void *) kept;

  return ((clock_function *)real("clock_gettime", &kept))(id, time);
}

static int real_wait(int epoll_fd, struct epoll_event *events, int max, int timeout_ms)
{
  static _Atomic(void *) kept;

  return ((wait_function *)real("epoll_wait", &kept))(epoll_fd, events, max, timeout_ms);
}

static uint64_t real_ns(void)
{
  struct timespec time;

  real_clock(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec + atomic_load(&skipped_ns);
}

/* ---- Stand-ins ------------------------------------------------------------------------ */

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *time)
{
  uint64_t ns;

  if (id != CLOCK_MONOTONIC)
    return real_clock(id, time);
  if (simulated_clock_before_reading)
    simulated_clock_before_reading();
  if (!atomic_load(&is_simulated))
    ns = real_ns();
  else if (atomic_load(&is_alone))
    ns = atomic_fetch_add(&now_ns, NS_PER_MS) + NS_PER_MS;
  else
    ns = atomic_load(&now_ns);
  time->tv_sec = (time_t)(ns / NS_PER_S);
  time->tv_nsec = (long)(ns % NS_PER_S);
  return 0;
}

/* With threads.mutex held. */
static void note_count(void)
{
  atomic_store(&is_alone, threads.count == 0 && threads.expected == 0);
}

static void forget(void *argument)
{
  struct sleeper *sleeper = argument;
  uint32_t i = 0;

  pthread_mutex_lock(&threads.mutex);
  while (threads.sleepers[i] != sleeper)
    i++;
  threads.sleepers[i] = threads.sleepers[--threads.count];
  threads.expected -= threads.expected > 0;
  note_count();
  atomic_store(&is_lent, false); /* it has ended, and the test's thread goes on */
  atomic_fetch_add(&turns, 1);
  pthread_mutex_unlock(&threads.mutex);
  close(sleeper->wake_fd);
  free(sleeper);
}

static struct sleeper *sleeper_of_thread(void)
{
  struct sleeper *sleeper;

  pthread_mutex_lock(&threads.mutex);
  sleeper = pthread_getspecific(threads.key);
  if (!sleeper) {
    sleeper = calloc(1, sizeof(*sleeper));
    if (!sleeper || threads.count == THREADS_MAX || pthread_setspecific(threads.key, sleeper))
      abort();
    sleeper->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    threads.sleepers[threads.count++] = sleeper;
    note_count();
  }
  pthread_mutex_unlock(&threads.mutex);
  return sleeper;
}

/* With threads.mutex held. */
static bool are_idle(uint64_t *next_ns)
{
  uint64_t now = atomic_load(&now_ns);

  for (uint32_t i = 0; i < threads.count; i++) {
    const struct sleeper *sleeper = threads.sleepers[i];
    struct pollfd ready = {.fd = sleeper->epoll_fd, .events = POLLIN};
    if (!sleeper->is_waiting || sleeper->deadline_ns <= now || poll(&ready, 1, 0) != 0)
      return false;
    if (sleeper->deadline_ns < *next_ns)
      *next_ns = sleeper->deadline_ns;
  }
  return threads.count == threads.expected;
}

/* With threads.mutex held. */
static void wake(uint64_t until_ns)
{
  const uint64_t one = 1;

  for (uint32_t i = 0; i < threads.count; i++)
    if (threads.sleepers[i]->deadline_ns <= until_ns)
      (void)!write(threads.sleepers[i]->wake_fd, &one, sizeof(one));
}

/* With threads.mutex held. */
static bool move_to(uint64_t next_ns)
{
  if (!are_idle(&next_ns) || next_ns == UINT64_MAX)
    return false;
  atomic_store(&now_ns, next_ns);
  wake(next_ns);
  return true;
}

/* Until there is an event, or the clock has come to the deadline. */
static void sleep_simulated(struct sleeper *sleeper, int epoll_fd, uint64_t deadline_ns)
{
  struct pollfd fds[] = {{.fd = epoll_fd, .events = POLLIN},
                         {.fd = sleeper->wake_fd, .events = POLLIN}};
  uint64_t ignored;

  pthread_mutex_lock(&threads.mutex);
  sleeper->epoll_fd = epoll_fd;
  sleeper->deadline_ns = deadline_ns;
  sleeper->is_waiting = true;
  atomic_fetch_add(&turns, 1);
  pthread_mutex_unlock(&threads.mutex);
  int n = 1;
  if (deadline_ns > atomic_load(&now_ns))
    n = poll(fds, 2, atomic_load(&is_lent) ? 1 : -1);
  pthread_mutex_lock(&threads.mutex);
  if (n == 0 && atomic_load(&is_lent)) /* the thread that was to end may have ended meanwhile */
    move_to(UINT64_MAX);
  sleeper->is_waiting = false;
  atomic_fetch_add(&turns, 1);
  pthread_mutex_unlock(&threads.mutex);
  (void)!read(sleeper->wake_fd, &ignored, sizeof(ignored));
}

__attribute__((visibility("default"))) int epoll_wait(int epoll_fd, struct epoll_event *events,
                                                      int max, int timeout_ms)
{
  int n;

  if (timeout_ms == 0 || !atomic_load(&is_simulated))
    return real_wait(epoll_fd, events, max, timeout_ms);
  struct sleeper *sleeper = sleeper_of_thread();
  uint64_t deadline_ns = UINT64_MAX;
  if (timeout_ms > 0)
    deadline_ns = atomic_load(&now_ns) + (uint64_t)timeout_ms * NS_PER_MS;
  do {
    sleep_simulated(sleeper, epoll_fd, deadline_ns);
    n = real_wait(epoll_fd, events, max, 0);
  } while (n == 0 && atomic_load(&now_ns) < deadline_ns);
  return n;
}

/* ---- The test's side ------------------------------------------------------------------- */

int simulated_clock_begin(void **state)
{
  (void)state;
  if (!threads.has_key && pthread_key_create(&threads.key, forget))
    return -1;
  threads.has_key = true;
  if (threads.count)
    return -1;
  begun_ns = real_ns();
  atomic_store(&now_ns, begun_ns);
  threads.expected = 0;
  note_count();
  atomic_store(&is_simulated, true);
  return 0;
}

int simulated_clock_end(void **state)
{
  (void)state;
  atomic_store(&is_simulated, false);
  return threads.count || atomic_load(&now_ns) - begun_ns > TEST_MAX_NS ? -1 : 0;
}

void simulated_clock_skip(uint64_t ns)
{
  atomic_fetch_add(&skipped_ns, ns);
}

bool simulated_clock_runs(void)
{
  return atomic_load(&is_simulated);
}

/* By the real clock, which the kernel's TCP has: what is on its way arrives meanwhile. */
static void give_way(bool has_moved)
{
  nanosleep(&(struct timespec){.tv_nsec = has_moved ? 1000000 : 20000}, NULL);
}

void simulated_clock_meet(void)
{
  if (!atomic_load(&is_simulated))
    return;
  pthread_mutex_lock(&threads.mutex);
  uint32_t expected = ++threads.expected;
  note_count();
  while (threads.count < expected) {
    pthread_mutex_unlock(&threads.mutex);
    give_way(false);
    pthread_mutex_lock(&threads.mutex);
  }
  pthread_mutex_unlock(&threads.mutex);
}

uint64_t simulated_clock_turn(void)
{
  return atomic_load(&turns);
}

bool simulated_clock_move(uint64_t turn, uint64_t step_ns)
{
  if (!atomic_load(&is_simulated))
    return false;
  pthread_mutex_lock(&threads.mutex);
  uint64_t now = atomic_load(&now_ns);
  bool moves = atomic_load(&turns) == turn &&
               move_to(step_ns < UINT64_MAX - now ? now + step_ns : UINT64_MAX);
  pthread_mutex_unlock(&threads.mutex);
  give_way(moves);
  return moves;
}

void simulated_clock_lend(bool is_to_threads)
{
  pthread_mutex_lock(&threads.mutex);
  atomic_store(&is_lent, is_to_threads);
  wake(UINT64_MAX);
  pthread_mutex_unlock(&threads.mutex);
}
