/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of `bench --all-pairs`, and what it calls slow. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "bench/end_auto.h"
#include "bench/end_devices.h"
#include "bench/matrix.h"
#include "bench/outliers.h"
#include "bench/schedule.h"
#include "bench/tournament.h"
#include "topo/machine.h"

#define MOST 33

static void each_pair_meets_once_and_nobody_has_two_partners(void **state)
{
  (void)state;
  for (uint32_t players = 2; players <= MOST; players++) {
    uint32_t met[MOST][MOST] = {{0}};
    for (uint32_t round = 0; round < bench_tournament_rounds(players); round++) {
      uint32_t rest = 0;
      for (uint32_t i = 0; i < players; i++) {
        const uint32_t partner = bench_tournament_partner(players, round, i);
        assert_true(partner < players);
        assert_int_equal(bench_tournament_partner(players, round, partner), i);
        rest += partner == i;
        met[i][partner]++;
      }
      assert_int_equal(rest, players % 2);
    }
    for (uint32_t i = 0; i < players; i++)
      for (uint32_t j = 0; j < players; j++)
        if (i != j)
          assert_int_equal(met[i][j], 1);
  }
  assert_int_equal(bench_tournament_rounds(1), 0);
  assert_int_equal(bench_tournament_rounds(8), 7);
  assert_int_equal(bench_tournament_rounds(7), 7);
}

/* Players of whom `each` in turn share an adapter, and all even ones a GPU if has_gpu. Returns the
 * rounds. lost: leaves after the first round. */
static uint32_t play(uint32_t players, uint32_t each, bool has_gpu, uint32_t lost)
{
  uint32_t met[MOST][MOST] = {{0}}, partners[MOST];
  struct schedule schedule;
  char name[32];

  assert_int_equal(bench_schedule_open(&schedule, players), 0);
  for (uint32_t i = 0; i < players; i++) {
    snprintf(name, sizeof(name), "adapter %u", i / each);
    assert_int_equal(bench_schedule_share(&schedule, i, "", name), 0);
    if (has_gpu && i % 2 == 0)
      assert_int_equal(bench_schedule_share(&schedule, i, "", "gpu"), 0);
  }
  while (bench_schedule_next(&schedule, partners)) {
    uint32_t users[MOST] = {0}, gpu_users = 0;
    for (uint32_t i = 0; i < players; i++) {
      const uint32_t partner = partners[i];
      assert_true(partner < players);
      assert_int_equal(partners[partner], i);
      met[i][partner] += i != partner;
      if (i >= partner) /* it rests, or its pair is counted */
        continue;
      users[i / each]++;
      users[partner / each] += partner / each != i / each;
      gpu_users += i % 2 == 0 || partner % 2 == 0;
    }
    for (uint32_t i = 0; i < players; i++)
      assert_true(users[i] <= 1);
    assert_true(!has_gpu || gpu_users <= 1);
    if (schedule.round == 1 && lost < players)
      bench_schedule_lose(&schedule, lost);
  }
  for (uint32_t i = 0; i < players; i++)
    for (uint32_t j = 0; j < players; j++)
      if (i != j && i != lost && j != lost)
        assert_int_equal(met[i][j], 1);
      else
        assert_true(met[i][j] <= 1);
  const uint32_t rounds = schedule.round - 1;
  bench_schedule_close(&schedule);
  return rounds;
}

static void no_adapter_is_in_two_pairs_of_a_round(void **state)
{
  (void)state;
  for (uint32_t players = 2; players <= MOST; players++) {
    assert_int_equal(play(players, 1, false, players), bench_tournament_rounds(players));
    play(players, 2, false, players);
    play(players, 3, true, players);
    play(players, 2, true, players / 2);
    /* With one for all, one pair a round. */
    assert_int_equal(play(players, MOST, false, players), players * (players - 1) / 2);
  }
  /* Two ranks on each of eight adapters: a tournament of adapters, four times, and each alone. */
  assert_true(play(16, 2, false, 16) <= 2 * (7 * 4 + 1));
}

