/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frame a message belongs to, and where in it: arithmetic only, no memory
 * of payloads, no I/O, no clock.
 *
 * A frame is a run of consecutive sequence numbers. It is put together in one of
 * a fixed number of buffers, each a row of cells that hold one message's payload
 * each. Several frames are open at once, in the order of their sequences, and they
 * are closed in that order:
 *   - when the first open frame is complete and nothing before it is outstanding;
 *   - `timeout_ns` after the first message of it, or of a frame behind it;
 *   - when one more has to be opened than may be open at once.
 *   - when a sender has started anew (PST_VIEW_RESTART): its first message ends them.
 * A message for a closed frame is late.
 *
 * By sequence, frame f is [origin + f * packets, origin + (f + 1) * packets). A sender that
 * starts anew begins a frame.
 *
 * By marker, messages of one frame have the same `meta` (an RTP timestamp with its
 * SSRC) and the last of them is marked. A frame's end is known when its marked
 * message, or the one behind its last, is here; its start when the end of the one
 * before it is, by the same sender. Where the start is not known it is taken to be the first
 * message that is here, and the frame is not called complete. Cells are counted from the lowest
 * sequence at which it can start, so that what comes before the first seen finds its cell.
 */
#ifndef PST_STREAM_ASSEMBLE_H
#define PST_STREAM_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#define ASSEMBLE_OPEN_MAX 64 /* frames open at once */
/* By marker: how far before the first message that came of a frame its start may
 * turn out to be, at most. */
#define ASSEMBLE_SLACK 64

struct assemble_params {
  bool by_marker;
  bool drops;       /* incomplete frames are not given out */
  bool joins;       /* the stream may have begun before its first message here */
  uint32_t packets; /* of a frame; by marker, at most */
  uint32_t open;    /* frames at once, 1 to ASSEMBLE_OPEN_MAX */
  uint32_t buffers; /* more than `open` */
  uint64_t timeout_ns;
  uint64_t origin;               /* by sequence: of the first packet of frame 0 */
  uint64_t stride, frame_stride; /* bytes from cell to cell, and from buffer to buffer */
};

enum assemble_verdict {
  ASSEMBLE_PLACED,
  ASSEMBLE_DUPLICATE,
  ASSEMBLE_LATE,      /* its frame is closed, or had its start settled without it */
  ASSEMBLE_MISFRAMED, /* by marker: in no frame of at most `packets` with its meta */
  ASSEMBLE_WAIT,      /* no buffer is free: offer it again after a release or settle */
};

/* Any thread may read all but `placed`, each for itself. */
struct assemble_counts {
  uint64_t complete;   /* frames closed */
  uint64_t incomplete; /* the same, with packets missing, dropped ones included */
  uint64_t dropped;    /* frames of them not given out */
  uint64_t lost;       /* by sequence: frames of which nothing came in time */
  uint64_t placed;     /* messages in frames that are open or were given out */
  uint64_t late;       /* messages */
  uint64_t misframed;
  uint64_t incomplete_messages; /* in dropped frames */
};

struct assemble;
struct pst_view;
struct pst_frame;

/* 0, -EINVAL: a number is out of its range; -ENOMEM. */
int assemble_open(const struct assemble_params *params, struct assemble **assemble);
void assemble_close(struct assemble *assemble);

/* Cells of a buffer. */
uint32_t assemble_cells(const struct assemble_params *params);

/* Take the first of *n > 0 messages at `now_ns`, and with it those behind it that are the next of
 * the newest frame, one after the other, as most are. Those without a time arrived at arrival_ns.
 * *n becomes how many were taken, which all have the verdict. PLACED alone fills *place: the
 * offset of the first one's cell, which the others' follow. */
enum assemble_verdict assemble_take(struct assemble *assemble, const struct pst_view *views,
                                    uint32_t *n, uint64_t now_ns, uint64_t arrival_ns,
                                    uint64_t *place);
/* Close what has waited for its time. Frames may have been opened after `now_ns`. */
void assemble_expire(struct assemble *assemble, uint64_t now_ns);
/* Close all: nothing more will come. */
void assemble_end(struct assemble *assemble);
/* When assemble_expire() next closes something; 0: nothing is open. */
uint64_t assemble_due_ns(const struct assemble *assemble);

/* The oldest closed frame that was not taken yet; NULL: none. Its address is the offset of packet
 * 0, its token the number of its buffer, which is the taker's until assemble_release(). */
const struct pst_frame *assemble_first(const struct assemble *assemble);
void assemble_pop(struct assemble *assemble);
/* Gives a buffer back, which may be used again at once. */
void assemble_release(struct assemble *assemble, uint32_t buffer);
/* Lets buffers of dropped frames be used again, once the copies placed so far are on their way in
 * order. Until then they are not, lest two payloads of one submission go to one place. */
void assemble_settle(struct assemble *assemble);

const struct assemble_counts *assemble_counts(const struct assemble *assemble);

#endif
