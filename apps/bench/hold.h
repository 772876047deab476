/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer: messages are kept for a while before their slots go back (--hold). */
#ifndef APP_BENCH_HOLD_H
#define APP_BENCH_HOLD_H

#include <stdint.h>

#include <penstock/penstock.h>

struct hold;

/* For batches of at most `batch` messages, and `slots` messages at a time. NULL: out of memory. */
struct hold *bench_hold_open(struct pst_receiver *receiver, uint64_t ns, uint32_t slots,
                             uint32_t batch);
/* Releases what is still kept. NULL is legal. */
void bench_hold_close(struct hold *hold);
/* Keeps them from now on; and then behind `fence`, which may be NULL and is taken over. Where that
 * would be more than `slots`, the oldest go back before their time. 0 or -errno. */
int bench_hold_keep(struct hold *hold, const struct pst_view *views, uint32_t n,
                    struct pst_fence *fence);
/* Releases those whose time is over. 0 or -errno. */
int bench_hold_look(struct hold *hold);

#endif
