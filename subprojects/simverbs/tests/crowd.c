/* SPDX-License-Identifier: Apache-2.0 */
/* Many processes on one fabric. */
#include "crowd.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 60 };

struct crowd *crowd_make(void)
{
  struct crowd *crowd =
      mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (crowd == MAP_FAILED)
    exit(1);
  return crowd;
}

pid_t crowd_fork(struct crowd *crowd, unsigned number,
                 int (*live)(struct crowd *crowd, unsigned number))
{
  pid_t child = fork();
  if (child < 0) {
    perror("fork");
    exit(1);
  }
  if (child)
    return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  exit(live(crowd, number));
}

void crowd_add(_Atomic uint32_t *count, uint32_t n)
{
  atomic_fetch_add(count, n);
  syscall(SYS_futex, count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void crowd_await(_Atomic uint32_t *count, uint32_t value)
{
  const struct timespec patience = {.tv_sec = PATIENCE_S};
  struct timespec began, now;
  uint32_t seen;
  clock_gettime(CLOCK_MONOTONIC, &began);
  while ((seen = atomic_load(count)) < value) {
    syscall(SYS_futex, count, FUTEX_WAIT, seen, &patience, NULL, 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - began.tv_sec > PATIENCE_S) {
      fprintf(stderr, "%u of %u after %d s\n", atomic_load(count), value, PATIENCE_S);
      exit(1);
    }
  }
}

void crowd_connect(struct crowd *crowd, unsigned number, struct rig_end *end,
                   const struct rig_how *how)
{
  rig_end_open(end, "mlx5_0");
  crowd->member[number].gid = rig_gid(end);
  crowd_add(&crowd->member[number].qpn, end->qp->qp_num);
  unsigned peer = number ^ 1;
  crowd_await(&crowd->member[peer].qpn, 1);
  rig_connect(end, how, crowd->member[peer].qpn, &crowd->member[peer].gid, 100 + number,
              100 + peer);
  crowd_add(&crowd->member[number].connected, 1);
  crowd_await(&crowd->member[peer].connected, 1);
}

void crowd_assert_empty(void)
{
  char *shown = rig_ctl_read("show");
  bool empty = strstr(shown, "device mlx5_0: 0 QPs, 0 CQs, 0 MRs, 0 PDs, 0 SRQs") &&
               !strstr(shown, "process");
  if (!empty) {
    fprintf(stderr, "something is left:\n%s", shown);
    exit(1);
  }
  free(shown);
}
