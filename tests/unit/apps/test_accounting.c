/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/accounting.c. */
#include <string.h>

#include "accounting.h"
#include "support.h"

static struct pst_stats sender_of(uint64_t sent)
{
  return (struct pst_stats){
      .state = PST_STATE_ENDED, .messages_sent = sent, .started_ns = 1, .ended_ns = 1000000001};
}

static struct pst_stats receiver_of(uint64_t delivered, uint64_t dropped, const char *carrier)
{
  struct pst_stats stats = {.state = PST_STATE_ENDED,
                            .messages_sent = delivered + dropped,
                            .sent_basis = PST_SENT_COUNTED,
                            .messages_delivered = delivered,
                            .started_ns = 1,
                            .ended_ns = 2000000001,
                            .drop_count = dropped > 0};
  stats.drops[0].messages = dropped;
  strcpy(stats.drops[0].cause, "no_buffer");
  strcpy(stats.path.carrier, carrier);
  stats.capabilities =
      strcmp(carrier, "udp") != 0 && strcmp(carrier, "ethernet") != 0 ? PST_CAP_RELIABLE : 0;
  return stats;
}

static enum finding check(const struct pst_stats *sender, const struct pst_stats *receiver,
                          struct account *account)
{
  char why[256];
  app_accounting_gather(sender, receiver, account);
  enum finding finding = app_accounting_check(account, why, sizeof(why));
  assert_int_equal(why[0] == '\0', finding == FINDING_NONE);
  return finding;
}

static void table_of_both_ends(void **state)
{
  static const struct {
    uint64_t sent, delivered, dropped;
    const char *carrier;
    enum finding finding;
    double loss;
  } rows[] = {
      {0, 0, 0, "memory", FINDING_NONE, 0},
      {100, 100, 0, "memory", FINDING_NONE, 0},
      {100, 97, 3, "udp", FINDING_NONE, .03},
      {100, 97, 3, "ethernet", FINDING_NONE, .03},
      {100, 97, 3, "shm", FINDING_LOSS, .03},
      {100, 0, 100, "udp", FINDING_NOTHING_ARRIVED, 1},
      {100, 0, 100, "shm", FINDING_NOTHING_ARRIVED, 1},
      {100, 97, 3, "soft-roce", FINDING_LOSS, .03},
      {100, 97, 0, "udp", FINDING_UNBALANCED, .03},
      {100, 99, 3, "udp", FINDING_UNBALANCED, .01},
      {100, 101, 0, "memory", FINDING_UNBALANCED, 0},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    struct account account;
    struct pst_stats sender = sender_of(rows[i].sent);
    struct pst_stats receiver = receiver_of(rows[i].delivered, rows[i].dropped, rows[i].carrier);
    sender.capabilities = receiver.capabilities;
    assert_int_equal(check(&sender, &receiver, &account), rows[i].finding);
    assert_true(app_accounting_loss(&account) > rows[i].loss - 1e-9 &&
                app_accounting_loss(&account) < rows[i].loss + 1e-9);
    assert_int_equal(account.ns, 2000000000);
  }
}

static void nothing_arrived_names_the_known_cause(void **state)
{
  struct account account;
  char why[256];
  struct pst_stats sender = sender_of(100), receiver = receiver_of(0, 100, "udp");

  (void)state;
  app_accounting_gather(&sender, &receiver, &account);
  assert_int_equal(app_accounting_check(&account, why, sizeof(why)), FINDING_NOTHING_ARRIVED);
  assert_string_equal(why,
                      "none of 100 messages sent arrived (udp); 100 were dropped as no_buffer");
  strcpy(account.drops[0].cause, "wire");
  assert_int_equal(app_accounting_check(&account, why, sizeof(why)), FINDING_NOTHING_ARRIVED);
  assert_string_equal(why, "none of 100 messages sent arrived (udp); check the receiver's `device` "
                           "and `port`, firewalls and the route");
}

