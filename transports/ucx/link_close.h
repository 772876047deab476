/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a link towards its peer and towards UCX. */
#ifndef UCX_LINK_CLOSE_H
#define UCX_LINK_CLOSE_H

#include <stdbool.h>

#include "link.h"

/* Send the BYE and the answer that are owed, as far as UCX has room. */
void ucx_link_say(struct ucx_link *link, struct ucx_leaving *words);
/* Is the BYE of a link that leaves not sent yet? */
static inline bool ucx_link_is_untold(const struct ucx_link *link)
{
  return link->stage.leaving.bye == UCX_OWED || link->controls_under_way;
}

/* May UCX still read or write memory of the host for requests of this link? */
bool ucx_link_uses_memory(const struct ucx_link *link);
/* UCX ends all that it does for the link, which has no ucp_ep and no ucp_worker then. The host's
 * remotes stay, without their keys. Takes a millisecond; never from a callback of UCX. */
void ucx_link_cut(struct ucx_link *link);

#endif
