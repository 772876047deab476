/* SPDX-License-Identifier: Apache-2.0 */
/* What all UDP sockets of this network namespace have dropped: /proc/net/snmp and snmp6. */
#include <string.h>

#include "snmp.h"

/* The value of a column of /proc/net/snmp: a line of names and one of numbers. */
static uint64_t column(const char *names, const char *numbers, const char *wanted)
{
  char name[64];
  uint64_t number;
  int of_names, of_numbers;

  while (sscanf(names, "%63s%n", name, &of_names) == 1 &&
         sscanf(numbers, "%lu%n", &number, &of_numbers) == 1) {
    if (strcmp(name, wanted) == 0)
      return number;
    names += of_names;
    numbers += of_numbers;
  }
  return 0;
}

void udp_drops_read4(FILE *from, struct udp_host_drops *drops)
{
  char names[1024], numbers[1024];

  while (fgets(names, sizeof(names), from) && fgets(numbers, sizeof(numbers), from)) {
    if (strncmp(names, "Udp: ", 5) != 0 || strncmp(numbers, "Udp: ", 5) != 0)
      continue;
    drops->bad_sums = column(names + 5, numbers + 5, "InCsumErrors");
    drops->full = column(names + 5, numbers + 5, "RcvbufErrors") +
                  column(names + 5, numbers + 5, "MemErrors");
  }
}

void udp_drops_read6(FILE *from, struct udp_host_drops *drops)
{
  char line[256], name[64];
  uint64_t number;

  while (fgets(line, sizeof(line), from)) {
    if (sscanf(line, "%63s %lu", name, &number) != 2)
      continue;
    if (strcmp(name, "Udp6InCsumErrors") == 0)
      drops->bad_sums = number;
    else if (strcmp(name, "Udp6RcvbufErrors") == 0 || strcmp(name, "Udp6MemErrors") == 0)
      drops->full += number;
  }
}

uint64_t udp_drops_bad_sums(uint64_t drops, const struct udp_host_drops *before,
                            const struct udp_host_drops *now)
{
  uint64_t full = now->full - before->full, bad_sums = now->bad_sums - before->bad_sums;
  uint64_t rest = drops > full ? drops - full : 0;

  return bad_sums < rest ? bad_sums : rest;
}
