/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of a link, and which may follow which. */
#include "stage.h"

#include <assert.h>

#include "link.h"

#define BIT(stage) (1u << UCX_##stage)

/* OVER from a stage with a peer: the line is cut, and nothing can be said. */
static const uint32_t successors[] = {
    [UCX_NEW] = BIT(CONNECTING) | BIT(LOST) | BIT(OVER),
    [UCX_CONNECTING] = BIT(JOINED) | BIT(LEFT) | BIT(LEAVING) | BIT(LOST) | BIT(OVER),
    [UCX_JOINED] = BIT(LEFT) | BIT(LEAVING) | BIT(LOST) | BIT(OVER),
    [UCX_LEFT] = BIT(DRAINED) | BIT(LEAVING) | BIT(LOST) | BIT(OVER),
    [UCX_DRAINED] = BIT(LEAVING) | BIT(LOST) | BIT(OVER),
    [UCX_LEAVING] = BIT(OVER),
    [UCX_LOST] = BIT(GONE) | BIT(OVER),
    [UCX_GONE] = BIT(OVER),
    [UCX_OVER] = 0,
};

static const uint32_t line_successors[] = {
    [UCX_LINE_IDLE] = BIT(LINE_OPEN) | BIT(LINE_CUT),
    [UCX_LINE_OPEN] = BIT(LINE_CUT),
    [UCX_LINE_CUT] = BIT(LINE_HERALD),
    [UCX_LINE_HERALD] = BIT(LINE_CUT),
};

void ucx_enter(struct ucx_link *link, struct ucx_stage stage)
{
  const bool may_follow = successors[link->stage.name] & 1u << stage.name;

  assert(may_follow);
  /* The endpoint and its link part once, before the link leaves. */
  assert(!link->endpoint == (stage.name == UCX_LEAVING || stage.name == UCX_OVER));
  assert((stage.name != UCX_LOST && stage.name != UCX_GONE) || stage.lost.status < 0);
  (void)may_follow;
  link->stage = stage;
}

void ucx_enter_line(struct ucx_link *link, enum ucx_line line)
{
  const bool may_follow = line_successors[link->line] & 1u << line;

  assert(may_follow);
  assert((line != UCX_LINE_OPEN && line != UCX_LINE_HERALD) || (link->ucp && link->ep));
  (void)may_follow;
  link->line = line;
}
