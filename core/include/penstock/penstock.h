/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpenstock: what an application embeds to send and receive streams.
 *
 *     pst_config_open_file("camera.yaml", NULL, 0, &config, &error);
 *     pst_session_open(config, &params, &session, &error);
 *     rx = pst_session_receiver(session, "packets");
 *     pst_session_start(session, &error);
 *     while ((n = pst_receiver_poll(rx, &batch)) >= 0) {
 *       use(batch.views, n);                       // or a kernel behind batch.ready
 *       pst_receiver_release(rx, batch.views, n);  // or pst_receiver_release_after()
 *       if (n == 0) pst_session_wait(session, pst_receiver_worker(rx), NULL);
 *     }                                            // -ENODATA: all of it was here
 *     pst_receiver_finish(rx);                     // the sender may know
 *     while (pst_receiver_state(rx) < PST_STATE_ENDED)
 *       pst_receiver_poll(rx, &batch);             // until both agree on the counts
 *     pst_session_close(session);
 *
 * A stream with a `region` instead of messages is one-sided: its receiver, the target,
 * offers a region, and its sender, the initiator, reads from and writes to it.
 *
 *     i = pst_session_initiator(session, "store");
 *     pst_initiator_local(i, &local);            // a region of its own, as large
 *     taken = pst_initiator_post(i, transfers, n);
 *     done = pst_initiator_poll(i, completed, max);
 *
 * Peers that come and go, files and regions on demand: "On demand" below.
 *
 * Batches everywhere: one call moves many messages, and costs no lock,
 * allocation, system call or log line per message.
 *
 * Threads. Streams are spread over workers, numbered from 0. A worker, and so
 * each end of a stream on it, belongs to one thread at a time: the calls that take a pst_sender,
 * pst_receiver, pst_initiator or pst_target come from the thread that drives its worker. Nothing
 * happens on a worker unless its thread calls in; a session has one thread of its own, for the
 * control channel. Calls on a config or session come from one thread at a time. No call blocks
 * unless it says so.
 *
 * Growth. Structs that begin with `struct_size` grow at the end, as plugin.h says: set
 * it to the sizeof that you were compiled with. The first version's size, which is
 * today's, is the least there is; less is refused (-EINVAL).
 *
 * Errors. 0, a count, or -errno; where there is a struct pst_error, it has the
 * cause, the place and the remedy, and the same line has been logged.
 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "plugin.h"
#include "transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PST_API_VERSION "0.1.0"

struct pst_config;
struct pst_session;
struct pst_sender;
struct pst_receiver;
struct pst_initiator;
struct pst_target;

/* What a failure means for a program's exit status. */
enum pst_exit {
  PST_EXIT_OK = 0,
  PST_EXIT_FAILED = 1, /* the run failed: loss on a reliable transport, corruption, dead peer */
  PST_EXIT_USAGE = 2,  /* usage or configuration, an unknown plugin name included */
  PST_EXIT_UNAVAILABLE = 3, /* not available here: the plugin cannot load, no such device */
  PST_EXIT_EXPECT = 4,      /* an `expect` was not met */
};

struct pst_error {
  uint32_t struct_size;
  int32_t code;        /* -errno */
  int32_t exit_status; /* enum pst_exit */
  uint32_t reserved;
  char text[2048]; /* may have several lines, each for one finding */
};
#define PST_ERROR_INIT                                                                             \
  {                                                                                                \
    sizeof(struct pst_error), 0, 0, 0,                                                             \
    {                                                                                              \
      0                                                                                            \
    }                                                                                              \
  }

/* The running library's version, "0.1.0". */
PST_EXPORT const char *pst_version(void);

/* Where log lines go; the default is stderr. Called from any thread, one line
 * without newline at a time. level: lines above it are not made. */
PST_EXPORT void pst_log_set(void (*sink)(void *context, int level, const char *line), void *context,
                            int level);
/* The level in force (enum pst_log_level): before pst_log_set() that of the environment's
 * PENSTOCK_LOG (error, warn, info, debug), else info. */
PST_EXPORT int pst_log_level(void);

/* ---- Configuration ---------------------------------------------------------- */

/* Where plugins are looked for, before the built-in places (PENSTOCK_PLUGIN_PATH,
 * the build tree, the installed folder). For the whole process; copies. */
PST_EXPORT int pst_plugin_path_add(const char *folder);

/* Read a YAML file ("-": standard input), apply `sets` ("path=value", in order)
 * and check all of it. May block on the file. */
PST_EXPORT int pst_config_open_file(const char *path, const char *const *sets, size_t set_count,
                                    struct pst_config **config, struct pst_error *error);
/* The same for YAML in memory; `name` stands in messages for the file's. */
PST_EXPORT int pst_config_open_text(const char *text, size_t length, const char *name,
                                    const char *const *sets, size_t set_count,
                                    struct pst_config **config, struct pst_error *error);

/* The same from structs. Strings of values are as in YAML ("8 KiB"), so that
 * every option of every plugin is in reach; NULL and 0 mean the default. */
struct pst_setting {
  const char *name;
  const char *value;
};
/* For a program whose users write what it puts into structs, on a command line say: what findings
 * name as the place. Of the options it comes before the option itself: "--transport-option mode=x".
 * NULL: the struct. */
