/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's `expect`: what is judged, and the verdict. */
#include "expect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "statistics.h"

enum key { PATH, VIA, CARRIER, GBPS, LOSS, CORRUPTED, DUPLICATES, REORDERED, MESSAGES, VERIFIED };

static const struct {
  const char *name;
  size_t at; /* in struct expect_wanted */
  enum expect_kind kind;
  bool of_amount;
  const char *sentence; /* of got and expected */
} keys[] = {
#define KEY(name) #name, offsetof(struct expect_wanted, name)
    [PATH] = {KEY(path), EXPECT_WORD, false, "path %s is not expect.path %s"},
    [VIA] = {KEY(via), EXPECT_WORD, false, "via %s is not expect.via %s"},
    [CARRIER] = {KEY(carrier), EXPECT_WORD, false, "carrier %s is not expect.carrier %s"},
    [GBPS] = {KEY(min_gbps), EXPECT_NUMBER, true, "%s Gbps is less than expect.min_gbps %s"},
    [LOSS] = {KEY(max_loss), EXPECT_NUMBER, true, "loss %s exceeds expect.max_loss %s"},
    [CORRUPTED] = {KEY(max_corrupted), EXPECT_NUMBER, false,
                   "corrupted messages: %s, more than expect.max_corrupted %s"},
    [DUPLICATES] = {KEY(max_duplicates), EXPECT_NUMBER, false,
                    "duplicates: %s, more than expect.max_duplicates %s"},
    [REORDERED] = {KEY(max_reordered), EXPECT_NUMBER, false,
                   "reordered messages: %s, more than expect.max_reordered %s"},
    [MESSAGES] = {KEY(min_messages), EXPECT_NUMBER, true,
                  "messages delivered: %s, fewer than expect.min_messages %s"},
    [VERIFIED] = {KEY(verified), EXPECT_BOOL, true, "messages verified: %s; expect.verified is %s"},
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))
PST_STATIC_ASSERT(KEYS <= EXPECT_MAX, "there is room for all");

/* ---- Judging ------------------------------------------------------------------------ */

static void expect_found(struct expect_result *result, bool met, double number, const char *format,
                         ...) PST_PRINTF(4, 5);
static void expect_found(struct expect_result *result, bool met, double number, const char *format,
                         ...)
{
  va_list args;

  result->met = met;
  result->found = (struct expect_judged){.kind = result->wanted.kind, .number = number};
  va_start(args, format);
  vsnprintf(result->got, sizeof(result->got), format, args);
  va_end(args);
}

static void expect_found_unknown(struct expect_result *result)
{
  expect_found(result, false, 0, "unknown");
  result->found.kind = EXPECT_UNKNOWN;
}

static void expect_judge_word(struct expect_result *result, const char *word, const char *reason)
{
  bool met = strcmp(result->wanted.word, word) == 0, explain = !met && reason[0] != '\0';

  expect_found(result, met, 0, "%s%s%s%s", word[0] != '\0' ? word : "unknown", explain ? " (" : "",
               explain ? reason : "", explain ? ")" : "");
  result->found.word = word;
}

static void expect_judge_most(struct expect_result *result, uint64_t number)
{
  expect_found(result, (double)number <= result->wanted.number, (double)number, "%" PRIu64, number);
}

static void expect_judge_loss(struct expect_result *result, const struct account *account)
{
  double loss = app_accounting_loss(account);
  char percent[STATISTICS_PERCENT_BYTES];

  if (loss < 0)
    expect_found_unknown(result);
  else
    expect_found(result, loss <= result->wanted.number, loss, "%s (%" PRIu64 " of %" PRIu64 ")",
                 app_statistics_percent(loss, percent),
                 account->sent - (loss > 0 ? account->delivered : account->sent), account->sent);
}

/* A lower bound is known also for a peer that has gone. */
static void expect_judge_messages(struct expect_result *result, const struct account *account)
{
  bool met = (double)account->delivered >= result->wanted.number;

  if (!met && !account->delivered_known)
    expect_found_unknown(result);
  else
    expect_found(result, met, (double)account->delivered, "%" PRIu64, account->delivered);
}

