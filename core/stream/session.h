/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a session.
 *
 * A session has threads (what penstock.h calls workers). A thread has lanes, one
 * for each device it uses: a lane is a transport's worker. Senders and receivers,
 * initiators and targets ("ends") sit on a lane and belong to its thread. The control thread never
 * touches an end: it leaves mail for the thread.
 *
 * Fields of an end that other threads may read are written with stat_set() and
 * read with stat_get(); everything else is its thread's alone.
 */
#ifndef PST_STREAM_SESSION_H
#define PST_STREAM_SESSION_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "config/config.h"
#include "control/control.h"
#include "loader/loader.h"
#include "util/clock.h"
#include "util/log.h"

#include "assemble.h"
#include "intervals.h"
#include "pace.h"
#include "rma.h"
#include "rows.h"
#include "track.h"

#define SESSION_POLL_BATCH 128 /* completions a poll of a transport asks for */
#define SESSION_LENT_MAX 256   /* lent regions of one lane */
/* Messages of one copy, and of one check: each costs a device the same, be they few or
 * many. */
#define SESSION_DEVICE_BATCH 4096
#define SENDER_PARAMS_MAX 14     /* the application's; the rest of CONTROL_PARAMS_MAX is ours */
#define SESSION_COUNTERS_MAX 128 /* of one endpoint */
#define SESSION_DROPS_MAX 16     /* causes; as in struct pst_stats */
#define CACHE_LINE 64

#define stat_set(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define stat_get(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define stat_add(field, value) stat_set(field, (field) + (value))

struct pst_session;

/* One opened memory plugin with one set of options. */
struct session_memory {
  const struct loader_plugin *plugin;
  const struct pst_options *options;
  struct pst_memory *memory;
  struct pst_memory_info info;
};

/* One opened transport, filters included, with one set of options. */
struct session_device {
  const struct config_transport *config;
  const struct loader_plugin *plugin;  /* of the innermost transport */
  const struct pst_transport_ops *ops; /* of the outermost */
  struct pst_device *device;
  struct pst_limits limits;
  struct pst_plan plan;
  uint32_t next_worker;
  uint32_t end_count; /* of all its workers */
};

struct session_thread;

struct session_lent {
  const struct pst_region *region; /* NULL: nothing lent by this number */
  void *host;                      /* of the region, which is gone when UNLENT has come */
  uint64_t length;
  uint64_t pinned; /* bit i: by the memory of the thread's end i */
};

struct session_lane {
  struct session_thread *thread;
  struct session_device *device;
  const struct pst_transport_ops *ops;
  struct pst_worker *worker;
  int event_fd; /* -1: cannot wake */
  bool seen;    /* the last poll gave something */
  uint32_t end_count;
  uint32_t spare_polls; /* so many polls to come would find what the last one left: nothing */
  struct session_lent lent[SESSION_LENT_MAX];
  struct pst_completion completions[SESSION_POLL_BATCH];
  const struct pst_completion *messages; /* what lane_poll() left: the first of them */
};

enum mail_type {
  MAIL_PEER,
  MAIL_ADDRESS,
  MAIL_FINISH,
  MAIL_COUNTS,
  MAIL_BEAT,
  MAIL_FAIL,
  MAIL_LAST
};

struct session_end;

struct session_mail {
  struct session_mail *next;
  enum mail_type type;
  bool is_kept; /* an end's own, not to be freed */
  struct session_end *end;
  int code;
  char text[512];
  struct control_totals totals;
  bool has_totals;         /* FAIL, LAST: the peer has said them */
  struct pst_blob address; /* bytes follow the struct; fds are ours to close */
  struct pst_blob remote;  /* likewise, behind the address */
  uint64_t remote_length;
  uint32_t param_count;
  struct control_pair params[CONTROL_PARAMS_MAX];
};