struct pst_origins {
  uint32_t struct_size;
  uint32_t reserved;
  const char *stream; /* of all but the options: "bench" */
  const char *transport_option;
  const char *memory_option;
};
struct pst_side_params {
  const char *memory; /* plugin name */
  const struct pst_setting *memory_options;
  uint32_t memory_option_count;
  uint32_t transport_option_count;
  const struct pst_setting *transport_options; /* of this side */
};
struct pst_stream_params {
  uint32_t struct_size;
  uint32_t ring; /* slots */
  const char *name;
  uint64_t message;      /* bytes, at most */
  const char *transport; /* plugin name */
  const struct pst_setting *transport_options;
  uint32_t transport_option_count;
  uint32_t rate_reserved;
  uint64_t rate_bps; /* of the sender; 0: unlimited */
  struct pst_side_params sender;
  struct pst_side_params receiver;
  const char *path; /* of the receiver: auto | direct | mapped | staged */
  uint64_t region;  /* bytes; > 0: one-sided, then message, ring, rate_bps, path and assemble are
                       not set */
  const struct pst_setting *assemble; /* of the receiver: {"packets", "64"}, … */
  uint32_t assemble_count;            /* 0: messages are handed over, not frames */
  uint32_t reserved;
  const struct pst_origins *origins; /* NULL: findings are at "params.streams[0]" */
};
struct pst_config_params {
  uint32_t struct_size;
  uint32_t stream_count;
  const struct pst_stream_params *const *streams;
  const char *control;     /* "127.0.0.1:18515" */
  uint32_t workers;        /* 0: one a stream, up to the cores */
  uint32_t insecure;       /* allow a control address beyond loopback, and other users */
  uint64_t sleep_after_ns; /* idle for so long, a worker sleeps in pst_session_wait(); 0: never */
};
PST_EXPORT int pst_config_open_params(const struct pst_config_params *params,
                                      struct pst_config **config, struct pst_error *error);
/* Sessions opened from it keep what they need. Closing NULL is legal. */
PST_EXPORT void pst_config_close(struct pst_config *config);

/* The effective configuration as text, each value with its origin in a comment;
 * free() it. */
PST_EXPORT int pst_config_effective(const struct pst_config *config, char **text);
/* SHA-256 of the effective configuration without origins, as 64 hex digits. */
PST_EXPORT const char *pst_config_hash(const struct pst_config *config);
PST_EXPORT uint32_t pst_config_stream_count(const struct pst_config *config);
PST_EXPORT const char *pst_config_stream_name(const struct pst_config *config, uint32_t index);
/* One effective value by its path ("streams.packets.sender.source.type"). _get:
 * as text, NULL when there is no such key or it is not set; valid as long as the
 * config. _get_uint: sizes in bytes, durations in ns, rates in bit/s, booleans 0
 * or 1; 0 when there is none. */
PST_EXPORT const char *pst_config_get(const struct pst_config *config, const char *path);
PST_EXPORT uint64_t pst_config_get_uint(const struct pst_config *config, const char *path);
PST_EXPORT double pst_config_get_number(const struct pst_config *config, const char *path);
/* Where a value, a mapping or a list was written: "file.yaml:12:7", "--set path=value", "default";
 * NULL when there is no such key. Valid as long as the config. */
PST_EXPORT const char *pst_config_origin(const struct pst_config *config, const char *path);
/* Slots of a stream's ring where the file has no `ring`, for messages of at most so many
 * bytes. Measured: docs/benchmarks.md. */
PST_EXPORT uint32_t pst_ring_default(uint64_t message_bytes);

/* ---- Plugins ------------------------------------------------------------------ */

struct pst_plugin_info {
  uint32_t struct_size;
  uint32_t kind; /* enum pst_plugin_kind */
  const struct pst_description *description;
  const char *path;   /* real path of the plugin, or of its description; "" when rejected */
  int32_t status;     /* 0 usable; -errno: from loading or probing it; -EEXIST: shadowed */
  uint32_t described; /* 1: only the description is here, the plugin is not built */
  const char *reason; /* why not usable; "" */
  const char *remedy; /* "" */
  const char *const *libraries; /* real paths of vendor libraries bound; NULL-terminated */
  const char *shadowed_by;      /* real path of the plugin of this kind and name that is used; "" */
};
/* Load, probe and report every plugin that can be found, rejected candidates
 * included; `device` (may be NULL) is called for each usable device. The info is
 * valid for the call. May block for seconds. */
PST_EXPORT int pst_plugins_list(void (*plugin)(void *context, const struct pst_plugin_info *info),
                                void (*device)(void *context, const char *name, const char *detail),
                                void *context);

/* Rules between a plugin's options, of a description that pst_plugins_list() gave, in the call:
 * the one of that index (from 0) as a sentence without its full stop, cut to `size` and terminated.
 * 0; -ENOENT: there are no more, `text` is untouched. Any thread; does not block. */
PST_EXPORT int pst_plugin_rule(const struct pst_description *description, uint32_t index,
                               char *text, size_t size);

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

/* Load the plugins, open devices, allocate and register memory, open workers,
 * rings and endpoints. May block (seconds, for GPUs). */
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
 * start first. A receiver binds its address here. Call once, before the workers'
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

/* NULL when the session has no such stream or not that side of it; of a one-sided
 * stream there are an initiator and a target, of any other a sender and a receiver. */
PST_EXPORT struct pst_sender *pst_session_sender(struct pst_session *session, const char *name);
PST_EXPORT struct pst_receiver *pst_session_receiver(struct pst_session *session, const char *name);
PST_EXPORT struct pst_initiator *pst_session_initiator(struct pst_session *session,
                                                       const char *name);
PST_EXPORT struct pst_target *pst_session_target(struct pst_session *session, const char *name);

/* The plugins in use: their number, and each in turn. */
PST_EXPORT uint32_t pst_session_plugins(const struct pst_session *session);
PST_EXPORT int pst_session_plugin(const struct pst_session *session, uint32_t index,
                                  struct pst_plugin_info *info);

/* Number of workers; which of them an object is on; the CPU that the
 * configuration pins a worker's thread to, or -1. */
PST_EXPORT uint32_t pst_session_workers(const struct pst_session *session);
PST_EXPORT uint32_t pst_sender_worker(const struct pst_sender *sender);
PST_EXPORT uint32_t pst_receiver_worker(const struct pst_receiver *receiver);
PST_EXPORT uint32_t pst_initiator_worker(const struct pst_initiator *initiator);
PST_EXPORT uint32_t pst_target_worker(const struct pst_target *target);
PST_EXPORT int pst_session_worker_cpu(const struct pst_session *session, uint32_t worker);

