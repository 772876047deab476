/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "notice.h"

struct worker {
  struct drive *drive;
  uint32_t index;
  bool started;
  pthread_t thread;
};

static int pin(int cpu)
{
  cpu_set_t set;

  if (cpu < 0)
    return 0;
  if (cpu >= CPU_SETSIZE)
    return -EINVAL;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* This thread goes to each for a moment, as only that says whether a worker's may. */
int workers_check(struct drive *drive)
{
  cpu_set_t before;
  int result = -pthread_getaffinity_np(pthread_self(), sizeof before, &before);

  for (uint32_t i = 0; result == 0 && i < pst_session_workers(drive->session); i++) {
    int cpu = pst_session_worker_cpu(drive->session, i);
    result = pin(cpu);
    if (result < 0)
      notice_fail(&drive->error, PST_EXIT_UNAVAILABLE, result,
                  "workers.cpus: worker %u cannot run on CPU %d: %s; `lscpu` lists those there "
                  "are, `taskset -p $$` those allowed",
                  i, cpu, strerror(-result));
  }
  pthread_setaffinity_np(pthread_self(), sizeof before, &before);
  return result;
}

/* Rounds over the worker's sides until all are over. */
static bool round_once(struct worker *worker, uint32_t *moved, uint64_t *until_ns)
{
  bool left = false;

  for (uint32_t i = 0; i < worker->drive->flow_count; i++) {
    struct flow *flow = &worker->drive->flows[i];
    if (flow->sender.handle != NULL && pst_sender_worker(flow->sender.handle) == worker->index &&
        flow->sender.phase != SIDE_OVER) {
      *moved += sender_step(flow, until_ns);
      left = true;
    }
    if (flow->receiver.handle != NULL &&
        pst_receiver_worker(flow->receiver.handle) == worker->index &&
        flow->receiver.phase != SIDE_OVER) {
      *moved += receiver_step(flow, until_ns);
      left = true;
    }
  }
  return left;
}

static void *work(void *arg)
{
  struct worker *worker = arg;
  struct drive *drive = worker->drive;
  uint64_t one = 1;

  pin(pst_session_worker_cpu(drive->session, worker->index)); /* as workers_check() has tried */
  for (;;) {
    uint64_t until_ns = UINT64_MAX;
    uint32_t moved = 0;
    if (!round_once(worker, &moved, &until_ns))
      break;
    if (moved == 0)
      pst_session_wait(drive->session, worker->index, until_ns != UINT64_MAX ? &until_ns : NULL);
  }
  ssize_t written = write(drive->event_fd, &one, sizeof one);
  (void)written; /* the watcher looks every second anyway */
  return NULL;
}

int workers_start(struct drive *drive, struct pst_error *error)
{
  drive->worker_count = pst_session_workers(drive->session);
  drive->workers = calloc(drive->worker_count, sizeof *drive->workers);
  if (drive->workers == NULL)
    return notice_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  for (uint32_t i = 0; i < drive->worker_count; i++) {
    char name[32];
    struct worker *worker = &drive->workers[i];
    worker->drive = drive;
    worker->index = i;
    int code = pthread_create(&worker->thread, NULL, work, worker);
    if (code != 0) {
      atomic_store(&drive->drain_by_ns, 1);
      atomic_store(&drive->stop, true);
      pst_session_wake(drive->session);
      workers_join(drive);
      return notice_fail(error, PST_EXIT_FAILED, -code, "cannot start worker %u: %s", i,
                         strerror(code));
    }
    worker->started = true;
    snprintf(name, sizeof name, "pst-worker-%u", i);
    name[15] = '\0'; /* the kernel's bound */
    pthread_setname_np(worker->thread, name);
  }
  return 0;
}

void workers_join(struct drive *drive)
{
  for (uint32_t i = 0; i < drive->worker_count; i++) {
    if (drive->workers[i].started)
      pthread_join(drive->workers[i].thread, NULL);
    drive->workers[i].started = false;
  }
}

bool workers_over(const struct drive *drive)
{
  for (uint32_t i = 0; i < drive->flow_count; i++) {
    const struct flow *flow = &drive->flows[i];
    if ((flow->sender.handle != NULL && !atomic_load(&flow->sender.over)) ||
        (flow->receiver.handle != NULL && !atomic_load(&flow->receiver.over)))
      return false;
  }
  return true;
}
