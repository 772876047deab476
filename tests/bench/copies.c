/* SPDX-License-Identifier: Apache-2.0 */
/* The copy bound of DPDK's memif: one process copies packets from its buffers into a ring in shared
 * memory, another one from there into its own, by rte_memcpy() and in bursts of 32 as memif does.
 *
 * usage: bench-copies CPU CPU SIZE PLACES BUFFERS SHIFT SECONDS: prints packets a second. SHIFT:
 * bytes past a cache line at which the buffers begin. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rte_memcpy.h>
#include <rte_pause.h>

#define BURST 32u

struct link {
  uint64_t head __attribute__((aligned(128)));
  uint64_t tail __attribute__((aligned(128)));
  uint8_t places[] __attribute__((aligned(4096)));
};

struct end {
  struct link *link;
  size_t size, place, places;
  uint8_t *buffers;
  size_t stride, count, next;
};

static double seconds_now(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint8_t *next_buffer(struct end *end)
{
  uint8_t *buffer = end->buffers + end->next * end->stride;

  end->next = end->next + 1 < end->count ? end->next + 1 : 0;
  return buffer;
}

static void send_all(struct end *end)
{
  struct link *link = end->link;

  for (uint64_t head = 0;; __atomic_store_n(&link->head, head, __ATOMIC_RELEASE)) {
    uint64_t room = end->places - (head - __atomic_load_n(&link->tail, __ATOMIC_ACQUIRE));
    if (room == 0)
      rte_pause();
    for (uint64_t i = 0; i < room && i < BURST; i++, head++)
      rte_memcpy(link->places + head % end->places * end->place, next_buffer(end), end->size);
  }
}

static double receive(struct end *end, double seconds)
{
  struct link *link = end->link;
  const double begin = seconds_now() + 0.1;
  uint64_t tail = 0, first = 0;

  for (uint32_t polls = 1;; polls++) {
    uint64_t there = __atomic_load_n(&link->head, __ATOMIC_ACQUIRE) - tail;
    if (there == 0)
      rte_pause();
    for (uint64_t i = 0; i < there && i < BURST; i++, tail++)
      rte_memcpy(next_buffer(end), link->places + tail % end->places * end->place, end->size);
    __atomic_store_n(&link->tail, tail, __ATOMIC_RELEASE);
    if (polls % 256)
      continue;
    double now = seconds_now();
    if (now < begin)
      first = tail;
    else if (now > begin + seconds)
      return (double)(tail - first) / (now - begin);
  }
}

static void pin(int cpu)
{
  cpu_set_t cpus;

  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0)
    return;
  fprintf(stderr, "bench-copies: CPU %d: %s\n", cpu, strerror(errno));
  exit(1);
}

int main(int argc, char **argv)
{
  if (argc != 8) {
    fprintf(stderr, "usage: bench-copies CPU CPU SIZE PLACES BUFFERS SHIFT SECONDS\n");
    return 2;
  }
  size_t shift = strtoul(argv[6], NULL, 10);
  struct end end = {.size = strtoul(argv[3], NULL, 10),
                    .places = strtoul(argv[4], NULL, 10),
                    .count = strtoul(argv[5], NULL, 10)};
  end.place = (end.size + 63) / 64 * 64;
  end.stride = (end.size + shift + 63) / 64 * 64;
  const size_t bytes = (end.count * end.stride + shift + 4095) / 4096 * 4096;
  end.link = mmap(NULL, sizeof(*end.link) + end.places * end.place, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  uint8_t *memory = aligned_alloc(4096, bytes);
  if (end.link == MAP_FAILED || !memory || !end.places || !end.count) {
    fprintf(stderr, "bench-copies: no memory for %zu places and %zu buffers\n", end.places,
            end.count);
    return 1;
  }
  memset(memory, 1, bytes);
  end.buffers = memory + shift;
  pid_t sender = fork();
  if (sender == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(atoi(argv[1]));
    send_all(&end);
  }
  pin(atoi(argv[2]));
  printf("%.0f\n", receive(&end, strtod(argv[7], NULL)));
  kill(sender, SIGKILL);
  waitpid(sender, NULL, 0);
  free(memory);
  return 0;
}
