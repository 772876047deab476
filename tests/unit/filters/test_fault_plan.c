/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of each message: by seed, rates and number alone; and the ledger of them. */
#include "support.h"

/* The first outputs of splitmix64 from 1234567, as its other implementations have them. */
static void a_draw_is_an_output_of_splitmix64(void **state)
{
  static const uint64_t outputs[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                     UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                     UINT64_C(16408922859458223821)};
  const struct fault_plan plan = {.seed = 1234567};

  (void)state;
  for (uint64_t i = 0; i < 5; i++)
    assert_int_equal(fault_draw(&plan, i), outputs[i]);
}

static void expect_kept(uint32_t first, uint32_t n, const uint64_t *sequences)
{
  const struct fault_ledger *ledger = &rig.endpoint->engine->ledger;
  for (uint32_t i = 0; i < n; i++)
    assert_int_equal(ledger->records[first + i].sequence, sequences[i]);
}

static void stream(uint64_t messages, uint32_t at_once)
{
  while (rig.posted < messages) {
    uint64_t left = messages - rig.posted;
    int n = post(left < at_once ? (uint32_t)left : at_once);
    assert_true(n > 0);
    if (inner.count > inner.done)
      inner_done(inner.count - inner.done, 0);
    poll_all();
    inner.count -= (uint32_t)inner.done;
    inner.done = 0;
  }
}

static void a_seed_drops_these_messages(void **state)
{
  static const uint64_t of_seed_7[] = {172, 212, 398, 740, 752, 763, 798, 1022, 1109, 1113, 1150};

  (void)state;
  SETUP(64, {"seed", "7"}, {"drop_ppm", "10000"});
  stream(1151, 16);
  assert_int_equal(counter("injected_drop"), 11);
  expect_kept(0, 11, of_seed_7);
}

/* Rates lie one behind the other in the draw, so that each is exact beside the others. */
static void five_rates_share_one_draw(void **state)
{
  (void)state;
  SETUP(64, {"seed", "7"}, {"drop_ppm", "10000"}, {"duplicate_ppm", "10000"},
        {"reorder_ppm", "10000"}, {"corrupt_ppm", "10000"}, {"delay_ppm", "10000"},
        {"delay_time", "0"}, {"reorder_time", "1000000"}, {"distance", "1"});
  stream(100000, 32);
  assert_int_equal(counter("injected_drop"), 1030);
  assert_int_equal(counter("injected_duplicate"), 974);
  assert_int_equal(counter("injected_reorder") + counter("reorder_missed"), 1025);
  assert_int_equal(counter("injected_corrupt"), 968);
  assert_int_equal(counter("injected_delay"), 984);
}

static void ledger_is_the_same_however_messages_are_posted(void **state)
{
  uint64_t checksum = 0;

  for (uint32_t at_once = 1; at_once <= 64; at_once *= 8) {
    reset(state);
    SETUP(64, {"seed", "3"}, {"drop_ppm", "20000"}, {"duplicate_ppm", "20000"},
          {"reorder_ppm", "20000"}, {"delay_ppm", "20000"}, {"delay_time", "0"},
          {"reorder_time", "3600000000000"}, {"distance", "4"});
    stream(20000, at_once);
    if (at_once == 1)
      checksum = counter("ledger_checksum");
    assert_int_equal(counter("ledger_checksum"), checksum);
    assert_true(counter("injected_reorder") > 300);
    teardown(state);
  }
  reset(state);
}

static void checksum_depends_on_kind_and_number_not_on_order(void **state)
{
  struct fault_ledger ledger = {0}, turned = {0}, other_kind = {0}, other_number = {0};

  (void)state;
  fault_note(&ledger, FAULT_DROP, 5);
  fault_note(&ledger, FAULT_DELAY, 9);
  fault_note(&turned, FAULT_DELAY, 9);
  fault_note(&turned, FAULT_DROP, 5);
  fault_note(&other_kind, FAULT_DELAY, 5);
  fault_note(&other_kind, FAULT_DROP, 9);
  fault_note(&other_number, FAULT_DROP, 6);
  fault_note(&other_number, FAULT_DELAY, 8);
  assert_int_equal(ledger.checksum, turned.checksum);
  assert_int_not_equal(ledger.checksum, other_kind.checksum);
  assert_int_not_equal(ledger.checksum, other_number.checksum);
}

static void ledger_keeps_the_first_and_counts_all(void **state)
{
  struct pst_counter counters[32];

  (void)state;
  SETUP(64, {"seed", "7"}, {"drop_ppm", "10000"}, {"ledger", "2"});
  stream(1151, 16);
  assert_int_equal(counter("injected_drop"), 11);
  int all = fault()->counters(rig.device, rig.worker, rig.endpoint, counters, 32);
  assert_int_equal(all, 1 + 7 + 3 + 2); /* the inner one, a count a kind, three sums, two kept */
  assert_string_equal(counters[all - 2].name, "drop_at");
  assert_int_equal(counters[all - 2].value, 172);
  assert_int_equal(counters[all - 1].value, 212);
  assert_int_equal(counters[all - 1].flags, PST_COUNTER_GAUGE | PST_COUNTER_ENTRY);
}

