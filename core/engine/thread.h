/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors on which a thread of a session or node sleeps: its mail, its workers' wake-ups,
 * and others.
 */
#ifndef PST_ENGINE_THREAD_H
#define PST_ENGINE_THREAD_H

#include "util/clock.h"
#include "util/mailbox.h"

#include "worker.h"

/* A worker that cannot wake, a copy, or a fence is looked at this often while the thread sleeps. */
#define ENGINE_NAP_NS (100 * PST_NS_PER_US)

struct engine_thread {
  struct mailbox mailbox;
  int epoll_fd;                   /* readable: what is slept on is there */
  struct engine_worker **workers; /* that are armed before a sleep */
  uint32_t worker_count;
};

/* 0, or -errno: close it all the same. */
int engine_thread_open(struct engine_thread *thread);
void engine_thread_close(struct engine_thread *thread);
/* Let a descriptor that is readable end the sleep. 0, or -errno. */
int engine_thread_add_fd(const struct engine_thread *thread, int fd);
/* Let a worker's events, too. One that cannot wake, or whose descriptor cannot be watched, has an
 * event_fd of -1 then, and is looked at after naps. 0, or -ENOMEM. */
int engine_thread_add(struct engine_thread *thread, struct engine_worker *worker);

/* Arm all workers. 0; what a worker's arm() says, -EAGAIN: it has something already. */
int engine_thread_arm(const struct engine_thread *thread);
/* Arm all workers, and sleep until mail, a wake-up or a descriptor is there, or that time;
 * UINT64_MAX: for ever. False: there was something already, or the time had come. */
bool engine_thread_sleep(struct engine_thread *thread, uint64_t now, uint64_t until);

#endif
