/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a session opens the streams of a configuration; their ends send and receive messages or
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
/* Report why a session with these params would refuse a configuration that is valid by itself:
 * `control: none` with both roles, or an option missing that only one side needs. finding() gets
 * one line with its place for each. Opens nothing. Returns how many findings there are; -ENOMEM. */
PST_EXPORT int pst_config_check(const struct pst_config *config,
                                const struct pst_session_params *params,
                                void (*finding)(void *context, const char *text), void *context);
/* Start the control channel, which connects in the background: either side may start first. A
 * receiver binds its address here. Call once, before the threads begin. With `control: none`
 * streams connect when they are first polled: a receiver takes what arrives, a sender sends to the
 * address in its transport's options. In *error: -EOPNOTSUPP: the transport supports no peers
 * without Penstock; -EINVAL: the session has both ends, or an option is missing. */
PST_EXPORT int pst_session_start(struct pst_session *session, struct pst_error *error);
/* Wait until the peers of ends that failed here have sent their final counts (pst_stats.peer_final)
 * or have left. Call it before reading the counts of failed ends, with no thread in a call of this
 * session. 0, at once if no end has failed; -ETIMEDOUT: a peer has not answered, for example a
 * program that no longer calls the library. */
PST_EXPORT int pst_session_settle(struct pst_session *session, uint64_t timeout_ns);
/* Close the session. Streams that have not ended end at once; a receiver that has finished waits up
 * to a second for its sender's answer. Views, slots and fences become void. No thread is in a call
 * of this session. Blocks until devices are closed, some seconds at most. NULL is legal. */
PST_EXPORT void pst_session_close(struct pst_session *session);

/* Get an end of a stream by the stream's name. NULL if the session has no such stream, or not that
 * end of it. */
PST_EXPORT struct pst_sender *pst_session_sender(struct pst_session *session, const char *name);
PST_EXPORT struct pst_receiver *pst_session_receiver(struct pst_session *session, const char *name);

/* The plugins in use: how many, and the information of one. -ENOENT: no such plugin. */
PST_EXPORT uint32_t pst_session_plugins(const struct pst_session *session);
PST_EXPORT int pst_session_plugin(const struct pst_session *session, uint32_t index,
                                  struct pst_plugin_info *info);

/* The transports' devices that the session has opened, one for each set of options: how many, and
 * the information of one. -ENOENT: no such device. */
PST_EXPORT uint32_t pst_session_devices(const struct pst_session *session);
PST_EXPORT int pst_session_device(const struct pst_session *session, uint32_t index,
                                  struct pst_device_info *info);

/* The number of threads; the thread that an end belongs to; the CPU that the configuration pins a
 * thread to, or -1. */
PST_EXPORT uint32_t pst_session_threads(const struct pst_session *session);
PST_EXPORT uint32_t pst_sender_thread(const struct pst_sender *sender);
PST_EXPORT uint32_t pst_receiver_thread(const struct pst_receiver *receiver);
PST_EXPORT int pst_session_thread_cpu(const struct pst_session *session, uint32_t thread);

/* Sleep, if the configuration allows. A thread calls this after a round that moved nothing.
 * Without `threads.sleep_after` it returns at once. With it, a thread that has been idle for that
 * long sleeps until a message, room, an event, or `until_ns` (CLOCK_MONOTONIC, or NULL for no
 * bound); it may wake early. pst_session_wake() wakes all threads; any thread or signal handler may
 * call it. Returns 1 if it slept, 0 if not; -EINVAL: no such thread. */
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

/* A slot of the sender's memory. It belongs to the application from acquire to submit. An array
 * element: its size is frozen. */
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

/* Take up to n free slots. Their sequence numbers count up from call to call. The application
 * submits all of them in that order: an acquired slot cannot be returned, and a length of 0 is a
 * message too.
 * Returns how many; 0: none now, for one of the reasons in stats.blocked_ns (not yet connected,
 * paced by `rate`, all on their way). -EPIPE: after finish; -ECONNRESET, -ETIMEDOUT, …: the stream
 * has failed; -EINVAL: n is 0, or this fan-out sender shares the slots of another sender, which
 * alone makes the messages. */
