/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of datagrams as its receiver sees it: which are the stream's, which number
 * each has, whether its sender has started anew, and what became of all others. No
 * sockets and no memory of its own: the transport brings what has arrived and does with
 * it what the verdict says.
 *
 * Invariant:
 *     datagrams == messages + bad_header + bad_checksum + too_long + not_ours + wrong_nonce
 *                  + displaced + too_late + too_far + unauthentic + replayed
 *                  + (1 while one is held)
 *
 * From another Penstock (`numbered`) the first number on the wire is known and becomes sequence 0.
 * Only that sender counts: its datagrams carry the stream's nonce. The foreign sender that comes
 * first is followed until it is silent. It has started anew when two datagrams in a row, one number
 * apart (RFC 3550, appendix A.1, MIN_SEQUENTIAL), come from its address after that: with another
 * port or SSRC, or with numbers that neither reordering nor loss explains. The numbering then goes
 * on behind the highest number, so that no loss is invented. Before that such datagrams are strays,
 * and change nothing. If a stream ends with two strays in a row, its sender has started anew too
 * soon to be followed, and they are its loss.
 *
 * A gap is loss if the sender can have sent that many messages since its last one, by its own pace.
 * A gap beyond DG_DROPOUT_MAX needs two datagrams in a row, too. The first of the two is held until
 * the second has come.
 *
 * The transport reports losses of the medium on this side (a socket's buffer was full, a network
 * card had no descriptor) by dg_flow_lost(), before the datagram that arrived next. A gap takes as
 * many of these losses as it can explain. The rest were losses of other streams.
 *
 * With a `tag` each datagram from the sender's address and port is authenticated before anything
 * else of it is looked at. First its number: one that has come, or is too old, is `replayed`,
 * whatever its tag. Then its tag. Datagrams that fail change nothing but their counts.
 *
 * Payloads may lie where the CPU cannot read: dg_arrival.readable says how much of a datagram it
 * can. The rules are framing.h's; a byte sum that cannot be computed is not compared, and its
 * message counted as `unchecked`.
 */
#ifndef DATAGRAM_FLOW_H
#define DATAGRAM_FLOW_H

#include <string.h>

#include "framing.h"
#include "sequence.h"
#include "tag.h"

/* Messages that may be lost in a row, besides those that the medium lost here and those that
 * the time since the last one has room for: a number further ahead waits for its successor (RFC
 * 3550, appendix A.1, MAX_DROPOUT). */
#define DG_DROPOUT_MAX 3000u
/* A sender's pace is what came in its busiest window of this length. It may become DG_PACE_ROOM
 * times as fast as it ever was. */
#define DG_PACE_NS UINT64_C(10000000)
#define DG_PACE_ROOM 4u
/* How long a foreign sender has to be silent before another one is followed: twice its longest
 * pause, within these bounds. */
#define DG_SILENCE_MIN_NS UINT64_C(50000000)
#define DG_SILENCE_MAX_NS UINT64_C(1000000000)

/* So many datagrams that are no messages, and fewer are strays. Before the first message they are
 * also to come within DG_SILENCE_MAX_NS. */
#define DG_USELESS_MIN 8u

/* Causes of the medium's losses, numbered by the transport from 0. A gap that several can explain
 * is the first one's. */
#define DG_CAUSES_MAX 4u

/* Interarrival jitter of RTP: RFC 3550, section 6.4.1 and appendix A.8, in nanoseconds. */
struct dg_jitter {
  bool begun;
  uint32_t clock_rate; /* of the timestamps, in Hz; 0: unknown, and no jitter */
  uint32_t timestamp;  /* of the message before */
  uint64_t arrival_ns;
  uint64_t scaled_ns; /* sixteen times the estimate, as A.8 keeps it */
};

static inline void dg_jitter_see(struct dg_jitter *jitter, uint32_t timestamp, uint64_t arrival_ns)
{
  if (jitter->begun && jitter->clock_rate) {
    int64_t sent = (int64_t)(int32_t)(timestamp - jitter->timestamp) * 1000000000 /
                   (int64_t)jitter->clock_rate;
    int64_t d = (int64_t)(arrival_ns - jitter->arrival_ns) - sent;
    jitter->scaled_ns += (uint64_t)(d < 0 ? -d : d) - ((jitter->scaled_ns + 8) >> 4);
  }
  jitter->begun = true;
  jitter->timestamp = timestamp;
  jitter->arrival_ns = arrival_ns;
}

