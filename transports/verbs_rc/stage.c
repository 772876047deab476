/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a connection, and which follows which. */
#include <assert.h>

#include "endpoint.h"

#define OF(stage) (1u << (stage))
#define ENDS (OF(RC_LEFT) | OF(RC_FAILED))

/* An assertion alone reads it. */
static const uint32_t successors[] __attribute__((unused)) = {
    [RC_NEW] = OF(RC_SETTING_UP) | OF(RC_FAILED),
    /* Itself: rdma_cm first, then the deferred work. */
    [RC_SETTING_UP] = OF(RC_SETTING_UP) | OF(RC_GREETING) | ENDS,
    /* Back: its hello found nobody. */
    [RC_GREETING] = OF(RC_SETTING_UP) | OF(RC_CONNECTED) | ENDS,
    [RC_CONNECTED] = OF(RC_FLUSHING) | ENDS,
    [RC_FLUSHING] = OF(RC_FLUSHING) | OF(RC_SETTING_UP_AGAIN) | ENDS,
    [RC_SETTING_UP_AGAIN] =
        OF(RC_SETTING_UP_AGAIN) | OF(RC_GREETING_AGAIN) | OF(RC_FLUSHING) | ENDS,
    [RC_GREETING_AGAIN] = OF(RC_CONNECTED) | OF(RC_FLUSHING) | ENDS,
    [RC_LEFT] = 0,
    [RC_FAILED] = 0,
};

/* Stages of one number have the same data. */
static const uint8_t data_of[] = {
    [RC_NEW] = 0,      [RC_SETTING_UP] = 0,       [RC_GREETING] = 0,       [RC_CONNECTED] = 1,
    [RC_FLUSHING] = 2, [RC_SETTING_UP_AGAIN] = 2, [RC_GREETING_AGAIN] = 2, [RC_LEFT] = 3,
    [RC_FAILED] = 3,
};

void rc_enter(struct pst_endpoint *endpoint, enum rc_stage_name stage)
{
  struct rc_stage *now = &endpoint->rc->stage;

  assert(successors[now->name] & OF(stage));
  /* A host that closes wants no connection, and no event of its end. */
  assert(!endpoint->closing.mode || rc_is_over(endpoint) || stage < RC_FLUSHING ||
         stage >= RC_LEFT);
  if (data_of[now->name] == data_of[stage])
    now->name = stage;
  else
    *now = (struct rc_stage){.name = stage};
  endpoint->is_connected = stage == RC_CONNECTED;
}
