/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a stream: what a sender and a receiver have in common, their state and failures.
 *
 * Fields that other threads may read are written with stat_set() and read with stat_get();
 * everything else belongs to the thread of the end.
 */
#ifndef PST_STREAM_END_H
#define PST_STREAM_END_H

#include <pthread.h>
#include <stdbool.h>

#include "config/config.h"
#include "control/control.h"
#include "engine/usage.h"
#include "util/clock.h"
#include "util/log.h"

#include "lane.h"

#define SESSION_DROPS_MAX 16 /* causes; as in struct pst_stats */

struct pst_receiver;
struct receive_ring;

/* A message of a stream's peer, from the control thread to the stream's end. */
struct session_mail {
  struct mail mail; /* PEER, ADDRESS: its blob is the peer's address */
  enum control_heard type;
  struct session_end *end;
  int code;
  char text[1024];
  bool is_unsaid; /* FAIL: see control.h */
  struct control_totals totals;
  bool has_totals; /* FAIL, LAST: the peer has said them */
  uint32_t param_count;
  struct control_pair params[CONTROL_PARAMS_MAX];
};

/* Operations in which senders and receivers differ. */
struct end_ops {
  const char *role, *peer_role; /* for people */
  uint32_t endpoint_role;       /* enum pst_role */
  const struct stream_role *control_role;
  bool is_second;  /* of a stream's two ends in a session */
  bool ends_early; /* may end without ENDING */
  size_t size;     /* of a pst_sender or pst_receiver */
  /* Takes its transport and its share from the configuration, which says the worst path, too, and
   * the key that asks for it. */
  void (*configure)(struct session_end *end);
  uint32_t (*worst_path)(const struct config_stream *config, const char **key);
  void (*plan)(const struct session_end *end, struct pst_plan *plan); /* adds what it needs */
  /* With its slots or ring, those that share after those they share with; and its memory. */
  int (*open)(struct session_end *end, struct pst_error *error);
  void (*close)(struct session_end *end);
  /* Handles events of the transport: a request of the end is done; a message for it came in another
   * end's poll. */
  void (*done)(struct session_end *end, const struct pst_completion *completion);
  void (*arrived)(struct session_end *end, const struct pst_completion *completion);
  void (*connected)(struct session_end *end);
  /* Handles the peer's arrival, by the control channel. */
  void (*met)(struct session_end *end, const struct session_mail *mail);
  void (*finish)(struct session_end *end, const struct control_totals *totals);
  void (*counts)(struct session_end *end);
  void (*beat)(struct session_end *end);
  /* The end's parameters and totals, for its peer. */
  uint32_t (*params)(const struct session_end *end, struct control_pair *params);
  void (*totals)(const struct session_end *end, struct control_totals *totals);
  void (*measure)(struct session_end *end); /* with its counters */
  void (*claim)(struct session_end *end);   /* behind its counters; end_lock() is held */
  /* When its thread must look at it; `now`: at once; 0: no time is set. */
  uint64_t (*due_ns)(const struct session_end *end, uint64_t now);
  /* Where its messages land; NULL: nowhere. */
  struct receive_ring *(*ring)(const struct session_end *end);
  /* As its session closes: its peer would take the end for a failure. NULL: never. */
  bool (*awaits_last_word)(struct session_end *end);
};

/* How the control channel stands to a stream, at this end. */
enum end_control {
  END_CONTROL_LIVE,   /* the stream's ends talk */
  END_CONTROL_OWES,   /* the peer has failed, and waits for this end's last counts */
  END_CONTROL_AWAITS, /* this end has failed, and may still get the peer's last counts */
  END_CONTROL_OVER,   /* nothing more is sent or received; so from the start with `control: none` */
};

typedef int end_say(struct control *control, void *stream, const struct control_totals *totals);

/* Operations in which ends differ by their peer's kind: Penstock, or, with `control: none`,
 * anything else. */
struct end_peer_ops {
  bool is_foreign;          /* its first number is any; else 0 */
  enum end_control control; /* at first */
  /* The transport has connected the receiver; NULL: its first message begins it. */
  void (*connected)(struct session_end *end);
  /* As control_tell(); a foreign peer asks for no counts: the stream has ended. */
  int (*tell)(struct session_end *end, end_say *say);
  /* The end of a receiver that nothing has arrived at: what receiver_check_end() returns. */
  int (*check_end)(struct pst_receiver *receiver);
  /* How long a sender's last messages may be on their way, once it has finished, or is silent. */
  uint64_t (*patience_ns)(const struct pst_receiver *receiver);
  void (*stop)(struct pst_receiver *receiver); /* NULL: its sender says when it has finished */
  /* Messages that were sent and not delivered; and how many were sent, and who says so. With
   * end_lock() held, or on the end's thread. */
  uint64_t (*missing)(const struct pst_receiver *receiver);
  /* Adds this end's drops of messages that no sequence number shows missing; NULL: the sender
   * counts. */
  void (*unnumbered)(const struct pst_receiver *receiver, struct pst_drop *drops, uint32_t *count);
  void (*sent)(const struct pst_receiver *receiver, struct pst_stats *stats);
};

/* Problems of a stream that has not failed yet. The value only ever rises: a later problem explains
 * more. */
enum end_trouble {
  END_SOUND,
  END_GONE,         /* the transport has lost the peer; the control channel may say why */
  END_DEVICE_LOST,  /* the device of this end has failed: the peer is not to blame */
  END_PEER_FAILED,  /* the peer has said why; this end fails once what has arrived is handed over */
  END_PATH_REFUSED, /* the path with this peer is worse than `path` allows: fails at once */
};

