/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of loopback whose regions are a device's. */
#ifndef CONTRACT_LOOPBACK_DEVICE_H
#define CONTRACT_LOOPBACK_DEVICE_H

#include "harness.h"

#define LENGTH (UINT64_C(1) << 20)
#define REQUESTS 256u

extern struct contract_variant variant;
extern const struct pst_plugin *cuda;
extern const struct pst_memory_ops *memory_ops;

struct pst_memory *open_memory(const char *text);
struct pst_region take(struct pst_memory *memory);
/* -EBADMSG: other bytes are there. */
int work(const struct pst_region *region, bool verify, uint64_t offset, uint64_t length,
         uint64_t sequence);

#define fill(region, offset, length, sequence)                                                     \
  assert_int_equal(work((region), false, (offset), (length), (sequence)), 0)
#define verify(region, offset, length, sequence)                                                   \
  assert_int_equal(work((region), true, (offset), (length), (sequence)), 0)

/* An end with a region of a device's, or (memory NULL) of the host's. */
struct end {
  struct contract_side side;
  struct pst_region region;
};

struct ends {
  struct end near, far;
  struct pst_remote *remote;
  bool apart;
};

/* Apart: as two processes. */
void meet(struct ends *ends, struct pst_memory *near, struct pst_memory *far, bool apart);
int open_remote(struct ends *ends, struct pst_mr *mr, struct pst_remote **remote);
/* Both. */
struct ends *open_ends(struct pst_memory *near, struct pst_memory *far, bool apart);
void end_close(struct end *end);
void close_ends(struct ends *ends);

struct pst_request request_of(const struct ends *ends, uint8_t opcode, uint64_t near, uint64_t far,
                              uint64_t length);
/* To its end: its status. */
int run(struct ends *ends, const struct pst_request *request);
extern const struct pst_request flush;

#endif
