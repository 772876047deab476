/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of a host that are not as the first one is: host.yaml. */
#include <net/if.h>

#include "support.h"

static struct ibv_context *open_named(const char *name)
{
  struct ibv_device **devices = ibv_get_device_list(NULL);
  struct ibv_context *context = NULL;
  bool found = false;
  assert_non_null(devices);
  for (int i = 0; devices[i] && !found; i++) {
    found = !strcmp(ibv_get_device_name(devices[i]), name);
    if (found)
      context = ibv_open_device(devices[i]);
  }
  assert_true(found);
  const int code = errno;
  ibv_free_device_list(devices);
  errno = code;
  return context;
}

/* Each index is of the namespace that has the netdev: of the second entry it is lo's here. */
static void test_gids_of_other_namespaces_are_there(void **state)
{
  (void)state;
  struct ibv_context *context = open_named("pod0");
  struct ibv_gid_entry entries[8];
  assert_non_null(context);
  assert_int_equal(ibv_query_gid_table(context, entries, 8, 0), 3);
  assert_int_equal(entries[0].ndev_ifindex, 4);
  assert_int_equal(entries[1].ndev_ifindex, 1);
  assert_int_equal(entries[1].gid.raw[12], 192);
  assert_int_equal(entries[2].ndev_ifindex, if_nametoindex("lo"));
  assert_int_equal(ibv_close_device(context), 0);
}

static void test_completion_queues_that_stay_as_they_are(void **state)
{
  (void)state;
  struct ibv_context *context = open_named("fixed0");
  assert_non_null(context);
  struct ibv_cq *cq = ibv_create_cq(context, 100, NULL, NULL, 0);
  assert_non_null(cq);
  const int had = cq->cqe;
  assert_int_equal(ibv_resize_cq(cq, had), EOPNOTSUPP);
  assert_int_equal(ibv_resize_cq(cq, 2 * had), EOPNOTSUPP);
  assert_int_equal(cq->cqe, had);
  assert_int_equal(ibv_destroy_cq(cq), 0);
  assert_int_equal(ibv_close_device(context), 0);
}

static void test_a_port_that_no_subnet_manager_has_seen(void **state)
{
  (void)state;
  struct ibv_context *context = open_named("ib0");
  struct ibv_port_attr port;
  assert_non_null(context);
  assert_int_equal(ibv_query_port(context, 1, &port), 0);
  assert_int_equal(port.lid, 0);
  assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_port_that_no_subnet_manager_has_seen),
      cmocka_unit_test(test_completion_queues_that_stay_as_they_are),
      cmocka_unit_test(test_gids_of_other_namespaces_are_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
