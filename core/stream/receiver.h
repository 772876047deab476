/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of a stream.
 *
 * Completions become views (receiver_arrivals.c), sequences are accounted, views are handed over
 * (receiver.c) and come back (release.c). Frames and tensors, which are made of messages, are
 * clients of the receiver.
 */
#ifndef PST_STREAM_RECEIVER_H
#define PST_STREAM_RECEIVER_H

#include "engine/strided.h"

#include "end.h"
#include "fifo.h"
#include "interarrival.h"
#include "receive_ring.h"
#include "seq_window.h"

/* Operations of a receiver's client: frames or tensors. */
struct receiver_client_ops {
  bool takes_all; /* messages: the application gets none of them itself */
  /* Each poll begins with it. 0, or -errno of the memory. NULL: nothing to do. */
  int (*progress)(struct pst_receiver *receiver);
  /* When the receiver must be polled for it; at most `now`: at once; 0: no time is set. */
  uint64_t (*due_ns)(const struct pst_receiver *receiver, uint64_t now);
  /* Messages that have found no place yet never will; returns how many. NULL: there are none. */
  uint32_t (*give_up)(struct pst_receiver *receiver);
  /* Takes back what the client handed over itself, by the client's own tokens. */
  void (*take_back)(struct pst_receiver *receiver, const uint64_t *tokens, uint32_t n);
  /* Poll once more, when all has been handed over. NULL: as pst_receiver_poll() does. */
  int (*poll_on)(struct pst_receiver *receiver);
  /* Any thread. Add what of the messages that have come is lost in it; say what it made of the
   * others. NULL: nothing. */
  void (*drops)(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count);
  void (*stats)(const struct pst_receiver *receiver, struct pst_stats *stats);
  void (*close)(struct pst_receiver *receiver);
};

/* Releases that wait for their fences. */
struct release_batch {
  struct pst_fence *fence;
  uint32_t count; /* tokens */
};

enum receiver_phase {
  RECEIVER_TAKING,
  RECEIVER_COMPLETE, /* everything is handed over, or will not come */
  RECEIVER_FINISHED, /* pst_receiver_finish() */
};

#define SESSION_LEVELS 2 /* of counts behind an endpoint's: its worker's, its device's */

struct pst_receiver {
  struct session_end end;
  struct receive_ring *ring;
  uint32_t slots; /* of its own ring */
  struct seq_window window;
  uint64_t unheard_ns; /* when its sender first said that it had sent something; UINT64_MAX: and it
                          has been told that nothing has come */
  uint64_t polled_bytes;   /* gathered since a poll began */
  struct pst_sender *pair; /* the sending end in the same session; NULL */
  /* MESSAGE completions that another end's poll has reaped for this one. */
  struct fifo pending;
  struct fifo releases, tokens;   /* struct release_batch, and uint64_t: what they give back */
  struct pst_queue *queue;        /* verify, read; NULL without PATTERN */
  struct pst_payload_row *checks; /* with queue: SESSION_DEVICE_BATCH, to make a batch in */
  struct pst_fence *ready;        /* of the last batch handed out */
  struct parked *parked;          /* the ring's: taken in, and not handed over yet */
  uint32_t parked_count;
  uint32_t check_at;  /* how many views of a check that was put off have been submitted */
  bool check_waits;   /* a check was put off */
  bool unfenced;      /* a check is under way that no fence waits for */
  bool memory_failed; /* stat_; an operation of its memory has */
  const struct receiver_client_ops *client; /* stat_; NULL: the application alone */
  void *client_data;                        /* its own */
  /* Nothing has come since, and the sender has finished or is foreign; 0: not so. */
  uint64_t quiet_since_ns;
  uint64_t alive_ns;              /* since then its sender has been heard, by no new message */
  uint64_t heard;                 /* of such, as the transport last counted */
  bool was_silent;                /* for so long; one more poll is to say the same */
  bool is_numbered;               /* messages have sequence numbers */
  uint64_t span;                  /* stat_; numbers from the first to the highest seen */
  uint64_t unseen;                /* stat_; of these, how many have not come */
  struct interarrival *intervals; /* NULL: not asked for */
  struct pst_times times;         /* of these, as last read; end_lock() */
  uint64_t behind_last; /* stat_; missing behind the highest, or at all without numbers, by the
                           sender's total */
  uint64_t given_up;    /* stat_; came, but the application had had enough */
  uint64_t duplicates;  /* of the window, when last nothing had arrived */
  uint64_t arrived;     /* messages that need not be waited for any more */
  uint64_t held;        /* views out */
  uint64_t delivered;   /* stat_ */
  uint64_t bytes;       /* stat_ */
  uint64_t seed;
  bool finish_known; /* the sender has said what it sent */
  struct control_totals sent;
  enum receiver_phase phase; /* stat_ */
  uint64_t verified;         /* stat_ */
  uint64_t corrupted;        /* stat_ */
  uint32_t param_count;
  struct control_pair params[CONTROL_PARAMS_MAX];
  /* Gaps that each drop of its worker, and of its device, explains; end_lock(). */
  uint64_t claims[SESSION_LEVELS][COUNTS_DROPS_MAX];
};