struct session_thread {
  struct pst_session *session;
  uint32_t index;
  int cpu; /* -1: not pinned */
  struct session_lane **lanes;
  uint32_t lane_count;
  struct session_end **ends;
  uint32_t end_count;
  int epoll_fd;
  int wake_fd;
  uint64_t idle_since_ns; /* 0: not idle */
  uint64_t next_beat_ns;
  uint32_t idle_rounds;
  uint32_t rounds;
  _Alignas(CACHE_LINE) atomic_bool has_mail;
  pthread_mutex_t mail_lock;
  struct session_mail *mail_first;
  struct session_mail *mail_last;
};

void mail_free(struct session_mail *mail); /* and close its descriptors */

/* What the thread of a worker has used by at_ns. Written by that thread; stat_ */
struct session_usage {
  uint64_t at_ns; /* 0: not taken */
  uint64_t cpu_ns, switches;
  uint64_t wait_ns; /* ready to run, without a CPU; UINT64_MAX: not known */
};

/* What all ends have in common. It is the first member of a pst_sender or pst_receiver,
 * and of a pst_initiator or pst_target where is_one_sided. */
struct session_end {
  struct pst_session *session;
  struct session_thread *thread;
  struct session_device *device;
  struct session_lane *lane; /* the device's on the thread */
  struct pst_endpoint *endpoint;
  const struct config_stream *config;
  const char *name;
  struct session_mail fail_mail; /* for the one FAIL of a stream when memory is out */
  bool is_sender;                /* or an initiator */
  bool is_one_sided;
  bool is_foreign;       /* `control: none`: nobody to tell, or to be told by */
  bool endpoint_closed;  /* EVENT CLOSED has come */
  bool endpoint_closing; /* endpoint_close was called */
  int state;             /* enum pst_state; stat_ */
  int error;             /* stat_ */
  bool control_over;     /* the control channel's part has ended or failed */
  bool failing;          /* stat_; a failure is known; told once what has arrived is handed over */
  bool owes_last;        /* the other side has failed, and wants our last counts */
  bool awaits_last;      /* this side has, and may still be told the other's */
  uint64_t gone_deadline_ns; /* transport says disconnected: the control channel may explain */
  int gone_status;
  bool has_lost_device; /* ours: the peer is not to blame */
  uint64_t started_ns;
  uint64_t ended_ns;
  uint64_t over_ns;    /* when it was over, where that is known only later; 0: not so */
  uint32_t stage_turn; /* odd while stage, stage_since_ns and blocked_ns change together */
  int stage;           /* enum pst_stage it is blocked in, or -1 */
  uint64_t stage_since_ns;
  uint64_t blocked_ns[PST_STAGES];
  struct session_usage usage_first, usage_last; /* connected; the last heartbeat, or the end */
  struct pst_path_info path;
  char memory_backing[48];
  uint32_t memory_kind; /* enum pst_memory_kind */
  bool peer_known;
  struct control_totals peer; /* the other side's last word */
  uint64_t unheard_ns;        /* when the peer first said that it had sent something; 0: not yet */
  bool told_unheard;
  bool peer_final; /* stat_; it was the last: at the stream's end, or as that side failed */
  pthread_mutex_t text_lock; /* peer_text, error_text: read by other threads */
  struct pst_counter_value counters[SESSION_COUNTERS_MAX];
  uint32_t counter_count;
  char peer_text[128];
  char error_text[512];
};

/* Requests of one endpoint of a sender. Fan-out: a sender has several legs. */
struct sender_leg {
  struct pst_sender *owner; /* whose endpoint it is: the sender itself, or one that shares */
  struct pst_mr *mr;
  uint64_t posted; /* sequence of the next message to post */
  uint64_t done;   /* all before it are done */
  uint32_t wait;   /* enum pst_wait of the last short post */
  bool dead;       /* takes no more; holds slots until what it took is done */
};

