/* SPDX-License-Identifier: Apache-2.0 */
/* Which end says hello, and that it was heard. */
#include "cm.h"
#include "rc.h"

/* Both ends come to the same answer. */
bool rc_says_hello(const struct pst_endpoint *endpoint)
{
  const struct rc_blob *own = &endpoint->own, *peer = &endpoint->peer;
  int order = memcmp(own->gid, peer->gid, sizeof(own->gid));

  if (endpoint->cm) /* the other one is ready before the kernel tells this one that it is */
    return rc_cm_connects(endpoint);
  return order ? order < 0 : own->qpn < peer->qpn;
}

/* GIDs, MTU, hop limit and queue pairs, for whoever looks for what the ends have agreed on. */
static void tell_connection(struct pst_endpoint *endpoint)
{
  char words[512];

  rc_describe(endpoint, words, sizeof(words));
  RC_LOG(endpoint->device, PST_LOG_DEBUG, "%s: connected: %s", endpoint->label, words);
}

void rc_connected(struct pst_endpoint *endpoint)
{
  /* The peer's hello may be here as soon as the queue pair is in RTR, and is said once. */
  if (endpoint->state == RC_SETTING_UP && !endpoint->reconnect.by_ns)
    endpoint->is_heard_early = true;
  if (endpoint->state != RC_GREETING || endpoint->reconnect.by_ns)
    return;
  endpoint->state = RC_CONNECTED;
  endpoint->tell_connected = true;
  tell_connection(endpoint);
  endpoint->heard_ns = rc_now_ns(endpoint->device);
  rc_due(endpoint->worker, 0);
  rc_pend(endpoint);
}
