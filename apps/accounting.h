/* SPDX-License-Identifier: Apache-2.0 */
/* sent == delivered + dropped, from what one end or both know of a stream. */
#ifndef APP_ACCOUNTING_H
#define APP_ACCOUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "finding.h"

struct account {
  bool sent_known;     /* else `sent` is the least it can have been, or 0 */
  uint32_t sent_basis; /* enum pst_sent_basis */
  bool delivered_known;
  bool receiver_here;  /* its path is `path` */
  bool receiver_known; /* duplicates, reordered, verified, corrupted hold: its final counts are here
                        */
  uint64_t sent, delivered, dropped;
  uint64_t bytes; /* delivered; on a sender alone, sent */
  uint64_t duplicates, reordered, verified, corrupted;
  uint64_t blameless;    /* of `dropped`: no fault of the transport's */
  bool dropped_at_least; /* `dropped` is what the transport is sure of, no more is known */
  uint64_t ns;           /* running time */
  uint32_t drop_count;
  struct pst_drop drops[16];
  struct pst_path_info path;
  const char *staged_by;          /* as app_accounting_staged_by() */
  struct pst_verify_result wrong; /* the first corrupted message; corrupted 0: known elsewhere */
  bool lossy;   /* the transport may lose or repeat messages: no failure by itself */
  bool foreign; /* the other end is no Penstock (`control: none`) */
  bool ordered; /* it promises the order that they were sent in */
};

/* The worse of both ends' paths, as the receiver says it, or the sender where it is what stages.
 * Either may be NULL, not both. */
const struct pst_path_info *app_accounting_path(const struct pst_stats *sender,
                                                const struct pst_stats *receiver);

/* The ends whose path is staged, as far as this end knows: "sender", "receiver", "both"; NULL:
 * none.
 */
const char *app_accounting_staged_by(const struct pst_stats *sender,
                                     const struct pst_stats *receiver);
/* The end that waited longer for copies, by its own times or the other's report: "sender",
 * "receiver". */
const char *app_accounting_stager(const struct pst_stats *sender, const struct pst_stats *receiver);

/* Either end may be NULL, not both. */
void app_accounting_gather(const struct pst_stats *sender, const struct pst_stats *receiver,
                           struct account *account);

/* By the receiver's counters: may there be more drops than are counted? */
void app_accounting_least(struct account *account, const struct pst_counter_value *counters,
                          uint32_t count);

/* Returns the worst problem of the account. FINDING_NONE: all is accounted for, datagram loss
 * included; FINDING_UNKNOWN_COUNTS: nobody can say how many were sent or delivered. FINDING_LOSS,
 * FINDING_DUPLICATES and FINDING_REORDERED are problems of a transport that promises otherwise.
 * `why` gets a sentence with the numbers, "" when nothing is wrong. */
enum finding app_accounting_check(const struct account *account, char *why, size_t size);

/* Returns the cause of most of the drops; NULL: there are none, or most were lost on the way. */
const struct pst_drop *app_accounting_cause(const struct account *account);

/* "; first found: message 7, byte 3: expected 0x10, found 0x30", or "" where that is not known. */
#define ACCOUNTING_FIRST_WRONG_BYTES 128
const char *app_accounting_first_wrong(const struct account *account,
                                       char text[ACCOUNTING_FIRST_WRONG_BYTES]);

/* Share of the messages sent that were not delivered, 0 to 1; < 0: not known. */
double app_accounting_loss(const struct account *account);

#endif