struct pst_sender {
  struct session_end end;
  struct session_memory *memory;
  struct pst_region region;
  bool has_region;
  struct pst_mr *mr;
  struct pst_queue *queue; /* fill; NULL without PATTERN */
  uint64_t base;           /* offset of slot 0's payload */
  uint64_t stride;
  uint64_t slot_mask; /* slots - 1: a power of two */
  uint32_t slots;
  struct pst_request *requests; /* slot by slot, constant fields set once */
  uint64_t *bytes_to;           /* slot by slot: payload of all messages up to this one */
  uint64_t bytes_submitted;
  struct sender_leg *legs;
  uint32_t leg_count;
  struct pst_sender *leader; /* fan-out: whose slots these are; NULL: its own */
  uint64_t acquired;         /* next sequence to acquire */
  uint64_t submitted;
  uint64_t staged;         /* all before it may be posted */
  struct staging *staging; /* NULL: the transport reads the slots themselves */
  uint64_t freed;          /* all slots before it are free: the least `done` of the legs */
  struct pace pace;
  bool paced;   /* the last acquire gave nothing because of `pace` */
  bool is_held; /* `pace` gave it less than was wanted */
  uint64_t seed;
  bool lends; /* DONE waits for the receiver's release */
  bool finishing;
  uint32_t stopped; /* stat_; enum pst_stop */
  bool flush_posted;
  bool flushed;
  uint64_t messages; /* stat_ */
  uint64_t bytes;    /* stat_ */
  uint32_t param_count;
  struct control_pair params[SENDER_PARAMS_MAX];
};

/* A copy batch of the staged path (ticket), or a release that waits (fence). */
struct landing_batch {
  uint64_t ticket;
  struct pst_fence *fence;
  uint32_t count; /* tokens in the FIFO */
};

/* Where messages land: the ring, and on the staged path the final memory behind
 * it. Receivers that share a ring share this. */
struct landing {
  uint32_t users;
  struct session_lane *lane;
  struct session_memory *memory;
  struct pst_region ring_region; /* what the transport writes */
  struct pst_mr *mr;
  struct pst_ring *ring;
  uint64_t stride;
  uint32_t slots;
  struct pst_path_info path;
  struct pst_queue *queue; /* copies; staged only */
  /* staged only */
  bool staged;
  struct pst_region final_region;
  uint64_t final_stride;
  /* FIFO of free final slots: they come back in the order in which they went, so that a
   * batch's lie one behind the other. */
  uint32_t *final_free;
  uint32_t final_head, final_tail, final_mask;
  struct landing_batch *copies; /* FIFO of batches under way */
  uint32_t copy_head, copy_tail, copy_capacity;
  uint64_t *copy_tokens; /* FIFO of the transport's tokens they read from */
  uint64_t token_head, token_tail;
  uint64_t token_mask;
  uint64_t done_ticket;
  struct copy_rows rows; /* being made, for SESSION_DEVICE_BATCH messages */
  uint32_t placed;       /* on behalf of so many */
  uint32_t slice; /* a copy is of so many messages, at most; UINT32_MAX: as many as there are */
  /* A copy for which the memory had no room yet, described in copies[copy_tail]; its rows
   * stay as they are, and nothing is placed before it has been submitted. NULL: none. */
  struct copy_rows *deferred;
};

struct release_fifo {
  struct landing_batch *batches;
  uint32_t head, tail, capacity; /* capacity is a power of two */
  uint64_t *tokens;
  uint64_t token_head, token_tail, token_mask;
};

/* Of what has been gathered since a poll began. */
struct receiver_tally {
  uint64_t bytes, damaged;
};

