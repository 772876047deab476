/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a session opens what a configuration says; its ends send and receive messages or
 * frames.
 */
#ifndef PENSTOCK_STREAM_H
#define PENSTOCK_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_config;
struct pst_session;
struct pst_sender;
struct pst_receiver;
struct pst_fence;

/* ---- Session ------------------------------------------------------------------ */

enum pst_session_role {
  PST_SESSION_SENDER = 1u << 0,
  PST_SESSION_RECEIVER = 1u << 1, /* both: the ends meet in this process */
};

struct pst_session_params {
  uint32_t struct_size;
  uint32_t roles;             /* enum pst_session_role bits */
  const char *const *streams; /* only those named; NULL: all */
  uint32_t stream_count;
  uint32_t reserved;
};

/* Load the plugins, open devices, allocate and register memory, open rings
 * and endpoints. May block (seconds, for GPUs). */
PST_EXPORT int pst_session_open(const struct pst_config *config,
                                const struct pst_session_params *params,
                                struct pst_session **session, struct pst_error *error);
/* What a session of these params would refuse for the configuration's sake, though the
 * configuration is right by itself: `control: none` with both roles, what an end lacks that only
 * its own side needs. Each finding goes to `finding`, one line with its place. Opens nothing.
 * Returns how many there are; -ENOMEM. */
PST_EXPORT int pst_config_check(const struct pst_config *config,
                                const struct pst_session_params *params,
                                void (*finding)(void *context, const char *text), void *context);
/* Start the control channel, which connects in the background: either side may
 * start first. A receiver binds its address here. Call once, before the
 * threads begin. With `control: none` streams are connected as soon as they are polled:
 * a receiver takes what comes, a sender sends to whom its transport's options name.
 * In *error: -EOPNOTSUPP: the transport does not speak to peers without Penstock;
 * -EINVAL: the session has both ends, or an option is missing. */
PST_EXPORT int pst_session_start(struct pst_session *session, struct pst_error *error);
/* Before the counts of ends that failed here are read: wait until the other sides have answered
 * with theirs, which are final then (pst_stats.peer_final), or have gone. No thread is in a call of
 * this session. 0, at once where none has failed here; -ETIMEDOUT: one has not answered, as a
 * program that has stopped calling the library, or one older than this. */
PST_EXPORT int pst_session_settle(struct pst_session *session, uint64_t timeout_ns);
/* Ends at once what has not ended; a receiver that has finished waits up to a second
 * for its sender's answer; views, slots and fences are void. No thread
 * is in a call of this session. Blocks until devices are closed, at most some
 * seconds. Closing NULL is legal. */
PST_EXPORT void pst_session_close(struct pst_session *session);

/* NULL when the session has no such stream or not that side of it. */
PST_EXPORT struct pst_sender *pst_session_sender(struct pst_session *session, const char *name);
PST_EXPORT struct pst_receiver *pst_session_receiver(struct pst_session *session, const char *name);

/* The plugins in use: their number, and each in turn. */
PST_EXPORT uint32_t pst_session_plugins(const struct pst_session *session);
PST_EXPORT int pst_session_plugin(const struct pst_session *session, uint32_t index,
                                  struct pst_plugin_info *info);

/* Devices of transports that the session has opened, one for each set of options: their number,
 * and each in turn. -ENOENT: no such device. */
PST_EXPORT uint32_t pst_session_devices(const struct pst_session *session);
PST_EXPORT int pst_session_device(const struct pst_session *session, uint32_t index,
                                  struct pst_device_info *info);

/* Number of threads; which of them an end belongs to; the CPU that the configuration pins a
 * thread to, or -1. */
PST_EXPORT uint32_t pst_session_threads(const struct pst_session *session);
PST_EXPORT uint32_t pst_sender_thread(const struct pst_sender *sender);
PST_EXPORT uint32_t pst_receiver_thread(const struct pst_receiver *receiver);
PST_EXPORT int pst_session_thread_cpu(const struct pst_session *session, uint32_t thread);