PST_EXPORT int pst_sender_acquire(struct pst_sender *sender, struct pst_slot *slots, uint32_t n);
/* Say that the application has nothing to send now. While slots are free, the time until the next
 * acquire counts as waiting for the source. Makes progress. 0; errors as pst_sender_acquire(). */
PST_EXPORT int pst_sender_idle(struct pst_sender *sender);
/* Submit the n oldest acquired slots, in their order. The library keeps what the transport does not
 * take at once, and later calls post it. 0; -EINVAL: not the oldest acquired, or a length over the
 * capacity; the stream's error. */
PST_EXPORT int pst_sender_submit(struct pst_sender *sender, const struct pst_slot *slots,
                                 uint32_t n);
/* Make progress without acquiring: post what is kept, reap what is done. Returns how many messages
 * moved, or the stream's error. */
PST_EXPORT int pst_sender_poll(struct pst_sender *sender);
/* End the stream because the source has failed: the receiver gets `code` (-errno) and the text.
 * Acquired slots become void. In a fan-out, the sender that owns the slots ends all streams; any
 * other sender ends its own. */
PST_EXPORT int pst_sender_abort(struct pst_sender *sender, int code, const char *text);
/* Say that no message follows, once all acquired slots are submitted. Then poll until the state is
 * ENDED or FAILED. */
PST_EXPORT int pst_sender_finish(struct pst_sender *sender);

/* Why a stream's messages have ended. */
enum pst_stop {
  PST_STOP_UNKNOWN = 0,    /* they have not ended, or the reason is unknown */
  PST_STOP_SOURCE_END = 1, /* the source had no more */
  PST_STOP_COUNT = 2,      /* the requested count is reached */
  PST_STOP_DURATION = 3,   /* the requested duration is over */
  PST_STOP_SIGNAL = 4,
  PST_STOP_PEER = 5, /* the other end failed, or left */
  PST_STOP_FAILURE = 6,
  PST_STOPS = 7,
};
/* The receiver has only a part: the source had more, or more was requested. */
#define PST_STOP_SHORT (1u << 8)
/* End the stream as pst_sender_finish() does, with a reason, which the receiver finds in its
 * statistics: enum pst_stop, with PST_STOP_SHORT where that applies. pst_sender_finish() says
 * PST_STOP_SOURCE_END. -EINVAL: no such reason. */
PST_EXPORT int pst_sender_stop(struct pst_sender *sender, uint32_t why);
/* The state of the stream, as this end knows it. Any thread. */
PST_EXPORT enum pst_state pst_sender_state(const struct pst_sender *sender);

/* Tell the receiver a property of the stream, for example a capture's link type: at most 14 keys of
 * at most 63 bytes, with values of at most 255. -EALREADY: after pst_session_start; -ENOSPC: too
 * many; -EINVAL: too long, or this fan-out sender shares the slots of another sender, whose
 * properties hold for both. */
PST_EXPORT int pst_sender_param_set(struct pst_sender *sender, const char *key, const char *value);

/* ---- Receiving -------------------------------------------------------------------- */

enum pst_view_flag {
  PST_VIEW_META = 1u << 0,
  PST_VIEW_TIME = 1u << 1,
  PST_VIEW_MARKED = 1u << 2,
  PST_VIEW_DAMAGED = 1u << 3, /* the transport found its checksum wrong */
  PST_VIEW_RESTART = 1u << 4, /* its sender restarted with this message, or shortly before it */
};

/* A message. It belongs to the application until it is released. An array element: its size is
 * frozen. */
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
  uint32_t count;         /* output: the number returned */
  uint32_t reserved;
  struct pst_fence *ready; /* output: the data may be read behind this fence; NULL: at once. Valid
                              until the next poll of this receiver. */
};

/* Get messages that have arrived, up to batch->capacity. Earlier views stay valid until they are
 * released.
 * Returns how many; 0: none now; -EINVAL: batch->struct_size is not set, or the stream assembles
 * frames, which pst_receiver_poll_frames() returns; -ENODATA: the stream has ended, and every
 * message was handed over; -ECONNRESET, -ETIMEDOUT, …: the stream has failed. */
