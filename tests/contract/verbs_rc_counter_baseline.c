/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rc's report of the port's counters when a connection fails, on a simulated device that has
 * some.
 *
 *     penstock-simverbs verbs-rc-since PLUGIN LAUNCHER
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs_rc_stream.h"

#define VB_COUNTERS 128
#define COUNTED "/ports/1/hw_counters"

static char counted[] = "/tmp/penstock-counted-XXXXXX"; /* a device's folder in sysfs */
static uint64_t still;                                  /* the time */

static uint64_t still_ns(void)
{
  return still;
}

static void count_as(const char *name, uint32_t value)
{
  char path[128];
  snprintf(path, sizeof(path), "%s" COUNTED "/%s", counted, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fprintf(file, "%u\n", value) > 0);
  assert_int_equal(fclose(file), 0);
}

static void count(uint32_t value)
{
  count_as("retry_exceeded_err", value);
}

/* Makes, or removes, counters in sysfs, which the simulated device lacks. */
static void have_counters(bool has)
{
  static const char *const folders[] = {"", "/ports", "/ports/1", COUNTED};
  const int n = sizeof(folders) / sizeof(folders[0]);
  char path[128];
  if (has)
    assert_non_null(mkdtemp(counted));
  for (int i = 1; has && i < n; i++) {
    snprintf(path, sizeof(path), "%s%s", counted, folders[i]);
    assert_int_equal(mkdir(path, 0700), 0);
  }
  for (int i = 0; !has && i < 2; i++) {
    snprintf(path, sizeof(path), "%s" COUNTED "/%s", counted,
             i ? "out_of_sequence" : "retry_exceeded_err");
    assert_int_equal(unlink(path), 0);
  }
  for (int i = n; !has && i-- > 0;) {
    snprintf(path, sizeof(path), "%s%s", counted, folders[i]);
    assert_int_equal(rmdir(path), 0);
  }
}

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

static void connect_both(struct contract_pair *pair, uint32_t which)
{
  struct pst_blob blob;
  contract_address(&pair->receiver, which, &blob);
  assert_int_equal(contract_connect(&pair->sender, which, &blob), 0);
  contract_address(&pair->sender, which, &blob);
  assert_int_equal(contract_connect(&pair->receiver, which, &blob), 0);
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
}

/* The port's counter as the device counts, since the device was opened. */
static uint64_t device_counter(const struct contract_side *side)
{
  struct pst_counter all[VB_COUNTERS];
  int n = side->image.ops->counters(side->device, NULL, NULL, all, VB_COUNTERS);

  for (int i = 0; i < n && i < VB_COUNTERS; i++)
    if (strcmp(all[i].name, "retry_exceeded_err") == 0)
      return all[i].value;
  return UINT64_MAX;
}

/* A connection reports what counters grew by since it began, not what they had before. Connections
 * that begin at one time read the counters once. */
static void counters_are_reported_since_the_connection_began(void **state)
{
  static const struct {
    uint64_t at_ms;
    uint32_t count;
    const char *said;
  } ends[] = {{1000, 9, "connection began: retry_exceeded_err +13."},
              {1099, 12, "connection began: retry_exceeded_err +13."},
              {1100, 15, "connection began: retry_exceeded_err +7."}};
  const uint32_t n = sizeof(ends) / sizeof(ends[0]);
  struct contract_params params = stream_params;
  char path[IBV_SYSFS_PATH_MAX], line[1024];
  uint32_t wait;
  (void)state;
  params.endpoints = n;
  have_counters(true);
  snprintf(path, sizeof(path), "%s", counted);
  swap_path(path);
  contract_host_clock(still_ns);
  still = UINT64_C(1000000000);
  count(5);
  struct contract_pair *pair = contract_pair_open(&stream_variants[ONCE], &params);
  for (uint32_t i = 0; i < n; i++) {
    still = ends[i].at_ms * 1000000;
    count(ends[i].count);
    connect_both(pair, i);
  }
  count(22);
  assert_int_equal(device_counter(&pair->sender), 17);
  contract_listen("sender: the connection from");
  simulated_ctl("drop");
  for (uint32_t i = 0; i < n; i++) {
    struct pst_request request = contract_send(&pair->sender, 0, params.message, i);
    assert_int_equal(contract_post(&pair->sender, i, &request, 1, &wait), 1);
    contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_ERROR);
    assert_non_null(strstr(line, ends[i].said));
  }
  contract_listen(NULL);
  contract_host_clock(contract_now_ns);
  simulated_ctl("clear");
  contract_pair_close(pair);
  contract_complaints();
  swap_path(path);
  count_as("out_of_sequence", 0);
  have_counters(false);
}