static void devices_of_a_list_are_shared_one_by_one(void **state)
{
  static const char *const lists[] = {"a", "", "b,a", "c"};
  uint32_t partners[4], rounds[2] = {0};

  (void)state;
  for (int on_hosts = 0; on_hosts < 2; on_hosts++) {
    struct schedule schedule;
    assert_int_equal(bench_schedule_open(&schedule, 4), 0);
    for (uint32_t i = 0; i < 4; i++)
      assert_int_equal(
          bench_schedule_share(&schedule, i, on_hosts && i == 2 ? "other" : "host", lists[i]), 0);
    for (; bench_schedule_next(&schedule, partners); rounds[on_hosts]++)
      assert_true(on_hosts || partners[0] == 0 || partners[2] == 2 || partners[0] == 2);
    bench_schedule_close(&schedule);
  }
  assert_int_equal(rounds[0], 5); /* each pair alone but for 1 and 3, beside 0 and 2 */
  assert_int_equal(rounds[1], 3);
}

static void the_devices_of_an_endpoint(void **state)
{
  struct topo_address addresses[] = {{.text = "10.1.0.1/16"}, {.text = "127.0.0.1/8"}};
  struct topo_adapter adapters[] = {
      {.name = "ib0", .netdev = "ib0", .rdma = "mlx5_0", .place.pci = "0000:3b:00.0"},
      {.name = "eth0", .netdev = "eth0", .addresses = &addresses[0], .address_count = 1},
      {.name = "lo",
       .netdev = "lo",
       .is_loopback = true,
       .addresses = &addresses[1],
       .address_count = 1},
  };
  struct topo_gpu gpus[] = {{.name = "gpu0", .uuid = "GPU-a", .place.pci = "0000:41:00.0"},
                            {.name = "gpu1", .uuid = "GPU-b", .place.pci = "0000:42:00.0"}};
  struct topo_machine machine = {
      .adapters = adapters, .adapter_count = 3, .gpus = gpus, .gpu_count = 2};
  static const struct {
    const char *transport, *option, *value, *host, *memory, *gpu, *visible;
    const char *adapter, *adapter_id, *gpu_name, *gpu_id;
  } cases[] = {
      {"verbs_rc", "device", "mlx5_0", "10.1.0.1", "host", "", NULL, "mlx5_0", "0000:3b:00.0", "",
       ""},
      {"ucx", "net_devices", "mlx5_0:1", "10.1.0.1", "host", "", NULL, "mlx5_0", "0000:3b:00.0", "",
       ""},
      {"ucx", "net_devices", "lo,mlx5_0:1,eth0", "10.1.0.1", "host", "", NULL, "mlx5_0,eth0",
       "0000:3b:00.0,eth0", "", ""},
      {"ucx", "net_devices", "mlx5_7:1,x", "", "host", "", NULL, "mlx5_7:1,x", "mlx5_7:1,x", "",
       ""},
      {"udp", "sndbuf", "16KiB", "10.1.0.1", "host", "", NULL, "eth0", "eth0", "", ""},
      {"udp", "device", "127.0.0.1", "127.0.0.1", "host", "", NULL, "", "", "", ""},
      {"loopback", "a", "b", "10.1.0.1", "cuda", "", NULL, "", "", "gpu0", "0000:41:00.0"},
      {"loopback", "a", "b", "", "cuda", "1", NULL, "", "", "gpu1", "0000:42:00.0"},
      {"loopback", "a", "b", "", "cuda", "0", "1", "", "", "gpu1", "0000:42:00.0"},
      {"loopback", "a", "b", "", "cuda", "1", "1,0", "", "", "gpu0", "0000:41:00.0"},
      {"loopback", "a", "b", "", "cuda", "", "GPU-b,GPU-a", "", "", "gpu1", "0000:42:00.0"},
      {"loopback", "a", "b", "", "cuda", "42:00.0", "1", "", "", "gpu1", "0000:42:00.0"},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct pst_setting transport = {cases[i].option, cases[i].value};
    struct pst_setting memory = {"device", cases[i].gpu};
    const struct bench_side side = {.transport = cases[i].transport,
                                    .memory = cases[i].memory,
                                    .transport_options = &transport,
                                    .transport_option_count = 1,
                                    .memory_options = &memory,
                                    .memory_option_count = 1};
    struct end_devices devices;
    if (cases[i].visible)
      setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
    else
      unsetenv("CUDA_VISIBLE_DEVICES");
    bench_end_devices_find(&machine, &side, cases[i].host, &devices);
    assert_string_equal(devices.adapter.name, cases[i].adapter);
    assert_string_equal(devices.adapter.id, cases[i].adapter_id);
    assert_string_equal(devices.gpu.name, cases[i].gpu_name);
    assert_string_equal(devices.gpu.id, cases[i].gpu_id);
  }
}