PST_EXPORT int pst_receiver_poll(struct pst_receiver *receiver, struct pst_batch *batch);
/* Release messages, in any order and grouping; the credit goes to the sender. Reads only the tokens
 * of the views. 0; -EINVAL: more than the application holds. */
PST_EXPORT int pst_receiver_release(struct pst_receiver *receiver, const struct pst_view *views,
                                    uint32_t n);
/* Release messages when the fence has passed: later polls look at the fences, in the order of these
 * calls. The library takes the fence over, after an error too. Without a fence (NULL) they are
 * released at once. Never blocks. 0; -EINVAL: more than the application holds; -ENOMEM: the views
 * stay the caller's. */
PST_EXPORT int pst_receiver_release_after(struct pst_receiver *receiver,
                                          const struct pst_view *views, uint32_t n,
                                          struct pst_fence *fence);
/* Record a fence behind the work now on the application's own `native` queue (a CUstream), for
 * pst_receiver_release_after(). NULL is the CPU, which has nothing to wait for: *fence is NULL.
 * CUDA's default stream, NULL in CUDA, is CU_STREAM_LEGACY or CU_STREAM_PER_THREAD here. */
PST_EXPORT int pst_receiver_fence(struct pst_receiver *receiver, void *native,
                                  struct pst_fence **fence);
/* Free a fence that was not passed to pst_receiver_release_after(). NULL is legal. */
PST_EXPORT void pst_receiver_fence_free(struct pst_receiver *receiver, struct pst_fence *fence);
/* Make `native` wait for batch->ready on the device. With NULL the calling thread waits. */
PST_EXPORT int pst_receiver_fence_wait(struct pst_receiver *receiver, struct pst_fence *ready,
                                       void *native);
/* Copy a view's payload to host memory, for sinks of memory that the CPU cannot read. Blocks for
 * the copy if the memory is a device's. */
PST_EXPORT int pst_receiver_read(struct pst_receiver *receiver, const struct pst_view *view,
                                 void *to);
/* Say that the application has stored the data, after pst_receiver_poll() has returned -ENODATA and
 * all views are released; the sender then gets the final counts. Poll until the state is ENDED or
 * FAILED. -EBUSY: the stream has not ended, or the application still holds views. */
PST_EXPORT int pst_receiver_finish(struct pst_receiver *receiver);
/* pst_receiver_finish(), and polls until the state is ENDED or FAILED, in one call that blocks; no
 * other end of this thread makes progress meanwhile. 0: both ends agree on the counts; -EBUSY: at
 * once if the stream has not ended, after timeout_ns if the application holds views; -ETIMEDOUT:
 * the sender has not answered, and the call may be repeated; the stream's error. */
PST_EXPORT int pst_receiver_finish_wait(struct pst_receiver *receiver, uint64_t timeout_ns);
/* End a stream of `control: none`. The next poll returns -ENODATA. Messages that arrived and were
 * not handed over are dropped, and count neither as sent nor as lost. Without this call a stream
 * ends by its `silence`. 0, also if it has ended; the stream's error; -EINVAL: with a control
 * channel only the sender ends a stream. */
PST_EXPORT int pst_receiver_stop(struct pst_receiver *receiver);
/* The state of the stream, as this end knows it. Any thread. */
PST_EXPORT enum pst_state pst_receiver_state(const struct pst_receiver *receiver);
/* A property that the sender set by pst_sender_param_set(); NULL: the sender has not connected, or
 * has not set it. */
PST_EXPORT const char *pst_receiver_param(struct pst_receiver *receiver, const char *key);
/* End the stream with an error: the sender gets `code` (-errno) and the text. */
PST_EXPORT int pst_receiver_abort(struct pst_receiver *receiver, int code, const char *text);

/* ---- Receiving frames ----------------------------------------------------------------- */