/* Called by a worker's thread when a round over its streams moved nothing. Busy
 * configurations return at once. With `workers.sleep_after`, once the worker has
 * been idle for so long, sleeps until a message, room, an event, or `until_ns`
 * (CLOCK_MONOTONIC; NULL: no bound), and at times for no reason at all. Returns 1
 * when it slept, 0 when not; -EINVAL: no such worker.
 * A pst_session_wake() from any thread, or a signal handler, ends the sleep of
 * all workers. */
PST_EXPORT int pst_session_wait(struct pst_session *session, uint32_t worker,
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
 * With n of 0 it only notes that the application has nothing to send, so that the
 * time until it has counts as the source's.
 * Returns how many; 0: none now, for one of the reasons in stats.blocked_ns
 * (not yet connected, paced by `rate`, all on their way).
 * -EPIPE: after finish; -ECONNRESET, -ETIMEDOUT, …: the stream has failed; -EINVAL:
 * a fan-out's sender that shares another's slots, from which alone messages come. */
PST_EXPORT int pst_sender_acquire(struct pst_sender *sender, struct pst_slot *slots, uint32_t n);
/* Hand over the n oldest acquired slots, in their order. What the transport does
 * not take at once is kept and posted by later calls. 0; -EINVAL: not the oldest
 * acquired, or a length over the capacity; the stream's error. */
PST_EXPORT int pst_sender_submit(struct pst_sender *sender, const struct pst_slot *slots,
                                 uint32_t n);
/* Write the test pattern of this stream into slots, where they are, with the
 * seed that the receiver was told. Sets nothing else: lengths are set before.
 * Blocks until it is done where the memory is a device's. -EOPNOTSUPP: the memory
 * makes no pattern. */
PST_EXPORT int pst_sender_fill(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n);
/* Make progress without acquiring: post what is kept, reap what is done.
 * Returns how many messages moved, or the stream's error. */
PST_EXPORT int pst_sender_poll(struct pst_sender *sender);
/* Stop taking part, when the source has failed: the receiver is told and gets
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
/* Make `native` wait for batch->ready on the device. NULL: wait here; blocks. */
PST_EXPORT int pst_receiver_fence_wait(struct pst_receiver *receiver, struct pst_fence *ready,
                                       void *native);
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
/* Copy a view's payload to host memory, for sinks on memory the CPU cannot read.
 * Blocks for the copy where the memory is a device's. */
PST_EXPORT int pst_receiver_read(struct pst_receiver *receiver, const struct pst_view *view,
                                 void *to);
/* After poll has said -ENODATA: the application is through with the data (its
 * file is on disk), and the sender may be told the final counts. All views have
 * been released. Poll on until the state is ENDED or FAILED. -EBUSY: the stream
 * has not ended, or views are out. */
PST_EXPORT int pst_receiver_finish(struct pst_receiver *receiver);
/* `control: none`: the application has had enough. The next poll says -ENODATA; what
 * has arrived and was not handed over is given up, and counts neither as sent nor as
 * lost. Without it a stream ends by its `silence`. 0, also when it has ended; the
 * stream's error; -EINVAL: with a control channel the sender ends a stream. */
PST_EXPORT int pst_receiver_stop(struct pst_receiver *receiver);
PST_EXPORT enum pst_state pst_receiver_state(const struct pst_receiver *receiver);
/* What the sender told by pst_sender_param_set; NULL before it has connected, or
 * when it told no such thing. */
PST_EXPORT const char *pst_receiver_param(struct pst_receiver *receiver, const char *key);
/* Stop taking part: the sender is told and gets `code` (-errno) with the text. */
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

/* ---- One-sided access --------------------------------------------------------------- */

/* A one-sided stream has two regions of the same size, `region`: the target's, which
 * it offers, and the initiator's own. The initiator moves bytes between them; the
 * target's CPU has no part in it where the transport needs none. What a range holds
 * while a transfer of it is under way is undefined. */
struct pst_range {
  uint32_t struct_size;
  uint32_t memory_kind; /* enum pst_memory_kind */
  uint64_t address;     /* as the memory's device knows it */
  void *host;           /* where the CPU may touch it, or NULL */
  uint64_t length;      /* bytes: the stream's `region` */
};

/* One transfer; offsets are from the beginning of either region. An array element:
 * its size is frozen. What an operation does not use is 0. */
struct pst_transfer {
  uint8_t op;         /* PST_OP_WRITE | READ | FETCH_ADD | COMPARE_SWAP | FLUSH */
  uint8_t flags;      /* PST_REQUEST_FENCE */
  uint16_t reserved0; /* 0, as all reserved are */
  uint32_t reserved1;
  uint64_t cookie;        /* the application's; comes back when it is done */
  uint64_t local_offset;  /* atomics: where the 8 bytes found before are put, a multiple of 8 */
  uint64_t remote_offset; /* atomics: a multiple of 8 */
  uint64_t length;        /* bytes; READ: at least 1; atomics: 8; FLUSH: 0 */
  uint64_t compare;       /* COMPARE_SWAP: swap if the target's 8 bytes equal this */
  uint64_t operand;       /* FETCH_ADD: the addend; COMPARE_SWAP: the new value */
  uint64_t reserved2;
};
PST_STATIC_ASSERT(sizeof(struct pst_transfer) == 64, "frozen");

/* A transfer that has ended. An array element: its size is frozen. */
struct pst_transfer_done {
  uint64_t cookie;
  uint64_t length; /* as posted */
  int32_t status;  /* 0 or -errno */
  uint8_t op;
  uint8_t reserved0;
  uint16_t reserved1;
  uint64_t reserved2;
};
PST_STATIC_ASSERT(sizeof(struct pst_transfer_done) == 32, "frozen");

PST_EXPORT int pst_initiator_local(const struct pst_initiator *initiator, struct pst_range *range);
/* Bytes of the target's region; 0: not connected yet. */
PST_EXPORT uint64_t pst_initiator_remote_length(const struct pst_initiator *initiator);
/* Transfers that may be under way: taken, and not yet handed out by poll. */
PST_EXPORT uint32_t pst_initiator_depth(const struct pst_initiator *initiator);

/* Begin up to n transfers, in order; the array is the caller's again on return. They
 * may take effect and end in any order: see PST_REQUEST_FENCE. One longer than the
 * transport moves at once is cut, and is done when all of it is.
 * Returns how many were taken; 0: none now (not yet connected, or no room: poll).
 * -errno: the first one cannot be taken, none was: -ERANGE: out of one of the regions;
 * -EINVAL: unknown operation or flag, alignment, a field that is not 0; -EOPNOTSUPP: the
 * transport lacks the operation (stats.capabilities). -EPIPE: after finish;
 * -ECONNRESET, -ETIMEDOUT, …: the stream has failed. */
PST_EXPORT int pst_initiator_post(struct pst_initiator *initiator,
                                  const struct pst_transfer *transfers, uint32_t n);
/* Make progress and hand out up to max transfers that have ended. Each that was taken
 * comes exactly once, also when the target dies (-ECONNRESET, -ETIMEDOUT) or after an
 * abort (its code). WRITE done: the local range is reusable, nothing more; READ and
 * atomics: the data is here; FLUSH: all that was posted before it is placed at the
 * target.
 * Returns how many; 0: none now; the stream's error once it has failed and the last one
 * was handed out. */
PST_EXPORT int pst_initiator_poll(struct pst_initiator *initiator,
                                  struct pst_transfer_done *completed, uint32_t max);
/* No more will be posted. What is under way ends, a FLUSH of the library's own is the
 * last. Poll until the state is ENDED or FAILED. */
PST_EXPORT int pst_initiator_finish(struct pst_initiator *initiator);
/* Stop taking part: the target is told and gets `code` (-errno) with the text. What is
 * under way is cancelled; poll until it returns the error. */
PST_EXPORT int pst_initiator_abort(struct pst_initiator *initiator, int code, const char *text);
PST_EXPORT enum pst_state pst_initiator_state(const struct pst_initiator *initiator);

/* The test pattern number `pattern` over a range of the own region, where it is. What
 * the range holds depends on the pattern's number, the stream, and the position in the
 * range, not on where in the region it lies: filled here and written there, it is
 * verified there. verify: 0; -EBADMSG: some bytes are wrong. *result (may be NULL) is
 * what verify has found so far; it counts blocks of PST_RANGE_BLOCK bytes, `sequence` is
 * pattern * 2^24 + the block's number in its range.
 * Both block. -ERANGE; -EOPNOTSUPP: the memory makes no pattern. */
#define PST_RANGE_BLOCK 65536u
PST_EXPORT int pst_initiator_fill(struct pst_initiator *initiator, uint64_t offset, uint64_t length,
                                  uint64_t pattern);
PST_EXPORT int pst_initiator_verify(struct pst_initiator *initiator, uint64_t offset,
                                    uint64_t length, uint64_t pattern,
                                    struct pst_verify_result *result);

PST_EXPORT int pst_target_range(const struct pst_target *target, struct pst_range *range);
/* Make progress of the connection; data needs none. 0; -ENODATA: the initiator has
 * finished, and all of it is placed; the stream's error. */
PST_EXPORT int pst_target_poll(struct pst_target *target);
/* Make visible to the region's own device what an initiator has flushed (GPUs that ask
 * for it; nothing elsewhere). Never blocks. */
PST_EXPORT int pst_target_flush(struct pst_target *target);
/* After poll has said -ENODATA: the application is through with the region, and the
 * initiator may be told. Poll on until the state is ENDED or FAILED. -EBUSY: the
 * initiator has not finished. */
PST_EXPORT int pst_target_finish(struct pst_target *target);
/* Stop taking part: the initiator is told and gets `code` (-errno) with the text. The
 * region stays within its reach until pst_session_close has returned. */
PST_EXPORT int pst_target_abort(struct pst_target *target, int code, const char *text);
PST_EXPORT enum pst_state pst_target_state(const struct pst_target *target);
/* As of the initiator; legal before the peers have met. verify flushes first. */
PST_EXPORT int pst_target_fill(struct pst_target *target, uint64_t offset, uint64_t length,
                               uint64_t pattern);
PST_EXPORT int pst_target_verify(struct pst_target *target, uint64_t offset, uint64_t length,
                                 uint64_t pattern, struct pst_verify_result *result);

/* ---- On demand ---------------------------------------------------------------------- */

/*
 * Streams are set up by a file and sealed. On demand, peers come and go: a *node* has one
 * device of a transport, a listener perhaps, and *peers*. With each peer there are short
 * messages both ways, and regions that either side offers and the other reads and writes.
 *
 *     server                                   client
 *     pst_node_open({.listen = …}, &node)      pst_node_open({0}, &node)
 *                                              pst_node_connect(node, "host:port", &peer)
 *     event JOINED                             event JOINED
 *                                              pst_node_alloc(node, {.length = …}, &area)
 *                                              pst_peer_offer(peer, area, 0, length, access, &id)
 *     event OFFERED {id, length, access}       event TAKEN {id}
 *     event MESSAGE                      <-    pst_peer_send(peer, bytes, n)
 *     pst_peer_post(peer, operations, n)
 *     event DONE {cookie, status}
 *     pst_peer_send(peer, answer, n)     ->    event MESSAGE
 *     event LEFT                               pst_peer_close(peer, 0, NULL)
 *
 * The transport must have SEND, RELIABLE, DYNAMIC, and READ or WRITE; both ends need the
 * same one, with the same options of a stream. A peer may be in the same process, too.
 *
 * Threads. All calls on a node, its peers and areas come from one thread at a time, but
 * pst_node_wake(). Nothing but the joining of peers happens unless that thread calls
 * pst_node_poll(). Calls block only where they say so.
 *
 * Events. All that comes is told by pst_node_poll(), in the order of its coming. Every
 * operation that was taken ends by exactly one DONE, also when its peer dies; all of a
 * peer's events come before its LEFT.
 */
struct pst_node;
struct pst_peer;
struct pst_area;

/* A filter around the transport, on this end alone: outermost first. An array element. */
struct pst_filter_params {
  const char *name;
  const struct pst_setting *options;
  uint32_t option_count;
  uint32_t reserved;
};

struct pst_node_params {
  uint32_t struct_size;
  uint32_t insecure;     /* 1: allow `listen` and pst_node_connect() beyond loopback, without
                            credentials, and other users on loopback: whoever reaches the address
                            can take part */
  const char *listen;    /* "host:port", port 0: any that is free; NULL: it only connects */
  const char *transport; /* plugin name; NULL: loopback */
  const struct pst_setting *transport_options;
  uint32_t transport_option_count;
  uint32_t filter_count;
  const struct pst_filter_params *filters;
  /* What one node bears, 0 meaning the default in brackets. What goes beyond is refused,
   * and the peer told which limit it was. */
  uint32_t peers;              /* at a time, those that are joining or leaving included [64] */
  uint32_t messages;           /* on their way with one peer, each way [64] */
  uint32_t depth;              /* operations under way with one peer [256] */
  uint32_t pieces;             /* of one operation, at most 64 [16]; where the transport takes
                                  fewer in a request, an operation of more is several requests */
  uint32_t offers;             /* regions that one peer may have on offer to us [16] */
  uint32_t reserved;           /* 0 */
  uint64_t offer_bytes;        /* of them together [no bound] */
  uint64_t message_max;        /* bytes of a message, either way; a peer's may be less [4096] */
  uint64_t connect_timeout_ns; /* from pst_node_connect() or a peer's coming to JOINED; of an
                                  operation that the peer's side does not answer [10 s] */
  uint64_t peer_timeout_ns;    /* nothing heard for so long: the peer is dead [10 s] */
  /* Of the transport's options, and of those of the memory of its areas: valid as long as the
   * node. Of the rest the label says it. NULL: so it does of options. */
  const struct pst_origins *origins;
};

/* Load the transport, open a device, listen. May block (seconds, for GPUs).
 * In *error: -EOPNOTSUPP: the transport lacks a capability, which is named; -EADDRINUSE,
 * -EADDRNOTAVAIL, -EACCES, -EPERM (beyond loopback without `insecure`): `listen`;
 * -EINVAL: an option or a limit; -ENOSPC: the device has room for fewer `peers` or `messages`;
 * what the plugin says. */
PST_EXPORT int pst_node_open(const struct pst_node_params *params, struct pst_node **node,
                             struct pst_error *error);
/* All peers are told and left at once, without events; areas are freed. Blocks until
 * the device is closed, at most some seconds. Closing NULL is legal. */
PST_EXPORT void pst_node_close(struct pst_node *node);
/* Of the listener, the first address of it; 0: there is none. */
PST_EXPORT uint16_t pst_node_port(const struct pst_node *node);
/* Bytes that move as one request of the transport, at most; longer operations are cut. */
PST_EXPORT uint64_t pst_node_transfer_max(const struct pst_node *node);
/* enum pst_transport_capability of the device. */
PST_EXPORT uint64_t pst_node_capabilities(const struct pst_node *node);
/* The plugins in use, as pst_session_plugin(). */
PST_EXPORT uint32_t pst_node_plugins(const struct pst_node *node);
PST_EXPORT int pst_node_plugin(const struct pst_node *node, uint32_t index,
                               struct pst_plugin_info *info);

enum pst_node_event_kind {
  /* Messages, offers and operations may begin. text: who it is. */
  PST_NODE_JOINED = 1,
  /* The last of this peer, or of an attempt to connect. status 0: it has closed, or we
   * have, with code 0; else -errno and text: why. The peer is void from the next
   * pst_node_poll() on. -EUSERS: it has as many peers as it bears; -EPROTO: its transport
   * or options differ, or it broke the protocol; -EACCES: a region was withdrawn too early,
   * see pst_peer_withdraw(); -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET; the code that the other
   * side gave to pst_peer_close(). */
  PST_NODE_LEFT = 2,
  /* bytes, length: a message, valid until the next pst_node_poll(). */
  PST_NODE_MESSAGE = 3,
  /* After pst_peer_send() or pst_peer_post() had no room: there is some again. */
  PST_NODE_ROOM = 4,
  /* The peer offers its region `id` of `length` bytes for `access`: it can be used. */
  PST_NODE_OFFERED = 5,
  /* It has withdrawn region `id`. Operations on it have ended (some with -EACCES,
   * perhaps); no other may name it. */
  PST_NODE_WITHDRAWN = 6,
  /* Our offer `id` is known to the peer; status: 0, or -errno and text: it cannot or will
   * not use it, and the offer is withdrawn. -ENOSPC: over its limits. */
  PST_NODE_TAKEN = 7,
  /* The operation of `cookie` has ended; op, status, length as posted. WRITE: the local
   * range is reusable, nothing more; READ and atomics: the data is here; FLUSH: all that was
   * posted before it is placed at the peer. -ECANCELED: by pst_peer_cancel() or _close();
   * -EACCES: the region was withdrawn; -ECONNRESET, -ETIMEDOUT: the peer has died, or the
   * connection ended by such a refusal. */
  PST_NODE_DONE = 8,
};

/* An array element: its size is frozen. What a kind does not name is 0. */
struct pst_node_event {
  uint8_t kind; /* enum pst_node_event_kind */
  uint8_t op;   /* enum pst_opcode */
  uint16_t reserved0;
  int32_t status;
  struct pst_peer *peer;
  void *context; /* the peer's, as pst_peer_set_context() left it */
  uint64_t cookie;
  uint64_t length;
  uint32_t id;
  uint32_t access;   /* PST_ACCESS_REMOTE_* */
  const void *bytes; /* valid until the next pst_node_poll(), as is text */
  const char *text;  /* never NULL */
};
PST_STATIC_ASSERT(sizeof(struct pst_node_event) == 64, "frozen");

/* Make progress of everything and hand out up to max events. Returns how many; 0: none
 * now; -EIO: the device has failed, and all peers have left. */
PST_EXPORT int pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max);
/* Sleep until there is something for pst_node_poll(), until_ns (CLOCK_MONOTONIC; NULL: no
 * bound) or pst_node_wake(); may return early for no reason. Naps of 100 µs where the
 * transport has no WAKEUP. Returns 1 when it slept, 0 when there was something already. */