static void receiver_alone_uses_the_senders_values(void **state)
{
  struct account account;
  struct pst_stats receiver = receiver_of(90, 10, "udp");

  (void)state;
  assert_int_equal(check(NULL, &receiver, &account), FINDING_NONE);
  assert_int_equal(account.sent, 100);
  receiver.messages_sent = 105;
  receiver.sent_basis = PST_SENT_HEARTBEAT;
  assert_int_equal(check(NULL, &receiver, &account), FINDING_UNBALANCED);
  assert_int_equal(account.sent_basis, PST_SENT_HEARTBEAT);
}

static void heartbeat_older_than_what_came_gives_way_to_sequences(void **state)
{
  struct account account;
  struct pst_stats receiver = receiver_of(90, 10, "udp");

  (void)state;
  receiver.messages_sent = 95;
  receiver.sent_basis = PST_SENT_HEARTBEAT;
  assert_int_equal(check(NULL, &receiver, &account), FINDING_NONE);
  assert_int_equal(account.sent, 100);
  assert_int_equal(account.sent_basis, PST_SENT_SEQUENCE);
}

static void a_dead_sender_leaves_only_a_least(void **state)
{
  struct account account;
  struct pst_stats receiver = receiver_of(90, 0, "shm");

  (void)state;
  receiver.state = PST_STATE_FAILED;
  receiver.messages_sent = 95;
  receiver.sent_basis = PST_SENT_HEARTBEAT;
  assert_int_equal(check(NULL, &receiver, &account), FINDING_UNKNOWN_COUNTS);
  assert_false(account.sent_known);
  assert_int_equal(account.sent, 95);
}

static void unknown_is_unknown_and_not_zero(void **state)
{
  struct account account;
  struct pst_stats receiver = receiver_of(90, 0, "udp"), sender = sender_of(90);

  (void)state;
  receiver.sent_basis = PST_SENT_UNKNOWN;
  assert_int_equal(check(NULL, &receiver, &account), FINDING_UNKNOWN_COUNTS);
  assert_false(account.sent_known);
  assert_true(app_accounting_loss(&account) < 0);
  assert_int_equal(check(&sender, NULL, &account), FINDING_UNKNOWN_COUNTS);
  assert_false(account.delivered_known);
}

/* A level of drops that nobody's total bounds. */
static void drops_are_the_least_where_no_counter_says_more(void **state)
{
  const struct pst_counter_value counters[] = {
      {.name = "kernel", .value = 3, .flags = PST_COUNTER_DROP},
      {.name = "jitter_ns", .value = 5, .flags = PST_COUNTER_GAUGE},
      {.name = "kernel_coalesced", .value = 9, .flags = PST_COUNTER_DROP | PST_COUNTER_GAUGE}};
  struct pst_counter_value none = counters[2];
  struct account account;
  struct pst_stats receiver = receiver_of(90, 3, "udp");

  (void)state;
  none.value = 0;
  check(NULL, &receiver, &account);
  app_accounting_least(&account, counters, 3);
  assert_false(account.dropped_at_least); /* the sender has said how many it sent */
  receiver.sent_basis = PST_SENT_UNKNOWN;
  check(NULL, &receiver, &account);
  app_accounting_least(&account, counters, 2);
  app_accounting_least(&account, &none, 1);
  assert_false(account.dropped_at_least);
  app_accounting_least(&account, counters, 3);
  assert_true(account.dropped_at_least);
}

static void sender_alone_uses_the_receivers_count(void **state)
{
  struct account account;
  struct pst_stats sender = sender_of(90);

  (void)state;
  sender.peer_known = 1;
  sender.peer_delivered = 90;
  assert_int_equal(check(&sender, NULL, &account), FINDING_NONE);
  assert_false(account.receiver_known);
  sender.peer_delivered = 89;
  assert_int_equal(check(&sender, NULL, &account), FINDING_UNBALANCED);
  sender.state = PST_STATE_FAILED;
  assert_int_equal(check(&sender, NULL, &account), FINDING_UNKNOWN_COUNTS);
}