static inline uint64_t dg_jitter_ns(const struct dg_jitter *jitter)
{
  return jitter->scaled_ns >> 4;
}

/* IPv4 as ::ffff:a.b.c.d. */
struct dg_source {
  uint8_t address[16];
  uint16_t port;
};

#define DG_FLOW_HOSTS_MAX 9u /* those of an address as it travels, and the loopback one */

struct dg_flow_params {
  enum dg_framing framing;
  bool numbered;         /* by another Penstock, not with framing none; else a foreign sender */
  uint32_t initial;      /* numbered: sequence 0 on the wire */
  uint64_t nonce;        /* numbered: what each datagram carries, without a tag */
  struct dg_tag *tag;    /* numbered: authenticates each datagram, or NULL. The receiver's */
  bool address_is_fixed; /* others are not ours */
  bool address_locks;    /* none, by another Penstock: the first message's is its */
  /* One of address_locks, whose lock it has; 0: any. */
  uint8_t hosts[DG_FLOW_HOSTS_MAX][16];
  uint32_t host_count;
  bool port_is_fixed;
  struct dg_source source;
  bool ssrc_is_fixed;
  uint32_t ssrc;
  int payload_type; /* -1: any */
  bool checks;      /* sequence: compare the byte sum */
  uint32_t message_max;
  uint32_t clock_rate; /* of RTP's timestamps, Hz */
  uint32_t reorder;    /* messages that one may come late by */
};

/* May a datagram of that source be the stream's? */
static inline bool dg_flow_is_source(const struct dg_flow_params *params,
                                     const struct dg_source *source)
{
  bool is_host = params->host_count == 0;

  if (params->port_is_fixed && source->port != params->source.port)
    return false;
  if (params->address_is_fixed)
    return memcmp(source->address, params->source.address, sizeof(source->address)) == 0;
  for (uint32_t i = 0; !is_host && i < params->host_count; i++)
    is_host = memcmp(params->hosts[i], source->address, sizeof(source->address)) == 0;
  return is_host;
}

/* The identity of a sender, as far as datagrams show it. */
struct dg_identity {
  struct dg_source source;
  uint32_t ssrc;
};

struct dg_message {
  uint32_t offset; /* of the payload in `rest` */
  uint32_t length;
  uint64_t sequence;
  uint64_t meta; /* RTP: timestamp in the low half, SSRC in the high one */
  bool has_sequence;
  bool has_meta;
  bool is_marked;
  bool is_restart; /* the first of a sender that has started anew */
  uint64_t time_ns;
};

struct dg_arrival {
  const struct dg_source *source;
  const uint8_t *header; /* dg_header_bytes() of it, with a nonce where it is numbered, and a tag
                            where there is one */
  const uint8_t *rest;   /* all further ones */
  uint32_t total;
  uint32_t readable; /* bytes of it that the CPU may read, the header's included; `total` or more:
                        all */
  bool is_cut;       /* it was longer than there was room for */
  uint64_t time_ns;  /* of arrival, for jitter and message */
};

struct dg_counts {
  uint64_t datagrams;
  uint64_t messages;
  uint64_t bytes;
  uint64_t bad_header;
  uint64_t unreadable; /* refused since their header lies where the CPU cannot read: bad_header, or
                          not_ours of a stranger's */
  uint64_t unchecked;  /* taken though their byte sum lies there */
  uint64_t bad_checksum;
  uint64_t too_long;
  uint64_t not_ours;
  uint64_t wrong_nonce; /* in the name of another Penstock, and not of its stream */
  uint64_t unauthentic; /* has no tag of the sender's */
  uint64_t replayed;    /* has a number that came before, whatever its tag */
  uint64_t displaced;   /* of a sender that is followed before or after, while another one is */
  uint64_t too_far;     /* its number lies further ahead than loss explains */
  uint64_t too_late;
  uint64_t lost[DG_CAUSES_MAX]; /* messages that the medium lost here, by the gaps they left */
  uint64_t unexplained;         /* messages that gaps lacked beyond those; late ones came since */
  uint64_t restarts;
  uint64_t others; /* of not_ours and displaced: from the followed sender's address, with another
                      port or SSRC */
  uint64_t no_message; /* numbers of RTP packets of another payload type */
  uint64_t heard;      /* of a foreign sender, what was no message; at first, beyond strays */
};