/* Called by a thread when a round over its streams moved nothing. Busy
 * configurations return at once. With `threads.sleep_after`, once the thread has
 * been idle for so long, sleeps until a message, room, an event, or `until_ns`
 * (CLOCK_MONOTONIC; NULL: no bound), and at times for no reason at all. Returns 1
 * when it slept, 0 when not; -EINVAL: no such thread.
 * A pst_session_wake() from any thread, or a signal handler, ends the sleep of
 * all threads. */
PST_EXPORT int pst_session_wait(struct pst_session *session, uint32_t thread,
                                const uint64_t *until_ns);
PST_EXPORT void pst_session_wake(struct pst_session *session);

/* ---- States --------------------------------------------------------------------- */

enum pst_state {
  PST_STATE_WAITING = 1,   /* for the peer */
  PST_STATE_CONNECTED = 2, /* messages flow */
  PST_STATE_ENDING = 3,    /* the sender has finished; the last messages are on their way */
  PST_STATE_ENDED = 4,     /* both ends agree on the counts, or the peer is foreign */
  PST_STATE_FAILED = 5,
};

/* ---- Sending ---------------------------------------------------------------------- */

/* A slot of the sender's memory, the application's from acquire to submit. An
 * array element: its size is frozen. */
struct pst_slot {
  uint64_t address;  /* as the memory's device knows it */
  void *host;        /* where the CPU may write it, or NULL */
  uint32_t capacity; /* bytes of payload */
  uint32_t length;   /* set before submit; 0 to capacity */
  uint64_t meta; /* set before submit; the receiver's view has it where the transport has META */
  uint64_t sequence; /* the message's number in the stream, from 0 */
  uint64_t reserved[3];
};
PST_STATIC_ASSERT(sizeof(struct pst_slot) == 64, "frozen");

/* Take up to n free slots. Their sequence numbers count up from call to call and
 * they are submitted in that order, all of them (an acquired slot cannot be
 * given back; a length of 0 is a message too).
 * Returns how many; 0: none now, for one of the reasons in stats.blocked_ns
 * (not yet connected, paced by `rate`, all on their way).
 * -EPIPE: after finish; -ECONNRESET, -ETIMEDOUT, …: the stream has failed; -EINVAL: n is 0, or
 * a fan-out's sender that shares another's slots, from which alone messages come. */
PST_EXPORT int pst_sender_acquire(struct pst_sender *sender, struct pst_slot *slots, uint32_t n);
/* The application has nothing to send now: where slots are free, the time until the next acquire
 * counts as the source's. Makes progress. 0; errors as pst_sender_acquire(). */
PST_EXPORT int pst_sender_idle(struct pst_sender *sender);
/* Hand over the n oldest acquired slots, in their order. What the transport does
 * not take at once is kept and posted by later calls. 0; -EINVAL: not the oldest
 * acquired, or a length over the capacity; the stream's error. */
PST_EXPORT int pst_sender_submit(struct pst_sender *sender, const struct pst_slot *slots,
                                 uint32_t n);
/* Make progress without acquiring: post what is kept, reap what is done.
 * Returns how many messages moved, or the stream's error. */
PST_EXPORT int pst_sender_poll(struct pst_sender *sender);
/* Stop taking part, when the source has failed: the receiver gets
 * `code` (-errno) with the text. Acquired slots are void. With fan-out, the sender
 * whose slots they are stops all, any other only itself. */
PST_EXPORT int pst_sender_abort(struct pst_sender *sender, int code, const char *text);
/* No more will come. All acquired slots have been submitted. Poll until the
 * state is ENDED or FAILED. */
PST_EXPORT int pst_sender_finish(struct pst_sender *sender);

