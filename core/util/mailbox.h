/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way from the control thread to a thread of a session or node.
 * Any thread puts mail in; its owner takes all of it at once. Putting in wakes the owner.
 */
#ifndef PST_UTIL_MAILBOX_H
#define PST_UTIL_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "util/blob.h"

/* The first member of what is put in. */
struct mail {
  struct mail *next;
  bool is_kept;         /* the sender's own: mail_free() leaves the memory alone */
  struct pst_blob blob; /* bytes and descriptors belong to the mail; zero: none */
};

struct mailbox {
  atomic_bool has_mail;
  atomic_bool is_woken;
  int wake_fd; /* an eventfd, readable once a thread has woken the owner */
  pthread_mutex_t lock;
  struct mail *first, *last;
};

/* 0, or -errno: close it all the same. */
int mailbox_open(struct mailbox *box);
/* With what nobody has taken. */
void mailbox_close(struct mailbox *box);
/* `replaces` (may be NULL) finds mail that nobody has read and that the new one makes obsolete: its
 * blob is exchanged, and the new one freed. */
void mailbox_put(struct mailbox *box, struct mail *mail,
                 bool (*replaces)(const struct mail *older, const struct mail *newer));
/* All there is, in the order of its coming; the caller frees each. NULL: none. */
struct mail *mailbox_take(struct mailbox *box);
/* Frees what nobody has taken, when nothing more is put in. */
void mailbox_drop(struct mailbox *box);
void mail_free(struct mail *mail);

/* Wakes the owner without mail. */
void mailbox_wake(struct mailbox *box);
/* Clears the wake-ups, once the owner is awake. */
void mailbox_drain(struct mailbox *box);

static inline bool mailbox_has_mail(struct mailbox *box)
{
  return __builtin_expect(atomic_load_explicit(&box->has_mail, memory_order_acquire), 0);
}

#endif
