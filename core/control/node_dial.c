/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to nodes: each attempt tries its addresses one after the other. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "listener.h"
#include "node_proto.h"
#include "peer.h"
#include "util/clock.h"
#include "util/limit_remedy.h"

/* A server that strangers crowd hangs up on those who have not shown themselves. */
#define AGAIN_PAUSE_NS (20 * PST_NS_PER_MS)
#define AGAIN_NS PST_NS_PER_S

void node_join_free(struct node_join *join)
{
  if (!join)
    return;
  blob_free(&join->address);
  free(join);
}

void node_tell_gone(struct control *control, uint64_t id, int code, const char *text)
{
  const struct control_node_message gone = {.type = WIRE_BYE, .id = id, .code = code, .text = text};

  assert(!control->quiet);
  control->node.heard(control->node.context, &gone);
}

/* The next address, of which the last one's outcome is the attempt's. Takes `join` over. */
void node_dial(struct control *control, struct node_join *join, int code, const char *why)
{
  char place[SOCKET_TEXT_MAX] = "";
  char text[REPORT_MAX];

  while (join->next < join->targets.count) {
    const struct socket_address *target = &join->targets.at[join->next++];
    struct peer *peer = dialer_connect(control, target, join->is_insecure, &code);
    if (!peer) {
      why = strerror(-code);
      continue;
    }
    peer->node = (struct node_link){
        .state = NODE_JOINING, .id = join->id, .by_ns = join->by_ns, .join = join};
    return;
  }
  if (join->targets.count > 0)
    socket_text(&join->targets.at[join->targets.count - 1], place);
  const char *remedy = limit_remedy(code);
  snprintf(text, sizeof text, "%s: %s%s", place, why,
           remedy[0] ? remedy : "; is a `penstock serve` running there?");
  node_tell_gone(control, join->id, code, text);
  node_join_free(join);
}

/* False: it has had its tries. */
static bool node_dial_later(struct control *control, struct node_join *join, int code,
                            const char *why)
{
  if (join->again_until_ns == 0)
    join->again_until_ns = sooner(join->by_ns, control->now_ns + AGAIN_NS);
  if (code != -ECONNRESET || control->now_ns + AGAIN_PAUSE_NS >= join->again_until_ns)
    return false;
  join->next--;
  join->again_ns = control->now_ns + AGAIN_PAUSE_NS;
  snprintf(join->why, sizeof join->why, "%s", why);
  join->later = control->node.later;
  control->node.later = join;
  return true;
}

static struct node_join *node_dial_take(struct node_join **at)
{
  struct node_join *join = *at;

  *at = join->later;
  join->later = NULL;
  return join;
}

/* When the next is due. */
uint64_t node_dial_tick(struct control *control)
{
  uint64_t next = UINT64_MAX;

  for (struct node_join **at = &control->node.later; *at;) {
    if (control->now_ns < (*at)->again_ns) {
      next = sooner(next, (*at)->again_ns);
      at = &(*at)->later;
      continue;
    }
    struct node_join *join = node_dial_take(at);
    node_dial(control, join, -ECONNRESET, join->why);
  }
  return next;
}

/* It is between two tries. */
void node_dial_command(struct control *control, struct command *command)
{
  struct node_join **at = &control->node.later;

  while (*at && (*at)->id != command->node)
    at = &(*at)->later;
  if (!*at)
    return;
  if (command->type == WIRE_READDRESS) {
    blob_free(&(*at)->address);
    (*at)->address = command->blob;
    command->blob = (struct pst_blob){0};
  } else if (command->type == WIRE_BYE) {
    node_join_free(node_dial_take(at));
  }
}

void node_dial_retry(struct peer *peer, int code, const char *why)
{
  struct node_join *join = peer->node.join;

  if (peer->node.state != NODE_JOINING || !join)
    return;
  peer->node.state = NODE_OVER;
  peer->node.join = NULL;
  if (!node_dial_later(peer->control, join, code, why))
    node_dial(peer->control, join, code, why);
}

void node_dial_close_all(struct control *control)
{
  while (control->node.later)
    node_join_free(node_dial_take(&control->node.later));
}
