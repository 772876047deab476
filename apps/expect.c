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

static void skip(struct findings *findings, const char *key, const struct expect_value *wanted)
{
  add(findings, key, wanted, "", "known to the receiver only")->checked = false;
}

static void check_word(struct findings *findings, const char *key,
                       const struct expect_value *wanted, const char *got, const char *reason,
                       bool known)
{
  if (wanted->text == NULL)
    return;
  if (!known) {
    skip(findings, key, wanted);
    return;
  }
  bool met = strcmp(wanted->text, got) == 0;
  bool explain = !met && reason[0] != '\0';
  add(findings, key, wanted, "", "%s%s%s%s", got[0] != '\0' ? got : "unknown", explain ? " (" : "",
      explain ? reason : "", explain ? ")" : "")
      ->met = met;
}

static void check_most(struct findings *findings, const char *key,
                       const struct expect_value *wanted, uint64_t got, bool known)
{
  if (wanted->text == NULL)
    return;
  if (!known)
    skip(findings, key, wanted);
  else
    add(findings, key, wanted, "at most ", "%" PRIu64, got)->met = (double)got <= wanted->number;
}

static void check_loss(struct findings *findings, const struct expect_value *wanted,
                       const struct account *account)
{
  double loss = accounting_loss(account);

  if (wanted->text == NULL)
    return;
  if (loss < 0 && account->foreign && !account->receiver_here)
    skip(findings, "max_loss", wanted);
  else if (loss < 0)
    add(findings, "max_loss", wanted, "at most ", "unknown")->met = false;
  else
    add(findings, "max_loss", wanted, "at most ", "%.6g%% (%" PRIu64 " of %" PRIu64 ")", loss * 100,
        account->sent - (loss > 0 ? account->delivered : account->sent), account->sent)
        ->met = loss <= wanted->number;
}

static void check_verified(struct findings *findings, const struct expect_value *wanted,
                           const struct account *account)
{
  if (wanted->text == NULL || wanted->number == 0)
    return;
  if (!account->receiver_known)
    skip(findings, "verified", wanted);
  else
    add(findings, "verified", wanted, "", "%" PRIu64 " of %" PRIu64 " checked", account->verified,
        account->delivered)
        ->met = account->delivered > 0 && account->verified >= account->delivered;
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
    add(&findings, "min_gbps", &wanted->min_gbps, "at least ", "%.6g", gbps)->met =
        gbps >= wanted->min_gbps.number;
  check_loss(&findings, &wanted->max_loss, account);
  check_most(&findings, "max_corrupted", &wanted->max_corrupted, account->corrupted, receiver);
  check_most(&findings, "max_duplicates", &wanted->max_duplicates, account->duplicates, receiver);
  check_most(&findings, "max_reordered", &wanted->max_reordered, account->reordered, receiver);
  if (wanted->min_messages.text != NULL)
    add(&findings, "min_messages", &wanted->min_messages, "at least ", "%" PRIu64,
        account->delivered)
        ->met =
        account->delivered_known && (double)account->delivered >= wanted->min_messages.number;
  check_verified(&findings, &wanted->verified, account);
  return findings.count;
}

bool expect_met(const struct expect_result *results, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (results[i].checked && !results[i].met)
      return false;
  }
  return true;
}
