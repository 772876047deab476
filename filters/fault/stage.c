/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a sender, and which may follow which. */
#include <assert.h>

#include "engine.h"

#define BIT(stage) (1u << FAULT_##stage)

static const uint32_t successors[] = {
    [FAULT_NEW] = BIT(CONNECTED) | BIT(OVER) | BIT(CLOSING),
    /* Itself: the transport inside connects again. */
    [FAULT_CONNECTED] = BIT(CONNECTED) | BIT(OVER) | BIT(CLOSING) | BIT(KILLED),
    [FAULT_OVER] = BIT(CLOSING),
    [FAULT_CLOSING] = BIT(CLOSED),
    [FAULT_CLOSED] = 0,
    /* poll() tells the host before it asks inside. */
    [FAULT_KILLED] = BIT(KILL_TOLD),
    [FAULT_KILL_TOLD] = BIT(KILL_OVER),
    [FAULT_KILL_OVER] = 0,
};

void fault_enter(struct fault_engine *engine, enum fault_stage stage)
{
  assert(successors[engine->stage] & 1u << stage);
  /* A message that is held could not be posted any more. */
  assert(stage < FAULT_CLOSING || engine->held == 0);
  (void)successors;
  engine->stage = stage;
}
