/* SPDX-License-Identifier: Apache-2.0 */
/* Data that travel between two endpoints: addresses, and the headers of active messages. Both ends
 * have the same byte order, as UCX itself asks for. */
#ifndef UCX_WIRE_H
#define UCX_WIRE_H

#include <stdint.h>

#include <penstock/types.h>

#define UCX_MAGIC UINT32_C(0x33435550) /* "PUC3" */
#define UCX_AM_ID 0u                   /* the one active message of a worker */

/* The identity of an end's process, so that an end on the same host may watch it. */
struct ucx_identity {
  uint8_t boot[16]; /* /proc/sys/kernel/random/boot_id */
  uint64_t pid_namespace;
  uint64_t started; /* of the process, in clock ticks since boot */
  uint64_t pid;
};

enum ucx_address_flag {
  UCX_ADDRESS_SHARES = 1u << 0,  /* has shared memory that only failure mode NONE lets UCX use */
  UCX_ADDRESS_FETCHES = 1u << 1, /* its ring is not the CPU's: every message by rendezvous */
  UCX_ADDRESS_RECEIVES = 1u << 2,
  UCX_ADDRESS_SENDS = 1u << 3,
  UCX_ADDRESS_RMA = 1u << 4,
};

/* endpoint_address: this, and the address of a ucp_worker behind it. */
struct ucx_address {
  uint32_t magic;
  uint32_t flags; /* enum ucx_address_flag */
  uint64_t nonce; /* of the endpoint; HELLO repeats it */
  uint64_t sum;   /* ucx_sum() of all bytes, these being 0: UCX does not check what it unpacks */
  struct ucx_identity identity;
};
PST_STATIC_ASSERT(sizeof(struct ucx_address) == 64, "on the wire");

enum ucx_kind {
  UCX_HELLO = 1,   /* position: credits, length: of the longest message, sequence: own nonce */
  UCX_RUN = 2,     /* count messages of `length` bytes; numbers go up by one; no meta */
  UCX_LIST = 3,    /* count records, and the messages behind them */
  UCX_PART = 4,    /* a piece, at `offset`, of one message of `length` bytes */
  UCX_WHOLE = 5,   /* one message, which the receiver fetches */
  UCX_CREDIT = 6,  /* position: the first that must not be sent yet */
  UCX_FLUSH = 7,   /* position: answer once all before it are there */
  UCX_FLUSHED = 8, /* position: all before it are there; sequence: and so many UCX_WRITEs */
  UCX_BYE = 9,     /* position: how many there were */
  UCX_VOID = 10,   /* taken back before it went: nothing is to be read */
  /* One-sided access where UCX's own cannot be had (link.h, `by_messages`). sequence: the address.
   * position of a READ or an atomic: its number, which the answer repeats. */
  UCX_WRITE = 11,  /* bytes for the address + `offset` */
  UCX_READ = 12,   /* `length` bytes */
  UCX_DATA = 13,   /* bytes of a READ, from its `offset` on */
  UCX_ATOMIC = 14, /* meta: what is added, or the new value; offset: what it is compared with */
  UCX_FOUND = 15,  /* meta: what an atomic found */
};

enum ucx_header_flag {
  UCX_HEADER_ANSWER = 1u << 0, /* HELLO, BYE: the answer to the peer's */
  UCX_HEADER_ABORT = 1u << 1,  /* BYE: not all that was posted was sent */
  UCX_HEADER_SWAP = 1u << 2,   /* ATOMIC: compare and swap, not add */
};

/* The header of each active message. `position` counts the SENDs of an endpoint, from 0. `nonce` is
 * that of the address which the message is for: one of another run or process never counts. */
struct ucx_header {
  uint8_t kind; /* enum ucx_kind */
  uint8_t flags;
  uint16_t count;
  uint32_t length;
  uint64_t position;
  uint64_t sequence;
  uint64_t meta;
  uint64_t offset;
  uint64_t nonce;
  uint64_t writes; /* UCX_WRITEs that went before: they come before it counts */
};
PST_STATIC_ASSERT(sizeof(struct ucx_header) == 56, "on the wire");

struct ucx_record {
  uint64_t sequence;
  uint64_t meta;
  uint32_t length;
  uint32_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct ucx_record) == 24, "on the wire");

#define UCX_KEY_BY_CPU (1u << 31) /* its owner's CPU reaches the memory */

/* mr_pack: this, and a packed rkey behind it. */
struct ucx_key {
  uint32_t magic;
  uint32_t access; /* enum pst_access, and UCX_KEY_BY_CPU */
  uint64_t address;
  uint64_t length;
  uint64_t sum; /* as that of an address */
};
PST_STATIC_ASSERT(sizeof(struct ucx_key) == 32, "on the wire");

/* FNV-1a: finds what was cut short or damaged on the way. It stops no forger. */
PST_INLINE uint64_t ucx_sum(const void *bytes, size_t length)
{
  uint64_t sum = UINT64_C(0xcbf29ce484222325);

  for (size_t i = 0; i < length; i++)
    sum = (sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
  return sum;
}

/* The sum of a blob whose own sum, 8 bytes at `at`, counts as 0. */
PST_INLINE uint64_t ucx_blob_sum(const void *bytes, size_t length, size_t at)
{
  const uint8_t *from = (const uint8_t *)bytes;

  return ucx_sum(from, at) ^ 3 * ucx_sum(from + at + 8, length - at - 8);
}

#endif