struct pst_receiver {
  struct session_end end;
  struct landing *landing;
  struct track track;
  struct receiver_tally polled;
  /* MESSAGE completions that another end's poll has reaped for this one. */
  struct pst_completion *pending;
  uint32_t pending_head, pending_tail, pending_capacity;
  struct release_fifo after;    /* release_after */
  struct pst_queue *queue;      /* verify, read; NULL without PATTERN */
  struct payload_rows payloads; /* with queue: for SESSION_DEVICE_BATCH, to make a batch in */
  struct pst_fence *ready;      /* of the last batch handed out */
  /* Staged: SESSION_DEVICE_BATCH, for those [parked_at, parked_count) that wait for their copy
   * to be started. */
  struct pst_view *parked;
  uint32_t parked_at, parked_count;
  uint32_t check_at;       /* how many views of a check that was put off have been submitted */
  bool check_waits;        /* a check was put off */
  bool unfenced;           /* a check is under way that no fence tells of */
  bool memory_failed;      /* stat_; an operation of its memory has */
  struct tensors *tensors; /* views out as tensors; NULL: there were none */
  /* Nothing has come since, and the sender has finished or is foreign; 0: not so. */
  uint64_t quiet_since_ns;
  uint64_t alive_ns;           /* since then its sender has been heard, by no new message */
  uint64_t heard;              /* of such, as the transport last counted */
  bool was_silent;             /* for so long; one more poll is to say the same */
  bool is_numbered;            /* messages have sequence numbers */
  uint64_t span;               /* stat_; numbers from the first to the highest seen */
  uint64_t unseen;             /* stat_; of these, how many have not come */
  struct intervals *intervals; /* NULL: not asked for */
  struct pst_times times;      /* of these, as last read; text_lock */
  uint64_t behind_last; /* stat_; missing behind the highest, or at all without numbers, by the
                           sender's total */
  uint64_t given_up;    /* stat_; came, but the application had had enough */
  uint64_t duplicates;  /* stat_ */
  uint64_t reordered;   /* stat_ */
  uint64_t held;        /* views out */
  uint64_t delivered;   /* stat_ */
  uint64_t bytes;       /* stat_ */
  uint64_t damaged;     /* stat_ */
  uint64_t seed;
  bool finish_known; /* the sender has said what it sent */
  struct control_totals sent;
  bool complete;                       /* everything is handed over */
  struct frames *frames;               /* NULL: messages are handed over as they are */
  struct assemble_counts frame_counts; /* stat_ */
  bool finished;                       /* pst_receiver_finish */
  uint64_t verified;                   /* stat_ */
  uint64_t corrupted;                  /* stat_ */
  uint32_t param_count;
  struct control_pair params[CONTROL_PARAMS_MAX];
};

/* The region of one side of a one-sided stream. */
struct session_region {
  struct session_memory *memory;
  struct pst_region region;
  bool is_there;
  struct pst_mr *mr;
  struct pst_queue *queue; /* fill and verify; NULL without PATTERN */
  uint64_t begun;          /* the last ticket of a fill or verify */
  uint64_t length;
  uint64_t seed;
};

struct pst_initiator {
  struct session_end end;
  struct session_region own;
  struct pst_blob offer;    /* of the target, until it is opened; bytes and fds are ours */
  struct rma_ranges ranges; /* from own, to the target's; its `remote` as long as it is open */
  struct rma rma;
  bool has_read; /* since the memory was flushed */
  bool finishing;
  bool flush_posted;
  bool flushed;
  uint64_t posted; /* stat_, as are those below */
  uint64_t done;
  uint64_t failed;
  uint64_t bytes;
};

struct pst_target {
  struct session_end end;
  struct session_region own;
  struct pst_blob offer; /* what the initiator needs; bytes are ours */
  bool finish_known;     /* the initiator has finished */
  bool finished;         /* pst_target_finish */
};

/* A stream of the configuration, by its place there. */
struct session_stream {
  bool is_selected;
  struct pst_sender *sender;     /* NULL: not in this session */
  struct pst_receiver *receiver; /* likewise */
  struct pst_initiator *initiator;
  struct pst_target *target;
  uint32_t sharers; /* receivers whose messages land in this one's ring */
};