/*
 * With `receiver.assemble` the library hands over a stream's messages ("packets" here) as frames.
 * Each payload is copied once, to its place in the frame, in whatever order the packets arrive:
 * packet i lies at address + i * stride. Frames come in the order of their numbers. A frame is
 * handed over when it is complete, when `assemble.timeout` has passed since its first packet or
 * that of a later frame, or when more than half of `assemble.frames` would be open. Times are those
 * at which polls take packets in, and no frame times out while packets that have arrived are not
 * taken in yet.
 *
 * by: sequence: frame f has the packets [f * packets, (f + 1) * packets).
 * by: rtp_marker: the packets of a frame have one RTP timestamp (`meta`), and the last is marked.
 * The end of a frame is known from its marked packet or from the packet behind it; its start from
 * the end of the frame before. A frame whose start or end is unknown reaches from its first packet
 * here to its last, and is not COMPLETE.
 *
 * When a sender restarts (PST_VIEW_RESTART), its packets begin a new frame, and open frames are
 * handed over as they are. By sequence, frames are counted from the sender's first packet; by
 * rtp_marker, the start of its first frame is unknown.
 */
enum pst_frame_flag {
  PST_FRAME_META = PST_VIEW_META, /* `meta` is set */
  PST_FRAME_TIME = PST_VIEW_TIME, /* first_ns and last_ns come from the device or kernel; without
                                     the flag they say when the library took the packets */
  PST_FRAME_MARKED = PST_VIEW_MARKED,   /* a packet with the marker is here */
  PST_FRAME_DAMAGED = PST_VIEW_DAMAGED, /* the transport found a packet's checksum wrong */
  PST_FRAME_COMPLETE = 1u << 8,         /* all packets are here, first and last included */
};

/* A frame. It belongs to the application until it is released. An array element: its size is
 * frozen. */
struct pst_frame {
  uint64_t address;  /* of packet 0's payload, as the memory's device knows it */
  const void *host;  /* where the CPU may read it, or NULL */
  uint64_t stride;   /* bytes from packet to packet: the stream's `message`, or its `stride` */
  uint64_t number;   /* increases; by sequence, gaps are frames that were lost or dropped */
  uint64_t sequence; /* of packet 0; packet i has sequence + i */
  uint64_t meta;     /* of the first packet that is here; its RTP timestamp where there is one */
  uint64_t first_ns; /* arrival of the earliest and the latest packet, CLOCK_REALTIME */
  uint64_t last_ns;
  uint64_t bytes;          /* payload that is here */
  const uint64_t *valid;   /* bit valid[i / 64] >> (i % 64) & 1: packet i is here; bits behind the
                              last packet are 0 */
  const uint32_t *lengths; /* bytes of packet i; 0 if it is missing. The bytes between a packet's
                              end and the next packet are undefined */
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
  uint32_t count; /* output: the number returned */
  uint32_t reserved;
  struct pst_fence *ready; /* output: as in struct pst_batch */
};

/* The most packets in a frame of this stream; 0: the stream hands over messages. */
PST_EXPORT uint32_t pst_receiver_frame_packets(const struct pst_receiver *receiver);
/* Get frames, up to batch->capacity. `valid` and `lengths` of a frame belong to the library and are
 * valid until the frame is released.
 * Returns how many; 0: none now; -EINVAL: the stream hands over messages; -ENODATA, -ECONNRESET,
 * -ETIMEDOUT, …: as in pst_receiver_poll(). */
PST_EXPORT int pst_receiver_poll_frames(struct pst_receiver *receiver,
                                        struct pst_frame_batch *batch);
/* Release frames, as pst_receiver_release() and pst_receiver_release_after() do messages. While the
 * application holds all of `assemble.frames`, messages stay in the transport's slots: a sender that
 * waits for credit stops; a datagram transport runs out of slots and counts drops. -EINVAL: the
 * application does not hold one of the frames; none is released. */
PST_EXPORT int pst_receiver_release_frames(struct pst_receiver *receiver,
                                           const struct pst_frame *frames, uint32_t n);
PST_EXPORT int pst_receiver_release_frames_after(struct pst_receiver *receiver,
                                                 const struct pst_frame *frames, uint32_t n,
                                                 struct pst_fence *fence);
/* Get packet i of a frame as a view, for pst_receiver_verify() and pst_receiver_read(). The view's
 * token is void: frames are released whole. Any thread. Returns 1, or 0 if the packet is missing;
 * *view is then unchanged. */
PST_EXPORT int pst_frame_view(const struct pst_frame *frame, uint32_t i, struct pst_view *view);

#ifdef __cplusplus
}
#endif
#endif