/* Datagrams of a foreign sender with numbers ahead of its last message. */
struct dg_tail {
  uint64_t next; /* one past the highest of them */
  uint64_t lost; /* refused, and so lost */
  uint64_t no_message;
};

/* Datagrams since the followed sender's last message that may be from a sender that takes its
 * place. */
struct dg_successor {
  struct dg_identity by;
  const uint64_t *cause; /* that it was counted for */
  uint64_t datagrams;
  uint32_t raw;   /* of the last */
  bool is_sender; /* two in a row had numbers one apart */
};

struct dg_flow {
  struct dg_flow_params params;
  struct dg_counts counts;
  struct dg_sequence sequence;
  struct dg_jitter jitter;
  bool begun;
  struct dg_identity current;
  struct dg_tail tail;
  uint64_t useless, useless_ns;    /* what was no message before the first, and since when */
  uint64_t lost_before;            /* refused, of the sender that was then followed */
  struct dg_source refused_source; /* before: of whom it was */
  uint64_t latest_ns;              /* of its messages */
  uint64_t longest_ns;             /* between two of them */
  uint64_t pace_from, pace_ns;     /* number and time since when the pace is taken */
  uint64_t busiest;                /* messages in DG_PACE_NS, at most so far; 0: not known */
  bool has_former;                 /* it was replaced */
  struct dg_identity former;
  uint64_t ignored; /* datagrams of another, since it was last another's */
  struct dg_identity ignored_by;
  struct dg_successor successor;
  uint64_t strays; /* in the followed sender's name, since its last message */
  uint64_t *strays_cause;
  bool holds;
  struct dg_message held;
  struct dg_identity held_by;
  uint32_t held_raw;
  uint64_t *held_cause;
  uint32_t credits[DG_CAUSES_MAX]; /* units lost here, not yet matched with a gap */
  uint32_t credit;                 /* their sum */
  /* Set by the transport: the medium counts its losses in units of at most this many datagrams. 1:
   * in datagrams. */
  uint32_t unit_max;
};

/* When a message that is delivered came, and the jitter. */
static inline void dg_flow_note_arrival(struct dg_flow *flow, const struct dg_message *message)
{
  if (flow->latest_ns && message->time_ns - flow->latest_ns > flow->longest_ns &&
      message->time_ns > flow->latest_ns)
    flow->longest_ns = message->time_ns - flow->latest_ns;
  flow->latest_ns = message->time_ns;
  if (message->has_meta)
    dg_jitter_see(&flow->jitter, (uint32_t)message->meta, message->time_ns);
}

enum dg_verdict {
  DG_DELIVER = 1u << 0,      /* this one: *message says what it is */
  DG_HOLD = 1u << 1,         /* keep this one; flow->held is it */
  DG_HELD_DELIVER = 1u << 2, /* the one kept, before this one: flow->held */
  DG_HELD_DROP = 1u << 3,    /* forget the one kept */
};

void dg_flow_begin(struct dg_flow *flow, const struct dg_flow_params *params);
/* Bits of enum dg_verdict; without DELIVER and HOLD this one is counted and void. */
uint32_t dg_flow_take(struct dg_flow *flow, const struct dg_arrival *arrival,
                      struct dg_message *message);
/* The medium has lost `units` for this reason since the last datagram that was taken. */
static inline void dg_flow_lost(struct dg_flow *flow, uint32_t cause, uint32_t units)
{
  flow->credits[cause] += units;
  flow->credit += units;
}

/* Messages of a foreign sender with numbers that were refused and left no gap. */
uint64_t dg_flow_no_gap(const struct dg_flow *flow);
/* The counts as they are if no further message comes: what a successor sent is `displaced`, and
 * left no gap, either. Returns how many it sent. */
uint64_t dg_flow_last_counts(const struct dg_flow *flow, struct dg_counts *counts);
/* The end: the one held is counted for what it was. */
void dg_flow_end(struct dg_flow *flow);

#endif
