/* SPDX-License-Identifier: Apache-2.0 */
/* The `expect` of a stream against what has happened. */
#ifndef APP_EXPECT_H
#define APP_EXPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "accounting.h"

#define EXPECT_MAX 16

/* A value for machines. */
struct expect_judged {
  enum expect_kind { EXPECT_UNKNOWN = 0, EXPECT_WORD, EXPECT_NUMBER, EXPECT_BOOL } kind;
  const char *word; /* lives as long as the configuration and the account */
  double number;
};

struct expect_result {
  const char *key;      /* as in the YAML */
  const char *expected; /* the configured text */
  char got[160];
  struct expect_judged wanted, found; /* the same, as values; a loss is a share, 0 to 1 */
  bool checked;                       /* false: only the other end knows */
  bool met;
  bool of_amount; /* of how much came, which a stream that fails cuts short */
};

/* The configured text and number of a key; text NULL: not expected. */
struct expect_value {
  const char *text;
  double number;
};
struct expect_wanted {
  struct expect_value path, via, carrier, min_gbps, max_loss, max_corrupted, max_duplicates,
      max_reordered, min_messages, verified;
};

/* Reads what the stream's configuration expects. */
void app_expect_read(const struct pst_config *config, const char *stream,
                     struct expect_wanted *wanted);
/* Returns how many of `results` (EXPECT_MAX) were written. */
size_t app_expect_judge(const struct expect_wanted *wanted, const struct account *account,
                        struct expect_result *results);
/* How a result fails its expectation: "loss 1% (10 of 1000) exceeds expect.max_loss 0". */
#define EXPECT_SENTENCE_BYTES 320
const char *app_expect_sentence(const struct expect_result *result,
                                char text[EXPECT_SENTENCE_BYTES]);

#endif
