/* SPDX-License-Identifier: Apache-2.0 */
/* The part of an endpoint that only DC has, beside the part of all transports of verbs. */
#ifndef DC_ENDPOINT_H
#define DC_ENDPOINT_H

#include <endian.h>

#include "../verbs/endpoint.h"
#include "address.h"
#include "handle.h"
#include "pool.h"

/*
 * Immediate data: the upper 16 bits are the number that the receiver gave its endpoint. In a SEND,
 * which is a message, the lower 16 bits are the low bits of its sequence. In an empty RDMA WRITE
 * they are a control word: 3 bits say which, 13 bits are its value.
 */
enum dc_word {
  DC_HELLO = 1,  /* dc_blob_proof() of the sender's own address */
  DC_CREDIT = 2, /* slots ever granted, modulo */
  DC_FAREWELL = 3,
  DC_ABORTED = 4,
};
#define DC_VALUE_BITS 13u
#define DC_EARLY 4u
#define DC_VALUES (1u << DC_VALUE_BITS)
_Static_assert(DC_CREDITS_MAX < DC_VALUES, "credit is a difference modulo DC_VALUES");

enum dc_stage {
  DC_NEW,
  DC_RESOLVING, /* the address handle is being made */
  DC_GREETING,  /* hello is to be said, or under way, or the peer's is to be heard */
  DC_CONNECTED,
  DC_LEFT, /* the peer said farewell */
  DC_FAILED,
};

/* The port's address when it was opened. */
struct dc_opened_address {
  uint8_t gid[16];
  uint32_t gid_index;
  uint16_t lid;
  uint8_t gid_type; /* enum vb_gid_type */
  uint8_t mtu;      /* enum ibv_mtu */
};

/* The part of the peer's address that is needed once it is connected. */
struct dc_peer {
  uint64_t key;
  uint8_t gid[16];
  uint32_t control, data;
  uint16_t number;
  uint16_t proof; /* that its hello says */
};

struct dc_endpoint {
  struct pst_endpoint endpoint; /* first */
  enum dc_stage stage;
  struct dc_opened_address home;
  struct dc_peer peer;
  struct dc_handle *handle;
  uint16_t number; /* that immediate data to it begin with */
  bool has_number;
  uint32_t says;             /* 1 << enum dc_word, that are to be said */
  struct vb_slot_run credit; /* tx->credits has one stretch: which slot it is, the receiver says */

  struct dc_initiator *initiator; /* that it holds */
  uint64_t held_from;             /* of the send queue */
  bool was_handed;                /* it waited, and may post for some polls */
  uint8_t handed_for;             /* of these, by now */
  bool is_waiting;
  uint8_t line;                        /* enum dc_line, where it waits */
  uint8_t tries;                       /* probes that were not answered */
  uint16_t heard_before;               /* `seen` when the target before it failed, modulo */
  uint64_t silent_ns;                  /* the first of them was posted; 0: there is none */
  uint64_t probe_at_ns;                /* not before */
  struct dc_endpoint *before, *behind; /* of its line */
  struct dc_endpoint *next_peer;       /* of one chain */

  uint64_t hello_at;          /* of the send queue; VB_NEVER: not said */
  uint64_t credits_at[2];     /* of the last two words of credit; VB_NEVER: none */
  uint64_t late_ns;           /* credit waits for an answer, which is late from then on; 0: none */
  bool is_heard, is_answered; /* the peer's hello; its device's answer to ours */
  uint16_t early[DC_EARLY];   /* what hellos said before the peer was known, + 1; 0: nothing */
  uint8_t early_count;        /* of them, ever, modulo */
  uint32_t granted;           /* to the peer, ever, modulo */
  uint32_t seen;              /* granted by the peer, ever, modulo */
  uint32_t base;              /* slots that it has while it can */

  uint64_t again_at; /* of the send queue: once all before it is done, the rest is posted again to
                        the peer's new target; VB_NEVER: nothing is */
  uint64_t moved_at; /* of the send queue, when the peer's target of words last became another: the
                        device repeats words before it for nothing; 0: there are none */

  uint64_t by_ns; /* it has to be connected; VB_NEVER: at any time */
  int status;     /* of DC_LEFT and DC_FAILED */
  bool tells_gone;
  bool tells_address; /* a target was made anew: READDRESS is to be polled */
  bool tells_again;   /* the peer's was: CONNECTED is, while requests go on */
  bool owed;
  uint64_t over_ns, over_at; /* then; and worker->empties, + 1 */
  uint64_t heard_ns;
  uint32_t heard_done, heard_arrivals; /* then, modulo */
};

static inline struct dc_endpoint *dc_of(const struct pst_endpoint *endpoint)
{
  return (struct dc_endpoint *)(void *)(uintptr_t)endpoint;
}
/* Which request of the send queue a completion is of, if it is under way. */
static inline uint64_t dc_index_of(const struct vb_send_queue *sq, const struct ibv_wc *wc)
{
  return sq->done + (uint32_t)((uint32_t)wc->wr_id - (uint32_t)sq->done);
}
/* A word of credit, as it was posted. */
static inline bool dc_is_credit(const struct ibv_send_wr *wr)
{
  return wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM &&
         (be32toh(wr->imm_data) & 0xffff) >> DC_VALUE_BITS == DC_CREDIT;
}
static inline bool dc_is_over(const struct dc_endpoint *dc)
{
  return dc->stage >= DC_LEFT;
}

#endif
