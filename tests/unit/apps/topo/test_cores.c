/* SPDX-License-Identifier: Apache-2.0 */
/* Which CPUs are chosen, on a machine of two nodes of four cores with two CPUs each. */
#include "support.h"

#include "topo/cores.h"

#define CPUS 16
#define CORES 8

static struct topo_cpu cpus[CPUS];
static struct topo_gpu gpus[2];
static struct topo_machine machine = {
    .cpus = cpus, .cpu_count = CPUS, .gpus = gpus, .gpu_count = 2};
static const struct topo_place on_0 = {.node = 0}, on_1 = {.node = 1};

static int set_up(void **state)
{
  (void)state;
  for (int i = 0; i < CPUS; i++)
    cpus[i] = (struct topo_cpu){
        .number = i, .core = i % CORES, .node = i % CORES / 4, .is_allowed = true};
  gpus[0].place.node = gpus[1].place.node = 0;
  return 0;
}

static void expect(const struct topo_place *place, size_t count, const int *numbers)
{
  struct topo_core cores[CPUS];

  assert_int_equal(topo_cores_choose(&machine, place, cores, CPUS), count);
  for (size_t i = 0; i < count; i++)
    assert_int_equal(cores[i].cpu, numbers[i]);
}

static void one_of_each_core_and_cpu_0_last(void **state)
{
  (void)state;
  expect(&on_0, 4, (const int[]){1, 2, 3, 0});
  expect(&on_1, 4, (const int[]){4, 5, 6, 7});
}

static void isolated_first(void **state)
{
  (void)state;
  cpus[3].is_isolated = cpus[6].is_isolated = true;
  /* CPU 11 is on CPU 3's core, and is not isolated: it comes by itself, behind. */
  expect(&on_0, 5, (const int[]){3, 1, 2, 11, 0});
  expect(&on_1, 5, (const int[]){6, 4, 5, 7, 14});
}

static void only_allowed_ones(void **state)
{
  (void)state;
  for (int i = 0; i < CPUS; i++)
    cpus[i].is_allowed = i == 0 || i == 10 || i == 5;
  expect(&on_0, 2, (const int[]){10, 0});
  /* The place has none: another node's are better than nothing. */
  cpus[5].is_allowed = false;
  expect(&on_1, 2, (const int[]){10, 0});
}

static void by_the_cpus_of_a_place_without_a_node(void **state)
{
  struct topo_place place = {.node = -1};

  (void)state;
  CPU_SET(2, &place.cpus);
  expect(&place, 1, (const int[]){2});
}

static void at_most(void **state)
{
  struct topo_core cores[2] = {{.cpu = -1}, {.cpu = -1}};

  (void)state;
  assert_int_equal(topo_cores_choose(&machine, &on_0, cores, 1), 1);
  assert_int_equal(cores[0].cpu, 1);
  assert_int_equal(cores[1].cpu, -1);
  assert_true(cores[0].is_near && cores[0].is_quiet && !cores[0].is_isolated);
  assert_int_equal(topo_cores_choose(&machine, &on_0, cores, 0), 0);
}

/* Two GPUs of a node have no CPU in common, where there are enough. */
static void dealt_out_to_gpus(void **state)
{
  struct topo_core cores[CPUS];

  (void)state;
  gpus[0].place.node = gpus[1].place.node = 1;
  assert_int_equal(topo_cores_for_gpu(&machine, 0, &on_1, cores, CPUS), 2);
  assert_int_equal(cores[0].cpu, 4);
  assert_int_equal(cores[1].cpu, 5);
  assert_int_equal(topo_cores_for_gpu(&machine, 1, &on_1, cores, CPUS), 2);
  assert_int_equal(cores[0].cpu, 6);
  assert_int_equal(cores[1].cpu, 7);
  gpus[0].place.node = 0;
  assert_int_equal(topo_cores_for_gpu(&machine, 1, &on_1, cores, CPUS), 4);
  cpus[7].is_isolated = true;
  gpus[0].place.node = 1;
  assert_int_equal(topo_cores_for_gpu(&machine, 1, &on_1, cores, CPUS), 1);
  assert_int_equal(cores[0].cpu, 7);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(one_of_each_core_and_cpu_0_last, set_up),
      cmocka_unit_test_setup(isolated_first, set_up),
      cmocka_unit_test_setup(only_allowed_ones, set_up),
      cmocka_unit_test_setup(by_the_cpus_of_a_place_without_a_node, set_up),
      cmocka_unit_test_setup(at_most, set_up),
      cmocka_unit_test_setup(dealt_out_to_gpus, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
