/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded machine, as hwloc and the kernel's folders have it. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/distance.h"
#include "topo/machine.h"

static const char *fixture;
static char root[] = "/tmp/topo-XXXXXX";

/* A file below the root, with its folders. */
static void put(const char *name, const char *text, size_t length)
{
  char path[512];

  snprintf(path, sizeof(path), "%s/%s", root, name);
  for (char *at = path + sizeof(root); (at = strchr(at, '/')); *at++ = '/') {
    *at = '\0';
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
  }
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}
#define PUT(name, text) put(name, text, strlen(text))

static int make_root(void **state)
{
  static char text[1 << 16];
  FILE *file = fopen(fixture, "re");

  (void)state;
  assert_non_null(file);
  assert_non_null(mkdtemp(root));
  put("penstock/topology.xml", text, fread(text, 1, sizeof(text), file));
  fclose(file);
  PUT("proc/version", "Linux\n");
  PUT("sys/devices/system/cpu/isolated", "4-5,12,99\n");
  PUT("sys/class/net/eth0/ifindex", "2\n");
  PUT("sys/class/net/eth0/mtu", "9000\n");
  PUT("sys/class/net/eth0/speed", "100000\n");
  PUT("sys/class/net/eth0/operstate", "up\n");
  PUT("sys/class/net/lo/ifindex", "1\n");
  PUT("sys/class/net/lo/type", "772\n");
  PUT("sys/class/net/lo/mtu", "65536\n");
  PUT("sys/class/net/ib0/type", "32\n");
  PUT("sys/class/net/eth0.7/ifindex", "9\n");
  PUT("sys/class/net/eth0.7/lower_eth0/ifindex", "2\n");
  PUT("sys/class/net/bonding_masters", "\n");
  PUT("sys/class/infiniband/rxe0/parent", "eno1\n");
  PUT("sys/class/infiniband/mlx5_4/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  PUT("sys/class/infiniband/mlx5_4/ports/1/link_layer", "InfiniBand\n");
  PUT("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
  return 0;
}

static int remove_root(void **state)
{
  char line[64];

  (void)state;
  snprintf(line, sizeof(line), "rm -rf %s", root);
  return system(line);
}

static struct topo_machine *machine_read(void)
{
  struct topo_machine *machine;
  char why[TOPO_WHY_BYTES] = "";

  if (topo_machine_read(root, &machine, why) != 0)
    fail_msg("%s", why);
  return machine;
}

static void nodes_and_cpus(void **state)
{
  struct topo_machine *machine = machine_read();
  char text[128];

  (void)state;
  assert_int_equal(machine->node_count, 2);
  assert_int_equal(machine->nodes[1].memory_bytes, 1081933824000);
  assert_string_equal(topo_cpus_text(&machine->nodes[1].cpus, text, sizeof(text)), "8-15,24-31");
  assert_int_equal(machine->cpu_count, 32);
  for (int i = 0; i < 32; i++) {
    assert_int_equal(machine->cpus[i].number, i);
    assert_int_equal(machine->cpus[i].core, i % 16);
    assert_int_equal(machine->cpus[i].node, i % 16 / 8);
    assert_int_equal(machine->cpus[i].is_isolated, i == 4 || i == 5 || i == 12);
    assert_true(machine->cpus[i].is_allowed);
  }
  topo_machine_close(machine);
}

static void adapters(void **state)
{
  static const struct {
    const char *name, *rdma;
    int node;
  } table[] = {{"eno1", "rxe0", 0},   {"eth0", "mlx5_0", 0}, {"eth1", "mlx5_1", 0},
               {"eth2", "mlx5_2", 0}, {"ib0", "mlx5_3", 1},  {"mlx5_4", "mlx5_4", 1},
               {"eth0.7", "", 0},     {"lo", "", -1}};
  struct topo_machine *machine = machine_read();

  (void)state;
  assert_int_equal(machine->adapter_count, sizeof(table) / sizeof(table[0]));
  for (size_t i = 0; i < machine->adapter_count; i++) {
    assert_string_equal(machine->adapters[i].name, table[i].name);
    assert_string_equal(machine->adapters[i].rdma, table[i].rdma);
    assert_int_equal(machine->adapters[i].place.node, table[i].node);
  }
  const struct topo_adapter *eth0 = topo_adapter_find(machine, "14:00.0");
  assert_ptr_equal(eth0, &machine->adapters[1]);
  assert_ptr_equal(topo_adapter_find(machine, "mlx5_0"), eth0);
  assert_string_equal(eth0->model, "MT2910 Family [ConnectX-7]");
  assert_int_equal(eth0->mtu, 9000);
  assert_int_equal(eth0->speed_mbps, 100000);
  assert_string_equal(eth0->state, "up");
  assert_false(eth0->is_infiniband);
  assert_string_equal(topo_adapter_find(machine, "eth0.7")->over, "eth0");
  assert_true(topo_adapter_find(machine, "lo")->is_loopback);
  assert_true(topo_adapter_find(machine, "ib0")->is_infiniband);
  assert_int_equal(topo_adapter_find(machine, "mlx5_4")->speed_mbps, 400000);
  assert_null(topo_adapter_find(machine, "eth9"));
  assert_null(topo_adapter_find(machine, ""));
  topo_machine_close(machine);
}

static void gpus(void **state)
{
  static const enum topo_distance to_eth1[] = {TOPO_NODE, TOPO_PXB, TOPO_SYS, TOPO_SYS};
  struct topo_machine *machine = machine_read();

  (void)state;
  assert_int_equal(machine->gpu_count, 4); /* and not the console of ASPEED */
  for (size_t i = 0; i < 4; i++) {
    assert_true(machine->gpus[i].is_nvidia);
    assert_int_equal(topo_distance_pair(topo_adapter_find(machine, "eth1"), &machine->gpus[i]),
                     to_eth1[i]);
  }
  assert_string_equal(topo_gpu_find(machine, "0000:A1:00.0")->name, "gpu3");
  assert_int_equal(topo_distance_pair(topo_adapter_find(machine, "eth0"), &machine->gpus[0]),
                   TOPO_PIX);
  assert_int_equal(topo_distance_pair(topo_adapter_find(machine, "mlx5_4"), &machine->gpus[3]),
                   TOPO_PHB);
  assert_null(topo_gpu_find(machine, "gpu4"));
  topo_machine_close(machine);
}

static void an_integrated_gpu(void **state)
{
  static const char compatible[] = "nvidia,p3737-0000+p3701-0000\0nvidia,tegra234";

  (void)state;
  put("proc/device-tree/compatible", compatible, sizeof(compatible));
  struct topo_machine *machine = machine_read();
  assert_int_equal(machine->gpu_count, 5);
  const struct topo_gpu *gpu = topo_gpu_find(machine, "gpu0");
  assert_true(gpu->is_integrated);
  assert_int_equal(topo_distance_pair(topo_adapter_find(machine, "eth0"), gpu), TOPO_PHB);
  topo_machine_close(machine);
}

static void a_machine_that_cannot_be_read(void **state)
{
  struct topo_machine *machine;
  char why[TOPO_WHY_BYTES] = "";

  (void)state;
  PUT("penstock/topology.xml", "<topology>");
  assert_true(topo_machine_read(root, &machine, why) < 0);
  assert_non_null(strstr(why, "hwloc cannot read the recording's penstock/topology.xml"));
  topo_machine_close(machine);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nodes_and_cpus),
      cmocka_unit_test(adapters),
      cmocka_unit_test(gpus),
      cmocka_unit_test(an_integrated_gpu),
      cmocka_unit_test(a_machine_that_cannot_be_read),
  };

  if (argc != 2)
    return 2;
  fixture = argv[1];
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
