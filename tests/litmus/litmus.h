/* SPDX-License-Identifier: Apache-2.0 */
/* C's atomic operations on Relacy's types, so that a source's own functions run under a relaxed
 * memory model; and the runs, in which an order may be taken away. */
#ifndef LITMUS_H
#define LITMUS_H

#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iostream>
#include <unistd.h>

#include <relacy/relacy.hpp>

#undef free
#undef calloc
#undef assert
#define assert(condition) RL_ASSERT(condition)

/* The memory order that a run leaves out. */
enum weakening {
  WEAK_NOTHING,
  WEAK_RELEASE, /* stores and read-modify-writes publish nothing */
  WEAK_ACQUIRE, /* loads and read-modify-writes see nothing that was published */
  WEAK_FENCE,   /* fences are none */
  WEAK_TOTAL,   /* seq_cst is acquire and release: no total order */
  WEAK_RMW,     /* a read-modify-write is a load, then a store */
};
extern enum weakening weakened;

enum operation { LOAD, STORE, RMW };

static inline rl::memory_order litmus_order(int order, enum operation operation)
{
  bool acquires = operation != STORE && order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
  bool releases = operation != LOAD && order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE;

  if (order == __ATOMIC_SEQ_CST && weakened != WEAK_TOTAL && weakened != WEAK_RELEASE &&
      weakened != WEAK_ACQUIRE)
    return rl::mo_seq_cst;
  acquires = acquires && weakened != WEAK_ACQUIRE;
  releases = releases && weakened != WEAK_RELEASE;
  return acquires && releases ? rl::mo_acq_rel
         : acquires           ? rl::mo_acquire
         : releases           ? rl::mo_release
                              : rl::mo_relaxed;
}

/* `_Atomic T`; named without an operation, it is loaded or stored with seq_cst, as C has it. */
template <typename T> struct atomic : rl::atomic<T> {
  operator T() const
  {
    return this->load(litmus_order(__ATOMIC_SEQ_CST, LOAD), $);
  }
};
/* A field that gcc's __atomic builtins share; its one writer reads it plainly. */
template <typename T> struct shared : rl::atomic<T> {
  shared() = default;
  shared(T value)
  {
    this->store(value, rl::mo_relaxed, $);
  }
  operator T() const
  {
    return this->load(rl::mo_relaxed, $);
  }
  T operator->() const
  {
    return this->load(rl::mo_relaxed, $);
  }
};
/* A field that nobody may touch beside its writer. */
template <typename T> struct plain {
  mutable rl::var<T> at;

  plain() = default;
  plain(const plain &from)
  {
    *this = (T)from;
  }
  operator T() const
  {
    return at($).load();
  }
  T operator->() const
  {
    return at($).load();
  }
  T operator=(T value)
  {
    at($).store(value);
    return value;
  }
  plain &operator=(const plain &from)
  {
    *this = (T)from;
    return *this;
  }
};

typedef atomic<bool> atomic_bool;
typedef atomic<int> atomic_int;
typedef atomic<unsigned> atomic_uint;
#define memory_order_relaxed __ATOMIC_RELAXED
#define memory_order_acquire __ATOMIC_ACQUIRE
#define memory_order_release __ATOMIC_RELEASE
#define memory_order_acq_rel __ATOMIC_ACQ_REL
#define memory_order_seq_cst __ATOMIC_SEQ_CST

template <typename T> T atomic_load_explicit(const rl::atomic<T> *at, int order)
{
  return at->load(litmus_order(order, LOAD), $);
}
template <typename T, typename V> void atomic_store_explicit(rl::atomic<T> *at, V value, int order)
{
  at->store((T)value, litmus_order(order, STORE), $);
}
template <typename T> bool litmus_cas(rl::atomic<T> *at, T *expected, T value, int order)
{
  if (weakened == WEAK_RMW) {
    const T found = at->load(litmus_order(order, LOAD), $);
    const bool is_same = found == *expected;
    *expected = found;
    if (is_same)
      at->store(value, litmus_order(order, STORE), $);
    return is_same;
  }
  return at->compare_exchange_strong(*expected, value, litmus_order(order, RMW), $);
}
/* Does a read-modify-write in its parts: a load, and compare-and-swaps until one succeeds. */
template <typename T, typename F> T litmus_rmw(rl::atomic<T> *at, F change, int order)
{
  T found = at->load(weakened == WEAK_RMW ? litmus_order(order, LOAD) : rl::mo_relaxed, $);

  while (!litmus_cas(at, &found, (T)change(found), order))
    ;
  return found;
}
#define RMW_OF(name, expression)                                                                   \
  template <typename T, typename V> T name##_explicit(rl::atomic<T> *at, V value, int order)       \
  {                                                                                                \
    return litmus_rmw(                                                                             \
        at, [value](T old) { return (T)(expression); }, order);                                    \
  }                                                                                                \
  template <typename T, typename V> T name(rl::atomic<T> *at, V value)                             \
  {                                                                                                \
    return name##_explicit(at, value, __ATOMIC_SEQ_CST);                                           \
  }