PST_EXPORT int pst_node_wait(struct pst_node *node, const uint64_t *until_ns);
/* For an application that sleeps by itself, in poll(2), epoll or io_uring: after arm
 * has returned 0, fd becomes readable when pst_node_poll() has something to do.
 * -EAGAIN: poll now; -EOPNOTSUPP: the transport has no WAKEUP. */
PST_EXPORT int pst_node_arm(struct pst_node *node);
PST_EXPORT int pst_node_fd(const struct pst_node *node);
/* End the sleep. Any thread, or a signal handler. */
PST_EXPORT void pst_node_wake(struct pst_node *node);

/* Begin to connect; JOINED or LEFT tells how it went. Blocks for the look-up of a name.
 * In *error: -EINVAL, -ENOENT, -EHOSTUNREACH (address); -EPERM (beyond loopback without
 * `insecure`); -EUSERS: `peers`; -ENOMEM, -EMFILE. */
PST_EXPORT int pst_node_connect(struct pst_node *node, const char *address, struct pst_peer **peer,
                                struct pst_error *error);
/* Stop with this peer. What was sent is still delivered; operations end (-ECANCELED where
 * they had not), then LEFT comes with this code, which the other side's LEFT has too. What it
 * had sent and nobody polled is dropped. 0 and NULL: in order. Legal in every state; a second
 * one does nothing. */
