/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/expect.c. */
#include <string.h>

#include "expect.h"
#include "support.h"

static struct account good(void)
{
  struct account account = {.sent_known = true,
                            .delivered_known = true,
                            .receiver_here = true,
                            .receiver_known = true,
                            .sent = 1000,
                            .delivered = 990,
                            .dropped = 10,
                            .bytes = 1250000000,
                            .ns = 1000000000, /* 10 Gbps */
                            .duplicates = 2,
                            .reordered = 3,
                            .verified = 990,
                            .corrupted = 1};
  account.path.path = PST_PATH_STAGED;
  strcpy(account.path.via, "memcpy");
  strcpy(account.path.carrier, "udp");
  strcpy(account.path.reason, "no dma-buf");
  return account;
}

/* One expectation at a time: what is expected, and whether 'good' meets it. */
static const struct row {
  size_t member;
  const char *text;
  double number;
  bool met;
  const char *got;
  struct expect_judged value; /* what was got, as a value */
} rows[] = {
#define ROW(key, ...)                                                                              \
  {                                                                                                \
    offsetof(struct expect_wanted, key), __VA_ARGS__                                               \
  }
    ROW(path, "staged", 0, true, "staged", {EXPECT_WORD, "staged"}),
    ROW(path, "direct", 0, false, "staged (no dma-buf)", {EXPECT_WORD, "staged"}),
    ROW(via, "memcpy", 0, true, "memcpy", {EXPECT_WORD, "memcpy"}),
    ROW(via, "dma-buf", 0, false, "memcpy", {EXPECT_WORD, "memcpy"}),
    ROW(carrier, "udp", 0, true, "udp", {EXPECT_WORD, "udp"}),
    ROW(carrier, "rdma", 0, false, "udp", {EXPECT_WORD, "udp"}),
    ROW(min_gbps, "10", 10, true, "10", {EXPECT_NUMBER, NULL, 10}),
    ROW(min_gbps, "10.5", 10.5, false, "10", {EXPECT_NUMBER, NULL, 10}),
    ROW(max_loss, "1%", 0.01, true, "1% (10 of 1000)", {EXPECT_NUMBER, NULL, 0.01}),
    ROW(max_loss, "0", 0, false, "1% (10 of 1000)", {EXPECT_NUMBER, NULL, 0.01}),
    ROW(max_corrupted, "1", 1, true, "1", {EXPECT_NUMBER, NULL, 1}),
    ROW(max_corrupted, "0", 0, false, "1", {EXPECT_NUMBER, NULL, 1}),
    ROW(max_duplicates, "2", 2, true, "2", {EXPECT_NUMBER, NULL, 2}),
    ROW(max_duplicates, "1", 1, false, "2", {EXPECT_NUMBER, NULL, 2}),
    ROW(max_reordered, "3", 3, true, "3", {EXPECT_NUMBER, NULL, 3}),
    ROW(max_reordered, "2", 2, false, "3", {EXPECT_NUMBER, NULL, 3}),
    ROW(min_messages, "990", 990, true, "990", {EXPECT_NUMBER, NULL, 990}),
    ROW(min_messages, "991", 991, false, "990", {EXPECT_NUMBER, NULL, 990}),
    ROW(verified, "true", 1, true, "990 of 990 checked", {EXPECT_BOOL, NULL, 1}),
};

static void table_of_every_expectation(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    struct account account = good();
    struct expect_wanted wanted = {0};
    struct expect_result results[EXPECT_MAX];
    struct expect_value *value = (struct expect_value *)((char *)&wanted + rows[i].member);

    value->text = rows[i].text;
    value->number = rows[i].number;
    assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
    assert_true(results[0].checked);
    assert_int_equal(results[0].met, rows[i].met);
    assert_string_equal(results[0].got, rows[i].got);
    assert_string_equal(results[0].expected, rows[i].text);
    assert_int_equal(results[0].found.kind, rows[i].value.kind);
    assert_int_equal(results[0].wanted.kind, rows[i].value.kind);
    assert_true(results[0].found.number == rows[i].value.number);
    if (rows[i].value.word) {
      assert_string_equal(results[0].found.word, rows[i].value.word);
      assert_string_equal(results[0].wanted.word, rows[i].text);
    } else {
      assert_true(results[0].wanted.number == rows[i].number);
    }
  }
}

static void what_is_not_met_reads_as_a_sentence(void **state)
{
  static const struct {
    struct expect_result result;
    const char *sentence;
  } table[] = {
      {{"max_loss", "0", "1% (10 of 1000)"}, "loss 1% (10 of 1000) exceeds expect.max_loss 0%"},
      {{"max_loss", "0.015", "3% (30 of 1000)", .wanted.number = 0.015},
       "loss 3% (30 of 1000) exceeds expect.max_loss 1.5%"},
      {{"max_loss", "0.01", "unknown", .wanted.number = 0.01},
       "the loss is unknown; expect.max_loss is 1%"},
      {{"min_gbps", "10.5", "10"}, "10 Gbps is less than expect.min_gbps 10.5"},
      {{"max_reordered", "2", "3"}, "reordered messages: 3, more than expect.max_reordered 2"},
      {{"path", "direct", "staged (no dma-buf)"},
       "path staged (no dma-buf) is not expect.path direct"},
      {{"verified", "true", "0 of 5 checked"},
       "messages verified: 0 of 5 checked; expect.verified is true"},
  };
  char text[EXPECT_SENTENCE_BYTES];

  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    assert_string_equal(app_expect_sentence(&table[i].result, text), table[i].sentence);
}