/* Compares what a stream reached with one key of `expect`. */
static void expect_judge_key(enum key key, const struct account *account,
                             struct expect_result *result)
{
  const struct pst_path_info *path = &account->path;
  double gbps = app_statistics_gbps(account->bytes, account->ns);
  bool all = account->delivered > 0 && account->verified >= account->delivered;

  switch (key) {
  case PATH:
    expect_judge_word(result, app_statistics_path(path->path), path->reason);
    break;
  case VIA:
    expect_judge_word(result, path->via, "");
    break;
  case CARRIER:
    expect_judge_word(result, path->carrier, "");
    break;
  case GBPS:
    expect_found(result, gbps >= result->wanted.number, gbps, "%.6g", gbps);
    break;
  case LOSS:
    expect_judge_loss(result, account);
    break;
  case CORRUPTED:
    expect_judge_most(result, account->corrupted);
    break;
  case DUPLICATES:
    expect_judge_most(result, account->duplicates);
    break;
  case REORDERED:
    expect_judge_most(result, account->reordered);
    break;
  case MESSAGES:
    expect_judge_messages(result, account);
    break;
  case VERIFIED:
    expect_found(result, all, all, "%" PRIu64 " of %" PRIu64 " checked", account->verified,
                 account->delivered);
  }
}

/* True if this end can judge the expectation; else only the receiver can. */
static bool expect_is_known(enum key key, const struct account *account)
{
  switch (key) {
  case PATH:
  case VIA:
    return account->receiver_here;
  case LOSS:
    return app_accounting_loss(account) >= 0 || !account->foreign || account->receiver_here;
  case MESSAGES:
    return !account->foreign || account->receiver_here;
  case CORRUPTED:
  case DUPLICATES:
  case REORDERED:
  case VERIFIED:
    return account->receiver_known;
  default:
    return true;
  }
}

static struct expect_value *expect_value_at(const struct expect_wanted *wanted, size_t key)
{
  return (struct expect_value *)((char *)(uintptr_t)wanted + keys[key].at);
}

size_t app_expect_judge(const struct expect_wanted *wanted, const struct account *account,
                        struct expect_result *results)
{
  size_t count = 0;

  for (size_t i = 0; i < KEYS; i++) {
    const struct expect_value *value = expect_value_at(wanted, i);
    if (!value->text || (i == VERIFIED && value->number == 0))
      continue;
    struct expect_result *result = &results[count++];
    *result = (struct expect_result){.key = keys[i].name,
                                     .expected = value->text,
                                     .wanted = {keys[i].kind, value->text, value->number},
                                     .checked = expect_is_known((enum key)i, account),
                                     .of_amount = keys[i].of_amount};
    if (result->checked)
      expect_judge_key((enum key)i, account, result);
    else
      snprintf(result->got, sizeof(result->got), "known to the receiver only");
  }
  return count;
}

const char *app_expect_sentence(const struct expect_result *result,
                                char text[EXPECT_SENTENCE_BYTES])
{
  const char *expected = result->expected;
  char percent[24];
  size_t key = 0;

  while (strcmp(keys[key].name, result->key) != 0)
    key++;
  if (key == LOSS) { /* the configuration has a share of 1 */
    snprintf(percent, sizeof(percent), "%.9g%%", result->wanted.number * 100);
    expected = percent;
  }
  if (strcmp(result->got, "unknown") == 0)
    snprintf(text, EXPECT_SENTENCE_BYTES, "%s is unknown; expect.%s is %s",
             key == LOSS ? "the loss" : "the number of messages delivered", result->key, expected);
  else
    snprintf(text, EXPECT_SENTENCE_BYTES, keys[key].sentence, result->got, expected);
  return text;
}

void app_expect_read(const struct pst_config *config, const char *stream,
                     struct expect_wanted *wanted)
{
  for (size_t i = 0; i < KEYS; i++) {
    char path[512];
    snprintf(path, sizeof(path), "streams.%s.expect.%s", stream, keys[i].name);
    expect_value_at(wanted, i)->text = pst_config_get(config, path);
    expect_value_at(wanted, i)->number = pst_config_get_number(config, path);
  }
}