PST_EXPORT void pst_peer_close(struct pst_peer *peer, int code, const char *text);
PST_EXPORT void pst_peer_set_context(struct pst_peer *peer, void *context);
PST_EXPORT void *pst_peer_context(const struct pst_peer *peer);
/* Who it is, in words: "host, pid 4711, 127.0.0.1:41000". */
PST_EXPORT const char *pst_peer_text(const struct pst_peer *peer);
/* How bytes get to it. 0; -ENOTCONN: it has not joined, has left, or its transport's address has
 * changed and is being connected to. */
PST_EXPORT int pst_peer_path(const struct pst_peer *peer, struct pst_path_info *path);

/* Bytes of the longest message to this peer; 0: not joined yet. */
PST_EXPORT uint64_t pst_peer_message_max(const struct pst_peer *peer);
/* Send a message; the bytes are copied. Messages arrive once and in order, but have no
 * order with WRITEs: send when these are DONE. 0; -EAGAIN: no room, ROOM will come;
 * -EMSGSIZE; -ENOTCONN: not joined yet, or it has left. */
PST_EXPORT int pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length);

/* Memory of the application's, got from a memory plugin, for operations and offers. */
struct pst_area_params {
  uint32_t struct_size;
  uint32_t memory_option_count;
  const char *memory; /* plugin name; NULL: host */
  const struct pst_setting *memory_options;
  uint64_t length;   /* bytes, > 0; at least so many are there */
  const char *label; /* what it is for, in words, for error messages; NULL: "area" */
};
/* What the CPU cannot touch (a GPU's) is allocated before those peers join whose regions are
 * written from it, or read into it.
 * May block (milliseconds, for GPU memory). In *error: -ENOMEM; -EOPNOTSUPP: the transport
 * cannot reach this memory; what the plugin says. */