static void counters_write_no_more_than_there_is_room_for(void **state)
{
  struct pst_counter counters[4] = {0};

  (void)state;
  SETUP(8, {"drop_ppm", "1000000"});
  counters[3].value = 0xfeed;
  assert_int_equal(fault()->counters(rig.device, rig.worker, rig.endpoint, counters, 3), 11);
  assert_string_equal(counters[0].name, "messages_sent");
  assert_string_equal(counters[1].name, "injected_drop");
  assert_int_equal(counters[1].flags, PST_COUNTER_DROP);
  assert_string_equal(counters[1].cause, "injected");
  assert_string_equal(counters[2].name, "injected_duplicate");
  assert_null(counters[2].cause);
  assert_int_equal(counters[3].value, 0xfeed);
  assert_int_equal(fault()->counters(rig.device, rig.worker, rig.endpoint, NULL, 0), 11);
}

static void rates_of_more_than_all_messages_are_refused(void **state)
{
  const struct fake_option all[] = {{"drop_ppm", "600000"}, {"delay_ppm", "400000"}, {NULL, NULL}};
  const struct fake_option more[] = {{"drop_ppm", "600000"}, {"delay_ppm", "400001"}, {NULL, NULL}};

  (void)state;
  assert_int_equal(try_open(more, 1, &rig.device), -EINVAL);
  assert_null(rig.device);
  assert_non_null(strstr(fake_log(), "the rates add up to 1000001 per million"));
  assert_int_equal(try_open(all, 1, &rig.device), 0);
}

/* ---- The description ------------------------------------------------------------------- */

static char reported[64];

static void PST_PRINTF(3, 4)
    report(const struct pst_check *check, const char *option, const char *format, ...)
{
  (void)check, (void)format;
  assert_string_equal(reported, ""); /* once */
  strncpy(reported, option, sizeof(reported) - 1);
}

static struct pst_facts check(uint32_t side, const struct fake_option *options)
{
  const struct pst_check what = {.struct_size = sizeof(what),
                                 .side = side,
                                 .options = FAKE_OPTIONS(options),
                                 .option_uint = fake_host.option_uint,
                                 .report = report};
  struct pst_facts facts = {.struct_size = sizeof(facts)};
  reported[0] = '\0';
  pst_description_v1.description->check(&what, &facts);
  return facts;
}

static void description_names_the_rate_that_is_too_much(void **state)
{
  (void)state;
  check(PST_SCOPE_SENDER, (const struct fake_option[]){
                              {"drop_ppm", "500000"}, {"reorder_ppm", "500000"}, {NULL, NULL}});
  assert_string_equal(reported, "");
  check(PST_SCOPE_SENDER,
        (const struct fake_option[]){
            {"drop_ppm", "500000"}, {"reorder_ppm", "500001"}, {"delay_ppm", "5"}, {NULL, NULL}});
  assert_string_equal(reported, "reorder_ppm");
}

static void corruption_needs_the_cpu_where_it_sends(void **state)
{
  const struct fake_option corrupts[] = {{"corrupt_ppm", "1"}, {NULL, NULL}};
  const struct fake_option drops[] = {{"drop_ppm", "1"}, {NULL, NULL}};
  struct pst_limits limits = {.struct_size = sizeof(limits)};

  (void)state;
  assert_int_equal(check(PST_SCOPE_SENDER, corrupts).direct_needs, PST_NEED_CPU_ACCESS);
  assert_int_equal(check(PST_SCOPE_RECEIVER, corrupts).direct_needs, 0);
  assert_int_equal(check(PST_SCOPE_SENDER, drops).direct_needs, 0);
  assert_int_equal(try_open(corrupts, 1, &rig.device), 0);
  assert_int_equal(fault()->limits(rig.device, &limits), 0);
  assert_int_equal(limits.send_needs, PST_NEED_PINNED | PST_NEED_CPU_ACCESS);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_draw_is_an_output_of_splitmix64),
      CASE(a_seed_drops_these_messages),
      CASE(five_rates_share_one_draw),
      CASE(ledger_is_the_same_however_messages_are_posted),
      CASE(checksum_depends_on_kind_and_number_not_on_order),
      CASE(ledger_keeps_the_first_and_counts_all),
      CASE(counters_write_no_more_than_there_is_room_for),
      CASE(rates_of_more_than_all_messages_are_refused),
      CASE(description_names_the_rate_that_is_too_much),
      CASE(corruption_needs_the_cpu_where_it_sends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
