/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that follow each other at equal distances, as nearly all of a stream do, go to their
 * memory's plugin as one row. What is to be done with a message is then no more than a comparison:
 * that it is where the row goes on.
 */
#ifndef PST_STREAM_ROWS_H
#define PST_STREAM_ROWS_H

#include <stdint.h>

#include <penstock/memory.h>
#include <penstock/penstock.h>

/* A batch of copies being made. */
struct copy_rows {
  struct pst_copy_row *row; /* room for as many as the batch may have pieces */
  uint32_t count;
  struct pst_copy *list; /* a plugin that takes no rows gets pieces, made here */
};

/* A batch of messages to check. */
struct payload_rows {
  struct pst_payload_row *row;
  uint32_t count;
  struct pst_payload *list;
};

/* For batches of up to so many pieces. 0; -ENOMEM: close it all the same. */
int copy_rows_open(struct copy_rows *rows, const struct pst_memory_ops *memory, uint32_t pieces);
void copy_rows_close(struct copy_rows *rows);
/* One more piece; an empty one is none. */
void copy_rows_add(struct copy_rows *rows, uint64_t source, uint64_t destination, uint64_t length);
/* n views, from where they lie to `to` and on, one each `stride`. */
void copy_rows_add_views(struct copy_rows *rows, const struct pst_view *views, uint32_t n,
                         uint64_t to, uint64_t stride);
/* As copy_batch. The rows stay as they are. */
int copy_rows_submit(const struct copy_rows *rows, const struct pst_memory_ops *memory,
                     struct pst_queue *queue, uint64_t *ticket);

/* The same, of a memory that has the pattern. */
int payload_rows_open(struct payload_rows *rows, const struct pst_memory_ops *memory,
                      uint32_t pieces);
void payload_rows_close(struct payload_rows *rows);
/* These n > 0 views, and nothing else. */
void payload_rows_set(struct payload_rows *rows, const struct pst_view *views, uint32_t n);
int payload_rows_verify(const struct payload_rows *rows, const struct pst_memory_ops *memory,
                        struct pst_queue *queue, uint64_t seed, uint64_t *ticket);

#endif
