/* SPDX-License-Identifier: Apache-2.0 */
/* The way from the control thread to a thread of a session or node. */
#include "mailbox.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

void mail_free(struct mail *mail)
{
  blob_free(&mail->blob);
  if (!mail->is_kept)
    free(mail);
}

int mailbox_open(struct mailbox *box)
{
  *box = (struct mailbox){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  pthread_mutex_init(&box->lock, NULL);
  return box->wake_fd < 0 ? -errno : 0;
}

void mailbox_drop(struct mailbox *box)
{
  struct mail *next;

  for (struct mail *mail = mailbox_take(box); mail; mail = next) {
    next = mail->next;
    mail_free(mail);
  }
}

void mailbox_close(struct mailbox *box)
{
  mailbox_drop(box);
  if (box->wake_fd >= 0)
    close(box->wake_fd);
  pthread_mutex_destroy(&box->lock);
}

static bool mailbox_replace(struct mailbox *box, struct mail *mail,
                            bool (*replaces)(const struct mail *older, const struct mail *newer))
{
  struct mail *at = replaces ? box->first : NULL;

  while (at && !replaces(at, mail))
    at = at->next;
  if (!at)
    return false;
  struct pst_blob older = at->blob;
  at->blob = mail->blob;
  mail->blob = older;
  return true;
}

void mailbox_put(struct mailbox *box, struct mail *mail,
                 bool (*replaces)(const struct mail *older, const struct mail *newer))
{
  mail->next = NULL;
  pthread_mutex_lock(&box->lock);
  const bool is_replaced = mailbox_replace(box, mail, replaces);
  if (!is_replaced) {
    if (box->last)
      box->last->next = mail;
    else
      box->first = mail;
    box->last = mail;
    atomic_store_explicit(&box->has_mail, true, memory_order_release);
  }
  pthread_mutex_unlock(&box->lock);
  if (is_replaced)
    mail_free(mail);
  else
    mailbox_wake(box);
}

struct mail *mailbox_take(struct mailbox *box)
{
  pthread_mutex_lock(&box->lock);
  struct mail *mail = box->first;
  box->first = box->last = NULL;
  atomic_store_explicit(&box->has_mail, false, memory_order_relaxed);
  pthread_mutex_unlock(&box->lock);
  return mail;
}

void mailbox_wake(struct mailbox *box)
{
  uint64_t one = 1;

  /* In this order: otherwise a drain between the two would leave it readable for ever. */
  (void)!write(box->wake_fd, &one, sizeof(one));
  atomic_store(&box->is_woken, true);
}

void mailbox_drain(struct mailbox *box)
{
  uint64_t ignored;

  if (!atomic_load_explicit(&box->is_woken, memory_order_acquire))
    return;
  atomic_store(&box->is_woken, false);
  (void)!read(box->wake_fd, &ignored, sizeof(ignored));
}
