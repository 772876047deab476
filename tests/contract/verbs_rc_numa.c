/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker and a ring on another NUMA node than the adapter: sysfs says that the simulated device
 * is on the next one. This program defines fopen(), which the plugin finds here.
 *
 *     penstock-simverbs verbs-rc-numa PLUGIN LAUNCHER
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs_rc_stream.h"

#define NODES "/sys/devices/system/node"
#define LOOKS (64 * 256) /* polls of which one looks at the node */

static char folder[] = "/tmp/penstock-numa-XXXXXX"; /* a device's in sysfs */

static void swap_path(char path[IBV_SYSFS_PATH_MAX])
{
  struct ibv_device **all = ibv_get_device_list(NULL);
  char was[IBV_SYSFS_PATH_MAX];
  uint32_t i = 0;
  assert_non_null(all);
  while (all[i] && strcmp(ibv_get_device_name(all[i]), "mlx5_0") != 0)
    i++;
  assert_non_null(all[i]);
  memcpy(was, all[i]->ibdev_path, sizeof(was));
  memcpy(all[i]->ibdev_path, path, sizeof(was));
  memcpy(path, was, sizeof(was));
  ibv_free_device_list(all);
}

static void put_on(int node)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/device", folder);
  mkdir(path, 0700);
  snprintf(path, sizeof(path), "%s/device/numa_node", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fprintf(file, "%d\n", node) > 0);
  assert_int_equal(fclose(file), 0);
}

/* sysfs, as the plugin reads it: the nodes' folder is the device's. */
__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode)
{
  FILE *(*next)(const char *, const char *);
  char other[256];

  *(void **)&next = dlsym(RTLD_NEXT, "fopen64");
  assert_non_null(next);
  if (strncmp(path, NODES, sizeof(NODES) - 1) == 0) {
    snprintf(other, sizeof(other), "%s%s", folder, path + sizeof(NODES) - 1);
    path = other;
  }
  return next(path, mode);
}

/* Pins this thread: its node. */
static int stay(void)
{
  unsigned cpu, node;
  cpu_set_t set;
  assert_int_equal(syscall(SYS_getcpu, &cpu, &node, NULL), 0);
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
  assert_int_equal(syscall(SYS_getcpu, &cpu, &node, NULL), 0);
  return (int)node;
}

/* Writes the distances of a node: to itself and to the other one. */
static void put_distance(int node, uint32_t distance)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/node%d", folder, node);
  mkdir(path, 0700);
  snprintf(path, sizeof(path), "%s/node%d/distance", folder, node);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fprintf(file, "10 %u\n", distance) > 0);
  assert_int_equal(fclose(file), 0);
  snprintf(path, sizeof(path), "%s/online", folder);
  file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fprintf(file, "%d-%d\n", node, node + 1) > 0);
  assert_int_equal(fclose(file), 0);
}

static void drop(const char *name)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  assert_int_equal(remove(path), 0);
}

/* How many lines of that level with these words a receiver on a device of that node logs. */
static uint32_t said_of(int node, uint32_t polls, const char *words, int expected)
{
  struct contract_side side = {0};
  char line[512];
  uint32_t n = 0;
  put_on(node);
  contract_listen(words);
  contract_side_open(&stream_variants[ONCE], &stream_params, false, true, &side);
  struct pst_ring *second; /* as a node has one a peer */
  contract_ring_open(&side, &stream_params, side.mr, &second);
  for (uint32_t i = 0; i < polls; i++)
    contract_poll(&side);
  assert_int_equal(simulated_counter(&side, NULL, "adapter_numa_node"),
                   node < 0 ? UINT64_MAX : (uint64_t)node);
  side.image.ops->ring_close(side.worker, second);
  contract_side_close(&side);
  for (int level; (level = contract_heard(line, sizeof(line))) != -1; n++)
    assert_int_equal(level, expected);
  contract_listen(NULL);
  contract_complaints();
  return n;
}

/* Some containers forbid it. */
static bool pages_can_be_asked(void)
{
  int node = -1, here = 0;
  return syscall(SYS_get_mempolicy, &node, NULL, 0UL, &here,
                 (unsigned long)(MPOL_F_NODE | MPOL_F_ADDR)) == 0;
}

static void what_crosses_is_reported_once(void **state)
{
  (void)state;
  const int here = stay(), far = here + 1;
  char path[IBV_SYSFS_PATH_MAX], words[96], name[32];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s", folder);
  swap_path(path);
  snprintf(words, sizeof(words),
           "and mlx5_0 is on NUMA node %d (21 away, 10 within a node): each completion", far);
  put_distance(here, 21);
  /* One look might be at a thread that is about to go elsewhere. */
  assert_int_equal(said_of(far, LOOKS + LOOKS / 2, words, PST_LOG_WARN), 0);
  assert_int_equal(said_of(far, 3 * LOOKS, words, PST_LOG_WARN), 1);
  assert_int_equal(said_of(far, LOOKS, "a ring lies in memory of NUMA node ", PST_LOG_WARN),
                   pages_can_be_asked());
  assert_int_equal(said_of(-1, 3 * LOOKS, "NUMA", PST_LOG_WARN), 0);
  put_distance(here, 12);
  assert_int_equal(said_of(far, 3 * LOOKS, "each completion comes by", PST_LOG_DEBUG), 1);
  swap_path(path);
  snprintf(name, sizeof(name), "node%d/distance", here);
  drop(name);
  snprintf(name, sizeof(name), "node%d", here);
  drop(name);
  drop("online");
  drop("device/numa_node");
  drop("device");
  drop("");
}

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(what_crosses_is_reported_once),
  };
  return CONTRACT_MAIN("NUMA", cases, &stream_variants[0]);
}
