/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that were lost, by cause. With text_lock held, or on the end's thread. */
#ifndef PST_STREAM_LOSS_H
#define PST_STREAM_LOSS_H

#include "receiver.h"
#include "sender.h"

/* What the sender's transport has dropped. */
void loss_of_sender(const struct pst_sender *sender, struct pst_drop *drops, uint32_t *count);
/* The receiver has said last words of a stream that has broken off: what it was not told of. */
void loss_unheard(const struct pst_sender *sender, uint64_t sent, struct pst_drop *drops,
                  uint32_t *count);
/* The messages of a stream that its receiver has not delivered, by all that it knows. */
void loss_of_receiver(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count);
/* Explain what a receiver misses by drops of its worker and its device that no other end claims.
 * text_lock is held. */
void loss_claim(struct session_end *end);
/* What a foreign sender has sent, as far as it is known. Takes text_lock. */
uint64_t loss_foreign_sent(const struct pst_receiver *receiver);

#endif
