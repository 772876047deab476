/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that UCX ends in any order, and that are done in post order. */
#ifndef UCX_UNITS_H
#define UCX_UNITS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <penstock/transport-util.h>

/* Requests of one opcode that end together, in post order. */
struct ucx_unit {
  uint64_t cookie; /* of the last one */
  uint32_t count;
  uint32_t left; /* parts under way; 0: done */
  int32_t status;
};

struct ucx_units {
  struct ucx_unit *at; /* a ring of mask + 1 */
  uint64_t mask;
  uint64_t head, tail;
};

static inline int ucx_units_open(struct ucx_units *units, uint32_t requests)
{
  uint64_t size = 1;

  while (size < requests)
    size <<= 1;
  units->at = calloc(size, sizeof(*units->at));
  units->mask = size - 1;
  return units->at ? 0 : -ENOMEM;
}

/* One part is under way until ucx_unit_end(). Returns its number. */
static inline uint64_t ucx_unit_begin(struct ucx_units *units, uint64_t cookie, uint32_t count)
{
  struct ucx_unit *unit = &units->at[units->head & units->mask];

  unit->cookie = cookie;
  unit->count = count;
  unit->left = 1;
  unit->status = 0;
  return units->head++;
}

static inline struct ucx_unit *ucx_unit_at(struct ucx_units *units, uint64_t number)
{
  return &units->at[number & units->mask];
}

/* A part has ended. */
static inline void ucx_unit_end(struct ucx_units *units, uint64_t number, int32_t status)
{
  struct ucx_unit *unit = ucx_unit_at(units, number);

  if (status != 0 && unit->status == 0)
    unit->status = status;
  if (unit->left > 0)
    unit->left--;
}

/* Has ucx_units_retire() something to do? */
static inline bool ucx_units_are_done(const struct ucx_units *units)
{
  return units->tail != units->head && !units->at[units->tail & units->mask].left;
}

/* Pushes a DONE for each unit at the tail that is complete. */
static inline void ucx_units_retire(struct ucx_units *units, uint32_t opcode,
                                    struct pst_dones *dones)
{
  while (units->tail != units->head) {
    const struct ucx_unit *unit = ucx_unit_at(units, units->tail);
    if (unit->left)
      return;
    pst_dones_push(dones, opcode, unit->status, unit->cookie, unit->count);
    units->tail++;
  }
}

/* All that have not ended do so with this status. */
static inline void ucx_units_fail(struct ucx_units *units, int32_t status)
{
  for (uint64_t i = units->tail; i != units->head; i++) {
    struct ucx_unit *unit = ucx_unit_at(units, i);
    if (unit->left && unit->status == 0)
      unit->status = status;
    unit->left = 0;
  }
}

#endif
