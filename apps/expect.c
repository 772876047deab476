/* SPDX-License-Identifier: Apache-2.0 */
#include "expect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "statistics.h"

struct findings {
  struct expect_result *results;
  size_t count;
};

/* A new result; what was got is printed into it. */
static struct expect_result *add(struct findings *findings, const char *key,
                                 const struct expect_value *wanted, const char *relation,
                                 const char *format, ...) PST_PRINTF(5, 6);
static struct expect_result *add(struct findings *findings, const char *key,
                                 const struct expect_value *wanted, const char *relation,
                                 const char *format, ...)
{
  struct expect_result *result = &findings->results[findings->count++];
  va_list args;

  memset(result, 0, sizeof *result);
  result->key = key;
  result->checked = true;
  snprintf(result->expected, sizeof result->expected, "%s%s", relation, wanted->text);
  va_start(args, format);
  vsnprintf(result->got, sizeof result->got, format, args);
  va_end(args);
  return result;
}

static struct expect_judged number(double value)
{
  return (struct expect_judged){.kind = EXPECT_NUMBER, .number = value};
}

static struct expect_judged word(const char *text)
{
  return (struct expect_judged){.kind = EXPECT_WORD, .word = text};
}

static struct expect_judged truth(bool value)
{
  return (struct expect_judged){.kind = EXPECT_BOOL, .number = value};
}

static void judged(struct expect_result *result, struct expect_judged wanted,
                   struct expect_judged found, bool met)
{
  result->wanted = wanted;
  result->found = found;
  result->met = met;
}

static void skip(struct findings *findings, const char *key, const struct expect_value *wanted,
                 struct expect_judged value)
{
  struct expect_result *result = add(findings, key, wanted, "", "known to the receiver only");

  result->checked = false;
  result->wanted = value;
}

static void check_word(struct findings *findings, const char *key,
                       const struct expect_value *wanted, const char *got, const char *reason,
                       bool known)
{
  if (wanted->text == NULL)
    return;
  if (!known) {
    skip(findings, key, wanted, word(wanted->text));
    return;
  }
  bool met = strcmp(wanted->text, got) == 0;
  bool explain = !met && reason[0] != '\0';
  judged(add(findings, key, wanted, "", "%s%s%s%s", got[0] != '\0' ? got : "unknown",
             explain ? " (" : "", explain ? reason : "", explain ? ")" : ""),
         word(wanted->text), word(got), met);
}

static void check_most(struct findings *findings, const char *key,
                       const struct expect_value *wanted, uint64_t got, bool known)
{
  if (wanted->text == NULL)
    return;
  if (!known)
    skip(findings, key, wanted, number(wanted->number));
  else
    judged(add(findings, key, wanted, "at most ", "%" PRIu64, got), number(wanted->number),
           number((double)got), (double)got <= wanted->number);
}

/* How much came at least is known of a peer that has gone, too. */
static void check_messages(struct findings *findings, const struct expect_value *wanted,
                           const struct account *account)
{
  bool met = (double)account->delivered >= wanted->number;

  if (wanted->text == NULL)
    return;
  if (!met && !account->delivered_known)
    judged(add(findings, "min_messages", wanted, "at least ", "unknown"), number(wanted->number),
           (struct expect_judged){.kind = EXPECT_UNKNOWN}, false);
  else
    judged(add(findings, "min_messages", wanted, "at least ", "%" PRIu64, account->delivered),
           number(wanted->number), number((double)account->delivered), met);
}

static void check_loss(struct findings *findings, const struct expect_value *wanted,
                       const struct account *account)
{
  double loss = accounting_loss(account);
  char percent[STATISTICS_PERCENT_BYTES];

  if (wanted->text == NULL)
    return;
  if (loss < 0 && account->foreign && !account->receiver_here)
    skip(findings, "max_loss", wanted, number(wanted->number));
  else if (loss < 0)
    judged(add(findings, "max_loss", wanted, "at most ", "unknown"), number(wanted->number),
           (struct expect_judged){.kind = EXPECT_UNKNOWN}, false);
  else
    judged(add(findings, "max_loss", wanted, "at most ", "%s (%" PRIu64 " of %" PRIu64 ")",
               statistics_percent(loss, percent),
               account->sent - (loss > 0 ? account->delivered : account->sent), account->sent),
           number(wanted->number), number(loss), loss <= wanted->number);
}

static void check_verified(struct findings *findings, const struct expect_value *wanted,
                           const struct account *account)
{
  bool met = account->delivered > 0 && account->verified >= account->delivered;

  if (wanted->text == NULL || wanted->number == 0)
    return;
  if (!account->receiver_known)
    skip(findings, "verified", wanted, truth(true));
  else
    judged(add(findings, "verified", wanted, "", "%" PRIu64 " of %" PRIu64 " checked",
               account->verified, account->delivered),
           truth(true), truth(met), met);
}

