/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of one area of memory, by halves (a buddy system): numbers only, the memory
 * itself is never touched. */
#ifndef APP_SERVE_BUDDY_H
#define APP_SERVE_BUDDY_H

#include <stdint.h>

#define BUDDY_LEAST 4096u /* bytes of the smallest block */
#define BUDDY_NONE UINT64_MAX

struct buddy;

/* Makes an allocator of `bytes` bytes, at least BUDDY_LEAST. A rest that is no multiple of
 * BUDDY_LEAST stays unused. Returns NULL if out of memory. */
struct buddy *serve_buddy_open(uint64_t bytes);
void serve_buddy_close(struct buddy *pool); /* closing NULL is legal */

/* The largest block that there is when all is free: a power of two. */
uint64_t serve_buddy_largest(const struct buddy *pool);
/* Takes a block of at least `bytes` bytes. Returns its offset, a multiple of its size rounded up to
 * a power of two; BUDDY_NONE: none is free now. */
uint64_t serve_buddy_take(struct buddy *pool, uint64_t bytes);
void serve_buddy_give(struct buddy *pool, uint64_t offset);

#endif