RMW_OF(atomic_fetch_add, old + value)
RMW_OF(atomic_fetch_sub, old - value)
RMW_OF(atomic_fetch_or, old | value)
RMW_OF(atomic_exchange, ((void)old, value))
template <typename T> T atomic_load(const rl::atomic<T> *at)
{
  return atomic_load_explicit(at, __ATOMIC_SEQ_CST);
}
template <typename T, typename V> void atomic_store(rl::atomic<T> *at, V value)
{
  atomic_store_explicit(at, value, __ATOMIC_SEQ_CST);
}
template <typename T, typename E, typename V>
bool atomic_compare_exchange_strong(rl::atomic<T> *at, E *expected, V value)
{
  T found = (T)*expected;
  const bool is_done = litmus_cas(at, &found, (T)value, __ATOMIC_SEQ_CST);

  if (!is_done)
    *expected = found;
  return is_done;
}
#define atomic_compare_exchange_weak atomic_compare_exchange_strong
#define __atomic_load_n(at, order) atomic_load_explicit(at, order)
#define __atomic_store_n(at, value, order) atomic_store_explicit(at, value, order)
#define __atomic_exchange_n(at, value, order) atomic_exchange_explicit(at, value, order)

static inline void atomic_thread_fence(int order)
{
  if (weakened == WEAK_FENCE)
    return;
  rl::atomic_thread_fence(litmus_order(order, RMW), $);
}
#define __atomic_thread_fence(order) atomic_thread_fence(order)
static inline void atomic_signal_fence(int order)
{
  (void)order;
}

/* Relacy's are initialised, and destroyed. */
#undef pthread_mutex_t
#undef pthread_mutex_lock
#undef pthread_mutex_unlock
#undef PTHREAD_MUTEX_INITIALIZER
struct litmus_mutex {
  rl::mutex at;
};
static inline int litmus_lock(struct litmus_mutex *mutex)
{
  mutex->at.lock($);
  return 0;
}
static inline int litmus_unlock(struct litmus_mutex *mutex)
{
  mutex->at.unlock($);
  return 0;
}
#define pthread_mutex_t litmus_mutex
#define pthread_mutex_lock litmus_lock
#define pthread_mutex_unlock litmus_unlock
#undef sched_yield
#define sched_yield() rl::yield(1, $)

/* Something that the CPU may not see before its time: written by who has it, one at a time. */
typedef plain<int> bytes;

#define LITMUS_RUNS 10000

/* Returns the result of a run: rl::test_result_success, or Relacy's finding. */
template <typename Test> rl::test_result_e litmus_run(enum weakening without, bool tells)
{
  std::ostream nowhere(nullptr);
  rl::test_params params;

  weakened = without;
  params.output_stream = params.progress_stream = tells ? &std::cout : &nowhere;
  params.iteration_count = LITMUS_RUNS;
  rl::simulate<Test>(params);
  return params.test_result;
}

/* Also notes a case in the file that the runner counts. 0, or 1: it is wrong. */
static inline int litmus_note(const char *name, const char *how, bool is_right,
                              rl::test_result_e found)
{
  const char *path = getenv("PENSTOCK_CASES");
  FILE *file = path ? fopen(path, "a") : NULL;

  printf("%s: %s, %s: %s\n", is_right ? "passed" : "FAILED", name, how, rl::test_result_str(found));
  if (file) {
    fprintf(file, "[\"%s\", \"%s, %s\", \"%s\"]\n", is_right ? "passed" : "failed", name, how,
            rl::test_result_str(found));
    fclose(file);
  }
  return !is_right;
}

/* Runs one litmus test. It must hold, and must fail without each of these orders. Returns 0 or 1.
 */
template <typename Test> int litmus(const char *name, std::initializer_list<enum weakening> needs)
{
  static const char *const words[] = {
      "as it is",       "without release",       "without acquire",
      "without fences", "without a total order", "without read-modify-write"};
  rl::test_result_e found = litmus_run<Test>(WEAK_NOTHING, false);
  int wrong = litmus_note(name, words[0], found == rl::test_result_success, found);

  if (wrong)
    litmus_run<Test>(WEAK_NOTHING, true);
  for (enum weakening one : needs) {
    found = litmus_run<Test>(one, false);
    wrong |= litmus_note(name, words[one], found != rl::test_result_success, found);
  }
  return wrong;
}

#endif