struct pst_session {
  struct pst_config *owner;
  const struct config *config;
  uint32_t roles;
  struct session_stream *streams; /* as many as the configuration has */
  struct session_memory **memories;
  uint32_t memory_count;
  struct session_device **devices;
  uint32_t device_count;
  struct session_thread **threads;
  uint32_t thread_count;
  struct pst_sender **senders;
  uint32_t sender_count;
  struct pst_receiver **receivers;
  uint32_t receiver_count;
  struct pst_initiator **initiators;
  uint32_t initiator_count;
  struct pst_target **targets;
  uint32_t target_count;
  /* All ends of each side, in the order of the file. */
  struct session_end **outs;
  uint32_t out_count;
  struct session_end **ins;
  uint32_t in_count;
  bool is_started;
  struct landing **landings;
  uint32_t landing_count;
  const struct loader_plugin **plugins;
  uint32_t plugin_count;
  struct control *control;
};

/* session.c. NULL: the configuration has no such stream. */
struct session_stream *session_stream_find(const struct pst_session *session, const char *name);

/* How a run ends whose plugin opened nothing: it was told what cannot be meant, or what it
 * needs is not here. */
static inline int refusal_status(int code)
{
  return code == -EINVAL ? PST_EXIT_USAGE : PST_EXIT_UNAVAILABLE;
}

/* setup.c: threads, memories, devices, lanes */
int setup_threads(struct pst_session *session, struct pst_error *error);
int setup_memory(struct pst_session *session, const struct config_plugin *plugin,
                 struct session_memory **memory, struct pst_error *error);
int setup_devices(struct pst_session *session, struct pst_error *error);
/* Open one whose config and plan are set. */
int setup_device(struct pst_session *session, struct session_device *device,
                 struct pst_error *error);
void setup_close_workers(struct pst_session *session);
void setup_close(struct pst_session *session);
int setup_plugin_note(struct pst_session *session, const struct loader_plugin *plugin);
bool setup_region_meets(const struct pst_region *region, uint32_t needs, const char **lacks);
uint64_t round_up(uint64_t value, uint64_t step);

/* landing.c */
int landing_open(struct pst_session *session, struct pst_receiver *receiver,
                 struct pst_error *error);
/* Before the workers are closed, and after. */
void landing_close_ring(struct landing *landing);
/* Its peers reach the ring, and nothing of any other's: of the registration and of endpoints. */
static inline uint64_t landing_domain(const struct landing *landing)
{
  return (uint64_t)(uintptr_t)landing;
}
void landing_close(struct landing *landing);
/* The lent region that a message lies in; NULL: the transport names an unknown one. */
const struct pst_region *landing_lent(const struct landing *landing, uint32_t buffer);
/* Staged path: how many messages can be taken now. */
uint32_t landing_room(const struct landing *landing);
/* What it copies from cannot be pinned, and the memory copies while it is called: a little at a
 * time from now on, of messages of up to so many bytes. */
void landing_slice(struct landing *landing, uint64_t message);
/* Staged path: the next copy is on behalf of these n messages too, whose slots the
 * transport gets back when it is done. Together they are no more than landing_room() was. */
void landing_note(struct landing *landing, const struct pst_view *views, uint32_t n);
/* Start a copy, and empty the rows, which may be so already. landing_room() was not 0. 0;
 * -EAGAIN: the memory has no room for it yet: landing_reap() starts it later, until when `rows`
 * are its own and there is no room here; -errno of the memory. */
int landing_copy(struct landing *landing, struct copy_rows *rows);
/* The last copy has not been started yet. */
bool landing_is_deferred(const struct landing *landing);
/* A fence behind all copies so far; NULL where the memory has none. */
int landing_fence(struct landing *landing, struct pst_fence **ready);
/* Staged path: give n views, at most landing_room() in all, their final places, which
 * they name after; landing_submit() starts the copy of all that were given any since the
 * last. 0; -EAGAIN: they are placed, and later copied, as of landing_copy(); -errno of the
 * memory plugin, and nothing has been placed. */
