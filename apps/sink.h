/* SPDX-License-Identifier: Apache-2.0 */
/* Where a receiver's messages go. */
#ifndef APP_SINK_H
#define APP_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "atomic_file.h"

#define SINK_BATCH 256 /* messages of one take(), at most */

struct sink_params {
  const char *stream;
  const char *file;
  uint64_t message;
  bool overwrite;
  bool joins; /* a foreign sender's stream: it may have begun long before its first message here */
};

struct sink_ops {
  const char *name;
  const char *writes; /* "file": what `params->file` has to name; NULL: nothing */
  size_t size;        /* of its state, which is zero before open() */
  bool reads;         /* the CPU reads the messages: they must be ready before take() */
  bool meta;          /* needs the 64 bits that the sender's source set beside each message */
  /* A failed one is closed, too. NULL: there is nothing to open. */
  int (*open)(void *state, const struct sink_params *params, struct pst_error *error);
  /* Use n messages. *fence: when it has passed they may be released; NULL: now. -EAGAIN, not
   * reported: there is no room for them yet; the same are offered again. On failure, reported,
   * those that are in use are so until *fence has passed. */
  int (*take)(void *state, struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
              struct pst_fence **fence, struct pst_error *error);
  /* The stream was cut short: what finish() makes stand is a part, and is called so. -ENODATA:
   * nothing came. May be NULL. */
  int (*cut)(void *state);
  /* The stream has ended and all of it was taken: make the result stand.
   * -EAGAIN: work is under way, poll the receiver and call again. NULL: it has none. */
  int (*finish)(void *state, struct pst_receiver *receiver, struct pst_error *error);
  /* Anything not finished is thrown away. NULL: there is nothing. */
  void (*close)(void *state);
};

struct sink {
  const struct sink_ops *ops;
  void *state;
};

extern const struct sink_ops app_sink_verify;
extern const struct sink_ops app_sink_file;
extern const struct sink_ops app_sink_pcap;

int app_sink_open(struct sink *sink, const char *type, const struct sink_params *params,
                  struct pst_error *error);
void app_sink_close(struct sink *sink);

/* ---- Sinks that write a file ------------------------------------------------------- */

/* Such a sink's state begins with one. */
struct recording {
  const char *stream;
  char what[128];  /* for messages: "stream 'packets': sink" */
  char where[128]; /* for warnings: "streams.packets.receiver.sink" */
  struct atomic_file output;
  uint64_t message;
  uint64_t messages; /* taken */
  char *bounce;      /* for messages that the CPU cannot read; NULL: there was none */
  uint64_t bounce_size;
};

int app_recording_open(struct recording *recording, const struct sink_params *params,
                       struct pst_error *error);
/* Reports that the file could not be written; done: what was, "12 bytes". Returns -code. */
int app_recording_failed(const struct recording *recording, int code, const char *done,
                         struct pst_error *error);
/* The bytes of a view for the CPU: where they are, or copied to the bounce buffer behind those
 * *used by the views before. -EAGAIN, not reported: it has no room for them. */
int app_recording_reach(struct recording *recording, struct pst_receiver *receiver,
                        const struct pst_view *view, uint64_t *used, const void **bytes,
                        struct pst_error *error);
/* As struct sink_ops has them. */
int app_recording_cut(void *state);
void app_recording_close(void *state);
/* The end of finish(): app_atomic_file_commit(), and a word of the part where the stream was cut.
 */
int app_recording_commit(struct recording *recording, struct pst_error *error);

#endif
