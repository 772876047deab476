/* SPDX-License-Identifier: Apache-2.0 */
/* Which lent regions a receiver's ring takes messages from: its own kind and device, host memory
 * that its copies reach, and a device's that is mapped there at the same address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stream/receive_ring.h"

static char page[64];
static struct session_lane lane;
static const struct receive_ring_ops direct, copying = {.copies = true};
static struct receive_ring ring = {.lane = &lane};

static struct pst_region region_of(uint32_t kind, const char *device, void *host, uint64_t address)
{
  struct pst_region region = {
      .struct_size = sizeof region, .kind = kind, .host = host, .address = address};

  strcpy(region.device, device);
  return region;
}

static bool takes(struct pst_region own, struct pst_region lent, bool is_staged)
{
  memset(&lane, 0, sizeof lane);
  ring.ops = is_staged ? &copying : &direct;
  ring.views = &own;
  lane.lent[3].region = &lent;
  assert_null(lane_lent(&ring, 2));
  assert_null(lane_lent(&ring, ENGINE_LENT_MAX));
  const struct pst_region *got = lane_lent(&ring, 3);
  assert_true(!got || got == &lent);
  return got;
}

static void test_lent(void **state)
{
  const struct pst_region host = region_of(PST_MEMORY_HOST, "", page, (uintptr_t)page);
  const struct pst_region gpu = region_of(PST_MEMORY_CUDA, "gpu0", NULL, 4096);
  const struct pst_region other = region_of(PST_MEMORY_CUDA, "gpu1", NULL, 4096);
  const struct pst_region mapped = region_of(PST_MEMORY_MAPPED, "gpu0", page, (uintptr_t)page);
  const struct pst_region elsewhere = region_of(PST_MEMORY_MAPPED, "gpu0", page, 4096);

  (void)state;
  assert_true(takes(host, host, false));
  assert_true(takes(gpu, gpu, false));
  assert_false(takes(gpu, other, false)); /* of the same kind, on another device */
  assert_false(takes(host, gpu, false));
  assert_false(takes(gpu, host, false));
  assert_true(takes(host, mapped, false));
  assert_false(takes(host, elsewhere, false));
  assert_false(takes(gpu, mapped, false));

  assert_true(takes(gpu, host, true)); /* copied: from where the CPU reaches it */
  assert_true(takes(gpu, elsewhere, true));
  assert_true(takes(gpu, gpu, true));
  assert_false(takes(gpu, other, true));
  assert_false(takes(host, gpu, true));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lent)};

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