PST_EXPORT int pst_node_alloc(struct pst_node *node, const struct pst_area_params *params,
                              struct pst_area **area, struct pst_error *error);

/* Memory that the application has already: an area like the others, which pst_area_free() ends
 * without touching the bytes. It stays mapped where it is until then. */
struct pst_register_params {
  uint32_t struct_size;
  uint32_t memory_option_count;
  const char *memory; /* the plugin that knows this kind of memory; NULL: host */
  const struct pst_setting *memory_options;
  uint64_t address; /* as its device knows it; of host memory the pointer, to any byte */
  uint64_t length;  /* bytes, > 0 */
  /* A descriptor by which other processes can have it, and where in it `address` is: what
   * transports over shared memory ask for before it can be offered. Of host memory a memfd,
   * sealed with F_SEAL_SHRINK, and mapped there shared; peers that are offered a part of it
   * can reach all that the descriptor names. The fd stays the caller's. -1: there is none. */
  int32_t fd;
  uint32_t reserved; /* 0 */
  uint64_t fd_offset;
  const char *label; /* in error messages; NULL: "area" */
};
/* May block (milliseconds a GiB, where a device pins it). In *error: -EINVAL: no range, or a
 * descriptor that is not what it should be; -EFAULT: not all of it is mapped; -EOPNOTSUPP: the
 * memory plugin takes none but its own (no PST_MEMORY_CAP_ADOPT), or the transport cannot reach
 * it; -ENOMEM; what the plugins say. */
PST_EXPORT int pst_node_register(struct pst_node *node, const struct pst_register_params *params,
                                 struct pst_area **area, struct pst_error *error);
/* 0; -EBUSY: an operation names it, or an offer of it stands. NULL is legal. */
PST_EXPORT int pst_area_free(struct pst_area *area);
PST_EXPORT int pst_area_range(const struct pst_area *area, struct pst_range *range);
/* What it lies in, in words, as the memory plugin says: "memfd", "cuMemAlloc". */
PST_EXPORT const char *pst_area_backing(const struct pst_area *area);
/* The test pattern number `pattern`, as pst_initiator_fill() and pst_target_verify(): it
 * depends on the number and the position in the range, so that what is filled here can be
 * verified where it was written. Both block. */
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
/* The CRC-32C (Castagnoli; RFC 3720, appendix B.4) of a range, computed where the bytes are: by
 * a GPU, of a GPU's. Blocks. 0; -ERANGE; -EOPNOTSUPP: the memory plugin has no
 * PST_MEMORY_CAP_CHECKSUM. */
