/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of what a peer's questions allow the server to touch, and of their results, from the
 * messages alone: sizes of files, what of them has come, which bytes of which region. Knows
 * nothing of how the server goes about it.
 */
#ifndef FUZZ_SERVER_MODEL_H
#define FUZZ_SERVER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "serve/io.h"
#include "serve/wire.h"

struct model;

/* Before the first peer: what the server was started with. */
void model_begin(bool files, bool read_only, uint64_t request_max);
struct model *model_new(void);
void model_free(struct model *model);
/* The peer says this, whatever it is. */
void model_said(struct model *model, const void *bytes, uint64_t length);
void model_answered(struct model *model, const struct serve_message *answer);
/* A WRITE into the peer's region, or a READ of it, is posted. */
void model_posted(struct model *model, uint8_t op, uint64_t region, uint64_t place,
                  uint64_t length);
/* A file is about to be read, or written, for this peer. `behind`: answers wait for room, so that
 * the peer cannot know yet which files are open. */
void model_io(const struct model *model, const struct io_request *request, bool behind);
/* And has been, or not: then it is written to no more. */
void model_io_ended(struct model *model, uint32_t file, const struct io_request *request,
                    bool behind);

#endif
