/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of who accesses a registration: seats of other processes, and threads of this one. */
#include "support.h"

static void shut_gate_lets_nobody_in(void **state)
{
  struct lb_mr mr = {.access = PST_ACCESS_REMOTE_READ, .gate = {.open = 1}};
  struct pst_remote remote = {.mr = &mr, .gate = &mr.gate};

  (void)state;
  lb_seat_take(&remote, NULL);
  assert_true(lb_seat_in(&remote, true));
  assert_int_equal(remote.own_seat.inside, 1);
  lb_seat_out(&remote);
  assert_int_equal(remote.own_seat.inside, 0);
  assert_true(lb_gate_enter(&mr.gate));
  assert_int_equal(mr.gate.inside, 1);
  mr.gate.inside = 0;
  lb_gates_shut(&mr);
  assert_false(lb_seat_in(&remote, true));
  assert_int_equal(remote.own_seat.inside, 0); /* else its owner waits for ever */
  assert_false(lb_gate_enter(&mr.gate));
  assert_int_equal(mr.gate.inside, 0);
  lb_seat_leave(&remote);
  assert_null(mr.seated);
}

static void seats_of_a_page_are_one_each_and_then_counted(void **state)
{
  static struct lb_gate_page page;
  struct pst_remote remotes[LB_SEATS + 1];

  (void)state;
  memset(remotes, 0, sizeof(remotes));
  atomic_store(&page.gate.open, 1);
  for (uint32_t i = 0; i <= LB_SEATS; i++) {
    remotes[i].gate = &page.gate;
    lb_seat_take(&remotes[i], &page);
    assert_ptr_equal(remotes[i].seat, i < LB_SEATS ? &page.seats[i].seat : NULL);
  }
  assert_true(lb_seat_in(&remotes[LB_SEATS], true));
  assert_int_equal(page.gate.inside, 1);
  lb_seat_out(&remotes[LB_SEATS]);
  assert_int_equal(page.gate.inside, 0);
  lb_seat_leave(&remotes[7]);
  remotes[LB_SEATS].seat = NULL;
  lb_seat_take(&remotes[LB_SEATS], &page);
  assert_ptr_equal(remotes[LB_SEATS].seat, &page.seats[7].seat);
}

static void patience_is_spent_and_comes_back(void **state)
{
  struct pst_device device = {.host = &fake_host};

  (void)state;
  fake_clock_ns = 1000000000;
  assert_int_equal(lb_wait_budget_left(&device), 2000000000);
  lb_wait_budget_spend(&device, 1500000000);
  assert_int_equal(lb_wait_budget_left(&device), 500000000);
  lb_wait_budget_spend(&device, 500000000);
  assert_int_equal(lb_wait_budget_left(&device), 1000000); /* the least */
  fake_clock_ns += 16000000000;
  assert_int_equal(lb_wait_budget_left(&device), 1000000000);
  fake_clock_ns += 16000000000;
  assert_int_equal(lb_wait_budget_left(&device), 2000000000);
  fake_clock_ns += 16000000000; /* it is not saved up */
  assert_int_equal(lb_wait_budget_left(&device), 2000000000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shut_gate_lets_nobody_in),
      cmocka_unit_test(seats_of_a_page_are_one_each_and_then_counted),
      cmocka_unit_test(patience_is_spent_and_comes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
