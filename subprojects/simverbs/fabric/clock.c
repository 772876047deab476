/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric's time, and how a NIC thread waits for it. */
#include "fabric.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t fab_clock_monotonic_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

uint64_t fab_clock_ns(const struct fabric *f)
{
  int64_t base = atomic_load(&f->clock_base_ns);
  if (f->clock_kind == FAB_CLOCK_MANUAL)
    return base;
  int64_t passed = fab_clock_monotonic_ns() - f->clock_start_ns;
  if (f->clock_kind == FAB_CLOCK_SCALED)
    passed = (int64_t)((double)passed * f->clock_scale);
  return base + passed;
}

int fab_clock_set(struct fabric *f, const char *text)
{
  char *end;
  double scale = strtod(text, &end);
  bool manual = !strcmp(text, "manual"), real = !strcmp(text, "real");
  if (!manual && !real && (end == text || *end || scale <= 0))
    return EINVAL;
  if (!f)
    return 0;
  int64_t now = (int64_t)fab_clock_ns(f);
  f->clock_kind = FAB_CLOCK_MANUAL;
  atomic_store(&f->clock_base_ns, now);
  f->clock_start_ns = fab_clock_monotonic_ns();
  f->clock_scale = real ? 1 : scale;
  f->clock_kind = manual ? FAB_CLOCK_MANUAL : real ? FAB_CLOCK_REAL : FAB_CLOCK_SCALED;
  return 0;
}

uint64_t fab_clock_real_ns(const struct fabric *f, uint64_t at)
{
  uint64_t now = fab_clock_ns(f);
  if (at <= now)
    return 0;
  if (f->clock_kind == FAB_CLOCK_MANUAL)
    return UINT64_MAX;
  if (f->clock_kind == FAB_CLOCK_SCALED)
    return (uint64_t)((double)(at - now) / f->clock_scale) + 1;
  return at - now;
}

void fab_kick(uint32_t slot)
{
  struct fab_process *process = &fab->process[slot];
  atomic_fetch_add(&process->doorbell, 1);
  if (atomic_load(&process->asleep))
    syscall(SYS_futex, &process->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool fab_sleep(uint32_t seen, uint64_t until_ns)
{
  /* The longest sleep, since the process that was about to kick may have been killed. */
  static const uint64_t longest = 1000000000;
  struct fab_process *process = &fab->process[fab_slot];
  uint64_t wait = until_ns ? fab_clock_real_ns(fab, until_ns) : UINT64_MAX;
  if (!wait)
    return true;
  if (wait > longest)
    wait = longest;
  struct timespec limit = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
  atomic_store(&process->served, seen);
  atomic_store(&process->asleep, 1);
  long slept = 0;
  if (atomic_load(&process->doorbell) == seen)
    slept = syscall(SYS_futex, &process->doorbell, FUTEX_WAIT, seen, &limit, NULL, 0);
  bool alone = slept < 0 && errno == ETIMEDOUT && wait == longest;
  atomic_store(&process->asleep, 0);
  return !alone;
}

/* A process whose NIC thread has something to do, or, with `answered`, whose requests are not all
 * done; `rung`: all doorbells together. */
static const struct fab_process *fab_clock_find_busy(uint64_t *rung, bool answered)
{
  const struct fab_process *busy = NULL;
  *rung = 0;
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    struct fab_process *process = &fab->process[i];
    if (atomic_load(&process->state) != FAB_SLOT_USED || !atomic_load(&process->serves))
      continue;
    const uint32_t doorbell = atomic_load(&process->doorbell);
    *rung += doorbell;
    if (!busy &&
        (atomic_load(&process->served) != doorbell ||
         (answered && atomic_load(&process->unanswered))) &&
        !fab_is_dead(i))
      busy = process;
  }
  return busy;
}

static const struct fab_process *fab_clock_await(bool answered)
{
  static const struct timespec pause = {.tv_nsec = 50000};
  const int64_t end_ns = fab_clock_monotonic_ns() + INT64_C(20000000000);
  const struct fab_process *busy = NULL;
  uint64_t rung, still = UINT64_MAX;
  /* Twice without a ring between: one may have rung another that was looked at before it. */
  while (fab_clock_monotonic_ns() < end_ns) {
    busy = fab_clock_find_busy(&rung, answered);
    if (!busy && rung == still)
      return NULL;
    still = busy ? UINT64_MAX : rung;
    if (busy)
      nanosleep(&pause, NULL);
  }
  return busy;
}

void fab_await_idle(void)
{
  const struct fab_process *busy = fab_clock_await(false);
  if (busy)
    fab_log(1, "process %d has not done what is due within 20 s: time passes without it",
            busy->pid);
}

bool fab_await_answers(void)
{
  const struct fab_process *busy = fab_clock_await(true);
  if (busy)
    fab_log(1, "process %d has requests that are not done after 20 s", busy->pid);
  return !busy;
}