/* Why a stream's messages have ended. */
enum pst_stop {
  PST_STOP_UNKNOWN = 0,    /* they have not, or nobody has said */
  PST_STOP_SOURCE_END = 1, /* there were no more */
  PST_STOP_COUNT = 2,      /* as many as were asked for */
  PST_STOP_DURATION = 3,   /* for as long as was asked for */
  PST_STOP_SIGNAL = 4,
  PST_STOP_PEER = 5, /* the other end failed, or left */
  PST_STOP_FAILURE = 6,
  PST_STOPS = 7,
};
/* The source had more, or more was asked for: what the receiver has is a part. */
#define PST_STOP_SHORT (1u << 8)
/* pst_sender_finish() with a reason, which the receiver finds in its statistics:
 * enum pst_stop, where it applies with PST_STOP_SHORT. pst_sender_finish() says
 * PST_STOP_SOURCE_END. Besides, -EINVAL: no such reason. */
PST_EXPORT int pst_sender_stop(struct pst_sender *sender, uint32_t why);
PST_EXPORT enum pst_state pst_sender_state(const struct pst_sender *sender);

/* Tell the receiver something about the stream (a capture's link type): at most
 * 14 keys of at most 63 bytes, values of at most 255. -EALREADY: after
 * pst_session_start; -ENOSPC: too many; -EINVAL: too long, or a fan-out's sender
 * that shares another's slots, and tells what that one does. */
PST_EXPORT int pst_sender_param_set(struct pst_sender *sender, const char *key, const char *value);

/* ---- Receiving -------------------------------------------------------------------- */

enum pst_view_flag {
  PST_VIEW_META = 1u << 0,
  PST_VIEW_TIME = 1u << 1,
  PST_VIEW_MARKED = 1u << 2,
  PST_VIEW_DAMAGED = 1u << 3, /* the transport found its checksum wrong */
  PST_VIEW_RESTART = 1u << 4, /* its sender started anew with it, or shortly before it */
};

/* A message, the application's until it is released. An array element: its size
 * is frozen. */
struct pst_view {
  uint64_t address;  /* of the payload, as the memory's device knows it */
  const void *host;  /* where the CPU may read it, or NULL */
  uint32_t length;   /* bytes */
  uint32_t flags;    /* enum pst_view_flag */
  uint64_t sequence; /* the message's number in the stream, from 0 */
  uint64_t meta;
  uint64_t time_ns; /* of arrival, CLOCK_REALTIME */
  uint64_t token;   /* the library's */
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_view) == 64, "frozen");

struct pst_batch {
  uint32_t struct_size;
  uint32_t capacity;      /* elements of `views`, set by the caller */
  struct pst_view *views; /* the caller's array */
  uint32_t count;         /* set: as returned */
  uint32_t reserved;
  struct pst_fence *ready; /* set: the data may be read behind this fence; NULL: at once.
                              Valid until the next poll of the same receiver. */
};

/* Messages that have arrived, up to batch->capacity.
 * Returns how many; 0: none now; -EINVAL: batch->struct_size is not set, or the stream
 * assembles frames, which pst_receiver_poll_frames() gives; -ENODATA: the stream has
 * ended, all of it was handed over; -ECONNRESET, -ETIMEDOUT, …: it has failed. Views
 * handed over before stay valid until they are released. */
PST_EXPORT int pst_receiver_poll(struct pst_receiver *receiver, struct pst_batch *batch);
/* Give messages back, in any order and grouping; the credit goes to the sender.
 * Only the tokens of the views are read. 0; -EINVAL: more than are out. */
PST_EXPORT int pst_receiver_release(struct pst_receiver *receiver, const struct pst_view *views,
                                    uint32_t n);
/* The same once the fence has passed, which later polls watch, in the order of these calls. The
 * library takes the fence over, with an error too. NULL: at once. Never blocks. 0; -EINVAL:
 * more than are out; -ENOMEM: the views stay the caller's. */
PST_EXPORT int pst_receiver_release_after(struct pst_receiver *receiver,
                                          const struct pst_view *views, uint32_t n,
                                          struct pst_fence *fence);
