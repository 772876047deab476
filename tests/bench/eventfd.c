/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a process takes to wake that sleeps in epoll_wait for an eventfd, and nothing
 * else: what bench-wake is to be compared with. The sender puts the time into shared
 * memory and writes to the eventfd every PERIOD_NS; the receiver reads the clock when
 * epoll_wait has returned.
 *
 * usage: eventfd WRITES SENDER_CPU RECEIVER_CPU; one line a wake-up: nanoseconds
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS UINT64_C(5000000)
#define WAIT_MS 60000

static uint64_t now_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
  perror(what);
  _exit(1);
}

static void pin(const char *cpu)
{
  cpu_set_t set;

  CPU_ZERO(&set);
  CPU_SET(strtoul(cpu, NULL, 10), &set);
  if (sched_setaffinity(0, sizeof(set), &set) < 0)
    fail(cpu);
}

static void receive(unsigned long writes, int fd, const _Atomic uint64_t *sent_ns)
{
  struct epoll_event event = {.events = EPOLLIN};
  int epoll_fd = epoll_create1(0);
  uint64_t count; /* of a thread that had to wait for its CPU, more than one */

  if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
    fail("epoll");
  for (; writes > 0; writes -= count) {
    if (epoll_wait(epoll_fd, &event, 1, WAIT_MS) != 1)
      fail("nothing came");
    printf("%lu\n", (unsigned long)(now_ns() - atomic_load(sent_ns)));
    if (read(fd, &count, sizeof(count)) != sizeof(count))
      fail("eventfd");
  }
  fflush(stdout);
  _exit(0);
}

int main(int argc, char **argv)
{
  const uint64_t one = 1;
  int status = 1;

  if (argc != 4) {
    fprintf(stderr, "usage: eventfd WRITES SENDER_CPU RECEIVER_CPU\n");
    return 2;
  }
  unsigned long writes = strtoul(argv[1], NULL, 10);
  _Atomic uint64_t *sent_ns =
      mmap(NULL, sizeof(*sent_ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int fd = eventfd(0, EFD_CLOEXEC);
  if (sent_ns == MAP_FAILED || fd < 0)
    fail("setting up");
  pid_t child = fork();
  if (child < 0)
    fail("fork");
  if (child == 0) {
    pin(argv[3]);
    receive(writes, fd, sent_ns);
  }
  pin(argv[2]);
  for (uint64_t next_ns = now_ns() + PERIOD_NS; writes > 0; writes--, next_ns += PERIOD_NS) {
    while (now_ns() < next_ns)
      ;
    atomic_store(sent_ns, now_ns());
    if (write(fd, &one, sizeof(one)) != sizeof(one))
      fail("eventfd");
  }
  if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
    return 1;
  return 0;
}