void landing_place(struct landing *landing, struct pst_view *views, uint32_t n);
int landing_submit(struct landing *landing, struct pst_fence **ready);
/* Give back to the transport what finished copies have read, and start one that was put off. */
int landing_reap(struct landing *landing);
void landing_give_back(struct landing *landing, const struct pst_view *views, uint32_t n);
void landing_give_tokens(struct landing *landing, const uint64_t *tokens, uint32_t n);

/* The peer that a region is offered to reaches that and nothing else. */
static inline uint64_t region_domain(const struct session_region *own)
{
  return (uint64_t)(uintptr_t)own;
}
/* region.c: allocated, registered, with what peers need where it is `offered`. */
int region_open(struct session_end *end, const struct config_plugin *memory, bool offered,
                struct session_region *own, struct pst_error *error);
void region_close(const struct session_end *end, struct session_region *own);
void region_range(const struct session_region *own, struct pst_range *range);
static inline bool region_has(uint64_t region_length, uint64_t offset, uint64_t length)
{
  return offset <= region_length && length <= region_length - offset;
}
/* As pst_area_fill_begin(), pst_area_verify_begin() and pst_area_poll(). */
int region_begin(struct session_region *own, bool verify, const struct pst_area_pattern *parts,
                 uint32_t n, uint64_t *ticket);
int region_poll(struct session_region *own, uint64_t *done, struct pst_verify_result *found);
int region_fill(struct session_region *own, uint64_t offset, uint64_t length, uint64_t pattern);
int region_verify(struct session_region *own, uint64_t offset, uint64_t length, uint64_t pattern,
                  struct pst_verify_result *result);
/* Make visible to the memory's device what a transport wrote. */
int region_flush(const struct session_region *own);
/* What a transport of these limits needs of memory for one-sided access. */
uint32_t region_needs(const struct pst_limits *limits);
/* The CRC-32C of a range, computed where it is; waits. -ERANGE, -EOPNOTSUPP, -EIO. */
int region_checksum(struct session_region *own, uint64_t offset, uint64_t length, uint32_t *crc32c);
/* Copy between [offset, offset + length) and the CPU's memory; waits. */
int region_copy(struct session_region *own, uint64_t offset, uint64_t length, void *host, bool out);
/* For fill, verify and copy, where the memory has any of them. */
int region_open_queue(struct session_region *own, const char *what, struct pst_error *error);

/* initiator.c */
uint32_t initiator_depth(void); /* requests under way that are wished for */
int initiator_open(struct pst_session *session, struct pst_initiator *initiator,
                   struct pst_error *error);
void initiator_close(struct pst_initiator *initiator);
int initiator_offered(struct pst_initiator *initiator, struct session_mail *mail);
int initiator_connected(struct pst_initiator *initiator);
void initiator_done(struct pst_initiator *initiator, const struct pst_completion *completion);
/* Before its endpoint is closed, and after. */
void initiator_leave(struct pst_initiator *initiator);
void initiator_left(struct pst_initiator *initiator);
bool initiator_has_news(const struct pst_initiator *initiator);
void initiator_totals(const struct pst_initiator *initiator, struct control_totals *totals);

/* target.c */
int target_open(struct pst_session *session, struct pst_target *target, struct pst_error *error);
void target_close(struct pst_target *target);
void target_totals(const struct pst_target *target, struct control_totals *totals);

/* sender.c */
uint64_t stream_seed(const struct config_stream *config);
uint32_t sender_slots(const struct config_stream *config);
int sender_open(struct pst_session *session, struct pst_sender *sender, struct pst_error *error);
void sender_close(struct pst_sender *sender);
void sender_done(struct pst_sender *sender, const struct pst_completion *completion);
int sender_progress(struct pst_sender *sender);
void sender_totals(const struct pst_sender *sender, struct control_totals *totals);
uint32_t sender_stopped(const struct pst_sender *sender);

/* enum pst_memory_need of all transports that send from its slots: its own, and with fan-out
 * those of the streams that share them. */
uint32_t sender_needs(const struct pst_sender *sender);

