/* SPDX-License-Identifier: Apache-2.0 */
/* Where a sender's messages come from. */
#ifndef APP_SOURCE_H
#define APP_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

#define SOURCE_BATCH 256 /* messages of one ready() and fill(), at most */

struct source;

struct source_params {
  const char *stream; /* its name, for messages */
  const char *file;
  uint64_t message; /* bytes, at most */
  uint64_t length;  /* pattern: bytes of each; 0: `message` */
  bool loop;
  bool timed;
};

/* How far a source is. */
struct source_extent {
  bool endless; /* it ends only on request */
  bool known;   /* the next two hold */
  uint64_t done_bytes, total_bytes;
};

struct source_ops {
  const char *name;
  const char *reads; /* "file": what `params->file` has to name; NULL: nothing */
  size_t size;       /* of its state, which is zero before open() */
  /* Before the session is opened: everything that can be wrong with the file
   * ends here, with exit status 2 or 3. A failed one is closed, too. */
  int (*open)(void *state, const struct source_params *params, struct pst_error *error);
  /* Tell the receiver about the stream; before it has connected. May be NULL. */
  int (*announce)(void *state, struct pst_sender *sender, struct pst_error *error);
  /* How many messages, up to n <= SOURCE_BATCH, fill() can make right now: acquired
   * slots cannot be given back, so the end must be known before acquiring. 0: not
   * yet, ask again at *until_ns (CLOCK_MONOTONIC) at the latest; -ENODATA: that
   * was the last; another -errno: reported. */
  int (*ready)(void *state, uint32_t n, uint64_t *until_ns, struct pst_error *error);
  /* Fill all n slots (no more than ready() said) and set length and meta. */
  int (*fill)(void *state, struct pst_sender *sender, struct pst_slot *slots, uint32_t n,
              struct pst_error *error);
  /* NULL: endless. */
  void (*extent)(const void *state, struct source_extent *extent);
  void (*close)(void *state); /* NULL: there is nothing to close */
};

struct source {
  const struct source_ops *ops;
  void *state;
};

extern const struct source_ops app_source_file;
extern const struct source_ops app_source_pcap;

/* The one that the configuration names by `type`. */
int app_source_open(struct source *source, const char *type, const struct source_params *params,
                    struct pst_error *error);
void app_source_close(struct source *source);

#endif
