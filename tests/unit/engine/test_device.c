/* SPDX-License-Identifier: Apache-2.0 */
/* A transport with its filters is opened from the inside out, or says why not; its limits are held,
 * and its counters are read by one work at a time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/control.h"
#include "engine/device.h"
#include "util/log.h"

static struct {
  int open, start; /* what the plugins answer */
  uint32_t workers_max;
  struct pst_open_params chain[3]; /* as the outermost got them */
  uint32_t depth;
  uint64_t link_bps; /* that the innermost tells, with its own plan and with another; 0: nothing */
  int closes, counted;
  void (*work)(void *arg);
  void *arg;
  uint32_t defers;
} fake;

static int fake_open(const struct pst_host *host, const struct pst_open_params *params,
                     struct pst_device **device)
{
  (void)host;
  for (fake.depth = 0; params; params = params->inner_params)
    fake.chain[fake.depth++] = *params;
  if (fake.link_bps) {
    static const struct pst_plan others;
    struct pst_open_params copy = fake.chain[fake.depth - 1];
    copy.tell_link(&copy, fake.link_bps);
    copy.plan = &others;
    copy.tell_link(&copy, 1);
  }
  *device = (struct pst_device *)(uintptr_t)8;
  return fake.open;
}

static void fake_close(struct pst_device *device)
{
  assert_ptr_equal(device, (struct pst_device *)(uintptr_t)8);
  fake.closes++;
}

static int fake_limits(struct pst_device *device, struct pst_limits *limits)
{
  (void)device;
  limits->workers_max = fake.workers_max;
  limits->slot_alignment = 3 * pst_page_size();
  return 0;
}

static int fake_start(struct pst_device *device)
{
  (void)device;
  return fake.start;
}

static int fake_counters(struct pst_device *device, struct pst_worker *worker,
                         struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  (void)device;
  assert_true(!worker && !endpoint && max > 0);
  fake.counted++;
  counters[0] = (struct pst_counter){"imissed", NULL, 7, 0};
  return 1;
}

static int fake_defer(const struct pst_host *host, const void *key, void (*work)(void *arg),
                      void *arg)
{
  (void)host;
  (void)key;
  fake.work = work;
  fake.arg = arg;
  return fake.defers++ == 1 ? -ENOMEM : 0; /* the second is refused */
}

static const struct pst_transport_ops outer = {
    .open = fake_open, .close = fake_close, .limits = fake_limits};
static const struct pst_transport_ops middle, inner;
static const struct pst_transport_ops counting = {
    .start = fake_start, .counters = fake_counters, .close = fake_close};
static const struct pst_host host = {.defer = fake_defer};
static const struct loader_plugin plugins[] = {
    {.name = "pigeon", .transport = &inner, .host = &host},
    {.name = "near", .transport = &middle, .host = &host},
    {.name = "far", .transport = &outer, .host = &host}};

int __wrap_loader_load(uint32_t kind, const char *name, const struct loader_plugin **plugin,
                       struct pst_error *error);
int __wrap_loader_load(uint32_t kind, const char *name, const struct loader_plugin **plugin,
                       struct pst_error *error)
{
  for (size_t i = 0; i < sizeof(plugins) / sizeof(plugins[0]); i++)
    if (strcmp(plugins[i].name, name) == 0) {
      assert_int_equal(kind, i == 0 ? PST_KIND_TRANSPORT : PST_KIND_FILTER);
      *plugin = &plugins[i];
      return 0;
    }
  return pst_fail(error, PST_EXIT_USAGE, -ENOENT, "no plugin %s", name);
}

static struct config_plugin filters[17] = {{.name = "far"}, {.name = "near"}};
static struct config_transport config = {
    .plugin = {.name = "pigeon", .origin = "t.yaml:3:1"}, .filters = filters, .filter_count = 2};
static struct engine engine;
static struct engine_device *device;

static int add_device(void **state)
{
  (void)state;
  memset(&fake, 0, sizeof(fake));
  fake.workers_max = 2;
  config.filter_count = 2;
  config.plugin.name = "pigeon";
  device = engine_device_add(&engine);
  assert_non_null(device);
  device->config = &config;
  return 0;
}

static int close_engine(void **state)
{
  (void)state;
  engine_close(&engine);
  assert_int_equal(engine.device_count, 0);
  return 0;
}

