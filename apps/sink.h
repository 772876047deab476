/* SPDX-License-Identifier: Apache-2.0 */
/* Where a receiver's messages go. */
#ifndef APP_SINK_H
#define APP_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

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
  bool reads; /* the CPU reads the messages: they must be ready before take() */
  bool meta;  /* needs the 64 bits that the sender's source set beside each message */
  int (*open)(const struct sink_params *params, void **state, struct pst_error *error);
  /* Use n messages. *fence: when it has passed they may be released; NULL: now. -EAGAIN, not
   * reported: there is no room for them yet; the same are offered again. On failure, reported,
   * those that are in use are so until *fence has passed. */
  int (*take)(void *state, struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
              struct pst_fence **fence, struct pst_error *error);
  /* The stream was cut short: what finish() makes stand is a part, and is called so. -ENODATA:
   * nothing came. May be NULL. */
  int (*cut)(void *state);
  /* The stream has ended and all of it was taken: make the result stand.
   * -EAGAIN: work is under way, poll the receiver and call again. */
  int (*finish)(void *state, struct pst_receiver *receiver, struct pst_error *error);
  /* Anything not finished is thrown away. */
  void (*close)(void *state);
};

struct sink {
  const struct sink_ops *ops;
  void *state;
};

extern const struct sink_ops sink_verify;
extern const struct sink_ops sink_file;
extern const struct sink_ops sink_pcap;

int sink_open(struct sink *sink, const char *type, const struct sink_params *params,
              struct pst_error *error);
void sink_close(struct sink *sink);

struct output;
/* The end of a sink's finish(): output_commit(), and a word of the part where the stream was cut.
 */
int sink_commit(struct output *output, const char *stream, const char *what,
                struct pst_error *error);

#endif