/* Only a lower bound of the messages is known: those that came before the peer was killed, say. */
static void messages_at_least_known(void **state)
{
  struct account account = good();
  struct expect_wanted wanted = {.min_messages = {"990", 990}};
  struct expect_result results[EXPECT_MAX];
  char text[EXPECT_SENTENCE_BYTES];

  (void)state;
  account.delivered_known = false;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
  assert_true(results[0].met);
  wanted.min_messages = (struct expect_value){"991", 991};
  assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
  assert_false(results[0].met);
  assert_string_equal(app_expect_sentence(&results[0], text),
                      "the number of messages delivered is unknown; expect.min_messages is 991");
}

static void nothing_expected_is_met(void **state)
{
  struct account account = good();
  struct expect_wanted wanted = {0};
  struct expect_result results[EXPECT_MAX];

  (void)state;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 0);
}

static void a_small_loss_has_two_digits(void **state)
{
  struct account account = good();
  struct expect_wanted wanted = {.max_loss = {"0", 0}};
  struct expect_result results[EXPECT_MAX];

  (void)state;
  account.sent = 3960640;
  account.delivered = 3960128;
  account.dropped = 512;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
  assert_false(results[0].met);
  assert_string_equal(results[0].got, "0.013% (512 of 3960640)");
}

static void unknown_loss_does_not_meet_a_bound(void **state)
{
  struct account account = good();
  struct expect_wanted wanted = {.max_loss = {"100%", 1}};
  struct expect_result results[EXPECT_MAX];

  (void)state;
  account.sent_known = false;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
  assert_false(results[0].met);
  assert_string_equal(results[0].got, "unknown");
  assert_int_equal(results[0].found.kind, EXPECT_UNKNOWN);
}

static void sender_alone_leaves_the_receivers_to_it(void **state)
{
  struct account account = good();
  struct expect_wanted wanted = {
      .path = {"direct", 0}, .verified = {"true", 1}, .max_corrupted = {"0", 0}};
  struct expect_result results[EXPECT_MAX];

  (void)state;
  account.receiver_known = account.receiver_here = false;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 3);
  for (size_t i = 0; i < 3; i++)
    assert_false(results[i].checked);
}

static void a_sender_that_has_the_final_counts_judges_them(void **state)
{
  struct account account = good();
  struct expect_wanted wanted = {.path = {"direct", 0},
                                 .max_loss = {"0", 0},
                                 .max_corrupted = {"0", 0},
                                 .verified = {"true", 1}};
  struct expect_result results[EXPECT_MAX];

  (void)state;
  account.receiver_here = false;
  account.corrupted = 1;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 4);
  assert_false(results[0].checked); /* the receiver's path is not the sender's */
  for (size_t i = 1; i < 4; i++)
    assert_true(results[i].checked);
  assert_false(results[2].met);
}

static void a_sender_to_no_penstock_cannot_judge_loss(void **state)
{
  struct account account = {.foreign = true, .sent_known = true, .sent = 10};
  struct expect_wanted wanted = {.max_loss = {"0", 0}};
  struct expect_result results[EXPECT_MAX];

  (void)state;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
  assert_false(results[0].checked);
  account.receiver_here = true; /* a receiver has to know */
  app_expect_judge(&wanted, &account, results);
  assert_true(results[0].checked && !results[0].met);
}

static void nothing_delivered_is_not_verified(void **state)
{
  struct account account = good();
  struct expect_wanted wanted = {.verified = {"true", 1}};
  struct expect_result results[EXPECT_MAX];

  (void)state;
  account.verified = 989;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
  assert_false(results[0].met);
  account.delivered = account.verified = 0;
  assert_int_equal(app_expect_judge(&wanted, &account, results), 1);
  assert_false(results[0].met);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(table_of_every_expectation),
      cmocka_unit_test(what_is_not_met_reads_as_a_sentence),
      cmocka_unit_test(messages_at_least_known),
      cmocka_unit_test(nothing_expected_is_met),
      cmocka_unit_test(a_small_loss_has_two_digits),
      cmocka_unit_test(unknown_loss_does_not_meet_a_bound),
      cmocka_unit_test(sender_alone_leaves_the_receivers_to_it),
      cmocka_unit_test(a_sender_that_has_the_final_counts_judges_them),
      cmocka_unit_test(a_sender_to_no_penstock_cannot_judge_loss),
      cmocka_unit_test(nothing_delivered_is_not_verified),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