PST_EXPORT int pst_area_checksum(struct pst_area *area, uint64_t offset, uint64_t length,
                                 uint32_t *crc32c);
/* Copy between the area and the CPU's memory, also where the CPU cannot touch the area. Both
 * block. 0; -ERANGE; -EOPNOTSUPP. */
PST_EXPORT int pst_area_read(struct pst_area *area, uint64_t offset, uint64_t length, void *to);
PST_EXPORT int pst_area_write(struct pst_area *area, uint64_t offset, uint64_t length,
                              const void *from);

/* Offer [offset, offset + length) of an area to this peer, and nothing besides: for
 * `access`, PST_ACCESS_REMOTE_READ | _WRITE | _ATOMIC, as far as the transport has them. It
 * stands until it is withdrawn or the peer has left. `*id` names it on both sides, from 1 on.
 * May block (milliseconds, for GPU memory). 0; -ERANGE; -EINVAL; -EOPNOTSUPP: the transport
 * cannot offer this memory, or not so; -ENOTCONN; -ENOMEM. */
PST_EXPORT int pst_peer_offer(struct pst_peer *peer, struct pst_area *area, uint64_t offset,
                              uint64_t length, uint32_t access, uint32_t *id);
/* When it returns, the peer cannot reach the range any more; nobody asks it before. Waits for
 * what is being copied there over shared memory; where the peer died in the middle of that, at
 * most some seconds. Over a network it does not wait: what the peer has under way there is
 * refused, and where the transport's connection ends by that, as verbs_rc's does, both sides
 * have LEFT with -EACCES. So withdraw once the peer has said that it is through. It is, when its
 * READs are done, and a FLUSH behind its last WRITE or atomic there: until then any FLUSH may
 * read the range. 0; -ENOENT: no such offer. */
PST_EXPORT int pst_peer_withdraw(struct pst_peer *peer, uint32_t id);

/* A piece of an area. An array element: its size is frozen. */
struct pst_area_piece {
  struct pst_area *area;
  uint64_t offset;
  uint64_t length;
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_area_piece) == 32, "frozen");

/* One operation on a region that a peer offers. An array element: its size is frozen. What
 * an operation does not use is 0. */
struct pst_operation {
  uint8_t op;                          /* PST_OP_WRITE | READ | FETCH_ADD | COMPARE_SWAP | FLUSH */
  uint8_t flags;                       /* PST_REQUEST_FENCE */
  uint16_t piece_count;                /* 0: `area` and `offset`; else `pieces` (WRITE, READ) */
  uint32_t id;                         /* the peer's region; FLUSH: 0 */
  uint64_t cookie;                     /* the application's; comes back in the DONE */
  struct pst_area *area;               /* atomics: where the 8 bytes found before are put */
  const struct pst_area_piece *pieces; /* the caller's again on return */
  uint64_t offset;                     /* in the area */
  uint64_t remote_offset;              /* in the peer's region; atomics: a multiple of 8 */
  uint64_t length;  /* bytes; READ: at least 1; atomics: 8; FLUSH: 0; of pieces: their sum */
  uint64_t compare; /* COMPARE_SWAP: swap if the peer's 8 bytes equal this */
  uint64_t operand; /* FETCH_ADD: the addend; COMPARE_SWAP: the new value */
  uint64_t reserved;
};
PST_STATIC_ASSERT(sizeof(struct pst_operation) == 80, "frozen");

/* Begin up to n operations, in order; they may take effect and end in any order. What the
 * ranges hold while one is under way is undefined. One that is longer, or in more pieces, than the
 * transport takes in a request is cut into several, which begin in the order of their bytes and may
 * end in any; it ends by one DONE, of the status of the first that failed, and bytes of others may
 * be moved all the same.
 * Returns how many were taken; 0: no room, ROOM will come. -errno: the first one cannot be
 * taken, none was: -ENOENT: no such region; -ERANGE: out of the area or region; -EACCES: not
 * offered for this; -EINVAL; -E2BIG: more pieces than the node's params say; -EOPNOTSUPP: the
 * transport lacks the operation; -ENOTCONN: not joined yet, or it has left. */
PST_EXPORT int pst_peer_post(struct pst_peer *peer, const struct pst_operation *operations,
                             uint32_t n);
/* Cancel operations with this cookie: what is not begun of them will not be. Each still ends
 * by its DONE (-ECANCELED, or 0 if all of it was under way), and only from then on does
 * nobody touch the local range. Returns how many there were. */
PST_EXPORT int pst_peer_cancel(struct pst_peer *peer, uint64_t cookie);

/* ---- Statistics ------------------------------------------------------------------- */

/* Where a stream's time goes when it does not flow. */
enum pst_stage {
  PST_STAGE_SOURCE = 0, /* sender: free slots, but nothing submitted */
  PST_STAGE_RATE = 1,   /* sender: `rate` or `chunk` holds back what could be sent */
  PST_STAGE_CREDIT = 2, /* sender: the receiver has no free slot */
  PST_STAGE_TRANSPORT =
      3,                 /* sender: the transport's queue is full, or all slots are on their way */
  PST_STAGE_STAGING = 4, /* receiver: arrived, but copies to the final memory are under way;
                            sender: copies out of its memory are */
  PST_STAGE_SINK = 5,    /* receiver: the application holds what it was given */
  PST_STAGE_EMPTY = 6,   /* receiver: nothing has arrived */
  PST_STAGES = 7,
};

/* What limits a stream that no stage does. */
enum pst_limit {
  PST_LIMIT_CPU = -1,        /* its own work */
  PST_LIMIT_STARVATION = -2, /* its worker was ready to run, and others had the CPU */
};

enum pst_sent_basis {
  PST_SENT_COUNTED = 1,   /* the sender's own count, or its word at the end */
  PST_SENT_HEARTBEAT = 2, /* its last heartbeat: it died */
  PST_SENT_SEQUENCE = 3,  /* inferred from sequence numbers */
  PST_SENT_UNKNOWN = 4,
};

