/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of verbs_rc between two ends of one process, on a simulated device that is made to fail:
 * what programs do with it share. */
#ifndef CONTRACT_VERBS_RC_STREAM_H
#define CONTRACT_VERBS_RC_STREAM_H

#include "simulated.h"

#define DEVICE "host/mlx5_0"

/* Entries of stream_variants: how a stream is connected, and whether it reconnects. */
enum {
  WRITE,
  SEND,
  WRAPS,
  WRAPS_LOW,
  BRIEFLY,
  ONCE,
  ONCE_SEND,
  FOUR,
  TWO_AGAIN,
  FOUR_AGAIN,
  FOUR_BRIEFLY,
  SHARED,
  SHARED_SEND,
  SHARED_ONCE,
  CM,
  CM_SEND,
  CM_SHARED_SEND,
  CM_TWO,
  CM_FOUR,
  CM_BRIEFLY,
  CM_LONG,
  CM_LONG_FOUR,
  CM_SLOWLY,
  CM_SLOWLY_FOUR,
  CM_IPV6,
  FOR_EVER,
  STREAM_VARIANTS
};
extern struct contract_variant stream_variants[STREAM_VARIANTS];
extern const struct contract_params stream_params;
/* Slots of a stream's ring: those of stream_params, of which each of several queue pairs takes one
 * at a turn, unless a case has others. */
extern uint32_t stream_slots;
#define STREAM_TURNS 96u /* four at a turn over four queue pairs, eight over two */

/* main()'s, "PLUGIN LAUNCHER", and patterns of the cases to run or, after --skip, not to run.
 * False, with a line on stderr: others. */
bool stream_arguments(int argc, char **argv);

struct stream {
  struct contract_pair *pair;
  uint64_t posted, done, failed, delivered;
  bool is_gone[2]; /* sender, receiver */
  int status[2];
};

/* `which`: a variant; `timeout_ns` 0: longer than any wait here. Connected. */
void stream_open(struct stream *stream, int which, uint64_t timeout_ns);
void stream_close(struct stream *stream);
/* As many as there is room for, at most `n`, by one call. */
void stream_post(struct stream *stream, uint32_t n);
/* Both ends: what arrives is what was sent, in its order. */
void stream_poll(struct stream *stream);
/* Until so many are delivered. */
void stream_run(struct stream *stream, uint64_t count);
/* Until all that was posted is done, or has failed. */
void stream_settle(struct stream *stream);
/* Until both ends say that it is over. */
void stream_run_to_the_end(struct stream *stream);
/* One that is opened, has run for a while and meets `fault`, of `ctl`: the sender ends with
 * `status`. */
void stream_ends(int which, const char *fault, uint64_t timeout_ns, int status);

#define STREAM_MEMORY 4096u /* bytes */
/* Memory of an end beside the stream's, registered with `access`. */
struct pst_mr *stream_memory(struct contract_side *side, uint32_t access,
                             struct contract_region *region);
/* The sender's, or the receiver's, or their worker's. */
uint64_t stream_counter(const struct contract_side *side, const char *name);
/* Numbers of an endpoint's queue pairs, as its description says them. Returns how many. */
uint32_t stream_queue_pairs(const struct contract_side *side, unsigned int *numbers, uint32_t most);
/* Closes its endpoint, and awaits that. */
void stream_leave(struct contract_side *side, uint32_t mode, uint64_t in_ns);

#endif
