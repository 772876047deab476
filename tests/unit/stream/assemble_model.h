/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of assembly, the long way: every message of a short stream has a row in
 * a table, and each question is answered by walking over it.
 */
#ifndef STREAM_ASSEMBLE_MODEL_H
#define STREAM_ASSEMBLE_MODEL_H

#include <penstock/penstock.h>

#include "stream/assemble.h"

#define MODEL_SPAN 1280               /* sequences, from 0 */
#define MODEL_FRAMES (MODEL_SPAN + 1) /* each has a message of its own */

struct model_frame {
  bool is_open, is_closed, is_dropped;
  uint64_t opened_ns;
  uint64_t lowest_cell; /* sequence that the buffer's first cell is for */
  /* once closed */
  uint64_t start, packets, number;
  bool complete;
};

struct model {
  struct assemble_params params;
  struct pst_view message[MODEL_SPAN];
  int frame_of[MODEL_SPAN];   /* 0: not here */
  int surplus_of[MODEL_SPAN]; /* 0: not in the row of misframed ones right behind a frame */
  struct model_frame frames[MODEL_FRAMES];
  int frame_count; /* numbered from 1 */
  int out[MODEL_FRAMES];
  int out_count, out_taken;
  uint32_t buffers_used;
  uint32_t unsettled;
  bool started;
  uint64_t floor;
  bool floor_is_boundary;
  bool cut;
  uint64_t cut_meta;
  uint64_t closed;
  struct assemble_counts counts;
};

void model_init(struct model *model, const struct assemble_params *params);
enum assemble_verdict model_take(struct model *model, const struct pst_view *message,
                                 uint64_t now_ns);
void model_expire(struct model *model, uint64_t now_ns);
void model_end(struct model *model);
uint64_t model_due_ns(const struct model *model);
/* The number in `frames` of the oldest closed frame not taken yet; 0: none. */
int model_pop(struct model *model);
void model_release(struct model *model);
void model_settle(struct model *model);

#endif