static void filters_lie_around_their_transport(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(engine_device_open(&engine, device, "192.0.2.7", &error), 0);
  assert_int_equal(fake.depth, 3);
  assert_ptr_equal(fake.chain[0].inner, &middle);
  assert_ptr_equal(fake.chain[1].inner, &inner);
  assert_null(fake.chain[2].inner);
  assert_null(fake.chain[0].local_address);
  assert_string_equal(fake.chain[2].local_address, "192.0.2.7");
  for (int i = 0; i < 3; i++)
    assert_ptr_equal(fake.chain[i].plan, &device->plan);
  assert_string_equal(device->plugin->name, "pigeon"); /* of the innermost */
  assert_ptr_equal(device->ops, &outer);
  assert_int_equal(engine_device_alignment(device), 3 * pst_page_size());
  assert_int_equal(engine.plugin_count, 3);
  engine_close(&engine);
  assert_int_equal(fake.closes, 1);
}

static void fit(struct engine_device *fitted, uint64_t link_bps)
{
  assert_ptr_equal(fitted, device);
  fitted->plan.ring_slots = link_bps;
}

/* Tests the transport alone, since filters pass its parameters on. */
static void a_transport_tells_of_its_link(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(engine_device_open(&engine, device, NULL, &error), 0);
  assert_null(fake.chain[2].tell_link);
  device->fit_plan = fit;
  fake.link_bps = 7;
  assert_int_equal(engine_device_open(&engine, device, NULL, &error), 0);
  assert_null(fake.chain[0].tell_link);
  assert_int_equal(device->plan.ring_slots, 7);
  fake.chain[2].tell_link(&fake.chain[2], 8); /* too late */
  assert_int_equal(device->plan.ring_slots, 7);
}

static void what_does_not_open_is_not_closed(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  fake.open = -ENODEV;
  assert_int_equal(engine_device_open(&engine, device, NULL, &error), -ENODEV);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  assert_non_null(strstr(error.text, "t.yaml:3:1: transport pigeon, or one of its filters: far, "
                                     "near does not open: No such device"));
  device->device = NULL; /* as the contract has it: outputs stay untouched on failure */
  config.filter_count = 17;
  assert_int_equal(engine_device_open(&engine, device, NULL, &error), -E2BIG);
  config.filter_count = 2;
  config.plugin.name = "dove";
  assert_int_equal(engine_device_open(&engine, device, NULL, &error), -ENOENT);
  engine_close(&engine);
  assert_int_equal(fake.closes, 0);
}

static void more_workers_than_it_has_are_refused(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  device->plan.workers = 3;
  assert_int_equal(engine_device_open(&engine, device, NULL, &error), -ERANGE);
  assert_non_null(strstr(error.text, "at most 2 workers a device, the configuration makes 3; set "
                                     "threads.count"));
}

static void what_ends_tell_each_other_fits(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  device->plugin = &plugins[0];
  device->limits.address_max = CONTROL_ADDRESS_MAX;
  device->limits.remote_max = CONTROL_ADDRESS_MAX + 1;
  assert_int_equal(engine_device_check_told(device, false, &error), 0);
  assert_int_equal(engine_device_check_told(device, true, &error), -E2BIG);
  assert_non_null(strstr(error.text, "the key of a region of transport pigeon has up to 16385"));
  device->limits.address_max++;
  assert_int_equal(engine_device_check_told(device, false, &error), -E2BIG);
  assert_non_null(strstr(error.text, "an endpoint's address of transport pigeon has up to 16385"));
}

static void one_that_does_not_start_says_so(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  device->plugin = &plugins[0];
  device->ops = &counting;
  fake.start = -EOPNOTSUPP; /* nothing to start */
  assert_int_equal(engine_device_start(device, &error), 0);
  assert_true(device->has_counters);
  fake.start = -EIO;
  assert_int_equal(engine_device_start(device, &error), -EIO);
  assert_non_null(strstr(error.text, "transport pigeon does not start: Input/output error"));
}

static void counters_are_read_by_one_work_at_a_time(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  device->plugin = &plugins[0];
  device->ops = &counting;
  engine_device_count_soon(device); /* nobody knows of any counters yet */
  assert_int_equal(fake.defers, 0);
  assert_int_equal(engine_device_start(device, &error), 0);
  assert_int_equal(fake.counted, 1);
  engine_device_count_soon(device);
  engine_device_count_soon(device); /* the first has not run */
  assert_int_equal(fake.defers, 1);
  fake.work(fake.arg);
  assert_int_equal(fake.counted, 2);
  engine_device_count_soon(device); /* refused */
  engine_device_count_soon(device); /* and asked for again */
  assert_int_equal(fake.defers, 3);
  fake.work(fake.arg);
  assert_int_equal(fake.counted, 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, add_device, close_engine)

int main(void)
{
  const struct CMUnitTest tests[] = {
      CASE(filters_lie_around_their_transport),     CASE(what_does_not_open_is_not_closed),
      CASE(a_transport_tells_of_its_link),          CASE(more_workers_than_it_has_are_refused),
      CASE(what_ends_tell_each_other_fits),         CASE(one_that_does_not_start_says_so),
      CASE(counters_are_read_by_one_work_at_a_time)};

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