/* Two NUMA nodes, on each a switch with an adapter and a GPU; eth0 is on node 0, too. */
static void endpoints_by_the_topology(void **state)
{
#define ON(n, address)                                                                             \
  .place = {.node = n, .pci = address, .depth = 2, .bridges = {"0000:" #n, "0000:" #n ":01.0"} }
  struct topo_address addresses[] = {{.text = "10.1.0.1/16"},
                                     {.text = "fe80::1/64", .is_link_local = true}};
  struct topo_adapter adapters[] = {
      {.name = "ib0",
       .netdev = "ib0",
       .rdma = "mlx5_0",
       .addresses = addresses,
       .address_count = 1,
       ON(0, "0000:3b:00.0")},
      {.name = "ib1",
       .netdev = "ib1",
       .rdma = "mlx5_1",
       .addresses = &addresses[1],
       .address_count = 1,
       ON(1, "0000:bb:00.0")},
      {.name = "eth0",
       .netdev = "eth0",
       .addresses = addresses,
       .address_count = 1,
       .place = {.pci = "0000:01:00.0"}},
      {.name = "eth1",
       .netdev = "eth1",
       .addresses = addresses,
       .address_count = 1,
       .state = "down",
       .place = {.pci = "0000:01:00.1"}},
      {.name = "bond0",
       .netdev = "bond0",
       .over = "eth0",
       .addresses = addresses,
       .address_count = 1,
       .place = {.pci = "0000:01:00.0"}},
      {.name = "lo",
       .netdev = "lo",
       .is_loopback = true,
       .addresses = addresses,
       .address_count = 1},
  };
  struct topo_gpu gpus[] = {{.name = "gpu0", .is_nvidia = true, ON(0, "0000:41:00.0")},
                            {.name = "gpu1", .is_nvidia = true, ON(1, "0000:c1:00.0")}};
  struct topo_cpu cpus[] = {{.number = 0, .core = 0, .node = 0, .is_allowed = true},
                            {.number = 1, .core = 1, .node = 0, .is_allowed = true},
                            {.number = 2, .core = 2, .node = 1, .is_allowed = true}};
#undef ON
  struct topo_machine machine = {.adapters = adapters,
                                 .adapter_count = 6,
                                 .gpus = gpus,
                                 .gpu_count = 2,
                                 .cpus = cpus,
                                 .cpu_count = 3};
  static const struct {
    const char *transport, *memory, *visible;
    int count;
    const char *first, *last;
  } cases[] = {
      {"verbs_rc", "cuda", NULL, 2,
       "address=ib0,cpu=1,transport.device=mlx5_0,memory.device=0000:41:00.0",
       "cpu=2,transport.device=mlx5_1,memory.device=0000:c1:00.0"},
      {"verbs_dc", "cuda", "1", 1, "cpu=2,transport.device=mlx5_1,memory.device=0000:c1:00.0",
       NULL},
      {"verbs_rc", "cuda", "1,0", 2, "cpu=2,transport.device=mlx5_1,memory.device=0000:c1:00.0",
       "address=ib0,cpu=1,transport.device=mlx5_0,memory.device=0000:41:00.0"},
      {"verbs_rc", "cuda", "", -ENODEV, "no GPU of NVIDIA", NULL},
      {"loopback", "cuda", "0", 1, "cpu=1,memory.device=0000:41:00.0", NULL},
      {"udp", "cuda", NULL, -ENODEV,
       "the adapter nearest to gpu1 is ib1, which is down or has no address", NULL},
      {"verbs_rc", "host", NULL, 2, "address=ib0,cpu=1,transport.device=mlx5_0",
       "cpu=2,transport.device=mlx5_1"},
      {"udp", "host", NULL, 2, "address=ib0,cpu=1,transport.device=ib0",
       "address=eth0,cpu=1,transport.device=eth0"},
      {"ucx", "host", NULL, 2, "address=ib0,cpu=1,transport.net_devices=mlx5_0:1",
       "address=eth0,cpu=1,transport.net_devices=eth0"},
      {"loopback", "host", NULL, -ENODEV, "the transport uses no adapter", NULL},
      {"ethernet", "host", NULL, -EINVAL, "transport ethernet names its adapters in another way",
       NULL},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char ends[8][END_AUTO_BYTES] = {""}, why[END_AUTO_BYTES] = "";
    if (cases[i].visible)
      setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
    else
      unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(bench_end_auto(&machine, cases[i].transport, cases[i].memory, ends, 8, why),
                     cases[i].count);
    if (cases[i].count < 0) {
      assert_non_null(strstr(why, cases[i].first));
      continue;
    }
    assert_string_equal(ends[0], cases[i].first);
    if (cases[i].last)
      assert_string_equal(ends[cases[i].count - 1], cases[i].last);
  }
  unsetenv("CUDA_VISIBLE_DEVICES");
}

/* Links of about 100, of which none is exactly as the other. */
static void fill(double *values, uint32_t ends)
{
  for (uint32_t i = 0; i < ends * ends; i++)
    values[i] = i % (ends + 1) == 0 ? -1 : 100 + (double)(i * 7 % 5) / 5;
}

static struct bench_outlier found[MOST * MOST];
static struct bench_spread spread;

static uint32_t find(const double *values, uint32_t ends, bool more_is_better)
{
  struct bench_outlier *outliers = NULL;
  uint32_t count = 0;

  assert_int_equal(bench_outliers_find(values, ends, more_is_better, &spread, &outliers, &count),
                   0);
  if (count > 0)
    memcpy(found, outliers, count * sizeof(found[0]));
  free(outliers);
  return count;
}

static void nothing_is_slow_where_all_are_alike(void **state)
{
  double values[MOST * MOST];

  (void)state;
  for (uint32_t ends = 2; ends <= MOST; ends++) {
    fill(values, ends);
    assert_int_equal(find(values, ends, true), 0);
    assert_int_equal(find(values, ends, false), 0);
    assert_int_equal(spread.count, ends * (ends - 1));
    assert_true(spread.median >= 100 && spread.median < 101);
  }
}

static void a_slow_link_is_a_link(void **state)
{
  double values[MOST * MOST];

  (void)state;
  for (uint32_t ends = 3; ends <= MOST; ends++) {
    fill(values, ends);
    values[1 * ends + 2] = 60;
    assert_int_equal(find(values, ends, true), 1);
    assert_int_equal(found[0].what, BENCH_SLOW_LINK);
    assert_int_equal(found[0].from, 1);
    assert_int_equal(found[0].to, 2);
    /* The other direction as well: the worse one comes first. */
    values[2 * ends + 1] = 50;
    assert_int_equal(find(values, ends, true), 2);
    assert_int_equal(found[0].from, 2);
    assert_int_equal(found[1].from, 1);
    assert_int_equal(found[1].what, BENCH_SLOW_LINK);
  }
}

static void a_slow_end_is_one_finding(void **state)
{
  double values[MOST * MOST];

  (void)state;
  for (uint32_t ends = 3; ends <= MOST; ends++) {
    fill(values, ends);
    for (uint32_t i = 0; i < ends; i++)
      if (i != 2)
        values[2 * ends + i] = 40;
    assert_int_equal(find(values, ends, true), 1);
    assert_int_equal(found[0].what, BENCH_SLOW_SENDER);
    assert_int_equal(found[0].from, 2);
    for (uint32_t i = 0; i < ends; i++)
      if (i != 2)
        values[i * ends + 2] = 40;
    assert_int_equal(find(values, ends, true), 1);
    assert_int_equal(found[0].what, BENCH_SLOW_END);
    assert_int_equal(found[0].from, 2);
    assert_true(spread.median >= 100); /* of the others alone */
  }
}

static void an_end_that_receives_slowly(void **state)
{
  double values[16];

  (void)state;
  fill(values, 4);
  for (uint32_t i = 0; i < 3; i++)
    values[i * 4 + 3] = 70;
  assert_int_equal(find(values, 4, true), 1);
  assert_int_equal(found[0].what, BENCH_SLOW_RECEIVER);
  assert_int_equal(found[0].to, 3);
}

static void a_slow_end_and_a_slow_link(void **state)
{
  double values[64];

  (void)state;
  fill(values, 8);
  for (uint32_t i = 0; i < 8; i++)
    if (i != 5)
      values[5 * 8 + i] = values[i * 8 + 5] = 30;
  values[0 * 8 + 1] = 80;
  assert_int_equal(find(values, 8, true), 2);
  assert_int_equal(found[0].what, BENCH_SLOW_END);
  assert_int_equal(found[0].from, 5);
  assert_int_equal(found[1].what, BENCH_SLOW_LINK);
  assert_int_equal(found[1].to, 1);
}

static void of_latencies_the_long_ones_are_slow(void **state)
{
  double values[16];

  (void)state;
  fill(values, 4);
  values[0 * 4 + 3] = 150;
  values[1 * 4 + 3] = 50;
  assert_int_equal(find(values, 4, false), 1);
  assert_int_equal(found[0].what, BENCH_SLOW_LINK);
  assert_int_equal(found[0].from, 0);
  assert_int_equal(found[0].to, 3);
}

/* Where all links differ by much, one that differs by as much is none. */
static void noise_is_no_finding(void **state)
{
  double values[36];

  (void)state;
  for (uint32_t i = 0; i < 36; i++)
    values[i] = i % 7 == 0 ? -1 : 60 + (double)(i * 11 % 17) * 5;
  assert_int_equal(find(values, 6, true), 0);
  values[1] = 1;
  assert_int_equal(find(values, 6, true), 0);
  /* One that differs by less than a tenth is none either, however alike the others are. */
  for (uint32_t i = 0; i < 36; i++)
    values[i] = i % 7 == 0 ? -1 : 100;
  values[1] = 91;
  assert_int_equal(find(values, 6, true), 0);
  values[1] = 89;
  assert_int_equal(find(values, 6, true), 1);
}

static void what_was_not_measured_counts_for_nothing(void **state)
{
  double values[16];

  (void)state;
  for (uint32_t i = 0; i < 16; i++)
    values[i] = -1;
  assert_int_equal(find(values, 4, true), 0);
  assert_int_equal(spread.count, 0);
  fill(values, 4);
  for (uint32_t i = 0; i < 4; i++) /* rank 2 has died */
    values[2 * 4 + i] = values[i * 4 + 2] = -1;
  values[0 * 4 + 1] = 10;
  assert_int_equal(find(values, 4, true), 1);
  assert_int_equal(found[0].what, BENCH_SLOW_LINK);
  assert_int_equal(found[0].from, 0);
}

/* Another rank's number is as large as it likes, or none. */
static void a_value_that_no_link_has_is_not_measured(void **state)
{
  static const char *const values[] = {"NaN",   "Infinity", "-1",   "0",
                                       "1e300", "\"inf\"",  "null", "[]"};
  struct matrix matrix = {.c = {.measure = MEASURE_BANDWIDTH}};
  char text[64];

  (void)state;
  assert_int_equal(bench_matrix_open(&matrix, 2), 0);
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
    snprintf(text, sizeof(text), "{\"gbps\": %s}", values[i]);
    struct json_object *row = json_tokener_parse(text);
    assert_non_null(row);
    matrix.values[1] = 7;
    bench_matrix_take(&matrix, 0, 1, row);
    assert_true(matrix.values[1] == MATRIX_NOT_MEASURED);
    json_object_put(row);
  }
  struct json_object *row = json_tokener_parse("{\"gbps\": 2.5}");
  bench_matrix_take(&matrix, 0, 1, row);
  assert_true(matrix.values[1] == 2.5);
  json_object_put(row);
  bench_matrix_close(&matrix);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_pair_meets_once_and_nobody_has_two_partners),
      cmocka_unit_test(no_adapter_is_in_two_pairs_of_a_round),
      cmocka_unit_test(devices_of_a_list_are_shared_one_by_one),
      cmocka_unit_test(the_devices_of_an_endpoint),
      cmocka_unit_test(endpoints_by_the_topology),
      cmocka_unit_test(nothing_is_slow_where_all_are_alike),
      cmocka_unit_test(a_slow_link_is_a_link),
      cmocka_unit_test(a_slow_end_is_one_finding),
      cmocka_unit_test(an_end_that_receives_slowly),
      cmocka_unit_test(a_slow_end_and_a_slow_link),
      cmocka_unit_test(of_latencies_the_long_ones_are_slow),
      cmocka_unit_test(noise_is_no_finding),
      cmocka_unit_test(what_was_not_measured_counts_for_nothing),
      cmocka_unit_test(a_value_that_no_link_has_is_not_measured),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
