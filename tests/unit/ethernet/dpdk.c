/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of ethernet: dpdk. */
#include "dpdk.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include <rte_eal.h>

int dpdk_start(void)
{
  char texts[][16] = {"test", "--no-shconf", "--no-telemetry", "--no-pci", "--no-huge", "-m", "64"};
  char *arguments[sizeof(texts) / sizeof(texts[0]) + 2];
  char prefix[64], lcore[32];
  cpu_set_t cpus;
  int first = 0, count = 0;

  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
    return -1;
  while (!CPU_ISSET(first, &cpus))
    first++;
  snprintf(prefix, sizeof(prefix), "--file-prefix=test-%d", (int)getpid());
  snprintf(lcore, sizeof(lcore), "--lcores=0@%d", first);
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    arguments[count++] = texts[i];
  arguments[count++] = prefix;
  arguments[count++] = lcore;
  if (rte_eal_init(count, arguments) < 0)
    return -1;
  rmdir(rte_eal_get_runtime_dir());
  return 0;
}
