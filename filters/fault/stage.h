/* SPDX-License-Identifier: Apache-2.0 */
/* Stages between a sender, its host and the endpoint inside. */
#ifndef FAULT_STAGE_H
#define FAULT_STAGE_H

struct fault_engine;

/* README.md draws it. */
enum fault_stage {
  FAULT_NEW,       /* it has not met its peer */
  FAULT_CONNECTED, /* it has */
  FAULT_OVER,      /* the peer is gone */
  FAULT_CLOSING,   /* the host has closed it, and so we have the endpoint inside */
  FAULT_CLOSED,    /* which has closed */
  FAULT_KILLED,    /* killed by us, the endpoint inside too; the host does not know yet */
  FAULT_KILL_TOLD, /* it has heard */
  FAULT_KILL_OVER, /* and the endpoint inside has closed */
};

/* To a stage that may follow the one it is in. */
void fault_enter(struct fault_engine *engine, enum fault_stage stage);

#endif
