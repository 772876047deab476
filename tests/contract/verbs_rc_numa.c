/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker and a ring on another NUMA node than the adapter: sysfs says that the simulated device
 * is on one that no machine has its CPUs on here.
 *
 *     penstock-simverbs verbs-rc-numa PLUGIN LAUNCHER
 */
#include <infiniband/verbs.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs_rc_stream.h"

#define FAR 600          /* more than a kernel has nodes on most machines */
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

/* How many warnings with these words a receiver on a device of that node logs. */
static uint32_t said_of(int node, const char *words)
{
  struct contract_side side = {0};
  char line[512];
  uint32_t n = 0;
  put_on(node);
  contract_listen(words);
  contract_side_open(&stream_variants[ONCE], &stream_params, false, true, &side);
  struct pst_ring *second; /* as a node has one a peer */
  contract_ring_open(&side, &stream_params, side.mr, &second);
  for (uint32_t i = 0; i < 3 * LOOKS; i++)
    contract_poll(&side);
  assert_int_equal(simulated_counter(&side, NULL, "adapter_numa_node"),
                   node < 0 ? UINT64_MAX : (uint64_t)node);
  side.image.ops->ring_close(side.worker, second);
  contract_side_close(&side);
  for (int level; (level = contract_heard(line, sizeof(line))) != -1; n++)
    assert_int_equal(level, PST_LOG_WARN);
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

static void what_crosses_is_told_once(void **state)
{
  (void)state;
  char path[IBV_SYSFS_PATH_MAX];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s", folder);
  swap_path(path);
  assert_int_equal(said_of(FAR, "and mlx5_0 is on NUMA node 600: each completion"), 1);
  assert_int_equal(said_of(FAR, "a ring lies in memory of NUMA node "), pages_can_be_asked());
  assert_int_equal(said_of(-1, "NUMA"), 0);
  swap_path(path);
  snprintf(path, sizeof(path), "%s/device/numa_node", folder);
  assert_int_equal(unlink(path), 0);
  snprintf(path, sizeof(path), "%s/device", folder);
  assert_int_equal(rmdir(path), 0);
  assert_int_equal(rmdir(folder), 0);
}

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(what_crosses_is_told_once),
  };
  return CONTRACT_MAIN("NUMA", cases, &stream_variants[0]);
}
