/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/verbs/numa.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "numa.h"

#include <penstock/page.h>

static char folder[] = "/tmp/penstock-numa-XXXXXX";

static void put(const char *name, const char *value)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(value, file) >= 0);
  fclose(file);
}

static void a_device_is_on_the_node_that_sysfs_says(void **state)
{
  (void)state;
  assert_int_equal(vb_numa_of_device(folder), VB_NUMA_UNKNOWN);
  put("device/numa_node", "3\n");
  assert_int_equal(vb_numa_of_device(folder), 3);
  put("device/numa_node", "-1\n"); /* as firmware without a table has it */
  assert_int_equal(vb_numa_of_device(folder), VB_NUMA_UNKNOWN);
  put("device/numa_node", "999999\n");
  assert_int_equal(vb_numa_of_device(folder), VB_NUMA_UNKNOWN);
}

static void distances_are_the_kernels(void **state)
{
  (void)state;
  put("node1/distance", "21 10 31\n");
  assert_int_equal(vb_numa_distance(folder, 1, 0), 0); /* nobody says which are online */
  put("online", "0-2\n");
  assert_int_equal(vb_numa_distance(folder, 1, 0), 21);
  assert_int_equal(vb_numa_distance(folder, 1, 1), 10);
  assert_int_equal(vb_numa_distance(folder, 1, 2), 31);
  assert_int_equal(vb_numa_distance(folder, 1, 3), 0);
  assert_int_equal(vb_numa_distance(folder, 2, 0), 0);
  assert_int_equal(vb_numa_distance(folder, -1, 0), 0);
  put("online", "1,8,16-17,252\n"); /* of some POWER machines */
  put("node1/distance", "10 40 80 81 82\n");
  assert_int_equal(vb_numa_distance(folder, 1, 0), 0);
  assert_int_equal(vb_numa_distance(folder, 1, 1), 10);
  assert_int_equal(vb_numa_distance(folder, 1, 2), 0);
  assert_int_equal(vb_numa_distance(folder, 1, 8), 40);
  assert_int_equal(vb_numa_distance(folder, 1, 17), 81);
  assert_int_equal(vb_numa_distance(folder, 1, 252), 82);
  assert_int_equal(vb_numa_distance(folder, 1, 253), 0);
  assert_true(vb_numa_cross(0, 1));
  assert_false(vb_numa_cross(1, 1));
  assert_false(vb_numa_cross(-1, 1));
  assert_false(vb_numa_cross(1, -1));
}

/* Whatever the policy was, it is again; node 0 is there where any is. */
static void preferring_a_node_ends(void **state)
{
  (void)state;
  struct vb_numa_policy before, again;
  vb_numa_prefer(VB_NUMA_UNKNOWN, &before);
  assert_int_equal(before.mode, -1);
  vb_numa_prefer(0, &before);
  if (before.mode < 0) {
    print_message("no NUMA in this kernel or emulator, or its system calls are not allowed here\n");
    skip();
  }
  vb_numa_prefer(0, &again);
  assert_int_equal(again.mode, -1); /* one is set */
  char *page =
      mmap(NULL, pst_page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(page != MAP_FAILED);
  page[0] = 1;
  assert_int_equal(vb_numa_of_page(page), 0);
  munmap(page, pst_page_size());
  vb_numa_restore(&before);
  vb_numa_prefer(0, &again);
  assert_true(again.mode >= 0);
  vb_numa_restore(&again);
}

static int make(void **state)
{
  (void)state;
  char path[128];
  if (!mkdtemp(folder))
    return -1;
  snprintf(path, sizeof(path), "%s/device", folder);
  if (mkdir(path, 0700) != 0)
    return -1;
  snprintf(path, sizeof(path), "%s/node1", folder);
  return mkdir(path, 0700);
}

static int drop(void **state)
{
  (void)state;
  static const char *const all[] = {"/device/numa_node", "/node1/distance", "/online",
                                    "/device",           "/node1",          ""};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    char path[128];
    snprintf(path, sizeof(path), "%s%s", folder, all[i]);
    remove(path);
  }
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_device_is_on_the_node_that_sysfs_says),
      cmocka_unit_test(distances_are_the_kernels),
      cmocka_unit_test(preferring_a_node_ends),
  };
  return cmocka_run_group_tests(tests, make, drop) ? 1 : 0;
}
