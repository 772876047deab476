/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of what malloc has given out, by the call that asked for it. */
#ifndef BENCH_HEAP_SITES_H
#define BENCH_HEAP_SITES_H

/* A line for each call of which blocks are in use: "heap: OBJECT OFFSET BYTES BLOCKS". The offset
 * is that of the return address in the object's file; the bytes are those of glibc's chunks. */
void heap_sites_print(void);

#endif