/* A fence behind the work now on the application's own `native` order of work
 * (a CUstream); for release_after. NULL is the CPU's own, with nothing to wait for: *fence is
 * NULL. CUDA's default stream, NULL there, is CU_STREAM_LEGACY or CU_STREAM_PER_THREAD here. */
PST_EXPORT int pst_receiver_fence(struct pst_receiver *receiver, void *native,
                                  struct pst_fence **fence);
/* Give a fence back behind which no views are released. NULL is legal. */
PST_EXPORT void pst_receiver_fence_free(struct pst_receiver *receiver, struct pst_fence *fence);
/* Make `native` wait for batch->ready on the device. NULL: wait here; blocks. */
PST_EXPORT int pst_receiver_fence_wait(struct pst_receiver *receiver, struct pst_fence *ready,
                                       void *native);
/* Copy a view's payload to host memory, for sinks on memory the CPU cannot read.
 * Blocks for the copy where the memory is a device's. */
PST_EXPORT int pst_receiver_read(struct pst_receiver *receiver, const struct pst_view *view,
                                 void *to);
/* After poll has said -ENODATA: the application is through with the data (its
 * file is on disk), and the sender may be told the final counts. All views have
 * been released. Poll on until the state is ENDED or FAILED. -EBUSY: the stream
 * has not ended, or views are out. */
PST_EXPORT int pst_receiver_finish(struct pst_receiver *receiver);
/* pst_receiver_finish(), and the polls until the state is ENDED or FAILED, in one call that blocks
 * for them; no other end of this thread goes on meanwhile. 0: both ends agree on the counts; -EBUSY
 * at once where the stream has not ended, or after timeout_ns where views are out; -ETIMEDOUT: the
 * sender has not answered, and the call may be made again; the stream's error. */
PST_EXPORT int pst_receiver_finish_wait(struct pst_receiver *receiver, uint64_t timeout_ns);
/* `control: none`: the application has had enough. The next poll says -ENODATA; what
 * has arrived and was not handed over is given up, and counts neither as sent nor as
 * lost. Without it a stream ends by its `silence`. 0, also when it has ended; the
 * stream's error; -EINVAL: with a control channel the sender ends a stream. */
PST_EXPORT int pst_receiver_stop(struct pst_receiver *receiver);
PST_EXPORT enum pst_state pst_receiver_state(const struct pst_receiver *receiver);
/* What the sender told by pst_sender_param_set; NULL before it has connected, or
 * when it told no such thing. */
PST_EXPORT const char *pst_receiver_param(struct pst_receiver *receiver, const char *key);
/* Stop taking part: the sender gets `code` (-errno) with the text. */
PST_EXPORT int pst_receiver_abort(struct pst_receiver *receiver, int code, const char *text);

/* ---- Receiving frames ----------------------------------------------------------------- */

/*
 * With `receiver.assemble`, a stream's messages ("packets" here) are handed over
 * as frames. Each payload is copied once, to its place in the frame, whatever the
 * order it came in: packet i lies at address + i * stride. Frames come in the
 * order of their numbers, each when it is complete, or when `assemble.timeout` has
 * passed since its first packet (or since that of a frame behind it), or when one
 * more has to be opened than half of `assemble.frames`. Times are those at which
 * polls take packets in, and no frame times out while some that have arrived are
 * not taken in yet.
 *
 * by: sequence: frame f has the packets [f * packets, (f + 1) * packets).
 * by: rtp_marker: a frame's packets have one RTP timestamp (`meta`), the last is
 * marked. Its end is known when that, or the packet behind it, is here, and its
 * start when the end of the frame before is known; where they are not, the frame
 * goes from the first packet that is here to the last, and is not COMPLETE.
 *
 * Where a sender has started anew (PST_VIEW_RESTART), no frame has packets of both: the
 * frames before are closed as they are. By sequence, frames are counted from its first
 * packet on; by rtp_marker, the start of its first frame is not known.
 */
