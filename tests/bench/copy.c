/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's copy bound: one core copies messages from as many slots, as far apart,
 * as a stream has, into as many others. Nobody reads them, nothing is counted.
 *
 * usage: bench-copy CPU SIZE SLOTS SECONDS: prints messages a second. */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_now(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double copies_per_second(uint8_t *to, const uint8_t *from, size_t stride, size_t size,
                                size_t slots, double seconds)
{
  uint64_t copies = 0;
  size_t slot = 0;
  double begin = seconds_now(), end = begin;

  while (end - begin < seconds) {
    for (int i = 0; i < 1024; i++) {
      memcpy(to + slot * stride, from + slot * stride, size);
      /* Without a reader, the compiler would remove the copy. */
      __asm__ volatile("" : : "r"(to) : "memory");
      slot = slot + 1 < slots ? slot + 1 : 0;
    }
    copies += 1024;
    end = seconds_now();
  }
  return (double)copies / (end - begin);
}

int main(int argc, char **argv)
{
  if (argc != 5) {
    fprintf(stderr, "usage: bench-copy CPU SIZE SLOTS SECONDS\n");
    return 2;
  }
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(atoi(argv[1]), &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) < 0) {
    fprintf(stderr, "bench-copy: CPU %s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  size_t size = strtoull(argv[2], NULL, 10), slots = strtoull(argv[3], NULL, 10);
  size_t stride = (size + 63) / 64 * 64, bytes = (stride * slots + 4095) / 4096 * 4096;
  uint8_t *from = aligned_alloc(4096, bytes), *to = aligned_alloc(4096, bytes);
  if (size == 0 || slots == 0 || !from || !to) {
    fprintf(stderr, "bench-copy: out of memory for %zu slots of %zu B\n", slots, size);
    free(from);
    free(to);
    return 1;
  }
  memset(from, 1, bytes);
  memset(to, 2, bytes);
  copies_per_second(to, from, stride, size, slots, 0.05); /* caches and clock warm */
  printf("%.1f\n", copies_per_second(to, from, stride, size, slots, atof(argv[4])));
  free(from);
  free(to);
  return 0;
}