/* sender_staged.c. Send from twins of the slots, because of `why`. */
int sender_stage(struct pst_sender *sender, const char *why, struct pst_error *error);
void sender_unstage(struct pst_sender *sender);
/* What the transport reads. */
const struct pst_region *sender_region(const struct pst_sender *sender);
/* Start copies of what is submitted, and see which are done. 0, or -errno of the memory. */
int sender_copy(struct pst_sender *sender);
/* Copies are to be looked after. */
bool sender_is_staging(const struct pst_sender *sender);

/* receiver_staged.c: what the staged path hands over. How many; -EAGAIN: nothing yet, and more
 * may have arrived; -errno of the memory. */
int receiver_take_staged(struct pst_receiver *receiver, struct pst_view *views, uint32_t max);
/* Views that wait for their copy; they are not handed over any more. */
uint32_t receiver_parked(const struct pst_receiver *receiver);
void receiver_give_up_parked(struct pst_receiver *receiver);

/* receiver_release.c: give back what fences that have passed kept. */
int receiver_watch_releases(struct pst_receiver *receiver);
/* At least n releases wait for their fences. */
bool receiver_releases_wait(const struct pst_receiver *receiver, uint32_t n);
/* Views that go back with the last release_after(), whose fence has not been asked since. */
int receiver_release_more(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n);

/* receiver.c */
int receiver_open(struct pst_session *session, struct pst_receiver *receiver,
                  struct pst_error *error);
void receiver_close(struct pst_receiver *receiver);
int receiver_pend(struct pst_receiver *receiver, const struct pst_completion *completion);
/* What has arrived and was not handed over goes back to the transport. */
void receiver_give_up_pending(struct pst_receiver *receiver);
int receiver_progress(struct pst_receiver *receiver);
/* Views of up to `max` messages that have arrived, duplicates left out. */
uint32_t receiver_gather(struct pst_receiver *receiver, struct pst_view *views, uint32_t max);
void receiver_see_times(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n);
/* Some have: `messages` of the stream so far. */
void receiver_arrived(struct pst_receiver *receiver, uint64_t messages);
/* Nothing has arrived: -ENODATA: the stream is over; 0: not yet; its failure. */
int receiver_check_end(struct pst_receiver *receiver);
/* What every poll begins with: 0; 1: the stream is over; -errno. */
int receiver_begin_poll(struct pst_receiver *receiver);
void receiver_drop_fence(const struct pst_receiver *receiver, struct pst_fence *fence);
/* `rc` is what an operation of its memory gave, and is given back: should the stream break off,
 * it is known why. */
int receiver_note_memory(struct pst_receiver *receiver, int rc);
/* When a stream whose last messages do not come is given up; 0: not waiting so. */
uint64_t receiver_due_ns(const struct pst_receiver *receiver);
/* Messages that were sent, as numbers show, and will not be delivered; any thread. */
uint64_t receiver_missing(const struct pst_receiver *receiver);
void receiver_totals(const struct pst_receiver *receiver, struct control_totals *totals);

/* tensors.c. There are some, or were: those that have been deleted give their views back. */
int tensors_take_back(struct pst_receiver *receiver);
/* Views may come back without the worker's being woken. */
bool tensors_out(const struct pst_receiver *receiver);
void tensors_close(struct pst_receiver *receiver);

/* frames.c. What a stream that assembles needs, by its configuration alone: bytes of
 * all its frames, and pieces of a copy. */
uint64_t frames_length(const struct config_stream *config);
uint32_t frames_pieces(const struct config_stream *config);
int frames_open(struct pst_receiver *receiver, struct pst_error *error);
void frames_close(struct pst_receiver *receiver);
/* Take back frames whose fences have passed. */
int frames_watch(struct pst_receiver *receiver);
/* Messages that have found no place yet never will; how many. */
uint32_t frames_give_up(struct pst_receiver *receiver);
uint64_t frames_arrived(const struct frames *frames); /* messages, whatever became of them */
uint64_t frames_due_ns(const struct frames *frames, uint64_t now);