static inline bool receiver_is_taken(const struct pst_receiver *receiver)
{
  return receiver->client && receiver->client->takes_all;
}

static inline void receiver_drop_fence(const struct pst_receiver *receiver, struct pst_fence *fence)
{
  const struct engine_memory *memory = receiver->ring->memory;

  if (fence)
    memory->ops->fence_release(memory->memory, fence);
}

/* Returns `rc`, the result of an operation of the receiver's memory, and notes it: should the
 * stream break off, the cause is known. */
static inline int receiver_note_memory(struct pst_receiver *receiver, int rc)
{
  if (rc < 0 && rc != -EAGAIN && rc != -EOPNOTSUPP && rc != -EINVAL) {
    stat_set(receiver->memory_failed, true);
    stat_set(receiver->span, receiver->window.next - receiver->window.base);
  }
  return rc;
}

/* receiver_open.c */
extern const struct end_ops receiver_ops;
/* Where the configuration leaves that to the link: plans as many slots as this ring's part of the
 * device's link needs. */
void receiver_size_ring(struct pst_receiver *receiver, uint64_t link_bps);

/* receiver_arrivals.c. Views of up to `max` messages that have arrived, duplicates left out. The
 * transport is polled again as long as a poll gives `enough` completions. */
uint32_t receiver_gather(struct pst_receiver *receiver, struct pst_view *views, uint32_t max,
                         uint32_t enough);
void receiver_see_times(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n);
/* Some have: `messages` of the stream so far. */
void receiver_note_arrived(struct pst_receiver *receiver, uint64_t messages);
/* Keep one that another end's poll has reaped. */
void receiver_pend(struct session_end *end, const struct pst_completion *completion);
/* Gives messages that have arrived and were not handed over back to the transport. */
void receiver_give_up_pending(struct pst_receiver *receiver);

/* release.c: give back what fences that have passed kept. */
int receiver_watch_releases(struct pst_receiver *receiver);
/* Room for another release, of n tokens. 0, -ENOMEM. */
int receiver_release_room(struct pst_receiver *receiver, uint32_t n);
/* These n > 0 go back behind the fence; NULL: with the last that did, whose fence has not been
 * asked since. 0, -ENOMEM. */
int receiver_release_behind(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                            struct pst_fence *fence);
/* As pst_receiver_release_after(), with the last one. */
int receiver_release_more(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n);

/* receiver.c. Begins every poll: 0; 1: the stream is over; -errno. */
int receiver_begin_poll(struct pst_receiver *receiver);

/* receiver_end.c. Nothing has arrived: -ENODATA: the stream is over; 0: not yet; its failure. */
int receiver_check_end(struct pst_receiver *receiver);
/* When a stream whose last messages do not come is given up; 0: not waiting so. */
uint64_t receiver_end_due_ns(const struct pst_receiver *receiver);

/* loss.c: messages that were lost, by cause. None: it is not named. */
void loss_add(struct pst_drop *drops, uint32_t *count, const char *cause, uint64_t messages);
/* With end_lock() held, or on the end's thread. All that
 * its receiver has not delivered of a stream. */
void loss_of_receiver(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count);
/* Explain what a receiver misses by drops of its worker and its device that no other end claims.
 * end_lock() is held. */
void loss_claim(struct session_end *end);
/* Messages that a receiver misses, measured by what the sender said it sent. */
uint64_t loss_missing_told(const struct pst_receiver *receiver);
/* Messages that a receiver misses, by the numbers alone: before the end, or of a foreign sender. */
uint64_t loss_missing_foreign(const struct pst_receiver *receiver);
/* Adds the drops, seen by this side, of a foreign sender's messages without numbers. */
void loss_unnumbered(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count);
/* Returns how many messages a foreign sender has sent, as far as that is known. */
uint64_t loss_foreign_sent(const struct pst_receiver *receiver);

/* receiver_control.c: what its sender says, and what it says to its sender. */
void receiver_met(struct session_end *end, const struct session_mail *mail);
void receiver_finish_heard(struct session_end *end, const struct control_totals *totals);
void receiver_beat_heard(struct session_end *end);
void receiver_totals(const struct session_end *end, struct control_totals *totals);

#endif
