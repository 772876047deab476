/* SPDX-License-Identifier: Apache-2.0 */
/* Distances, and which adapter is best for a GPU. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "topo/distance.h"

#define BRIDGES(...)                                                                               \
  .depth = sizeof((const char[][TOPO_PCI_BYTES]){__VA_ARGS__}) / TOPO_PCI_BYTES,                   \
  .bridges = {__VA_ARGS__}

static const struct topo_place
    switch_a = {.node = 0, BRIDGES("0000:10", "0000:10:01.0", "0000:11:00.0", "0000:12:00.0")},
    switch_b = {.node = 0, BRIDGES("0000:10", "0000:10:01.0", "0000:11:00.0", "0000:12:01.0")},
    below_b = {.node = 0,
               BRIDGES("0000:10", "0000:10:01.0", "0000:11:00.0", "0000:12:01.0", "0000:14:00.0",
                       "0000:15:00.0")},
    other_port = {.node = 0, BRIDGES("0000:10", "0000:10:02.0")},
    on_root = {.node = 0, BRIDGES("0000:10")},
    other_bridge = {.node = 0, BRIDGES("0000:20", "0000:20:01.0")},
    other_node = {.node = 1, BRIDGES("0000:80", "0000:80:01.0")},
    no_node_a = {.node = -1, BRIDGES("0000:30", "0000:30:01.0")},
    no_node_b = {.node = -1, BRIDGES("0000:40", "0000:40:01.0")}, nowhere = {.node = -1};

static void distances(void **state)
{
  static const struct {
    const struct topo_place *a, *b;
    enum topo_distance distance;
  } table[] = {
      {&switch_a, &switch_a, TOPO_PIX},      /* functions of one card */
      {&switch_a, &switch_b, TOPO_PIX},      /* ports of one switch */
      {&switch_a, &below_b, TOPO_PXB},       /* a switch below the other */
      {&switch_a, &other_port, TOPO_PHB},    /* two root ports */
      {&switch_a, &on_root, TOPO_PHB},       /* a device in the CPU */
      {&on_root, &on_root, TOPO_PHB},        /* as those of a virtual machine */
      {&switch_a, &other_bridge, TOPO_NODE}, /* two host bridges */
      {&switch_a, &other_node, TOPO_SYS},    /* two sockets */
      {&no_node_a, &no_node_b, TOPO_SYS},    /* which may be two sockets */
      {&no_node_a, &no_node_a, TOPO_PIX},    /* the tree says enough */
      {&nowhere, &nowhere, TOPO_SYS},        {&nowhere, &switch_a, TOPO_SYS},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    assert_int_equal(topo_distance(table[i].a, table[i].b), table[i].distance);
    assert_int_equal(topo_distance(table[i].b, table[i].a), table[i].distance);
  }
}

static void integrated(void **state)
{
  struct topo_gpu gpu = {.is_integrated = true, .place = {.node = 0}};
  struct topo_adapter adapter = {.place = switch_a};

  (void)state;
  assert_int_equal(topo_distance_pair(&adapter, &gpu), TOPO_PHB);
  adapter.place = other_node;
  assert_int_equal(topo_distance_pair(&adapter, &gpu), TOPO_SYS);
}

/* Each adapter is better than all that follow it. */
static void best_adapter(void **state)
{
  struct topo_adapter adapters[] = {
      {.place = switch_b, .name = "near", .rdma = "mlx5_0", .speed_mbps = 100000, .state = "up"},
      {.place = switch_b, .name = "slow", .rdma = "mlx5_1", .speed_mbps = 25000, .state = "up"},
      {.place = switch_b, .name = "plain", .netdev = "eth2", .speed_mbps = 100000, .state = "up"},
      {.place = below_b, .name = "far", .rdma = "mlx5_2", .speed_mbps = 400000},
      {.place = switch_b, .name = "down", .rdma = "mlx5_3", .speed_mbps = 400000, .state = "down"},
  };
  const size_t count = sizeof(adapters) / sizeof(adapters[0]);
  const struct topo_gpu gpu = {.place = switch_a};
  struct topo_machine machine = {.adapters = adapters};

  (void)state;
  assert_null(topo_distance_best_adapter(&machine, &gpu));
  for (size_t i = 0; i < count; i++)
    snprintf(adapters[i].place.pci, TOPO_PCI_BYTES, "0000:13:00.%zu", i);
  for (size_t first = 0; first < count; first++) {
    machine.adapters = adapters + first;
    machine.adapter_count = count - first;
    assert_ptr_equal(topo_distance_best_adapter(&machine, &gpu), &adapters[first]);
  }
  for (size_t i = 0; i < count / 2; i++) {
    const struct topo_adapter other = adapters[i];
    adapters[i] = adapters[count - 1 - i];
    adapters[count - 1 - i] = other;
  }
  machine.adapters = adapters;
  machine.adapter_count = count;
  assert_string_equal(topo_distance_best_adapter(&machine, &gpu)->name, "near");
  /* A VLAN has its lower interface's place, and is no card. */
  snprintf(adapters[count - 1].over, IFNAMSIZ, "eth0");
  assert_string_equal(topo_distance_best_adapter(&machine, &gpu)->name, "slow");
}

static void best_gpu(void **state)
{
  struct topo_gpu gpus[] = {{.name = "other", .place = switch_b},
                            {.name = "far", .place = other_node, .is_nvidia = true},
                            {.name = "near", .place = below_b, .is_nvidia = true}};
  const struct topo_adapter adapter = {.place = switch_a};
  struct topo_machine machine = {.gpus = gpus, .gpu_count = 3};

  (void)state;
  assert_string_equal(topo_distance_best_gpu(&machine, &adapter)->name, "near");
  machine.gpu_count = 1;
  assert_null(topo_distance_best_gpu(&machine, &adapter));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(distances), cmocka_unit_test(integrated),
                                     cmocka_unit_test(best_adapter), cmocka_unit_test(best_gpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
