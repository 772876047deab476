/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test pattern, made and checked where the memory is: what the sink `verify` and
 * `penstock bench` are made of. memory.h says what its bytes are.
 */
#ifndef PENSTOCK_PATTERN_H
#define PENSTOCK_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_slot; /* stream.h */
struct pst_view; /* stream.h */
struct pst_fence;
struct pst_sender;
struct pst_receiver;
struct pst_area; /* node.h */

/* The stream's messages are the test pattern that is made from *seed, which the receiver learns.
 * NULL: they are something else, and the receiver can verify none. Without the call they are the
 * pattern of seed 1. Streams of one seed and different names have different patterns. 0; -EALREADY:
 * after pst_session_start(); -EINVAL: a fan-out's sender that shares another's slots. */
PST_EXPORT int pst_sender_pattern(struct pst_sender *sender, const uint64_t *seed);
/* Write the test pattern of this stream into slots, where they are, with the
 * seed that the receiver was told. Sets nothing else: lengths are set before.
 * Blocks until it is done where the memory is a device's. -EOPNOTSUPP: the memory
 * makes no pattern. */
PST_EXPORT int pst_sender_fill(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n);

/* Check messages of the last poll against the stream's test pattern where they
 * are, behind its `ready`. *fence, for release_after, is passed when they have been
 * read. Never blocks.
 * 0; -EAGAIN: as many checks are under way as the memory takes: call again with the same views,
 * polls in between are fine, and release none of them before; -EOPNOTSUPP: the memory has no
 * pattern; -EIO, ...: it has failed. Where part of the views is being read then, *fence is set:
 * it takes them back as after success; without one, releases wait for the session's end. */
PST_EXPORT int pst_receiver_verify(struct pst_receiver *receiver, const struct pst_view *views,
                                   uint32_t n, struct pst_fence **fence);
/* What verify has found so far. */
PST_EXPORT int pst_receiver_verified(struct pst_receiver *receiver,
                                     struct pst_verify_result *result);

/* The test pattern number `pattern` over a range, where it is. What the range holds depends on the
 * pattern's number and the position in the range, not on where in the area it lies: filled here and
 * written there, it is verified there. verify: 0; -EBADMSG: some bytes are wrong. *result (may be
 * NULL) is what verify has found so far; it counts blocks of PST_RANGE_BLOCK bytes, `sequence` is
 * pattern * 2^24 + the block's number in its range. Both block. -ERANGE; -EOPNOTSUPP: the memory
 * makes no pattern. */
#define PST_RANGE_BLOCK 65536u
PST_EXPORT int pst_area_fill(struct pst_area *area, uint64_t offset, uint64_t length,
                             uint64_t pattern);
PST_EXPORT int pst_area_verify(struct pst_area *area, uint64_t offset, uint64_t length,
                               uint64_t pattern, struct pst_verify_result *result);
/* A part of an area, and the number of the pattern in it. */
struct pst_area_pattern {
  uint64_t offset, length; /* bytes */
  uint64_t pattern;
  uint64_t reserved; /* 0 */
};
/* The same of n parts, in one submission where the memory's device does it, and without waiting
 * for its end: *ticket grows with each call on the area, and the work behind it has ended once
 * pst_area_poll() tells of that ticket. Until then the parts are neither to be moved nor written.
 * Waits for room where 128 MiB are under way already. 0; -ERANGE; -EINVAL: `reserved`;
 * -EOPNOTSUPP: the memory plugin has no PST_MEMORY_CAP_PATTERN; -EIO: the device is lost, which
 * the log tells. */
PST_EXPORT int pst_area_fill_begin(struct pst_area *area, const struct pst_area_pattern *parts,
                                   uint32_t n, uint64_t *ticket);
PST_EXPORT int pst_area_verify_begin(struct pst_area *area, const struct pst_area_pattern *parts,
                                     uint32_t n, uint64_t *ticket);
/* All work up to ticket *done has ended. *found is the sum of all that was verified in the area
 * until now: where `corrupted` has grown, pst_area_verify() of what has ended since tells which
 * part it was. Does not wait. 0, or -EIO as above. */
PST_EXPORT int pst_area_poll(struct pst_area *area, uint64_t *done,
                             struct pst_verify_result *found);

#ifdef __cplusplus
}
#endif
#endif