static void sender_alone_has_the_receivers_final_counts(void **state)
{
  struct account account;
  struct pst_stats sender = sender_of(90);

  (void)state;
  sender.peer_known = sender.peer_final = 1;
  sender.peer_delivered = 80;
  sender.bytes_delivered = 800;
  sender.duplicates = 2;
  sender.verified = 80;
  sender.drop_count = 1;
  sender.drops[0].messages = 10;
  assert_int_equal(check(&sender, NULL, &account), FINDING_NONE);
  assert_true(account.receiver_known);
  assert_int_equal(account.bytes, 800);
  assert_int_equal(account.duplicates, 2);
  assert_int_equal(account.verified, 80);
  sender.peer_delivered = 0;
  sender.drops[0].messages = 90;
  assert_int_equal(check(&sender, NULL, &account), FINDING_NOTHING_ARRIVED);
}

static void corruption_comes_first(void **state)
{
  struct account account;
  struct pst_stats sender = sender_of(100), receiver = receiver_of(97, 3, "memory");

  (void)state;
  receiver.verified = 97;
  receiver.corrupted = 1;
  assert_int_equal(check(&sender, &receiver, &account), FINDING_CORRUPTED);
}

static void promises_of_the_transport_are_held_to(void **state)
{
  struct pst_stats sender = sender_of(100), receiver = receiver_of(100, 0, "memory");
  struct account account;

  (void)state;
  sender.capabilities = PST_CAP_RELIABLE | PST_CAP_ORDERED;
  receiver.reordered = 2;
  assert_int_equal(check(&sender, &receiver, &account), FINDING_REORDERED);
  receiver.duplicates = 1;
  assert_int_equal(check(&sender, &receiver, &account), FINDING_DUPLICATES);
  sender.capabilities = PST_CAP_RELIABLE;
  receiver.duplicates = 0;
  assert_int_equal(check(&sender, &receiver, &account), FINDING_NONE);
  sender.capabilities = 0;
  receiver.duplicates = 1;
  assert_int_equal(check(&sender, &receiver, &account), FINDING_NONE);
}

/* By the end's own times if that end is here, else by what the other end has reported. */
static void staging_is_somebodys(void **state)
{
  struct pst_stats sender = {.started_ns = 1, .ended_ns = 1001};
  struct pst_stats receiver = {.started_ns = 1, .ended_ns = 1001};

  (void)state;
  assert_null(app_accounting_staged_by(&sender, &receiver));
  receiver.path.path = PST_PATH_STAGED;
  assert_string_equal(app_accounting_staged_by(&sender, &receiver), "receiver");
  assert_null(app_accounting_staged_by(&sender, NULL));
  sender.path.path = PST_PATH_STAGED;
  assert_string_equal(app_accounting_staged_by(&sender, &receiver), "both");
  assert_string_equal(app_accounting_staged_by(&sender, NULL), "sender");

  sender.blocked_ns[PST_STAGE_STAGING] = 300;
  receiver.blocked_ns[PST_STAGE_STAGING] = 200;
  assert_string_equal(app_accounting_stager(&sender, &receiver), "sender");
  receiver.blocked_ns[PST_STAGE_STAGING] = 400;
  assert_string_equal(app_accounting_stager(&sender, &receiver), "receiver");
  receiver.peer_blocked_ns[PST_STAGE_STAGING] = 90;
  receiver.peer_seconds_ns = 100;
  assert_string_equal(app_accounting_stager(NULL, &receiver), "sender");
  sender.peer_blocked_ns[PST_STAGE_STAGING] = 90;
  sender.peer_seconds_ns = 100;
  assert_string_equal(app_accounting_stager(&sender, NULL), "receiver");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_dead_sender_leaves_only_a_least),
      cmocka_unit_test(promises_of_the_transport_are_held_to),
      cmocka_unit_test(table_of_both_ends),
      cmocka_unit_test(nothing_arrived_names_the_known_cause),
      cmocka_unit_test(receiver_alone_uses_the_senders_values),
      cmocka_unit_test(heartbeat_older_than_what_came_gives_way_to_sequences),
      cmocka_unit_test(unknown_is_unknown_and_not_zero),
      cmocka_unit_test(drops_are_the_least_where_no_counter_says_more),
      cmocka_unit_test(sender_alone_uses_the_receivers_count),
      cmocka_unit_test(sender_alone_has_the_receivers_final_counts),
      cmocka_unit_test(corruption_comes_first),
      cmocka_unit_test(staging_is_somebodys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
