/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of `run`, `send` and `receive`: open a session, drive its threads, watch,
 * account, report. */
#ifndef APP_RUNNER_H
#define APP_RUNNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "arguments.h"
#include "sink.h"
#include "source.h"
#include "statistics.h"

#define FRAME_BATCH 8 /* frames of one poll */

enum side_phase {
  SIDE_FLOWING = 0, /* messages are made or taken */
  SIDE_ENDING,      /* sender: finished, the rest drains; receiver: the sink finishes */
  SIDE_OVER,        /* the peer and we agree, or it has failed: see error and the statistics */
};

/* The sender of a stream. Its thread has it to itself; others read only
 * what is atomic, and the statistics. */
struct app_stream_sender {
  struct pst_sender *handle; /* NULL: not in this process */
  const char *memory, *source_type;
  bool shares; /* sends what stream.leader's sender submits */
  struct source source;
  bool bounded;         /* it has an end: its source's, a count or a duration */
  uint64_t left;        /* messages still to acquire; UINT64_MAX: no bound */
  uint64_t deadline_ns; /* of --duration; 0: not connected yet, or none */
  enum side_phase phase;
  atomic_bool over;
  struct pst_slot *slots;
  struct pst_error error; /* ours, not the stream's */
};

struct app_stream_receiver {
  struct pst_receiver *handle;
  const char *memory, *sink_type;
  struct sink sink;
  uint64_t left; /* `control: none`: messages still to take; UINT64_MAX: no bound */
  uint64_t deadline_ns;
  enum side_phase phase;
  atomic_bool over;
  bool cut;         /* left before the stream had ended, on request */
  uint32_t stopped; /* as pst_sender_stop(): by what this side ended it; PST_STOP_UNKNOWN: it did
                       not */
  struct pst_view *views;
  struct pst_frame frames[FRAME_BATCH];
  /* Views, or frames, that are with the sink; where it has no room yet for all of them, the
   * first that it is to be offered again. */
  uint32_t kept, frame_at, packet_at;
  struct pst_fence *fence; /* behind what it has taken of these frames */
  struct pst_error error;
};

/* A stream. */
struct app_stream {
  struct runner *runner;
  const char *name;
  uint64_t message, ring;
  struct app_stream_sender sender;
  struct app_stream_receiver receiver;
  struct app_stream *leader; /* fan-out: whose messages are sent here too; NULL */
  bool foreign;              /* `control: none` */
  atomic_bool source_broken;
  bool announced; /* its banner was printed */
  int exit_status;
};

struct runner {
  const struct command *command;
  const struct arguments *arguments;
  struct pst_config *config;
  struct pst_session *session;
  struct app_stream *streams;
  uint32_t stream_count;
  struct thread *threads;
  uint32_t thread_count;
  int event_fd;                 /* signals and threads that have ended write to it */
  atomic_bool stop;             /* sources end, what is under way drains */
  _Atomic uint64_t drain_by_ns; /* after ^C: what is not through by then is given up */
  struct watch *watch;          /* watch.h */
  struct sandbox *sandbox;      /* sandbox/sandbox.h */
  bool said_waiting;            /* that streams had not connected: once for all */
  struct pst_error error;       /* what ended the run before it began */
};

/* The whole of a subcommand that runs `command->roles`; returns the exit status. */
int app_runner_main(const struct command *command, const struct arguments *arguments);

/* ---- preflight.c: what the file has wrong, before anything is opened ---------------- */

/* Finds what `command` would refuse. NULL: finds what no two ends can make good, whichever
 * commands open them: two sinks that are one file, and values of one end that no command takes.
 * Reports every finding with its place. 0, or the code in *error. Leaves no file behind, and opens
 * none that is not regular. */
int app_preflight(const struct pst_config *config, const struct command *command,
                  const struct arguments *arguments, struct pst_error *error);

/* ---- stream_open.c: the streams of this run, with their sources and sinks ---------------- */

/* Which streams, and open their sources and sinks: before the session, so that
 * nothing has started when a file is wrong. */
int app_streams_open(struct runner *runner);
/* Give each its sender and receiver, and announce the sources. */
int app_streams_bind(struct runner *runner);
void app_streams_close(struct runner *runner);

/* ---- thread.c: the threads that drive the senders and receivers -------------------- */

/* Before the session begins: may each thread run on the CPU that it is given? */
int app_threads_check(struct runner *runner);
/* Start all; on failure those started are joined. */
int app_threads_start(struct runner *runner, struct pst_error *error);
/* Waits until each end of each stream is over. */
void app_threads_join(struct runner *runner);
/* Whether each end of each stream is over. */
bool app_threads_over(const struct runner *runner);

/* ---- pump.c: one round of a side --------------------------------------------------- */

/* Moves messages of a sender once; returns how many. *until_ns is lowered to when the next call is
 * due at the latest. */
uint32_t app_sender_step(struct app_stream *stream, uint64_t *until_ns);
/* Moves messages of a receiver once; returns how many. *until_ns is lowered to when the next call
 * is due at the latest. */
uint32_t app_receiver_step(struct app_stream *stream, uint64_t *until_ns);

/* ---- banner.c, report.c, devices.c: what is said of it ------------------------------ */

struct json_object;

/* Once, when both ends are connected:
 * "packets: 1462 B messages, 8192 slots, direct by reference over memory, …" */
void app_banner_stream(const struct app_stream *stream);
/* Judge a stream that is over, say how it went, and add it to the result (may be
 * NULL). Sets stream->exit_status. */
void app_report_stream(struct app_stream *stream, struct json_object *result);
/* The runner's streams, for a result that a second signal ends. Any thread, from app_streams_open()
 * to app_streams_close(). */
void app_report_interrupted(void *runner, struct json_object *result);

#endif
