/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a CPU a thread had, and for how long it waited for one. */
#include "usage.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/clock.h"

/* Time on the run queue. CPU time by the wall clock would not do: a thread that waits for a disk
 * or sleeps lacks no CPU. */
static uint64_t usage_read_wait_ns(void)
{
  char text[96];
  unsigned long long ran, waited;
  int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

  if (fd < 0)
    return UINT64_MAX;
  ssize_t n = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (n <= 0)
    return UINT64_MAX;
  text[n] = 0;
  return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : UINT64_MAX;
}

static uint64_t usage_time_ns(const struct timeval *time)
{
  return (uint64_t)time->tv_sec * PST_NS_PER_S + (uint64_t)time->tv_usec * 1000;
}

void usage_take(struct usage *usage)
{
  struct rusage used;

  if (getrusage(RUSAGE_THREAD, &used) < 0)
    return;
  stat_set(usage->cpu_ns, usage_time_ns(&used.ru_utime) + usage_time_ns(&used.ru_stime));
  stat_set(usage->switches, (uint64_t)used.ru_nivcsw);
  stat_set(usage->wait_ns, usage_read_wait_ns());
  stat_set(usage->at_ns, clock_now_ns());
}

void usage_copy(struct usage *to, const struct usage *from)
{
  stat_set(to->cpu_ns, from->cpu_ns);
  stat_set(to->switches, from->switches);
  stat_set(to->wait_ns, from->wait_ns);
  stat_set(to->at_ns, from->at_ns);
}

void usage_between(const struct usage *from, const struct usage *to, struct usage *difference)
{
  const uint64_t first_ns = stat_get(from->at_ns), last_ns = stat_get(to->at_ns);

  *difference = (struct usage){.wait_ns = UINT64_MAX};
  if (first_ns == 0 || last_ns <= first_ns)
    return;
  difference->at_ns = last_ns - first_ns;
  difference->cpu_ns = stat_get(to->cpu_ns) - stat_get(from->cpu_ns);
  difference->switches = stat_get(to->switches) - stat_get(from->switches);
  if (stat_get(from->wait_ns) != UINT64_MAX && stat_get(to->wait_ns) != UINT64_MAX)
    difference->wait_ns = stat_get(to->wait_ns) - stat_get(from->wait_ns);
}
