/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end of a stream. */
#ifndef PST_STREAM_SENDER_H
#define PST_STREAM_SENDER_H

#include "engine/region.h"

#include "end.h"
#include "rate_limit.h"

#define SENDER_PARAMS_MAX 14 /* the application's; the rest of CONTROL_PARAMS_MAX is ours */

struct sender_staging;

/* Requests of one endpoint of a sender. Fan-out: a sender has several legs. */
struct sender_leg {
  struct pst_sender *owner; /* whose endpoint it is: the sender itself, or one that shares */
  struct pst_mr *mr;
  uint64_t posted; /* sequence of the next message to post */
  uint64_t done;   /* all before it are done */
  uint32_t wait;   /* enum pst_wait of the last short post */
  bool dead;       /* takes no more; holds slots until what it took is done */
};

enum sender_flush { SENDER_FLUSH_NONE, SENDER_FLUSH_POSTED, SENDER_FLUSH_DONE };

struct pst_sender {
  struct session_end end;
  struct engine_memory *memory;
  struct region region;    /* the slots */
  struct pst_mr *mr;       /* of these slots, or for a follower's device of its leader's */
  struct pst_queue *queue; /* fill; NULL without PATTERN */
  uint64_t base;           /* offset of slot 0's payload */
  uint64_t stride;
  uint64_t slot_mask; /* slots - 1: a power of two */
  uint32_t slots;
  struct pst_request *requests; /* slot by slot, constant fields set once */
  uint64_t bytes_submitted;
  struct sender_leg *legs; /* the first is its own */
  uint32_t leg_count;
  uint32_t leg;              /* its own, of its leader's */
  struct pst_sender *leader; /* fan-out: whose slots these are; NULL: its own */
  uint64_t acquired;         /* next sequence to acquire */
  uint64_t submitted;
  uint64_t staged;                /* all before it may be posted */
  struct sender_staging *staging; /* NULL: the transport reads the slots themselves */
  uint64_t freed;                 /* all slots before it are free: the least `done` of the legs */
  struct rate_limit rate;
  bool paced;   /* the last acquire gave nothing because of `rate` */
  bool is_held; /* `rate` gave it less than was wanted */
  bool departs; /* each message has the time at which `rate` lets it leave */
  uint64_t seed;
  bool has_pattern; /* its messages are the test pattern of `seed` */
  bool finishing;
  uint32_t stopped;        /* stat_; enum pst_stop */
  enum sender_flush flush; /* behind the last message */
  uint64_t messages;       /* stat_ */
  uint64_t bytes;          /* stat_ */
  uint32_t param_count;
  struct control_pair params[SENDER_PARAMS_MAX];
};

extern const struct end_ops sender_ops;

/* How long before its departure a message is handed to a transport that keeps the time: longer than
 * a thread is usually away, and short enough that the mean rate holds where nobody keeps it. */
#define SENDER_LEAD_NS 2e6

/* As many as the configuration wants, rounded up to a power of two. */
static inline uint32_t sender_slots(const struct config_stream *config)
{
  uint32_t wanted = config->sender.ring ? config->sender.ring : config->ring;
  uint32_t slots = 2;

  while (slots < wanted && slots < 1u << 30)
    slots <<= 1;
  return slots;
}

static inline struct pst_sender *sender_leader(struct pst_sender *sender)
{
  return sender->leader ? sender->leader : sender;
}

/* A fan-out's others stop as the one does whose slots they send. enum pst_stop. */
static inline uint32_t sender_stopped(const struct pst_sender *sender)
{
  const struct pst_sender *leader = sender->leader ? sender->leader : sender;

  return stat_get(leader->stopped);
}

/* sender_open.c */
void sender_plan(const struct session_end *end, struct pst_plan *plan);
int sender_open(struct session_end *end, struct pst_error *error);
void sender_close(struct session_end *end);
/* Returns the requirements of one leg's transport on the region of the sender's slots. */
struct region_params sender_slot_params(const struct pst_sender *sender,
                                        const struct session_end *leg_owner);

/* loss.c: what its transport has dropped. With end_lock() held, or on the end's thread. */
void loss_of_sender(const struct pst_sender *sender, struct pst_drop *drops, uint32_t *count);
/* The receiver has said last words of a stream that has broken off: what it was not told of. */
void loss_unheard(const struct pst_sender *sender, uint64_t sent, struct pst_drop *drops,
                  uint32_t *count);

/* sender_staging.c. Send from twins of the slots, because of `why`; the transports need `needs` of
 * the memory. */
int sender_stage(struct pst_sender *sender, const char *why, uint32_t needs,
                 struct pst_error *error);
void sender_unstage(struct pst_sender *sender);
/* Returns the region that the transport reads. */
const struct region *sender_region(const struct pst_sender *sender);
/* Start copies of what is submitted, and see which are done. 0, or -errno of the memory. */
int sender_copy(struct pst_sender *sender);
/* Copies are to be looked after. */
static inline bool sender_is_staging(const struct pst_sender *sender)
{
  return sender->staging && sender->staged < sender->submitted;
}

#endif