/* Knowledge of the peer's counts. */
enum end_peer_word {
  END_PEER_SILENT,
  END_PEER_HEARD, /* they may grow */
  END_PEER_FINAL, /* the last word: at the stream's end, or as the peer failed */
};

/* The first member of a pst_sender or pst_receiver. */
struct session_end {
  struct engine_endpoint endpoint; /* on the lane's worker */
  const struct end_ops *ops;
  const struct end_peer_ops *peer_ops;
  struct pst_session *session;
  struct session_thread *thread;
  struct engine_device *device;
  struct session_lane *lane; /* the device's on the thread */
  const struct config_stream *config;
  const struct config_transport *transport;
  const char *share; /* the stream whose slots or ring it shares; NULL: its own */
  const char *name;
  char label[72];                /* "stream NAME" */
  struct session_mail fail_mail; /* for the one FAIL of a stream when memory is out */
  int state;                     /* enum pst_state; stat_ */
  int error;                     /* FAILED, or the peer has: -errno; stat_ */
  enum end_control control;
  struct {
    enum end_trouble kind; /* stat_ */
    int status;            /* but for PEER_FAILED: -errno */
    uint64_t deadline_ns;  /* GONE: when the stream fails, unless the peer says why; others: now */
  } trouble;
  uint64_t started_ns;
  uint64_t ended_ns;
  uint64_t over_ns;    /* when it was over, where that is known only later; 0: not so */
  uint32_t stage_turn; /* odd while stage, stage_since_ns and blocked_ns change together */
  int stage;           /* enum pst_stage it is blocked in, or -1 */
  uint64_t stage_since_ns;
  uint64_t blocked_ns[PST_STAGES];
  struct usage usage_first, usage_last; /* connected; the last heartbeat, or the end */
  struct pst_path_info path;
  char memory_backing[48];
  uint32_t memory_kind;         /* enum pst_memory_kind */
  enum end_peer_word peer_word; /* stat_ */
  struct control_totals peer;   /* the other side's last word */
  struct counts counts;         /* of its endpoint; the lock guards peer_text and error_text, too */
  char peer_text[128];
  char error_text[512];
};

static inline void end_lock(const struct session_end *end)
{
  pthread_mutex_lock((pthread_mutex_t *)&end->counts.lock);
}

static inline void end_unlock(const struct session_end *end)
{
  pthread_mutex_unlock((pthread_mutex_t *)&end->counts.lock);
}

static inline bool end_is_over(const struct session_end *end)
{
  return end->state == PST_STATE_ENDED || end->state == PST_STATE_FAILED;
}

/* receiver_end.c */
extern const struct end_peer_ops end_peer_penstock, end_peer_foreign;

/* endpoint_state.c */
void end_init(struct session_end *end, const struct end_ops *ops,
              const struct end_peer_ops *peer_ops, struct pst_session *session,
              const struct config_stream *config);
void end_destroy(struct session_end *end);
void end_stage(struct session_end *end, int stage); /* -1: flows */
/* Take `ns` off the time that it has been in `stage`, if it is there. */
void end_stage_shorten(struct session_end *end, int stage, uint64_t ns);
/* The time of its stage does not count: the stream was over when it began. */
void end_stage_forget(struct session_end *end);
/* How long it was blocked in each of PST_STAGES, with the stage that it is in: as of now, unless
 * it has ended. Any thread. */
void end_blocked(const struct session_end *end, uint64_t ended_ns, uint64_t *blocked_ns);
/* Enters the next enum pst_state; nothing follows FAILED, and a later request is ignored. */
void end_state(struct session_end *end, int state);
void end_enter_control(struct session_end *end, enum end_control control);
void end_fail(struct session_end *end, int code, const char *text);
/* With "stream NAME: " and this text, which is logged. Returns code. */
int end_fail_logged(struct session_end *end, int code, const char *format, ...) PST_PRINTF(3, 4);
void end_connected(struct session_end *end);
/* With each heartbeat: a path that has become worse than `path` allows is as one that was so from
 * the start. */
void end_watch_path(struct session_end *end);
/* To the peer's address. The transport's own line, where it has one, is the cause. */
void end_connect(struct session_end *end, const struct pst_blob *address);
/* Opens an endpoint; the params that are common to both kinds of end are filled in here. */
int end_open_endpoint(struct session_end *end, struct pst_endpoint_params *params,
                      struct pst_error *error);
int end_open_queue(const struct session_end *end, const struct engine_memory *memory,
                   uint32_t batches, uint32_t pieces, struct pst_queue **queue,
                   struct pst_error *error);
int end_out_of_memory(const struct session_end *end, struct pst_error *error);
/* The peer has failed: what has arrived is handed over first. */
void end_peer_failed(struct session_end *end, int code, const char *text);
/* The peer's counts, by end_lock(); not behind its last word. */
void end_note_peer(struct session_end *end, const struct control_totals *totals,
                   enum end_peer_word word);
int end_check(struct session_end *end); /* 0, or the failure */
/* The transport has lost the peer. */
void end_gone(struct session_end *end, int status);
/* The device of the end has failed. */
void end_device_failed(struct session_end *end, int status);

/* control_adapter.c, on the end's thread. */
void control_mail_read(const struct session_mail *mail);
/* Tells the peer its counts, as they are now: control_beat(), control_finish(), control_counts().
 * 0, or -errno of `say`. */
int control_tell(struct session_end *end, end_say *say);

/* counters.c: read what the transport counts, on the end's thread. */
void end_read_counters(struct session_end *end);
/* The sum of the counters that have the flag; with end_lock() held, or on the end's thread. */
uint64_t end_sum_counters(const struct session_end *end, uint64_t flag);

#endif