/* Causes are the transport's, and core's own: those of frames (below); `wire` and `unattributed`
 * for what no other accounts for; and of a stream that has broken off, `memory_failed` where the
 * receiver's memory did, else `aborted`, for what was sent by then and neither delivered nor
 * dropped.
 */
struct pst_drop {
  char cause[32];
  uint64_t messages;
};

/* Times of many samples. Percentiles are at most 3.2% too high. */
struct pst_times {
  uint64_t count; /* 0: not measured */
  uint64_t min_ns;
  uint64_t mean_ns;
  uint64_t p50_ns;
  uint64_t p90_ns;
  uint64_t p99_ns;
  uint64_t p99_9_ns;
  uint64_t max_ns;
};

/* One side of a stream. Readable from any thread; numbers may be a moment old. */
struct pst_stats {
  uint32_t struct_size;
  uint32_t state;      /* enum pst_state */
  int32_t error;       /* FAILED: -errno */
  uint32_t sent_basis; /* enum pst_sent_basis */
  uint64_t messages_sent;
  uint64_t bytes_sent;
  uint64_t messages_delivered; /* without duplicates */
  uint64_t bytes_delivered;
  uint64_t duplicates;
  uint64_t reordered;
  uint64_t started_ns; /* connected; from a foreign sender, the first message; 0: not yet.
                        * CLOCK_MONOTONIC */
  uint64_t ended_ns;   /* ended or failed; 0: not yet */
  uint64_t blocked_ns[PST_STAGES];      /* of this side */
  uint64_t peer_blocked_ns[PST_STAGES]; /* of the other, known at the end */
  uint64_t peer_seconds_ns;             /* the other's running time; 0: not known */
  uint64_t verified;                    /* messages checked */
  uint64_t corrupted;
  uint64_t peer_delivered; /* sender: the receiver's count, known at the end */
  uint32_t peer_known;     /* 1: peer_* hold */
  uint32_t drop_count;
  struct pst_drop drops[16];
  struct pst_path_info path;
  uint64_t capabilities; /* of the transport here: enum pst_transport_capability */
  uint32_t memory_kind;  /* of this side: enum pst_memory_kind */
  uint32_t peer_final;   /* 1: what the other side told was its last word, at the stream's end or
                            as it failed */
  char memory_backing[48];
  char peer[128];       /* "host, pid 4711, 127.0.0.1:41000" */
  char error_text[512]; /* FAILED: the first error, with its remedy */
  /* One-sided streams, which have no messages: all of those above are 0. The target's
   * are what the initiator last told. */
  uint64_t transfers_posted; /* taken by post */
  uint64_t transfers_done;   /* ended without error */
  uint64_t transfers_failed; /* ended with one; target: not told, 0 */
  uint64_t transfer_bytes;   /* of those done: written, read, 8 an atomic */
  /* Receivers that assemble frames; frame_packets is 0 for others. A message is
   * delivered when its frame is handed over. Those that are not have the causes
   * `late` (its frame was closed), `incomplete_frame` (its frame was dropped) and
   * `misframed` (its marker or timestamp fits no frame of so many packets). */
  uint64_t frame_packets;
  uint64_t frames_complete;   /* handed over with all packets */
  uint64_t frames_incomplete; /* handed over without some */
  uint64_t frames_dropped;    /* incomplete, by `missing: drop` */
  uint64_t frames_lost;       /* by sequence: nothing came in time */
  /* Receiver, where `intervals` is set: between arrivals, in the order of their coming, as
   * the transport stamped them; as of the last heartbeat, or the end. */
  struct pst_times intervals;
  uint64_t stopped; /* enum pst_stop, with PST_STOP_SHORT: by pst_sender_stop(), here or there */
  /* The thread that drives this side's worker, from connected until the end, or until the last
   * heartbeat. Time asleep is in none of them but the span. */
  uint64_t cpu_span_ns;          /* wall clock; 0: not known yet */
  uint64_t cpu_ns;               /* it ran */
  uint64_t cpu_wait_ns;          /* it was ready to run, and others had the CPU; UINT64_MAX: the
                                    kernel does not say (CONFIG_SCHED_INFO) */
  uint64_t involuntary_switches; /* its CPU was taken away */
  uint32_t peer_failed;          /* FAILED: 1: as the other side reports, or as it has gone */
  uint32_t reserved;
};

PST_EXPORT int pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats);
PST_EXPORT int pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats);
PST_EXPORT int pst_initiator_stats(const struct pst_initiator *initiator, struct pst_stats *stats);
PST_EXPORT int pst_target_stats(const struct pst_target *target, struct pst_stats *stats);

/* What the transport counted of the stream's endpoint, filters included: read by
 * the worker with each heartbeat and at the end. An array element: its size is
 * frozen. Any thread. Returns how many there are; writes up to max. */
struct pst_counter_value {
  char name[48];
  char cause[32]; /* of a drop; "" */
  uint64_t value;
  uint64_t flags; /* enum pst_counter_flag */
};
PST_STATIC_ASSERT(sizeof(struct pst_counter_value) == 96, "frozen");
PST_EXPORT int pst_sender_counters(const struct pst_sender *sender,
                                   struct pst_counter_value *values, uint32_t max);
PST_EXPORT int pst_receiver_counters(const struct pst_receiver *receiver,
                                     struct pst_counter_value *values, uint32_t max);
PST_EXPORT int pst_initiator_counters(const struct pst_initiator *initiator,
                                      struct pst_counter_value *values, uint32_t max);
PST_EXPORT int pst_target_counters(const struct pst_target *target,
                                   struct pst_counter_value *values, uint32_t max);

/* What limits a stream, from the blocked times of one or both ends and the CPU that their workers
 * had (either may be NULL), and its share of the time, 0 to 1. Returns enum pst_stage, or enum
 * pst_limit. */
PST_EXPORT int pst_verdict(const struct pst_stats *sender, const struct pst_stats *receiver,
                           double *share);
PST_EXPORT const char *pst_stage_name(int stage);

#ifdef __cplusplus
}
#endif
#endif