enum pst_frame_flag {
  PST_FRAME_META = PST_VIEW_META, /* `meta` holds */
  PST_FRAME_TIME = PST_VIEW_TIME, /* first_ns and last_ns are the device's or kernel's; else they
                                     say when the library took the packets */
  PST_FRAME_MARKED = PST_VIEW_MARKED,   /* a packet with the marker is here */
  PST_FRAME_DAMAGED = PST_VIEW_DAMAGED, /* of a packet the transport found the checksum wrong */
  PST_FRAME_COMPLETE = 1u << 8,         /* all packets are here, first and last included */
};

/* A frame, the application's until it is released. An array element: its size is
 * frozen. */
struct pst_frame {
  uint64_t address;  /* of packet 0's payload, as the memory's device knows it */
  const void *host;  /* where the CPU may read it, or NULL */
  uint64_t stride;   /* bytes from packet to packet: the stream's `message`, or its `stride` */
  uint64_t number;   /* increases; by sequence, gaps are frames that were lost or dropped */
  uint64_t sequence; /* of packet 0; of packet i: sequence + i */
  uint64_t meta;     /* of the first packet that is here; its RTP timestamp where there is one */
  uint64_t first_ns; /* arrival of the earliest and the latest packet, CLOCK_REALTIME */
  uint64_t last_ns;
  uint64_t bytes;          /* payload that is here */
  const uint64_t *valid;   /* packet i is here: valid[i / 64] >> (i % 64) & 1; behind the last
                              packet, the bits of its word are 0 */
  const uint32_t *lengths; /* of packet i, bytes; 0 where it is missing. What lies behind a packet
                              shorter than the stride is of no frame in particular */
  uint32_t packets;        /* at most `assemble.packets` */
  uint32_t present;
  uint32_t flags; /* enum pst_frame_flag */
  uint32_t token; /* the library's */
  uint64_t reserved[3];
};
PST_STATIC_ASSERT(sizeof(struct pst_frame) == 128, "frozen");

struct pst_frame_batch {
  uint32_t struct_size;
  uint32_t capacity; /* elements of `frames`, set by the caller */
  struct pst_frame *frames;
  uint32_t count; /* set: as returned */
  uint32_t reserved;
  struct pst_fence *ready; /* set: as in struct pst_batch */
};

/* The most packets a frame of this stream has; 0: it hands over messages. */
PST_EXPORT uint32_t pst_receiver_frame_packets(const struct pst_receiver *receiver);
/* Frames that are through, up to batch->capacity.
 * Returns how many; 0: none now; -ENODATA and errors as pst_receiver_poll();
 * -EINVAL: the stream hands over messages. `valid` and `lengths` belong to the
 * library and hold until the frame is released. */
PST_EXPORT int pst_receiver_poll_frames(struct pst_receiver *receiver,
                                        struct pst_frame_batch *batch);
/* As pst_receiver_release() and pst_receiver_release_after(), for frames; -EINVAL, and
 * none is released, if one of them is not the application's (any more). While the
 * application holds all of `assemble.frames`, messages stay where the transport
 * put them: a sender that waits for credit stops, a datagram transport runs out of
 * slots and counts drops. */
PST_EXPORT int pst_receiver_release_frames(struct pst_receiver *receiver,
                                           const struct pst_frame *frames, uint32_t n);
PST_EXPORT int pst_receiver_release_frames_after(struct pst_receiver *receiver,
                                                 const struct pst_frame *frames, uint32_t n,
                                                 struct pst_fence *fence);
/* Packet i of a frame as a view, for pst_receiver_verify() and pst_receiver_read();
 * its token is void: frames are released whole. 1; 0: the packet is missing, and
 * *view is not touched. Any thread. */
PST_EXPORT int pst_frame_view(const struct pst_frame *frame, uint32_t i, struct pst_view *view);

#ifdef __cplusplus
}
#endif
#endif
