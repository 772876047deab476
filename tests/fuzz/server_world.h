/* SPDX-License-Identifier: Apache-2.0 */
/* The world in which the server lives while it is fuzzed: a node whose peers do what the input
 * says, and files whose reads and writes end when, and as, it says. The server's calls of either
 * are checked against the rules of penstock.h and io.h.
 */
#ifndef FUZZ_SERVER_WORLD_H
#define FUZZ_SERVER_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "require.h"

#define WORLD_PEERS 3u     /* at a time */
#define WORLD_REGIONS 3u   /* of a peer */
#define WORLD_TAGS 256u    /* that questions have; this one may be answered, or not */
#define WORLD_READ_BYTE 7  /* what regions hold */
#define WORLD_SUMMED 4096u /* first bytes of a part that is summed that really are */

/* ---- server_node.c ---- */
void world_node_begin(void);
struct pst_peer *world_join(void); /* NULL: there are enough */
struct pst_peer *world_peer(uint32_t which);
bool world_is_there(const struct pst_peer *peer); /* neither side has had enough */
void world_leave(struct pst_peer *peer, int status);
void world_say(struct pst_peer *peer, const void *bytes, size_t length);
/* One that is to be answered by the same tag. */
void world_expect(struct pst_peer *peer, uint64_t tag);
/* It says what nobody has looked at: any tag may be answered. */
void world_free(struct pst_peer *peer);
void world_offer(struct pst_peer *peer, uint32_t region, uint64_t length, uint32_t access);
void world_withdraw(struct pst_peer *peer, uint32_t region);
/* So many messages, and operations, are taken from now on. */
void world_room(struct pst_peer *peer, uint32_t messages, uint32_t operations);
/* End an operation that is under way, if there is one. */
void world_done(uint32_t which, int status);
uint32_t world_under_way(void);
/* Bytes of all operations for a peer. */
uint64_t world_posted(const struct pst_peer *peer);
void world_verify_fails(bool fails);
/* The last SHA-256 that the server has told anybody. */
const uint8_t *world_last_sum(void);
/* Every question of every peer that is still there has been answered. */
void world_require_answers(void);
/* No operation under way uses this memory of the server's. */
void world_require_unused(const uint8_t *bytes, uint64_t length);
bool world_owns(const uint8_t *bytes, uint64_t length);
/* A question of a peer that is there is what this is for. */
struct io_request;
void world_require_asked(const struct io_request *request);
void world_io_ended(const struct io_request *request);

/* ---- server_io.c ---- */
enum world_end { WORLD_IO_ENDS, WORLD_IO_FAILS, WORLD_IO_IS_FULL, WORLD_IO_IS_SHORT };
void world_io_end(uint32_t which, enum world_end how);
uint32_t world_io_under_way(void);
/* All ends by itself: there is no more input. */
void world_io_drain(bool on);
void world_io_require_unused(const uint8_t *bytes, uint64_t length);

/* ---- server_root.c ---- */
#define WORLD_FILE_BYTES 16384u       /* of `file` and `folder/inner` */
#define WORLD_SPARSE_BYTES (1u << 20) /* of `sparse` */
void world_root_open(void);           /* once */
void world_root_make(void);           /* as it was */
const char *world_root(void);
void world_root_truncate(const char *name, uint64_t size);
void world_root_remove(const char *name);
/* Requires that the files beside the root are unchanged. */
void world_root_require_outside(void);

/* ---- fuzz_server.c ---- */
/* Whatever happens next; false: nothing will any more. */
bool world_turn(void);

#endif
