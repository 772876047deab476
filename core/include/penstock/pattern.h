/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test pattern, filled and verified where the memory is. The sink `verify` and `penstock bench`
 * use it. memory.h defines its bytes.
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

/* Set the seed of the stream's test pattern; the receiver learns it. With NULL the messages are not
 * a test pattern, and the receiver cannot verify them. Without this call the seed is 1. Streams
 * with one seed and different names have different patterns. 0; -EALREADY: after
 * pst_session_start(); -EINVAL: this fan-out sender shares the slots of another sender. */
PST_EXPORT int pst_sender_pattern(struct pst_sender *sender, const uint64_t *seed);
/* Write the test pattern of this stream into slots, where they are. The slots' lengths are set
 * before. Blocks until a device has filled its memory. -EOPNOTSUPP: the memory plugin has no
 * pattern. */
PST_EXPORT int pst_sender_fill(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n);

/* Begin to verify messages of the last poll against the stream's test pattern, where they are,
 * behind the batch's `ready`. *fence passes when they have been read; pass it to
 * pst_receiver_release_after(). Never blocks.
 * 0; -EAGAIN: the memory has no room for another check: call again with the same views, and release
 * none of them before (polls in between are fine); -EOPNOTSUPP: the memory plugin has no pattern;
 * -EIO, …: the memory has failed. If a part of the views is being read then, *fence is set, and
 * the views can be released behind it; if not, they can be released only by closing the session. */
PST_EXPORT int pst_receiver_verify(struct pst_receiver *receiver, const struct pst_view *views,
                                   uint32_t n, struct pst_fence **fence);
/* Writes the result of pst_receiver_verify() so far. */
PST_EXPORT int pst_receiver_verified(struct pst_receiver *receiver,
                                     struct pst_verify_result *result);

/* Fill a range with the test pattern number `pattern`, or verify it. The bytes depend on the
 * pattern's number and the position in the range, not on the range's offset in the area, so that a
 * range filled at one place can be verified at another. *result, which may be NULL, is what
 * pst_area_verify() has found so far: it counts blocks of PST_RANGE_BLOCK bytes, and `sequence` is
 * pattern * 2^24 + the block's number in its range. Both calls block. 0; -EBADMSG: some bytes are
 * wrong; -ERANGE; -EOPNOTSUPP: the memory plugin has no pattern. */
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
/* Begin to fill or verify n parts of an area, in one submission, and return without waiting.
 * *ticket grows with each call on the area; the work has ended when pst_area_poll() reports that
 * ticket. The application neither moves nor writes the parts until then. Blocks while 128 MiB are
 * under way. 0; -ERANGE; -EINVAL: `reserved`; -EOPNOTSUPP: the memory plugin has no
 * PST_MEMORY_CAP_PATTERN; -EIO: the device is lost; the log says why. */
PST_EXPORT int pst_area_fill_begin(struct pst_area *area, const struct pst_area_pattern *parts,
                                   uint32_t n, uint64_t *ticket);
PST_EXPORT int pst_area_verify_begin(struct pst_area *area, const struct pst_area_pattern *parts,
                                     uint32_t n, uint64_t *ticket);
/* Get the ticket up to which all work has ended, and the sum of what was verified in the area so
 * far. If `corrupted` has grown, pst_area_verify() of the parts that ended since the last call
 * finds the wrong one. Does not block. 0, or -EIO: the device is lost. */
PST_EXPORT int pst_area_poll(struct pst_area *area, uint64_t *done,
                             struct pst_verify_result *found);

#ifdef __cplusplus
}
#endif
#endif
