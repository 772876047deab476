/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that end in any order are done in post order. */
#include <setjmp.h>
#include <stdarg.h>

#include "units.h"

#include <cmocka.h>

#define REQUESTS 8u

struct fixture {
  struct ucx_units units;
  struct pst_dones dones;
};

static void open_all(struct fixture *fixture)
{
  memset(fixture, 0, sizeof(*fixture));
  assert_int_equal(ucx_units_open(&fixture->units, REQUESTS), 0);
  assert_int_equal(pst_dones_open(&fixture->dones, REQUESTS), 0);
  fixture->dones.outstanding = REQUESTS; /* as if post() had taken them */
}

static void close_all(struct fixture *fixture)
{
  free(fixture->units.at);
  pst_dones_close(&fixture->dones);
}

static uint32_t take(struct fixture *fixture, struct pst_completion *out, uint32_t max)
{
  ucx_units_retire(&fixture->units, PST_OP_SEND, &fixture->dones);
  return pst_dones_take(&fixture->dones, 1, out, max);
}

static void later_ones_wait_for_earlier_ones(void **state)
{
  struct fixture fixture;
  struct pst_completion done[2];

  (void)state;
  open_all(&fixture);
  uint64_t first = ucx_unit_begin(&fixture.units, 10, 1);
  uint64_t second = ucx_unit_begin(&fixture.units, 13, 3);
  ucx_unit_end(&fixture.units, second, 0);
  assert_false(ucx_units_are_done(&fixture.units));
  assert_int_equal(take(&fixture, done, 2), 0);
  ucx_unit_end(&fixture.units, first, 0);
  assert_true(ucx_units_are_done(&fixture.units));
  assert_int_equal(take(&fixture, done, 2), 1);
  assert_int_equal(done[0].u.done.count, 4);
  assert_int_equal(done[0].u.done.cookie, 13);
  close_all(&fixture);
}

static void a_unit_is_done_with_its_last_part(void **state)
{
  struct fixture fixture;
  struct pst_completion done[2];

  (void)state;
  open_all(&fixture);
  uint64_t unit = ucx_unit_begin(&fixture.units, 7, 1);
  ucx_unit_at(&fixture.units, unit)->left += 2;
  ucx_unit_end(&fixture.units, unit, 0);
  ucx_unit_end(&fixture.units, unit, -ECONNRESET);
  assert_int_equal(take(&fixture, done, 2), 0);
  ucx_unit_end(&fixture.units, unit, 0);
  assert_int_equal(take(&fixture, done, 2), 1);
  assert_int_equal(done[0].status, -ECONNRESET);
  close_all(&fixture);
}

static void a_failure_spares_what_is_done(void **state)
{
  struct fixture fixture;
  struct pst_completion done[3];

  (void)state;
  open_all(&fixture);
  uint64_t first = ucx_unit_begin(&fixture.units, 1, 1);
  ucx_unit_begin(&fixture.units, 2, 1);
  ucx_unit_end(&fixture.units, first, 0);
  ucx_units_fail(&fixture.units, -ECANCELED);
  assert_int_equal(take(&fixture, done, 3), 2);
  assert_int_equal(done[0].status, 0);
  assert_int_equal(done[1].status, -ECANCELED);
  close_all(&fixture);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(later_ones_wait_for_earlier_ones),
      cmocka_unit_test(a_unit_is_done_with_its_last_part),
      cmocka_unit_test(a_failure_spares_what_is_done),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
