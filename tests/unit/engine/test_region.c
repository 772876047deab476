/* SPDX-License-Identifier: Apache-2.0 */
/* A region is allocated, checked and registered, or says in words why not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/region.h"

static struct {
  int alloc, mr; /* what the plugins answer */
  const char *reason;
  bool is_hidden; /* the CPU cannot touch the memory */
  uint32_t allocated, registered;
  struct pst_mr_params mr_params;
} fake;

static int fake_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct pst_region *region)
{
  static char bytes[4096];

  (void)memory;
  if (fake.alloc < 0)
    return fake.alloc;
  fake.allocated++;
  region->address = (uintptr_t)bytes;
  region->host = fake.is_hidden ? NULL : bytes;
  region->length = params->length;
  strcpy(region->backing, "shelf");
  return 0;
}

static void fake_free(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory;
  (void)region;
  assert_int_equal(fake.registered, 0);
  fake.allocated--;
}

static int fake_register(struct pst_device *device, const struct pst_mr_params *params,
                         struct pst_mr **mr)
{
  (void)device;
  if (fake.reason)
    snprintf(params->path->reason, sizeof(params->path->reason), "%s", fake.reason);
  if (fake.mr < 0)
    return fake.mr;
  fake.mr_params = *params;
  fake.registered++;
  *mr = (struct pst_mr *)(uintptr_t)8;
  return 0;
}

static void fake_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device;
  (void)mr;
  fake.registered--;
}

static const struct pst_memory_ops memory_ops = {.alloc = fake_alloc, .free_region = fake_free};
static const struct pst_transport_ops transport_ops = {.mr_register = fake_register,
                                                       .mr_deregister = fake_deregister};
static const struct loader_plugin memory_plugin = {.name = "attic", .memory = &memory_ops};
static const struct loader_plugin transport_plugin = {.name = "pigeon"};
static struct engine_memory memory = {.plugin = &memory_plugin, .ops = &memory_ops};
static struct engine_device device = {.plugin = &transport_plugin, .ops = &transport_ops};

static const struct region_params params = {.memory = &memory,
                                            .device = &device,
                                            .length = 4096,
                                            .label = "nest",
                                            .use = " for the nest",
                                            .needs = PST_NEED_CPU_ACCESS,
                                            .access = PST_ACCESS_LOCAL_READ,
                                            .domain = 5,
                                            .send_max = 1462};

static int reset(void **state)
{
  (void)state;
  memset(&fake, 0, sizeof(fake));
  return 0;
}

static void it_is_registered_whole_and_closed_in_order(void **state)
{
  struct region region;
  struct region_why why;

  (void)state;
  assert_int_equal(region_open(&region, &params, &why), 0);
  assert_int_equal(fake.mr_params.length, 4096);
  assert_int_equal(fake.mr_params.domain, 5);
  assert_int_equal(fake.mr_params.send_max, 1462);
  region_close(&region);
  assert_int_equal(fake.allocated, 0);
  assert_int_equal(fake.registered, 0);
  region_close(&region); /* nothing is left to close */
  assert_int_equal(fake.allocated, 0);
}

static void without_access_it_is_not_registered(void **state)
{
  struct region_params alone = params;
  struct region region;
  struct region_why why;

  (void)state;
  alone.access = 0;
  assert_int_equal(region_open(&region, &alone, &why), 0);
  assert_null(region.mr);
  region_close(&region);
}

static void no_memory_is_reported(void **state)
{
  struct region region;
  struct region_why why;

  (void)state;
  fake.alloc = -ENOMEM;
  assert_int_equal(region_open(&region, &params, &why), -ENOMEM);
  assert_true(why.is_alloc);
  assert_string_equal(why.text,
                      "memory attic cannot allocate 4 KiB for the nest: Cannot allocate memory");
  region_close(&region);
}

static void what_a_nic_cannot_reach_may_be_staged(void **state)
{
  struct region_params reached = params;
  struct region region;
  struct region_why why;

  (void)state;
  fake.alloc = -ENOMEM;
  reached.needs = PST_NEED_EXPORT_DMABUF;
  assert_int_equal(region_open(&region, &reached, &why), -ENOMEM);
  reached.is_staged_else = true;
  assert_int_equal(region_open(&region, &reached, &why), -EOPNOTSUPP);
  assert_false(why.is_alloc);
  assert_string_equal(why.text, "memory attic has no 4 KiB that a NIC can reach");
}

static void memory_that_will_not_do_is_reported(void **state)
{
  struct region region;
  struct region_why why;

  (void)state;
  fake.is_hidden = true;
  assert_int_equal(region_open(&region, &params, &why), -EOPNOTSUPP);
  assert_string_equal(
      why.text,
      "transport pigeon needs memory that the CPU can touch, which memory attic (shelf) is not");
  assert_int_equal(fake.registered, 0);
  region_close(&region);
  assert_int_equal(fake.allocated, 0);
}

static void a_registration_that_fails_is_reported(void **state)
{
  struct region_params remote = params;
  struct region region;
  struct region_why why;

  (void)state;
  fake.mr = -ENOSPC;
  assert_int_equal(region_open(&region, &params, &why), -ENOSPC);
  assert_string_equal(why.text, "transport pigeon cannot register 4 KiB of memory attic (shelf): "
                                "No space left on device");
  region_close(&region);
  fake.reason = "too heavy";
  remote.access |= PST_ACCESS_REMOTE_READ;
  assert_int_equal(region_open(&region, &remote, &why), -ENOSPC);
  assert_string_equal(why.text, "transport pigeon cannot register 4 KiB of memory attic (shelf) "
                                "for other nodes: too heavy");
  region_close(&region);
  assert_int_equal(fake.allocated, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(it_is_registered_whole_and_closed_in_order, reset),
      cmocka_unit_test_setup(without_access_it_is_not_registered, reset),
      cmocka_unit_test_setup(no_memory_is_reported, reset),
      cmocka_unit_test_setup(what_a_nic_cannot_reach_may_be_staged, reset),
      cmocka_unit_test_setup(memory_that_will_not_do_is_reported, reset),
      cmocka_unit_test_setup(a_registration_that_fails_is_reported, reset),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