/* On a device each of them is a command of its firmware's: a thread of the host's reads them. */
static void connecting_waits_for_no_counter(void **state)
{
  (void)state;
  struct contract_params params = stream_params;
  char path[IBV_SYSFS_PATH_MAX], line[1024];
  uint32_t wait;
  snprintf(counted, sizeof(counted), "/tmp/penstock-counted-XXXXXX");
  have_counters(true);
  count(5);
  count_as("out_of_sequence", 0);
  snprintf(path, sizeof(path), "%s", counted);
  swap_path(path);
  struct contract_pair *pair = contract_pair_open(&stream_variants[ONCE], &params);
  struct pst_blob blob;
  contract_host_holds_works(true);
  contract_address(&pair->receiver, 0, &blob);
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), 0);
  contract_address(&pair->sender, 0, &blob);
  assert_int_equal(contract_connect(&pair->receiver, 0, &blob), 0);
  count(9);
  contract_host_holds_works(false);
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  count(22);
  contract_listen("sender: the connection from");
  simulated_ctl("drop");
  struct pst_request request = contract_send(&pair->sender, 0, params.message, 0);
  assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), 1);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_ERROR);
  assert_non_null(strstr(line, "retry_exceeded_err +13"));
  contract_listen(NULL);
  simulated_ctl("clear");
  contract_pair_close(pair);
  contract_complaints();
  swap_path(path);
  have_counters(false);
}

/* Nothing fails: one warning a device, where the counters are asked for or the device closes. */
static void a_slow_link_is_reported_once(void **state)
{
  (void)state;
  const struct contract_variant *variant = &stream_variants[ONCE];
  char path[IBV_SYSFS_PATH_MAX], line[1024];
  struct pst_counter all[VB_COUNTERS];
  struct contract_image image;
  struct pst_device *device;
  snprintf(counted, sizeof(counted), "/tmp/penstock-counted-XXXXXX");
  have_counters(true);
  snprintf(path, sizeof(path), "%s", counted);
  swap_path(path);
  contract_image_open(variant, false, &image);
  contract_listen("the link is slow");
  for (uint32_t asks = 0; asks < 3; asks++) {
    count(0);
    count_as("out_of_sequence", 7);
    contract_device_open(variant, &image, true, false, &device);
    count_as("out_of_sequence", 106);
    image.ops->counters(device, NULL, NULL, all, VB_COUNTERS);
    assert_int_equal(contract_heard(line, sizeof(line)), -1);
    count_as("out_of_sequence", 107);
    for (uint32_t i = 0; i < asks; i++)
      image.ops->counters(device, NULL, NULL, all, VB_COUNTERS);
    image.ops->close(device);
    assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_WARN);
    assert_non_null(strstr(line, "out_of_sequence +100 "));
    assert_int_equal(contract_heard(line, sizeof(line)), -1);
  }
  contract_listen(NULL);
  contract_complaints();
  swap_path(path);
  have_counters(false);
}

/* A client that is killed costs packets that are sent again. */
static void a_peer_that_was_lost_is_no_slow_link(void **state)
{
  (void)state;
  char path[IBV_SYSFS_PATH_MAX], line[1024];
  uint32_t wait;
  snprintf(counted, sizeof(counted), "/tmp/penstock-counted-XXXXXX");
  have_counters(true);
  count(0);
  count_as("out_of_sequence", 0);
  snprintf(path, sizeof(path), "%s", counted);
  swap_path(path);
  struct contract_pair *pair = contract_pair_open(&stream_variants[ONCE], &stream_params);
  connect_both(pair, 0);
  simulated_ctl("drop");
  struct pst_request request = contract_send(&pair->sender, 0, stream_params.message, 0);
  assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), 1);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  simulated_ctl("clear");
  contract_listen("the link is slow");
  count_as("out_of_sequence", 1000);
  device_counter(&pair->sender);
  assert_int_equal(contract_heard(line, sizeof(line)), -1);
  contract_listen(NULL);
  contract_pair_close(pair);
  contract_complaints();
  swap_path(path);
  have_counters(false);
}

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(counters_are_reported_since_the_connection_began),
      CONTRACT_CASE(connecting_waits_for_no_counter),
      CONTRACT_CASE(a_slow_link_is_reported_once),
      CONTRACT_CASE(a_peer_that_was_lost_is_no_slow_link),
  };
  return CONTRACT_MAIN("since", cases, &stream_variants[0]);
}