/* worker.c */
void thread_progress_now(struct session_thread *thread);
#define THREAD_TIME_ROUNDS 1024u /* rounds between looks at the clock */
static inline bool thread_is_due(struct session_thread *thread)
{
  return __builtin_expect(++thread->rounds % THREAD_TIME_ROUNDS == 0, 0) ||
         __builtin_expect(atomic_load_explicit(&thread->has_mail, memory_order_acquire), 0);
}
static inline void thread_progress(struct session_thread *thread)
{
  if (thread_is_due(thread))
    thread_progress_now(thread);
}
/* Poll one lane once. Messages of `mine` are left at lane->messages, which it returns
 * the number of; everything else goes to its end. lane->seen tells whether there was
 * anything at all. */
int lane_poll(struct session_lane *lane, struct session_end *mine, uint32_t max);
void thread_mail(struct session_thread *thread, struct session_mail *mail);
/* What nobody will read, once the control channel is closed. */
void thread_drop_mail(struct session_thread *thread);
void lane_forget_lent(struct session_lane *lane, uint64_t buffer);
void lanes_close_endpoints(struct pst_session *session);

/* end.c */
int end_init(struct session_end *end, struct pst_session *session,
             const struct config_stream *config, bool is_sender);
/* A last word from the other side is waited for. */
bool end_awaits(const struct session_end *end);
void end_stage(struct session_end *end, int stage); /* -1: flows */
/* Of the time since it entered `stage`, if it is there, so much does not count. */
void end_stage_shorten(struct session_end *end, int stage, uint64_t ns);
/* The time of its stage does not count: the stream was over when it began. */
void end_stage_forget(struct session_end *end);
void end_state(struct session_end *end, int state);
void end_fail(struct session_end *end, int code, const char *text);
void end_connected(struct session_end *end);
void end_close_endpoint(struct session_end *end, uint32_t mode, uint64_t deadline_ns);
void end_mail(struct session_end *end, struct session_mail *mail);
void end_totals(const struct session_end *end, struct control_totals *totals);
int end_check(struct session_end *end); /* 0, or the failure */
/* The transport has lost the peer. */
void end_gone(struct session_end *end, int status);
void end_device_failed(struct session_end *end, int status);
void end_stats(const struct session_end *end, struct pst_stats *stats);

/* usage.c. By the thread that drives the worker. */
void usage_take(struct session_usage *usage);
void usage_copy(struct session_usage *to, const struct session_usage *from);
void usage_stats(const struct session_end *end, struct pst_stats *stats);

/* count.c. Reading is the worker's; the rest with text_lock held, or by the worker. */
void count_read(struct session_end *end);
/* What a foreign sender has sent, as far as it is known. */
uint64_t count_foreign_sent(const struct pst_receiver *receiver);
/* Reads the counters: has the peer sent anything since the last call that became no message? */
bool count_is_heard(struct pst_receiver *receiver);
void count_own_drops(const struct session_end *end, struct pst_drop *drops, uint32_t *count);

/* Of the messages of a stream, by all that its receiver knows, those that it has not delivered. */
void count_undelivered(const struct pst_receiver *receiver, struct pst_drop *drops,
                       uint32_t *count);
/* The receiver has told last words of a stream that has broken off: what it was not told of. */
void count_unheard(const struct session_end *sender, uint64_t sent, struct pst_drop *drops,
                   uint32_t *count);

/* What both ends of a transport must have the same: its name and the options of a stream. */
void glue_transport_terms(const struct config_transport *transport, struct control_pair *terms,
                          uint32_t *count);
void glue_add_pair(struct control_pair *pairs, uint32_t *count, uint32_t max, const char *key,
                   const char *value);
/* glue.c: starts the control channel, whose callbacks become mail */
int glue_open(struct pst_session *session, struct pst_error *error);

/* foreign.c: begins without one, with peers that are not Penstock. Before the workers'
 * threads do. */
int foreign_open(struct pst_session *session, struct pst_error *error);

#endif