static bool is_of_amount(const char *key)
{
  static const char *const keys[] = {"min_gbps", "max_loss", "min_messages", "verified"};

  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (strcmp(key, keys[i]) == 0)
      return true;
  return false;
}

size_t expect_judge(const struct expect_wanted *wanted, const struct account *account,
                    struct expect_result *results)
{
  struct findings findings = {results, 0};
  const struct pst_path_info *path = &account->path;
  bool receiver = account->receiver_known, here = account->receiver_here;
  double gbps = statistics_gbps(account->bytes, account->ns);

  check_word(&findings, "path", &wanted->path, statistics_path(path->path), path->reason, here);
  check_word(&findings, "via", &wanted->via, path->via, "", here);
  check_word(&findings, "carrier", &wanted->carrier, path->carrier, "", true);
  if (wanted->min_gbps.text != NULL)
    judged(add(&findings, "min_gbps", &wanted->min_gbps, "at least ", "%.6g", gbps),
           number(wanted->min_gbps.number), number(gbps), gbps >= wanted->min_gbps.number);
  check_loss(&findings, &wanted->max_loss, account);
  check_most(&findings, "max_corrupted", &wanted->max_corrupted, account->corrupted, receiver);
  check_most(&findings, "max_duplicates", &wanted->max_duplicates, account->duplicates, receiver);
  check_most(&findings, "max_reordered", &wanted->max_reordered, account->reordered, receiver);
  check_messages(&findings, &wanted->min_messages, account);
  check_verified(&findings, &wanted->verified, account);
  for (size_t i = 0; i < findings.count; i++)
    results[i].of_amount = is_of_amount(results[i].key);
  return findings.count;
}

const char *expect_sentence(const struct expect_result *result, char text[EXPECT_SENTENCE_BYTES])
{
  static const struct {
    const char *key, *format; /* of got and expected */
  } sentences[] = {
      {"min_gbps", "%s Gbps is less than expect.min_gbps %s"},
      {"min_messages", "messages delivered: %s, fewer than expect.min_messages %s"},
      {"max_loss", "loss %s exceeds expect.max_loss %s"},
      {"max_corrupted", "corrupted messages: %s, more than expect.max_corrupted %s"},
      {"max_duplicates", "duplicates: %s, more than expect.max_duplicates %s"},
      {"max_reordered", "reordered messages: %s, more than expect.max_reordered %s"},
      {"path", "path %s is not expect.path %s"},
      {"via", "via %s is not expect.via %s"},
      {"carrier", "carrier %s is not expect.carrier %s"},
      {"verified", "messages verified: %s; expect.verified is %s"},
  };
  const char *expected = result->expected;

  for (size_t i = 0; i < 2; i++) {
    static const char *const relations[] = {"at most ", "at least "};
    if (strncmp(expected, relations[i], strlen(relations[i])) == 0)
      expected += strlen(relations[i]);
  }
  snprintf(text, EXPECT_SENTENCE_BYTES, "expect.%s", result->key);
  for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++)
    if (strcmp(sentences[i].key, result->key) == 0)
      snprintf(text, EXPECT_SENTENCE_BYTES, sentences[i].format, result->got, expected);
  if (strcmp(result->got, "unknown") == 0)
    snprintf(text, EXPECT_SENTENCE_BYTES, "%s is unknown; expect.%s is %s",
             strcmp(result->key, "max_loss") == 0 ? "the loss" : "the number of messages delivered",
             result->key, expected);
  return text;
}

bool expect_met(const struct expect_result *results, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (results[i].checked && !results[i].met)
      return false;
  }
  return true;
}

void expect_read(const struct pst_config *config, const char *stream, struct expect_wanted *wanted)
{
  const struct {
    const char *key;
    struct expect_value *value;
  } keys[] = {
      {"path", &wanted->path},
      {"via", &wanted->via},
      {"carrier", &wanted->carrier},
      {"min_gbps", &wanted->min_gbps},
      {"max_loss", &wanted->max_loss},
      {"max_corrupted", &wanted->max_corrupted},
      {"max_duplicates", &wanted->max_duplicates},
      {"max_reordered", &wanted->max_reordered},
      {"min_messages", &wanted->min_messages},
      {"verified", &wanted->verified},
  };

  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, "streams.%s.expect.%s", stream, keys[i].key);
    keys[i].value->text = pst_config_get(config, path);
    keys[i].value->number = pst_config_get_number(config, path);
  }
}
