/* SPDX-License-Identifier: Apache-2.0 */
/* The program's threads, each with its sides of streams. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "pin.h"
#include "runner.h"

struct thread {
  struct runner *runner;
  uint32_t index;
  bool started;
  pthread_t handle;
};

/* This thread goes to each for a moment, as only that says whether one of the session may. */
int app_threads_check(struct runner *runner)
{
  cpu_set_t before;
  int rc = -pthread_getaffinity_np(pthread_self(), sizeof(before), &before);

  for (uint32_t i = 0; rc == 0 && i < pst_session_threads(runner->session); i++) {
    int cpu = pst_session_thread_cpu(runner->session, i);
    rc = pin_thread(cpu);
    if (rc < 0)
      app_log_fail(&runner->error, PST_EXIT_UNAVAILABLE, rc,
                   "threads.cpus: thread %u cannot run on CPU %d: %s; `lscpu` lists the CPUs, "
                   "`taskset -p $$` those that are allowed",
                   i, cpu, strerror(-rc));
  }
  pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
  return rc;
}

/* Rounds over the thread's sides until all are over. */
static bool thread_round(struct thread *thread, uint32_t *moved, uint64_t *until_ns)
{
  bool left = false;

  for (uint32_t i = 0; i < thread->runner->stream_count; i++) {
    struct app_stream *stream = &thread->runner->streams[i];
    if (stream->sender.handle && pst_sender_thread(stream->sender.handle) == thread->index &&
        stream->sender.phase != SIDE_OVER) {
      *moved += app_sender_step(stream, until_ns);
      left = true;
    }
    if (stream->receiver.handle && pst_receiver_thread(stream->receiver.handle) == thread->index &&
        stream->receiver.phase != SIDE_OVER) {
      *moved += app_receiver_step(stream, until_ns);
      left = true;
    }
  }
  return left;
}

static void *thread_work(void *arg)
{
  struct thread *thread = arg;
  struct runner *runner = thread->runner;
  uint64_t one = 1;

  pin_thread(pst_session_thread_cpu(runner->session,
                                    thread->index)); /* as app_threads_check() has tried */
  for (;;) {
    uint64_t until_ns = UINT64_MAX;
    uint32_t moved = 0;
    if (!thread_round(thread, &moved, &until_ns))
      break;
    if (moved == 0)
      pst_session_wait(runner->session, thread->index, until_ns != UINT64_MAX ? &until_ns : NULL);
  }
  ssize_t written = write(runner->event_fd, &one, sizeof(one));
  (void)written; /* the watcher looks every second anyway */
  return NULL;
}

int app_threads_start(struct runner *runner, struct pst_error *error)
{
  runner->thread_count = pst_session_threads(runner->session);
  runner->threads = calloc(runner->thread_count, sizeof(*runner->threads));
  if (!runner->threads)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  for (uint32_t i = 0; i < runner->thread_count; i++) {
    char name[32];
    struct thread *thread = &runner->threads[i];
    thread->runner = runner;
    thread->index = i;
    int code = pthread_create(&thread->handle, NULL, thread_work, thread);
    if (code != 0) {
      atomic_store(&runner->drain_by_ns, 1);
      atomic_store(&runner->stop, true);
      pst_session_wake(runner->session);
      app_threads_join(runner);
      return app_log_fail(error, PST_EXIT_FAILED, -code, "cannot start thread %u: %s", i,
                          strerror(code));
    }
    thread->started = true;
    snprintf(name, sizeof(name), "pst-thread-%u", i);
    name[15] = '\0'; /* the kernel's bound */
    pthread_setname_np(thread->handle, name);
  }
  return 0;
}

void app_threads_join(struct runner *runner)
{
  for (uint32_t i = 0; i < runner->thread_count; i++) {
    if (runner->threads[i].started)
      pthread_join(runner->threads[i].handle, NULL);
    runner->threads[i].started = false;
  }
}

bool app_threads_over(const struct runner *runner)
{
  for (uint32_t i = 0; i < runner->stream_count; i++) {
    const struct app_stream *stream = &runner->streams[i];
    if ((stream->sender.handle && !atomic_load(&stream->sender.over)) ||
        (stream->receiver.handle && !atomic_load(&stream->receiver.over)))
      return false;
  }
  return true;
}
